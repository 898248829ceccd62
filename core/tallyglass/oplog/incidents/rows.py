"""The findings about a family in words: one run each, as the list of incidents shows it."""

from __future__ import annotations

from collections import deque

from tallyglass.moment import Ts
from tallyglass.oplog.incidents.burst import SAMPLES, Burst, sample_text
from tallyglass.oplog.incidents.families import Family
from tallyglass.oplog.incidents.recurrence import Reason, interval, often
from tallyglass.oplog.incidents.run import Run
from tallyglass.oplog.incidents.touched import documents_in
from tallyglass.oplog.incidents.verdict import Finding, Form
from tallyglass.oplog.snapshot import Harm, StatementPart
from tallyglass.text import clean_name

_NOUN = {"d": "deletes", "u": "updates"}


def act_run(finding: Finding, family: Family) -> Run:
    """One act of a family."""
    kind, title = _kind_and_title(finding, family)
    run = _run(finding, family, kind, title)
    run.note = finding.note or _note(finding, family)
    return run


def routine_run(finding: Finding, family: Family) -> Run:
    """The routine of a family in one line."""
    ns, noun = clean_name(family.ns, 255), _NOUN[family.op]
    millis = interval(finding.starts) if finding.reason is Reason.RECURS else 0
    match finding.reason:
        case Reason.TTL:
            kind, title = "ttl", f"TTL on {ns}"
        case Reason.CAPPED:
            kind, title = "capped", f"oldest documents of capped {ns} removed"
        case _:
            kind, title = "job" if millis else "trickle", f"routine {noun} on {ns}"
    run = _run(finding, family, kind, title)
    run.reason, run.note = finding.reason or "", often(finding.times, millis)
    return run


def migration_run(family: Family) -> Run:
    """What moved between shards."""
    ns, noun = clean_name(family.ns, 255), {"d": "deletes", "u": "updates", "i": "inserts"}.get(family.op, "commands")
    whole = Burst(family.first, family.last, family.first_wall, family.last_wall, family.entries, family.documents)
    run = _run(Finding(whole, Form.MANY), family, "migration", f"moved between shards: {noun} on {ns}")
    run.reason = Reason.MIGRATION
    run.note = "The documents are on another shard: nothing is lost." if family.op == "d" else ""
    return run


def _kind_and_title(finding: Finding, family: Family) -> tuple[str, str]:
    ns, noun = clean_name(family.ns, 255), _NOUN[family.op]
    many = "deleteMany" if family.op == "d" else "updateMany"
    match finding.form:
        case Form.SINGLE:
            how = "findAndModify " if finding.burst.find_and_modify else ""
            return noun, f"{how}{noun} by one session on {ns}"
        case Form.BATCH:
            return "batch", f"bulkWrite of {noun} on {ns}"
        case Form.FAN_OUT:
            return "fan_out", f"{noun} by many sessions at once on {ns}"
        case Form.LOOP:
            return noun, f"single {noun} without a session on {ns}"
        case Form.SLOW:
            return "slow_loop", f"slow {noun} one by one on {ns}"
    return many, f"{many} on {ns}"


def _run(finding: Finding, family: Family, kind: str, title: str) -> Run:
    burst = finding.burst
    harm = Harm.LOSS if family.op == "d" else Harm.CHANGE
    documents = burst.documents
    if finding.form is Form.LOOP:
        documents = documents_in(burst.touched, documents) or documents
    samples = deque(filter(None, map(sample_text, burst.samples)), maxlen=SAMPLES)
    first, last = Ts.of_number(burst.first), Ts.of_number(burst.last)
    return Run(
        kind, family.ns, harm, title, first, last, burst.first_wall, burst.last_wall,
        burst.entries, documents, samples, op=family.op, session=burst.session,
        user_hash=burst.user, sessions=finding.sessions, confidence=finding.confidence, about=finding.about,
        parts=tuple(StatementPart(Ts.of_number(one.first), Ts.of_number(one.last), one.documents)
                    for one in finding.parts),
    )  # fmt: skip


def _note(finding: Finding, family: Family) -> str:
    burst = finding.burst
    if finding.form is Form.LOOP:
        documents = documents_in(burst.touched, burst.documents)
        on = f"{documents:,} documents" if documents else "some documents more than once"
        return f"{burst.documents:,} updates of {on}: no single statement changes a document twice."
    if finding.form is Form.SLOW and not burst.session:
        return "or an application that writes without sessions (retryWrites=false)"
    if finding.about:
        return f"An application {_NOUN[family.op]} here too: some of these documents may be its own."
    if finding.form is Form.SINGLE and burst.millis:
        return f"{burst.documents:,} single {_NOUN[family.op]} in {burst.millis / 1_000:,.1f} s: a script or a shell."
    return ""
