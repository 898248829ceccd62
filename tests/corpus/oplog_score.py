"""Measure a list of incidents against the truth of a scenario: recall, precision, the error of ``point``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from corpus.oplog_build import Act, Scenario
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.snapshot import Incident

BATCH = 2_000


@dataclass(slots=True)
class Score:
    """Counts over scenarios. ``point_errors`` are entries between truth and point: late is positive."""

    wanted: int = 0
    found: int = 0
    rows: int = 0
    false_rows: int = 0
    point_errors: list[int] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    off: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)
    """The false rows of more than low confidence."""

    inexact: list[str] = field(default_factory=list)
    """The rows of one act that call another number of documents exact, of each and of all together."""

    @property
    def recall(self) -> float:
        """The share of the acts that must be found."""
        return self.found / self.wanted if self.wanted else 1.0

    @property
    def precision(self) -> float:
        """The share of the rows that are an act."""
        return 1 - self.false_rows / self.rows if self.rows else 1.0

    @property
    def exact(self) -> float:
        """The share of the acts found whose point is exact."""
        return self.point_errors.count(0) / len(self.point_errors) if self.point_errors else 1.0


def incidents_of(scenario: Scenario, *, backward: bool = False, batch: int = BATCH) -> tuple[Incident, ...]:
    """What the grouper says, fed in slices from either end."""
    return grouped(scenario, backward=backward, batch=batch).incidents()


def grouped(scenario: Scenario, *, backward: bool = False, batch: int = BATCH) -> Grouper:
    """A grouper that was fed in slices from either end."""
    grouper = Grouper()
    grouper.known.ttl |= scenario.ttl
    grouper.known.ttl_millis = 60_000
    grouper.known.capped |= scenario.capped
    grouper.note_oldest(scenario.window[0])
    grouper.note_newest(scenario.window[1], None)
    entries = scenario.entries
    places = range(0, len(entries), batch)
    for at in reversed(places) if backward else places:
        grouper.feed_batch(b"".join(entries[at : at + batch]))
    return grouper


def add(score: Score, scenario: Scenario, incidents: Iterable[Incident]) -> None:
    """Score one scenario."""
    rows = [one for one in incidents if not one.routine and one.ns not in scenario.unknowable]
    score.rows += len(rows)
    for row in rows:
        shown = [act for act in scenario.acts if _same(act, row)]
        told = f"{scenario.name}: {row.kind} {row.ns} {row.documents} {row.first} ({row.note})"
        if not shown:
            score.false_rows += 1
            score.false.append(told)
            if row.confidence != "low":
                score.alarms.append(told)
            continue
        one_act = len(shown) == 1 and row.op and row.op == shown[0].op
        if one_act and row.documents_exact and shown[0].documents != _documents(shown[0], rows):
            score.inexact.append(told)
    for act in scenario.acts:
        named = [row for row in rows if _same(act, row) and row.kind in act.kinds]
        if act.must == "found":
            score.wanted += 1
            score.found += bool(named)
            if not named:
                others = [f"{row.kind} {row.documents}" for row in rows if row.ns == act.ns]
                score.missed.append(f"{scenario.name}: {act.name}; rows there: {others}")
        if named and act.must != "untellable":  # a row there is of something else
            row = min(named, key=lambda row: row.limit)
            error = _error(scenario, act, row)
            if row.kind == "fan_out" and not row.documents_exact:
                error = max(error, 0)  # it may be early, and says so; never late
            score.point_errors.append(error)
            if error:
                score.off.append(f"{scenario.name}: {act.name}: {error:+d} entries")


def _same(act: Act, row: Incident) -> bool:
    return row.ns == act.ns and row.first <= act.last and act.first <= row.last


def _documents(act: Act, rows: Iterable[Incident]) -> int:
    """What the rows of an act say together: its statements may be a row each."""
    return sum(row.documents or 0 for row in rows if _same(act, row) and row.op == act.op)


def _error(scenario: Scenario, act: Act, row: Incident) -> int:
    places: Sequence = scenario.places.get((act.ns, act.op), ()) if act.op else ()
    if not places:
        return 0 if row.limit == act.point else 1
    return bisect_left(places, row.limit) - bisect_left(places, act.point)
