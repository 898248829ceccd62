"""More kinds of load for the backtest of forecasts: what applications do besides days and nights.

Those whose future is not in their past (a launch that fades, a step to come) are named in :data:`UNFORESEEABLE`.
"""

from __future__ import annotations

import math
import random

from bench._loads import BUCKET, SCENARIOS, Ids, Load, daily, poisson
from tallyglass.counters.forecast.series import DAY, HOUR, WEEK


def _by_hours(at: float, buckets: int, share: float = 1.0) -> list[tuple[float, float]]:
    """A sample in parts of an hour at most: the moment of each and how many buckets it has."""
    parts = max(1, math.ceil(buckets * BUCKET / HOUR))
    return [(at + (n + 0.5) * buckets * BUCKET / parts, buckets / parts * share) for n in range(parts)]


def office(rng: random.Random, origin: float, phase: float) -> Ids:
    """Working hours of working days, nothing else."""
    mean = rng.uniform(20, 90)

    def ids(at: float, buckets: int) -> float:
        return poisson(
            rng,
            sum(
                mean * width
                for moment, width in _by_hours(at + phase, buckets)
                if int(moment // DAY) % 7 < 5 and 8 <= moment % DAY / HOUR < 18
            ),
        )

    return ids


def fade(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days and nights, shrinking by 3 to 8 % a week."""
    mean, weekly = rng.uniform(20, 90), rng.uniform(0.03, 0.08)
    return lambda at, buckets: poisson(
        rng,
        mean * sum(w * daily(t + phase) for t, w in _by_hours(at, buckets)) * math.exp(-weekly * (at - origin) / WEEK),
    )


def wander(rng: random.Random, origin: float, phase: float) -> Ids:
    """A level that wanders: 6 % a day, as a random walk."""
    mean, levels = rng.uniform(20, 90), {0: 0.0}

    def level(day: int) -> float:
        while day not in levels:
            newest = max(levels)
            levels[newest + 1] = levels[newest] + rng.gauss(0, 0.06)
        return levels[day]

    first: list[float] = []

    def ids(at: float, buckets: int) -> float:
        first.append(at) if not first else None
        day = max(0, int((at - first[0]) // DAY))
        return poisson(rng, mean * math.exp(level(day)) * sum(w * daily(t + phase) for t, w in _by_hours(at, buckets)))

    return ids


def imports(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days and nights, and about every ten days an import as large as two usual days."""
    mean = rng.uniform(5, 60)

    def ids(at: float, buckets: int) -> float:
        chance = buckets * BUCKET / (10 * DAY)
        bulk = sum(2 * mean * DAY / BUCKET for _ in range(max(1, round(chance))) if rng.random() < min(1.0, chance))
        return poisson(rng, mean * sum(w * daily(t + phase) for t, w in _by_hours(at, buckets))) + round(bulk)

    return ids


def month_end(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days and nights, six times as much on the last two days of each thirty."""
    mean = rng.uniform(5, 60)

    def rate(moment: float) -> float:
        return 6.0 if (moment // DAY) % 30 >= 28 else 1.0

    return lambda at, buckets: poisson(
        rng, mean * sum(w * daily(t + phase) * rate(t + phase) for t, w in _by_hours(at, buckets))
    )


def cron(rng: random.Random, origin: float, phase: float) -> Ids:
    """One job at three in the morning takes nearly all ids."""
    size = rng.randint(2_000, 90_000)

    def ids(at: float, buckets: int) -> float:
        start, end = at + phase, at + phase + buckets * BUCKET
        runs = math.floor((end - 3 * HOUR) / DAY) - math.floor((start - 3 * HOUR) / DAY)
        return runs * round(size * rng.uniform(0.9, 1.1)) + poisson(rng, 0.2 * buckets)

    return ids


def stop_and_go(rng: random.Random, origin: float, phase: float) -> Ids:
    """Half of the hours nothing, at random."""
    mean = rng.uniform(20, 90)
    busy: dict[int, bool] = {}

    def ids(at: float, buckets: int) -> float:
        total = 0.0
        for moment, width in _by_hours(at, buckets):
            hour = int(moment // HOUR)
            if hour not in busy:
                busy[hour] = rng.random() < 0.5
            total += mean * width * busy[hour]
        return poisson(rng, total)

    return ids


def noisy_days(rng: random.Random, origin: float, phase: float) -> Ids:
    """Each day has a level of its own, by 30 %."""
    mean = rng.uniform(20, 90)
    levels: dict[int, float] = {}

    def ids(at: float, buckets: int) -> float:
        total = 0.0
        for moment, width in _by_hours(at + phase, buckets):
            level = levels.setdefault(int(moment // DAY), rng.gauss(0, 0.3))
            total += mean * width * daily(moment) * math.exp(level)
        return poisson(rng, total)

    return ids


def launch(rng: random.Random, origin: float, phase: float) -> Ids:
    """A launch that fades: the rate halves each two weeks, from three weeks before the origin on."""
    mean = rng.uniform(100, 400)

    def ids(at: float, buckets: int) -> float:
        since = max(0.0, at - (origin - 3 * WEEK))
        return poisson(rng, mean * buckets * (0.02 + 0.5 ** (since / (2 * WEEK))))

    return ids


def step_ahead(rng: random.Random, origin: float, phase: float) -> Ids:
    """The load changes to 0.5 to 2 times soon after the origin."""
    mean, when, factor = rng.uniform(20, 90), origin + rng.uniform(0.05, 0.4) * WEEK, math.exp(rng.uniform(-0.7, 0.7))
    return lambda at, buckets: poisson(
        rng, mean * sum(w * daily(t + phase) for t, w in _by_hours(at, buckets)) * (factor if at > when else 1.0)
    )


KINDS: dict[str, Load] = {
    **{name: load for name, load in SCENARIOS.items() if name != "restart"},
    **{
        load.__name__: load
        for load in (
            office, fade, wander, imports, month_end, cron, stop_and_go, noisy_days, launch, step_ahead,
        )
    },
}  # fmt: skip

UNFORESEEABLE = frozenset({"launch", "step_ahead", "shift"})
"""Their future is not in their past: a launch fades, a step lies ahead."""
