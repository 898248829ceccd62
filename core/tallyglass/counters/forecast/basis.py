"""The basis of a forecast: the rate over whole cycles, the shape of a cycle, its irregularity, and a trend.

It is computed once from the series of a counter, and serves every forecast for that counter.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from itertools import pairwise

from tallyglass.counters.forecast.cycle import (
    irregularity,
    joined,
    level_days,
    level_now,
    smooth_week,
    unexplained,
)
from tallyglass.counters.forecast.series import DAY, HOUR, WEEK, Series
from tallyglass.counters.forecast.shift import at_new_level, day_irregularity, find_shift
from tallyglass.counters.forecast.trend import clear_trend, hidden_trend, wander_of

NEARLY = 0.01
"""A span that lacks this share of a day or a week counts as a whole one."""

# Twelve parts of less than a day: two hours each at most, and enough for a variance.
_PARTS_OF_A_SPAN = 12
# So many weeks after a hole tell more than all weeks with the hole.
_LEAST_WEEKS = 2
# The trend of so many weeks takes the place of that of twice as many and more, if it differs by more than this a week.
_RECENT_WEEKS, _OTHER_TREND = 5, 0.04
# The share of a trend that may be wrong, and the share of its difference from the trend of the recent weeks.
_TREND_DOUBT, _CHANGE_DOUBT = 0.3, 0.6
# Possible lengths of a block in hours: each divides a day into at least three blocks.
_BLOCKS = (1, 2, 3, 4, 6, 8)
# One day of seven at twice the usual level: an irregularity of 0.24, and an error of 0.56 in the log rate.
_ODD_DAYS = 2.0


@dataclass(frozen=True, slots=True)
class Basis:
    """What was estimated from the history of a counter.

    ``seconds`` is the span that the rate was measured over, ``total`` the ids handed out in it, at its final level.
    ``cycle`` is a week, a day, or the span itself; ``profile`` the usual ids of each of its equal parts. ``irregular``
    is the standard deviation of the ids of a block of ``block`` seconds over their mean, without cycles. ``span``,
    ``steps`` and ``rise`` are of the whole series.

    ``level`` is the final rate over the mean; 1 if whole cycles are known, which are more reliable. ``trend`` is the
    weekly rise of the logarithm of the weekly total, 0 if it is not clear, and ``trend_doubt`` its standard deviation;
    ``wander`` is the variance that the logarithm of the level gains a day, 0 if the level is stable. ``shifted`` is how
    many seconds ago the level last changed, and by what factor; ``doubt`` is the standard deviation of the logarithm
    because one week cannot distinguish a weekly pattern from chance.
    """

    seconds: float
    total: float
    cycle: float
    profile: tuple[float, ...]
    block: float
    irregular: float
    span: float
    steps: int
    rise: int
    level: float = 1.0
    trend: float = 0.0
    wander: float = 0.0
    trend_doubt: float = 0.0
    shifted: tuple[float, float] | None = None
    doubt: float = 0.0

    @property
    def rate(self) -> float:
        """The mean rate of the block, in ids a second."""
        return self.total / self.seconds

    @property
    def mean_rate(self) -> float:
        """Ids a second over all that was seen."""
        return self.rise / self.span


def read_basis(series: Series) -> Basis | None:
    """The basis over the largest whole number of weeks, else of days, else over the whole series.

    None if the series spans no time.
    """
    span = series.span
    if span <= 0:
        return None
    weeks, days = (int(span / cycle + NEARLY) for cycle in (WEEK, DAY))
    if weeks:
        return _of_the_last_weeks(series, weeks)
    return _of_days(series, days) if days else _of_a_part(series)


def _of_the_last_weeks(series: Series, weeks: int) -> Basis:
    """The basis of the weeks that show how the load goes on: not of those before a hole, or before another trend."""
    end = series.times[-1]
    since = int((end - max((until for _, until in series.holes()), default=series.times[0])) / WEEK + NEARLY)
    basis = _of_weeks(series, since if _LEAST_WEEKS <= since < weeks else weeks)
    if basis.seconds < 2 * _RECENT_WEEKS * WEEK:
        return basis
    recent = _of_weeks(series, _RECENT_WEEKS)
    change = abs(recent.trend - basis.trend) if recent.trend else 0.0
    chosen = recent if change > _OTHER_TREND else basis
    return replace(chosen, trend_doubt=chosen.trend_doubt + _CHANGE_DOUBT * change) if chosen.trend else chosen


def _of_a_part(series: Series) -> Basis:
    """The basis of less than a day: for the next hours the last level is a better guide than the mean."""
    span = series.span
    blocks = _rises(series, span, _PARTS_OF_A_SPAN)
    return Basis(
        seconds=span,
        total=sum(blocks),
        cycle=span,
        profile=(sum(blocks),),
        block=span / _PARTS_OF_A_SPAN,
        irregular=irregularity(blocks),
        span=span,
        steps=series.steps,
        rise=series.last - series.first,
        level=level_now(blocks),
    )


def _of_days(series: Series, days: int) -> Basis:
    hours, width = _rises(series, days * DAY, days * 24), _block_hours(series, days * DAY)
    irregular = irregularity(joined(hours, width))
    trend = clear_trend(joined(hours, 24))
    return Basis(
        seconds=days * DAY,
        total=sum(hours),
        cycle=DAY,
        profile=tuple(sum(hours[hour::24]) / days for hour in range(24)),
        block=width * HOUR,
        irregular=irregular,
        span=series.span,
        steps=series.steps,
        rise=series.last - series.first,
        trend=trend,
        trend_doubt=_TREND_DOUBT * abs(trend),
    )


def _of_weeks(series: Series, weeks: int) -> Basis:
    hours, width = _rises(series, weeks * WEEK, weeks * 168), _block_hours(series, weeks * WEEK)
    count = weeks * 7
    few = count / max(series.steps, 1)
    # A hole in the samples hides on which day the ids were handed out.
    whole = not any(end > series.times[-1] - weeks * WEEK for _, end in series.holes())
    shift = find_shift(joined(hours, 24), few) if whole else None
    if shift:
        hours = at_new_level(hours, shift)
    days = joined(hours, 24)
    week = smooth_week([sum(hours[hour::168]) / weeks for hour in range(168)])
    irregular = unexplained(joined(hours, width), joined(week, width))
    chance_of_a_day = max(few, irregular**2 * width / 24)
    doubt = 0.0
    if weeks == 1:
        doubt = _ODD_DAYS * math.sqrt(max(0.0, day_irregularity(hours) ** 2 - chance_of_a_day))
        week = level_days(week, doubt)
    return Basis(
        seconds=weeks * WEEK,
        total=sum(days),
        cycle=WEEK,
        profile=tuple(week),
        block=width * HOUR,
        irregular=irregular,
        span=series.span,
        steps=series.steps,
        rise=series.last - series.first,
        trend=(trend := clear_trend(days) if whole else 0.0),
        wander=wander_of(days, trend) if whole else 0.0,
        trend_doubt=_TREND_DOUBT * abs(trend) if whole else hidden_trend(days),
        shifted=((count - shift.day) * DAY, math.exp(shift.size)) if shift else None,
        doubt=doubt,
    )


def _rises(series: Series, seconds: float, count: int) -> list[float]:
    """The ids of equal parts of the last ``seconds``."""
    start = series.times[-1] - seconds
    levels = series.levels_at([start + n * seconds / count for n in range(count + 1)])
    return [after - before for before, after in pairwise(levels)]


def _block_hours(series: Series, seconds: float) -> int:
    """The shortest block, in hours, for which the older half of the history has about one sample a block."""
    end = series.times[-1]
    start, middle = (bisect_left(series.times, end - part) for part in (seconds, seconds / 2))
    apart = seconds / 2 / max(1, middle - start) / HOUR
    return next((hours for hours in _BLOCKS if hours >= apart), _BLOCKS[-1])
