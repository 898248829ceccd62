"""How far a proof is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tallyglass.moment import Ts
from tallyglass.restore.timeline.coverage import Start


@dataclass(frozen=True, slots=True)
class Step:
    """How far the oplog was read: ``entries`` of this pass, up to ``at``, which lies between ``start`` and ``end``."""

    entries: int
    at: Ts
    start: Ts
    end: Ts

    @property
    def share(self) -> float:
        """The part of the time between start and end that lies behind, 0 to 1."""
        return min(max((self.at.t - self.start.t) / max(self.end.t - self.start.t, 1), 0.0), 1.0)


Progress = Callable[[Step], None]
"""Called after each batch."""


def reporter(progress: Progress | None, start: Start) -> Callable[[int, Ts], None] | None:
    """What a walk of the oplog calls to report its progress."""
    if progress is None:
        return None
    return lambda entries, at: progress(Step(entries, at, start.ts, start.newest))
