"""The statistics of an allocator: counts, fetch times, and events.

No lock is taken here. Counting runs in the callers' threads, where a signal handler may run at any point and may
itself take ids: with a lock it would wait for the frame that it interrupted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tallyglass.text import plural

_KEPT_TIMES: Final = 1024
"""The latest fetches, of which the median and the 99th percentile are reported: ten of them lie above the latter."""
_COUNTS: Final = ("issued", "burned", "fetches", "retries", "failures", "stalls", "collisions")
CLOSED: Final = "closed"
"""The note for ids burned as expected, because their allocator was closed."""
_log = logging.getLogger("tallyglass.allocate")


class EventKind(StrEnum):
    """What an event reports."""

    FETCHED = "fetched"
    """A range arrived: ``n`` ids, after ``seconds``."""
    RETRIED = "retried"
    """A call failed and is retried: ``note`` is the error's name."""
    BURNED = "burned"
    """``n`` ids will never be used: ``note`` is the reason."""
    FAILED = "failed"
    """A fetch was abandoned: ``note`` is the error's name."""
    STALLED = "stalled"
    """A caller had to wait for a range: the step is too small, or the server too slow."""
    STEP = "step"
    """The adaptive step is now ``n``."""
    COLLISION = "collision"
    """A proposed id is already taken."""
    FULL = "full"
    """A document of a pool has no ids left: ``note`` names it."""
    REWOUND = "rewound"
    """The counter went back; the allocator stopped."""
    WEAK = "weak"
    """The deployment or configuration weakens a guarantee: ``note`` is the reason."""


_LEVELS: Final = {
    EventKind.WEAK: logging.WARNING,
    EventKind.BURNED: logging.WARNING,
    EventKind.REWOUND: logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the allocator ``name``: ids concerned, seconds it took, and a note that is safe to show."""

    kind: EventKind
    n: int = 0
    seconds: float = 0.0
    note: str = ""
    name: str = ""


Hook = Callable[[Event], None]
"""Called for each event, in the thread or task where it occurs. It must be quick; its exceptions are logged."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts since the allocator was created, or since the fork that created this process.

    ``issued`` ids were given to callers; ``burned`` ids were taken from the counter, or may have been, and will
    never be used: an upper bound, since an outcome that is unknown counts as taken.
    ``cached`` ids are in memory. ``fetches`` ranges arrived, ``in_flight`` are under way, ``waiters`` callers
    wait. ``fetch_p50`` and ``fetch_p99`` are seconds over the last 1,024 fetches, None before the first.
    ``collisions`` proposed ids were taken. ``full`` documents of a pool have no id left. ``step`` is the size of
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
    """Counts of the allocator ``name``. Each thread has its own counts; reading adds them up."""

    def __init__(self, hook: Hook | None = None, name: str = "") -> None:
        self._hook = hook
        self.name = name
        self.reset()

    def reset(self) -> None:
        """Start at zero: in the child of a fork, whose parent keeps the counts."""
        self._counts: dict[int, dict[str, int]] = {}
        self._times: deque[float] = deque(maxlen=_KEPT_TIMES)

    def add(self, **counts: int) -> None:
        """Add to counts named as in :class:`Stats`."""
        thread = threading.get_ident()
        mine = self._counts.get(thread)
        if mine is None:
            mine = self._counts.setdefault(thread, dict.fromkeys(_COUNTS, 0))
        for name, n in counts.items():
            mine[name] += n

    def emit(self, kind: EventKind, n: int = 0, *, seconds: float = 0.0, note: str = "", **counts: int) -> None:
        """Count, log what an operator should see, and hand the event to the hook."""
        self.add(**counts)
        if kind is EventKind.FETCHED:
            self._times.append(seconds)
        if kind in _LEVELS:
            parts = [f"{kind}, {plural(n, 'id')}" if n else str(kind), note]
            level = logging.INFO if note == CLOSED else _LEVELS[kind]
            _log.log(level, "%s: %s", self.name, ": ".join(part for part in parts if part))
        if self._hook is not None:
            try:
                self._hook(Event(kind, n, seconds, note, self.name))
            except Exception:  # noqa: BLE001 - an error in the application's hook must not lose ids
                _log.exception("%s: the event hook raised on %s", self.name, kind)

    def stats(self, **now: int) -> Stats:
        """A snapshot; ``now`` holds values that the allocator provides."""
        totals = dict.fromkeys(_COUNTS, 0)
        for mine in list(self._counts.values()):
            for name in _COUNTS:
                totals[name] += mine[name]
        times = sorted(self._times.copy())
        return Stats(
            **{**totals, **now},
            fetch_p50=times[len(times) // 2] if times else None,
            fetch_p99=times[min(len(times) - 1, int(len(times) * 0.99))] if times else None,
        )
