"""The weekly trend of a load, and the random walk of its level."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

_TREND_WEEKS = 3
# How much loads grow or shrink in a week, a priori: one standard deviation of the logarithm.
_USUAL_TREND = 0.08
# Least ratio of a slope to its own error.
_CLEAR_TREND = 4.0

_WANDER_DAYS = 28
# Over twice the interval, a random walk has twice the squared difference; independent days have the same.
_WANDERS = 1.3


def clear_trend(days: Sequence[float]) -> float:
    """The weekly slope of the logarithm of weekly totals, from daily ones; 0 if the weeks do not agree on it.

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


def wander_of(days: Sequence[float], trend: float = 0.0) -> float:
    """The variance that the logarithm of the level gains a day if it follows a random walk, else 0.

    ``days`` are daily totals of whole weeks; weekdays and the weekly ``trend`` are taken out first. Needs four weeks,
    and weekdays that all have ids each week.
    """
    if len(days) < _WANDER_DAYS or min(days) <= 0:
        return 0.0
    logs = [math.log(total) - trend * day / 7 for day, total in enumerate(days)]
    means = [sum(logs[day::7]) / len(logs[day::7]) for day in range(7)]
    rest = [value - means[day % 7] for day, value in enumerate(logs)]
    apart = {step: _mean_square(rest, step) for step in (1, 7, 14)}
    if apart[14] <= _WANDERS * apart[7]:
        return 0.0
    return max(0.0, (apart[14] - apart[1]) / 13)


def _mean_square(values: Sequence[float], step: int) -> float:
    squares = [(b - a) ** 2 for a, b in zip(values, values[step:], strict=False)]
    return sum(squares) / len(squares)
