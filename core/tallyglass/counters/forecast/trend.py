"""Does a load grow or shrink from week to week, and how much does it usually change?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise

_TREND_WEEKS = 3
# How much loads grow or shrink in a week, a priori: one standard deviation of the logarithm.
_USUAL_TREND = 0.08
# A slope counts when it is so many times its own error.
_CLEAR_TREND = 4.0

USUAL_CHANGE = 0.22
"""By how much a load may change in a week, before anything is known of it: a standard deviation of the logarithm."""

# That much is believed as if it had been seen in so many weeks.
_CHANGE_WEEKS = 12


def clear_trend(days: Sequence[float]) -> float:
    """The weekly slope of the logarithm of weekly totals, from daily ones; 0 where the weeks do not agree on it.

    Needs three weeks, each with some ids.
    """
    totals = [sum(days[day : day + 7]) for day in range(0, len(days), 7)]
    if len(totals) < _TREND_WEEKS or min(totals) <= 0:
        return 0.0
    slope, error = log_trend(totals)
    error = max(error, chance_in_trend(days, slope))
    if abs(slope) < _CLEAR_TREND * error:
        return 0.0
    return slope * _USUAL_TREND**2 / (_USUAL_TREND**2 + error**2)


def chance_in_trend(days: Sequence[float], slope: float) -> float:
    """The standard error that a weekly ``slope`` has because the same weekday differs from week to week."""
    weeks = len(days) // 7
    level = [total / math.exp(slope * (n // 7 - (weeks - 1) / 2)) for n, total in enumerate(days)]
    noise = sum(statistics.variance(level[day::7]) for day in range(7))
    spread = sum((week - (weeks - 1) / 2) ** 2 for week in range(weeks))
    return math.sqrt(noise / spread) / (sum(level) / weeks)


def log_trend(totals: Sequence[float]) -> tuple[float, float]:
    """The slope of the logarithm of ``totals`` from one to the next, by least squares, and its standard error."""
    logs = [math.log(total) for total in totals]
    count = len(logs)
    middle, mean = (count - 1) / 2, sum(logs) / count
    spread = sum((n - middle) ** 2 for n in range(count))
    slope = sum((n - middle) * (y - mean) for n, y in enumerate(logs)) / spread
    rest = sum((y - mean - slope * (n - middle)) ** 2 for n, y in enumerate(logs))
    return slope, math.sqrt(rest / max(1, count - 2) / spread)


def usual_change(totals: Sequence[float], jumps: Sequence[float], chance: float) -> float:
    """By how much the logarithm of weekly totals changes in a week: the prior, and what was seen.

    ``totals`` are free of the changes of level in ``jumps``; ``chance`` is the variance of the logarithm of one of
    them. The slope is left out.
    """
    seen = len(totals) - 1
    if seen < 1 or min(totals) <= 0:
        return USUAL_CHANGE
    slope = math.log(totals[-1] / totals[0]) / seen
    squares = sum(max(0.0, (math.log(b / a) - slope) ** 2 - 2 * chance) for a, b in pairwise(totals))
    squares += sum(jump * jump for jump in jumps)
    return math.sqrt((_CHANGE_WEEKS * USUAL_CHANGE**2 + squares) / (_CHANGE_WEEKS + seen))
