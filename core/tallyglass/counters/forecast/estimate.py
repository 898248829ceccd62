"""How long so many more ids last, and the band around that, from the basis of a counter.

A counter adds up: its errors are a random walk. So the rate is that of the two end points, taken over whole cycles
(:mod:`tallyglass.counters.forecast.basis`), and the cycle is walked through again from now on. The band is log-normal
around that; its width comes from how irregular the past was, from what part of the daily and weekly cycle was seen, and
from how far the answer lies ahead. docs/forecasting.md has the reasons and the measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tallyglass.counters.forecast.basis import Basis
from tallyglass.counters.forecast.series import DAY, WEEK

Z80 = 1.2816
"""Standard deviations from the median to the 10th and 90th percentile."""

_WIDEST = 4.0

# A trend does not go on for ever: each week it is this much weaker.
_DAMPING = 0.97
_TREND_DOUBT = 0.35
_MOST_GROWTH = 3.0
_TREND_FOLLOWED = 520 * WEEK

_MOST_CHANGE = 1.2

# How long the level of now stands out from the mean, where no whole day was seen; after a short look, not as long.
_FADING = DAY / 2
_FADING_SPANS = 2
# After so many times as long nothing of it is left.
_FADED = 40
_HALVINGS = 40

# A day or two of a load that follows people were more likely working days: an average day is less busy by so much.
_WEEKENDS = 0.07
# Parts of a day that lie so far apart belong to people.
_FULL_SWING = 0.5

# Standard deviations of the logarithm, for what of the day or the week was not seen.
_SMALL_PART = 0.9
_LARGE_PART = 0.7
_FLAT_WEEK = 0.2
_SWINGING_WEEK = 0.5
_KNOWN_WEEK = 0.03


@dataclass(frozen=True, slots=True)
class Estimate:
    """The likely time ahead in seconds, and the factors by which the early end lies before it, the late end after."""

    ahead: float
    sooner: float
    later: float

    @property
    def early(self) -> float:
        """Seconds to the early end."""
        return self.ahead / self.sooner

    @property
    def late(self) -> float:
        """Seconds to the late end."""
        return self.ahead * self.later

    @property
    def spread(self) -> float:
        """Late over early."""
        return self.sooner * self.later


def estimate(basis: Basis, remaining: float) -> Estimate:
    """How long ``remaining`` (above 0) more ids last at a rate above 0; whether that may be told is not judged."""
    doubt = basis.doubt
    if basis.trend:
        ahead, trend_doubt = follow_trend(basis, remaining)
        doubt = math.hypot(doubt, trend_doubt)
    elif basis.level != 1.0:
        ahead = follow_level(basis, remaining)
    else:
        ahead = follow_cycle(basis, remaining)
        ahead *= 1 + unseen_weekends(basis, ahead)
    spread = math.hypot(spread_of(basis, ahead), doubt)
    sooner, later = (math.exp(Z80 * min(_WIDEST, math.hypot(spread, part))) for part in unseen_cycle(basis))
    return Estimate(ahead, sooner, later)


def follow_level(basis: Basis, remaining: float) -> float:
    """Seconds until ``remaining`` ids are gone when the rate goes from that of now back to the mean."""
    fading = min(_FADING, _FADING_SPANS * basis.span)
    mean, extra = remaining / basis.rate, (basis.level - 1) * fading
    if mean - extra > _FADED * fading:
        return mean - extra
    low, high = 0.0, mean + abs(extra)
    for _ in range(_HALVINGS):
        ahead = (low + high) / 2
        if ahead - extra * math.expm1(-ahead / fading) < mean:
            low = ahead
        else:
            high = ahead
    return high


def unseen_weekends(basis: Basis, ahead: float) -> float:
    """By what share the time gets longer for the weekends that one to three days did not show.

    Only as far as the load clearly follows the day of people, and as far as the time ahead reaches a weekend.
    """
    if basis.cycle != DAY:
        return 0.0
    unseen = min(1.0, max(0.0, 4 - basis.seconds / DAY) / 2)
    return _WEEKENDS * unseen * min(1.0, basis.sure_swing / _FULL_SWING) * min(1.0, ahead / (WEEK / 2))


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

    Three parts: chance (how irregular the blocks are, over the span seen and the time ahead), what may change in the
    time ahead, and the size of the steps seen. :func:`unseen_cycle` comes on top.
    """
    block = basis.block
    chance = basis.irregular**2 * (block / basis.seconds + block / max(ahead, block))
    change = min(basis.change * math.sqrt(ahead / WEEK), _MOST_CHANGE)
    quantum = 1 / max(basis.steps, 1)
    return math.sqrt(chance + change**2 + quantum**2)


def unseen_cycle(basis: Basis) -> tuple[float, float]:
    """What not having seen a whole day, or a whole week, adds to the spread of the early and of the late end.

    Days that swing much belong to people, whose weeks swing too. Who saw only days of rest is wrong by a multiple; who
    saw only working days by 7/5 at most, if people rest on two days of seven.
    """
    if basis.cycle == WEEK:
        return _KNOWN_WEEK, _KNOWN_WEEK
    if basis.cycle == DAY:
        days = basis.seconds / DAY
        week = _FLAT_WEEK + _SWINGING_WEEK * min(1.0, basis.swing / _FULL_SWING)
        # The error of a mean that was taken from some of seven days.
        week *= math.sqrt((7 - days) / (6 * days))
        return week, week / 2
    day = _SMALL_PART if basis.span < DAY / 2 else _LARGE_PART
    return day, day
