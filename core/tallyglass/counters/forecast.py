"""When a counter runs out: early, likely and late, and the honest refusal where nobody can say.

A counter adds up: its errors are a random walk. So the rate is that of the two end points, taken over whole cycles
(:mod:`tallyglass.counters.basis`), and the cycle is walked through again from now on. The band is log-normal around
that; its width comes from how irregular the past was, from what part of the daily and weekly cycle was seen, and
from how far the answer lies ahead. docs/forecasting.md has the reasons and the measurements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from tallyglass.counters.basis import NEARLY, Basis, read_basis
from tallyglass.counters.series import DAY, HOUR, WEEK, Series
from tallyglass.counters.snapshot import Forecast
from tallyglass.moment import from_seconds

Z80 = 1.2816
"""Standard deviations from the median to the 10th and 90th percentile."""

MIN_STEPS = 10
MIN_SHARE = 0.05
"""A date needs a history of at least this share of the time it lies ahead."""

NO_HISTORY = Forecast(note="No history yet.")

_YEAR_9999 = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_WIDEST = 4.0

# A trend does not go on for ever: each week it is this much weaker.
_DAMPING = 0.97
_TREND_DOUBT = 0.35
_MOST_GROWTH = 3.0
_TREND_FOLLOWED = 520 * WEEK

# What may change in the time ahead, over the root of its weeks and over the weeks; found by bench/forecast.py.
_CHANGE_ROOT = 0.14
_CHANGE_LINEAR = 0.025
_MOST_CHANGE = 1.2


@dataclass(frozen=True, slots=True)
class Estimate:
    """The likely time ahead in seconds, and the factor by which the early and the late end differ from it."""

    ahead: float
    factor: float


def forecast(series: Series, remaining: float, now: float) -> Forecast:
    """When ``remaining`` more ids are gone, as seen at ``now`` (seconds since 1970)."""
    return forecasts(series, [remaining], now)[0]


def forecasts(series: Series, remaining: Sequence[float], now: float) -> tuple[Forecast, ...]:
    """When so many more ids are gone, for several numbers at once."""
    basis = read_basis(series)
    if basis is None:
        return (NO_HISTORY,) * len(remaining)
    return tuple(_forecast(basis, ids, now) for ids in remaining)


def _forecast(basis: Basis, remaining: float, now: float) -> Forecast:
    base = Forecast(rate=basis.rate, basis=say_span(basis.seconds), history_seconds=basis.span, steps=basis.steps)
    if basis.rate <= 0:
        return replace(base, far=True, note=f"No allocation seen in {say_span(basis.span)}.")
    if remaining <= 0:
        moment = from_seconds(now)
        return replace(base, early=moment, likely=moment, late=moment, spread=1.0, note="Already there.")
    found = estimate(basis, remaining)
    base = replace(base, spread=found.factor * found.factor)
    if now + found.ahead / found.factor > _YEAR_9999:
        return replace(base, far=True, note="Beyond the year 9999.")
    too_little = why_too_little(basis, found)
    if too_little:
        return replace(base, note=too_little)
    early, likely, late = (_date(now, found.ahead * share) for share in (1 / found.factor, 1.0, found.factor))
    note = "" if late else "The late end lies beyond the year 9999."
    return replace(base, early=early, likely=likely, late=late, far=likely is None, note=note)


def estimate(basis: Basis, remaining: float) -> Estimate:
    """How long ``remaining`` (above 0) more ids last at a rate above 0; whether that may be told is not judged."""
    ahead, doubt = follow_trend(basis, remaining) if basis.trend else (follow_cycle(basis, remaining), 0.0)
    return Estimate(ahead, math.exp(Z80 * min(_WIDEST, math.hypot(spread_of(basis, ahead), doubt))))


def follow_cycle(basis: Basis, remaining: float, scale: float = 1.0) -> float:
    """Seconds until ``remaining`` ids are gone when the cycle goes on, ``scale`` times as high."""
    whole, rest = divmod(remaining / scale, sum(basis.profile))
    part = basis.cycle / len(basis.profile)
    passed = 0.0
    for rise in basis.profile:
        if rest <= rise:
            passed += part * (rest / rise if rise else 0.0)
            break
        rest -= rise
        passed += part
    return whole * basis.cycle + passed


def follow_trend(basis: Basis, remaining: float) -> tuple[float, float]:
    """Seconds until ``remaining`` ids are gone when weekly totals go on growing or shrinking, and the doubt in that."""
    weeks = round(basis.seconds / WEEK)
    level = basis.total / weeks
    # The total of the span was handed out around its middle.
    reached, step, passed = basis.trend * (weeks - 1) / 2, basis.trend, 0.0
    while True:
        reached += step
        step *= _DAMPING
        scale = math.exp(max(-_MOST_GROWTH, min(_MOST_GROWTH, reached)))
        if remaining <= level * scale or passed >= _TREND_FOLLOWED:
            return passed + follow_cycle(basis, remaining, scale), abs(basis.trend) * passed / WEEK * _TREND_DOUBT
        remaining -= level * scale
        passed += WEEK


def spread_of(basis: Basis, ahead: float) -> float:
    """The standard deviation of the logarithm of the time ahead.

    Four parts: chance (how irregular the blocks are, over the span seen and the time ahead), what of the daily and
    weekly cycle was not seen, what may change in the time ahead, and the size of the steps seen.
    """
    block = basis.block
    chance = basis.irregular**2 * (block / basis.seconds + block / max(ahead, block))
    weeks = ahead / WEEK
    change = min(_CHANGE_ROOT * math.sqrt(weeks) + _CHANGE_LINEAR * weeks, _MOST_CHANGE)
    quantum = 1 / max(basis.steps, 1)
    return math.sqrt(chance + unseen_cycle(basis.span) ** 2 + change**2 + quantum**2)


def unseen_cycle(span: float) -> float:
    """What not having seen a whole day, or a whole week, adds to the spread."""
    for limit, share in ((DAY / 2, 0.9), (DAY, 0.7), (3 * DAY, 0.5), (WEEK, 0.3)):
        if span < limit * (1 - NEARLY):
            return share
    return 0.03


def why_too_little(basis: Basis, found: Estimate) -> str:
    """Why no date may be given; empty where one may."""
    width = f"the band would span {say_factor(found.factor * found.factor)}"
    if basis.steps < MIN_STEPS:
        return f"Too early to say: {basis.steps} changes seen, {MIN_STEPS} needed; {width}."
    least = max(MIN_SHARE * found.ahead, min(2 * HOUR, found.ahead / 4))
    if basis.span < least:
        return f"Too early to say: {say_span(basis.span)} seen, {say_span(least)} needed; {width}."
    return ""


def say_span(seconds: float) -> str:
    """A length of time in one unit: ``40 s``, ``3 h``, ``7 days``, ``4 years``."""
    if seconds >= 730 * DAY:
        return f"{seconds / (365.25 * DAY):.0f} years"
    for unit, name in ((DAY, "days"), (HOUR, "h"), (60.0, "min")):
        if seconds >= unit * 0.995:
            count = seconds / unit
            text = f"{count:.0f}" if abs(count - round(count)) < 0.05 or count >= 10 else f"{count:.1f}"
            return f"{text} {'day' if text == '1' and name == 'days' else name}"
    return f"{seconds:.0f} s"


def say_factor(factor: float) -> str:
    """A factor as text: ``6x``; over a thousand no number helps."""
    return f"{factor:.1f}x" if factor < 10 else f"{factor:.0f}x" if factor < 1000 else "more than 1,000x"


def _date(now: float, ahead: float) -> datetime | None:
    return from_seconds(now + ahead) if now + ahead < _YEAR_9999 else None
