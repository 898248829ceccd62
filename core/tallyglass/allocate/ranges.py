"""What a Counter and a Pool have in common: ids one by one or in ranges, each call asking the server."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, Any

from pymongo import ReturnDocument

from tallyglass.allocate.engine.attempts import Deadlines, Patience, attempt
from tallyglass.allocate.engine.deployment import tell_weakness
from tallyglass.allocate.engine.forking import renew_after_fork
from tallyglass.allocate.engine.loops import HomeLoop
from tallyglass.allocate.engine.meter import EventKind, Meter, Stats
from tallyglass.allocate.engine.steps import Call, Pause, Steps, refuse_transaction, run, run_async
from tallyglass.allocate.errors import CounterRewound
from tallyglass.allocate.layout import Request

if TYPE_CHECKING:
    from motor.motor_asyncio import AsyncIOMotorClientSession
    from pymongo.asynchronous.client_session import AsyncClientSession
    from pymongo.client_session import ClientSession


class RangeCore:
    """What the cores of both share. Thread-safe, fork-safe."""

    def __init__(self, collection: Any, where: str, deadlines: Deadlines, meter: Meter) -> None:
        self.collection = collection
        self.where = where
        self.meter = meter
        self._deadlines = deadlines
        self._stopped: CounterRewound | None = None
        self._looked = False
        self.forget()
        renew_after_fork(self)

    def forget(self) -> None:
        """Begin anew in the child of a fork. That it was stopped stays so."""
        self._lock = threading.Lock()
        self.meter.reset()

    def take(self, n: int, *, least: int | None = None, session: Any = None) -> Steps[range]:
        """The steps that take ``n`` ids, down to ``least`` where no more are left."""
        raise NotImplementedError

    def stats(self) -> Stats:
        """What was done in this process."""
        return self.meter.stats()

    def _begin(self, n: int, session: Any) -> Generator[Call | Pause, Any, Patience]:
        """What comes before the first request of a take; the patience for all of it."""
        if n < 1:
            raise ValueError("at least one id must be taken")
        refuse_transaction(session)
        patience = Patience(self._deadlines)
        if not self._looked:
            yield from tell_weakness(self.collection, where=self.where, meter=self.meter, patience=patience)
            self._looked = True
        return patience

    def _increment(
        self, request: Request, where: str, session: Any, patience: Patience
    ) -> Generator[Call | Pause, Any, dict[str, Any] | None]:
        """The document before the increment; None where nothing matched."""
        (field,) = request.update["$inc"]
        options = {"projection": {field: 1}, "return_document": ReturnDocument.BEFORE, "upsert": False}
        options |= {"session": session} if session is not None else {}
        call = Call(self.collection, "find_one_and_update", (request.filter, request.update), options=options)
        return (yield from attempt(call, request.n, where=where, meter=self.meter, patience=patience))

    def _check(self, floor: int, start: int, where: str, *, burned: int = 0, note: str = "") -> None:
        """Stop for good where the next id is below one that was seen before the request was sent."""
        if start >= floor:
            return
        error = CounterRewound(
            f"{where} is at {start}, and was at {floor} before: its data was rolled back or restored.",
            "Ids above may be handed out twice. Move it forward with repair.advance_to, then make a new allocator.",
            seen=floor,
            found=start,
        )
        with self._lock:
            self._stopped = error
        self.meter.tell(EventKind.REWOUND, floor - start, note=note, burned=burned)
        raise error


class Ranges:
    """The calls of a synchronous allocator of ranges. ``session`` must not be in a transaction."""

    def __init__(self, core: RangeCore) -> None:
        self._ranges = core

    def next(self, *, session: ClientSession | None = None) -> int:
        """One id."""
        return self.take(1, session=session)[0]

    def take(self, n: int, *, session: ClientSession | None = None) -> range:
        """Exactly ``n`` consecutive ids. Raises Exhausted (a Pool: PoolEmpty) when so many are not left."""
        ids = run(self._ranges.take(n, session=session))
        self._ranges.meter.add(issued=len(ids))
        return ids

    def take_up_to(self, n: int) -> range:
        """At least one and at most ``n`` consecutive ids: the last part of a span is used up."""
        ids = run(self._ranges.take(n, least=1))
        self._ranges.meter.add(issued=len(ids))
        return ids

    def stats(self) -> Stats:
        """What this allocator did in this process."""
        return self._ranges.stats()

    def __iter__(self) -> Iterator[int]:
        while True:
            yield self.next()


class AsyncRanges:
    """The calls of an asynchronous allocator of ranges. Belongs to the event loop of its first call."""

    def __init__(self, core: RangeCore) -> None:
        self._ranges = core
        self._home = HomeLoop()

    async def next(self, *, session: AsyncClientSession | AsyncIOMotorClientSession | None = None) -> int:
        """One id."""
        return (await self.take(1, session=session))[0]

    async def take(self, n: int, *, session: AsyncClientSession | AsyncIOMotorClientSession | None = None) -> range:
        """Exactly ``n`` consecutive ids. Raises Exhausted (a Pool: PoolEmpty) when so many are not left."""
        self._home.check()
        ids = await run_async(self._ranges.take(n, session=session))
        self._ranges.meter.add(issued=len(ids))
        return ids

    async def take_up_to(self, n: int) -> range:
        """At least one and at most ``n`` consecutive ids: the last part of a span is used up."""
        self._home.check()
        ids = await run_async(self._ranges.take(n, least=1))
        self._ranges.meter.add(issued=len(ids))
        return ids

    def stats(self) -> Stats:
        """What this allocator did in this process."""
        return self._ranges.stats()

    async def __aiter__(self) -> AsyncIterator[int]:
        while True:
            yield await self.next()
