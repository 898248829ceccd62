"""The largest id plus one, inserted if it is not present: no counter document at all. For low rates."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

from bson.int64 import Int64

from tallyglass.allocate.engine.attempts import Deadlines, Patience, asked
from tallyglass.allocate.engine.handles import fit
from tallyglass.allocate.engine.loops import HomeLoop
from tallyglass.allocate.engine.meter import Hook, Meter, Stats
from tallyglass.allocate.engine.steps import Call, Pause, run, run_async
from tallyglass.allocate.errors import Exhausted
from tallyglass.allocate.insert.insertion import Inserter, Target
from tallyglass.allocate.layout import INT64_MAX, dig, refuse_type

if TYPE_CHECKING:
    from motor.motor_asyncio import AsyncIOMotorCollection
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.collection import Collection


class _Core(Inserter):
    def __init__(self, target: Target, first: int) -> None:
        super().__init__(target)
        self.first = first

    def propose(self, patience: Patience) -> Generator[Call | Pause, Any, Any]:
        highest = yield from highest_in(self.target.collection, self.target.field, self.target.where, patience)
        if highest == INT64_MAX:
            raise Exhausted(f"{self.target.where} is at the end of int64.", maximum=INT64_MAX)
        return Int64(self.first if highest is None else max(self.first, highest + 1))


def highest_in(
    collection: Any, field: str, where: str, patience: Patience, query: Mapping[str, Any] | None = None
) -> Generator[Call | Pause, Any, int | None]:
    """The largest number in a field, by one read of its index; None where no document has one."""
    wanted = {field: {"$type": "number", **(query or {})}}
    call = Call(collection, "find_one", (wanted, {field: 1}), options={"sort": [(field, -1)]})
    document = yield from asked(call, where=where, patience=patience)
    if document is None:
        return None
    value = dig(document, field)
    if not isinstance(value, int):
        raise refuse_type(value, field, where)
    return int(value)


class MaxPlusOne:
    """Insert documents under the largest id plus one, with a MongoClient. Thread-safe, fork-safe.

    When to use: some inserts a minute from few writers, where ids without gaps matter more than speed.
    Promise: the unique index on ``field`` keeps ids apart (it is verified before the first insert); the id of the
    *last* document comes again once that document is deleted.
    Cost: one read and one insert a document; with ``k`` writers at once up to ``k`` tries each.
    """

    def __init__(
        self,
        collection: Collection[Any],
        field: str = "_id",
        *,
        first: int = 1,
        tries: int = 50,
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
    ) -> None:
        fitted = fit(collection, asynchronous=False)
        self._core = _Core(Target(fitted, field, tries, deadlines or Deadlines(), Meter(on_event)), first)

    def insert(self, document: Mapping[str, Any], *, session: Any = None) -> int:
        """Insert a copy of ``document`` with an id in the field; that id. Raises CollisionLimit, NotUnique."""
        return int(run(self._core.insert(document, session)))

    def stats(self) -> Stats:
        """What this allocator did in this process."""
        return self._core.target.meter.stats()


class AsyncMaxPlusOne:
    """:class:`MaxPlusOne` for an AsyncMongoClient or Motor's AsyncIOMotorClient."""

    def __init__(
        self,
        collection: AsyncCollection[Any] | AsyncIOMotorCollection[Any],
        field: str = "_id",
        *,
        first: int = 1,
        tries: int = 50,
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
    ) -> None:
        fitted = fit(collection, asynchronous=True)
        self._core = _Core(Target(fitted, field, tries, deadlines or Deadlines(), Meter(on_event)), first)
        self._home = HomeLoop()

    async def insert(self, document: Mapping[str, Any], *, session: Any = None) -> int:
        """Insert a copy of ``document`` with an id in the field; that id. Raises CollisionLimit, NotUnique."""
        self._home.check()
        return int(await run_async(self._core.insert(document, session)))

    def stats(self) -> Stats:
        """What this allocator did in this process."""
        return self._core.target.meter.stats()
