"""How large the next range is: fixed, or such that a range lasts a wanted time at the rate of now. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

_MOST_GROWTH: Final = 8
_MOST_SHRINK: Final = 2


class StepSize(Protocol):
    """Decides the size of each range."""

    def next_step(self, now: float, *, stalled: bool) -> int:
        """The size of the range fetched at ``now`` (seconds of a monotonic clock).

        ``stalled`` says that a caller had to wait since the last fetch.
        """

    def current(self) -> int:
        """The size of the latest range, or of the first one."""


@dataclass(slots=True)
class Fixed:
    """Always ``step`` ids. Burn after a crash is at most twice that."""

    step: int = 1000

    def __post_init__(self) -> None:
        if self.step < 1:
            raise ValueError("a step is at least 1")

    def next_step(self, now: float, *, stalled: bool) -> int:
        return self.step

    def current(self) -> int:
        return self.step


@dataclass(slots=True)
class Adaptive:
    """A range lasts about ``seconds`` at the present rate, within ``least`` and ``most`` ids.

    Grows at most eightfold and shrinks at most by half from one range to the next; doubles when a caller had to
    wait, since the rate seen then is the server's, not the callers'.
    """

    seconds: float = 1.0
    least: int = 100
    most: int = 1_000_000
    _step: int = field(init=False)
    _fetched_at: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most or self.seconds <= 0:
            raise ValueError("an adaptive step needs 1 <= least <= most and seconds above 0")
        self._step = self.least

    def next_step(self, now: float, *, stalled: bool) -> int:
        if self._fetched_at is not None:
            lasted = max(now - self._fetched_at, 1e-6)
            wanted = self._step * self.seconds / lasted
            low = self._step * 2 if stalled else self._step / _MOST_SHRINK
            self._step = int(min(self.most, max(self.least, low, min(wanted, self._step * _MOST_GROWTH))))
        self._fetched_at = now
        return self._step

    def current(self) -> int:
        return self._step
