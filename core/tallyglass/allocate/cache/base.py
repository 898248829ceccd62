"""The base of both caches: everything except waiting and fetching."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

from tallyglass.allocate.cache.buffer import Buffer
from tallyglass.allocate.cache.step_size import Adaptive, StepSize, step_size
from tallyglass.allocate.engine.attempts import outer_seconds
from tallyglass.allocate.engine.checks import seconds
from tallyglass.allocate.engine.forking import Uncopyable, forked, register_for_fork
from tallyglass.allocate.engine.meter import CLOSED, EventKind, Hook, Meter, Stats
from tallyglass.allocate.errors import AllocationError, AllocationTimeout, AllocatorClosed, CounterRewound

S = TypeVar("S")
W = TypeVar("W")

LOOK_AGAIN = 0.25
"""Seconds between checks by a waiting caller that its fetch is still running."""


class CacheBase(Uncopyable, ABC, Generic[S, W]):
    """A cache over the source S, with waiters of type W.

    ``_line`` holds the waiters in the order in which they came. No flag records that a fetch is in progress:
    the fetching thread or task itself is the evidence, so a dead one is replaced.
    """

    _asynchronous: ClassVar[bool]

    def __init__(
        self,
        source: S,
        *,
        step: int | StepSize | None = None,
        ahead: float | None = None,
        patience: float = 30.0,
        on_event: Hook | None = None,
    ) -> None:
        if getattr(source, "_asynchronous", self._asynchronous) is not self._asynchronous:
            kind = "asynchronous" if self._asynchronous else "synchronous"
            raise TypeError(f"the source must be {kind}, not {type(source).__name__}")
        self._source: Any = source
        self._step = step
        self._space: int | None = getattr(source, "space", None)
        step_size(step, self._space)
        if ahead is not None and (not isinstance(ahead, (int, float)) or not 0 <= ahead <= 1):
            raise ValueError("ahead is a share of one step, from 0 to 1")
        self._ahead = ahead
        self._patience = seconds(patience, "patience", zero=True)
        self._meter = Meter(on_event, f"{type(self).__name__} over {getattr(source, 'name', type(source).__name__)}")
        self._stopped: AllocationError | None = None
        self.reset_after_fork()
        register_for_fork(self)

    def reset_after_fork(self) -> None:
        """Start empty in the child of a fork: the ids in memory are the parent's."""
        self._buffer = Buffer()
        self._fast: Iterator[int] = self._buffer.fast
        self._line: deque[W] = deque()
        self._steps = step_size(self._step, self._space)
        self._stalled = False
        self._taken = 0
        self._meter.reset()

    @property
    def name(self) -> str:
        """How events and log messages name this cache."""
        return self._meter.name

    def stats(self) -> Stats:
        """Statistics of this cache and its source in this process."""
        held = self._buffer.held()
        own = self._meter.stats()
        source: Stats = self._source.stats()
        return replace(
            source,
            issued=own.issued + self._buffer.added - held - self._buffer.dropped,
            burned=own.burned + source.burned,
            cached=held,
            in_flight=int(self._is_fetching()),
            waiters=sum(self._waits(waiter) for waiter in tuple(self._line)),
            stalls=own.stalls,
            step=self._steps.current(),
        )

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else f"{self._buffer.held()} ids in memory"
        return f"<{self.name}, {state}, step {self._steps.current()}>"

    @abstractmethod
    def _is_fetching(self) -> bool:
        """Whether a fetch is in progress."""

    @abstractmethod
    def _waits(self, waiter: W) -> bool:
        """Whether this waiter has no answer yet."""

    @abstractmethod
    def _serve(self) -> None:
        """Answer waiting callers in order, as long as there are ids."""

    @abstractmethod
    def _dismiss(self, error: AllocationError) -> None:
        """Answer all waiting callers with an error."""

    def _deliver(self, buffer: Buffer, ids: range | None, error: AllocationError) -> None:
        """Deliver a fetched range to the buffer of the process that fetched it, or the error of the fetch."""
        if self._buffer is not buffer:
            return
        if ids is not None:
            self._store(buffer, ids)
            self._serve()
            return
        if isinstance(error, CounterRewound):
            self._stop(error)
        self._dismiss(error)

    def _is_low(self) -> bool:
        """Whether it is time to fetch ahead. Also true on first use."""
        share = self._ahead if self._ahead is not None else 2 if self._is_in_haste() else 1
        return self._buffer.ahead() <= math.ceil(self._steps.current() * share)

    def _is_in_haste(self) -> bool:
        """Whether ids are taken so fast that a range of the largest size is too short to cover a slow fetch."""
        return self._ahead is None and isinstance(self._steps, Adaptive) and self._steps.short

    def _next_size(self) -> int:
        """The size of the fetch that starts now."""
        stalled, self._stalled = self._stalled or bool(self._line), False
        before = self._steps.current()
        taken = self._buffer.added - self._buffer.held()
        used, self._taken = taken - self._taken, taken
        size = self._steps.next_step(time.monotonic(), stalled=stalled, used=used)
        if size != before:
            self._meter.emit(EventKind.STEP, size)
        return size

    def _store(self, buffer: Buffer, ids: range) -> None:
        """Store a fetched range, or burn it when the allocator has stopped."""
        buffer.add(ids)
        # Looked at afterwards: another thread may stop it in between, and must not leave them in memory.
        if self._stopped is not None:
            self._burn(self._buffer.drop(), self._stopped)

    def _stop(self, error: AllocationError) -> None:
        """Stop issuing ids, and burn those in memory."""
        self._stopped = error
        self._burn(self._buffer.drop(), error)

    def _burn(self, count: int, why: AllocationError) -> None:
        if count:
            note = CLOSED if isinstance(why, AllocatorClosed) else "no longer issued"
            self._meter.emit(EventKind.BURNED, count, note=note, burned=count)

    def _refuse_forked(self, buffer: Buffer) -> None:
        """Raise AllocationError in the child of a fork within a call, which began with ``buffer``."""
        if self._buffer is not buffer:
            raise forked()

    def _give_back(self, buffer: Buffer, ids: list[int]) -> None:
        """Return ids that did not reach their caller to their buffer, or burn them when the allocator has stopped."""
        if self._stopped is None or self._buffer is not buffer:
            buffer.give_back(ids)
        elif ids:
            lost = len(ids)
            self._meter.emit(EventKind.BURNED, lost, note="taken by a call that failed", burned=lost, issued=-lost)

    def _patience_left(self) -> float:
        """How long a caller waits: ``patience``, or the rest of its own ``pymongo.timeout`` if that is shorter."""
        return max(0.0, min(self._patience, outer_seconds()))

    def _timed_out(self, waited: float) -> AllocationTimeout:
        return AllocationTimeout(
            f"No id arrived within {waited:.3g} s.", "The server is slow or unreachable; the fetch continues."
        )
