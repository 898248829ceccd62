"""How right are forecasts? A rolling-origin backtest on generated loads, against what others use.

Each series is cut at several origins; a method sees only what lies before, and is asked when the counter will have
risen by what it truly rises by afterwards. Methods: this package's; least squares as Prometheus ``predict_linear``
does it; the slope between the end points of all that was seen; Holt's double exponential smoothing as in
Prometheus.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from tallyglass.counters.basis import read_basis
from tallyglass.counters.forecast import estimate
from tallyglass.counters.series import DAY, HOUR, WEEK, Series

BUCKET = 300.0
"""Seconds between two samples."""

Z80 = 1.2816
Points = list[tuple[float, float]]
Band = tuple[float, float, float]
"""Early, likely and late, in seconds from the origin."""

HORIZONS = ((6 * HOUR, 6 * HOUR), (DAY, WEEK), (WEEK, WEEK), (28 * DAY, 28 * DAY))
"""How much is seen, and how far ahead the truth lies."""


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


Load = Callable[[random.Random, float, float], Callable[[float], float]]
"""Given a random source, the moment of the origin and the place of it in the week (seconds), the ids of each bucket."""


def steady(rng: random.Random, origin: float, phase: float) -> Callable[[float], float]:
    """The same mean day and night."""
    mean = rng.uniform(2, 40)
    return lambda at: poisson(rng, mean)


def diurnal(rng: random.Random, origin: float, phase: float) -> Callable[[float], float]:
    """Days, nights and weekends."""
    mean = rng.uniform(5, 60)
    return lambda at: poisson(rng, mean * daily(at + phase))


def batches(rng: random.Random, origin: float, phase: float) -> Callable[[float], float]:
    """The same load, but the counter moves by a thousand at a time."""
    mean = rng.uniform(0.1, 2)
    return lambda at: 1000 * poisson(rng, mean * daily(at + phase))


def heavy(rng: random.Random, origin: float, phase: float) -> Callable[[float], float]:
    """Days and nights, and now and then a job whose size is Pareto distributed (without a variance)."""
    mean = rng.uniform(5, 60)

    def ids(at: float) -> float:
        job = rng.paretovariate(1.6) * mean * 60 if rng.random() < 1 / 96 else 0.0
        return poisson(rng, mean * daily(at + phase)) + round(job)

    return ids


def growth(rng: random.Random, origin: float, phase: float) -> Callable[[float], float]:
    """Days and nights, growing by 4 to 12 % a week."""
    mean, weekly = rng.uniform(5, 60), rng.uniform(0.04, 0.12)
    return lambda at: poisson(rng, mean * daily(at + phase) * math.exp(weekly * (at - origin) / WEEK))


def shift(rng: random.Random, origin: float, phase: float) -> Callable[[float], float]:
    """Days and nights; once, somewhere within two weeks of the origin, the load doubles or halves."""
    mean = rng.uniform(5, 60)
    when, factor = origin + rng.uniform(-2, 2) * WEEK, rng.choice((0.5, 2.0))
    return lambda at: poisson(rng, mean * daily(at + phase) * (factor if at > when else 1.0))


def restart(rng: random.Random, origin: float, phase: float) -> Callable[[float], float]:
    """Days and nights; once before the origin the counter is set back to its start (see :func:`play`)."""
    return diurnal(rng, origin, phase)


SCENARIOS: dict[str, Load] = {load.__name__: load for load in (steady, diurnal, batches, heavy, growth, shift, restart)}


@dataclass(frozen=True, slots=True)
class Case:
    """One question: what was seen up to the origin, how many ids are left, and in how many seconds they are gone."""

    points: Points
    remaining: float
    truth: float


def play(load: Load, rng: random.Random, seen: float, ahead: float, phase: float) -> Case:
    """One series of a load, cut at an origin."""
    origin = 52 * WEEK
    ids = load(rng, origin, phase)
    value, points = rng.uniform(0, 1e6), []
    at = origin - seen
    points.append((at, value))
    reset = origin - seen * rng.uniform(0.2, 0.6) if load is restart else None
    while at < origin:
        value += ids(at)
        if reset is not None and at <= reset < at + BUCKET:
            value = 0.0
        at += BUCKET
        points.append((at, value))
    goal, future = ahead * rng.uniform(0.5, 1.5), []
    start = value
    while at < origin + goal or value == start:
        value += ids(at)
        at += BUCKET
        future.append((at, value))
    remaining = value - start
    reached = [row[1] - start for row in future]
    return Case(points, remaining, future[bisect_left(reached, remaining)][0] - points[-1][0])


def tallyglass(case: Case) -> Band | None:
    """This package."""
    series = Series()
    for at, value in case.points:
        series.add(at, value)
    basis = read_basis(series)
    if basis is None or basis.rate <= 0:
        return None
    found = estimate(basis, case.remaining)
    return found.ahead / found.factor, found.ahead, found.ahead * found.factor


def predict_linear(case: Case) -> Band | None:
    """Least squares over all points; the band is the 80 % prediction interval that belongs to it."""
    end = case.points[-1][0]
    xs, ys = [at - end for at, _ in case.points], [value for _, value in case.points]
    count = len(xs)
    mx, my = sum(xs) / count, sum(ys) / count
    sxx = sum((x - mx) ** 2 for x in xs)
    slope = sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sxx
    cut = my - slope * mx
    if slope <= 0:
        return None
    noise = math.sqrt(sum((y - cut - slope * x) ** 2 for x, y in zip(xs, ys, strict=True)) / max(1, count - 2))
    goal = case.points[-1][1] + case.remaining
    likely = (goal - cut) / slope
    width = Z80 * noise * math.sqrt(1 + 1 / count + (likely - mx) ** 2 / sxx) / slope
    return likely - width, likely, likely + width


def endpoint(case: Case) -> Band | None:
    """The slope between the first and the last point. It knows no band."""
    (start, low), (end, high) = case.points[0], case.points[-1]
    if high <= low:
        return None
    likely = case.remaining * (end - start) / (high - low)
    return likely, likely, likely


def holt(case: Case) -> Band | None:
    """Double exponential smoothing, with the factors of the Prometheus examples. It knows no band."""
    level, trend = case.points[0][1], case.points[1][1] - case.points[0][1]
    for _, value in case.points[1:]:
        before = level
        level = 0.3 * value + 0.7 * (level + trend)
        trend = 0.1 * (level - before) + 0.9 * trend
    if trend <= 0:
        return None
    likely = (case.points[-1][1] + case.remaining - level) / trend * BUCKET
    return likely, likely, likely


METHODS: dict[str, Callable[[Case], Band | None]] = {
    method.__name__: method for method in (tallyglass, predict_linear, endpoint, holt)
}


@dataclass(frozen=True, slots=True)
class Score:
    """How one method did on one load, in percent of the true time.

    Median and mean error, the share of truths in the band, the share before it, and the mean interval score (smaller is
    better; None without a band).
    """

    scenario: str
    seen: float
    ahead: float
    method: str
    cases: int
    median_error: float
    mean_error: float
    covered: float
    too_early: float
    interval_score: float | None


def backtest(count: int, seed: int, horizons: Iterable[tuple[float, float]] = HORIZONS) -> list[Score]:
    """Score all methods on ``count`` series for each scenario and horizon."""
    scores: list[Score] = []
    for seen, ahead in horizons:
        for name, load in SCENARIOS.items():
            rng = random.Random(f"{seed} {name} {seen}")
            # The origins are spread over the week, so that few series are as fair as many.
            cases = [play(load, rng, seen, ahead, (n + rng.random()) / count * WEEK) for n in range(count)]
            for method, ask in METHODS.items():
                scores.append(score(name, seen, ahead, method, [(case, ask(case)) for case in cases]))
    return scores


def score(scenario: str, seen: float, ahead: float, method: str, answers: Sequence[tuple[Case, Band | None]]) -> Score:
    """Sum up the answers of a method. No answer counts as "never": an error of 1,000 %."""
    errors, covered, early, intervals = [], 0, 0, []
    for case, band in answers:
        if band is None:
            errors.append(1000.0)
            continue
        low, likely, high = band
        errors.append(min(1000.0, abs(likely - case.truth) / case.truth * 100))
        covered += low <= case.truth <= high
        early += case.truth < low
        miss = max(low - case.truth, case.truth - high, 0.0)
        intervals.append((high - low + 2 / 0.2 * miss) / case.truth * 100)
    banded = method in ("tallyglass", "predict_linear")
    return Score(
        scenario, seen, ahead, method, len(answers), statistics.median(errors), statistics.fmean(errors),
        100 * covered / len(answers), 100 * early / len(answers),
        statistics.fmean(intervals) if banded and intervals else None,
    )  # fmt: skip


def say(seconds: float) -> str:
    """Hours or days."""
    return f"{seconds / HOUR:.0f} h" if seconds < DAY else f"{seconds / DAY:.0f} d"


def table(scores: Sequence[Score]) -> str:
    """The scores as a Markdown table: for each scenario the errors of all methods, and the bands."""
    lines = [
        "| seen -> ahead | load | " + " | ".join(METHODS) + " | covered: ours (least squares) | before P10 |",
        "|---|---|" + "---|" * (len(METHODS) + 2),
    ]
    rows: dict[tuple[float, float, str], dict[str, Score]] = {}
    for row in scores:
        rows.setdefault((row.seen, row.ahead, row.scenario), {})[row.method] = row
    for (seen, ahead, scenario), by_method in rows.items():
        cells = [f"{row.median_error:.0f} / {row.mean_error:.0f}" for row in by_method.values()]
        ours, least = by_method["tallyglass"], by_method["predict_linear"]
        lines.append(
            f"| {say(seen)} -> {say(ahead)} | {scenario} | {' | '.join(cells)} | "
            f"{ours.covered:.0f} % ({least.covered:.0f} %) | {ours.too_early:.0f} % |"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the backtest, print the table (median / mean error in percent) and JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--series", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(argv)
    scores = backtest(options.series, options.seed)
    print(table(scores))
    print(json.dumps([asdict(row) for row in scores]))


if __name__ == "__main__":
    main()
