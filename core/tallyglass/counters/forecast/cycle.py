"""The daily and weekly cycle of a load: its shape, and the variation that it does not explain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

_WANDERS = 0.9
"""Between independent blocks the mean squared step is twice the variance; a ratio this low is not due to chance."""


def joined(parts: Sequence[float], width: int) -> list[float]:
    """The sums of ``width`` parts each: hours as days, days as weeks."""
    return [sum(parts[start : start + width]) for start in range(0, len(parts), width)]


def without_weekdays(days: Sequence[float]) -> list[float]:
    """Values of days, each less the mean of those of its weekday."""
    means = [sum(days[day::7]) / len(days[day::7]) for day in range(7)]
    return [value - means[day % 7] for day, value in enumerate(days)]


def irregularity(rises: Sequence[float]) -> float:
    """The standard deviation of the ids of a block over their mean, without smooth cycles.

    Taken from second differences: days and nights drop out of them, jobs and batches stay. Needs three blocks.
    """
    mean = sum(rises) / len(rises)
    return math.sqrt(_chance(rises)) / mean if mean > 0 else 0.0


def _chance(rises: Sequence[float]) -> float:
    bends = [(a - 2 * b + c) ** 2 for a, b, c in zip(rises, rises[1:], rises[2:], strict=False)]
    return sum(bends) / len(bends) / 6


def unexplained(rises: Sequence[float], profile: Sequence[float]) -> float:
    """The standard deviation of the ids of a block over their mean, about the weekly ``profile`` of those blocks."""
    mean, length = sum(rises) / len(rises), len(profile)
    squares = sum((rise - profile[n % length]) ** 2 for n, rise in enumerate(rises))
    # The profile uses one degree of freedom for each of its days and for each part of a day.
    free = len(rises) - 6 - length // 7
    return math.sqrt(squares / free) / mean if mean > 0 else 0.0


def without_chance(profile: Sequence[float], noise: float) -> list[float]:
    """A profile shrunk towards its mean as far as its variation may be chance: ``noise`` is its random deviation."""
    mean = sum(profile) / len(profile)
    variance = (swing(profile) * mean) ** 2
    kept = max(0.0, 1 - (noise * mean) ** 2 / variance) if variance else 0.0
    return [mean + kept * (part - mean) for part in profile]


def smooth_week(profile: Sequence[float]) -> list[float]:
    """A week of equal parts as one daily shape times the daily totals, which leaves less noise in it."""
    total, parts = sum(profile), len(profile) // 7
    if total <= 0:
        return list(profile)
    days = joined(profile, parts)
    hours = [sum(profile[hour::parts]) for hour in range(parts)]
    return [day * hour / total for day in days for hour in hours]


def level_days(week: Sequence[float], odd: float) -> list[float]:
    """A week of equal parts with its daily totals shrunk towards their mean as far as they may not recur.

    ``odd`` is the deviation between days that a weekly pattern does not explain.
    """
    parts = len(week) // 7
    days = joined(week, parts)
    levelled = without_chance(days, odd)
    return [part * levelled[n // parts] / days[n // parts] if days[n // parts] else part for n, part in enumerate(week)]


def swing(profile: Sequence[float]) -> float:
    """How much the parts of a cycle vary: their standard deviation over their mean."""
    mean = sum(profile) / len(profile)
    return math.sqrt(sum([(part - mean) ** 2 for part in profile]) / len(profile)) / mean if mean > 0 else 0.0


def level_now(rises: Sequence[float]) -> float:
    """The rate at the end of a span over the mean rate in it; 1 if the level does not clearly wander.

    It wanders if neighbouring blocks are much more alike than others (von Neumann's ratio). The rate is then
    exponentially smoothed, with the optimal gain for that random walk. Needs three blocks.
    """
    mean = sum(rises) / len(rises)
    steps = sum([(b - a) ** 2 for a, b in pairwise(rises)]) / (len(rises) - 1)
    spread = sum([(rise - mean) ** 2 for rise in rises]) / len(rises)
    if steps >= _WANDERS * spread:
        return 1.0
    chance = _chance(rises)
    wander = max(0.0, steps - 2 * chance)
    gain = 2 * wander / (wander + math.sqrt(wander * (wander + 4 * chance))) if wander else 0.0
    level = mean
    for rise in rises:
        level += gain * (rise - level)
    return level / mean
