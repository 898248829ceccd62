"""The level of one counter, and the reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from tallyglass.counters.forecast.series import DAY, HOUR, MIN_STEPS
from tallyglass.counters.limits import INT32_MAX
from tallyglass.counters.snapshot import Ceiling, CounterView, Flag, Forecast, Members, MissingCounter
from tallyglass.counters.span import format_span
from tallyglass.text import clean

OK, WARNING, CRITICAL, UNKNOWN = range(4)
BY_SEVERITY = (OK, UNKNOWN, WARNING, CRITICAL)
"""The levels from good to bad, which is not the order of the exit codes. What was not read hides no known fault;
``max_state_alt`` of the Monitoring Plugins has the same order."""

_CRITICAL_FLAGS = (Flag.STALLED, Flag.FULL, Flag.EMPTY, Flag.BEHIND)
_REWIND_FLAGS = (Flag.REWOUND, Flag.RESET)
_WARNING_FLAGS = (Flag.DOUBLE, Flag.UNCLEAR)

NAIVE_MARGIN = 3.5
"""In one case in six the true remaining time is shorter than the naive one divided by this (docs/forecasting.md)."""

_LEAST_SHARE = 1e-4
"""A naive date counts if the history is at least this share of the time until it, as a minute is of a week."""

_LEAST_CHANGES, _FEW_CHANGES = MIN_STEPS, 3
"""Changes that make a rate, as for a date, and those that only hint at one: then it warns, and is never critical."""

_SHORT_HISTORY, _IDLE_SEEN = 2 * HOUR, HOUR
"""Seconds: a shorter history alone is not critical, and one that issued nothing for so long is idle, not young."""

_HALF_USED = 0.5
"""A counter that is too young to be dated is unknown if so large a share of its range is used: it may end soon."""

RECENT = timedelta(days=7)
"""For so long ids that are handed out again are critical."""

_REWIND_WARNING = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When to warn: the share used (0..1), and the days left until the early end of the band."""

    warn_used: float = 0.75
    crit_used: float = 0.90
    warn_days: float = 90.0
    crit_days: float = 30.0


def grade(counter: CounterView, thresholds: Thresholds, now: datetime, *, guesses: bool = False) -> tuple[int, str]:
    """The level of one counter, and a short reason."""
    reasons = [] if counter.near is None else [(WARNING, near_text(counter, counter.near))]
    if guesses or counter.may_alarm:
        reasons += [
            *_of_flags(counter, now),
            *_of_use(counter, thresholds),
            *_of_time(counter, thresholds, now),
            *((WARNING, text) for text in crossing_warnings(counter, thresholds, now)),
        ]
    if not reasons:
        return OK, ""
    worst = worst_of(level for level, _ in reasons)
    return worst, ", ".join(text for level, text in reasons if level == worst)


def worst_of(levels: Iterable[int]) -> int:
    """The worst of some levels."""
    return max(levels, key=BY_SEVERITY.index)


def near_text(counter: CounterView, limit: Ceiling) -> str:
    """How many ids are left until a limit that is near; of a guess also that it is one."""
    sure = "" if counter.may_alarm else ", not certain that this is a counter"
    return f"{limit.value - (counter.issued or 0):,} left until {plain(limit.reason)}{sure}"


def _of_flags(counter: CounterView, now: datetime) -> Iterator[tuple[int, str]]:
    for flag in counter.flags if counter.members is None else ():
        if flag in counter.acknowledged:
            continue
        if flag in _CRITICAL_FLAGS:
            yield CRITICAL, flag.value
        elif flag in _REWIND_FLAGS:
            age = now - counter.rewound_at if counter.rewound_at else timedelta(0)
            if age <= _REWIND_WARNING:
                yield (CRITICAL if age <= RECENT else WARNING), flag.value
        elif flag in _WARNING_FLAGS:
            yield WARNING, flag.value


def _of_use(counter: CounterView, thresholds: Thresholds) -> Iterator[tuple[int, str]]:
    if counter.cycles:
        return
    if counter.members is not None:
        yield from _of_members(counter.members, thresholds)
        return
    if counter.used is not None and counter.used >= thresholds.warn_used:
        critical = counter.used >= thresholds.crit_used
        yield (CRITICAL if critical else WARNING), f"{_share(counter.used)} used"


def _of_members(members: Members, thresholds: Thresholds) -> Iterator[tuple[int, str]]:
    for level, share in ((CRITICAL, thresholds.crit_used), (WARNING, thresholds.warn_used)):
        count = members.above(share) if members.used else 0
        if count:
            yield level, f"{count:,} of {members.count:,} have {share:.0%} used"
            return


def crossing_warnings(counter: CounterView, thresholds: Thresholds, now: datetime) -> Iterator[str]:
    """Why 2^31 is near, by share and by time. Only a reader of the ids could fail there: a warning, never critical."""
    if counter.cycles or counter.crossing is None:
        return
    if counter.crossing_used is not None and counter.crossing_used >= thresholds.warn_used:
        yield f"{_share(counter.crossing_used)} of 2^31 used"
    days = _days_until(counter.crossing.early, now)
    if days is None and counter.crossing.steps >= _LEAST_CHANGES:
        naive = _naive_days(counter.crossing, now)
        days = None if naive is None else naive / NAIVE_MARGIN
    if days is not None and days <= thresholds.warn_days:
        yield f"may pass 2^31 in {_in(days)}"


class Measured(NamedTuple):
    """The share used (0..1) or the days left of the limit that comes first.

    ``may_be_critical``: that is the ceiling; at another limit only readers of the ids could fail.
    """

    value: float
    may_be_critical: bool


def share_used(counter: CounterView) -> Measured | None:
    """How much is used of the limit that comes first: the ceiling, 2^31, or another one that is near."""
    shares = [] if counter.used is None else [Measured(counter.used, may_be_critical=True)]
    if counter.crossing_used is not None and not counter.cycles:
        shares.append(Measured(counter.crossing_used, may_be_critical=False))
    if counter.near is not None and counter.issued is not None:
        shares.append(Measured(counter.issued / counter.near.value, may_be_critical=False))
    return max(shares, default=None)


def nearest_limit(counter: CounterView, now: datetime) -> tuple[str, int] | None:
    """The limit that matters first, in a word, and the ids left until it; None if neither is known.

    It is 2^31 (``int32``) where that is near, though only a reader of the ids could fail there, else the ceiling.
    """
    issued = counter.issued
    if issued is None or counter.pool is not None or counter.members is not None:
        return None
    if counter.near is not None:
        return _word(counter.near.reason), counter.near.value - issued
    if any(crossing_warnings(counter, Thresholds(), now)):
        return "int32", INT32_MAX // counter.block - issued
    return (_word(counter.ceiling.reason), counter.left) if counter.ceiling and counter.left is not None else None


def _word(reason: str) -> str:
    return reason.replace(",", " ").partition(" ")[0]


def _of_time(counter: CounterView, thresholds: Thresholds, now: datetime) -> Iterator[tuple[int, str]]:
    if counter.cycles:
        return
    forecast = counter.forecast
    days = _days_until(forecast.early, now)
    if days is not None:
        if days <= thresholds.warn_days:
            yield (CRITICAL if days <= thresholds.crit_days else WARNING), f"may end in {_in(days)}"
        return
    naive = _naive_days(forecast, now)
    seen = format_span(forecast.history_seconds)
    if naive is not None and forecast.steps >= _LEAST_CHANGES:
        perhaps = naive / NAIVE_MARGIN
        if perhaps <= thresholds.warn_days:
            text = f"too early for a band ({seen} seen); at this rate full in {_in(naive)}, perhaps {_in(perhaps)}"
            sure = forecast.history_seconds >= _SHORT_HISTORY or naive <= thresholds.crit_days
            yield (CRITICAL if sure and perhaps <= thresholds.crit_days else WARNING), text
    elif naive is not None and forecast.steps >= _FEW_CHANGES and naive <= thresholds.crit_days:
        yield WARNING, f"too early for a band ({forecast.steps} changes seen); at this rate full in {_in(naive)}"
    elif is_young(counter, now) and counter.used is not None and counter.used > _HALF_USED:
        yield UNKNOWN, f"{_share(counter.used)} used and too young to date"


def is_young(counter: CounterView, now: datetime) -> bool:
    """Whether the history is too short for any statement about the end."""
    forecast = counter.forecast
    if forecast.early is not None or forecast.likely is not None or counter.members is not None:
        return False
    if forecast.far:
        return not forecast.rate and forecast.history_seconds < _IDLE_SEEN
    return forecast.steps < _LEAST_CHANGES or (forecast.naive is not None and _naive_days(forecast, now) is None)


def _naive_days(forecast: Forecast, now: datetime) -> float | None:
    """Days until the naive date; None without one, or if the history is too short for it."""
    days = _days_until(forecast.naive, now)
    return days if days is not None and forecast.history_seconds >= _LEAST_SHARE * days * DAY else None


def _in(days: float) -> str:
    return format_span(days * DAY)


def _share(used: float) -> str:
    """A share in percent. A counter that is not quite full never shows 100 %."""
    return ">99.9%" if 0.9995 <= used < 1 else f"{used:.1%}"


def days_left(counter: CounterView, now: datetime) -> Measured | None:
    """Days until the ceiling or 2^31, whichever comes first, at the early end of the band; None without a date."""
    crossing = None if counter.crossing is None or counter.cycles else counter.crossing.early
    ends = ((_days_until(counter.forecast.early, now), True), (_days_until(crossing, now), False))
    return min((Measured(days, critical) for days, critical in ends if days is not None), default=None)


def _days_until(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else max(0.0, (moment - now).total_seconds() / DAY)


def name_of(counter: CounterView | MissingCounter) -> str:
    """Namespace and id, on one line."""
    return plain(f"{counter.ns} {counter.id}" if counter.id else counter.ns)


def plain(text: str) -> str:
    """Text on one line, without the pipe that begins perfdata."""
    return clean(text, 200).replace("|", "/")
