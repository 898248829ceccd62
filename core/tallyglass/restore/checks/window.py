"""Checks of the oplog between backup and point."""

from __future__ import annotations

from tallyglass.restore.model.check import Check, Checks, block, ok, warn
from tallyglass.restore.proof.base import BaseFacts
from tallyglass.restore.proof.findings import Covered, Findings
from tallyglass.restore.proof.oplog_query import MOST_LEFT_OUT
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.proof.speed import replay_seconds
from tallyglass.restore.timeline.coverage import NoStart
from tallyglass.restore.tools.toolset import version_pair
from tallyglass.text import clean_name, plural

SHORT_HEAD_ROOM_HOURS = 24.0
"""A day: whoever is on call may read a warning only the next morning."""

WORDS = {
    "rename": ("renames", "Collections are renamed in the window: their indexes are built again afterwards."),
    "out": ("replaced", "Collections are replaced in the window ($out, or a rename over another)."),
    "collMod": (
        "collmod",
        "Indexes or options are changed in the window: base and oplog must run in one go, as below.",
    ),
    "dropIndexes": ("drop-indexes", "Indexes are dropped in the window: base and oplog must run in one go, as below."),
    "views": ("views", "Views are made or changed in the window."),
    "timeseries": ("timeseries", "Time-series buckets are written in the window; compare these collections."),
    "validators": ("validators", "Validators are set in the window; the replay bypasses them."),
    "users": ("users", "Users or roles are changed in the window; they are left out of the spare."),
    "recordIds": (
        "record-ids",
        "Collections replicate their record ids; the tools leave that option out, so the restored ones do not.",
    ),
    "admin-collections": ("admin-collections", "Collections in admin are written in the window; they are left out."),
}
"""Operations in the window, by kind: id and title of the check."""

BLOCKING = {
    "fcv-change": "Restore to a moment before that change.",
    "unknown-command": "mongorestore stops there. Choose a point before it.",
    "order": "The oplog is not in order: plan again, and look at the members' health.",
    "base-incomplete": "The backup lacks a collection that the oplog needs. Use another backup.",
    "batch-cut": "mongorestore would apply a part of it, the server none. Choose the moment at which it began.",
    "dead-operation": "It cannot be left out of the file. Use a later backup.",
    "rename-overlap": "What the backup holds under these names is not certain. Use a later backup.",
    "viewless-timeseries": "A time-series collection without buckets (9.0) cannot be replayed from here.",
    "collmod-lost-index": "mongorestore would stop there. Use a later backup.",
}


def coverage(found: Findings) -> Checks:
    """Does the oplog hold everything from the start to the limit, and for how long?"""
    located, covered, assessed = found.located, found.covered, found.assessed
    why = assessed.overwritten if assessed else ""
    if covered is not None and covered.is_cut:
        why = why or f"the member that was read does not hold {covered.start.ts}, as another one does"
    if located is not None and isinstance(located.start, NoStart):
        why = located.start.why
    if why:
        yield block(
            "coverage",
            f"The oplog no longer reaches back to the backup: {why}.",
            "Only a later backup, or another copy of the oplog, closes the gap.",
        )
    if covered is None or why:
        return
    start = covered.start
    reason = " (the set's first entry)" if start.from_first_entry and start.ts == start.oldest else ""
    back = f", {start.back_off} s before the backup" if start.back_off and not reason else reason
    limit = covered.inputs.limit
    yield ok("coverage", f"The oplog holds all of {start.ts} to {limit}{back}: {covered.replay.entries:,} entries.")
    saved = covered.inputs.saved
    if saved is None or not saved.holds(limit):
        needed = "the start" if saved is None else "the newest saved entry"
        yield from head_room(covered.hours_left, needed, "Save the oplog now (the first phase)", "Save it first.")


def head_room(hours: float | None, needed: str, before: str, unknown: str) -> Checks:
    """For how many hours the server still holds the entry that is ``needed``; ``before`` says what to do before that,
    ``unknown`` what to do where nobody knows."""
    if hours is None:
        yield warn("head-room", f"How long the oplog still holds {needed} is unknown.", unknown)
    elif hours < SHORT_HEAD_ROOM_HOURS:
        advice = f"{before}, or raise minRetentionHours with replSetResizeOplog."
        yield warn("head-room", f"In about {hours:.1f} h the server overwrites {needed}.", advice)


def transactions(found: Findings) -> Checks:
    """Is every transaction in the window whole, and which are cut off by the limit?"""
    covered = found.covered
    if covered is None:
        return
    if covered.lost_beginning is not None:
        yield block(
            "mid-transaction",
            f"A transaction begins before the oplog does (it needs {covered.lost_beginning}).",
            "Only a part of it would be applied, without any error. Use a later backup.",
        )
    elif covered.moved_for_transaction:
        yield ok("transaction-start", f"The start was moved to {covered.start.ts}, where a transaction begins.")
    for parts in covered.open_at_limit:
        yield warn(
            "open-transaction",
            f"The transaction that began at {parts[0].ts} is not committed before the point; none of it is restored.",
        )


def operations(found: Findings) -> Checks:
    """Everything in the window that the replay refuses, or that calls for a warning."""
    covered, replayed = found.covered, found.replayed
    if covered is None:
        return
    replay = covered.replay
    for problem in replay.problems:
        yield block(problem.kind, f"{problem.text[:1].upper()}{problem.text[1:]}.", BLOCKING[problem.kind])
    yield from _viewless(covered)
    for kind, (name, title) in WORDS.items():
        if kind in replay.kinds:
            yield warn(name, title)
    yield from _left_out(replay)
    if replayed is not None:
        yield from _missing_documents(replayed.base, upserts=replay.upserts)
    yield _duration(covered)


def _viewless(covered: Covered) -> Checks:
    """Time-series collections of 9.0, which have no buckets of their own that could be counted and compared."""
    inputs, fcv = covered.inputs, covered.located.fcv
    version = version_pair(fcv or inputs.deployment.version)
    held = [item.ns for item in inputs.contents.collections.values() if item.kind == "timeseries"]
    if held and version is not None and version >= (9, 0):
        yield block(
            "viewless-timeseries",
            f"The backup holds {clean_name(held[0])}" + (f" and {len(held) - 1} more." if held[1:] else "."),
            BLOCKING["viewless-timeseries"],
        )


def _missing_documents(base: BaseFacts, *, upserts: bool) -> Checks:
    for ns, count in base.missing.items():
        yield block(
            "document-missing",
            f"{clean_name(ns)}: {plural(count, 'document is', 'documents are')} updated in the window but not "
            "in the backup.",
            "The backup is not complete, or was begun later than it says. Use another one.",
        )
    if not upserts and base.fatal:
        yield block(
            "dead-updates",
            plural(base.fatal, "update inside a group is of a document", "updates inside groups are of documents")
            + " that the backup no longer has.",
            "This server version stops at them. Use a later backup.",
        )


def _duration(covered: Covered) -> Check:
    applied, minutes = covered.replay.applied, replay_seconds(covered) / 60
    takes = "less than a minute" if minutes < 1 else f"about {minutes:,.0f} min"
    title = f"{plural(applied, 'operation is', 'operations are')} replayed: {takes}."
    return warn("duration", title) if minutes > 60 else ok("duration", title)


def _left_out(replay: Replay) -> Checks:
    dead, updates, capped_deletes = map(len, (replay.on_missing_collection, replay.without, replay.capped_deletes))
    every = dead + updates + capped_deletes + len(replay.left_to_repair)
    if every > MOST_LEFT_OUT:
        yield block(
            "dead-operations",
            f"{every:,} entries would have to be left out one by one, which is too many for a query.",
            "Use a backup with a sidecar (tallyglass restore prepare): it needs no entries from before it began.",
        )
        return
    if capped_deletes:
        yield warn(
            "capped-deletes",
            plural(capped_deletes, "entry is a delete", "entries are deletes")
            + " by which capped collections made room.",
            "They are left out of the replay, which this server version would stop at; the spare makes room itself.",
        )
    if dead:
        yield warn(
            "dead-operations",
            plural(dead, "entry writes", "entries write")
            + " to collections that did not exist any more when the backup read them.",
            "They are left out of the replay; otherwise it would stop at the first of them.",
        )
    if updates:
        yield warn(
            "dead-updates",
            plural(
                updates,
                "entry is a group, or an update of a document, that was removed before the backup read it.",
                "entries are groups, or updates of documents, that were removed before the backup read them.",
            ),
            "They are left out of the replay; otherwise it would stop at the first of them.",
        )
