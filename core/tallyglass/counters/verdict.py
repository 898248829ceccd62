"""One line and one number for monitoring systems, in the manner of Nagios plugins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tallyglass.counters.snapshot import CountersSnapshot, CounterView, Flag
from tallyglass.text import clean

OK, WARNING, CRITICAL, UNKNOWN = range(4)
_WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_CRITICAL_FLAGS = (Flag.STALLED, Flag.FULL, Flag.EMPTY, Flag.BEHIND, Flag.REWOUND, Flag.RESET)
_WARNING_FLAGS = (Flag.DOUBLE,)
_MOST_NAMED = 5
_MOST_PERFDATA = 200


@dataclass(frozen=True, slots=True)
class Thresholds:
    """When to warn: the share used (0..1), and the days left until the early end of the band."""

    warn_used: float = 0.75
    crit_used: float = 0.90
    warn_days: float = 90.0
    crit_days: float = 30.0


@dataclass(frozen=True, slots=True)
class CheckResult:
    """``level`` is the exit code: 0 ok, 1 warning, 2 critical, 3 unknown. ``line`` is the output with perfdata."""

    level: int
    line: str


def judge(snapshot: CountersSnapshot, thresholds: Thresholds = Thresholds()) -> CheckResult:
    """The worst that the counters say. Without a counter, or with one that could not be read, "ok" is unknown."""
    graded = [(*grade(counter, thresholds, snapshot.at), counter) for counter in snapshot.counters]
    level = max((level for level, _, _ in graded), default=OK)
    if level == OK and (not graded or not all(trouble.partial for trouble in snapshot.troubles)):
        level = UNKNOWN
    bad = sorted((row for row in graded if row[0] > OK), key=lambda row: -row[0])
    if bad:
        parts = [f"{_name(counter)}: {why}" for _, why, counter in bad[:_MOST_NAMED]]
        if len(bad) > _MOST_NAMED:
            parts.append(f"and {len(bad) - _MOST_NAMED} more")
    else:
        parts = [f"{len(graded)} counter{'s' * (len(graded) > 1)}" if graded else "no counters found"]
    if snapshot.troubles:
        parts.append(f"{len(snapshot.troubles)} not readable: {_plain(snapshot.troubles[0].title)}")
    perfdata = " ".join(
        _perfdata((row[2] for row in [*bad, *(row for row in graded if row[0] == OK)]), thresholds, snapshot.at)
    )
    return CheckResult(level, f"COUNTERS {_WORDS[level]} - {'; '.join(parts)}" + (f" | {perfdata}" if perfdata else ""))


def grade(counter: CounterView, thresholds: Thresholds, now: datetime) -> tuple[int, str]:
    """The level of one counter and the reason in a few words."""
    reasons: list[tuple[int, str]] = []
    for flag in counter.flags:
        if flag in _CRITICAL_FLAGS:
            reasons.append((CRITICAL, flag.value))
        elif flag in _WARNING_FLAGS:
            reasons.append((WARNING, flag.value))
    if counter.used is not None:
        text = f"{_share(counter.used)} used"
        if counter.used >= thresholds.crit_used:
            reasons.append((CRITICAL, text))
        elif counter.used >= thresholds.warn_used:
            reasons.append((WARNING, text))
    days = days_left(counter, now)
    if days is not None:
        text = f"may end in {_span(days)}"
        if days <= thresholds.crit_days:
            reasons.append((CRITICAL, text))
        elif days <= thresholds.warn_days:
            reasons.append((WARNING, text))
    if not reasons:
        return OK, ""
    worst = max(level for level, _ in reasons)
    return worst, ", ".join(text for level, text in reasons if level == worst)


def _span(days: float) -> str:
    """Days; below two of them hours, below two of those minutes."""
    if days >= 2:
        return f"{days:.1f} days"
    minutes = round(days * 1440)
    if minutes >= 120:
        return f"{days * 24:.1f} hours"
    return "less than a minute" if minutes < 1 else f"{minutes} minute{'s' * (minutes != 1)}"


def _share(used: float) -> str:
    """A share in percent. What is not quite full never reads as 100 %."""
    return ">99.9%" if 0.9995 <= used < 1 else f"{used:.1%}"


def days_left(counter: CounterView, now: datetime) -> float | None:
    """Days until the early end of the band; None where there is no date."""
    early = counter.forecast.early
    return None if early is None else max(0.0, (early - now).total_seconds() / 86_400)


def _name(counter: CounterView) -> str:
    return _plain(f"{counter.ns} {counter.id}" if counter.id else counter.ns)


def _plain(text: str) -> str:
    # A pipe begins perfdata.
    return clean(text, 120).replace("|", "/")


def _label(text: str) -> str:
    # A label stands in single quotes; a quote in it is doubled, an equals sign is not allowed.
    return "'" + _plain(text).replace("'", "''").replace("=", ":") + "'"


def _perfdata(counters: Iterable[CounterView], limits: Thresholds, now: datetime) -> Iterable[str]:
    for number, counter in enumerate(counters):
        if number >= _MOST_PERFDATA:
            return
        name = _name(counter)
        if counter.used is not None:
            bounds = f"{limits.warn_used * 100:g};{limits.crit_used * 100:g};0;100"
            yield f"{_label(name)}={counter.used * 100:.4f}%;{bounds}"
        days = days_left(counter, now)
        if days is not None:
            yield f"{_label(name + ' days')}={days:.2f};{limits.warn_days:g}:;{limits.crit_days:g}:"
