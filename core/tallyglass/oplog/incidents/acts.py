"""What one entry means for the list of incidents: a drop, a rename, a new user, or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tallyglass.oplog.entry import json, walk
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.incidents.explanations import is_staging, result_of
from tallyglass.oplog.incidents.rows import note_on, row_of, shown
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.text import clean, clean_name

USERS, ROLES, VERSION = "admin.system.users", "admin.system.roles", "admin.system.version"
SYSTEM = frozenset({USERS, ROLES, VERSION})
"""Collections in which every change is an incident."""

INTERNAL = ("config.", "local.", "admin.system.")
"""Namespaces that the server itself deletes from and updates."""

_FCV = "featureCompatibilityVersion"
_TEMPORARY = re.compile(
    r"(?P<out>tmp\.(?:agg_out|mr)\.)|system\.(?:drop|resharding)\.|"
    r"tmp[A-Za-z0-9]{5}\.(?:(?P<capped>convertToCapped\.)|(?P<across>renameCollection\Z)|rename\Z)",
    re.DOTALL,
)
"""What the server makes for itself, and which command renames it in the end."""


def is_temporary(ns: str) -> bool:
    """Whether a namespace holds intermediate results, of the server or of a return: writes to it do no harm."""
    return is_staging(ns) or _TEMPORARY.match(_collection(ns)) is not None


def command_act(entry: Entry) -> Incident | None:
    """What a command means; None if it does no harm."""
    maker = _COMMANDS.get(entry.command)
    internal = (entry.target.startswith(INTERNAL) or is_temporary(entry.target)) and maker is not _rename
    return None if maker is None or internal else maker(entry)


def view_act(entry: Entry) -> Incident | None:
    """What the removal or the change of a view means; the server removes that of a time-series collection before it
    drops the buckets, and lists the change of one with them."""
    if entry.id_at is None:
        return None
    ns = walk.text(entry.raw, entry.id_at)
    if entry.op == "u":
        buckets = entry.text_in(entry.o_at, b"viewOn").startswith("system.buckets.")
        title = f"collMod on view {clean_name(ns, 255)}"
        return None if buckets else row_of(entry, "collMod", Harm.DEFINITION, title, ns)
    return row_of(entry, "drop", Harm.DEFINITION, f"drop view {clean_name(ns, 255)}", ns)


def holds_views(ns: str) -> bool:
    """Whether a namespace holds the definitions of views, of which each time-series collection is one."""
    return _collection(ns) == "system.views"


def _collection(ns: str) -> str:
    return ns.partition(".")[2]


def _drop(entry: Entry) -> Incident:
    ns = entry.target
    return row_of(entry, "drop", Harm.LOSS, f"drop {shown(ns)}", ns, entry.records, note_on(ns))


def _rename(entry: Entry) -> Incident:
    source, to = entry.target, result_of(entry)
    drops = entry.drops_target
    harm = Harm.LOSS if drops else Harm.DEFINITION
    records = entry.records if drops else None
    name = clean_name(to, 255)
    made = _TEMPORARY.match(_collection(source))
    made_by = made.lastgroup if made else None
    if made_by == "out":
        title = f"$out replaced {name}" if drops else f"$out made {name}"
        return row_of(entry, "out", harm, title, to, records, note="or mapReduce")
    if made_by == "capped":
        return row_of(entry, "convertToCapped", harm, f"convertToCapped {name}", to, records)
    if made_by == "across":
        return row_of(entry, "rename", harm, f"rename to {name} from another database", to, records)
    title = f"rename {clean_name(source, 255)} to {name}" + (", dropping it" if drops else "")
    return row_of(entry, "rename", harm, title, source, records)


_EXPIRY = "The server deletes what is older, once a minute unless ttlMonitorSleepSecs says otherwise."


def _coll_mod(entry: Entry) -> Incident | None:
    ns = entry.target
    bare = sum(1 for _ in entry.fields(entry.o_at)) < 2
    if bare and _collection(ns).startswith("system.buckets."):
        return None
    title, note = f"collMod on {shown(ns)}", ""
    for spec in entry.index_specs():
        seconds = entry.number_in(spec, b"expireAfterSeconds")
        if seconds is not None:
            title, note = f"{title}, documents expire after {seconds:,} s", _EXPIRY
    return row_of(entry, "collMod", Harm.DEFINITION, title, ns, note=note)


def _drop_indexes(entry: Entry) -> Incident:
    ns = entry.target
    name = clean_name(entry.text_in(entry.o_at, b"index"), 120)
    return row_of(entry, "dropIndexes", Harm.DEFINITION, f"dropIndexes {name} on {clean_name(ns, 255)}", ns)


def _emptied(entry: Entry) -> Incident:
    ns = entry.target
    return row_of(entry, entry.command, Harm.LOSS, f"{entry.command} {clean_name(ns, 255)}", ns)


def _truncated(entry: Entry) -> Incident | None:
    """A command of 8.3 and later that removes many documents of a collection at once, by record id."""
    ns = entry.target
    if "system.change_collection" in ns or "system.preimages" in ns:
        return None
    removed = entry.number_in(entry.o_at, b"docsDeleted")
    return row_of(entry, "truncateRange", Harm.LOSS, f"truncateRange on {clean_name(ns, 255)}", ns, removed)


def _indexes_made(entry: Entry) -> Incident | None:
    """Only a TTL index counts; others do no harm."""
    ns = entry.target
    for spec in entry.index_specs():
        seconds = entry.number_in(spec, b"expireAfterSeconds")
        if seconds is None:
            continue
        name = clean_name(entry.text_in(spec, b"name"), 120)
        title = f"TTL index {name} on {clean_name(ns, 255)}, documents expire after {seconds:,} s"
        return row_of(entry, "createIndexes", Harm.DEFINITION, title, ns, note=_EXPIRY)
    return None


_SHARDING = (
    b"shardCollection",
    b"reshardCollection",
    b"refineCollectionShardKey",
    b"movePrimary",
    b"unshardCollection",
)


def noop_act(entry: Entry) -> Incident | None:
    """A sharding command: a shard notes it as a no-op, with the command in the same entry."""
    for name in _SHARDING:
        found = entry.within(entry.o2_at, name)
        if found is not None:
            command, ns = name.decode(), walk.text(entry.raw, found) or entry.ns
            return row_of(entry, "sharding", Harm.DEFINITION, f"{command} {clean_name(ns, 255)}", ns)
    return None


_COMMANDS: dict[str, Callable[[Entry], Incident | None]] = {
    "drop": _drop,
    "renameCollection": _rename,
    "collMod": _coll_mod,
    "dropIndexes": _drop_indexes,
    "dropIndex": _drop_indexes,
    "deleteIndexes": _drop_indexes,
    "deleteIndex": _drop_indexes,
    "emptycapped": _emptied,
    "convertToCapped": _emptied,
    "truncateRange": _truncated,
    "createIndexes": _indexes_made,
    "commitIndexBuild": _indexes_made,
}


def system_act(entry: Entry) -> Incident | None:
    """What a change of users, roles or the compatibility version means; None for any other document there."""
    if entry.ns == VERSION:
        return _fcv_act(entry)
    found = entry.id_at
    if found is None:
        return None
    verb = {"i": "created", "u": "changed", "d": "removed"}.get(entry.op, entry.op)
    what = "user" if entry.ns == USERS else "role"
    name = json.id_text(entry.raw, found, 120)
    return row_of(entry, "users", Harm.DEFINITION, f"{what} {name} {verb}", entry.ns, documents=1)


def _fcv_act(entry: Entry) -> Incident | None:
    found = entry.id_at
    if entry.op != "u" or found is None or walk.text(entry.raw, found) != _FCV:
        return None
    target = entry.within(entry.o_at, b"targetVersion")
    version = target or entry.within(entry.o_at, b"version")
    if version is None:
        return None
    title = f"setFCV {clean(walk.text(entry.raw, version), 20)}"
    # It is open until its last step, which has no target any more.
    return replace(row_of(entry, "setFCV", Harm.DEFINITION, title, entry.ns), open=target is not None)
