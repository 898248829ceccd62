"""Checks of the oplog between backup and point, and of what lies after it."""

from __future__ import annotations

from collections.abc import Iterator

from tallyglass.restore.facts import Facts
from tallyglass.restore.model.plan import Check, Level, Strategy
from tallyglass.restore.replay.oplog_query import MOST_LEFT_OUT
from tallyglass.text import clean_name

OPS_A_SECOND, OPS_A_SECOND_IN_SET = 5_000, 1_100
"""Measured replay speed on a standalone and on a replica set of one: one command per operation."""

SHORT_HEAD_ROOM_HOURS = 24.0

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
    "admin-collections": ("admin-collections", "Collections in admin are written in the window; they are left out."),
}
"""What occurs in the window, by the replay's own word for it: the check's id and title."""

BLOCKING = {
    "fcv-change": "Restore to a moment before that change.",
    "unknown-command": "mongorestore stops there. Choose a point before it.",
    "order": "The oplog is not in order: plan again, and look at the members' health.",
    "base-incomplete": "The backup lacks a collection that the oplog needs. Use another backup.",
    "dead-operation": "It cannot be left out of the file. Use a later backup.",
    "rename-overlap": "What the backup holds under these names is not certain. Use a later backup.",
    "classic-indexes": "On a copy of the data files mongorestore does not drop it. Use a mongodump backup.",
    "collmod-lost-index": "mongorestore loses sight of an index after a rename. Use a later backup.",
}


def coverage(facts: Facts) -> Iterator[Check]:
    """Does the oplog hold everything from the start to the limit, and for how long?"""
    start = facts.start
    if start is None:
        return
    if start.ts is None:
        yield Check(
            "coverage",
            Level.BLOCK,
            f"The oplog no longer reaches back to the backup: {start.why}.",
            "Only a later backup, or another oplog copy, closes the gap.",
        )
        return
    replay = facts.replay
    if replay is None:
        return
    reason = " (the set's first entry)" if start.from_birth and start.ts == start.oldest else ""
    back = f", {start.back_off} s before the backup" if start.back_off and not reason else reason
    yield Check(
        "coverage",
        Level.OK,
        f"The oplog holds all of {start.ts} to {facts.limit}{back}: {replay.entries:,} entries.",
    )
    hours = facts.hours_left
    if hours is None:
        yield Check("head-room", Level.WARN, "How long the oplog still holds the start is unknown.", "Save it first.")
    elif hours < SHORT_HEAD_ROOM_HOURS:
        yield Check(
            "head-room",
            Level.WARN,
            f"In about {hours:.1f} h the server overwrites the start.",
            "Save the oplog now (the first phase), or raise minRetentionHours with replSetResizeOplog.",
        )


def transactions(facts: Facts) -> Iterator[Check]:
    """Is every transaction in the window whole, and which are cut off by the limit?"""
    if facts.lost_beginning is not None:
        yield Check(
            "mid-transaction",
            Level.BLOCK,
            f"A transaction begins before the oplog does (it needs {facts.lost_beginning}).",
            "A part of it would be applied without a word. Use a later backup.",
        )
    elif facts.moved_for_transaction and facts.start is not None:
        yield Check(
            "transaction-start", Level.OK, f"The start was moved to {facts.start.ts}, where a transaction begins."
        )
    for chain in facts.open_at_limit[:5]:
        first = chain.entries[0].ts
        yield Check(
            "open-transaction",
            Level.WARN,
            f"The transaction that began at {first} is not committed before the point: none of it is restored.",
        )


def operations(facts: Facts) -> Iterator[Check]:
    """Everything in the window that the replay refuses, or that deserves a word."""
    replay, base = facts.replay, facts.base
    if replay is None:
        return
    for problem in replay.problems[:10]:
        yield Check(problem.kind, Level.BLOCK, f"{problem.text[:1].upper()}{problem.text[1:]}.", BLOCKING[problem.kind])
    for kind, (name, title) in WORDS.items():
        if kind in replay.kinds:
            yield Check(name, Level.WARN, title)
    yield from _left_out(len(replay.dead), len(replay.without), len(replay.made_room))
    if base is not None:
        for ns, count in list(base.missing.items())[:5]:
            yield Check(
                "document-missing",
                Level.BLOCK,
                f"{clean_name(ns)}: {count:,} documents are updated in the window but are not in the backup.",
                "The backup is not complete, or was begun later than it says. Use another one.",
            )
        if not replay.upserts and base.fatal:
            yield Check(
                "dead-updates",
                Level.BLOCK,
                f"{base.fatal:,} updates inside groups are of documents that the backup no longer has.",
                "This server version stops at them. Use a later backup.",
            )
    speed = OPS_A_SECOND_IN_SET if facts.spare and facts.spare.set_name else OPS_A_SECOND
    minutes = replay.applied / speed / 60
    level = Level.WARN if minutes > 60 else Level.OK
    yield Check("duration", level, f"{replay.applied:,} operations are replayed: about {max(minutes, 1):,.0f} min.")


def _left_out(dead: int, updates: int, made_room: int) -> Iterator[Check]:
    every = dead + updates + made_room
    if every > MOST_LEFT_OUT:
        yield Check(
            "dead-operations",
            Level.BLOCK,
            f"{every:,} entries would have to be left out one by one, which is too many for a query.",
            "Use a backup with a sidecar (tallyglass restore prepare): it needs no entries from before it began.",
        )
        return
    if made_room:
        yield Check(
            "capped-deletes",
            Level.WARN,
            f"{made_room:,} entries are what capped collections removed to make room.",
            "They are left out of the replay, which this server version would stop at; the spare makes room by itself.",
        )
    if dead:
        yield Check(
            "dead-operations",
            Level.WARN,
            f"{dead:,} entries write to collections that were gone before the backup read them.",
            "They are left out of the replay; without that it would stop at the first of them.",
        )
    if updates:
        yield Check(
            "dead-updates",
            Level.WARN,
            f"{updates:,} entries are groups, or updates of documents, that were gone before the backup read them.",
            "They are left out of the replay; without that it would stop at the first of them.",
        )


def meaning(facts: Facts) -> Iterator[Check]:
    """What the restore means for the live data."""
    if facts.cut_off_in_group:
        yield Check(
            "inside-incident",
            Level.WARN,
            "The entry before the point looks like part of the same mistake.",
            "Choose the first entry of it: a dropDatabase drops its collections before, a deleteMany is many deletes.",
        )
    if facts.loss is not None and facts.loss.fcv_changed is not None:
        yield Check(
            "fcv-after",
            Level.BLOCK,
            f"Feature compatibility was changed at {facts.loss.fcv_changed}, after the point.",
            "The data at the point is of the version before; this plan compares with the one now.",
        )
    if facts.loss is not None and facts.loss.changed:
        total = sum(item.inserts + item.updates + item.deletes for item in facts.loss.changed.values())
        yield Check(
            "loss",
            Level.WARN,
            f"{total:,} operations after the point would be lost by a full rollback.",
            "Only damaged namespaces are brought back, beside the live ones. Stop the writers before the merge.",
        )
    for row in facts.returns:
        if row.note:
            yield Check("return", Level.WARN, f"{clean_name(row.ns)}: {row.note}")
    yield from _numbers(facts)
    if facts.definitions.statements:
        yield Check(
            "definitions",
            Level.WARN,
            f"{len(facts.definitions.statements)} indexes or validators are other than at the point.",
            "The commands that set them right are the last step of the return; it asks, and --yes does not run it.",
        )
    for words in facts.definitions.words[:10]:
        yield Check("definitions-by-hand", Level.WARN, f"{words}.")
    if facts.counters.fixes:
        yield Check(
            "reissue",
            Level.WARN,
            f"{len(facts.counters.fixes)} counters would hand out ids again that were handed out after the point.",
            "The commands move them forward with $max, on the spare and on the live set.",
        )
    for ns in facts.counters.unknown:
        yield Check("reissue-unknown", Level.WARN, f"Counters: {ns}")


def _numbers(facts: Facts) -> Iterator[Check]:
    """Ids that were handed out after the point and will not be in the collection any more, by whatever they came."""
    for row in facts.returns:
        changed = facts.loss.changed.get(row.ns) if facts.loss else None
        if changed is None or changed.numbers is None or row.strategy is Strategy.MERGE:
            continue
        least, most = changed.numbers
        known = facts.base is not None and row.ns in facts.base.largest
        at_point = facts.base.largest[row.ns] if facts.base is not None and known else None
        if at_point is not None and at_point >= most:
            continue
        was = "none was there" if at_point is None else f"the largest was {at_point}"
        yield Check(
            "ids",
            Level.WARN,
            f"{clean_name(row.ns)}: whole numbers from {least} to {most} became _ids after the point; "
            + (f"at the point {was}." if known else "the largest at the point is not known."),
            f"What hands them out without a counter that is known here must go on above {most}.",
        )
