"""Does a counter start again on purpose? By its configuration, or because its past shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tallyglass.counters.forecast.series import DAY, HOUR
from tallyglass.counters.numbers import Number
from tallyglass.counters.recognise.config import Resets
from tallyglass.moment import from_seconds

# A year begins at another moment in each time zone, and somebody may have to be at work for it.
_ZONES = 14 * HOUR
_NEAR_START = 0.01
_SAME_HIGH = 0.001


@dataclass(frozen=True, slots=True)
class Fall:
    """One fall of the value: when (seconds since 1970), and from which number to which."""

    at: float
    high: Number
    low: Number

    def to_start(self, start: int) -> bool:
        """Whether it went back to where it started, or near it."""
        return abs(self.low - start) <= max(1, _NEAR_START * abs(self.high - start))


def begins_period(at: float, resets: Resets, slack: float = _ZONES) -> bool:
    """Whether a day, month or year begins at a moment, somewhere on earth."""
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


def purpose_of(falls: Sequence[Fall], start: int, cycle: bool, resets: Resets | None, top: int | None) -> str:
    """Why the last of ``falls`` is no fault, as a sentence; empty where it is one.

    ``cycle`` and ``resets`` are what the configuration says, ``top`` the last id before a cycle begins again. Without
    them a fall to the start is on purpose at the turn of a year, or when two falls before it happened at the turn of a
    month, at the same hour of different days, or from the same number.
    """
    last = falls[-1]
    moment = from_seconds(round(last.at)).strftime("%Y-%m-%d %H:%MZ")
    if not last.to_start(start):
        return ""
    if cycle:
        whole = top is None or abs(last.high - top) <= max(1, _NEAR_START * abs(top - start))
        return f"It cycles, as configured; last at {moment}." if whole else ""
    if resets:
        fits = begins_period(last.at, resets, 2 * DAY)
        return f"It starts again {resets.value}, as configured; last at {moment}." if fits else ""
    earlier = [fall for fall in falls[:-1] if fall.to_start(start)]
    if begins_period(last.at, Resets.YEARLY):
        return f"It starts again with the year; last at {moment}."
    if earlier and all(begins_period(fall.at, Resets.MONTHLY) for fall in (*earlier[-2:], last)):
        return f"It starts again with the month; last at {moment}."
    if len(earlier) >= 2 and _same_hour([*earlier[-2:], last]):
        return f"It starts again each day; last at {moment}."
    if earlier and abs(earlier[-1].high - last.high) <= max(1, _SAME_HIGH * abs(last.high - start)):
        return f"It cycles: it went back to its start from {last.high} twice; last at {moment}."
    return ""


def _same_hour(falls: Sequence[Fall]) -> bool:
    hours = [fall.at % DAY for fall in falls]
    days = {int((fall.at + DAY - hours[0]) // DAY) for fall in falls}
    around = [min(abs(hour - hours[0]), DAY - abs(hour - hours[0])) for hour in hours]
    return max(around) <= HOUR and len(days) == len(falls)
