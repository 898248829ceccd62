"""Read the backup's documents once: check that every file is complete, count the documents, find missing ones."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tallyglass.moment import Ts
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.restore.backup.archive import documents as archive_documents
from tallyglass.restore.backup.backup import LEFT_OUT, StoredCollection
from tallyglass.restore.backup.bson_file import BrokenFile, documents, id_key
from tallyglass.restore.model.indexes import index_names
from tallyglass.restore.proof.catalog import Catalog, Collection
from tallyglass.restore.proof.id_states import AT_ONCE, EXISTED, EXISTS, INSERTED, UPDATE_ONLY, IdStates
from tallyglass.restore.proof.later_writes import LaterWrites
from tallyglass.restore.timeline.earlier_writes import EarlierWrites
from tallyglass.restore.timeline.timeline import VIEWS, Removal
from tallyglass.restore.undo.counterfactual import LARGE
from tallyglass.text import clean_name

_NONE: Mapping[bytes, int] = {}
_DOUBLE, _INT32, _INT64 = b"\x01", b"\x10", b"\x12"

MOST_BYTES = 64 * 2**30
"""The most bytes of backup files that are read; a check reports what was not read."""


class CountMismatch(NamedTuple):
    """A count ``stated`` in the oplog, by the removal of a collection, that differs from what backup and oplog give."""

    ns: str
    ts: Ts
    stated: int
    computed: int


@dataclass(slots=True)
class BaseFacts:
    """``documents`` per stored namespace at the point; None if not computed. ``largest`` is the largest integer ``_id``
    at that time; it has no entry if unknown. ``missing`` counts documents that the oplog updates and that are neither
    in the backup nor inserted, by namespace. ``dead_updates`` are the updates among them that a later delete makes
    pointless, as timestamps; ``fatal`` those that cannot be left out."""

    documents: dict[str, int | None] = field(default_factory=dict)
    largest: dict[str, int | None] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    missing: dict[str, int] = field(default_factory=dict)
    dead_updates: list[Ts] = field(default_factory=list)
    fatal: int = 0
    unread_bytes: int = 0
    count_mismatches: list[CountMismatch] = field(default_factory=list)
    unlike_earlier: dict[str, int] = field(default_factory=dict)
    """Documents that differ from what the entries before the start left, by namespace."""
    indexes_unlike_earlier: dict[str, list[str]] = field(default_factory=dict)
    """Indexes that the backup lacks or has against the last command about them before the start, by namespace."""
    unlike_later: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Missing documents and surplus documents, as the entries after the point show, by namespace."""
    again: dict[str, int] = field(default_factory=dict)
    """Documents of the point that were removed since and whose ``_id`` was inserted again, by namespace."""
    large: dict[str, int] = field(default_factory=dict)
    """Documents of more than :data:`LARGE` in the backup, by namespace at the point."""


def read_base(
    stored: Mapping[str, StoredCollection],
    catalog: Catalog,
    archive: Path | None = None,
    most_bytes: int = MOST_BYTES,
    *,
    earlier: EarlierWrites | None = None,
    later: LaterWrites | None = None,
    live: Mapping[bytes, str] | None = None,
) -> BaseFacts:
    """Walk every file of the backup that the replay builds on, or the ``archive``, and compare it with what the oplog
    shows before and after the window. ``live`` are the names of the live collections by UUID.

    Slow: run it in a thread.
    """
    facts = BaseFacts()
    catalog.ids.end()
    earlier, later = earlier or EarlierWrites(()), later or LaterWrites()
    later.ids.end()
    by_base = {id(item.base): ("", item) for item in catalog.removed if item.base is not None}
    by_base |= {id(item.base): (ns, item) for ns, item in catalog.collections.items() if item.base is not None}
    uuids = {ns: uuid for uuid, ns in (live or {}).items()}
    counts = []
    for source in stored.values():
        ns, item = by_base.get(id(source), ("", None))
        counts.append(_Count(source, ns, item, earlier, later, uuids.get(ns, b"")))
    made = [("", item) for item in catalog.removed] + list(catalog.collections.items())
    for ns, item in made:
        if item.base is None:  # the replay creates it and everything in it
            source = StoredCollection(ns, item.kind, None, item.options, ())
            _Count(source, ns, item, EarlierWrites(()), later, uuids.get(ns, b"")).finish(facts)
    if archive is not None:
        _read_archive(archive, counts, facts, most_bytes)
    else:
        _read_files(counts, facts, most_bytes)
    _compare_indexes(stored, catalog, earlier, facts)
    return facts


def _compare_indexes(
    stored: Mapping[str, StoredCollection], catalog: Catalog, earlier: EarlierWrites, facts: BaseFacts
) -> None:
    """Where the window changes indexes too, the backup may have read them before or after that."""
    for source in stored.values():
        uuid = source.uuid_bytes
        if uuid in catalog.reindexed:
            continue
        held = index_names(source.indexes)
        unlike = [name for name, there in earlier.indexes.get(uuid, {}).items() if there != (name in held)]
        if unlike and source.ns.partition(".")[0] not in LEFT_OUT:
            facts.indexes_unlike_earlier[source.ns] = sorted(unlike)


class _Count:
    """One collection of the backup while its documents are read, and what the replay does to it.

    ``ns`` is its stored namespace at the point; empty if it no longer exists.
    """

    def __init__(
        self,
        source: StoredCollection,
        ns: str,
        item: Collection | None,
        earlier: EarlierWrites,
        later: LaterWrites,
        live: bytes,
    ) -> None:
        self.source, self.ns, self.item = source, ns, item
        uuid = item.uuid if item is not None else b""
        self._touched = item.touched if item is not None else None
        self._earlier = earlier.by_uuid.get(uuid, {}) if self._touched is not None else {}
        self._later = later.of(uuid, ns) if ns else None
        self._recreated = later.recreated(uuid, ns, live) if ns else None
        self._again = 0
        self._waiting: dict[bytes, bool] = {}
        """Documents whose state is not looked up yet: whether each is unlike what the entries before the start left."""
        self._total = 0
        self._large = 0
        self._present = 0
        self._later_documents = self._later_existed = 0
        """Those that the entries after the point write and the window does not, and those among them that they show to
        have existed."""
        self._earlier_seen: set[bytes] = set()
        self._unlike = 0
        self._largest: int | None = None

    def add(self, raw: bytes) -> None:
        """Count one document, and compare it. Raises Malformed."""
        self._total += 1
        self._large += len(raw) > LARGE
        key = id_key(raw)
        if key in self._waiting:
            self._compare_waiting()  # a file with the same id twice
        expected = self._earlier.get(key)
        self._waiting[key] = expected is not None and not expected.allows(raw)
        if len(self._waiting) == AT_ONCE:
            self._compare_waiting()

    def _compare_waiting(self) -> None:
        """Compare the waiting documents with what the entries say about them."""
        keys = list(self._waiting)
        states = self._touched.of(keys) if self._touched is not None else _NONE
        later_states = self._later.ids.of(keys) if self._later is not None else _NONE
        inserted = self._recreated.ids.of(keys) if self._recreated is not None else _NONE
        for key, unlike in self._waiting.items():
            state = states.get(key)
            if state is not None:
                self._present += 1
                if state & UPDATE_ONLY and self._touched is not None:
                    self._touched.mark_in_backup(key)
                continue
            if (number := whole_number(key)) is not None and (self._largest is None or number > self._largest):
                self._largest = number
            self._again += key in inserted
            later = later_states.get(key)
            if later is not None:
                self._later_documents += 1
                self._later_existed += bool(later & EXISTED)
            if key in self._earlier:
                self._earlier_seen.add(key)
                self._unlike += unlike
        self._waiting.clear()

    def finish(self, facts: BaseFacts) -> None:
        """All its documents were read."""
        self._compare_waiting()
        item = self.item
        if item is None:
            return
        if item.touched is None:
            if self.ns:
                facts.documents[self.ns] = None
            return
        documents = self._total - self._present + item.touched.existing()
        self._compare_earlier(facts)
        if not self.ns:
            _compare_count(item.removal, documents, facts)
            return
        _find_missing(self.ns, item.touched, facts)
        facts.large[self.ns] = self._large
        facts.documents[self.ns] = documents
        facts.largest[self.ns] = _largest(item.touched, self._largest)
        self._compare_later(item.touched, documents, facts)
        self._count_again(item.touched, facts)

    def skip(self, facts: BaseFacts) -> None:
        """Leave its documents unread."""
        if self.ns:
            facts.documents[self.ns] = None

    def _compare_earlier(self, facts: BaseFacts) -> None:
        missing = sum(
            not expected.absent
            for key, expected in self._earlier.items()
            if key not in self._earlier_seen and (self._touched is None or self._touched.get(key) is None)
        )
        if self._unlike or missing:
            facts.unlike_earlier[self.source.ns] = self._unlike + missing

    def _compare_later(self, touched: IdStates, documents: int, facts: BaseFacts) -> None:
        """Compare the state at the point with the evidence of the entries after it."""
        later = self._later
        if later is None or not later.complete or self.ns.partition(".")[0] in LEFT_OUT:
            return
        there, existed_and_there, existed, now, again = self._later_documents, self._later_existed, 0, 0, 0
        items = later.ids.items()
        while some := list(islice(items, AT_ONCE)):
            at_point = touched.of([key for key, _ in some])
            for key, state in some:
                now += state & EXISTS
                existed += bool(state & EXISTED)
                again += bool(state & EXISTED and state & (EXISTS | INSERTED) and not state & UPDATE_ONLY)
                if at_point.get(key, 0) & EXISTS:
                    there += 1
                    existed_and_there += bool(state & EXISTED)
        missing, surplus = existed - existed_and_there, there - existed_and_there
        if missing or surplus:
            facts.unlike_later[self.ns] = (missing, surplus)
        if again:
            facts.again[self.ns] = again
        _compare_count(later.dropped, documents - there + now, facts)

    def _count_again(self, touched: IdStates, facts: BaseFacts) -> None:
        """Which documents of the point were inserted again, into a collection that was made again since."""
        if self._recreated is None:
            return
        again, items = self._again, self._recreated.ids.items()
        while some := [key for key, _ in islice(items, AT_ONCE)]:
            at_point = touched.of(some)
            again += sum(at_point.get(key, 0) & EXISTS for key in some)
        facts.again[self.ns] = again


def _compare_count(removed: Removal | None, computed: int, facts: BaseFacts) -> None:
    # Views are restored from their definitions; the documents in system.views are not counted, nor those of databases
    # whose writes are not replayed: what PBM removes in admin has a count.
    if removed is None or removed.ns.partition(".")[0] in LEFT_OUT or removed.ns.endswith(VIEWS):
        return
    if removed.documents is not None and removed.documents != computed:
        facts.count_mismatches.append(CountMismatch(removed.ns, removed.ts, removed.documents, computed))


def _read_files(counts: Sequence[_Count], facts: BaseFacts, left: int) -> None:
    for count in counts:
        data = count.source.data
        if data is None and count.source.stated is not None and count.source.kind != "view":
            count.finish(facts)  # it is recorded as empty
            continue
        size = data.stat().st_size if data is not None else 0
        if data is None or size > left:
            facts.unread_bytes += size
            count.skip(facts)
            continue
        left -= size
        try:
            for raw in documents(data, count.source.stated):
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
    """An integer ``_id`` as comparable bytes."""
    if key[:1] in (_INT32, _INT64):
        return int.from_bytes(key[1:], "little", signed=True)
    if key[:1] == _DOUBLE:
        (number,) = struct.unpack("<d", key[1:])
        return int(number) if float(number).is_integer() else None
    return None


def _largest(touched: IdStates, untouched: int | None) -> int | None:
    """The largest integer ``_id`` at the point, None if there is none."""
    largest = untouched
    for key in touched.existing_of((_DOUBLE, _INT32, _INT64)):
        if (number := whole_number(key)) is not None and (largest is None or number > largest):
            largest = number
    return largest


def _find_missing(ns: str, touched: IdStates, facts: BaseFacts) -> None:
    """Updates of documents that do not exist: harmless if a delete follows, otherwise the backup lacks the document."""
    if ns.partition(".")[0] in LEFT_OUT:
        return  # the replay leaves them out: an update of a user does not mean that the backup lacks a document
    for exists, places in touched.update_only():
        if exists:
            facts.missing[ns] = facts.missing.get(ns, 0) + 1
        elif 0 in places:
            facts.fatal += 1
        else:
            facts.dead_updates += map(Ts.of_number, places)
