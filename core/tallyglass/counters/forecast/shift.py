"""Detects changes of level: days are compared with the same weekdays before and after."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_WEEKDAYS = 7
_LEAST_DAYS = 14
_LEAST_WEEKDAYS = 3
_MOST_SHIFTS = 3
_SMALLEST = math.log(1.2)
# A change explains so many times what it leaves unexplained for each degree of freedom: five standard errors.
_CLEAR = 25.0
# And so many times the variance of a day that the number of steps leaves to chance.
_BEYOND_CHANCE = 12.0
# What it leaves is at most so much of what a trend leaves.
_BETTER_THAN_TREND = 0.8
# The minimum standard deviation of a day.
_NOISE_FLOOR = 0.01**2
# So many days at another level are believed; one alone may be a holiday or an import.
_BELIEVED_AFTER = 3
# How much of the day of the change may lie before it.
_PARTS = (0.0, 1 / 3, 2 / 3)
_CUT_HOURS = 3


@dataclass(frozen=True, slots=True)
class Shift:
    """From day ``day`` on (``part`` of it at the old level) totals are ``exp(size)`` times those before."""

    day: int
    part: float
    size: float

    def missing(self, day: int) -> float:
        """What of the new level a day did not have yet, as a logarithm."""
        return self.size * (1.0 if day < self.day else self.part if day == self.day else 0.0)

    def age(self, count: int) -> float:
        """Days since, at the end of ``count`` of them."""
        return count - self.day - self.part


def find_shifts(days: Sequence[float], chance: float = 0.0) -> list[Shift]:
    """The changes of level in the daily totals of whole weeks, the clearest first. Needs two weeks.

    Weekdays that had no id once are left out; three must be left. ``chance`` is the variance that the logarithm of a
    daily total has at least, as the steps seen were few.
    """
    found: list[Shift] = []
    busy = [min(days[day::_WEEKDAYS], default=0) > 0 for day in range(_WEEKDAYS)]
    if len(days) < _LEAST_DAYS or sum(busy) < _LEAST_WEEKDAYS:
        return found
    logs = [math.log(total) if busy[day % _WEEKDAYS] else 0.0 for day, total in enumerate(days)]
    while len(found) < _MOST_SHIFTS:
        shift = _clearest(logs, busy, _BEYOND_CHANCE * chance)
        if shift is None:
            break
        found.append(shift)
        logs = [value + shift.missing(day) * busy[day % _WEEKDAYS] for day, value in enumerate(logs)]
    return found


def credibility(shift: Shift, days: int) -> float:
    """How far a change is believed to last: fully after three days."""
    return min(1.0, shift.age(days) / _BELIEVED_AFTER)


def at_new_level(hours: Sequence[float], shifts: Sequence[Shift]) -> list[float]:
    """The hours of whole days as they would have been at the last level, as far as that is believed."""
    count = len(hours) // 24
    factors = [
        math.exp(sum(shift.missing(day) * credibility(shift, count) for shift in shifts)) for day in range(count)
    ]
    return [rise * factors[hour // 24] for hour, rise in enumerate(hours)]


def _clearest(logs: Sequence[float], busy: Sequence[bool], least: float) -> Shift | None:
    """The one change of level that explains most, if ``least`` of the squares; None where a trend explains as much."""
    count, weeks = len(logs), len(logs) // _WEEKDAYS
    used = sum(busy) * weeks
    rest = _without_weekdays(logs)
    total = sum(value * value for value in rest)
    times = _without_weekdays([day * float(busy[day % _WEEKDAYS]) for day in range(count)])
    trend = sum(a * b for a, b in zip(times, rest, strict=True)) ** 2 / sum(a * a for a in times)
    gain, best, after, newer = least, Shift(0, 0.0, 0.0), 0.0, [0] * _WEEKDAYS
    for day in range(count - 1, 1, -1):
        weekday = day % _WEEKDAYS
        if not busy[weekday]:
            continue
        for part in _PARTS:
            share = 1 - part
            # The change is a column of a regression, with the means of its weekdays taken out.
            squares = sum(n * n for n in newer) + 2 * share * newer[weekday] + share * share
            height = sum(newer) + share * share - squares / weeks
            along = after + share * rest[day]
            if height > 0 and along * along / height > gain:
                gain, best = along * along / height, Shift(day, part, along / height)
        after += rest[day]
        newer[weekday] += 1
    noise = _NOISE_FLOOR * used
    left = total - gain + noise
    clear = gain * (used - _WEEKDAYS - 2) >= _CLEAR * left and left <= _BETTER_THAN_TREND * (total - trend + noise)
    return best if clear and abs(best.size) >= _SMALLEST else None


def _without_weekdays(values: Sequence[float]) -> list[float]:
    means = [sum(values[day::_WEEKDAYS]) / len(values[day::_WEEKDAYS]) for day in range(_WEEKDAYS)]
    return [value - means[n % _WEEKDAYS] for n, value in enumerate(values)]


def day_irregularity(hours: Sequence[float]) -> float:
    """How far the hours of one week are from days that are alike, but for up to two in a row of another kind.

    A standard deviation of the logarithm of daily totals. A day may begin at any hour. A single week cannot show
    whether odd days are a habit or a change of level.
    """
    least = math.inf
    for start in range(0, 24, _CUT_HOURS):
        turned = [*hours[start:], *hours[:start]]
        logs = [math.log(max(sum(turned[day : day + 24]), 1.0)) for day in range(0, 168, 24)]
        mean = sum(logs) / _WEEKDAYS
        logs = [value - mean for value in logs]
        # What one and what two days of rest explain; the others then lie about a mean of their own.
        rest = [min(0.0, value) for value in logs]
        explained = max(value * value * 7 / 6 for value in rest)
        explained = max(explained, *((a + b) ** 2 * 7 / 10 for a, b in zip(rest, [*rest[1:], rest[0]], strict=True)))
        least = min(least, sum([value * value for value in logs]) - explained)
    return math.sqrt(max(0.0, least) / _WEEKDAYS)
