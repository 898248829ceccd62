"""The weekly trend of a load, and the random walk of its level."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from tallyglass.counters.forecast.cycle import joined, without_weekdays

TREND_WEEKS = 3
"""So many weeks show a trend: two always lie on a line."""
# Least ratio of a slope to its own error.
_CLEAR_TREND = 4.0
# Days of one or two weeks follow each other by chance and by weekday: so they must agree more.
_TREND_DAYS = 5
_CLEAR_OF_DAYS = 8.0  # errors

_WANDER_DAYS = 28  # as far apart as days are compared at least, twice
# Over twice the interval, a random walk has twice the squared difference; independent days have the same.
_WANDERS = 1.3
# The days apart whose mean counts: a level that always returns differs little over the longest, a curve differs most.
_LAGS = (14, 28, 56)


def clear_trend(days: Sequence[float]) -> float:
    """The weekly slope of the logarithm of weekly totals, from daily ones; 0 if the weeks do not agree on it.

    Needs three weeks; of fewer, from four days on, all days must agree. Empty ones before the first ids do not count.
    """
    first = next((day for day, total in enumerate(days) if total > 0), len(days))
    weeks = (len(days) - first) // 7
    if weeks < TREND_WEEKS:
        return _trend_of_days(days[first:])
    days = days[-7 * weeks :]
    totals = joined(days, 7)
    if min(totals) <= 0:
        return 0.0
    slope, error = log_trend(totals)
    error = max(error, chance_in_trend(days, slope))
    return slope if abs(slope) >= _CLEAR_TREND * error else 0.0


def _trend_of_days(days: Sequence[float]) -> float:
    """The weekly slope if the logarithm of each day follows it; weekends make that rare, but not a steep growth."""
    if len(days) < _TREND_DAYS or min(days) <= 0:
        return 0.0
    slope, error = log_trend(days)
    return 7 * slope if abs(slope) >= _CLEAR_OF_DAYS * error else 0.0


def hidden_trend(days: Sequence[float]) -> float:
    """How large the weekly slope may be where holes hide the totals of days: that between the halves of the time."""
    half = len(days) // 2
    older, newer = sum(days[:half]), sum(days[-half:])
    if older <= 0 or newer <= 0:
        return 0.0
    return abs(math.log(newer / older)) / (len(days) - half) * 7


def chance_in_trend(days: Sequence[float], slope: float) -> float:
    """The standard error that a weekly ``slope`` has because the same weekday differs from week to week."""
    weeks = len(days) // 7
    level = [total / math.exp(slope * (n // 7)) for n, total in enumerate(days)]
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
    rest = without_weekdays([math.log(total) - trend * day / 7 for day, total in enumerate(days)])
    apart = {step: _mean_square(rest, step) for step in (1, 7, *_LAGS) if 2 * step <= len(rest)}
    if apart[14] <= _WANDERS * apart[7]:
        return 0.0
    gains = [(apart[step] - apart[1]) / (step - 1) for step in _LAGS if step in apart]
    return max(0.0, sum(gains) / len(gains))


def _mean_square(values: Sequence[float], step: int) -> float:
    squares = [(b - a) ** 2 for a, b in zip(values, values[step:], strict=False)]
    return sum(squares) / len(squares)
