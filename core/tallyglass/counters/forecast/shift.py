"""Detects changes of level: days are compared with the same weekdays before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tallyglass.counters.forecast.cycle import joined, without_weekdays

_WEEKDAYS = 7  # days in a week, each compared with the same one before and after
_LEAST_DAYS = 14  # of one week, no day has another one to be compared with
_LEAST_WEEKDAYS = 3  # an office has five; with fewer, one odd day is most of what there is
_SMALLEST = math.log(1.2)  # a smaller change of level is within the band of any forecast
# Least ratio of the squares that a change explains to the residual per degree of freedom: five standard errors.
_CLEAR = 25.0
# Least ratio of these squares to the variance of a day due to the number of steps.
_BEYOND_CHANCE = 12.0
# Largest ratio of the residual of a change to the residual of a trend.
_BETTER_THAN_TREND = 0.8
# The minimum standard deviation of a day.
_NOISE_FLOOR = 0.01**2
# Days at another level before a change counts; fewer may be a holiday or an import.
_LEAST_SINCE = 3
_CUT_HOURS = 3  # how far apart the hours are at which a day may be taken to begin


@dataclass(frozen=True, slots=True)
class Shift:
    """From day ``day`` on totals are ``exp(size)`` times those before."""

    day: int
    size: float


def find_shift(days: Sequence[float], chance: float = 0.0) -> Shift | None:
    """The clearest change of level in the daily totals of whole weeks, of which two are needed; None if there is none.

    Weekdays with any empty day are left out; three must remain. ``chance`` is the least variance of the logarithm of a
    daily total, given how few steps were seen.
    """
    busy = [min(days[day::_WEEKDAYS], default=0) > 0 for day in range(_WEEKDAYS)]
    if len(days) < _LEAST_DAYS or sum(busy) < _LEAST_WEEKDAYS:
        return None
    logs = [math.log(total) if busy[day % _WEEKDAYS] else 0.0 for day, total in enumerate(days)]
    return _clearest(logs, busy, _BEYOND_CHANCE * chance)


def at_new_level(hours: Sequence[float], shift: Shift) -> list[float]:
    """The hours of whole days, those before a shift rescaled to the level after it."""
    factor = math.exp(shift.size)
    return [rise * factor if hour // 24 < shift.day else rise for hour, rise in enumerate(hours)]


def _clearest(logs: Sequence[float], busy: Sequence[bool], least: float) -> Shift | None:
    """The change that explains most of the squares, and at least ``least``; None if a trend explains as much."""
    count, weeks = len(logs), len(logs) // _WEEKDAYS
    used = sum(busy) * weeks
    rest = without_weekdays(logs)
    total = sum(value * value for value in rest)
    times = without_weekdays([day * float(busy[day % _WEEKDAYS]) for day in range(count)])
    trend = sum(a * b for a, b in zip(times, rest, strict=True)) ** 2 / sum(a * a for a in times)
    gain, best, after, newer = least, Shift(0, 0.0), 0.0, [0] * _WEEKDAYS
    for day in range(count - 1, 1, -1):
        weekday = day % _WEEKDAYS
        if not busy[weekday]:
            continue
        after += rest[day]
        newer[weekday] += 1
        # The change is a column of a regression, with the means of its weekdays taken out.
        height = sum(newer) - sum(n * n for n in newer) / weeks
        if day <= count - _LEAST_SINCE and height > 0 and after * after / height > gain:
            gain, best = after * after / height, Shift(day, after / height)
    noise = _NOISE_FLOOR * used
    left = total - gain + noise
    clear = gain * (used - _WEEKDAYS - 2) >= _CLEAR * left and left <= _BETTER_THAN_TREND * (total - trend + noise)
    return best if clear and abs(best.size) >= _SMALLEST else None


def day_irregularity(hours: Sequence[float]) -> float:
    """How much the days of one week differ, apart from up to two consecutive days of rest.

    A standard deviation of the logarithm of daily totals. A day may begin at any hour. A single week cannot show
    whether odd days are a habit or a change of level.
    """
    least = math.inf
    for start in range(0, 24, _CUT_HOURS):
        turned = [*hours[start:], *hours[:start]]
        logs = [math.log(max(day, 1.0)) for day in joined(turned, 24)]
        mean = sum(logs) / _WEEKDAYS
        logs = [value - mean for value in logs]
        # The squares that one or two days of rest explain; the other days then have their own mean.
        rest = [min(0.0, value) for value in logs]
        explained = max(value * value * 7 / 6 for value in rest)
        explained = max(explained, *((a + b) ** 2 * 7 / 10 for a, b in zip(rest, [*rest[1:], rest[0]], strict=True)))
        least = min(least, sum([value * value for value in logs]) - explained)
    return math.sqrt(max(0.0, least) / _WEEKDAYS)
