"""Checks of what the restore means for the live data."""

from __future__ import annotations

from collections import Counter

from tallyglass.oplog.entry.entry import Entry
from tallyglass.restore.model.check import Checks, block, warn
from tallyglass.restore.model.undo import Strategy
from tallyglass.restore.proof.findings import Assessed, Findings
from tallyglass.restore.undo.incident_scope import DEFINITIONS
from tallyglass.text import clean_name, first_names, plural

_MOST_NAMED = 3
"""Namespaces in one line of a check; the others are counted."""


def live_data(found: Findings) -> Checks:
    """What is lost, what comes back, and what must be corrected afterwards."""
    covered, assessed = found.covered, found.assessed
    if covered is not None and _same_group(covered.before_limit, covered.located.at_limit):
        yield warn(
            "inside-incident",
            "The entry before the point looks like part of the same mistake.",
            "Choose the first entry of it: a dropDatabase drops its collections before, a deleteMany is many deletes.",
        )
    if assessed is None:
        return
    if assessed.loss.fcv_changed is not None:
        yield block(
            "fcv-after",
            f"Feature compatibility was changed at {assessed.loss.fcv_changed}, after the point.",
            "The data at the point is of the version before; this plan compares with the one now.",
        )
    if assessed.loss.changed and found.inputs.choice is None:
        total = sum(item.inserts + item.updates + item.deletes for item in assessed.loss.changed.values())
        yield warn(
            "loss",
            f"{plural(total, 'operation')} came after the point; a full rollback would lose them.",
            "This plan brings back only what was damaged, through staging collections: the application may write on.",
        )
    incident = found.inputs.incident
    if incident is not None and incident.kind in DEFINITIONS and not assessed.definitions.compared:
        title = f"Nothing of it is set back: {incident.title}. The run rebuilds the spare alone, and ends with 3."
        yield warn("return", title, "Compare with the spare, and set it back manually.")
    for row in assessed.returns:
        if row.note:
            yield warn("return", f"{clean_name(row.ns)}: {row.note}")
    yield from _numbers(assessed)
    yield from _definitions(assessed)
    yield from _counters(assessed)


def chosen(found: Findings) -> Checks:
    """Whether it existed at the point, and the name is unused."""
    choice, assessed = found.inputs.choice, found.assessed
    if choice is None or assessed is None:
        return
    item = next((item for item in assessed.replayed.expected if item.ns == choice.ns), None)
    shown = clean_name(choice.ns)
    if item is None:
        yield block("not-at-point", f"{shown} did not exist at the point, or is not in the backup.")
    elif item.kind != "collection":
        yield block(
            "not-at-point", f"{shown} was a {item.kind} at the point: only collections come under another name."
        )
    if assessed.target_taken:
        yield block("target-taken", f"{clean_name(choice.target)} exists already.", "Give another name with --as.")


def _same_group(before: Entry | None, at_limit: Entry | None) -> bool:
    """Whether the entry before the point belongs to the same statement as the one at it."""
    if before is None or at_limit is None:
        return False
    if at_limit.command == "dropDatabase":
        return before.command == "drop" and before.db == at_limit.db
    same = (before.op, before.ns) == (at_limit.op, at_limit.ns) and at_limit.op in ("u", "d")
    return same and not before.linked and not at_limit.linked and at_limit.ts.t - before.ts.t <= 1


def _numbers(assessed: Assessed) -> Checks:
    """Ids that were handed out after the point and will not be in the collection any more, whatever their source."""
    largest = assessed.replayed.base.largest
    for row in assessed.returns:
        changed = assessed.loss.changed.get(row.ns)
        if changed is None or changed.numbers is None or row.strategy in (Strategy.MERGE, Strategy.COPY):
            continue
        least, most = changed.numbers
        at_point = largest.get(row.ns)
        if at_point is not None and at_point >= most:
            continue
        numbers = f"whole number {least}" if least == most else f"whole numbers from {least} to {most}"
        was = "none was there" if at_point is None else f"the largest was {at_point}"
        yield warn(
            "ids",
            f"{clean_name(row.ns)}: {numbers} became _id{'s' * (least != most)} after the point; "
            + (f"at the point {was}." if row.ns in largest else "the largest at the point is not known."),
            f"An id source that is not a counter listed here must continue above {most}.",
        )


def _definitions(assessed: Assessed) -> Checks:
    definitions = assessed.definitions
    if definitions.statements:
        yield warn(
            "definitions",
            plural(len(definitions.statements), "index or validator differs", "indexes or validators differ")
            + " from those at the point.",
            "The commands that set them right are the last step that writes to the live set; it asks, and --yes leaves "
            "it out.",
        )
    if definitions.unexplained:
        yield warn(
            "indexes-unexplained",
            f"{first_names(definitions.unexplained)}: the live indexes differ from those of backup and oplog, "
            "and no command after the point changed them.",
            "They were built member by member, or the backup was read from a member without indexes: then what comes "
            "back lacks them too.",
        )
    for text in definitions.by_hand:
        yield warn("definitions-by-hand", f"{text}.")


def _counters(assessed: Assessed) -> Checks:
    counters = assessed.counters
    rows = counters.rows
    if rows:
        by_ns = Counter(row.ns for row in rows)
        documents = plural(len(rows), "counter document")
        where = ", ".join(f"{ns} ({count:,})" for ns, count in by_ns.most_common(_MOST_NAMED))
        more = f" and {len(by_ns) - _MOST_NAMED:,} more" if len(by_ns) > _MOST_NAMED else ""
        yield warn(
            "reissue",
            f"{documents} would hand out ids again that were handed out after the point: {where}{more}.",
            "The commands move them forward, on the spare and on the live set. The page of counters shows the "
            "documents of a pool, or of more than 200 tenants, as one counter.",
        )
    for text in counters.unknown:
        yield warn("reissue-unknown", f"Counters: {text}")
