"""Evidence about the backup from the newest entries before the replay begins: it must hold all their effects.

The replay only adds what was written after its start. A backup lacks earlier writes if it was read from a lagging
member, holds only some of the documents, or contains a file of an older dump.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection as Uuids
from collections.abc import Mapping
from dataclasses import dataclass

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import ChangeKind, each_change, is_replacement
from tallyglass.oplog.entry.entry import Entry, Txn
from tallyglass.oplog.entry.walk import Element
from tallyglass.oplog.read.entries import stamp, walk_oplog

MOST_ENTRIES = 200_000
"""How many entries before the start are read, newest first."""


@dataclass(slots=True)
class ExpectedDocument:
    """The expected state of a document after the newest entry about it: absent, equal to ``digest``, or with the values
    that the ``update`` set, which is the ``o`` of its entry."""

    absent: bool = False
    digest: bytes = b""
    update: bytes = b""

    def allows(self, raw: bytes) -> bool:
        """Whether the document in the backup may be this one."""
        if self.absent:
            return False
        if self.digest:
            return _digest(raw) == self.digest
        return _has_values_set_by(self.update, raw)


class EarlierWrites:
    """Feed entries newest first; only the first of each id counts. ``wanted`` are the UUIDs of the backup."""

    def __init__(self, wanted: Uuids[bytes]) -> None:
        self.by_uuid: dict[bytes, dict[bytes, ExpectedDocument]] = {uuid: {} for uuid in wanted if uuid}
        self._oldest = 0
        self.indexes: dict[bytes, dict[str, bool]] = {}
        """By UUID and name of an index, whether it existed after the newest command about it."""
        self._closed: set[bytes] = set()
        self._committed: set[Txn] = set()
        self._followed: set[Ts] = set()
        """Entries of batched writes that a later entry continues."""

    def feed(self, entry: Entry) -> None:
        """Record the next older entry."""
        self._oldest = entry.ts.number
        txn = entry.txn
        if txn is not None:
            if entry.commits:
                self._committed.add(txn)
            if txn not in self._committed:
                return
        if entry.chained:
            if not entry.commits and entry.ts not in self._followed:
                return
            if entry.previous is not None:
                self._followed.add(entry.previous)
        self._record(entry)

    @property
    def oldest(self) -> Ts | None:
        """The oldest entry; None before the first."""
        return Ts.of_number(self._oldest) if self._oldest else None

    def _record(self, entry: Entry) -> None:
        if entry.command == "applyOps":
            for inner in reversed(list(entry.inner())):
                self._record(inner)
        elif entry.command in ("emptycapped", "truncateRange"):
            self._closed.add(entry.ui)
        elif entry.ui in self.by_uuid:
            self._record_indexes(entry)
        found = self.by_uuid.get(entry.ui)
        if found is None or entry.op not in ("i", "u", "d") or entry.ui in self._closed:
            return
        key = entry.id_key
        if key not in found:
            found[key] = _expected(entry.op, entry.o_raw)

    def write(
        self, op: str, ns: str, ui: bytes, key: bytes, place: int, term: int, size: int, batch: bytes, o: int
    ) -> bool:
        """Record an insert, update or delete, as :class:`tallyglass.oplog.entry.batch.Sink` describes it."""
        self._oldest = place
        found = self.by_uuid.get(ui)
        if found is not None and key not in found and ui not in self._closed:
            found[key] = _expected(op, batch[o : walk.document_end(batch, o)])
        return True

    def _record_indexes(self, entry: Entry) -> None:
        known = self.indexes.setdefault(entry.ui, {})
        if entry.command == "createIndexes":
            spec = entry.o.get("spec")
            known.setdefault(str((spec if isinstance(spec, Mapping) else entry.o).get("name")), True)
        elif entry.command == "commitIndexBuild":
            for spec in entry.o.get("indexes", ()):
                known.setdefault(str(spec.get("name")), True)
        elif entry.command == "dropIndexes" and isinstance(name := entry.o.get("index"), str):
            known.setdefault(name, False)


async def read_earlier(gateway: Gateway, start: Ts, wanted: Uuids[bytes], most: int = MOST_ENTRIES) -> EarlierWrites:
    """The newest entries before ``start``."""
    earlier = EarlierWrites(wanted)
    await walk_oplog(gateway, {"ts": {"$lt": stamp(start)}}, earlier, newest=most)
    return earlier


_ABSENT = ExpectedDocument(absent=True)


def _expected(op: str, o: bytes) -> ExpectedDocument:
    if op == "d":
        return _ABSENT
    if op == "i" or is_replacement(o):
        return ExpectedDocument(digest=_digest(o))
    return ExpectedDocument(update=o)


def _has_values_set_by(update: bytes, document: bytes) -> bool:
    """Whether a document has the values that an update left. What lies in arrays is not compared, nor are the dotted
    paths of 4.4, which may also be names with a dot."""
    for kind, path, value, array in each_change(update) or ():
        is_dotted = len(path) == 1 and b"." in path[0] and walk.find(update, b"diff") is None
        if array >= 0 or kind is ChangeKind.PATCH or is_dotted:
            continue
        held: Element | None = Element(walk.DOCUMENT, b"", 0, len(document))
        for name in path:
            if held is None or held.type != walk.DOCUMENT:
                return False
            # Where a document has a name twice, the last one counts.
            held = {one.name: one for one in walk.elements(document, held.start, held.end)}.get(name)
        left = _stored(update, value)
        if _stored(document, held) != left or (left is None and kind is not ChangeKind.REMOVE):
            return False
    return True


def _stored(raw: bytes, at: Element | None) -> tuple[int, bytes] | None:
    return None if at is None else (at.type, raw[at.start : at.end])


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw, digest_size=12).digest()
