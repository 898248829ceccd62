"""Evidence about the state at the point, from the entries after it.

A document whose first later entry is an update or a delete existed at the point; one whose first later entry is an
insert did not. A drop records how many documents there were. Both let backup and replay be checked against the server's
own record.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry.entry import Entry
from tallyglass.restore.proof.id_states import IdStates, IdStore
from tallyglass.restore.timeline.timeline import VIEWS, Removal, Timeline, removal


@dataclass(slots=True)
class CollectionWrites:
    """The later writes to one collection, by id. ``dropped`` has the count that its drop records."""

    ns: str
    ids: IdStates
    dropped: Removal | None = None
    is_dropped: bool = False
    complete: bool = True
    """Whether the ids account for every change: not after ``emptycapped``."""


class LaterWrites:
    """Record the operations from the limit on, in the order in which they take effect. ``ids`` has the states of
    documents, those of the window too: both together are bounded."""

    def __init__(self, timeline: Timeline | None = None, limit: Ts = ZERO, ids: IdStore | None = None) -> None:
        self._limit = limit
        self.by_uuid: dict[bytes, CollectionWrites] = {}
        self.timeline = deepcopy(timeline or Timeline())  # what happens later must not explain what the replay misses
        self.ids = ids or IdStore()

    def record(self, entry: Entry, at: Ts) -> None:
        """Record an operation that takes effect ``at`` this time."""
        self.timeline.feed(entry, at)
        if entry.op == "c":
            self._command(entry)
        elif entry.op in ("i", "u", "d") and entry.ui:
            self.write(entry.op, entry.ns, entry.ui, entry.id_key)

    def of(self, uuid: bytes, ns: str) -> CollectionWrites | None:
        """The writes to a collection that existed at the point; the definitions of views are not counted. A backup does
        not give the UUID of a time-series collection: the one that has had its name since the replay began is taken."""
        if ns.endswith(VIEWS):
            return None
        if uuid:
            return None if self.is_newer(uuid) else self.by_uuid.get(uuid)
        return next(
            (
                found
                for one, found in self.by_uuid.items()
                if found.ns == ns and one not in self.timeline.created and one not in self.timeline.renamed
            ),
            None,
        )

    def recreated(self, uuid: bytes, ns: str, live: bytes) -> CollectionWrites | None:
        """The writes to another collection of this name that was made after the point: the one with the UUID ``live``,
        where that is known. None if the collection ``uuid`` itself is live."""
        if live:
            return self.by_uuid.get(live) if live != uuid and self.is_newer(live) else None
        named = [found for one, found in self.by_uuid.items() if found.ns == ns and one != uuid and self.is_newer(one)]
        return next((found for found in reversed(named) if not found.is_dropped), None)

    def is_newer(self, uuid: bytes) -> bool:
        """Whether a collection was created after the point."""
        created = self.timeline.created.get(uuid)
        return created is not None and created >= self._limit

    def write(self, op: str, ns: str, ui: bytes, key: bytes) -> None:
        """Record an insert, update or delete of one document of the collection ``ui``."""
        found = self.by_uuid.get(ui) or self._writes(ui, ns)
        if found.complete:
            found.ids.touch(key, op)

    def _writes(self, uuid: bytes, ns: str) -> CollectionWrites:
        found = self.by_uuid.get(uuid)
        if found is None:
            found = self.by_uuid[uuid] = CollectionWrites(ns, self.ids.new())
        return found

    def _command(self, entry: Entry) -> None:
        drops = entry.command == "drop"
        if (removed := removal(entry)) and (drops or removed.documents is not None):
            found = self._writes(removed.uuid, removed.ns)
            found.is_dropped |= drops
            found.dropped = removed
        elif entry.command in ("emptycapped", "truncateRange") and entry.ui:
            self._writes(entry.ui, entry.ns).complete = False
