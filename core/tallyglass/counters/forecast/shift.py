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
# Least ratio of the squares that a change explains to the residual per degree of freedom: five standard errors.
_CLEAR = 25.0
# Least ratio of these squares to the variance of a day due to the number of steps.
_BEYOND_CHANCE = 12.0
# Largest ratio of the residual of a change to the residual of a trend.
_BETTER_THAN_TREND = 0.8
# The minimum standard deviation of a day.
_NOISE_FLOOR = 0.01**2
# Days at another level before the change is fully trusted; a single day may be a holiday or an import.
_BELIEVED_AFTER = 3
# Fractions of the day that may pass before the change.
_PARTS = (0.0, 1 / 3, 2 / 3)
_CUT_HOURS = 3


@dataclass(frozen=True, slots=True)
class Shift:
    """From day ``day`` on (``part`` of it at the old level) totals are ``exp(size)`` times those before."""

    day: int
    part: float
    size: float

    def missing(self, day: int) -> float:
        """The share of the change that a day does not include, as a logarithm."""
        return self.size * (1.0 if day < self.day else self.part if day == self.day else 0.0)

    def age(self, count: int) -> float:
        """Days since the change, at the end of day ``count``."""
        return count - self.day - self.part


def find_shifts(days: Sequence[float], chance: float = 0.0) -> list[Shift]:
    """The changes of level in the daily totals of whole weeks, the clearest first. Needs two weeks.

    Weekdays with any empty day are left out; three must remain. ``chance`` is the least variance of the logarithm of a
    daily total, given how few steps were seen.
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
    """How far a change is trusted to last (0..1): fully after three days."""
    return min(1.0, shift.age(days) / _BELIEVED_AFTER)


def at_new_level(hours: Sequence[float], shifts: Sequence[Shift]) -> list[float]:
    """The hours of whole days, rescaled to the last level as far as that is trusted."""
    count = len(hours) // 24
    factors = [
        math.exp(sum(shift.missing(day) * credibility(shift, count) for shift in shifts)) for day in range(count)
    ]
    return [rise * factors[hour // 24] for hour, rise in enumerate(hours)]


def _clearest(logs: Sequence[float], busy: Sequence[bool], least: float) -> Shift | None:
    """The change that explains most of the squares, and at least ``least``; None if a trend explains as much."""
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
    """How much the days of one week differ, apart from up to two consecutive days of rest.

    A standard deviation of the logarithm of daily totals. A day may begin at any hour. A single week cannot show
    whether odd days are a habit or a change of level.
    """
    least = math.inf
    for start in range(0, 24, _CUT_HOURS):
        turned = [*hours[start:], *hours[:start]]
        logs = [math.log(max(sum(turned[day : day + 24]), 1.0)) for day in range(0, 168, 24)]
        mean = sum(logs) / _WEEKDAYS
        logs = [value - mean for value in logs]
        # The squares that one or two days of rest explain; the other days then have their own mean.
        rest = [min(0.0, value) for value in logs]
        explained = max(value * value * 7 / 6 for value in rest)
        explained = max(explained, *((a + b) ** 2 * 7 / 10 for a, b in zip(rest, [*rest[1:], rest[0]], strict=True)))
        least = min(least, sum([value * value for value in logs]) - explained)
    return math.sqrt(max(0.0, least) / _WEEKDAYS)
