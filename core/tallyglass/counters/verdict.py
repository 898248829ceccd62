"""The verdict for a monitoring system: a level, one line, and perfdata (Monitoring Plugins)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tallyglass.counters.snapshot import CountersSnapshot, CounterView, Flag, Forecast, Members
from tallyglass.text import clean

OK, WARNING, CRITICAL, UNKNOWN = range(4)
LEVEL_NAMES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_SEVERITY = {OK: 0, UNKNOWN: 1, WARNING: 2, CRITICAL: 3}
_CRITICAL_FLAGS = (Flag.STALLED, Flag.FULL, Flag.EMPTY, Flag.BEHIND)
_REWIND_FLAGS = (Flag.REWOUND, Flag.RESET)
_WARNING_FLAGS = (Flag.DOUBLE,)
_MOST_NAMED = 5

NAIVE_MARGIN = 3.5
"""In one case in ten the true remaining time is shorter than the naive one divided by this (docs/forecasting.md)."""

_LEAST_CHANGES = 10
_FEW_CHANGES = 3
_SHORT_HISTORY = 2 * 3600.0
_IDLE_SEEN = 3600.0
_HALF_USED = 0.5
_REWIND_CRITICAL = timedelta(days=7)
_REWIND_WARNING = timedelta(days=30)
_DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When to warn: the share used (0..1), and the days left until the early end of the band."""

    warn_used: float = 0.75
    crit_used: float = 0.90
    warn_days: float = 90.0
    crit_days: float = 30.0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """``level`` is the exit code: 0 ok, 1 warning, 2 critical, 3 unknown. ``line`` is the output with perfdata.

    ``details`` has one line for each counter with a level above OK, and one for each note, the worst first.
    """

    level: int
    line: str
    details: tuple[str, ...] = ()


def check_counters(
    snapshot: CountersSnapshot, thresholds: Thresholds = Thresholds(), *, guesses: bool = False
) -> CheckResult:
    """The worst level of all counters; UNKNOWN if the search was incomplete. ``guesses`` includes guesses."""
    rows = [counter for counter in snapshot.counters if guesses or counter.may_alarm]
    every = [*rows, *(member for counter in rows if counter.members for member in counter.members.worst)]
    graded = [(*grade(counter, thresholds, snapshot.at, guesses=guesses), counter) for counter in every]
    gaps = incomplete(snapshot, counted=bool(rows))
    level = max((level for level, _, _ in graded), key=_SEVERITY.__getitem__, default=OK)
    if gaps and level == OK:
        level = UNKNOWN
    bad = sorted((row for row in graded if row[0] != OK), key=lambda row: -_SEVERITY[row[0]])
    parts = [f"{name_of(counter)}: {why}" for _, why, counter in bad[:_MOST_NAMED]]
    if len(bad) > _MOST_NAMED:
        parts.append(f"and {len(bad) - _MOST_NAMED} more")
    if not bad and rows:
        parts.append(f"{_count(rows):,} counter{'s' * (_count(rows) > 1)}")
    parts += gaps
    notes = list(_notes(snapshot, rows, guesses=guesses))
    text = clean("; ".join([*parts, *notes]), 4_000).replace("|", "/")
    perfdata = " ".join(_perfdata(rows, thresholds, snapshot.at))
    details = [f"{LEVEL_NAMES[level]} {name_of(counter)}: {why}" for level, why, counter in bad]
    details += [f"note: {_plain(trouble.title)}" for trouble in snapshot.troubles]
    line = f"COUNTERS {LEVEL_NAMES[level]} - {text}" + (f" | {perfdata}" if perfdata else "")
    return CheckResult(level, line, tuple(details))


def incomplete(snapshot: CountersSnapshot, *, counted: bool = True) -> list[str]:
    """Short reasons why the snapshot is incomplete; empty if it is complete."""
    gaps: list[str] = []
    if snapshot.discovering:
        looked, total = snapshot.collections_looked, snapshot.collections_seen
        gaps.append(f"{looked:,} of {total:,} collections looked at")
    elif not counted:
        gaps.append("no counters found")
    if snapshot.collections_unread:
        gaps.append(f"{snapshot.collections_unread:,} of {snapshot.collections_seen:,} collections not readable")
    hidden = [trouble for trouble in snapshot.troubles if not trouble.partial]
    if hidden:
        gaps.append(f"{len(hidden)} not readable: {_plain(hidden[0].title)}")
    return gaps


def _notes(snapshot: CountersSnapshot, rows: Sequence[CounterView], *, guesses: bool) -> Iterator[str]:
    """Notes that do not change the level."""
    young = sum(is_young(counter) for counter in rows)
    if young:
        yield f"{young:,} counter{'s' * (young > 1)} too young to date"
    unsure = sum(not counter.may_alarm for counter in snapshot.counters)
    if unsure and not guesses:
        yield f"{unsure:,} guess{'es' * (unsure > 1)} not counted (--guesses)"
    acknowledged = sum(len(counter.acknowledged) for counter in rows)
    if acknowledged:
        yield f"{acknowledged:,} flag{'s' * (acknowledged > 1)} acknowledged"
    for trouble in snapshot.troubles:
        if trouble.partial:
            yield _plain(trouble.title)
            return


def _count(rows: Sequence[CounterView]) -> int:
    return sum(counter.members.count if counter.members else 1 for counter in rows)


def grade(counter: CounterView, thresholds: Thresholds, now: datetime, *, guesses: bool = False) -> tuple[int, str]:
    """The level of one counter, and a short reason."""
    if not (guesses or counter.may_alarm):
        return OK, ""
    reasons = [
        *_of_flags(counter, now),
        *_of_use(counter, thresholds),
        *_of_time(counter, thresholds, now),
        *((WARNING, text) for text in crossing_warnings(counter, thresholds, now)),
    ]
    if not reasons:
        return OK, ""
    worst = max((level for level, _ in reasons), key=_SEVERITY.__getitem__)
    return worst, ", ".join(text for level, text in reasons if level == worst)


def _of_flags(counter: CounterView, now: datetime) -> Iterator[tuple[int, str]]:
    for flag in counter.flags if counter.members is None else ():
        if flag in counter.acknowledged:
            continue
        if flag in _CRITICAL_FLAGS:
            yield CRITICAL, flag.value
        elif flag in _REWIND_FLAGS:
            age = now - counter.rewound_at if counter.rewound_at else timedelta(0)
            if age <= _REWIND_WARNING:
                yield (CRITICAL if age <= _REWIND_CRITICAL else WARNING), flag.value
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


def _of_time(counter: CounterView, thresholds: Thresholds, now: datetime) -> Iterator[tuple[int, str]]:
    if counter.cycles:
        return
    yield from _of_forecast(counter, counter.forecast, thresholds, now)


def crossing_warnings(counter: CounterView, thresholds: Thresholds, now: datetime) -> Iterator[str]:
    """Why 2^31 is near, by share and by time. Only a reader of the ids could fail there: a warning, never critical."""
    if counter.cycles or counter.crossing is None:
        return
    if counter.crossing_used is not None and counter.crossing_used >= thresholds.warn_used:
        yield f"{_share(counter.crossing_used)} of 2^31 used"
    days = _days_until(counter.crossing.early, now)
    if days is None and counter.crossing.naive and counter.crossing.steps >= _LEAST_CHANGES:
        naive = _days_until(counter.crossing.naive, now)
        days = None if naive is None else naive / NAIVE_MARGIN
    if days is not None and days <= thresholds.warn_days:
        yield f"may pass 2^31 in {span(days)}"


def _of_forecast(
    counter: CounterView, forecast: Forecast, thresholds: Thresholds, now: datetime
) -> Iterator[tuple[int, str]]:
    days = _days_until(forecast.early, now)
    if days is not None:
        if days <= thresholds.warn_days:
            yield (CRITICAL if days <= thresholds.crit_days else WARNING), f"may end in {span(days)}"
        return
    naive = _days_until(forecast.naive, now)
    seen = span(forecast.history_seconds / _DAY_SECONDS)
    if naive is not None and forecast.steps >= _LEAST_CHANGES:
        perhaps = naive / NAIVE_MARGIN
        if perhaps <= thresholds.warn_days:
            text = f"too early for a band ({seen} seen); at this rate full in {span(naive)}, perhaps {span(perhaps)}"
            sure = forecast.history_seconds >= _SHORT_HISTORY or naive <= thresholds.crit_days
            yield (CRITICAL if sure and perhaps <= thresholds.crit_days else WARNING), text
    elif naive is not None and forecast.steps >= _FEW_CHANGES and naive <= thresholds.crit_days:
        yield WARNING, f"too early for a band ({forecast.steps} changes seen); at this rate full in {span(naive)}"
    elif is_young(counter) and counter.used is not None and counter.used > _HALF_USED:
        yield UNKNOWN, f"{_share(counter.used)} used and too young to date"


def is_young(counter: CounterView) -> bool:
    """Whether the history is too short for any statement about the end."""
    forecast = counter.forecast
    if forecast.early is not None or forecast.likely is not None or counter.members is not None:
        return False
    if forecast.far:
        return not forecast.rate and forecast.history_seconds < _IDLE_SEEN
    return forecast.steps < _LEAST_CHANGES


def span(days: float) -> str:
    """A length of time: days; below two of them hours, below two of those minutes."""
    if days >= 2:
        return f"{days:.1f} days"
    minutes = round(days * 1440)
    if minutes >= 120:
        return f"{days * 24:.1f} hours"
    return "less than a minute" if minutes < 1 else f"{minutes} minute{'s' * (minutes != 1)}"


def _share(used: float) -> str:
    """A share in percent. A counter that is not quite full never shows 100 %."""
    return ">99.9%" if 0.9995 <= used < 1 else f"{used:.1%}"


def days_left(counter: CounterView, now: datetime) -> float | None:
    """Days until the early end of the band; None if there is no date."""
    return _days_until(counter.forecast.early, now)


def _days_until(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else max(0.0, (moment - now).total_seconds() / _DAY_SECONDS)


def name_of(counter: CounterView) -> str:
    """Namespace and id, on one line."""
    return _plain(f"{counter.ns} {counter.id}" if counter.id else counter.ns)


def _plain(text: str) -> str:
    # A pipe begins perfdata.
    return clean(text, 200).replace("|", "/")


def labels(counters: Sequence[CounterView]) -> list[str]:
    """A unique name for each counter, the same in every run.

    Counters that share namespace and id get their field appended; if that is not enough, part of a hash of their key.
    """
    names = [_stable_name(counter).replace("=", ":") for counter in counters]
    for suffix in (lambda counter: f"#{_plain(counter.field).replace('=', ':')}", _fingerprint):
        often = Counter(names)
        names = [
            f"{name}{suffix(counter)}" if often[name] > 1 else name
            for name, counter in zip(names, counters, strict=True)
        ]
    return names


def _stable_name(counter: CounterView) -> str:
    """The name without the number of counters in the row."""
    return name_of(counter) if counter.members is None else _plain(f"{counter.ns} * {counter.field}")


def _fingerprint(counter: CounterView) -> str:
    return f"#{hashlib.sha256(counter.key.encode()).hexdigest()[:8]}"


def _quoted(label: str) -> str:
    return "'" + label.replace("'", "''") + "'"


def _perfdata(counters: Sequence[CounterView], limits: Thresholds, now: datetime) -> Iterable[str]:
    for name, counter in sorted(zip(labels(counters), counters, strict=True), key=lambda row: row[0]):
        if counter.used is not None:
            bounds = f"{limits.warn_used * 100:g};{limits.crit_used * 100:g};0;100"
            yield f"{_quoted(name)}={counter.used * 100:.4f}%;{bounds}"
        days = days_left(counter, now)
        if days is not None:
            yield f"{_quoted(name + ' days')}={days:.2f};{limits.warn_days:g}:;{limits.crit_days:g}:"
