"""The size of the next range: fixed, or adapted so that a range lasts a given time at the current rate. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from tallyglass.allocate.engine.checks import seconds as checked_seconds
from tallyglass.allocate.engine.checks import whole

_MOST_GROWTH: Final = 8
"""From one range to the next: from the least to the most in four fetches, while one burst does not set the size."""
_MOST_SHRINK: Final = 2
"""From one range to the next: a pause of some seconds does not make the next burst wait for many fetches."""
_SHARE_OF_SPACE: Final = 100_000
"""The largest range is this part of all ids, so that a crash burns next to none of them."""
_LEAST: Final = 100
"""Ids: below it, each id costs a fetch as soon as a caller hurries."""
_MOST: Final = 100_000
"""Ids: a crash burns twice as many at most, 0.01 % of an int32."""


class StepSize(Protocol):
    """Decides the size of each range."""

    def next_step(self, now: float, *, stalled: bool, used: int | None = None) -> int:
        """The size of the range fetched at ``now`` (seconds of a monotonic clock).

        ``stalled``: a caller had to wait since the last fetch. ``used``: how many ids were taken since then.
        """

    def current(self) -> int:
        """The size of the latest range, or of the first one."""


@dataclass(slots=True)
class Fixed:
    """Always ``step`` ids. A crash burns at most twice that."""

    step: int = 1000

    def __post_init__(self) -> None:
        whole(self.step, "step", low=1)

    def next_step(self, now: float, *, stalled: bool, used: int | None = None) -> int:
        return self.step

    def current(self) -> int:
        return self.step


@dataclass(slots=True)
class Adaptive:
    """A range lasts about ``seconds`` at the current rate, within ``least`` and ``most`` ids.

    Grows at most eightfold and shrinks at most by half from one range to the next; doubles when a caller had to
    wait, since the server then limits the rate. A crash burns at most ``2 * most`` ids, or ``3 * most``
    while ``short``: while a range lasts less than ``seconds`` because it may not be larger.
    """

    seconds: float = 20.0
    least: int = _LEAST
    most: int = _MOST
    short: bool = field(init=False, default=False)
    _step: int = field(init=False)
    _fetched_at: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        checked_seconds(self.seconds, "seconds")
        if whole(self.least, "least", low=1) > whole(self.most, "most", low=1):
            raise ValueError("least cannot be larger than most")
        self._step = self.least

    def next_step(self, now: float, *, stalled: bool, used: int | None = None) -> int:
        if self._fetched_at is not None:
            lasted = max(now - self._fetched_at, 1e-6)
            wanted = (self._step if used is None else used) * self.seconds / lasted
            self.short = wanted > self.most
            low = self._step * 2 if stalled else self._step / _MOST_SHRINK
            self._step = int(min(self.most, max(self.least, low, min(wanted, self._step * _MOST_GROWTH))))
        self._fetched_at = now
        return self._step

    def current(self) -> int:
        return self._step


def step_size(step: int | StepSize | None, space: int | None = None) -> StepSize:
    """The step size for a cache's ``step`` argument. None is adaptive, with at most a hundred-thousandth of ``space``.

    An adaptive step is copied, since it keeps state. Raises TypeError, ValueError.
    """
    if step is None:
        most = _MOST if space is None else max(1, min(_MOST, space // _SHARE_OF_SPACE))
        return Adaptive(least=min(_LEAST, most), most=most)
    if isinstance(step, Adaptive):
        return Adaptive(step.seconds, step.least, step.most)
    if hasattr(step, "next_step") and hasattr(step, "current"):
        return step
    return Fixed(whole(step, "step", low=1))
