"""Everything that blocks a restore or deserves a word before it. One function per question; each reads the facts
only."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tallyglass.deployment.cluster import Kind
from tallyglass.moment import iso
from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES
from tallyglass.restore.backup.data_files import how_to_start
from tallyglass.restore.checks import checks_window
from tallyglass.restore.facts import Facts
from tallyglass.restore.model.plan import Check, Level
from tallyglass.restore.tools.toolset import needed_for, parse_tool_version, version_pair

Found = Iterator[Check]


def ok(name: str, title: str) -> Check:
    """A check that was made and found right."""
    return Check(name, Level.OK, title)


def warn(name: str, title: str, advice: str = "") -> Check:
    """A doubt that does not stop the restore."""
    return Check(name, Level.WARN, title, advice)


def block(name: str, title: str, advice: str = "") -> Check:
    """Why there are no commands."""
    return Check(name, Level.BLOCK, title, advice)


def judge(facts: Facts) -> tuple[Check, ...]:
    """All checks in order of the questions below; those that cannot be answered yet are left out."""
    return tuple(check for question in QUESTIONS for check in question(facts))


def _deployment(facts: Facts) -> Found:
    found = facts.deployment
    if found.sharded or found.kind is Kind.MONGOS:
        yield block(
            "sharded",
            "This is part of a sharded cluster: its data cannot be replayed from one oplog.",
            "Use your backup system's own cluster restore.",
        )
    elif not found.has_oplog:
        yield block("no-oplog", "There is no oplog here.", found.no_oplog_because())
    else:
        yield ok("source", f"Replica set {found.set_name}, MongoDB {found.version}.")
    if found.shard_unknown:
        yield warn(
            "shard-unknown",
            "This user may not ask whether this is one shard of a cluster (shardingState).",
            "If it is one, this plan is not right: use your backup system's own cluster restore.",
        )
    if facts.unreadable:
        yield block("privileges", facts.unreadable, "Reading local.oplog.rs needs clusterMonitor, or find on it.")


def _tools(facts: Facts) -> Found:
    needed = needed_for(facts.deployment.version)
    word = ".".join(map(str, needed))
    tools = facts.tools
    if tools is None or tools.oldest is None:
        yield ok("tool-version", f"mongodump, mongorestore and bsondump {word} or newer are needed; the script checks.")
    elif tools.oldest[:2] < needed:
        have = ", ".join(f"{name} {'.'.join(map(str, version))}" for name, version in tools.versions.items())
        yield block("tool-version", f"The tools here are too old: {have}.", f"Install {word} or newer.")
    elif tools.differ:
        yield warn("tool-mixed", "The tools here are of different versions.", "Install them as one package.")
    else:
        yield ok("tool-version", f"The tools here are {'.'.join(map(str, tools.oldest))}; {word} is needed.")
    made_by = parse_tool_version(facts.contents.backup.tool_version)
    if made_by is not None and made_by[:2] < (100, 4):
        yield warn("backup-tool-old", f"The backup was made by mongodump {facts.contents.backup.tool_version}.")


def _versions(facts: Facts) -> Found:
    backup = facts.contents.backup
    if backup.server_version and version_pair(backup.server_version) != version_pair(facts.deployment.version):
        yield block(
            "backup-version",
            f"The backup is from MongoDB {backup.server_version}, the source runs {facts.deployment.version}.",
            "An oplog can only be replayed on data of its own major version.",
        )
    if facts.contents.fcv and facts.fcv and facts.contents.fcv != facts.fcv:
        yield block(
            "fcv-change",
            f"Feature compatibility was {facts.contents.fcv} at the backup and is {facts.fcv} now.",
            "Restore to a moment before that change, with a backup from before it.",
        )
    if facts.contents.set_name and facts.contents.set_name != facts.deployment.set_name:
        yield block("other-set", f"The backup is of the set {facts.contents.set_name}.", "Connect to that set.")


def _backup(facts: Facts) -> Found:
    backup = facts.contents.backup
    problems = [*facts.contents.problems, *(facts.base.problems if facts.base else ())]
    for problem in problems[:5]:
        advice = "Take another copy of it, or an older one."
        if problem.endswith("symbolic link"):
            advice = "Put there what it points to: a staged copy would not hold it."
        yield block("backup-broken", f"The backup is not whole: {problem}.", advice)
    if backup.form == DATA_FILES and facts.spare is None:
        yield block(
            "data-files-not-running",
            "Data files say what they hold only to a mongod that runs on them.",
            how_to_start(facts.contents, facts.deployment.version),
        )
        return
    if backup.start is None:
        hint = f" Its files are from {iso(backup.taken_hint)} at the earliest." if backup.taken_hint else ""
        yield block(
            "backup-start-unknown",
            "The backup does not say when it was begun.",
            f"Give an oplog timestamp from before it began (--backup-start).{hint}",
        )
    elif backup.source == "given":
        yield warn("backup-start-given", f"That the backup began after {backup.start} is your word alone.")
    else:
        yield ok("backup-start", f"The backup says itself that it began after {backup.start} ({backup.source}).")
    if backup.end is None and backup.form != DATA_FILES:
        yield warn(
            "backup-end-unknown",
            "The backup does not say when it ended; it must have ended before the point.",
            "mongodump --oplog records it: see tallyglass restore prepare.",
        )
    if facts.base and facts.base.unread_bytes:
        yield warn("backup-unread", f"{facts.base.unread_bytes:,} bytes of the backup were not read through.")


def _point(facts: Facts) -> Found:
    limit, backup = facts.limit, facts.contents.backup
    if limit.t == 0:
        yield block("limit-zero", "0 would mean no limit at all: everything would be replayed.", "Choose the point.")
        return
    start = backup.start
    if start is not None and start >= limit:
        yield block("backup-after-point", f"The backup began at {start}, after the point {limit}.", "Use an older one.")
    elif backup.end is not None and backup.end >= limit:
        yield block(
            "backup-after-point",
            f"The backup ended at {backup.end}, after the point {limit}: it holds later writes.",
            "Use an older one.",
        )
    if facts.start is not None and facts.start.newest is not None and limit > facts.start.newest:
        yield block("limit-beyond-oplog", f"The oplog ends at {facts.start.newest}, before the point {limit}.")
    elif facts.majority is None:
        yield block("not-majority", "The server does not say which entries a majority has.", "Connect to the set.")
    elif limit > facts.majority:
        yield block(
            "not-majority",
            f"The entry at {limit} is not on a majority of the members yet: it may still be rolled back.",
            "Wait until it is, and plan again.",
        )
    else:
        yield ok("majority", f"{limit} is on a majority of the members.")


def _spare(facts: Facts) -> Found:
    if facts.uri_trouble:
        yield block("uri", facts.uri_trouble)
    for uri in (facts.source_uri, facts.spare_uri):
        for word in uri.words if uri else ():
            yield warn("uri-option", word)
    spare = facts.spare
    if facts.own_spare:
        yield warn(
            "spare-not-given",
            f"No spare was named: the commands start an empty mongod on 127.0.0.1:{facts.own_spare}.",
            f"mongod {facts.deployment.version} must be installed where they run; the script checks its version. "
            "It takes a random key that only you can read; it ends with the phase clean.",
        )
        if facts.fcv and version_pair(facts.fcv) != version_pair(facts.deployment.version):
            yield block(
                "fcv-differs",
                f"Feature compatibility is {facts.fcv} on the source; a new mongod starts with its own version's.",
                "Start a spare, set the same on it (setFeatureCompatibilityVersion), and name it with --spare.",
            )
    if spare is None:
        return
    if spare.trouble:
        yield block("spare-unreachable", f"The spare {spare.address} does not answer: {spare.trouble}")
        return
    yield from _spare_identity(facts)
    yield from _spare_state(facts)


def _archived_users(facts: Facts) -> Found:
    backup = facts.contents.backup
    if backup.form != ARCHIVE or not (facts.contents.users and backup.has_oplog):
        return  # else admin is left out of what is unpacked
    if facts.spare_uri is not None and facts.spare_uri.user and not facts.own_spare:
        yield block(
            "archive-users",
            "The archive holds users: unpacking it would replace those of the spare, your own login too.",
            "Run the spare without access control on loopback.",
        )
    else:
        yield warn("archive-users", "The archive holds users: they come onto the spare with it.", "Keep it private.")


def _spare_identity(facts: Facts) -> Found:
    spare, source = facts.spare, facts.deployment
    assert spare is not None
    ours = {member.address for member in source.members} | {source.me, source.primary} - {""}
    ours |= set(facts.source_uri.hosts if facts.source_uri else ())
    if (spare.set_name and spare.set_name == source.set_name) or ours & {spare.address, *spare.members}:
        yield block("spare-is-source", "The spare is the source itself.", "Start an empty mongod of its own.")
    if spare.sharded or spare.kind is Kind.MONGOS:
        yield block("spare-sharded", "The spare is part of a sharded cluster.", "Use a standalone mongod.")
    elif spare.kind is Kind.REPLICA_SET:
        yield warn("spare-in-set", "The spare is a replica set: the replay is about five times slower there.")
    if version_pair(spare.version) != version_pair(source.version):
        yield block(
            "spare-version",
            f"The spare runs MongoDB {spare.version}, the source {source.version}.",
            "Both must be of the same major version.",
        )
    if spare.fcv is None or facts.fcv is None:
        yield warn("fcv-unknown", "Feature compatibility could not be compared.")
    elif spare.fcv != facts.fcv:
        yield block("fcv-differs", f"Feature compatibility is {spare.fcv} on the spare, {facts.fcv} on the source.")


def _spare_state(facts: Facts) -> Found:
    spare = facts.spare
    assert spare is not None
    if spare.databases and facts.contents.backup.form != DATA_FILES:
        shown = ", ".join(spare.databases[:5])
        yield block("spare-not-empty", f"The spare is not empty: it holds {shown}.", "Empty it, or start another.")
    if spare.ttl_monitor:
        yield block(
            "spare-ttl",
            "The spare's TTL monitor is on: it would delete restored documents.",
            "Start it with --setParameter ttlMonitorEnabled=false.",
        )
    elif spare.ttl_monitor is None:
        yield warn("spare-ttl", "Whether the spare's TTL monitor is off could not be read.")
    if spare.free_to_apply is False:
        yield block(
            "spare-privileges",
            "The user on the spare may not apply every operation.",
            "Give it a role with anyAction on anyResource, or run the spare without access control on loopback.",
        )
    elif spare.free_to_apply is None:
        yield warn("spare-privileges", "Whether the user on the spare may apply everything could not be told.")
    if spare.free_to_apply and facts.spare_uri is not None and not facts.spare_uri.user:
        yield warn(
            "spare-open",
            "The spare has no access control: whoever reaches it can read and change what is restored.",
            "Run it on a host where nobody else logs in, or name none: the commands then start one with a key.",
        )
    if not spare.databases:
        yield ok("spare", f"The spare {spare.address} is empty, MongoDB {spare.version}.")


def _room(facts: Facts) -> Found:
    if facts.free_bytes is None or facts.replay is None:
        return
    needed = int((facts.replay.bytes * 2 + facts.contents.backup.bytes * (3 if facts.own_spare else 1)) * 1.3)
    if facts.free_bytes < needed:
        yield block("disk", f"The work directory needs about {needed:,} bytes; {facts.free_bytes:,} are free.")
    else:
        yield ok("disk", f"{facts.free_bytes:,} bytes are free for the work directory, about {needed:,} are needed.")


def _secrets(facts: Facts) -> Found:
    if facts.source_uri is not None:
        yield ok("secrets", "No command holds a password; the tools ask for it.")


QUESTIONS: tuple[Callable[[Facts], Found], ...] = (
    _deployment, _tools, _versions, _backup, _point, checks_window.coverage, checks_window.transactions,
    checks_window.operations, checks_window.meaning, _spare, _archived_users, _room, _secrets,
)  # fmt: skip
