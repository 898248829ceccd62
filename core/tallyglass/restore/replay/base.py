"""Read the backup's documents once: is every file whole, how many documents will there be, is anything missing?"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.decode.walk import Malformed
from tallyglass.restore.backup.archive import documents as archive_documents
from tallyglass.restore.backup.backup import LEFT_OUT, StoredCollection
from tallyglass.restore.backup.bson_file import BrokenFile, documents, id_key
from tallyglass.restore.replay.catalog import Catalog, Collection
from tallyglass.restore.replay.earlier_writes import EarlierWrites
from tallyglass.restore.replay.later_writes import CollectionWrites, LaterWrites
from tallyglass.restore.replay.lifetimes import Lifetimes
from tallyglass.restore.replay.stated_counts import Miscount, StatedCount
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
    miscounts: list[Miscount] = field(default_factory=list)
    """Counts that the oplog states and that backup and oplog do not give."""
    unlike_earlier: dict[str, int] = field(default_factory=dict)
    """Documents that are not as the entries before the start left them, by namespace."""
    unlike_later: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Documents that the entries after the point show to be missing, and to be too many, by namespace."""


@dataclass(frozen=True, slots=True)
class OplogEvidence:
    """What the oplog says of the data beside the window itself: before it and after it."""

    earlier: EarlierWrites
    later: LaterWrites


def read_base(
    stored: Mapping[str, StoredCollection],
    catalog: Catalog,
    archive: Path | None = None,
    most_bytes: int = MOST_BYTES,
    evidence: OplogEvidence | None = None,
) -> BaseFacts:
    """Walk every file of the backup that the replay builds on, or the ``archive``, and hold it against the evidence.

    Takes long: run it in a thread.
    """
    facts = BaseFacts()
    evidence = evidence or OplogEvidence(EarlierWrites(()), LaterWrites(Lifetimes(), ZERO))
    by_base = {id(item.base): ("", item) for item in catalog.removed if item.base is not None}
    by_base |= {id(item.base): (ns, item) for ns, item in catalog.collections.items() if item.base is not None}
    counts = []
    for source in stored.values():
        ns, item = by_base.get(id(source), ("", None))
        counts.append(_Count(source, ns, item, evidence))
    if archive is not None:
        _read_archive(archive, counts, facts, most_bytes)
    else:
        _read_files(counts, facts, most_bytes)
    _count_created(catalog, evidence.later, facts)
    return facts


def _count_created(catalog: Catalog, later: LaterWrites, facts: BaseFacts) -> None:
    """The collections that are not in the backup: the replay makes them, and all that is in them."""
    for ns, made in catalog.collections.items():
        if made.base is not None:
            continue
        facts.documents[ns] = documents = None if made.touched is None else sum(made.touched.values())
        _find_missing(ns, made, set(), facts)
        facts.largest[ns] = _largest(made, None)
        if documents is not None:
            _compare_later(ns, made, later.of(made.uuid), set(), documents, facts)
    for made in catalog.removed:
        if made.base is None and made.touched is not None:
            _compare_count(made.stated, sum(made.touched.values()), facts)


class _Count:
    """One collection of the backup while its documents are read, and what the replay makes of it.

    ``ns`` is its stored namespace at the point; empty where it is gone by then.
    """

    def __init__(self, source: StoredCollection, ns: str, item: Collection | None, evidence: OplogEvidence) -> None:
        self.source, self.ns, self.item = source, ns, item
        uuid = item.uuid if item is not None else b""
        self._touched = item.touched or {} if item is not None else {}
        self._earlier = evidence.earlier.by_uuid.get(uuid, {}) if item is not None and item.touched is not None else {}
        self._later = evidence.later.of(uuid) if ns else None
        self._total = 0
        self._present: set[bytes] = set()
        self._present_later: set[bytes] = set()
        self._earlier_seen: set[bytes] = set()
        self._unlike = 0
        self._largest: int | None = None

    def add(self, raw: bytes) -> None:
        """Take one document. Raises Malformed."""
        self._total += 1
        key = id_key(raw)
        if key in self._touched:
            self._present.add(key)
            return
        if (number := whole_number(key)) is not None and (self._largest is None or number > self._largest):
            self._largest = number
        if self._later is not None and key in self._later.first:
            self._present_later.add(key)
        expected = self._earlier.get(key)
        if expected is not None:
            self._earlier_seen.add(key)
            self._unlike += not expected.allows(raw)

    def finish(self, facts: BaseFacts) -> None:
        """All its documents were read."""
        item = self.item
        if item is None:
            return
        if item.touched is None:
            if self.ns:
                facts.documents[self.ns] = None
            return
        documents = self._total - len(self._present) + sum(self._touched.values())
        self._compare_earlier(facts)
        if not self.ns:
            _compare_count(item.stated, documents, facts)
            return
        _find_missing(self.ns, item, self._present, facts)
        facts.documents[self.ns] = documents
        facts.largest[self.ns] = _largest(item, self._largest)
        _compare_later(self.ns, item, self._later, self._present_later, documents, facts)

    def skip(self, facts: BaseFacts) -> None:
        """Its documents cannot be read, or are not."""
        if self.ns:
            facts.documents[self.ns] = None

    def _compare_earlier(self, facts: BaseFacts) -> None:
        missing = sum(
            not expected.absent
            for key, expected in self._earlier.items()
            if key not in self._earlier_seen and key not in self._touched
        )
        if self._unlike or missing:
            facts.unlike_earlier[self.source.ns] = self._unlike + missing


def _compare_later(
    ns: str, item: Collection, later: CollectionWrites | None, present: Set[bytes], documents: int, facts: BaseFacts
) -> None:
    """Hold the state at the point against what the entries after it say of it. ``present`` are the ids among theirs
    that the backup holds and the window does not touch."""
    if later is None or not later.complete or ns.partition(".")[0] in LEFT_OUT:
        return
    touched = item.touched or {}
    there = {key: touched.get(key, key in present) for key in later.first}
    missing = sum(existed and not there[key] for key, existed in later.first.items())
    surplus = sum(there[key] and not existed for key, existed in later.first.items())
    if missing or surplus:
        facts.unlike_later[ns] = (missing, surplus)
    _compare_count(later.dropped, documents - sum(there.values()) + sum(later.now.values()), facts)


def _compare_count(stated: StatedCount | None, computed: int, facts: BaseFacts) -> None:
    if stated is not None and stated.documents != computed:
        facts.miscounts.append(Miscount(stated, computed))


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


def _find_missing(ns: str, item: Collection, present: set[bytes], facts: BaseFacts) -> None:
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
