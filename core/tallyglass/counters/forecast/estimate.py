"""How long the remaining ids last, and the band around that, from the basis of a counter.

A counter is a running sum, so its errors form a random walk. The rate is therefore taken from the two end points,
over whole cycles (:mod:`tallyglass.counters.forecast.basis`), and the cycle is repeated from now on. The band around
that is log-normal and symmetric; its width has terms for chance, the length of the history, a level that wanders, a
trend. docs/forecasting.md has the reasons and the measurements.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tallyglass.counters.forecast.basis import Basis
from tallyglass.counters.forecast.series import DAY, WEEK
from tallyglass.counters.forecast.trend import TREND_WEEKS

Z80 = 1.2816
"""Standard deviations from the median to the 10th and 90th percentile."""

_WIDEST = 2.0
"""The largest standard deviation of the logarithm in use; a wider band would be meaningless."""

# Standard deviations of the logarithm of the time; docs/forecasting.md measures each ("The parts and the constants").
# Of a part of a day; of one day, less with the root of the days; for the root of each week ahead.
_PART_OF_DAY, _DAYS, _DRIFT_A_WEEK = 0.88, 0.60, 0.10
# Of one or two weeks, and of more.
_FEW_WEEKS, _WEEKS = 0.20, 0.13
# The largest logarithm of a rise or fall that is followed: 20 times.
_MOST_GROWTH = 3.0
# For how many times the span in which it was seen a trend is followed.
_FOLLOWED = 1.5
# Of a part of a week: a quiet moment leaves more to come than a busy one takes away.
_SOONER, _LATER = 1.2, 0.8

# Time constant of the return to the mean when less than a day was seen; for a short history so many times its span.
_FADING = DAY / 2
_FADING_SPANS = 2  # times the history
# Number of time constants after which the difference is gone.
_FADED = 40
_HALVINGS = 40  # of an interval: a part in 10^12 is left


@dataclass(frozen=True, slots=True)
class Estimate:
    """The likely time ahead in seconds, and the factors for the early end (divide) and the late end (multiply)."""

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
        """The width of the band: its late end over its early end."""
        return self.sooner * self.later


def estimate(basis: Basis, remaining: float) -> Estimate:
    """How long ``remaining`` (above 0) more ids last at a rate above 0. The caller decides whether to show it."""
    if basis.trend:
        ahead = follow_trend(basis, remaining)
        factor = _factor(basis, ahead)
        # A load that fades takes much longer for a few ids more, one that grows hardly longer for many.
        return Estimate(
            ahead, ahead / follow_trend(basis, remaining / factor), follow_trend(basis, remaining * factor) / ahead
        )
    ahead = follow_level(basis, remaining) if basis.level != 1.0 else follow_cycle(basis, remaining)
    factor = _factor(basis, ahead)
    return Estimate(ahead, factor, factor) if basis.cycle == WEEK else Estimate(ahead, factor**_SOONER, factor**_LATER)


def _factor(basis: Basis, ahead: float) -> float:
    return math.exp(Z80 * min(_WIDEST, spread_of(basis, ahead)))


def follow_level(basis: Basis, remaining: float) -> float:
    """Seconds until ``remaining`` ids are used when the current rate returns to the mean."""
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


def follow_cycle(basis: Basis, remaining: float, scale: float = 1.0) -> float:
    """Seconds until ``remaining`` ids are used when the cycle repeats, ``scale`` times as high."""
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


def follow_trend(basis: Basis, remaining: float) -> float:
    """Seconds until ``remaining`` ids are used when the totals of weeks, or of days, keep growing or shrinking.

    The trend continues for a multiple of the time in which it was seen; after that the level is constant.
    """
    cycles, trend = round(basis.seconds / basis.cycle), basis.trend * basis.cycle / WEEK
    # The last cycle seen is this many times the mean one.
    last = cycles / sum(math.exp(-trend * ago) for ago in range(cycles))
    level, grown, passed = basis.total / cycles, 0.0, 0.0
    for _ in range(math.ceil(_FOLLOWED * cycles)):
        grown = max(-_MOST_GROWTH, min(_MOST_GROWTH, grown + trend))
        scale = last * math.exp(grown)
        if remaining <= level * scale:
            return passed + follow_cycle(basis, remaining, scale)
        remaining -= level * scale
        passed += basis.cycle
    return passed + follow_cycle(basis, remaining, scale)


def spread_of(basis: Basis, ahead: float) -> float:
    """The standard deviation of the logarithm of the time ahead.

    With weeks of history: variation between weeks, a wandering level, and a trend. With less: the part of the day or
    week that was not seen, and chance.
    """
    days, weeks_ahead = basis.seconds / DAY, ahead / WEEK
    variance = chance_of(basis, ahead)
    variance += (basis.trend_doubt * weeks_ahead) ** 2
    if basis.cycle != WEEK:
        unseen = _DAYS**2 / days if basis.cycle == DAY else _PART_OF_DAY**2
        return math.sqrt(variance + unseen + _DRIFT_A_WEEK**2 * weeks_ahead)
    # Two weeks show no trend, so that the band must allow for one.
    share = _FEW_WEEKS if basis.seconds < TREND_WEEKS * WEEK else _WEEKS
    variance += share**2 * (1 + ahead / basis.seconds) / 3 + basis.doubt**2
    variance += basis.wander * (days + ahead / DAY) / 3
    return math.sqrt(variance)


def chance_of(basis: Basis, ahead: float) -> float:
    """The variance of the logarithm due to random differences between blocks and to the small number of steps."""
    block = basis.block
    return basis.irregular**2 * (block / basis.seconds + block / max(ahead, block)) + 1 / max(basis.steps, 1) ** 2
