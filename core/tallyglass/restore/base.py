"""Read the backup's documents once: is every file whole, how many documents will there be, is anything missing?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallyglass.moment import Ts
from tallyglass.oplog.walk import Malformed
from tallyglass.restore.backup import LEFT_OUT, StoredCollection
from tallyglass.restore.bson_file import BrokenFile, documents, id_key
from tallyglass.restore.catalog import Catalog, Collection
from tallyglass.text import clean_name

MOST_BYTES = 64 * 2**30
"""Bytes of backup files that are read; what lies beyond is not looked at, and a check says so."""


@dataclass(slots=True)
class BaseFacts:
    """``documents`` per stored namespace at the point; None where it is not computed. ``missing`` counts documents that
    the oplog updates and that are neither in the backup nor inserted, by namespace. ``dead_updates`` are the updates
    among them that a later delete makes pointless, as timestamps; ``fatal`` those that cannot be left out."""

    documents: dict[str, int | None] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)
    dead_updates: list[Ts] = field(default_factory=list)
    fatal: int = 0
    unread_bytes: int = 0


def read_base(stored: Mapping[str, StoredCollection], catalog: Catalog, most_bytes: int = MOST_BYTES) -> BaseFacts:
    """Walk every file of the backup that the replay builds on. May take long: run it in a thread."""
    facts = BaseFacts()
    by_base = {id(item.base): (ns, item) for ns, item in catalog.collections.items() if item.base is not None}
    left = most_bytes
    for source in stored.values():
        ns, item = by_base.get(id(source), (source.stored_as, None))
        if source.data is None:
            if item is not None:
                facts.documents[ns] = None
            continue
        size = source.data.stat().st_size
        if size > left:
            facts.unread_bytes += size
            facts.documents[ns] = None
            continue
        left -= size
        _read_one(source, ns, item, facts)
    for ns, item in catalog.collections.items():
        if item.base is None:
            facts.documents[ns] = None if item.touched is None else sum(item.touched.values())
            _judge(ns, item, set(), facts)
    return facts


def _read_one(source: StoredCollection, ns: str, item: Collection | None, facts: BaseFacts) -> None:
    assert source.data is not None
    touched = item.touched if item is not None else None
    total, present = 0, set()
    try:
        for raw in documents(source.data):
            total += 1
            if touched:
                key = id_key(raw)
                if key in touched:
                    present.add(key)
    except (BrokenFile, Malformed) as error:
        facts.problems.append(f"{clean_name(source.ns)}: {error}")
        return
    if item is None:
        return
    if touched is None:
        facts.documents[ns] = None
        return
    _judge(ns, item, present, facts)
    facts.documents[ns] = total - len(present) + sum(touched.values())


def _judge(ns: str, item: Collection, present: set[bytes], facts: BaseFacts) -> None:
    """Updates of documents that are not there: harmless where a delete follows, else the backup lacks them."""
    if ns.partition(".")[0] in LEFT_OUT:
        return  # no replay sees them: an update of a user is no lack of the backup
    for key, places in item.unborn.items():
        if key in present:
            continue
        if item.touched is not None and item.touched.get(key):
            facts.missing[ns] = facts.missing.get(ns, 0) + 1
        elif 0 in places:
            facts.fatal += 1
        else:
            facts.dead_updates += [Ts(place >> 32, place & 0xFFFFFFFF) for place in places]
