"""Ids served from memory; the next range is fetched ahead of need. For AsyncMongoClient, Motor and tasks.

Everything happens on one event loop. The fetch is a separate task: cancelling a waiting caller does not end it for the
others.
"""

from __future__ import annotations

import asyncio
import contextvars
import time

from tallyglass.allocate.cache.base import LOOK_AGAIN
from tallyglass.allocate.cache.buffer import Buffer
from tallyglass.allocate.cache.calls_async import AsyncCacheCalls
from tallyglass.allocate.engine.meter import EventKind
from tallyglass.allocate.errors import AllocationError, again


class AsyncCached(AsyncCacheCalls[asyncio.Future[int]]):
    """:class:`~tallyglass.allocate.cache.cached.Cached` for an AsyncCounter or AsyncPool. Belongs to one event loop.

    A cancelled waiter loses no id: one that was already delivered goes to the next caller.
    """

    def reset_after_fork(self) -> None:
        """Start empty in the child of a fork: the ids in memory belong to the parent."""
        super().reset_after_fork()
        self._loop = None
        self._fetch: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """One id. Raises AllocationTimeout after ``patience`` seconds, WrongEventLoop, and the source's errors."""
        if asyncio.get_running_loop() is not self._loop:
            self._check_loop()
        for value in self._fast:
            return value
        return await self._slow()

    async def _slow(self) -> int:
        """One id when the current piece is empty: from the next piece, or from the next fetch."""
        if self._stopped:
            raise again(self._stopped)
        buffer = self._buffer
        value = buffer.take()
        if value is None:
            return await self._wait()
        self._fast = self._buffer.fast
        if self._is_low():
            self._ensure_fetching()
        if self._is_fetching():
            try:
                # A caller that never awaits anything else would starve the fetch.
                await asyncio.sleep(0)
            except BaseException:
                self._give_back(buffer, [value])
                raise
        self._refuse_forked(buffer)
        return value

    async def _await_fetch(self) -> None:
        """Wait for a fetch in progress, at most ``patience`` seconds."""
        if self._fetch is not None and not self._fetch.done():
            await asyncio.wait([self._fetch], timeout=self._patience)

    async def _wait(self) -> int:
        """Queue this caller, and wait for its answer. A dead fetch is replaced."""
        waiter: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        buffer, began, patience = self._buffer, time.monotonic(), self._patience_left()
        self._stalled = True
        self._line.append(waiter)
        try:
            while not waiter.done():
                self._refuse_forked(buffer)
                self._ensure_fetching()
                left = began + patience - time.monotonic()
                if left <= 0:
                    raise self._timed_out(patience)
                await asyncio.wait((waiter,), timeout=min(LOOK_AGAIN, left))
        except BaseException:
            self._leave(buffer, waiter)
            raise
        finally:
            self._meter.emit(EventKind.STALLED, seconds=time.monotonic() - began, stalls=1)
        self._refuse_forked(buffer)
        return waiter.result()

    def _leave(self, buffer: Buffer, waiter: asyncio.Future[int]) -> None:
        """A caller stops waiting: an id that was already delivered goes to the next one."""
        if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
            self._give_back(buffer, [waiter.result()])
            self._serve()
        else:
            waiter.cancel()

    def _is_fetching(self) -> bool:
        return self._fetch is not None and not self._fetch.done()

    def _waits(self, waiter: asyncio.Future[int]) -> bool:
        return not waiter.done()

    def _ensure_fetching(self) -> None:
        if not self._is_fetching():
            # In a new context: neither a bound session nor a deadline of this caller reaches the shared fetch.
            self._fetch = asyncio.get_running_loop().create_task(
                self._serve_and_fetch(prefetch=True), context=contextvars.Context()
            )

    def _serve(self) -> None:
        """Answer waiting callers in order, as long as there are ids."""
        while self._line:
            if self._line[0].done():
                self._line.popleft()
                continue
            value = self._buffer.take()
            if value is None:
                return
            self._line.popleft().set_result(value)

    def _dismiss(self, error: AllocationError) -> None:
        """Answer all waiting callers with an error."""
        while self._line:
            waiter = self._line.popleft()
            if not waiter.done():
                waiter.set_exception(error)
