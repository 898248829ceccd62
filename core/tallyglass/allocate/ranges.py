"""What a Counter and a Pool have in common: ids one by one or in ranges, each call asking the server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, Protocol

from tallyglass.allocate.loops import HomeLoop
from tallyglass.allocate.meter import Meter, Stats
from tallyglass.allocate.steps import Steps, run, run_async

if TYPE_CHECKING:
    from motor.motor_asyncio import AsyncIOMotorClientSession
    from pymongo.asynchronous.client_session import AsyncClientSession
    from pymongo.client_session import ClientSession


class RangeCore(Protocol):
    """The pure core of one of them."""

    meter: Meter

    def take(self, n: int, *, least: int | None = None, session: Any = None) -> Steps[range]:
        """The steps that take ``n`` ids, down to ``least`` where no more are left."""

    def stats(self) -> Stats:
        """What was done in this process."""


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
