"""Commands as incidents: which belong together, and which recur; decided when the list is asked for."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tallyglass.moment import Ts, from_millis
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.incidents.burst import MANY, SAMPLES, Closed
from tallyglass.oplog.incidents.explanations import DEFINITIONS_LIMIT
from tallyglass.oplog.incidents.families import CLUMP_MILLIS, without_numbers
from tallyglass.oplog.incidents.recurrence import (
    EPISODE_MILLIS,
    NEAR_MILLIS,
    Judgment,
    Reason,
    Recurrence,
    Window,
    interval,
    often,
)
from tallyglass.oplog.incidents.rows import joined, millis_after, rank
from tallyglass.oplog.snapshot import Harm, Incident, Recurring, time_series_of
from tallyglass.text import clean_name

FINISHED_LIMIT = 2_000
"""The most incidents kept; above that the least harmful are only counted, but never the only one of a kind."""

KIND_QUOTA = 100
"""So many of each kind are kept before any others, so that no kind displaces another."""

REMADE = "made again within a second: mongorestore --drop, or a reload"

TRANSACTION = "transaction"

ADMINISTRATION = frozenset({"users", "setFCV", "sharding"})
"""Kinds that are a person's each time: no application does them again and again."""

CommandKey = tuple[str, str]


@dataclass(slots=True)
class _Folded:
    """Commands of one kind and namespace that are no longer known one by one: when they were, and as one row."""

    seen: Recurrence = field(default_factory=Recurrence)
    times: int = 0
    whole: Incident | None = None

    def add(self, row: Incident) -> None:
        self.seen.add(closed_of(row))
        self.times += 1
        self.whole = row if self.whole is None else joined(self.whole, row)


class CommandRows:
    """All commands that are incidents, in any order of time. Bounded."""

    def __init__(self) -> None:
        self._rows: list[Incident] = []
        self._created: dict[str, list[tuple[Ts, datetime | None]]] = {}
        self._folded: defaultdict[CommandKey, _Folded] = defaultdict(_Folded)
        self._small: defaultdict[CommandKey, Recurrence] = defaultdict(Recurrence)
        """When transactions were seen that are too small for a row."""
        self.left_out = 0

    def add(self, row: Incident, window: Window) -> None:
        """Add the row of one command; the oldest ones are folded where there are too many. A small transaction is no
        incident, but may be what makes a larger one usual."""
        if row.kind == TRANSACTION and (row.documents or 0) < MANY:
            if len(self._small) < DEFINITIONS_LIMIT:
                self._small[_key(row)].add(closed_of(row))
            return
        self._rows.append(row)
        if len(self._rows) > 2 * FINISHED_LIMIT:
            self._bound(window)

    def created(self, entry: Entry) -> None:
        """Note that a collection was created."""
        if len(self._created) < DEFINITIONS_LIMIT:
            times = self._created.setdefault(clean_name(entry.target, 255), [])
            if len(times) < 2 * FINISHED_LIMIT:
                times.append((entry.ts, None if entry.wall_millis is None else from_millis(entry.wall_millis)))

    def rows(self, window: Window) -> tuple[list[Incident], list[Recurring]]:
        """Each that is an act, and those that recur in one row for each kind and namespace."""
        found, recurring = list[Incident](), list[Recurring]()
        for key, rows in _by_key(self._together()).items():
            verdicts = self._judged(key, rows, window)
            # Commands are rare. Transactions are not: where everything is new those of an application are too.
            young = key[0] == TRANSACTION and window.is_young
            acts = [(row, "low" if young or one.apart else "high") for row, one in verdicts if not one.reason]
            found += loops_of(replace(row, confidence=confidence) for row, confidence in acts)
            routine = [row for row, one in verdicts if one.reason]
            if key[0] == TRANSACTION:
                loops = _unusual_loops(routine, window)
                found += loops
                routine = [
                    row
                    for row in routine
                    if not any(row.session == loop.session and loop.first <= row.first <= loop.last for loop in loops)
                ]
            if routine:
                folded = self._folded.get(key, _Folded())
                recurring.append(recurring_of(routine, folded.whole, folded.times))
        return found, recurring

    def _judged(self, key: CommandKey, rows: Sequence[Incident], window: Window) -> list[tuple[Incident, Judgment]]:
        if key[0] in ADMINISTRATION:
            return [(row, Judgment(0)) for row in rows]
        seen = Recurrence()
        if key in self._folded:
            seen.unite(self._folded[key].seen)
        if key in self._small:
            seen.unite(self._small[key])
        closed = [closed_of(row) for row in rows]
        seen.add(*closed)
        return [(row, seen.judge(one, window)) for row, one in zip(rows, closed, strict=True)]

    def _together(self) -> list[Incident]:
        """The rows with the drops of a dropDatabase taken in by it, and the steps of a setFCV as one."""
        found: list[Incident] = []
        drops: defaultdict[str, list[Incident]] = defaultdict(list)
        taken, views = set[int](), dict[str, Incident]()
        for row in _settings_joined(self._rows):
            chain = drops[row.ns.partition(".")[0]]
            if row.kind == "drop":
                row = self._with_remade(row)
                view = views.get(time_series_of(row.ns))
                if view is not None and _pause(view, row) <= NEAR_MILLIS:
                    row = joined(row, view)
                    taken.add(id(view))
                if row.harm is Harm.DEFINITION:
                    views[row.ns] = row
                chain.append(row)
            else:
                for drop in _last_of(chain, row) if row.kind == "dropDatabase" else ():
                    name = clean_name(drop.ns.partition(".")[2], 120)
                    row = replace(joined(row, drop), samples=(*row.samples, name)[-SAMPLES:])
                    taken.add(id(drop))
                chain.clear()
            found.append(row)
        return [row for row in found if id(row) not in taken]

    def _with_remade(self, row: Incident) -> Incident:
        later = (millis_after(row, ts, wall) for ts, wall in self._created.get(row.ns, ()) if ts > row.last)
        return replace(row, note=REMADE) if any(millis <= EPISODE_MILLIS for millis in later) else row

    def _bound(self, window: Window) -> None:
        """Keep the worst; those that recur are only counted first."""
        routine: set[int] = set()
        for key, rows in _by_key(self._rows).items():
            folded = [row for row, verdict in self._judged(key, rows, window) if verdict.reason]
            folded.sort(key=lambda row: row.first)
            for row in folded[SAMPLES:-SAMPLES]:
                self._folded[key].add(row)
                routine.add(id(row))
        kept = [row for row in self._rows if id(row) not in routine]
        self._rows = bounded(kept)
        self.left_out += len(kept) - len(self._rows)


def _by_key(rows: Iterable[Incident]) -> dict[CommandKey, list[Incident]]:
    """Commands by what those that recur have in common: names may hold a date or an id."""
    groups: defaultdict[CommandKey, list[Incident]] = defaultdict(list)
    for row in rows:
        groups[_key(row)].append(row)
    return groups


def _key(row: Incident) -> CommandKey:
    return row.kind, without_numbers(row.ns)


def closed_of(row: Incident) -> Closed:
    """A command as the rule of recurrence wants it."""
    return max(row.documents or 0, 1), *row.walls


def _settings_joined(rows: Iterable[Incident]) -> list[Incident]:
    """The rows in order of time, with the steps of a setFCV as one."""
    found: list[Incident] = []
    setting: int | None = None
    for row in sorted(rows, key=lambda row: row.first):
        if row.kind != "setFCV":
            found.append(row)
            continue
        before = None if setting is None else found[setting]
        if setting is not None and before and before.open:
            found[setting] = replace(joined(before, row), title=row.title, open=row.open)
        else:
            setting = len(found)
            found.append(row)
    return found


def loops_of(rows: Iterable[Incident]) -> list[Incident]:
    """The rows in order of time, with the transactions of a session that follow on each other as one."""
    found: list[Incident] = []
    last: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: row.first):
        at = last.get(row.session) if row.kind == TRANSACTION else None
        if at is not None and _pause(found[at], row) <= NEAR_MILLIS:
            before = found[at]
            low = "low" if "low" in (before.confidence, row.confidence) else "high"
            harm = row.harm if row.harm is Harm.LOSS else before.harm
            found[at] = replace(joined(before, row), confidence=low, harm=harm, txn=None)
            continue
        if row.kind == TRANSACTION:
            last[row.session] = len(found)
        found.append(row)
    return found


def _unusual_loops(rows: Sequence[Incident], window: Window) -> list[Incident]:
    """The loops among transactions that are usual one by one: what a session wrote without a pause, as much at once as
    no other session."""
    loops, single = loops_of(rows), set(map(id, rows))
    seen = Recurrence()
    seen.add(*map(closed_of, loops))
    found = []
    for loop in loops:
        documents, first, last = closed_of(loop)
        if id(loop) in single or last - first >= CLUMP_MILLIS * documents:
            continue
        verdict = seen.judge((documents, first, last), window)
        if not verdict.reason:
            found.append(replace(loop, confidence="low" if verdict.apart or window.is_young else "high"))
    return found


def _pause(older: Incident, newer: Incident) -> int:
    return millis_after(older, newer.first, newer.first_wall)


def _last_of(drops: Sequence[Incident], database: Incident) -> list[Incident]:
    """The drops shortly before a dropDatabase, oldest first."""
    found: list[Incident] = []
    at = database
    for drop in reversed(drops):
        if _pause(drop, at) > NEAR_MILLIS:  # it waits for the majority after its last drop
            break
        found.append(drop)
        at = drop
    return found[::-1]


def recurring_of(rows: Iterable[Incident], folded: Incident | None, times: int) -> Recurring:
    """Commands that recur as one row, with the one of so many more that are no longer known one by one."""
    runs = sorted(rows, key=lambda row: row.first)
    pieces = [*runs[:-1], *filter(None, [folded])]
    whole = functools.reduce(joined, pieces, runs[-1])
    note = often(len(runs) + times, interval(closed_of(row)[1] for row in runs))
    row = replace(whole, kind="job", reason=Reason.RECURS, point=None, note=note, samples=(), txn=None)
    sessions, users = ({one.session for one in (row, *pieces)}, {one.user_hash for one in (row, *pieces)})
    if len(sessions) > 1:
        row = replace(row, session="", sessions=len(sessions))
    if len(users) > 1:
        row = replace(row, user_hash="")
    return Recurring(row, tuple(runs), folded, times)


def bounded(rows: Iterable[Incident]) -> list[Incident]:
    """Apply the limit: the worst of each kind and the first of each namespace are kept before all others."""
    ordered = sorted(rows, key=rank)
    if len(ordered) <= FINISHED_LIMIT:
        return ordered
    kinds: Counter[str] = Counter()
    names: Counter[str] = Counter()

    def preferred(row: Incident) -> int:
        kinds[row.kind] += 1
        names[row.ns] += 1
        return 0 if kinds[row.kind] <= KIND_QUOTA else 1 if names[row.ns] == 1 else 2

    return sorted(ordered, key=preferred)[:FINISHED_LIMIT]
