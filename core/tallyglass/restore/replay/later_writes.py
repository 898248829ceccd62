"""What the entries after the point say about the point itself.

A document whose first later entry is an update or a delete was there at the point; one whose first later entry is an
insert was not. A drop states how many documents there were. Both hold the backup and the replay against the server's
own record.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tallyglass.moment import Ts
from tallyglass.restore.raw.entries import Entry, Txn
from tallyglass.restore.replay.lifetimes import Lifetimes
from tallyglass.restore.replay.stated_counts import StatedCount
from tallyglass.restore.replay.unfold import Unfolder

MOST_IDS = 1_000_000
"""Ids that are kept in memory; beyond it nothing is said by them."""


@dataclass(slots=True)
class CollectionWrites:
    """The later writes to one collection, by id: ``first`` tells whether the document existed before, ``now`` whether
    it does after the last of them. ``dropped`` is the count that its drop states."""

    ns: str
    first: dict[bytes, bool] = field(default_factory=dict)
    now: dict[bytes, bool] = field(default_factory=dict)
    dropped: StatedCount | None = None
    is_dropped: bool = False
    complete: bool = True
    """Whether the ids account for every change: not after ``emptycapped``, nor past :data:`MOST_IDS`."""


class LaterWrites:
    """Feed the entries from the limit on, oldest first."""

    def __init__(self, lifetimes: Lifetimes, limit: Ts) -> None:
        self._limit = limit
        self.by_uuid: dict[bytes, CollectionWrites] = {}
        self.lifetimes = lifetimes
        self._ids = 0
        self._unfolder = Unfolder()

    def begin(self, txn: Txn, parts: list[Entry]) -> None:
        """A transaction that began before the limit and was still open there."""
        self._unfolder.begin(txn, parts)

    def feed(self, entry: Entry) -> None:
        """Take the next entry."""
        if entry.op == "n":
            return
        for operation, _ in self._unfolder.feed(entry):
            self.lifetimes.feed(operation)
            self._take(operation)

    def of(self, uuid: bytes) -> CollectionWrites | None:
        """The writes to a collection that existed at the point."""
        return self.by_uuid.get(uuid) if uuid and not self.is_newer(uuid) else None

    def is_newer(self, uuid: bytes) -> bool:
        """Whether a collection was created after the point."""
        created = self.lifetimes.created.get(uuid)
        return created is not None and created >= self._limit

    def _take(self, entry: Entry) -> None:
        if entry.op == "c":
            self._command(entry)
        elif entry.op in ("i", "u", "d") and entry.ui:
            found = self.by_uuid.setdefault(entry.ui, CollectionWrites(entry.ns))
            if found.complete:
                self._document(found, entry)

    def _document(self, found: CollectionWrites, entry: Entry) -> None:
        key = entry.id_key
        if key not in found.first:
            self._ids += 1
            if self._ids > MOST_IDS:
                for one in self.by_uuid.values():
                    one.complete = False
                    one.first.clear()
                    one.now.clear()
                return
            found.first[key] = entry.op != "i"
        found.now[key] = entry.op != "d"

    def _command(self, entry: Entry) -> None:
        records = entry.records
        if entry.command == "drop" and entry.ui:
            ns = f"{entry.db}.{entry.o.get('drop')}"
            found = self.by_uuid.setdefault(entry.ui, CollectionWrites(ns))
            found.is_dropped = True
            found.dropped = None if records is None else StatedCount(ns, records, entry.ts)
        elif entry.command == "renameCollection" and entry.replaced and records is not None:
            ns = str(entry.o.get("to"))
            found = self.by_uuid.setdefault(entry.replaced, CollectionWrites(ns))
            found.dropped = StatedCount(ns, records, entry.ts)
        elif entry.command in ("emptycapped", "truncateRange") and entry.ui:
            self.by_uuid.setdefault(entry.ui, CollectionWrites(entry.ns)).complete = False
