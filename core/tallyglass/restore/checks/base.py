"""Checks of the base against the oplog, the UUIDs, and the counts that the oplog records."""

from __future__ import annotations

from tallyglass.restore.backup.backup import DATA_FILES, LEFT_OUT
from tallyglass.restore.model.check import Checks, block, warn
from tallyglass.restore.proof.findings import Covered, Findings, Replayed
from tallyglass.restore.proof.returns import is_about
from tallyglass.restore.timeline.coverage import NoStart
from tallyglass.restore.undo.incident_scope import DEFINITIONS, why_not_undone
from tallyglass.text import clean_name, first_names, plural

SLACK_SECONDS = 60
"""Seconds that the files of one dump may lie further apart than its oplog says that it took."""

_FILTERED = "It was read with a filter, from a member that was behind, or has files of another dump. Use another one."
_COUNT_MISMATCH = (
    "The backup does not hold all of it, or holds more; a server that was killed may also have kept a wrong count. "
    "Use another backup."
)


def base_identity(found: Findings) -> Checks:
    """Is the backup from this set, since its last initiation, and from one moment?"""
    contents, located, covered = found.inputs.contents, found.located, found.covered
    if located is not None and isinstance(located.start, NoStart) and located.start.first_entry is not None:
        yield block(
            "set-initiated-later",
            f"The set was initiated at {located.start.first_entry}, after the backup began.",
            "It was initiated again, or was a standalone then: what happened in between is in no oplog.",
        )
    if located is not None and located.foreign:
        yield block("other-history", f"The backup is not from this oplog: {located.foreign}.", "Use one of this set.")
    if contents.late_sidecar is not None:
        yield warn(
            "sidecar-late",
            f"The sidecar gives {contents.late_sidecar}, the dump's own oplog begins before: {contents.backup.start}.",
            "The dump was read from a member that was behind: its own start is used.",
        )
    start, end = contents.backup.start, contents.backup.end
    if contents.written_over is not None and start is not None and end is not None:
        took = end.t - start.t
        if contents.written_over > took + SLACK_SECONDS:
            yield warn(
                "file-times",
                f"The files were written within {contents.written_over:,} s; the backup took {took:,} s.",
                "They were copied slowly, or come from two dumps in one directory.",
            )
    if covered is not None:
        yield from _collections(covered)


def _collections(covered: Covered) -> Checks:
    contents = covered.inputs.contents
    if covered.stale:
        yield block(
            "stale-collection",
            f"{first_names(covered.stale)}: in the backup, but not in this set since the backup began.",
            "The directory holds files of an older dump or of another set, files that were renamed, or views that were "
            "dumped as collections. Use a backup that was taken in one go.",
        )
    unknown = sorted(
        item.ns
        for item in contents.collections.values()
        if item.kind == "collection" and not item.uuid_bytes and item.ns.partition(".")[0] not in LEFT_OUT
    )
    if unknown:
        yield warn(
            "uuid-unknown",
            f"The backup does not give the UUID of {first_names(unknown)}.",
            "Whether these are the same collections as in the oplog cannot be verified.",
        )
    skipped = sorted(item.ns for item in contents.collections.values() if "\n" in item.ns)
    if skipped and contents.backup.form != DATA_FILES:
        yield warn(
            "name-skipped",
            f"mongorestore skips {first_names(skipped)} in a backup: the name contains a line break.",
            "Unless the oplog brings it back, restore verify stops the script. Rename it before the next backup.",
        )
    if covered.unlisted:
        yield warn(
            "uuid-unlisted",
            f"The collections of {first_names(sorted(covered.unlisted))} cannot be listed with their UUIDs.",
            "Whether the backup holds collections that were dropped before it cannot be verified: grant read on them.",
        )


def base_documents(found: Findings) -> Checks:
    """Do the documents of the backup agree with the entries before the start, after the point, and with counts?"""
    replayed = found.replayed
    if replayed is None:
        return
    base = replayed.base
    for ns, count in base.unlike_earlier.items():
        yield block(
            "base-differs",
            f"{clean_name(ns)}: {plural(count, 'document is', 'documents are')} not as the oplog left them before "
            f"{replayed.covered.start.ts}.",
            _FILTERED,
        )
    for ns, names in base.indexes_unlike_earlier.items():
        yield block(
            "base-differs",
            f"{clean_name(ns)}: the indexes {first_names(names)} are not as the oplog left them before "
            f"{replayed.covered.start.ts}.",
            "Its metadata is of another dump, or was read from a member without indexes. Use another one.",
        )
    for ns, (missing, surplus) in base.unlike_later.items():
        if missing:
            yield block(
                "document-missing",
                f"{clean_name(ns)}: {plural(missing, 'document is', 'documents are')} changed after the point but "
                "would not be there at it.",
                _FILTERED,
            )
        if surplus:
            yield block(
                "document-surplus",
                f"{clean_name(ns)}: {plural(surplus, 'document that was', 'documents that were')} inserted after the "
                "point would be there at it.",
                "The backup holds later writes: it ended after the point. Use an older one.",
            )
    for mismatch in base.count_mismatches:
        yield block(
            "count-differs",
            f"{clean_name(mismatch.ns)} held {mismatch.stated:,} documents when it was dropped at {mismatch.ts}; "
            f"backup and oplog give {mismatch.computed:,}.",
            _COUNT_MISMATCH,
        )
    uncounted = sorted(item.ns for item in replayed.expected if item.documents is None and item.kind == "collection")
    if uncounted:
        yield warn(
            "counts-not-computed",
            f"The documents of {first_names(uncounted)} could not be counted beforehand.",
            "restore verify compares their indexes and options, not how many documents they hold.",
        )


def damage(found: Findings) -> Checks:
    """Does the backup hold what the mistake damaged?"""
    replayed, assessed, incident = found.replayed, found.assessed, found.inputs.incident
    if found.inputs.choice is not None:
        return
    if incident is not None and why_not_undone(incident):
        yield block("incident-not-undone", f"A restore does not undo it: {incident.title}.", why_not_undone(incident))
        return
    if replayed is None:
        return
    lacking = _lacking(replayed)
    damaged = [ns for uuid, ns in lacking.items() if _is_damaged(uuid, ns, replayed)]
    others = [ns for ns in lacking.values() if ns not in damaged]
    if damaged:
        yield block(
            "damage-not-in-backup",
            f"{first_names(damaged)}: damaged, and not in this backup.",
            "It cannot be brought back from here. Use a backup that holds it.",
        )
    elif assessed is not None and incident is not None and incident.kind not in DEFINITIONS and not assessed.returns:
        yield block(
            "incident-not-undone",
            f"Nothing of the incident can be brought back: {incident.title}.",
            "At the point backup and oplog hold nothing of what it damaged. Use a backup that does.",
        )
    if others:
        yield warn(
            "not-in-backup",
            f"{first_names(others)}: changed after the point, and not in this backup.",
            "They stay as they are.",
        )


def _lacking(replayed: Replayed) -> dict[bytes, str]:
    """The collections that existed at the point and changed after it, and that the replay does not have, by UUID."""
    catalog = replayed.covered.replay.catalog
    known = {item.uuid for item in catalog.collections.values() if item.uuid}
    unnamed = {ns for ns, item in catalog.collections.items() if not item.uuid}
    return {
        uuid: found.ns
        for uuid, found in replayed.later.by_uuid.items()
        if uuid not in known
        and found.ns not in unnamed
        and not replayed.later.is_newer(uuid)
        and found.ns.partition(".")[0] not in LEFT_OUT
        and found.ns.partition(".")[2] not in ("system.views", "system.profile")
    }


def _is_damaged(uuid: bytes, ns: str, replayed: Replayed) -> bool:
    """Whether a collection was damaged by the incident, or by the entry at the point where none is named."""
    incident, at = replayed.covered.inputs.incident, replayed.covered.located.at_limit
    if incident is not None:
        changed = replayed.loss.changed.get(ns)
        return is_about(incident, ns) or bool(changed and changed.by_incident)
    if at is None:
        return False
    hit = {at.ui, at.replaced, *(inner.ui for inner in at.inner())}
    dropped = at.command in ("drop", "dropDatabase") and at.db == ns.partition(".")[0]
    return uuid in hit or (dropped and replayed.later.by_uuid[uuid].is_dropped)
