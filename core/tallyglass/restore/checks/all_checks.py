"""All checks of a restore. One function per question; each reads the findings only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tallyglass.deployment.cluster import Deployment
from tallyglass.moment import iso
from tallyglass.restore.backup.backup import DATA_FILES, PBM
from tallyglass.restore.backup.data_files import how_to_start
from tallyglass.restore.checks import base, live, spare, undone, window
from tallyglass.restore.checks.installed_tools import installed_tools
from tallyglass.restore.checks.saved import saved_oplog
from tallyglass.restore.model.check import Check, Checks, Level, block, ok, warn
from tallyglass.restore.proof.findings import Findings
from tallyglass.restore.tools.toolset import parse_tool_version, version_pair


def run_checks(found: Findings) -> tuple[Check, ...]:
    """All checks in the order of the questions below; those of a stage that was not reached are left out."""
    return tuple(check for question in QUESTIONS for check in _few(question(found)))


_FEW = 5
"""Checks that block under one id and are shown: a person mends the first, and plans again."""


def _few(checks: Checks) -> Checks:
    blocking: Counter[str] = Counter()
    for check in checks:
        blocking[check.id] += check.level is Level.BLOCK
        if check.level is not Level.BLOCK or blocking[check.id] <= _FEW:
            yield check
    for name, count in blocking.items():
        if count > _FEW:
            yield block(name, f"And {count - _FEW:,} more like these.")


def _deployment(found: Findings) -> Checks:
    source = found.inputs.deployment
    if source.sharded:
        yield block("sharded", source.no_restore_because(), "Use your backup system's own cluster restore.")
    elif not source.has_oplog:
        yield block("no-oplog", "There is no oplog here.", source.no_oplog_because())
    else:
        yield ok("source", f"Replica set {source.set_name}, {source.server or f'MongoDB {source.version}'}.")
    yield from tested(source)
    if source.alone and source.me != source.primary:
        yield block(
            "source-alone",
            f"{source.alone} It is not the primary, which alone can be written to.",
            "Forward a port to the primary, and connect to that.",
        )
    elif source.alone:
        yield warn(
            "source-alone",
            str(source.alone),
            "The commands connect to it alone: run them on this machine, and plan again if another becomes primary.",
        )
    if source.shard_unknown:
        yield warn(
            "shard-unknown",
            "This user may not ask whether this is one shard of a cluster (shardingState).",
            "If it is one, this plan is not right: use your backup system's own cluster restore.",
        )
    if found.unreadable:
        yield block("privileges", found.unreadable, "Reading local.oplog.rs needs clusterMonitor, or find on it.")


def tested(source: Deployment) -> Checks:
    """A warning if the tests are not run on this server."""
    if source.untested:
        yield warn("server-untested", source.untested, "Rehearse it (tallyglass restore drill) before you rely on it.")


def _tools(found: Findings) -> Checks:
    yield from installed_tools(found.inputs.tools, found.tools_needed)
    backup = found.inputs.contents.backup
    made_by = parse_tool_version(backup.tool_version)
    if made_by is not None and made_by[:2] < (100, 4):
        yield warn("backup-tool-old", f"The backup was made by mongodump {backup.tool_version}.")


def _versions(found: Findings) -> Checks:
    contents, source = found.inputs.contents, found.inputs.deployment
    backup, fcv = contents.backup, found.located.fcv if found.located else None
    if backup.server_version and version_pair(backup.server_version) != version_pair(source.version):
        yield block(
            "backup-version",
            f"The backup is from MongoDB {backup.server_version}, the source runs {source.version}.",
            "An oplog can only be replayed on data of its own major version.",
        )
    if contents.fcv and fcv and contents.fcv != fcv:
        yield block(
            "fcv-change",
            f"Feature compatibility was {contents.fcv} at the backup and is {fcv} now.",
            "Restore to a moment before that change, with a backup from before it.",
        )
    if contents.set_name and contents.set_name != source.set_name:
        yield block("other-set", f"The backup is from the set {contents.set_name}.", "Connect to that set.")


def _backup(found: Findings) -> Checks:
    inputs, base = found.inputs, found.replayed.base if found.replayed else None
    backup = inputs.contents.backup
    for problem in (*inputs.contents.problems, *(base.problems if base else ())):
        advice = "Take another copy of it, or an older one."
        if problem.endswith("symbolic link"):
            advice = "Put there what it points to: a staged copy would not hold it."
        yield block("backup-broken", f"The backup is damaged or incomplete: {problem.removesuffix('.')}.", advice)
    if backup.form == DATA_FILES and inputs.spare is None:
        yield block(
            "data-files-not-running",
            "Data files can only be read through a mongod that runs on them.",
            how_to_start(inputs.contents),
        )
        return
    if backup.start is None:
        hint = f" Its files are from {iso(backup.taken_hint)} at the earliest." if backup.taken_hint else ""
        yield block(
            "backup-start-unknown",
            "The backup does not record when it began.",
            f"Give an oplog timestamp from before it began (--backup-start).{hint}",
        )
    elif backup.source == "given":
        yield warn(
            "backup-start-given", f"The backup start {backup.start} comes from --backup-start and cannot be verified."
        )
    else:
        yield ok("backup-start", f"The backup itself records that it began after {backup.start} ({backup.source}).")
    if backup.form == PBM:
        yield warn("hidden-indexes", "PBM does not record which indexes are hidden: they come back visible.")
    if backup.end is None and backup.form != DATA_FILES:
        yield warn(
            "backup-end-unknown",
            "The backup does not record when it ended; it must have ended before the point.",
            "mongodump --oplog records it: see tallyglass restore prepare.",
        )
    if base and base.unread_bytes:
        yield warn("backup-unread", f"{base.unread_bytes:,} bytes of the backup were not read.")


def _point(found: Findings) -> Checks:
    inputs = found.inputs
    limit, backup = inputs.limit, inputs.contents.backup
    if limit.t == 0:
        yield block("limit-zero", "0 would mean no limit at all: everything would be replayed.", "Choose the point.")
        return
    if backup.start is not None and backup.start >= limit:
        advice = "Use an older one."
        yield block("backup-after-point", f"The backup began at {backup.start}, not before the point {limit}.", advice)
    elif backup.end is not None and backup.end >= limit:
        yield block(
            "backup-after-point",
            f"The backup ended at {backup.end}, not before the point {limit}: it holds later writes.",
            "Use an older one.",
        )
    located = found.located
    newest = located.start.newest if located and located.start else None
    majority = located.majority if located else None
    if newest is not None and limit > newest:
        yield block("limit-beyond-oplog", f"The oplog ends at {newest}, before the point {limit}.")
    elif majority is None:
        yield block("not-majority", "The server does not report which entries a majority has.", "Connect to the set.")
    elif limit > majority:
        yield block(
            "not-majority",
            f"The entry at {limit} is not on a majority of the members yet: it may still be rolled back.",
            "Wait until it is, and plan again.",
        )
    else:
        yield ok("majority", f"{limit} is on a majority of the members.")


def _room(found: Findings) -> Checks:
    inputs, covered = found.inputs, found.covered
    if inputs.free_bytes is None or covered is None:
        return
    copies = 3 if inputs.own_spare else 1
    needed = int((covered.replay.bytes * 2 + inputs.contents.backup.bytes * copies) * 1.3)
    if inputs.free_bytes < needed:
        yield block("disk", f"The work directory needs about {needed:,} bytes; {inputs.free_bytes:,} are free.")
    else:
        yield ok("disk", f"{inputs.free_bytes:,} bytes are free for the work directory, about {needed:,} are needed.")


def _secrets(found: Findings) -> Checks:
    if found.inputs.source_uri is not None:
        yield ok("secrets", "No command holds a password; the tools ask for it.")


QUESTIONS: tuple[Callable[[Findings], Checks], ...] = (
    base.damage, undone.undone, _deployment, _tools, _versions, _backup, saved_oplog,
    base.base_identity, base.base_documents, _point,
    window.coverage, window.transactions, window.operations,
    live.live_data, live.chosen, spare.spare_server, spare.archived_users, spare.encrypted_collections,
    _room, _secrets,
)  # fmt: skip
