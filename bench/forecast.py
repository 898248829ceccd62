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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from bench._backtest import Band, Case, play, tallyglass
from bench._limits import known_but_for_the_dice, narrowest
from bench._loads import SCENARIOS, Load
from bench.band import main as compare_with_peers
from tallyglass.counters.forecast.series import DAY, HOUR, WEEK

Z80 = 1.2816
HORIZONS = ((6 * HOUR, 6 * HOUR), (DAY, WEEK), (WEEK, WEEK), (28 * DAY, 28 * DAY))
"""How much is seen, and how far ahead the truth lies."""


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
    likely = (case.points[-1][1] + case.remaining - level) / trend * (case.points[1][0] - case.points[0][0])
    return likely, likely, likely


METHODS: dict[str, Callable[[Case], Band | None]] = {
    method.__name__: method for method in (tallyglass, predict_linear, endpoint, holt)
}


@dataclass(frozen=True, slots=True)
class ForecastScore:
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


def backtest(
    count: int,
    seeds: Iterable[int],
    methods: Iterable[str] = METHODS,
    horizons: Iterable[tuple[float, float]] = HORIZONS,
    most: int = 10_000,
) -> list[ForecastScore]:
    """The scores of methods on ``count`` series per seed, load and horizon, of at most ``most`` samples each."""
    scores: list[ForecastScore] = []
    seeds, methods = list(seeds), list(methods)
    for seen, ahead in horizons:
        for name, load in SCENARIOS.items():
            cases = [case for seed in seeds for case in cases_of(name, load, seen, ahead, count, seed, most)]
            for method in methods:
                ask = METHODS[method]
                scores.append(score(name, seen, ahead, method, [(case, ask(case)) for case in cases]))
    return scores


def cases_of(name: str, load: Load, seen: float, ahead: float, count: int, seed: int, most: int) -> list[Case]:
    """Some series of one load. The origins are spread over the week, so that few series are as fair as many."""
    rng = random.Random(f"{seed} {name} {seen}")
    return [play(load, rng, seen, ahead, (n + rng.random()) / count * WEEK, most) for n in range(count)]


def score(
    scenario: str, seen: float, ahead: float, method: str, answers: Sequence[tuple[Case, Band | None]]
) -> ForecastScore:
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
    return ForecastScore(
        scenario, seen, ahead, method, len(answers), statistics.median(errors), statistics.fmean(errors),
        100 * covered / len(answers), 100 * early / len(answers),
        statistics.fmean(intervals) if banded and intervals else None,
    )  # fmt: skip


def say(seconds: float) -> str:
    """Hours or days."""
    return f"{seconds / HOUR:.0f} h" if seconds < DAY else f"{seconds / DAY:.0f} d"


def table(scores: Sequence[ForecastScore]) -> str:
    """The scores as a Markdown table: for each scenario the errors of all methods, and the bands."""
    lines = [
        "| seen -> ahead | load | " + " | ".join(METHODS) + " | covered: ours (least squares) | before P10 |",
        "|---|---|" + "---|" * (len(METHODS) + 2),
    ]
    rows: dict[tuple[float, float, str], dict[str, ForecastScore]] = {}
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


def limits(count: int, seeds: Sequence[int]) -> str:
    """What no method can do here, as Markdown lines."""
    lines = []
    for seen, ahead in HORIZONS[2:]:
        ratios = {}
        for name in ("diurnal", "shift"):
            cases = [
                case for seed in seeds for case in cases_of(name, SCENARIOS[name], seen, ahead, count, seed, 10_000)
            ]
            ratios[name] = [band[1] / case.truth for case in cases if (band := tallyglass(case))]
        narrow = narrowest(ratios["diurnal"], ratios["shift"])
        either, covered = (narrow.factor - 1) * 100, narrow.covered
        lines.append(
            f"- {say(seen)}: the band that covers 95 % of diurnal, {either:.1f} % wide, covers {covered:.0f} % of shift"
        )
    known = known_but_for_the_dice(WEEK, 400, seeds[0])
    lines.append(f"- one who knows all of heavy but the dice is {known:.0f} % wrong in the median a week ahead")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the backtest, print the table (median / mean error in percent) and JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--series", type=int, default=60, help="a seed, for each row")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--peers", action="store_true", help="compare the band with other methods instead: bench.band")
    options = parser.parse_args(argv)
    if options.peers:
        compare_with_peers(["--peers", "--series", str(options.series)])
        return
    scores = backtest(options.series, options.seeds)
    print(table(scores))
    print(limits(options.series, options.seeds))
    print(json.dumps([asdict(row) for row in scores]))


if __name__ == "__main__":
    main()
