"""What an allocator did: counts, fetch times, and an event for each thing worth exporting."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_KEPT_TIMES: Final = 1024


class EventKind(StrEnum):
    """What an event reports."""

    FETCHED = "fetched"
    """A range arrived: ``n`` ids, after ``seconds``."""
    RETRIED = "retried"
    """A call failed without effect and is made again: ``note`` is the error's name."""
    BURNED = "burned"
    """``n`` ids will never be used: ``note`` says why."""
    FAILED = "failed"
    """A fetch was given up: ``note`` is the error's name."""
    STALLED = "stalled"
    """A caller had to wait for a range: the step is too small, or the server too slow."""
    STEP = "step"
    """The adaptive step is now ``n``."""
    COLLISION = "collision"
    """An id that was tried is taken already."""
    FULL = "full"
    """A document of a pool has no id left: ``note`` names it."""
    REWOUND = "rewound"
    """The counter went back; the allocator stopped."""
    WEAK = "weak"
    """This deployment cannot keep the promises: ``note`` says which."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: ids concerned, seconds it took, and a word about it that is safe to show."""

    kind: EventKind
    n: int = 0
    seconds: float = 0.0
    note: str = ""


Hook = Callable[[Event], None]
"""Called for each event, in the thread or task where it happens. It must be quick and must not raise."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts since the allocator was made, or since the fork that made this process.

    ``issued`` ids were given to callers; ``burned`` ids were taken from the counter, or may have been, and will
    never be used: an upper bound, since an outcome that is unknown counts as taken.
    ``cached`` ids are in memory. ``fetches`` ranges arrived, ``in_flight`` are under way, ``waiters`` callers
    wait. ``fetch_p50`` and ``fetch_p99`` are seconds over the last 1,024 fetches, None before the first.
    ``collisions`` ids were taken already. ``full`` documents of a pool have no id left. ``step`` is the size of
    the next range.
    """

    issued: int = 0
    burned: int = 0
    cached: int = 0
    fetches: int = 0
    retries: int = 0
    failures: int = 0
    in_flight: int = 0
    waiters: int = 0
    stalls: int = 0
    fetch_p50: float | None = None
    fetch_p99: float | None = None
    collisions: int = 0
    full: int = 0
    step: int = 1


class Meter:
    """Counts, thread-safe. ``hook`` is called outside the lock."""

    def __init__(self, hook: Hook | None = None) -> None:
        self._hook = hook
        self.reset()

    def reset(self) -> None:
        """Begin anew: in the child of a fork, whose parent keeps the counts."""
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}
        self._times: deque[float] = deque(maxlen=_KEPT_TIMES)

    def add(self, **counts: int) -> None:
        """Add to counts named as in :class:`Stats`."""
        with self._lock:
            for name, n in counts.items():
                self._counts[name] = self._counts.get(name, 0) + n

    def tell(self, kind: EventKind, n: int = 0, *, seconds: float = 0.0, note: str = "", **counts: int) -> None:
        """Count, and hand the event to the hook."""
        self.add(**counts)
        if kind is EventKind.FETCHED:
            with self._lock:
                self._times.append(seconds)
        if self._hook is not None:
            self._hook(Event(kind, n, seconds, note))

    def stats(self, **now: int) -> Stats:
        """A snapshot; ``now`` holds the values that the allocator itself knows."""
        with self._lock:
            counts, times = {**self._counts, **now}, sorted(self._times)
        return Stats(
            **counts,
            fetch_p50=times[len(times) // 2] if times else None,
            fetch_p99=times[min(len(times) - 1, int(len(times) * 0.99))] if times else None,
        )
