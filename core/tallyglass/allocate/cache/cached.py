"""Ids served from memory; the next range is fetched ahead of need. For MongoClient and threads.

Nothing that a caller does needs a lock or leaves shared state half-changed, because a signal handler may raise at any
point in it, or call it again. A caller takes an id in one atomic step, or puts itself in line in one atomic step and
waits for its own wake-up. The fetching thread alone serves the line and adds ranges.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Protocol, Self

from tallyglass.allocate.cache.base import LOOK_AGAIN, CacheBase
from tallyglass.allocate.cache.buffer import FREE_THREADED
from tallyglass.allocate.engine.checks import whole
from tallyglass.allocate.engine.meter import CLOSED, EventKind, Stats
from tallyglass.allocate.errors import AllocationError, AllocatorClosed, CounterRewound

_YIELD: Final = 50e-6


class RangeSource(Protocol):
    """Where ranges come from: a Counter or a Pool."""

    def take_up_to(self, n: int) -> range:
        """At least one and at most ``n`` consecutive ids."""

    def stats(self) -> Stats:
        """What the source did."""


class _Waiter:
    """A caller in line. Whoever gets ``claim`` decides: the fetching thread serves it, or the caller leaves."""

    __slots__ = ("claim", "error", "value", "woken")

    def __init__(self) -> None:
        self.claim = threading.Lock()
        self.woken = threading.Lock()
        self.woken.acquire()
        self.value: int | None = None
        self.error: AllocationError | None = None

    def answer(self, value: int | None, error: AllocationError | None = None) -> bool:
        """Serve this caller, unless it has left."""
        if not self.claim.acquire(blocking=False):
            return False
        self.value, self.error = value, error
        self.woken.release()
        return True

    def leave(self) -> bool:
        """Stop waiting. False when this caller was served at the same moment; the answer is there then."""
        if self.claim.acquire(blocking=False):
            return True
        if self.value is None and self.error is None:
            self.woken.acquire(timeout=1)
        return False


class _Fetch:
    """One run of the fetching thread. It lives in that thread's frame alone, and so exactly as long as the thread."""

    __slots__ = ("__weakref__", "ended", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.ended = threading.Lock()
        self.ended.acquire()


class Cached(CacheBase[RangeSource, _Waiter]):
    """Ids from memory, over a Counter or a Pool. Thread-safe, signal-safe, fork-safe.

    When to use: always, unless ids must follow the order of the calls across processes without gaps.
    Promise: no id twice; ids of one process ascend within a range; at most one fetch under way, however many
    threads wait; waiters are served in the order in which they came; the child of a fork starts empty; an
    exception from a signal handler costs at most the ids in the hands of the call that it ends.
    Cost: a fetch every ``step`` ids; a crash or :meth:`close` burns what is in memory, at most two steps.

    ``step`` is a number of ids, or :class:`~tallyglass.allocate.cache.step_size.Adaptive`. By default a range lasts 20
    seconds at the present rate, with at least 100 and at most 100,000 ids, so that a failover passes unnoticed up to
    some 5,000 ids a second: a crash burns at most 200,000 ids. Over a counter or pool whose whole space is smaller
    than 10**10, a range is at most a hundred-thousandth of it. The next range is fetched when at most ``ahead`` of a
    step is left. ``patience`` is how many seconds a caller waits for an id before AllocationTimeout (its own
    ``pymongo.timeout`` may be shorter); errors of the source reach whoever waits. After CounterRewound nothing is
    handed out any more. Raises TypeError or ValueError for arguments that make no sense.

    In a signal handler :meth:`next` works; if memory is empty, it waits for a fetch like any other caller.
    """

    def reset_after_fork(self) -> None:
        """Start empty in the child of a fork: the ids in memory are the parent's."""
        super().reset_after_fork()
        self._claim = threading.Lock()
        self._fetch: weakref.ref[_Fetch] | None = None

    def next(self) -> int:
        """One id. Raises AllocationTimeout after ``patience`` seconds, and the errors of the source."""
        for value in self._fast:
            return value
        return self._slow()

    def take(self, n: int) -> list[int]:
        """``n`` ids, not always consecutive. Where it fails, the ids that it had are handed out to others."""
        whole(n, "the number of ids", low=1)
        taken: list[int] = []
        try:
            while len(taken) < n:
                taken += self._buffer.take_up_to(n - len(taken))
                if len(taken) < n:
                    taken.append(self._slow())
        except BaseException:
            self._give_back(taken)
            raise
        return taken

    def close(self) -> int:
        """Hand out nothing any more; how many ids were burned by that, those of a fetch under way included.

        The client stays open. Waits for a fetch that is under way, at most ``patience`` seconds.
        """
        before = self._meter.stats().burned
        closed = AllocatorClosed("This allocator is closed.")
        self._stop(closed, CLOSED)
        self._dismiss(closed)
        fetch = self._fetch() if self._fetch is not None else None
        if fetch is not None and fetch.thread != threading.get_ident():
            ended, end = fetch.ended, time.monotonic() + self._patience
            del fetch
            while not ended.acquire(timeout=max(0.0, min(LOOK_AGAIN, end - time.monotonic()))):
                if time.monotonic() >= end or not self._is_fetching():
                    break
        return self._meter.stats().burned - before

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[int]:
        while True:
            yield self.next()

    def _slow(self) -> int:
        """One id where the piece in use has none: from the next piece, or from the next fetch."""
        if self._stopped:
            raise self._stopped
        fetching = self._is_fetching()
        if fetching and not FREE_THREADED:
            # A caller in a tight loop would keep the fetching thread from the global lock.
            time.sleep(_YIELD)
        value = self._buffer.take()
        if value is None:
            return self._wait()
        try:
            self._fast = self._buffer.fast
            if not fetching and self._is_low():
                with contextlib.suppress(RuntimeError):
                    self._ensure_fetching()
        except BaseException:
            self._give_back([value])
            raise
        return value

    def _wait(self) -> int:
        """Put this caller in line, and wait for its answer."""
        waiter, began, patience = _Waiter(), time.monotonic(), self._patience_left()
        try:
            self._stalled = True
            self._line.append(waiter)
            answered = self._await(waiter, began + patience) or not waiter.leave()
        except BaseException:
            # Interrupted: an id that was handed over already goes to the next caller.
            if not waiter.leave() and waiter.value is not None:
                self._give_back([waiter.value])
            raise
        self._meter.emit(EventKind.STALLED, seconds=time.monotonic() - began, stalls=1)
        if waiter.error is not None:
            raise waiter.error
        if not answered or waiter.value is None:
            raise self._timed_out(patience)
        return waiter.value

    def _await(self, waiter: _Waiter, end: float) -> bool:
        """Whether an answer came before ``end``. A fetching thread that died meanwhile is replaced."""
        while True:
            if self._stopped:
                self._dismiss(self._stopped)
            else:
                try:
                    self._ensure_fetching()
                except RuntimeError as error:
                    raise AllocationError(
                        "No thread can be started to fetch ids.",
                        "At the end of a program nothing can be fetched any more; otherwise see the limit on threads.",
                    ) from error
            left = end - time.monotonic()
            if waiter.woken.acquire(timeout=max(0.0, min(LOOK_AGAIN, left))):
                return True
            if left <= LOOK_AGAIN:
                return False

    def _is_fetching(self) -> bool:
        return self._fetch is not None and self._fetch() is not None

    def _waits(self, waiter: _Waiter) -> bool:
        return not waiter.claim.locked()

    def _ensure_fetching(self) -> None:
        """Start the fetching thread unless there is one. Raises RuntimeError where none can be started.

        A thread of the lowest level: ``Thread.start`` takes a lock and waits for the new thread, and the frame that
        holds that lock may be the one that a signal handler, and a call of it, interrupted.
        """
        if self._is_fetching():
            return
        if sys.is_finalizing():
            raise RuntimeError("the interpreter is shutting down")
        _thread.start_new_thread(self._fetch_in_turn, ())

    def _fetch_in_turn(self) -> None:
        """What the fetching thread does. Of several that start at once, one stays."""
        prefetch = True
        while prefetch or self._line:
            fetch = _Fetch()
            with self._claim:
                if self._is_fetching():
                    return
                self._fetch = weakref.ref(fetch)
            try:
                self._serve_and_fetch(prefetch)
            finally:
                self._fetch = None
                fetch.ended.release()
            # Whoever came into line since the last look saw this thread alive: look again, now that it is not.
            prefetch = False

    def _serve_and_fetch(self, prefetch: bool) -> None:
        self._serve()
        while self._stopped is None and (self._line or (prefetch and self._is_low())):
            prefetch = False
            ids: range | None = None
            error = AllocationError("A fetch of ids ended unexpectedly.")
            try:
                ids = self._source.take_up_to(self._next_size())
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
            if self._stopped:
                self._dismiss(self._stopped)
                return
            value = self._buffer.take()
            if value is None:
                return
            while waiter := self._next_in_line():
                if waiter.answer(value):
                    break
            else:
                self._give_back([value])

    def _dismiss(self, error: AllocationError) -> None:
        """Answer everyone in line with an error."""
        while waiter := self._next_in_line():
            waiter.answer(None, error)

    def _next_in_line(self) -> _Waiter | None:
        try:
            return self._line.popleft()
        except IndexError:
            return None
