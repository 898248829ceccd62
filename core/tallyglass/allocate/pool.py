"""Many counter documents, each with its own span of ids: writers spread over them instead of queueing at one."""

from __future__ import annotations

from typing import Any, ClassVar, Generic

from pymongo import UpdateOne, WriteConcern

from tallyglass.allocate.engine.allocator import C
from tallyglass.allocate.engine.attempts import (
    Deadlines,
    RetryBudget,
    call_with_retry,
    out_of_time,
    read_with_retry,
)
from tallyglass.allocate.engine.checks import by_id
from tallyglass.allocate.engine.handles import (
    AnyAsyncCollection,
    Documents,
    SyncCollection,
    name_of,
    prepare,
)
from tallyglass.allocate.engine.meter import EventKind, Hook, Stats
from tallyglass.allocate.engine.steps import Steps
from tallyglass.allocate.errors import CounterMissing, PoolEmpty, PoolOverlap, again
from tallyglass.allocate.layout import granted, increment, number_in
from tallyglass.allocate.pool_map import PoolDocument, PoolLayout, PoolMap, check_apart
from tallyglass.allocate.ranges import AsyncRanges, RangeCalls, RangeCore, Ranges
from tallyglass.text import clean, plural


class PoolCore(RangeCore):
    """The steps of each operation on a pool."""

    def __init__(
        self, collection: Documents, layout: PoolLayout, deadlines: Deadlines | None, on_event: Hook | None
    ) -> None:
        super().__init__(collection, name_of(collection), deadlines, on_event)
        self.layout = layout

    @property
    def space(self) -> int:
        """How many ids there can be at most."""
        return self.layout.documents * self.layout.span

    def reset_after_fork(self) -> None:
        """Forget the documents in the child of a fork; the next call reads them again."""
        super().reset_after_fork()
        self._map = PoolMap()

    def take(self, n: int, *, least: int | None = None, session: Any = None) -> Steps[range]:
        """The steps that take ``n`` ids from one document, or as few as ``least`` at the end of a span."""
        budget = yield from self._begin(n, session)
        least = n if least is None else least
        fresh = False
        while True:
            if self._stopped:
                raise again(self._stopped)
            row = self._map.choose(least)
            if row is None:
                if fresh and self._map.rows:
                    raise self._empty(n, self._map.room())
                # It was not read yet, or may have been extended or deleted since.
                yield from self._load(budget)
                fresh = True
                continue
            ids = yield from self._take_from(row, min(n, max(least, row.room)), session, budget)
            if ids is not None:
                return ids
            # Without a pause: the next request mostly goes to another document.
            if budget.spent():
                raise out_of_time("No request fitted the document that it went to.", self.where, budget.burned)

    def create(self) -> Steps[int]:
        """The steps that create the missing documents; they return how many this call created."""
        budget = self.budget()
        documents = yield from self._read(budget)
        existing = {document["_id"]: document for document in documents if isinstance(document["_id"], str)}
        layout = self.layout
        missing = []
        for n in range(layout.documents):
            found = existing.get(layout.key(n))
            if found is None:
                missing.append(n)
            elif found.get(layout.maximum) != layout.start(n) + layout.span:
                raise PoolOverlap(
                    f"{self.where} {layout.key(n)} ends at {clean(repr(found.get(layout.maximum)), 80)}, "
                    f"not at {layout.start(n) + layout.span}.",
                    "This pool was made with another span or first id: use those, or another collection.",
                )
        if missing and len(missing) != layout.documents - missing[0]:
            raise CounterMissing(
                f"{self.where} {layout.key(missing[0])} was deleted: later documents of its pool exist.",
                f"Its ids may be in use. Restore it, or insert it with its {layout.maximum}, and a "
                f"{layout.counter.field} above them.",
            )
        self._map.load(layout, documents, self.where)
        new = (PoolDocument(layout.key(n), layout.start(n + 1), layout.start(n), layout.span) for n in missing)
        check_apart([*self._map.rows.values(), *new], self.where)
        made = yield from self._insert(missing, budget)
        yield from self._load(budget)
        return made

    def stats(self) -> Stats:
        """Statistics of this pool in this process; ``full`` counts the documents known to be full."""
        return self.meter.stats(full=self._map.full)

    def _insert(self, missing: list[int], budget: RetryBudget) -> Steps[int]:
        if not missing:
            return 0
        writes = [
            UpdateOne(by_id(self.layout.key(n)), {"$setOnInsert": self.layout.new_document(n)}, upsert=True)
            for n in missing
        ]
        result = yield from call_with_retry(
            # In their order, so that one that is missing before another was deleted.
            lambda: self.collection.bulk_write(writes),
            where=self.where,
            budget=budget,
        )
        return result.upserted_count

    def _take_from(self, row: PoolDocument, n: int, session: Any, budget: RetryBudget) -> Steps[range | None]:
        """``n`` ids of one document; None when it turned out to have no room for them."""
        floor = row.seen
        where = f"{self.where} {clean(repr(row.key), 80)}"
        request = increment(self.layout.counter, row.key, n, row.end - 1, **{self.layout.maximum: row.end})
        reply = yield from self._increment(request, where, session, budget)
        if reply is None:
            yield from self._refresh(row, where, budget)
            return None
        ids = granted(self.layout.counter, request, reply, where)
        self._check(floor, ids.start, where, burned=n, note=clean(repr(row.key), 80))
        self._note(row, ids.stop)
        self._issue(ids)
        return ids

    def _refresh(self, row: PoolDocument, where: str, budget: RetryBudget) -> Steps[None]:
        """Read a document again after it had no room for a request. After a failover it may be older than was seen."""
        document = yield from call_with_retry(
            lambda: self.collection.find_one(by_id(row.key)), where=where, budget=budget
        )
        if document is None:
            self._map.remove(row)
            return
        start = self.layout.counter.next_id(number_in(self.layout.counter, document, where))
        end = document.get(self.layout.maximum)
        if end == row.end:
            self._note(row, start)
        else:
            yield from self._load(budget)

    def _note(self, row: PoolDocument, next_id: int) -> None:
        if self._map.update(row, next_id=next_id):
            self.meter.emit(EventKind.FULL, note=clean(repr(row.key), 80))

    def _read(self, budget: RetryBudget) -> Steps[list[dict[str, Any]]]:
        fields = {self.layout.counter.field: 1, self.layout.maximum: 1}
        wanted = {self.layout.maximum: {"$exists": True}}
        return (
            yield from read_with_retry(lambda: self.collection.find(wanted, fields), where=self.where, budget=budget)
        )

    def _load(self, budget: RetryBudget) -> Steps[None]:
        documents = yield from self._read(budget)
        if not documents:
            raise CounterMissing(
                f"There is no pool in {self.where}: no document has {self.layout.maximum}.",
                "Call create() once, with a first id above every id that was ever used.",
            )
        self._map.load(self.layout, documents, self.where)

    def _empty(self, n: int, room: int) -> PoolEmpty:
        return PoolEmpty(
            f"No document of the pool {self.where} has {plural(n, 'id')} left; "
            f"{plural(room, 'id is', 'ids are')} left in all.",
            "Add documents with spans above the existing ones, or take smaller ranges.",
            remaining=room,
        )


class PoolCalls(RangeCalls, Generic[C]):
    """The arguments of both classes."""

    _asynchronous: ClassVar[bool]
    core: PoolCore

    def __init__(
        self,
        collection: C,
        *,
        layout: PoolLayout | None = None,
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
        write_concern: WriteConcern | None = None,
        unsafe_write_concern: WriteConcern | None = None,
    ) -> None:
        prepared = prepare(collection, write_concern, unsafe_write_concern, asynchronous=self._asynchronous)
        self.core = PoolCore(prepared, layout or PoolLayout(), deadlines, on_event)


class Pool(Ranges, PoolCalls[SyncCollection]):
    """Ids from a pool of counter documents, with a :class:`~pymongo.MongoClient`. Thread-safe, signal-safe, fork-safe.

    When to use: many processes take ranges at once and one document is the bottleneck, or ids should not reveal
    how many there are. Promise: no id twice; ids of one range are consecutive, ranges come from random places. A
    document never rolls over; the last part of a span is used up by :meth:`take_up_to`.
    Cost: one majority write a call, spread over ``layout.documents`` documents, and one read of them all at the
    first call.

    The documents are found by their ``MAX_VALUE``, whatever their ``_id``: keep one pool in a collection. The
    other arguments are those of :class:`~tallyglass.allocate.counter.Counter`.
    """

    # Generated from AsyncPool by packaging/unasync.py.
    def create(self) -> int:
        """Create the missing documents in one bulk write; returns how many were created.

        Existing ones are not changed; safe when several processes call it at once. Raises PoolOverlap if
        existing documents belong to another layout; CounterMissing if one before another was deleted. Never delete
        one, not even a full one: where it was the last, its ids would be handed out again.
        """
        return self._run(self.core.create())


class AsyncPool(AsyncRanges, PoolCalls[AnyAsyncCollection]):
    """:class:`Pool` for an AsyncMongoClient or Motor's AsyncIOMotorClient. Belongs to one event loop."""

    async def create(self) -> int:
        """Create the missing documents in one bulk write; returns how many were created.

        Existing ones are not changed; safe when several processes call it at once. Raises PoolOverlap if
        existing documents belong to another layout; CounterMissing if one before another was deleted. Never delete
        one, not even a full one: where it was the last, its ids would be handed out again.
        """
        return await self._run(self.core.create())
