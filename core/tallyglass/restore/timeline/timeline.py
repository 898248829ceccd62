"""Which collections the oplog shows as created, renamed and removed, by UUID, and which views as removed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry

VIEWS = ".system.views"


class Removal(NamedTuple):
    """A collection that one command removed: its UUID, its name as stored then, how many documents it had, if that is
    recorded, and when."""

    uuid: bytes
    ns: str
    documents: int | None
    ts: Ts


def removal(entry: Entry) -> Removal | None:
    """The collection that a command removed, by a drop or by a rename over it; None for any other."""
    if entry.command == "drop" and entry.ui:
        return Removal(entry.ui, f"{entry.db}.{entry.o.get('drop')}", entry.records, entry.ts)
    if entry.command == "renameCollection" and entry.replaced:
        return Removal(entry.replaced, str(entry.o.get("to")), entry.records, entry.ts)
    return None


@dataclass(slots=True)
class Timeline:
    """Feed every entry from the start of the window on. Entries of a transaction count from the entry that holds them:
    a collection that an aborted one created counts as created, which can only hide a warning."""

    created: dict[bytes, Ts] = field(default_factory=dict)
    dropped: dict[bytes, Ts] = field(default_factory=dict)
    dropped_as: dict[bytes, str] = field(default_factory=dict)
    """The names under which they were dropped or replaced."""
    renamed: set[bytes] = field(default_factory=set)
    views_removed: set[str] = field(default_factory=set)
    """Removed views by namespace; ``db.`` if all views of a database were removed."""

    def feed(self, entry: Entry, at: Ts | None = None) -> None:
        """Record the next entry; ``at`` is when it takes effect, if that is not its own timestamp."""
        at = at or entry.ts
        if entry.op == "d" and entry.ns.endswith(VIEWS):
            self.views_removed.add(str(entry.document_id))
        if entry.op != "c":
            return
        if entry.command == "applyOps":
            for inner in entry.inner():
                self.feed(inner, at)
        elif entry.command == "create" and entry.ui:
            self.created[entry.ui] = at
        elif entry.command == "renameCollection":
            self.renamed.add(entry.ui)
        if removed := removal(entry):
            self.dropped[removed.uuid] = at
            self.dropped_as[removed.uuid] = removed.ns
            if removed.ns.endswith(VIEWS):
                self.views_removed.add(removed.ns.removesuffix(VIEWS[1:]))

    def is_gone(self, uuid: bytes) -> bool:
        """Whether the collection was removed, or left its name."""
        return bool(uuid) and (uuid in self.dropped or uuid in self.renamed)

    def is_dropped_by(self, uuid: bytes, at: Ts | None) -> bool:
        """Whether the collection was removed at or before ``at``."""
        dropped = self.dropped.get(uuid)
        return dropped is not None and at is not None and dropped <= at
