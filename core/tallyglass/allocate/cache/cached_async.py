"""Ids served from memory; the next range is fetched ahead of need. For AsyncMongoClient, Motor and tasks.

Everything happens on one event loop. The fetch is a task of its own: a caller that waits for it may be cancelled
without ending it for the others.
"""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Protocol, Self

from tallyglass.allocate.cache.base import LOOK_AGAIN, CacheBase
from tallyglass.allocate.engine.checks import whole
from tallyglass.allocate.engine.loops import HomeLoop
from tallyglass.allocate.engine.meter import CLOSED, EventKind, Stats
from tallyglass.allocate.errors import AllocationError, AllocatorClosed, CounterRewound


class AsyncRangeSource(Protocol):
    """Where ranges come from: an AsyncCounter or an AsyncPool."""

    async def take_up_to(self, n: int) -> range:
        """At least one and at most ``n`` consecutive ids."""

    def stats(self) -> Stats:
        """What the source did."""


class AsyncCached(CacheBase[AsyncRangeSource, asyncio.Future[int]]):
    """:class:`~tallyglass.allocate.cache.cached.Cached` for an AsyncCounter or AsyncPool. Belongs to one event loop.

    A cancelled waiter loses no id: one that was already handed to it goes to the next caller.
    """

    def reset_after_fork(self) -> None:
        """Start empty in the child of a fork: the ids in memory are the parent's."""
        super().reset_after_fork()
        self._home = HomeLoop()
        self._fetch: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """One id. Raises AllocationTimeout after ``patience`` seconds, WrongEventLoop, and the source's errors."""
        if asyncio.get_running_loop() is not self._home.loop:
            self._home.check()
        for value in self._fast:
            return value
        return await self._slow()

    async def take(self, n: int) -> list[int]:
        """``n`` ids, not always consecutive. Where it fails, the ids that it had are handed out to others."""
        self._home.check()
        whole(n, "the number of ids", low=1)
        taken: list[int] = []
        try:
            while len(taken) < n:
                taken += self._buffer.take_up_to(n - len(taken))
                if len(taken) < n:
                    taken.append(await self._slow())
        except BaseException:
            self._give_back(taken)
            raise
        return taken

    async def close(self) -> int:
        """Hand out nothing any more; how many ids were burned by that, those of a fetch under way included.

        The client stays open. Waits for a fetch that is under way, at most ``patience`` seconds.
        """
        before = self._meter.stats().burned
        closed = AllocatorClosed("This allocator is closed.")
        self._stop(closed, CLOSED)
        self._dismiss(closed)
        if self._fetch is not None and not self._fetch.done():
            await asyncio.wait([self._fetch], timeout=self._patience)
        return self._meter.stats().burned - before

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def __aiter__(self) -> AsyncIterator[int]:
        while True:
            yield await self.next()

    async def _slow(self) -> int:
        """One id where the piece in use has none: from the next piece, or from the next fetch."""
        if self._stopped:
            raise self._stopped
        value = self._buffer.take()
        if value is None:
            return await self._wait()
        self._fast = self._buffer.fast
        if self._is_low():
            self._ensure_fetching()
        if self._is_fetching():
            try:
                # A caller that never awaits anything else would keep the fetch from the event loop.
                await asyncio.sleep(0)
            except BaseException:
                self._give_back([value])
                raise
        return value

    async def _wait(self) -> int:
        """Put this caller in line, and wait for its answer. A fetch that died meanwhile is replaced."""
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        began, patience = time.monotonic(), self._patience_left()
        self._stalled = True
        self._line.append(waiter)
        try:
            while not waiter.done():
                left = began + patience - time.monotonic()
                if left <= 0:
                    raise self._timed_out(patience)
                self._ensure_fetching()
                await asyncio.wait((waiter,), timeout=min(LOOK_AGAIN, left))
        except BaseException:
            self._leave(waiter)
            raise
        finally:
            self._meter.emit(EventKind.STALLED, seconds=time.monotonic() - began, stalls=1)
        return waiter.result()

    def _leave(self, waiter: asyncio.Future[int]) -> None:
        """Someone stops waiting: an id that was handed over already goes to the next in line."""
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            self._give_back([waiter.result()])
            self._serve()
        else:
            waiter.cancel()

    def _is_fetching(self) -> bool:
        return self._fetch is not None and not self._fetch.done()

    def _waits(self, waiter: asyncio.Future[int]) -> bool:
        return not waiter.done()

    def _ensure_fetching(self) -> None:
        if not self._is_fetching():
            # A context of its own: neither a bound session nor a deadline of this caller reaches the shared fetch.
            self._fetch = asyncio.get_running_loop().create_task(self._serve_and_fetch(), context=contextvars.Context())

    async def _serve_and_fetch(self) -> None:
        prefetch = True
        self._serve()
        while self._stopped is None and (self._line or (prefetch and self._is_low())):
            prefetch = False
            ids: range | None = None
            error = AllocationError("A fetch of ids ended unexpectedly.")
            try:
                ids = await self._source.take_up_to(self._next_size())
            except AllocationError as failure:
                error = failure
            finally:
                self._deliver(ids, error)

    def _deliver(self, ids: range | None, error: AllocationError) -> None:
        """Give out what a fetch brought, or its error."""
        if ids is not None:
            self._store(ids)
            self._serve()
            return
        if isinstance(error, CounterRewound):
            self._stop(error, "no longer handed out")
        self._dismiss(error)

    def _serve(self) -> None:
        """Answer those in line, in order, as long as there are ids."""
        while self._line:
            if self._line[0].done():
                self._line.popleft()
                continue
            value = self._buffer.take()
            if value is None:
                return
            self._line.popleft().set_result(value)

    def _dismiss(self, error: AllocationError) -> None:
        """Answer everyone in line with an error."""
        while self._line:
            waiter = self._line.popleft()
            if not waiter.done():
                waiter.set_exception(error)
