"""How a counter was seen to move: up, down, or back to its start on purpose, as configured or by its history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise

from tallyglass.counters.forecast.series import DAY, HOUR
from tallyglass.counters.numbers import Number
from tallyglass.counters.recognise.config import Resets
from tallyglass.counters.standing import Movement
from tallyglass.moment import from_seconds

MOST_FALLS = 8
"""So many of the last decreases are kept."""

DESCENDS_AFTER = 3
"""A number that only fell, so often by the same amount, descends; one that fell less often may have been set back."""

CYCLES_IN_USE = "It cycles: its ids were seen in use again and again."

_LEAST_PERIOD = {Resets.DAILY: 12 * HOUR, Resets.MONTHLY: 14 * DAY, Resets.YEARLY: 180 * DAY}
"""Seconds: a reset that follows another one sooner is a fault, half a period being far from its end."""

# A year begins at a different moment in each time zone.
_ZONES = 14 * HOUR
_NEAR_START = 0.01  # the share of what was counted: some ids were issued again before the next reading
_SAME_HIGH = 0.001  # the share of what was counted by which two highest readings of a cycle may differ


@dataclass(frozen=True, slots=True)
class Decrease:
    """One decrease of the value: when (seconds since 1970), and from which number to which."""

    at: float
    high: Number
    low: Number

    def to_start(self, start: int) -> bool:
        """Whether the value went back to the start, or near it."""
        return abs(self.low - start) <= max(1, _NEAR_START * abs(self.high - start))


def only_descends(falls: Sequence[Decrease]) -> bool:
    """Whether these decreases, without a rise in between, are those of a counter that descends."""
    values = [falls[0].high, *(fall.low for fall in falls)] if falls else []
    return len(falls) >= DESCENDS_AFTER and len({b - a for a, b in pairwise(values)}) == 1


def movement_of(rose: bool, falls: Sequence[Decrease]) -> Movement:
    """How a counter moves of which no more is known than that it ``rose``, if it did, and its decreases."""
    if not rose:
        return Movement.DESCENDS if only_descends(falls) else Movement.UNSEEN
    return Movement.MIXED if len(falls) > 1 else Movement.RISES


def begins_period(at: float, resets: Resets, slack: float = _ZONES) -> bool:
    """Whether a day, month or year begins at a moment, in some time zone."""
    middle = datetime.fromtimestamp(at, UTC)
    if resets is Resets.DAILY:
        return True
    for year, month in _months_around(middle):
        if resets is Resets.YEARLY and month != 1:
            continue
        if abs(datetime(year, month, 1, tzinfo=UTC).timestamp() - at) <= slack:
            return True
    return False


def _months_around(moment: datetime) -> list[tuple[int, int]]:
    following = (moment.year + 1, 1) if moment.month == 12 else (moment.year, moment.month + 1)
    return [(moment.year, moment.month), following]


def intended_reset(falls: Sequence[Decrease], start: int, cycle: bool, resets: Resets | None, top: int | None) -> str:
    """Why the last of ``falls`` is intended, as a sentence; empty if it is a fault.

    ``cycle`` and ``resets`` come from the configuration, ``top`` is the last id of a cycle: then it is meant from its
    end, or once a period. Without them a fall to the start counts as intended at the turn of a year, or, after earlier
    falls, at the turn of a month, at the same hour of different days, or from the same number.
    """
    last = falls[-1]
    moment = from_seconds(round(last.at)).strftime("%Y-%m-%d %H:%MZ")
    if not last.to_start(start):
        return ""
    if cycle:
        whole = top is None or abs(last.high - top) <= max(1, _NEAR_START * abs(top - start))
        return f"It cycles, as configured; last at {moment}." if whole else ""
    earlier = [fall for fall in falls[:-1] if fall.to_start(start)]
    if resets:
        fits = begins_period(last.at, resets, 2 * DAY) and not (
            earlier and last.at - earlier[-1].at < _LEAST_PERIOD[resets]
        )
        return f"It starts again {resets.value}, as configured; last at {moment}." if fits else ""
    if begins_period(last.at, Resets.YEARLY):
        return f"It is reset each year; last at {moment}."
    if earlier and all(begins_period(fall.at, Resets.MONTHLY) for fall in (*earlier[-2:], last)):
        return f"It is reset each month; last at {moment}."
    if len(earlier) >= 2 and _same_hour([*earlier[-2:], last]):
        return f"It is reset each day; last at {moment}."
    if earlier and abs(earlier[-1].high - last.high) <= max(1, _SAME_HIGH * abs(last.high - start)):
        return f"It cycles: it went back to its start from {last.high} twice; last at {moment}."
    return ""


def _same_hour(falls: Sequence[Decrease]) -> bool:
    """Whether they are an hour apart at most by the clock, and of different days."""
    times = sorted(fall.at for fall in falls)
    hours = [at % DAY for at in times]
    around = [min(abs(hour - hours[0]), DAY - abs(hour - hours[0])) for hour in hours]
    return max(around) <= HOUR and all(b - a > 2 * HOUR for a, b in pairwise(times))
