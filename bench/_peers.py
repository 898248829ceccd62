"""Other methods that say when a counter is full, asked the same questions: for ``python -m bench.band --peers``.

AutoARIMA and Theta are those of statsforecast, Prophet is prophet (``pip install -e .[bench]``); methods whose package
is missing are left out. A block bootstrap and a fixed band need no package.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import math
import random
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from tallyglass.counters.forecast.series import DAY, HOUR

Points = list[tuple[float, float]]
Band = tuple[float, float, float]
Peer = Callable[[Points, float, float], Band | None]
"""Points seen, ids left, and the longest time ahead that is asked for: early, likely and late in seconds."""

_BOOTSTRAPS = 200
_FIXED = math.log(1.8) / 2


def steps_of(points: Points) -> tuple[list[float], float, int]:
    """The ids of equal steps of the past, the seconds of a step, and how many steps a season has."""
    span = points[-1][0] - points[0][0]
    step, season = (DAY, 7) if span >= 7 * DAY else (HOUR, 24) if span >= DAY else (span / 36, 1)
    count = max(2, round(span / step))
    times, values = [at for at, _ in points], [value for _, value in points]

    def value_at(at: float) -> float:
        index = min(max(1, bisect_left(times, at)), len(times) - 1)
        share = (at - times[index - 1]) / (times[index] - times[index - 1])
        return values[index - 1] + share * (values[index] - values[index - 1])

    edges = [value_at(times[-1] - (count - n) * step) for n in range(count + 1)]
    return [b - a for a, b in pairwise(edges)], step, season


def reach(rises: Sequence[float], step: float, remaining: float) -> float | None:
    """Seconds until the rises of steps to come add up to ``remaining``; on with their mean beyond the last."""
    total = 0.0
    for number, rise in enumerate(rises):
        rise = max(0.0, rise)
        if total + rise >= remaining:
            return (number + (remaining - total) / rise) * step
        total += rise
    mean = total / len(rises) if rises else 0.0
    return (len(rises) + (remaining - total) / mean) * step if mean > 0 else None


def bootstrap(points: Points, remaining: float, longest: float) -> Band | None:
    """Futures put together from blocks of the past, a season each."""
    rises, step, season = steps_of(points)
    rng, block = random.Random(1), min(season, len(rises))
    ends: list[float] = []
    for _ in range(_BOOTSTRAPS):
        future: list[float] = []
        while len(future) < longest / step and sum(future) < remaining:
            start = rng.randrange(max(1, len(rises) - block + 1))
            future += rises[start : start + block]
        end = reach(future, step, remaining)
        if end is not None:
            ends.append(end)
    ends.sort()
    return (ends[len(ends) // 10], ends[len(ends) // 2], ends[len(ends) * 9 // 10]) if ends else None


def fixed(points: Points, remaining: float, longest: float) -> Band | None:
    """The mean rate of whole seasons, and 1.8 times from early to late whatever was seen; more below a week."""
    rises, step, season = steps_of(points)
    whole = len(rises) // season * season or len(rises)
    mean = sum(rises[-whole:]) / whole / step
    if mean <= 0:
        return None
    span = points[-1][0] - points[0][0]
    half = _FIXED if span >= 7 * DAY else math.log(4) / 2 if span >= DAY else math.log(16) / 2
    likely = remaining / mean
    return likely * math.exp(-half), likely, likely * math.exp(half)


def _of_statsforecast(name: str) -> Peer:
    def peer(points: Points, remaining: float, longest: float) -> Band | None:
        models: Any = importlib.import_module("statsforecast.models")
        numpy: Any = importlib.import_module("numpy")
        rises, step, season = steps_of(points)
        season = season if len(rises) >= 2 * season else 1
        model = models.AutoTheta(season_length=season) if name == "Theta" else models.AutoARIMA(season_length=season)
        ahead = min(1_500, max(1, math.ceil(longest / step)))
        with contextlib.suppress(Exception):  # a peer that cannot answer has no answer
            found = model.forecast(y=numpy.array(rises, dtype=float), h=ahead, level=[80])
            ends = [reach(list(found[key]), step, remaining) for key in ("hi-80", "mean", "lo-80")]
            if ends[0] is not None and ends[1] is not None:
                return ends[0], ends[1], ends[2] if ends[2] is not None else 10 * ends[1]
        return None

    return peer


def prophet(points: Points, remaining: float, longest: float) -> Band | None:
    """Prophet on the totals of steps, with its own seasons."""
    module: Any = importlib.import_module("prophet")
    pandas: Any = importlib.import_module("pandas")
    logging.getLogger("cmdstanpy").setLevel(logging.ERROR)
    rises, step, _ = steps_of(points)
    ahead = min(1_500, max(1, math.ceil(longest / step)))
    start = pandas.Timestamp("2026-01-05")
    moments = [start + pandas.Timedelta(seconds=step * n) for n in range(len(rises) + ahead)]
    with contextlib.suppress(Exception):  # a peer that cannot answer has no answer
        model = module.Prophet(interval_width=0.8, yearly_seasonality=False)
        model.fit(pandas.DataFrame({"ds": moments[: len(rises)], "y": rises}))
        found = model.predict(pandas.DataFrame({"ds": moments[len(rises) :]}))
        ends = [reach(list(found[key]), step, remaining) for key in ("yhat_upper", "yhat", "yhat_lower")]
        if ends[0] is not None and ends[1] is not None:
            return ends[0], ends[1], ends[2] if ends[2] is not None else 10 * ends[1]
    return None


def peers() -> dict[str, Peer]:
    """The peers that can run here."""
    found: dict[str, Peer] = {"bootstrap": bootstrap, "fixed": fixed}
    if importlib.util.find_spec("statsforecast"):
        found |= {name: _of_statsforecast(name) for name in ("AutoARIMA", "Theta")}
    if importlib.util.find_spec("prophet"):
        found["Prophet"] = prophet
    return found
