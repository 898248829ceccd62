"""Generated loads of a counter: how many ids are handed out in each bucket of time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from tallyglass.counters.forecast.series import DAY, HOUR, WEEK

BUCKET = 300.0
"""The seconds that mean loads are stated for."""


def daily(at: float) -> float:
    """The share of the mean load at a moment of the week: quiet nights, weekends at 0.4."""
    hour = at % DAY / HOUR
    day = int(at // DAY) % 7
    return (1 + 0.8 * math.sin((hour - 9) * math.pi / 12)) * (0.4 if day >= 5 else 1.24)


def poisson(rng: random.Random, mean: float) -> int:
    """A Poisson number; normal from 50 up."""
    if mean > 50:
        return max(0, round(rng.gauss(mean, math.sqrt(mean))))
    limit, product, count = math.exp(-mean), rng.random(), 0
    while product > limit:
        product *= rng.random()
        count += 1
    return count


JOBS, JOB, TAIL = 1 / 96, 60, 1.6
"""Of the heavy-tailed load: jobs a bucket, the smallest job in mean buckets, and how fast large ones get rare."""

Ids = Callable[[float, int], float]
"""The ids that are handed out from a moment on, in so many buckets."""

Load = Callable[[random.Random, float, float], Ids]
"""Given a random source, the moment of the origin and the place of it in the week (seconds)."""


def by_hours(at: float, buckets: int) -> list[tuple[float, float]]:
    """A sample in parts of an hour at most: the moment of each and how many buckets it has."""
    parts = max(1, math.ceil(buckets * BUCKET / HOUR))
    return [(at + (n + 0.5) * buckets * BUCKET / parts, buckets / parts) for n in range(parts)]


def shaped(rng: random.Random, phase: float, mean: float, level: Callable[[float], float] = lambda at: 1.0) -> Ids:
    """Days, nights and weekends at a level that changes with the time of the load."""
    return lambda at, buckets: poisson(
        rng, mean * sum(w * daily(t + phase) * level(t) for t, w in by_hours(at, buckets))
    )


def steady(rng: random.Random, origin: float, phase: float) -> Ids:
    """The same mean day and night."""
    mean = rng.uniform(2, 40)
    return lambda at, buckets: poisson(rng, mean * buckets)


def diurnal(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days, nights and weekends."""
    mean = rng.uniform(5, 60)
    return shaped(rng, phase, mean)


def batches(rng: random.Random, origin: float, phase: float) -> Ids:
    """The same load, but the counter moves by a thousand at a time."""
    mean = rng.uniform(0.1, 2)
    batches_of = shaped(rng, phase, mean)
    return lambda at, buckets: 1000 * batches_of(at, buckets)


def heavy(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days and nights, and three times a day a job whose size is Pareto distributed (without a variance)."""
    mean = rng.uniform(5, 60)
    usual = shaped(rng, phase, mean)

    def ids(at: float, buckets: int) -> float:
        jobs = sum(round(rng.paretovariate(TAIL) * mean * JOB) for _ in range(buckets) if rng.random() < JOBS)
        return usual(at, buckets) + jobs

    return ids


def growth(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days and nights, growing by 4 to 12 % a week."""
    mean, weekly = rng.uniform(5, 60), rng.uniform(0.04, 0.12)
    return shaped(rng, phase, mean, lambda t: math.exp(weekly * (t - origin) / WEEK))


def shift(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days and nights; once, somewhere within two weeks of the origin, the load doubles or halves."""
    mean = rng.uniform(5, 60)
    when, factor = origin + rng.uniform(-2, 2) * WEEK, rng.choice((0.5, 2.0))
    return shaped(rng, phase, mean, lambda t: factor if t > when else 1.0)


def restart(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days and nights; once before the origin the counter is set back to its start (see ``bench._backtest.play``)."""
    return diurnal(rng, origin, phase)


SCENARIOS: dict[str, Load] = {load.__name__: load for load in (steady, diurnal, batches, heavy, growth, shift, restart)}
