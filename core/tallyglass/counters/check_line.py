"""The counters for a monitoring system: an exit code, one line, and perfdata (Monitoring Plugins)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from tallyglass.counters.snapshot import Absence, CountersSnapshot, CounterView, MissingCounter
from tallyglass.counters.standing import odd_ids
from tallyglass.counters.verdict import (
    BY_SEVERITY,
    OK,
    RECENT,
    UNKNOWN,
    WARNING,
    Measured,
    Thresholds,
    days_left,
    grade,
    is_young,
    name_of,
    plain,
    share_used,
)
from tallyglass.text import clean, plural

LEVEL_NAMES = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
_MOST_NAMED = 5
"""Counters named in the line: what a text message or a table of alerts shows. ``--verbose`` names all."""

MOST_CHARACTERS = 4_096
"""The longest line: some monitoring systems cut what is longer, in the middle of the perfdata."""

_MOST_TEXT = 2_000  # characters: half of the line is left for perfdata
_OTHERS = 300
"""Characters for the words around the text, and for what ``check`` adds about the oplog."""

_MOST_ALIKE = 20  # counters of one number with perfdata of their own: a screen of them
_DEFAULT = Thresholds()

GONE = "its number is gone: the next use begins at the start and repeats ids"
"""What is said of a known counter that vanished."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """``level`` is the exit code: 0 ok, 1 warning, 2 critical, 3 unknown. ``line`` is the output with perfdata.

    ``details`` has one line for each counter with a level above OK, and one for each note, the worst first.
    """

    level: int
    line: str
    details: tuple[str, ...] = ()


def check_counters(
    snapshot: CountersSnapshot, thresholds: Thresholds = _DEFAULT, *, guesses: bool = False
) -> CheckResult:
    """The worst level of all counters; UNKNOWN if the search was incomplete. ``guesses`` includes guesses."""
    rows = [counter for counter in snapshot.counters if guesses or counter.may_alarm]
    bad = faults(snapshot, thresholds, guesses=guesses)
    gaps = incomplete(snapshot, counted=bool(rows))
    level = bad[0][0] if bad else UNKNOWN if gaps else OK
    parts = [*_named(bad, rows), *gaps, *_notes(snapshot, rows, guesses=guesses)]
    text = clean("; ".join(parts), _MOST_TEXT).replace("|", "/")
    perfdata, left_out = _perfdata(_series(rows, snapshot.at), thresholds, MOST_CHARACTERS - _OTHERS - len(text))
    if left_out:
        text += f"; {left_out:,} without perfdata"
    details = [f"{LEVEL_NAMES[level]} {name}: {why}" for level, why, name in bad]
    details += [f"note: {name_of(one)} is {one.absence}" for one in snapshot.missing]
    details += [f"note: {plain(trouble.title)}" for trouble in snapshot.troubles]
    line = f"COUNTERS {LEVEL_NAMES[level]} - {text}" + (f" | {perfdata}" if perfdata else "")
    return CheckResult(level, line, tuple(details))


def faults(
    snapshot: CountersSnapshot, thresholds: Thresholds = _DEFAULT, *, guesses: bool = False
) -> list[tuple[int, str, str]]:
    """Level, reason and name of what is not OK, the worst first: also other guesses near a limit, and what vanished."""
    rows = [counter for counter in snapshot.counters if guesses or counter.may_alarm]
    others = _with_members([counter for counter in snapshot.counters if not (guesses or counter.may_alarm)])
    every = [*_with_members(rows), *(counter for counter in others if counter.near is not None)]
    graded = [(*grade(counter, thresholds, snapshot.at, guesses=guesses), name_of(counter)) for counter in every]
    graded += [(WARNING, GONE, name_of(one)) for one in vanished(snapshot)]
    return sorted((row for row in graded if row[0] != OK), key=lambda row: -BY_SEVERITY.index(row[0]))


def _with_members(rows: Sequence[CounterView]) -> list[CounterView]:
    return [*rows, *(member for counter in rows if counter.members for member in counter.members.worst)]


def _named(bad: Sequence[tuple[int, str, str]], rows: Sequence[CounterView]) -> Iterator[str]:
    """What the line says of the counters: the worst by name, or their number if none is bad."""
    yield from (f"{name}: {why}" for _, why, name in bad[:_MOST_NAMED])
    if len(bad) > _MOST_NAMED:
        yield f"and {len(bad) - _MOST_NAMED} more"
    if rows and not bad:
        yield plural(sum(counter.number for counter in rows), "counter")


def vanished(snapshot: CountersSnapshot) -> list[MissingCounter]:
    """The counters that vanished lately, and not with their collection or as such documents regularly do."""
    missing = (one for one in snapshot.missing if not one.routine)
    return [one for one in missing if one.since is not None and snapshot.at - one.since <= RECENT]


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
        gaps.append(f"{len(hidden)} not readable: {plain(hidden[0].title)}")
    unread = [one for one in snapshot.missing if one.absence is Absence.NOT_READ]
    if unread:
        more = f" and {len(unread) - 1:,} more" if len(unread) > 1 else ""
        gaps.append(f"{name_of(unread[0])}{more} not read")
    return gaps


def _notes(snapshot: CountersSnapshot, rows: Sequence[CounterView], *, guesses: bool) -> Iterator[str]:
    """Notes that do not change the level."""
    young = sum(is_young(counter, snapshot.at) for counter in rows)
    if young:
        yield f"{plural(young, 'counter')} too young to date"
    if snapshot.missing:
        yield f"{snapshot.known:,} known, {snapshot.known - len(snapshot.missing):,} read"
    unsure = sum(not counter.may_alarm for counter in snapshot.counters)
    if unsure and not guesses:
        yield f"{unsure:,} guess{'es' * (unsure > 1)} not counted (--guesses)"
    apart = sum(counter.number for counter in rows if counter.drift is None)
    if apart:
        yield f"{plural(apart, 'counter')} not compared with ids"
    odd = sum(counter.odd_ids for counter in rows)
    if odd:
        yield odd_ids(odd)
    acknowledged = sum(len(counter.acknowledged) for counter in rows)
    if acknowledged:
        yield f"{plural(acknowledged, 'flag')} acknowledged"
    for trouble in snapshot.troubles:
        if trouble.partial:
            yield plain(trouble.title)
            return


def labels(counters: Sequence[CounterView]) -> list[str]:
    """A unique name for each counter, the same in every run."""
    names = [_stable_name(counter).replace("=", ":") for counter in counters]
    return [name + suffix.replace("=", ":") for name, suffix in zip(names, told_apart(counters, names), strict=True)]


def told_apart(counters: Sequence[CounterView], names: Sequence[Hashable]) -> list[str]:
    """What is added to the ``names`` of the counters where several have one, whatever their order: their field, and if
    that is not enough part of a hash of their key."""
    suffixes = [""] * len(counters)
    for more in (lambda counter: f"#{plain(counter.field)}", _fingerprint):
        often = Counter(zip(names, suffixes, strict=True))
        suffixes = [
            suffix + (more(counter) if often[name, suffix] > 1 else "")
            for counter, name, suffix in zip(counters, names, suffixes, strict=True)
        ]
    return suffixes


def _stable_name(counter: CounterView) -> str:
    """The name without the number of counters in the row."""
    return name_of(counter) if counter.members is None else plain(f"{counter.ns} * {counter.field}")


def _fingerprint(counter: CounterView) -> str:
    return f"#{hashlib.sha256(counter.key.encode()).hexdigest()[:8]}"


def _quoted(label: str) -> str:
    return "'" + label.replace("'", "''") + "'"


Series = tuple[str, Measured | None, Measured | None]
"""A label, the share used, and the days left."""


def _series(counters: Sequence[CounterView], now: datetime) -> list[Series]:
    """What perfdata has of the counters, in their order. Many of one number, such as one for each tenant, are one."""
    alike = Counter(_number(counter) for counter in counters)
    found: dict[str, Series] = {}
    for label, counter in zip(labels(counters), counters, strict=True):
        many = alike[_number(counter)] > _MOST_ALIKE
        label = plain(f"{counter.ns} * {counter.field}").replace("=", ":") if many else label
        _, used, days = found.get(label, (label, None, None))
        found[label] = (
            label,
            max((one for one in (used, share_used(counter)) if one is not None), default=None),
            min((one for one in (days, days_left(counter, now)) if one is not None), default=None),
        )
    return list(found.values())


def _number(counter: CounterView) -> tuple[str, str]:
    return counter.ns, counter.field


def _perfdata(series: Iterable[Series], limits: Thresholds, room: int) -> tuple[str, int]:
    """The perfdata of the first of the series that fit into ``room`` characters, and how many did not."""
    shown: list[tuple[str, str]] = []
    left_out = 0
    for label, used, days in series:
        parts: list[str] = []
        if used is not None:
            critical = f"{limits.crit_used * 100:g}" if used.may_be_critical else ""
            parts.append(f"{_quoted(label)}={used.value * 100:.4f}%;{limits.warn_used * 100:g};{critical};0;100")
        if days is not None:
            critical = f"{limits.crit_days:g}:" if days.may_be_critical else ""
            parts.append(f"{_quoted(label + ' days')}={days.value:.2f};{limits.warn_days:g}:;{critical}")
        text = " ".join(parts)
        room -= len(text) + 1
        if text and room >= 0:
            shown.append((label, text))
        left_out += bool(text) and room < 0
    return " ".join(text for _, text in sorted(shown)), left_out
