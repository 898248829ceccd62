"""Uniqueness in the database itself: the unique index, and whether it holds for the whole collection.

Every strategy promises ids that are unique among those it hands out; only the database can refuse an id that
another application wrote. On a sharded collection a unique index must begin with the shard key; where it cannot,
:mod:`tallyglass.allocate.insert.proxy` keeps the ids unique in a separate collection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pymongo import ReadPreference
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError

from tallyglass.allocate.engine.attempts import (
    Deadlines,
    RetryBudget,
    call_with_retry,
    out_of_time,
    read_with_retry,
)
from tallyglass.allocate.engine.checks import by_id, field_name
from tallyglass.allocate.engine.handles import Documents, place, prepare
from tallyglass.allocate.engine.steps import Steps, call, run, run_async
from tallyglass.allocate.errors import AllocationRefused, NotUnique
from tallyglass.text import clean

if TYPE_CHECKING:
    from motor.motor_asyncio import AsyncIOMotorCollection
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.collection import Collection

_BUILD_SECONDS = 600.0
"""Seconds for the build of an index on a large collection."""


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """Whether the database keeps a field unique, and why or why not.

    ``index`` is the index that does, empty if none does. ``shard_key`` is None if the collection is not
    sharded, or if this user may not read it (a collection that is known to be sharded then keeps no ``_id`` unique).
    """

    kept: bool
    reason: str
    index: str = ""
    shard_key: tuple[str, ...] | None = None


def judge_uniqueness(
    field: str,
    indexes: Sequence[Mapping[str, Any]],
    shard_key: Mapping[str, Any] | None,
    stats: Mapping[str, Any] = MappingProxyType({}),
) -> Uniqueness:
    """The verdict from listIndexes, ``config.collections`` and collStats; the latter are empty if unreadable. Pure."""
    keys = tuple(shard_key) if shard_key is not None else None
    if keys is None and stats.get("sharded") and field == "_id":
        return Uniqueness(False, "The collection is sharded, and this user may not read by what: config.collections.")
    if keys is not None and keys != (field,):
        return Uniqueness(
            False,
            f"The collection is sharded by {clean(', '.join(keys))}: each shard keeps {clean(field)} unique by itself "
            "at most. Use the proxy collection.",
            shard_key=keys,
        )
    name = next((str(index["name"]) for index in indexes if is_unique_on(index, {field})), "")
    if field == "_id" and not indexes and "timeseries" not in stats:
        name = "_id_"  # of a collection that its first insert creates
    if not name:
        return Uniqueness(False, f"No unique index on {clean(field)} alone covers every document.", shard_key=keys)
    # listIndexes does not tell them apart, but until the end of its build an index refuses nothing.
    if any(name in part.get("indexBuilds", ()) for part in (stats, *stats.get("shards", {}).values())):
        return Uniqueness(False, f"The unique index {clean(name)} is still being built.", shard_key=keys)
    return Uniqueness(True, "A unique index covers every document.", clean(name), keys)


def is_unique_on(index: Mapping[str, Any], fields: Set[str]) -> bool:
    """Whether an index, as listIndexes describes it, makes ``fields`` unique over all documents that have them."""
    if set(index["key"]) != fields:
        return False
    return bool(index.get("unique") or fields == {"_id"}) and "partialFilterExpression" not in index


def verify_unique(collection: Collection[Any], field: str) -> Uniqueness:
    """Whether the database keeps ``field`` unique over the whole collection."""
    return run(_verify(prepare(collection, asynchronous=False), field))


async def verify_unique_async(collection: AsyncCollection[Any] | AsyncIOMotorCollection[Any], field: str) -> Uniqueness:
    """:func:`verify_unique` for asynchronous clients."""
    return await run_async(_verify(prepare(collection, asynchronous=True), field))


def ensure_unique(collection: Collection[Any], field: str) -> Uniqueness:
    """Create the unique index if it is missing, and verify it.

    Raises NotUnique when documents already repeat a value, or when the shard key does not allow it.
    """
    return run(_ensure(prepare(collection, asynchronous=False), field))


async def ensure_unique_async(collection: AsyncCollection[Any] | AsyncIOMotorCollection[Any], field: str) -> Uniqueness:
    """:func:`ensure_unique` for asynchronous clients."""
    return await run_async(_ensure(prepare(collection, asynchronous=True), field))


def _verify(collection: Documents, field: str) -> Steps[Uniqueness]:
    field_name(field, "field")
    return (yield from uniqueness(collection, field, RetryBudget(Deadlines(), collection.database.client)))


def uniqueness(collection: Documents, field: str, budget: RetryBudget) -> Steps[Uniqueness]:
    """The steps that find out whether the database keeps ``field`` unique over the whole collection."""
    where, wanted = place(collection, field), by_id(collection.full_name)
    config = collection.database.client.get_database("config", read_preference=ReadPreference.PRIMARY)
    indexes = yield from read_with_retry(collection.list_indexes, where=where, budget=budget)
    # After the indexes: a build that they show is over, or in these.
    stats = yield from _if_allowed(lambda: collection.database.command("collStats", collection.name), where, budget)
    # As stored on a router, and on a shard.
    row = yield from _if_allowed(lambda: config.collections.find_one(wanted), where, budget)
    row = row or (yield from _if_allowed(lambda: config["cache.collections"].find_one(wanted), where, budget))
    sharded = row and not (row.get("dropped") or row.get("unsplittable"))
    return judge_uniqueness(field, indexes, row["key"] if row and sharded else None, stats or {})


def _if_allowed(
    operation: Callable[[], Mapping[str, Any] | None], where: str, budget: RetryBudget
) -> Steps[Mapping[str, Any] | None]:
    """The reply of a read; None where the server refuses it: no privilege, or another product."""
    try:
        return (yield from call_with_retry(operation, where=where, budget=budget))
    except AllocationRefused:
        return None


def _ensure(collection: Documents, field: str) -> Steps[Uniqueness]:
    found = yield from _verify(collection, field)
    where = place(collection, field)
    if found.kept or field == "_id":
        return kept(found, where)
    try:
        yield from call(lambda: collection.create_index([(field, 1)], unique=True), _BUILD_SECONDS)
    except PyMongoError as error:
        reason = clean(str(error), 200)
        if isinstance(error, DuplicateKeyError):
            raise NotUnique(f"{where} already holds a value twice.", reason) from error
        if isinstance(error, OperationFailure):
            raise NotUnique(f"The server cannot keep {where} unique.", reason) from error
        raise out_of_time(error, where, 0) from error
    return kept((yield from _verify(collection, field)), where)


def kept(found: Uniqueness, where: str) -> Uniqueness:
    """``found``, if the database keeps the field unique. Raises NotUnique."""
    if not found.kept:
        raise NotUnique(f"Two documents can have the same {where}.", found.reason)
    return found
