"""The public methods of an asynchronous cache, and its loop of fetches; how callers wait is left to the subclass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Protocol, Self, TypeVar

from tallyglass.allocate.cache.base import CacheBase
from tallyglass.allocate.engine.allocator import AsyncAllocator
from tallyglass.allocate.engine.checks import whole
from tallyglass.allocate.engine.meter import Stats
from tallyglass.allocate.errors import AllocationError, AllocatorClosed

W = TypeVar("W")


class AsyncRangeSource(Protocol):
    """Where ranges come from: an AsyncCounter or an AsyncPool."""

    async def take_up_to(self, n: int) -> range:
        """At least one and at most ``n`` consecutive ids."""

    def stats(self) -> Stats:
        """Statistics of the ids it handed out in this process."""


class AsyncCacheCalls(AsyncAllocator, CacheBase[AsyncRangeSource, W]):
    """A cache whose waiters are of type W."""

    @abstractmethod
    async def next(self) -> int:
        """One id. Raises AllocationTimeout after ``patience`` seconds, and the errors of the source."""

    async def take(self, n: int) -> list[int]:
        """``n`` ids, not necessarily consecutive. On failure the ids taken so far go to other callers."""
        self._check_loop()
        whole(n, "the number of ids", low=1)
        buffer, taken = self._buffer, list[int]()
        try:
            while len(taken) < n:
                taken += buffer.take_up_to(n - len(taken))
                if len(taken) < n:
                    taken.append(await self._slow())
        except BaseException:
            self._give_back(buffer, taken)
            raise
        self._refuse_forked(buffer)
        return taken

    async def close(self) -> int:
        """Stop issuing ids; returns how many were burned, including those of a fetch in progress.

        The client stays open. Waits for a fetch in progress, at most ``patience`` seconds.
        """
        before = self._meter.stats().burned
        closed = AllocatorClosed("This allocator is closed.")
        self._stop(closed)
        self._dismiss(closed)
        await self._await_fetch()
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

    @abstractmethod
    async def _slow(self) -> int:
        """One id when the current piece is empty: from the next piece, or from the next fetch."""

    @abstractmethod
    async def _await_fetch(self) -> None:
        """Wait for a fetch in progress, at most ``patience`` seconds."""

    async def _serve_and_fetch(self, prefetch: bool) -> None:
        """Answer waiting callers, and fetch until none is left; with ``prefetch`` also one range ahead of need.

        In haste it goes on until enough is in memory: to start again for the next range takes too long.
        """
        buffer = self._buffer
        self._serve()
        while self._buffer is buffer and self._stopped is None and (self._line or (prefetch and self._is_low())):
            ids: range | None = None
            error = AllocationError("A fetch of ids ended unexpectedly.")
            try:
                ids = await self._source.take_up_to(self._next_size())
            except AllocationError as failure:
                error = failure
            finally:
                self._deliver(buffer, ids, error)
            prefetch = ids is not None and self._is_in_haste()
