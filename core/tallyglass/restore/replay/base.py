"""Read the backup's documents once: is every file whole, how many documents will there be, is anything missing?"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tallyglass.moment import Ts
from tallyglass.oplog.decode.walk import Malformed
from tallyglass.restore.backup.archive import documents as archive_documents
from tallyglass.restore.backup.backup import LEFT_OUT, StoredCollection
from tallyglass.restore.backup.bson_file import BrokenFile, documents, id_key
from tallyglass.restore.replay.catalog import Catalog, Collection
from tallyglass.text import clean_name

_DOUBLE, _INT32, _INT64 = b"\x01", b"\x10", b"\x12"

MOST_BYTES = 64 * 2**30
"""Bytes of backup files that are read; what lies beyond is not looked at, and a check says so."""


@dataclass(slots=True)
class BaseFacts:
    """``documents`` per stored namespace at the point; None where it is not computed. ``largest`` is the largest whole
    number that is an ``_id`` then; without an entry where that is not known. ``missing`` counts documents that
    the oplog updates and that are neither in the backup nor inserted, by namespace. ``dead_updates`` are the updates
    among them that a later delete makes pointless, as timestamps; ``fatal`` those that cannot be left out."""

    documents: dict[str, int | None] = field(default_factory=dict)
    largest: dict[str, int | None] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)
    dead_updates: list[Ts] = field(default_factory=list)
    fatal: int = 0
    unread_bytes: int = 0


def read_base(
    stored: Mapping[str, StoredCollection], catalog: Catalog, archive: Path | None = None, most_bytes: int = MOST_BYTES
) -> BaseFacts:
    """Walk every file of the backup that the replay builds on, or the ``archive``. Takes long: run it in a thread."""
    facts = BaseFacts()
    by_base = {id(item.base): (ns, item) for ns, item in catalog.collections.items() if item.base is not None}
    counts = [_Count(source, *by_base.get(id(source), (source.stored_as, None))) for source in stored.values()]
    if archive is not None:
        _read_archive(archive, counts, facts, most_bytes)
    else:
        _read_files(counts, facts, most_bytes)
    for ns, item in catalog.collections.items():
        if item.base is None:
            facts.documents[ns] = None if item.touched is None else sum(item.touched.values())
            _judge(ns, item, set(), facts)
            facts.largest[ns] = _largest(item, None)
    return facts


class _Count:
    """One collection of the backup while its documents are read, and what the replay makes of it."""

    def __init__(self, source: StoredCollection, ns: str, item: Collection | None) -> None:
        self.source, self.ns, self.item = source, ns, item
        self._touched = item.touched or {} if item is not None else {}
        self._total = 0
        self._present: set[bytes] = set()
        self._largest: int | None = None

    def add(self, raw: bytes) -> None:
        """Take one document. Raises Malformed."""
        self._total += 1
        key = id_key(raw)
        if key in self._touched:
            self._present.add(key)
        elif (number := whole_number(key)) is not None and (self._largest is None or number > self._largest):
            self._largest = number

    def finish(self, facts: BaseFacts) -> None:
        """All its documents were read."""
        if self.item is None:
            return
        if self.item.touched is None:
            facts.documents[self.ns] = None
            return
        _judge(self.ns, self.item, self._present, facts)
        facts.documents[self.ns] = self._total - len(self._present) + sum(self._touched.values())
        facts.largest[self.ns] = _largest(self.item, self._largest)

    def skip(self, facts: BaseFacts) -> None:
        """Its documents cannot be read, or are not."""
        if self.item is not None:
            facts.documents[self.ns] = None


def _read_files(counts: Sequence[_Count], facts: BaseFacts, left: int) -> None:
    for count in counts:
        data = count.source.data
        size = data.stat().st_size if data is not None else 0
        if data is None or size > left:
            facts.unread_bytes += size
            count.skip(facts)
            continue
        left -= size
        try:
            for raw in documents(data):
                count.add(raw)
        except (BrokenFile, Malformed) as error:
            facts.problems.append(f"{clean_name(count.source.ns)}: {error}")
        else:
            count.finish(facts)


def _read_archive(path: Path, counts: Sequence[_Count], facts: BaseFacts, left: int) -> None:
    size = path.stat().st_size
    if size > left:
        facts.unread_bytes += size
        for count in counts:
            count.skip(facts)
        return
    by_name = {name: count for count in counts for name in (count.source.ns, count.source.stored_as)}
    try:
        for ns, raw in archive_documents(path):
            if ns in by_name:
                by_name[ns].add(raw)
    except (BrokenFile, Malformed) as error:
        facts.problems.append(str(error))
        return
    for count in counts:
        count.finish(facts)


def whole_number(key: bytes) -> int | None:
    """The number of an ``_id`` as comparable bytes, if it is a whole one."""
    if key[:1] in (_INT32, _INT64):
        return int.from_bytes(key[1:], "little", signed=True)
    if key[:1] == _DOUBLE:
        (number,) = struct.unpack("<d", key[1:])
        return int(number) if float(number).is_integer() else None
    return None


def _largest(item: Collection, untouched: int | None) -> int | None:
    """The largest whole ``_id`` at the point, None where there is none."""
    numbers = [whole_number(key) for key, there in (item.touched or {}).items() if there]
    return max((number for number in (*numbers, untouched) if number is not None), default=None)


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
