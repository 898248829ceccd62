"""Ids served from memory; the next range is fetched ahead of need. For MongoClient and threads.

The way of one id is one step of a range iterator. CPython's global lock makes that step atomic, so that threads
share it without a lock of their own; on a free-threaded build, where two threads may get the same element from one
iterator, every id is taken under a lock instead.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from operator import length_hint
from types import TracebackType
from typing import Protocol, Self

from tallyglass.allocate.cache.refill import Refill
from tallyglass.allocate.cache.span import Span
from tallyglass.allocate.cache.step_size import Adaptive, Fixed, StepSize
from tallyglass.allocate.engine.forking import renew_after_fork
from tallyglass.allocate.engine.meter import EventKind, Hook, Meter, Stats
from tallyglass.allocate.errors import AllocationError, AllocationTimeout, AllocatorClosed, CounterRewound

_FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()


class RangeSource(Protocol):
    """Where ranges come from: a Counter or a Pool."""

    def take_up_to(self, n: int) -> range:
        """At least one and at most ``n`` consecutive ids."""

    def stats(self) -> Stats:
        """What the source did."""


def step_size(step: int | StepSize) -> StepSize:
    """A fixed step for a number; anything else as it is, but an adaptive one fresh, since it keeps state."""
    if isinstance(step, int):
        return Fixed(step)
    return Adaptive(step.seconds, step.least, step.most) if isinstance(step, Adaptive) else step


class _Waiter:
    __slots__ = ("error", "value", "woken")

    def __init__(self) -> None:
        self.woken = threading.Event()
        self.value: int | None = None
        self.error: BaseException | None = None


class Cached:
    """Ids from memory, over a Counter or a Pool. Thread-safe, fork-safe.

    When to use: always, unless ids must follow the order of the calls across processes without gaps.
    Promise: no id twice; ids of one process ascend within a range; at most one fetch under way, however many
    threads wait; waiters are served in the order in which they came; the child of a fork begins empty.
    Cost: a fetch every ``step`` ids; a crash or :meth:`close` burns what is in memory, at most two steps.

    ``step`` is a number of ids, or :class:`~tallyglass.allocate.cache.step_size.Adaptive`. The next range is fetched
    when at most ``ahead`` of a step is left. ``patience`` is how many seconds a caller waits for an id before
    AllocationTimeout; errors of the source reach whoever waits. After CounterRewound nothing is handed out any more.
    """

    def __init__(
        self,
        source: RangeSource,
        *,
        step: int | StepSize = 1000,
        ahead: float = 0.5,
        patience: float = 30.0,
        on_event: Hook | None = None,
    ) -> None:
        self._source = source
        self._step = step
        self._ahead = ahead
        self._patience = patience
        self._meter = Meter(on_event)
        self._stopped: AllocationError | None = None
        self.forget()
        renew_after_fork(self)

    def forget(self) -> None:
        """Begin empty, in the child of a fork: the ids in memory are the parent's."""
        self._lock = threading.Lock()
        self._hot: Iterator[int] = iter(())
        self._leased = 0
        self._thread: threading.Thread | None = None
        self._steps = step_size(self._step)
        self._refill: Refill[_Waiter] = Refill(self._steps, self._ahead)
        self._meter.reset()

    if _FREE_THREADED:

        def next(self) -> int:
            """One id. Raises AllocationTimeout after ``patience`` seconds, and the errors of the source."""
            with self._lock:
                for value in self._hot:
                    return value
            return self._slow()

    else:

        def next(self) -> int:
            """One id. Raises AllocationTimeout after ``patience`` seconds, and the errors of the source."""
            for value in self._hot:
                return value
            return self._slow()

    def take(self, n: int) -> list[int]:
        """``n`` ids, not always consecutive."""
        taken: list[int] = []
        try:
            while len(taken) < n:
                if _FREE_THREADED:
                    with self._lock:
                        taken += islice(self._hot, n - len(taken))
                else:
                    taken += islice(self._hot, n - len(taken))
                if len(taken) < n:
                    taken.append(self._slow())
        except BaseException:
            lost = len(taken)
            self._meter.tell(EventKind.BURNED, lost, note="part of a take that failed", burned=lost, issued=-lost)
            raise
        return taken

    def stats(self) -> Stats:
        """What this allocator and its source did in this process."""
        with self._lock:
            rest = length_hint(self._hot)
            refill, leased = self._refill, self._leased
            now = {
                "cached": refill.held + rest,
                "in_flight": int(refill.fetching),
                "waiters": refill.waiting,
                "step": self._steps.current(),
            }
        own, source = self._meter.stats(), self._source.stats()
        return replace(
            source,
            issued=own.issued + leased - rest,
            burned=own.burned + source.burned,
            stalls=own.stalls,
            **now,
        )

    def close(self) -> int:
        """Hand out nothing any more; how many ids were burned by that, those of a fetch under way included.

        The client stays open. Waits for a fetch that is under way, at most ``patience`` seconds.
        """
        before = self._meter.stats().burned
        with self._lock:
            closed = self._stopped = AllocatorClosed("This allocator is closed.")
            burned = self._drop()
            for waiter in self._refill.dismiss():
                waiter.error = closed
                waiter.woken.set()
            thread = self._thread
        if burned:
            self._meter.tell(EventKind.BURNED, burned, note="closed", burned=burned)
        if thread is not None and thread is not threading.current_thread():
            thread.join(self._patience)
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
        waiter: _Waiter | None = None
        with self._lock:
            if self._stopped:
                raise self._stopped
            for value in self._hot:
                return value
            span = self._refill.lease()
            if span is None:
                waiter = _Waiter()
                self._refill.wait(waiter)
            else:
                self._hot = iter(span.ids())
                self._leased += len(span)
                first = next(self._hot)
            before = self._steps.current()
            size = self._refill.fetch_due(time.monotonic())
        if size:
            if size != before:
                self._meter.tell(EventKind.STEP, size)
            self._start_fetch(size)
        return first if waiter is None else self._await(waiter)

    def _await(self, waiter: _Waiter) -> int:
        began = time.monotonic()
        try:
            waiter.woken.wait(self._patience)
        except BaseException:
            # Interrupted: an id that was handed over already goes to the next caller.
            with self._lock:
                self._refill.withdraw(waiter)
                if waiter.value is not None:
                    self._take_back(waiter.value)
            raise
        with self._lock:
            self._refill.withdraw(waiter)
        self._meter.tell(EventKind.STALLED, seconds=time.monotonic() - began, stalls=1)
        if waiter.error is not None:
            raise waiter.error
        if waiter.value is None:
            raise AllocationTimeout(
                f"No id arrived within {self._patience:g} s.", "The server is slow or away; the fetch goes on."
            )
        return waiter.value

    def _take_back(self, value: int) -> None:
        self._meter.add(issued=-1)
        if self._stopped is None:
            self._hand_over(self._refill.give_back(Span(value, value + 1)))
        else:
            self._meter.add(burned=1)

    def _start_fetch(self, size: int) -> None:
        self._thread = thread = threading.Thread(target=self._fetch, args=(size,), name="tallyglass-fetch", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            self._thread = None
            # No thread can be started any more, as at the end of the interpreter: fetch in this one.
            self._fetch(size)

    def _fetch(self, size: int) -> None:
        while size:
            ids: range | None = None
            error: AllocationError = AllocationError("A fetch of ids ended unexpectedly.")
            try:
                ids = self._source.take_up_to(size)
            except AllocationError as failure:
                error = failure
            finally:
                size = self._deliver(ids, error)

    def _deliver(self, ids: range | None, error: AllocationError) -> int:
        """Give out what a fetch brought; the size of the next fetch where there is still someone waiting, else 0."""
        burned = size = 0
        with self._lock:
            if ids is None:
                if isinstance(error, CounterRewound):
                    self._stopped = error
                    burned = self._drop()
                for loser in self._refill.failed():
                    loser.error = error
                    loser.woken.set()
            elif self._stopped is not None:
                self._refill.fetching = False
                burned = len(ids)
            else:
                self._hand_over(self._refill.filled(Span(ids.start, ids.stop)))
                size = self._refill.fetch_due(time.monotonic())
        if burned:
            self._meter.tell(EventKind.BURNED, burned, note="no longer handed out", burned=burned)
        return size

    def _hand_over(self, served: list[tuple[_Waiter, int]]) -> None:
        self._meter.add(issued=len(served))
        for waiter, value in served:
            waiter.value = value
            waiter.woken.set()

    def _drop(self) -> int:
        """Forget the ids in memory, under the lock; how many there were."""
        hot, self._hot = self._hot, iter(())
        rest = len(list(hot))
        self._leased -= rest
        return rest + self._refill.drop()
