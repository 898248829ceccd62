"""Whether bursts come at a fixed interval: a timer, a scheduled job, the TTL monitor."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from math import sqrt

LEAST_STARTS = 4
TTL_MILLIS = 60_000
"""How often the TTL monitor runs by default (``ttlMonitorSleepSecs``)."""

_SHARE = 0.7
_STEPS = 5
_TTL_STEPS = 30
_EXAMINED = 96


def tolerance(period: int) -> float:
    """How many milliseconds a step may deviate."""
    return max(2_000.0, min(0.03 * period, 60_000.0))


def in_step(start: int, starts: Sequence[int], period: int, *, steps: int = _STEPS) -> bool:
    """Whether two of the other starts (sorted, in milliseconds) lie whole periods away."""
    slack, found = tolerance(period), 0
    for k in range(1, steps + 1):
        for sign in (-1, 1):
            centre, reach = start + sign * k * period, slack * sqrt(k)
            at = bisect_left(starts, centre - reach)
            found += at < len(starts) and starts[at] <= centre + reach and starts[at] != start
            if found >= 2:
                return True
    return False


def in_step_with_ttl(start: int, starts: Sequence[int]) -> bool:
    """Like `in_step`, with the period fixed at 60 s (the TTL monitor) and up to 30 missed passes."""
    return in_step(start, starts, TTL_MILLIS, steps=_TTL_STEPS)


def period_of(starts: Sequence[int]) -> int:
    """The interval in milliseconds between most of the starts (sorted); 0 if there is none.

    A rhythm counts only if the starts are unlikely to be in step by chance.
    """
    starts = starts[-_EXAMINED:]
    if len(starts) < LEAST_STARTS:
        return 0
    gaps: Counter[int] = Counter()
    for ahead in (1, 2, 3):
        for earlier, later in zip(starts, starts[ahead:], strict=False):
            if later - earlier >= 4_000:
                gaps[round((later - earlier) / 2_000)] += 1
    span = max(starts[-1] - starts[0], 1)
    for rounded, _ in gaps.most_common(6):
        period = rounded * 2_000
        if len(starts) / span * 20 * tolerance(period) >= 0.9:
            continue
        matched = sum(in_step(start, starts, period) for start in starts)
        if matched >= max(LEAST_STARTS, _SHARE * len(starts)):
            return period
    return 0
