"""The base of Counter and Pool: single ids or ranges, with one server call each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from pymongo import ReturnDocument

from tallyglass.allocate.engine.allocator import AsyncAllocator, Core, SyncAllocator
from tallyglass.allocate.engine.attempts import Deadlines, RetryBudget, attempt, hello, is_router
from tallyglass.allocate.engine.checks import whole
from tallyglass.allocate.engine.forking import Uncopyable, register_for_fork
from tallyglass.allocate.engine.handles import Documents, is_safe
from tallyglass.allocate.engine.meter import EventKind, Hook, Stats
from tallyglass.allocate.engine.sessions import refuse_transaction
from tallyglass.allocate.engine.steps import Steps
from tallyglass.allocate.errors import CounterRewound
from tallyglass.allocate.layout import Request
from tallyglass.counters.limits import JS_SAFE_MAX
from tallyglass.text import clean

if TYPE_CHECKING:
    from motor.motor_asyncio import AsyncIOMotorClientSession
    from pymongo.asynchronous.client_session import AsyncClientSession
    from pymongo.client_session import ClientSession


class RangeCore(Core, ABC):
    """The common core of both. Thread-safe, signal-safe and fork-safe; no lock is taken."""

    def __init__(self, collection: Documents, where: str, deadlines: Deadlines | None, on_event: Hook | None) -> None:
        super().__init__(collection, where, deadlines, on_event)
        self._stopped: CounterRewound | None = None
        self._inspected = False
        self._passed_javascript = False
        self.reset_after_fork()
        register_for_fork(self)

    @property
    @abstractmethod
    def space(self) -> int:
        """How many ids there can be at most."""

    def reset_after_fork(self) -> None:
        """Start counting at zero in the child of a fork. An allocator that was stopped stays stopped."""
        self.meter.reset()

    @abstractmethod
    def take(self, n: int, *, least: int | None = None, session: Any = None) -> Steps[range]:
        """The steps that take ``n`` ids, or as few as ``least`` when fewer are left."""

    def _begin(self, n: int, session: Any) -> Steps[RetryBudget]:
        """Checks before the first request of a take; returns its time budget."""
        whole(n, "the number of ids", low=1)
        refuse_transaction(session)
        budget = self.budget()
        if not self._inspected:
            yield from self._report_weaknesses(budget)
            self._inspected = True
        return budget

    def _report_weaknesses(self, budget: RetryBudget) -> Steps[None]:
        """Emit a WEAK event for each guarantee that the deployment or the write concern cannot give."""
        server = yield from hello(self.collection, self.where, budget)
        if not is_safe(self.collection.write_concern):
            concern = clean(str(self.collection.write_concern.document), 80)
            self.meter.emit(EventKind.WEAK, note=f"unsafe write concern {concern}")
        if "setName" not in server and not is_router(server):
            self.meter.emit(EventKind.WEAK, note="standalone: no retries by the driver, no second copy of the counter")

    def _increment(
        self, request: Request, where: str, session: Any, budget: RetryBudget, *, upsert: bool = False
    ) -> Steps[dict[str, Any] | None]:
        """The document before the increment (after it, with ``upsert``); None if no document matched."""
        (field,) = request.update["$inc"]
        returned = ReturnDocument.AFTER if upsert else ReturnDocument.BEFORE

        def update() -> dict[str, Any] | None:
            return self.collection.find_one_and_update(
                request.filter,
                request.update,
                projection={field: 1},
                return_document=returned,
                upsert=upsert,
                session=session,
            )

        return (yield from attempt(update, request.n, where=where, meter=self.meter, budget=budget))

    def _check(self, floor: int, start: int, where: str, *, burned: int = 0, note: str = "") -> None:
        """Stop permanently when the next id is below one that was seen before the request was sent."""
        if start >= floor:
            return
        error = CounterRewound(
            f"{where} went back from {floor} to {start}: its data was rolled back or restored.",
            "Ids above may be issued twice. Move it forward with repair.advance_to, then create a new allocator.",
            seen=floor,
            found=start,
        )
        self._stopped = error
        self.meter.emit(EventKind.REWOUND, floor - start, note=note, burned=burned)
        raise error

    def _issue(self, ids: range) -> None:
        """Count ids for the caller; report once that they passed 2^53, where JavaScript numbers begin to round."""
        self.meter.add(issued=len(ids))
        if not self._passed_javascript and ids and ids[-1] > JS_SAFE_MAX:
            self._passed_javascript = True
            self.meter.emit(
                EventKind.WEAK, note="ids pass 2^53, which JavaScript numbers round: send them there as text or BigInt"
            )


class RangeCalls(Uncopyable):
    """What the synchronous and the asynchronous allocator of ranges have in common."""

    core: RangeCore

    def stats(self) -> Stats:
        """Statistics of this allocator in this process."""
        return self.core.stats()

    @property
    def name(self) -> str:
        """The collection and document, as events and log messages name them."""
        return self.core.where

    @property
    def space(self) -> int:
        """How many ids there can be at most: a cache over a small space fetches smaller ranges."""
        return self.core.space

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class Ranges(SyncAllocator, RangeCalls):
    """The public methods of a synchronous allocator of ranges. ``session`` must not be in a transaction."""

    # Generated from AsyncRanges by packaging/unasync.py.
    def next(self, *, session: ClientSession | None = None) -> int:
        """One id, with one server call."""
        ids = self.take(1, session=session)
        return ids[0]

    def take(self, n: int, *, session: ClientSession | None = None) -> range:
        """Exactly ``n`` consecutive ids. Raises Exhausted (a Pool: PoolEmpty) when fewer are left."""
        return self._run(self.core.take(n, session=session))

    def take_up_to(self, n: int) -> range:
        """From one to ``n`` consecutive ids: the rest of a span is used up."""
        return self._run(self.core.take(n, least=1))

    def __iter__(self) -> Iterator[int]:
        while True:
            yield self.next()


class AsyncRanges(AsyncAllocator, RangeCalls):
    """The public methods of an asynchronous allocator of ranges. Belongs to the event loop of its first call."""

    async def next(self, *, session: AsyncClientSession | AsyncIOMotorClientSession | None = None) -> int:
        """One id, with one server call."""
        ids = await self.take(1, session=session)
        return ids[0]

    async def take(self, n: int, *, session: AsyncClientSession | AsyncIOMotorClientSession | None = None) -> range:
        """Exactly ``n`` consecutive ids. Raises Exhausted (a Pool: PoolEmpty) when fewer are left."""
        return await self._run(self.core.take(n, session=session))

    async def take_up_to(self, n: int) -> range:
        """From one to ``n`` consecutive ids: the rest of a span is used up."""
        return await self._run(self.core.take(n, least=1))

    async def __aiter__(self) -> AsyncIterator[int]:
        while True:
            yield await self.next()
