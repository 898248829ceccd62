"""The largest id plus one, inserted if absent: no counter document. For low rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Generic

from bson.int64 import Int64

from tallyglass.allocate.engine.allocator import AsyncAllocator, C, Reporting, SyncAllocator
from tallyglass.allocate.engine.attempts import Deadlines, RetryBudget, call_with_retry
from tallyglass.allocate.engine.checks import whole
from tallyglass.allocate.engine.handles import AnyAsyncCollection, Documents, SyncCollection, prepare
from tallyglass.allocate.engine.meter import Hook
from tallyglass.allocate.engine.steps import Steps
from tallyglass.allocate.errors import Exhausted
from tallyglass.allocate.insert.insertion import Inserter
from tallyglass.allocate.layout import value_at, wrong_type
from tallyglass.counters.limits import INT64_MAX


class _MaxPlusOneCore(Inserter):
    first: int

    def propose(self, budget: RetryBudget) -> Steps[Any]:
        highest = yield from highest_in(self.collection, self.field, self.where, budget)
        if highest == INT64_MAX:
            raise Exhausted(f"{self.where} is at the end of int64.", maximum=INT64_MAX)
        return Int64(self.first if highest is None else max(self.first, highest + 1))


def highest_in(collection: Documents, field: str, where: str, budget: RetryBudget) -> Steps[int | None]:
    """The largest number in a field, by one read of its index; None if no document has one."""
    document = yield from call_with_retry(
        lambda: collection.find_one({field: {"$type": "number"}}, {field: 1}, sort=[(field, -1)]),
        where=where,
        budget=budget,
    )
    if document is None:
        return None
    value = value_at(document, field)
    if not isinstance(value, int):
        raise wrong_type(value, field, where)
    return int(value)


class MaxPlusOneCalls(Reporting, Generic[C]):
    """The arguments of both classes."""

    _asynchronous: ClassVar[bool]
    _core: _MaxPlusOneCore

    def __init__(
        self,
        collection: C,
        field: str = "_id",
        *,
        first: int = 1,
        tries: int = 50,
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
    ) -> None:
        prepared = prepare(collection, asynchronous=self._asynchronous, inserts=True)
        self._core = _MaxPlusOneCore(prepared, field, tries, deadlines, on_event)
        self._core.first = whole(first, "first")


class MaxPlusOne(SyncAllocator, MaxPlusOneCalls[SyncCollection]):
    """Insert documents under the largest id plus one, with a MongoClient. Thread-safe, fork-safe.

    When to use: some inserts a minute from few writers, where no counter document is wanted. For numbers without gaps
    that also survive deletions use :class:`~tallyglass.allocate.insert.gapless.GaplessInsert`.
    Promise: the index on ``field`` keeps ids unique (it is verified before the first insert); the id of the
    *last* document is reused once that document is deleted.
    Cost: one read and one insert a document; with ``k`` writers at once up to ``k`` tries each.
    """

    # Generated from AsyncMaxPlusOne by packaging/unasync.py.
    def insert(self, document: Mapping[str, Any], *, session: Any = None) -> int:
        """Insert a copy of ``document`` with an id in the field; returns that id. Raises CollisionLimit, NotUnique."""
        return int(self._run(self._core.insert(document, session)))


class AsyncMaxPlusOne(AsyncAllocator, MaxPlusOneCalls[AnyAsyncCollection]):
    """:class:`MaxPlusOne` for an AsyncMongoClient or Motor's AsyncIOMotorClient."""

    async def insert(self, document: Mapping[str, Any], *, session: Any = None) -> int:
        """Insert a copy of ``document`` with an id in the field; returns that id. Raises CollisionLimit, NotUnique."""
        return int(await self._run(self._core.insert(document, session)))
