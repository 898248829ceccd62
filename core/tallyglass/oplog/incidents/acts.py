"""What one entry means for the list of incidents: a drop, a rename, a new user, or nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from tallyglass.moment import Ts
from tallyglass.oplog.decode import render, walk
from tallyglass.oplog.decode.describe import drops_target
from tallyglass.oplog.decode.head import Head, command_of, target_of
from tallyglass.oplog.decode.walk import Element
from tallyglass.oplog.incidents.run import GAP_MILLIS, Run
from tallyglass.oplog.snapshot import Harm
from tallyglass.text import clean, clean_name

USERS, ROLES, VERSION = "admin.system.users", "admin.system.roles", "admin.system.version"
SYSTEM = frozenset({USERS, ROLES, VERSION})
"""Collections in which every change is an incident."""

INTERNAL = ("config.", "local.", "admin.system.")
"""Namespaces that the server itself deletes from and updates."""

DEFINITIONS_LIMIT = 20_000

_FCV = "featureCompatibilityVersion"
_FCV_MILLIS = 600_000
_OUT = re.compile(r"tmp\.(agg_out|mr)\.")
_CONVERT = re.compile(r"tmp[A-Za-z0-9]{5}\.convertToCapped\.")
_ACROSS = re.compile(r"tmp[A-Za-z0-9]{5}\.renameCollection\Z")
_TEMPORARY = re.compile(
    r"tmp\.(agg_out|mr)\.|tmp[A-Za-z0-9]{5}\.(convertToCapped\.|renameCollection\Z|rename\Z)|system\.(drop|resharding)\."
)


@dataclass(slots=True)
class Act:
    """One entry's meaning. Acts with the same ``key`` within ``reach`` milliseconds are one incident; an act with
    ``ends`` closes it."""

    kind: str
    harm: Harm
    title: str
    ns: str
    documents: int | None = None
    key: tuple[str, ...] = ()
    reach: int = GAP_MILLIS
    ends: bool = False
    note: str = ""

    def run(self, head: Head) -> Run:
        """An empty run that begins and ends at this entry."""
        wall = head.wall_millis
        return Run(self.kind, self.ns, self.harm, self.title, head.ts, head.ts, wall, wall, note=self.note)


def is_temporary(ns: str) -> bool:
    """Whether a namespace holds the server's intermediate results: writes to it do no harm."""
    return _TEMPORARY.match(_collection(ns)) is not None


def result_of(head: Head) -> str:
    """The namespace that a command leaves: the new name of a renamed collection."""
    found = head.within(head.o, b"to")
    return walk.text(head.raw, found) if found is not None else target_of(head)


def command_act(head: Head) -> Act | None:
    """What a command means; None if it does no harm."""
    first = command_of(head)
    maker = _COMMANDS.get(first.name) if first is not None else None
    return maker(head) if maker is not None else None


def _collection(ns: str) -> str:
    return ns.partition(".")[2]


def _records(head: Head) -> int | None:
    return _number(head, head.o2, b"numRecords")


def _number(head: Head, holder: Element | None, name: bytes) -> int | None:
    found = head.within(holder, name)
    return walk.whole_number(head.raw, found) if found is not None else None


def _drop(head: Head) -> Act | None:
    ns = target_of(head)
    if _TEMPORARY.match(_collection(ns)) or ns.startswith(INTERNAL):
        return None
    return Act("drop", Harm.LOSS, f"drop {clean_name(ns, 255)}", ns, _records(head))


def _rename(head: Head) -> Act:
    source, to = target_of(head), result_of(head)
    drops = drops_target(head)
    harm = Harm.LOSS if drops else Harm.DEFINITION
    records = _records(head) if drops else None
    shown = clean_name(to, 255)
    if _OUT.match(_collection(source)):
        title = f"$out replaced {shown}" if drops else f"$out made {shown}"
        return Act("out", harm, title, to, records, note="or mapReduce")
    if _CONVERT.match(_collection(source)):
        return Act("convertToCapped", harm, f"convertToCapped {shown}", to, records)
    if _ACROSS.match(_collection(source)):
        return Act("rename", harm, f"rename to {shown} from another database", to, records)
    title = f"rename {clean_name(source, 255)} to {shown}" + (", dropping it" if drops else "")
    return Act("rename", harm, title, source, records)


_EXPIRY = "The server deletes what is older, once a minute."


def _coll_mod(head: Head) -> Act | None:
    ns = target_of(head)
    bare = sum(1 for _ in head.fields(head.o)) < 2
    if ns.startswith(INTERNAL) or (bare and _collection(ns).startswith("system.buckets.")):
        return None
    title, note = f"collMod on {clean_name(ns, 255)}", ""
    for spec in (head.o, head.within(head.o, b"index")):
        seconds = _number(head, spec, b"expireAfterSeconds")
        if seconds is not None:
            title, note = f"{title}, documents expire after {seconds:,} s", _EXPIRY
    return Act("collMod", Harm.DEFINITION, title, ns, note=note)


def _drop_indexes(head: Head) -> Act | None:
    ns = target_of(head)
    if ns.startswith(INTERNAL):
        return None
    found = head.within(head.o, b"index")
    name = clean_name(walk.text(head.raw, found), 120) if found is not None else ""
    return Act("dropIndexes", Harm.DEFINITION, f"dropIndexes {name} on {clean_name(ns, 255)}", ns)


def _emptied(head: Head) -> Act:
    ns = target_of(head)
    return Act("emptycapped", Harm.LOSS, f"emptycapped {clean_name(ns, 255)}", ns)


def _converted(head: Head) -> Act:
    ns = target_of(head)
    return Act("convertToCapped", Harm.LOSS, f"convertToCapped {clean_name(ns, 255)}", ns)


def _truncated(head: Head) -> Act | None:
    """A command of 8.3 and later that removes many documents of a collection at once, by record id."""
    ns = target_of(head)
    command = command_of(head)
    word = walk.text(head.raw, command) if command is not None else ""
    ns = word if word.startswith(f"{head.db}.") else ns
    if ns.startswith(INTERNAL) or "system.change_collection" in ns or "system.preimages" in ns:
        return None
    return Act(
        "truncateRange", Harm.LOSS, f"truncateRange on {clean_name(ns, 255)}", ns, _number(head, head.o, b"docsDeleted")
    )


def _indexes_made(head: Head) -> Act | None:
    """Only a TTL index counts; others do no harm."""
    ns = target_of(head)
    if ns.startswith(INTERNAL):
        return None
    for spec in (head.o, *head.fields(head.within(head.o, b"indexes"))):
        seconds = _number(head, spec, b"expireAfterSeconds")
        if seconds is None:
            continue
        found = head.within(spec, b"name")
        name = clean_name(walk.text(head.raw, found), 120) if found is not None else ""
        title = f"TTL index {name} on {clean_name(ns, 255)}, documents expire after {seconds:,} s"
        return Act("createIndexes", Harm.DEFINITION, title, ns, note=_EXPIRY)
    return None


_SHARDING = (
    b"shardCollection",
    b"reshardCollection",
    b"refineCollectionShardKey",
    b"movePrimary",
    b"unshardCollection",
)


def noop_act(head: Head) -> Act | None:
    """A sharding command: a shard notes it as a no-op, with the command in the same entry."""
    for name in _SHARDING:
        found = head.within(head.o2, name)
        if found is not None:
            command, ns = name.decode(), walk.text(head.raw, found) or head.ns
            return Act("sharding", Harm.DEFINITION, f"{command} {clean_name(ns, 255)}", ns)
    return None


_COMMANDS: dict[bytes, Callable[[Head], Act | None]] = {
    b"drop": _drop,
    b"renameCollection": _rename,
    b"collMod": _coll_mod,
    b"dropIndexes": _drop_indexes,
    b"dropIndex": _drop_indexes,
    b"deleteIndexes": _drop_indexes,
    b"deleteIndex": _drop_indexes,
    b"emptycapped": _emptied,
    b"convertToCapped": _converted,
    b"truncateRange": _truncated,
    b"createIndexes": _indexes_made,
    b"commitIndexBuild": _indexes_made,
}


def system_act(head: Head) -> Act | None:
    """What a change of users, roles or the compatibility version means; None for any other document there."""
    if head.ns == VERSION:
        return _fcv_act(head)
    found = head.document_id
    if found is None:
        return None
    verb = {"i": "created", "u": "changed", "d": "removed"}.get(head.op, head.op)
    what = "user" if head.ns == USERS else "role"
    name = render.id_text(head.raw, found, 120)
    return Act("users", Harm.DEFINITION, f"{what} {name} {verb}", head.ns, documents=1)


def _fcv_act(head: Head) -> Act | None:
    found = head.document_id
    if head.op != "u" or found is None or walk.text(head.raw, found) != _FCV:
        return None
    target = head.within(head.o, b"targetVersion")
    version = target or head.within(head.o, b"version")
    if version is None:
        return None
    title = f"setFCV {clean(walk.text(head.raw, version), 20)}"
    return Act("setFCV", Harm.DEFINITION, title, head.ns, key=("setFCV",), reach=_FCV_MILLIS, ends=target is None)


@dataclass(slots=True)
class CollectionDefinitions:
    """Which collections have a TTL or are capped, and since when, as far as the oplog shows.

    Today's definition may not have applied when an entry was written: ``since`` is the newest ``ts`` at which a
    collection was created, renamed into place, or given a TTL index. Clustered and time-series collections have
    ``expireAfterSeconds`` themselves, without an index.
    """

    ttl: set[str] = field(default_factory=set)
    capped: set[str] = field(default_factory=set)
    since: dict[str, Ts] = field(default_factory=dict)

    def learn(self, head: Head) -> None:
        """Note what a command defines."""
        first = command_of(head)
        if first is None or len(self.since) >= DEFINITIONS_LIMIT:
            return
        ns = target_of(head)
        if first.name == b"create":
            if head.flag(b"capped"):
                self.capped.add(ns)
            if _expires(head, head.o):
                self.ttl.add(ns)
        elif first.name == b"renameCollection":
            to = head.within(head.o, b"to")
            ns = walk.text(head.raw, to) if to is not None else ns
        elif first.name in (b"createIndexes", b"commitIndexBuild", b"collMod"):
            specs = [head.o, head.within(head.o, b"index"), *head.fields(head.within(head.o, b"indexes"))]
            if not any(_expires(head, spec) for spec in specs):
                return
            self.ttl.add(ns)
        else:
            return
        self.since[ns] = max(self.since.get(ns, head.ts), head.ts)

    def held(self, ns: str, names: set[str], ts: Ts) -> bool:
        """Whether ``ns`` is one of ``names``, and already was at ``ts`` as far as is known."""
        return ns in names and self.since.get(ns, ts) <= ts


def _expires(head: Head, spec: Element | None) -> bool:
    """Whether an index or a collection lets documents expire; ``"off"`` means that it no longer does."""
    found = head.within(spec, b"expireAfterSeconds")
    return found is not None and found.type != walk.STRING
