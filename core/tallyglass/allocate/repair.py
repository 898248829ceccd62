"""Detect a counter that is behind its collection, and move it forward, never back.

After a restore, a rollback or an import a counter may be lower than the ids in its collection. The next insert
then collides, or, without a unique index, repeats an id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from tallyglass.allocate.counter import AsyncCounter, Counter, CounterCore
from tallyglass.allocate.engine.attempts import Deadlines, RetryBudget, call_with_retry
from tallyglass.allocate.engine.checks import by_id, field_name, whole
from tallyglass.allocate.engine.handles import Documents, place, prepare
from tallyglass.allocate.engine.steps import Steps, run, run_async
from tallyglass.allocate.errors import CounterMissing
from tallyglass.allocate.insert.absent import highest_in
from tallyglass.allocate.layout import INTEGER_TYPES
from tallyglass.allocate.scopes import ScopeCore
from tallyglass.counters.limits import INT64_MAX
from tallyglass.mongo.mongosh import update_one

if TYPE_CHECKING:
    from motor.motor_asyncio import AsyncIOMotorCollection
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.collection import Collection


@dataclass(frozen=True, slots=True)
class Drift:
    """A counter compared with its collection.

    ``next_id`` is the next id that the counter hands out; ``highest`` the largest id in the collection, None if it
    holds none. ``command`` is mongosh text that repairs the counter, empty if there is nothing to repair, or if the
    counter cannot go past the largest id.
    """

    next_id: int
    highest: int | None
    command: str = ""

    @property
    def drift(self) -> int:
        """Ids issued beyond the largest one in the collection; negative when the counter is behind."""
        return 0 if self.highest is None else self.next_id - 1 - self.highest

    @property
    def behind(self) -> bool:
        """Whether the next id is already taken."""
        return self.drift < 0


def verify(counter: Counter, collection: Collection[Any], field: str = "_id") -> Drift:
    """Compare ``counter`` with the largest number in ``field``: one read each. An index on the field is needed."""
    return run(_verify(counter.core, prepare(collection, asynchronous=False), field))


async def verify_async(
    counter: AsyncCounter, collection: AsyncCollection[Any] | AsyncIOMotorCollection[Any], field: str = "_id"
) -> Drift:
    """:func:`verify` for asynchronous clients."""
    return await run_async(_verify(counter.core, prepare(collection, asynchronous=True), field))


def advance_to(counter: Counter, next_id: int) -> int:
    """Make ``next_id`` the next id of ``counter``, unless the counter is past it; returns the resulting id.

    Uses only ``$max``, so it never moves back and is safe to repeat. Leave a margin for ranges that other
    processes still hold: at most three steps each. A scope of Counters that is missing is created: a restore to
    before its first use removes it. Raises CounterMissing, CounterTypeError; AllocationRefused for a retired period.
    """
    return run(_advance(counter.core, next_id))


async def advance_to_async(counter: AsyncCounter, next_id: int) -> int:
    """:func:`advance_to` for asynchronous clients."""
    return await run_async(_advance(counter.core, next_id))


def _verify(core: CounterCore, collection: Documents, field: str) -> Steps[Drift]:
    field_name(field, "field")
    budget = RetryBudget(Deadlines(), collection.database.client)
    # The collection first: ids taken between the two reads make the counter look further ahead, never behind.
    highest = yield from highest_in(collection, field, place(collection, field), budget)
    next_id = yield from core.peek(budget)
    if highest is None or next_id > highest:
        return Drift(next_id, highest)
    stored = core.layout.stored(highest + 1)
    return Drift(next_id, highest, _command(core, stored) if stored <= INT64_MAX else "")


def _advance(core: CounterCore, next_id: int) -> Steps[int]:
    budget = RetryBudget(Deadlines(), core.collection.database.client)
    layout = core.layout
    stored = whole(layout.stored(whole(next_id, "next_id")), "the number to be stored")
    if isinstance(core, ScopeCore):
        yield from core.create(next_id)
    integer = {**by_id(core.key), **layout.outside_arrays(), layout.field: {"$type": list(INTEGER_TYPES)}}
    result = yield from call_with_retry(
        lambda: core.collection.update_one(integer, {"$max": {layout.field: Int64(stored)}}),
        where=core.where,
        budget=budget,
    )
    if result.matched_count == 0:
        yield from core.peek(budget)
        raise CounterMissing(f"The counter {core.where} does not exist.")
    return (yield from core.peek(budget))


def _command(core: CounterCore, stored: int) -> str:
    collection = core.collection
    ns = f"{collection.database.name}.{collection.name}"
    change = {"$max": {core.layout.field: Int64(stored)}}
    return update_one(ns, {"_id": core.key}, change, upsert=isinstance(core, ScopeCore))
