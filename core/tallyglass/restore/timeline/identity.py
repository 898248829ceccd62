"""Whether the backup is from this set, since its last initiation, and from one moment: by collection UUIDs and oplog
entries.

Each collection of the backup must be live, or the oplog must contain its drop after the replay begins; otherwise the
file is from an older dump or another set. The backup's own oplog must be part of the set's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.read.entries import edge, stamp
from tallyglass.restore.backup.backup import LEFT_OUT, Anchor, StoredCollection
from tallyglass.restore.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class LiveCollections:
    """What is live in some databases: collections by UUID, the names of all, and of these the ``views``, time-series
    collections among them. ``unlisted`` are databases that may not be listed, ``unknown`` these and those whose UUIDs
    are not shown."""

    uuids: Mapping[bytes, str]
    views: frozenset[str]
    unknown: frozenset[str]
    names: frozenset[str] = frozenset()
    unlisted: frozenset[str] = frozenset()


async def list_live(gateway: Gateway, databases: Iterable[str]) -> LiveCollections:
    """List these databases; one that this user may not read, or whose name the driver refuses, is unlisted."""
    listed: list[CollectionInfo] = []
    unlisted: set[str] = set()
    for db in sorted(databases):
        try:
            listed += await gateway.list_collections(db)
        except (PrivilegeError, ReadError):
            unlisted.add(db)
    return LiveCollections(
        {info.uuid: str(info.ns) for info in listed if info.uuid},
        frozenset(str(info.ns) for info in listed if info.kind != "collection"),
        frozenset(unlisted).union(info.ns.db for info in listed if info.kind == "collection" and not info.uuid),
        frozenset(str(info.ns) for info in listed),
        frozenset(unlisted),
    )


def stale(stored: Mapping[str, StoredCollection], live: LiveCollections, timeline: Timeline) -> tuple[str, ...]:
    """The collections and views of the backup that were dropped or renamed before the replay begins."""
    held = Counter(item.uuid_bytes for item in stored.values() if item.uuid_bytes)
    return tuple(
        ns
        for ns, item in sorted(stored.items())
        if ns.partition(".")[0] not in LEFT_OUT | live.unknown
        and (held[item.uuid_bytes] > 1 or not _is_explained(ns, item, live, timeline))
    )


def _is_explained(ns: str, item: StoredCollection, live: LiveCollections, timeline: Timeline) -> bool:
    """A name that was never the collection's is that of a folder or a file which somebody renamed."""
    if item.kind == "collection" and item.uuid_bytes:
        uuid = item.uuid_bytes
        if uuid in timeline.renamed:
            return uuid in timeline.dropped or uuid in live.uuids
        return ns in (live.uuids.get(uuid), timeline.dropped_as.get(uuid))
    removed = timeline.views_removed
    is_view = ns in live.views or ns in removed
    if item.kind == "collection":
        return not is_view  # else the documents that the view showed
    return is_view or f"{ns.partition('.')[0]}." in removed


async def foreign_anchor(gateway: Gateway, anchors: tuple[Anchor, ...], oldest: Ts) -> str:
    """Why the backup does not belong to this oplog: one of its positions that the oplog should hold and does not. Empty
    if all are found."""
    for anchor in anchors:
        if anchor.ts < oldest:
            continue
        found = await edge(gateway, 1, {"ts": stamp(anchor.ts)})
        if found is None:
            return f"the oplog has no entry {anchor.ts}, which the backup names"
        if anchor.term is not None and found.term != anchor.term:
            return f"the entry {anchor.ts} is of term {found.term}, in the backup of term {anchor.term}"
        if anchor.entry and not is_same_entry(found, read_entry(anchor.entry)):
            return f"the entry {anchor.ts} is another one than in the backup"
    return ""


def is_same_entry(one: Entry, other: Entry) -> bool:
    """Whether two entries with the same timestamp are the same entry."""
    return (one.term, one.op, one.ns, one.ui, one.o_raw) == (other.term, other.op, other.ns, other.ui, other.o_raw)
