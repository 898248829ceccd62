"""Uniqueness in the database itself: the unique index, and whether it holds for the whole collection.

Every strategy promises ids that are unique among those it hands out; only the database can refuse an id that
another application wrote. On a sharded collection a unique index must begin with the shard key; where it cannot,
:mod:`tallyglass.allocate.insert.proxy` keeps the ids unique in a separate collection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pymongo import ReadPreference
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError

from tallyglass.allocate.engine.attempts import Deadlines, RetryBudget, out_of_time, read_with_retry
from tallyglass.allocate.engine.checks import by_id, field_name
from tallyglass.allocate.engine.handles import Documents, name_of, prepare
from tallyglass.allocate.engine.outcome import ServerCode
from tallyglass.allocate.engine.steps import Steps, call, run, run_async
from tallyglass.allocate.errors import NotUnique
from tallyglass.allocate.insert.insertion import is_unique_on, place
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
    sharded, or if this user may not read it.
    """

    kept: bool
    reason: str
    index: str = ""
    shard_key: tuple[str, ...] | None = None


def judge_uniqueness(
    field: str, indexes: Sequence[Mapping[str, Any]], shard_key: Mapping[str, Any] | None
) -> Uniqueness:
    """The verdict from listIndexes and ``config.collections``. Pure."""
    keys = tuple(shard_key) if shard_key is not None else None
    found = next((index for index in indexes if is_unique_on(index, field)), None)
    if keys is not None and keys != (field,):
        return Uniqueness(
            False,
            f"The collection is sharded by {clean(', '.join(keys))}: each shard keeps {clean(field)} unique by itself "
            "at most. Use the proxy collection.",
            shard_key=keys,
        )
    if keys is not None and shard_key is not None and shard_key[field] == "hashed":
        return Uniqueness(False, "A hashed shard key cannot be unique. Use the proxy collection.", shard_key=keys)
    if found is None:
        return Uniqueness(False, f"No unique index on {clean(field)} alone covers every document.", shard_key=keys)
    return Uniqueness(True, "A unique index covers every document.", clean(str(found["name"])), keys)


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
    budget = RetryBudget(Deadlines(), collection.database.client)
    indexes = yield from read_with_retry(collection.list_indexes, where=place(collection, field), budget=budget)
    shard_key = yield from _shard_key(collection, budget)
    return judge_uniqueness(field, indexes, shard_key)


def _shard_key(collection: Documents, budget: RetryBudget) -> Steps[Mapping[str, Any] | None]:
    """The shard key, as stored on a router (``config.collections``) or a shard (``config.cache.collections``)."""
    config = collection.database.client.get_database("config", read_preference=ReadPreference.PRIMARY)
    wanted = by_id(collection.full_name)
    try:
        row = yield from call(lambda: config.collections.find_one(wanted), budget.call_seconds())
        if row is None:
            row = yield from call(lambda: config["cache.collections"].find_one(wanted), budget.call_seconds())
    except OperationFailure as error:
        if error.code == ServerCode.UNAUTHORIZED:
            return None
        raise out_of_time(error, name_of(collection), 0) from error
    except PyMongoError as error:
        raise out_of_time(error, name_of(collection), 0) from error
    if row is None or row.get("dropped") or row.get("unsplittable"):
        return None
    key: Mapping[str, Any] = row["key"]
    return key


def _ensure(collection: Documents, field: str) -> Steps[Uniqueness]:
    found = yield from _verify(collection, field)
    if found.kept:
        return found
    where = place(collection, field)
    try:
        yield from call(lambda: collection.create_index([(field, 1)], unique=True), _BUILD_SECONDS)
    except PyMongoError as error:
        reason = clean(str(error), 200)
        if isinstance(error, DuplicateKeyError):
            raise NotUnique(f"{where} already holds a value twice.", reason) from error
        if isinstance(error, OperationFailure):
            raise NotUnique(f"The server cannot keep {where} unique.", reason) from error
        raise out_of_time(error, where, 0) from error
    found = yield from _verify(collection, field)
    if not found.kept:
        raise NotUnique(f"{where} is not kept unique.", found.reason)
    return found
