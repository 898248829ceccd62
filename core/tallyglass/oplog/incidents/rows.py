"""Rows of the list: how those of two stretches join, which come first, and the findings about a family in words."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tallyglass.moment import Ts, from_millis
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.incidents.burst import SAMPLES, Burst, sample_text
from tallyglass.oplog.incidents.families import Family
from tallyglass.oplog.incidents.recurrence import Reason, interval, often
from tallyglass.oplog.incidents.touched import documents_in, is_repeated
from tallyglass.oplog.incidents.verdict import Finding, Form
from tallyglass.oplog.snapshot import Harm, Incident, time_series_of
from tallyglass.text import clean_name, plural

_NOUN = {"d": "deletes", "u": "updates"}
_VERB = {"d": "delete", "u": "update"}
_HARM_ORDER = {Harm.LOSS: 0, Harm.CHANGE: 1, Harm.DEFINITION: 2}
_SINGLE = (Form.LOOP, Form.SINGLE, Form.BATCH, Form.FAN_OUT)
"""Forms of single writes, which may be several of one document."""

_WORDS = {
    Form.MANY: ("{verb}Many", "{verb}Many"),
    Form.SINGLE: ("{noun}", "{noun} by one session"),
    Form.BATCH: ("batch", "bulkWrite of {noun}"),
    Form.FAN_OUT: ("fan_out", "{noun} by many sessions at once"),
    Form.LOOP: ("{noun}", "single {noun} without a session"),
    Form.SLOW: ("slow_loop", "slow {noun} one by one"),
}
"""The kind and the title of an act."""

_SECOND = timedelta(seconds=1)


def row_of(
    entry: Entry, kind: str, harm: Harm, title: str, ns: str, documents: int | None = None, note: str = ""
) -> Incident:
    """The row of one entry. ``title`` is safe to show, ``ns`` as stored."""
    wall = None if entry.wall_millis is None else from_millis(entry.wall_millis)
    return Incident(0, kind, title, clean_name(ns, 255), harm, entry.ts, entry.ts, wall, wall, 1, documents, note=note)


def joined(one: Incident, other: Incident) -> Incident:
    """The row of one with the entries of another, before or after it; documents are counted where they are known."""
    older, newer = (one, other) if one.first <= other.first else (other, one)
    last = newer if newer.last > older.last else older
    known = [row.documents for row in (one, other) if row.documents is not None]
    return replace(
        one,
        first=older.first,
        first_wall=older.first_wall or newer.first_wall,
        last=last.last,
        last_wall=last.last_wall,
        ops=one.ops + other.ops,
        documents=sum(known) if known else None,
    )


def millis_after(row: Incident, ts: Ts, wall: datetime | None) -> int:
    """Milliseconds from the end of a row to an entry, 0 if it is not later; by ``ts`` where a time of the server's
    clock is missing."""
    if ts <= row.last:
        return 0
    if wall is None or row.last_wall is None:
        return (ts.t - row.last.t) * 1_000
    return max(round((wall - row.last_wall) / _SECOND * 1_000), 0)


def rank(row: Incident) -> tuple[bool, int, int, Ts]:
    """Orders by harm: what is routine last, loss first, then by documents, then the newest."""
    size = row.documents if row.documents is not None else 10**12
    return row.routine, _HARM_ORDER[row.harm], -size, Ts(-row.last.t, -row.last.i)


def row(finding: Finding, family: Family) -> Incident:
    """A finding in words: one act of a family, or its routine in one line."""
    if finding.form is Form.ROUTINE:
        return _routine_row(finding, family)
    kind, title = _kind_and_title(finding, family)
    note = " ".join(filter(None, (finding.note or _note(finding, family), note_on(family.ns))))
    if finding.about:
        others = (
            f"Others {_VERB[family.op]} here too: some of these documents may be theirs, and it may have begun earlier."
        )
        note = f"{note.removesuffix('.')}. {others}" if note else others
    return _row(finding, family, kind, title, note)


def shown(ns: str) -> str:
    """A namespace as a title has it, safe to show: time-series by their own name, which is the only one in use."""
    series = time_series_of(ns)
    return f"{clean_name(series, 255)} (time-series)" if series else clean_name(ns, 255)


def note_on(ns: str) -> str:
    """What the count of an incident in this namespace means, if it does not count documents as users see them."""
    if not time_series_of(ns):
        return ""
    return "Counted are buckets, each with many measurements; how many measurements is unknown."


def _routine_row(finding: Finding, family: Family) -> Incident:
    ns, noun = shown(family.ns), _NOUN[family.op]
    millis = interval(finding.starts) if finding.reason is Reason.RECURS else 0
    match finding.reason:
        case Reason.TTL:
            kind, title = "ttl", f"TTL on {ns}"
        case Reason.CAPPED:
            kind, title = "capped", f"oldest documents of capped {ns} removed"
        case _:
            kind, title = "job" if millis else "trickle", f"routine {noun} on {ns}"
    return _row(finding, family, kind, title, often(finding.times, millis))


def migration_row(family: Family) -> Incident:
    """What moved between shards."""
    ns, noun = shown(family.ns), {"d": "deletes", "u": "updates", "i": "inserts"}.get(family.op, "commands")
    note = "The documents are on another shard: nothing is lost." if family.op == "d" else ""
    moved = Finding(family.whole, Form.MANY, Reason.MIGRATION)
    return _row(moved, family, "migration", f"moved between shards: {noun} on {ns}", note)


def _kind_and_title(finding: Finding, family: Family) -> tuple[str, str]:
    ns, noun = shown(family.ns), _NOUN[family.op]
    if finding.reason is Reason.RETURN:
        return "return", f"a restore by Tallyglass: {noun} on {ns}"
    kind, title = (words.format(verb=_VERB[family.op], noun=noun) for words in _WORDS[finding.form])
    how = "findAndModify " if finding.form is Form.SINGLE and finding.burst.find_and_modify else ""
    return kind, f"{how}{title} on {ns}"


def _row(finding: Finding, family: Family, kind: str, title: str, note: str) -> Incident:
    burst = finding.burst
    documents, exact = burst.documents, not finding.about and not finding.may_repeat
    if finding.form in _SINGLE and is_repeated(burst.touched):
        known = documents_in(burst.touched, documents)
        documents, exact = known or documents, exact and known is not None
    first, last = from_millis(burst.first_wall), from_millis(burst.last_wall)
    return Incident(
        0, kind, title, clean_name(family.ns, 255), Harm.LOSS if family.op == "d" else Harm.CHANGE,
        Ts.of_number(burst.first), Ts.of_number(burst.last), first, last, burst.entries, documents,
        tuple(filter(None, map(sample_text, burst.samples)))[:SAMPLES], note=note, reason=finding.reason or "",
        op=family.op, sessions=finding.sessions, session=burst.session.hex(), user_hash=burst.user.hex(),
        confidence=finding.confidence, documents_exact=exact, parts=finding.parts,
    )  # fmt: skip


def _note(finding: Finding, family: Family) -> str:
    burst = finding.burst
    if finding.form is Form.SLOW and not burst.session:
        return "or an application that writes without sessions (retryWrites=false)"
    on = _more_than_once(burst) if finding.form in _SINGLE else ""
    on = on or " (perhaps of some documents more than once)" * finding.may_repeat
    if finding.form is Form.LOOP:
        return f"{burst.documents:,} updates{on}: no single statement changes a document twice."
    if finding.form is Form.SINGLE and burst.millis:
        seconds = f"{burst.millis / 1_000:,.1f} s"
        return f"{burst.documents:,} single {_NOUN[family.op]}{on} in {seconds}: a script or a shell."
    return f"{burst.documents:,} updates{on}." if on else ""


def _more_than_once(burst: Burst) -> str:
    """Of how many documents updates were that changed one twice; empty where none was."""
    if not is_repeated(burst.touched):
        return ""
    documents = documents_in(burst.touched, burst.documents)
    return f" of {plural(documents, 'document')}" if documents else " of some documents more than once"
