"""A single counter document: allocates one id or a range of any size with each call.

Use it directly for low rates or for ids in call order; wrap it in
:class:`~tallyglass.allocate.cache.cached.Cached` for anything faster. Each call is one majority write to one document,
so concurrent callers queue at the server.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, Self

from pymongo import WriteConcern

from tallyglass.allocate.engine.allocator import C
from tallyglass.allocate.engine.attempts import Deadlines, RetryBudget, call_with_retry, out_of_time
from tallyglass.allocate.engine.checks import by_id, whole
from tallyglass.allocate.engine.checks import key as checked_key
from tallyglass.allocate.engine.handles import (
    AnyAsyncCollection,
    Documents,
    SyncCollection,
    name_of,
    prepare,
)
from tallyglass.allocate.engine.meter import Hook
from tallyglass.allocate.engine.steps import Steps
from tallyglass.allocate.errors import CounterMissing, Exhausted, again
from tallyglass.allocate.layout import MANUAL, Layout, granted, increment, number_in
from tallyglass.allocate.ranges import AsyncRanges, RangeCalls, RangeCore, Ranges
from tallyglass.counters.limits import INT64_MIN
from tallyglass.text import clean, plural


class CounterCore(RangeCore):
    """The steps of each operation on one counter document."""

    def __init__(
        self,
        collection: Documents,
        key: object,
        layout: Layout,
        highest: int | None,
        deadlines: Deadlines | None,
        on_event: Hook | None,
    ) -> None:
        where = f"{name_of(collection)} {clean(repr(checked_key(key)), 80)}"
        super().__init__(collection, where, deadlines, on_event)
        self.key = key
        self.layout = layout
        limit = layout.highest_id()
        self.highest = limit if highest is None else min(limit, whole(highest, "highest"))
        self._seen = INT64_MIN

    @property
    def space(self) -> int:
        """How many ids there can be at most."""
        return max(1, self.highest - self.layout.first + 1)

    def take(self, n: int, *, least: int | None = None, session: Any = None) -> Steps[range]:
        """The steps that take ``n`` ids, or as few as ``least`` when fewer are left below the ceiling."""
        budget = yield from self._begin(n, session)
        wanted = n
        while True:
            floor = self._floor()
            ids = yield from self._request(wanted, session, budget)
            if ids is not None:
                self._advance(floor, ids)
                return ids
            wanted = yield from self._smaller(n, n if least is None else least, budget)
            pause = budget.pause()
            if pause is None:
                raise out_of_time("No request fitted the document that was read.", self.where, budget.burned)
            yield pause

    def create(self, first: int | None = None) -> Steps[bool]:
        """The steps that create the document if it is missing; they return whether this call created it."""
        start = self.layout.first if first is None else whole(first, "first")
        stored = whole(self.layout.stored(start), "the number to be stored")
        new = self.layout.new_document(self.key, self.layout.next_id(stored))
        result = yield from call_with_retry(
            lambda: self.collection.update_one(by_id(self.key), {"$setOnInsert": new}, upsert=True),
            where=self.where,
            budget=self.budget(),
        )
        return result.upserted_id is not None

    def peek(self, budget: RetryBudget | None = None) -> Steps[int]:
        """The steps that read the next id with majority read concern. Never allocate from it."""
        document = yield from call_with_retry(
            lambda: self.collection.find_one(by_id(self.key)), where=self.where, budget=budget or self.budget()
        )
        return self._next_in(document)

    def _next_in(self, document: dict[str, Any] | None) -> int:
        if document is None:
            raise CounterMissing(
                f"The counter {self.where} does not exist.",
                "Call create() once, with the first unused id. Restarting at 1 would repeat ids.",
            )
        return self.layout.next_id(number_in(self.layout, document, self.where))

    def _request(self, n: int, session: Any, budget: RetryBudget) -> Steps[range | None]:
        """Take ``n`` ids in one call; None if no document matched."""
        request = increment(self.layout, self.key, n, self.highest)
        before = yield from self._increment(request, self.where, session, budget)
        return None if before is None else granted(self.layout, request, before, self.where)

    def _smaller(self, n: int, least: int, budget: RetryBudget) -> Steps[int]:
        """How many ids to request after a call matched no document: ``n`` again, or the rest. Raises Exhausted."""
        # After a failover this may be older than what was seen: only a reply to a write shows that a counter went back.
        start = yield from self.peek(budget)
        remaining = max(0, self.highest - start + 1)
        if remaining < least:
            raise Exhausted(
                f"{self.where} has {plural(remaining, 'id')} left, and {plural(n, 'id was', 'ids were')} requested.",
                "Raise its ceiling, or use another counter.",
                remaining=remaining,
                maximum=self.highest,
            )
        return min(n, remaining)

    def _floor(self) -> int:
        if self._stopped:
            raise again(self._stopped)
        return self._seen

    def _advance(self, floor: int, ids: range) -> None:
        # The floor dates from before the request: replies to different threads may arrive out of order.
        self._check(floor, ids.start, self.where, burned=len(ids))
        # When two threads race here, the smaller value may remain: the next check is then less strict.
        if ids.stop > self._seen:
            self._seen = ids.stop
        self._issue(ids)


class CounterCalls(RangeCalls, Generic[C]):
    """The arguments of both classes."""

    _asynchronous: ClassVar[bool]
    core: CounterCore

    def __init__(
        self,
        collection: C,
        key: object,
        *,
        layout: Layout = MANUAL,
        highest: int | None = None,
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
        write_concern: WriteConcern | None = None,
        unsafe_write_concern: WriteConcern | None = None,
    ) -> None:
        prepared = prepare(collection, write_concern, unsafe_write_concern, asynchronous=self._asynchronous)
        self.core = CounterCore(prepared, key, layout, highest, deadlines, on_event)

    @classmethod
    def _over(cls, core: CounterCore) -> Self:
        """A counter that takes ids by the steps of ``core``."""
        made = cls.__new__(cls)
        made.core = core
        return made


class Counter(Ranges, CounterCalls[SyncCollection]):
    """Ids from one counter document, with a :class:`~pymongo.MongoClient`. Thread-safe, signal-safe, fork-safe.

    When to use: one id a call for rates under some hundred a second; a range a call (:meth:`take`) for bulk work.
    Promise: no id twice; ids ascend in the order of the calls; gaps only where an outcome was unknown.
    Cost: one majority write a call.

    ``collection`` belongs to the caller's client. ``key`` is the counter's ``_id``. ``layout`` says where the
    number is. ``highest`` is the last id that may ever be handed out. ``session`` arguments may be given for causal
    consistency, never inside a transaction. ``write_concern`` must be a majority; ``unsafe_write_concern`` accepts a
    weaker one, with which a failover may repeat ids.

    Raises the errors of :mod:`tallyglass.allocate.errors` only.
    """

    # Generated from AsyncCounter by packaging/unasync.py.
    def create(self, first: int | None = None) -> bool:
        """Create the document, with ``first`` (default: the layout's) as the next id. False if it exists already.

        Safe when several processes call it at once: the document is created once and never changed.
        """
        return self._run(self.core.create(first))

    def peek(self) -> int:
        """The next id, read with majority read concern. For display only."""
        return self._run(self.core.peek())


class AsyncCounter(AsyncRanges, CounterCalls[AnyAsyncCollection]):
    """:class:`Counter` for an AsyncMongoClient or Motor's AsyncIOMotorClient. Belongs to one event loop."""

    async def create(self, first: int | None = None) -> bool:
        """Create the document, with ``first`` (default: the layout's) as the next id. False if it exists already.

        Safe when several processes call it at once: the document is created once and never changed.
        """
        return await self._run(self.core.create(first))

    async def peek(self) -> int:
        """The next id, read with majority read concern. For display only."""
        return await self._run(self.core.peek())
