"""What a forecast stands on: the rate over whole cycles, the shape of a cycle, how irregular it is, and a trend.

Worked out once from the series of a counter; every question about that counter is then answered from it.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tallyglass.counters.series import DAY, HOUR, WEEK, Series

NEARLY = 0.01
"""A span that lacks this share of a day or a week counts as a whole one."""

_TREND_WEEKS = 3
# How much loads grow or shrink in a week, a priori: one standard deviation of the logarithm.
_USUAL_TREND = 0.08
# A slope counts when it is so many times its own error.
_CLEAR_TREND = 4.0


@dataclass(frozen=True, slots=True)
class Basis:
    """What the past of a counter says.

    ``seconds`` is the span that the rate was taken over, ``total`` the ids handed out in it. ``cycle`` is a week, a
    day, or the span itself; ``profile`` the usual ids of each of its equal parts. ``irregular`` is the standard
    deviation of the ids of a block of ``block`` seconds over their mean, cycles left out. ``trend`` is by how much
    the logarithm of the weekly total rises each week, 0 where that is not clear. ``span`` and ``steps`` are of the
    whole series.
    """

    seconds: float
    total: float
    cycle: float
    profile: tuple[float, ...]
    block: float
    irregular: float
    trend: float
    span: float
    steps: int

    @property
    def rate(self) -> float:
        """Ids a second."""
        return self.total / self.seconds


def read_basis(series: Series) -> Basis | None:
    """The rate is that over the largest whole number of weeks, else of days, else over all. None without any span."""
    end, span = series.times[-1] if len(series) else 0.0, series.span
    if len(series) < 2 or span <= 0:
        return None
    for cycle, parts in ((WEEK, 168), (DAY, 24)):
        whole = int(span / cycle + NEARLY)
        if whole:
            hours = _rises(series, end, whole * cycle, whole * parts)
            total, irregular = sum(hours), irregularity(hours)
            profile = [sum(hours[part::parts]) / whole for part in range(parts)]
            profile = without_chance(smooth_week(profile) if cycle == WEEK else profile, irregular / math.sqrt(whole))
            trend = clear_trend(hours) if cycle == WEEK else 0.0
            return Basis(whole * cycle, total, cycle, tuple(profile), HOUR, irregular, trend, span, series.steps)
    blocks = _rises(series, end, span, 12)
    total = sum(blocks)
    return Basis(span, total, span, (total,), span / 12, irregularity(blocks), 0.0, span, series.steps)


def _rises(series: Series, end: float, seconds: float, count: int) -> list[float]:
    marks = [series.value_at(end - seconds + n * seconds / count) for n in range(count + 1)]
    return [after - before for before, after in pairwise(marks)]


def irregularity(rises: Sequence[float]) -> float:
    """The standard deviation of the ids of a block over their mean, with smooth cycles left out.

    Taken from second differences: days and nights drop out of them, jobs and batches stay. Needs three blocks.
    """
    mean = sum(rises) / len(rises)
    bends = [(a - 2 * b + c) ** 2 for a, b, c in zip(rises, rises[1:], rises[2:], strict=False)]
    return math.sqrt(sum(bends) / len(bends) / 6) / mean if mean > 0 else 0.0


def without_chance(profile: Sequence[float], noise: float) -> list[float]:
    """A profile drawn to its mean as far as its ups and downs may be chance: ``noise`` is their deviation by it."""
    mean = statistics.fmean(profile)
    variance = statistics.pvariance(profile, mean)
    kept = max(0.0, 1 - (noise * mean) ** 2 / variance) if variance else 0.0
    return [mean + kept * (part - mean) for part in profile]


def smooth_week(profile: Sequence[float]) -> list[float]:
    """A week of hours as the shape of its days times the totals of its days: less of it is chance."""
    total = sum(profile)
    if total <= 0:
        return list(profile)
    days = [sum(profile[day * 24 : day * 24 + 24]) for day in range(7)]
    hours = [sum(profile[hour::24]) for hour in range(24)]
    return [day * hour / total for day in days for hour in hours]


def clear_trend(hours: Sequence[float]) -> float:
    """The weekly slope of the logarithm of weekly totals, as far as the weeks agree on it; 0 where they do not.

    Needs three weeks, each with some ids.
    """
    days = [sum(hours[day : day + 24]) for day in range(0, len(hours), 24)]
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
