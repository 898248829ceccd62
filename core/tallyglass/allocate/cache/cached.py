"""Ids served from memory; the next range is fetched ahead of need. For MongoClient and threads.

A signal handler may raise at any point of a caller's code, or call it again. So that code takes no lock and never
leaves shared state half-changed. A caller takes an id in one atomic step, or queues itself in one atomic step and waits
for its own wake-up. Only the fetching thread serves the queue and adds ranges.
"""

from __future__ import annotations

import _thread
import contextlib
import sys
import threading
import time
import weakref
from typing import Final

from tallyglass.allocate.cache.base import LOOK_AGAIN
from tallyglass.allocate.cache.buffer import FREE_THREADED, Buffer
from tallyglass.allocate.cache.calls import CacheCalls
from tallyglass.allocate.engine.meter import EventKind
from tallyglass.allocate.errors import AllocationError, again

_YIELD: Final = 50e-6
"""Seconds for which a caller leaves the global lock to the fetching thread: the shortest sleep that Linux keeps."""


class _Waiter:
    """A waiting caller. ``claim`` settles the race between the fetching thread and a caller that gives up."""

    __slots__ = ("buffer", "claim", "error", "value", "woken")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.claim = threading.Lock()
        self.woken = threading.Lock()
        self.woken.acquire()
        self.value: int | None = None
        self.error: AllocationError | None = None

    def answer(self, value: int | None, error: AllocationError | None = None) -> bool:
        """Serve this caller, unless it has given up."""
        if not self.claim.acquire(blocking=False):
            return False
        self.value, self.error = value, error
        self.woken.release()
        return True

    def leave(self) -> bool:
        """Stop waiting. False when this caller was served at the same moment; the answer is then available."""
        if self.claim.acquire(blocking=False):
            return True
        if self.value is None and self.error is None:
            self.woken.acquire(timeout=1)
        return False


class _Fetch:
    """One run of the fetching thread. Only the frame of that thread refers to it, so it lives as long as the thread."""

    __slots__ = ("__weakref__", "ended", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.ended = threading.Lock()
        self.ended.acquire()


class _Start:
    """The start of a fetching thread that does not run yet: it lives until that thread begins."""

    __slots__ = ("__weakref__",)


class Cached(CacheCalls[_Waiter]):
    """Ids from memory, over a Counter or a Pool. Thread-safe, signal-safe, fork-safe.

    When to use: always, unless ids must follow the order of calls across processes.
    Promise: no id twice; ids of one process ascend within a range; at most one fetch in progress, however many
    threads wait; waiters are served in order of arrival; the child of a fork starts empty; an
    exception from a signal handler costs at most the ids held by the call that it ends.
    Cost: a fetch every ``step`` ids; a crash or :meth:`close` burns what is in memory, at most two steps, or three
    where the default step is at its largest.

    ``step`` is a number of ids, or :class:`~tallyglass.allocate.cache.step_size.Adaptive`. By default a range lasts 20
    seconds at the current rate, with 100 to 100,000 ids, so that a failover costs no waiting time up to
    some 10,000 ids a second: a crash burns at most 200,000 ids up to 5,000 a second, and 300,000 above. Over a counter
    or pool whose whole space is smaller than 10**10, a range is at most a hundred-thousandth of it. The next range is
    fetched when at most ``ahead`` of a step is left (0 to 1). By default that is a whole step, and two steps where an
    adaptive step is at its largest and lasts less than its ``seconds``. ``patience`` is how many seconds a caller waits
    for an id before AllocationTimeout (its own ``pymongo.timeout`` may be shorter); errors of the source are raised in
    the waiting callers. After CounterRewound no more ids are issued. Raises TypeError or ValueError for invalid
    arguments.

    In a signal handler :meth:`next` works; when no id is in memory, it waits for a fetch like any other caller.
    """

    def reset_after_fork(self) -> None:
        """Start empty in the child of a fork: the ids in memory belong to the parent."""
        super().reset_after_fork()
        self._claim = threading.Lock()
        self._fetch: weakref.ref[_Fetch] | None = None
        self._start: weakref.ref[_Start] | None = None

    def next(self) -> int:
        """One id. Raises AllocationTimeout after ``patience`` seconds, and the errors of the source."""
        for value in self._fast:
            return value
        return self._slow()

    def _slow(self) -> int:
        """One id when the current piece is empty: from the next piece, or from the next fetch."""
        if self._stopped:
            raise again(self._stopped)
        buffer, fetching = self._buffer, self._is_fetching() or self._is_starting()
        if fetching and not FREE_THREADED:
            # A caller in a tight loop would starve the fetching thread of the global lock.
            time.sleep(_YIELD)
        value = buffer.take()
        if value is None:
            return self._wait()
        try:
            self._fast = self._buffer.fast
            if not fetching and self._is_low():
                with contextlib.suppress(RuntimeError):
                    self._ensure_fetching()
            self._refuse_forked(buffer)
        except BaseException:
            self._give_back(buffer, [value])
            raise
        return value

    def _wait(self) -> int:
        """Queue this caller, and wait for its answer."""
        waiter, began, patience = _Waiter(self._buffer), time.monotonic(), self._patience_left()
        try:
            self._stalled = True
            self._line.append(waiter)
            if not self._await(waiter, began + patience):
                waiter.leave()
        except BaseException:
            # Interrupted: an id that was already delivered goes to the next caller.
            if not waiter.leave() and waiter.value is not None:
                self._give_back(waiter.buffer, [waiter.value])
            raise
        self._meter.emit(EventKind.STALLED, seconds=time.monotonic() - began, stalls=1)
        if waiter.error is not None:
            raise waiter.error
        if waiter.value is None:
            raise self._timed_out(patience)
        self._refuse_forked(waiter.buffer)
        return waiter.value

    def _await_fetch(self) -> None:
        """Wait for a fetch in progress, at most ``patience`` seconds."""
        fetch = self._fetch() if self._fetch is not None else None
        if fetch is None or fetch.thread == threading.get_ident():
            return
        ended, end = fetch.ended, time.monotonic() + self._patience
        # The fetch must live no longer than its thread.
        del fetch
        while not ended.acquire(timeout=max(0.0, min(LOOK_AGAIN, end - time.monotonic()))):
            if time.monotonic() >= end or not self._is_fetching():
                break

    def _await(self, waiter: _Waiter, end: float) -> bool:
        """Whether an answer came before ``end``. A dead fetching thread is replaced."""
        while True:
            self._refuse_forked(waiter.buffer)
            if self._stopped:
                self._dismiss(self._stopped)
            else:
                try:
                    self._ensure_fetching()
                except RuntimeError as error:
                    raise AllocationError(
                        "No thread can be started to fetch ids.",
                        "Nothing can be fetched at interpreter shutdown; otherwise check the limit on threads.",
                    ) from error
            left = end - time.monotonic()
            if waiter.woken.acquire(timeout=max(0.0, min(LOOK_AGAIN, left))):
                return True
            if left <= LOOK_AGAIN:
                return False

    def _is_fetching(self) -> bool:
        return self._fetch is not None and self._fetch() is not None

    def _is_starting(self) -> bool:
        return self._start is not None and self._start() is not None

    def _waits(self, waiter: _Waiter) -> bool:
        return not waiter.claim.locked()

    def _ensure_fetching(self) -> None:
        """Start the fetching thread unless one is running. Raises RuntimeError if none can be started.

        Uses ``_thread``: ``Thread.start`` takes a lock and waits for the new thread, and a signal handler that calls
        this may have interrupted the very frame that holds the lock.
        """
        if sys.is_finalizing():
            raise RuntimeError("the interpreter is shutting down")
        if self._is_fetching() or self._is_starting():
            return
        starts = [_Start()]
        start = weakref.ref(starts[0])
        _thread.start_new_thread(self._fetch_in_turn, (starts,))
        # Only now: a signal handler would wait for a thread that the frame which it interrupted has yet to start. On a
        # busy machine it begins late, and a caller in a tight loop would start hundreds more until then.
        self._start = start

    def _fetch_in_turn(self, starts: list[_Start]) -> None:
        """The body of the fetching thread. If several start at the same time, only one continues."""
        starts.clear()
        prefetch = True
        while prefetch or self._line:
            fetch = _Fetch()
            with self._claim:
                if self._is_fetching():
                    return
                mine = self._fetch = weakref.ref(fetch)
            try:
                self._serve_and_fetch(prefetch)
            finally:
                if self._fetch is mine:
                    self._fetch = None
                fetch.ended.release()
            # A caller that queued since the last check saw this thread alive: check again, now that it is not.
            prefetch = False

    def _serve(self) -> None:
        """Answer waiting callers in order, as long as there are ids."""
        while self._line:
            if self._stopped:
                self._dismiss(self._stopped)
                return
            buffer = self._buffer
            value = buffer.take()
            if value is None:
                return
            while waiter := self._next_in_line():
                if waiter.answer(value):
                    break
            else:
                self._give_back(buffer, [value])

    def _dismiss(self, error: AllocationError) -> None:
        """Answer all waiting callers with an error."""
        while waiter := self._next_in_line():
            waiter.answer(None, error)

    def _next_in_line(self) -> _Waiter | None:
        try:
            return self._line.popleft()
        except IndexError:
            return None
