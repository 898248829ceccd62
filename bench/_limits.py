"""What no forecast can do on the generated loads, in figures: why some gates hold only for all loads together."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from bench._loads import BUCKET, JOB, JOBS, TAIL, daily, heavy
from tallyglass.counters.forecast.series import WEEK

_MEAN_OF_PARETO = TAIL / (TAIL - 1)


@dataclass(frozen=True, slots=True)
class Narrow:
    """The factor of a band that covers 95 % of one load, and the percentage of another that it covers."""

    factor: float
    covered: float


def narrowest(regular: Sequence[float], other: Sequence[float]) -> Narrow:
    """From the likely over the true time of two loads: the band for the first, put on the second."""
    misses = sorted(abs(math.log(ratio)) for ratio in regular)
    width = misses[math.ceil(0.95 * len(misses)) - 1]
    return Narrow(math.exp(width), 100 * statistics.fmean(abs(math.log(ratio)) <= width for ratio in other))


def known_but_for_the_dice(ahead: float, count: int, seed: int) -> float:
    """The median error in percent, on the heavy-tailed load, of one who knows its mean at every moment.

    And by which factor to make the answer larger or smaller for the median error to be least.
    """
    ratios = []
    for number in range(count):
        rng = random.Random(f"{seed} dice {ahead} {number}")
        phase, goal = rng.uniform(0, WEEK), ahead * rng.uniform(0.5, 1.5)
        state = rng.getstate()
        mean = rng.uniform(5, 60)
        rng.setstate(state)
        ids, buckets = heavy(rng, 0.0, phase), math.ceil(goal / BUCKET)
        issued = sum(ids(n * BUCKET, 1) for n in range(buckets))
        likely, expected = 0, 0.0
        while expected < issued:
            expected += mean * (daily(likely * BUCKET + phase) + JOBS * JOB * _MEAN_OF_PARETO)
            likely += 1
        ratios.append(likely / buckets)
    return min(statistics.median(abs(ratio * n / 50 - 1) for ratio in ratios) for n in range(25, 100)) * 100
