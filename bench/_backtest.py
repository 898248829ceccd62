"""The questions of a rolling-origin backtest, and the answers of this package to them."""

from __future__ import annotations

import math
import random
from bisect import bisect_left
from dataclasses import dataclass

from bench._loads import BUCKET, Load, restart
from tallyglass.counters.forecast.basis import read_basis
from tallyglass.counters.forecast.estimate import estimate
from tallyglass.counters.forecast.series import WEEK, Series

Points = list[tuple[float, float]]
Band = tuple[float, float, float]
"""Early, likely and late, in seconds from the origin."""


@dataclass(frozen=True, slots=True)
class Case:
    """One question: what was seen up to the origin, how many ids are left, and in how many seconds they are gone."""

    points: Points
    remaining: float
    truth: float


def play(load: Load, rng: random.Random, seen: float, ahead: float, phase: float, most: int) -> Case:
    """One series of a load, cut at an origin; at most about ``most`` samples on either side."""
    origin = 52 * WEEK
    ids = load(rng, origin, phase)
    value, points = rng.uniform(0, 1e6), []
    at, buckets = origin - seen, coarse(seen, most)
    points.append((at, value))
    reset = origin - seen * rng.uniform(0.2, 0.6) if load is restart else None
    while at < origin:
        value += ids(at, buckets)
        if reset is not None and at <= reset < at + buckets * BUCKET:
            value = 0.0
        at += buckets * BUCKET
        points.append((at, value))
    goal, future = ahead * rng.uniform(0.5, 1.5), []
    start, buckets = value, math.ceil(ahead / BUCKET / most)
    while at < origin + goal or value == start:
        value += ids(at, buckets)
        at += buckets * BUCKET
        future.append((at, value))
    remaining = value - start
    reached = [row[1] - start for row in future]
    return Case(points, remaining, future[bisect_left(reached, remaining)][0] - points[-1][0])


def coarse(seconds: float, most: int) -> int:
    """How many buckets a sample must have so that ``most`` of them cover a span that they divide."""
    whole = round(seconds / BUCKET)
    return next(size for size in range(1, whole + 1) if whole % size == 0 and whole / size <= most)


def tallyglass(case: Case) -> Band | None:
    """This package."""
    series = Series()
    for at, value in case.points:
        series.add(at, round(value))
    basis = read_basis(series)
    if basis is None or basis.rate <= 0:
        return None
    found = estimate(basis, case.remaining)
    return found.early, found.ahead, found.late
