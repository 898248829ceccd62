"""Which collections the oplog shows as created and dropped, by UUID, and which views as removed."""

from __future__ import annotations

from dataclasses import dataclass, field

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry

VIEWS = ".system.views"


@dataclass(slots=True)
class Lifetimes:
    """Feed every entry from the start of the window to the end of the oplog. Entries of a transaction count from the
    entry that holds them: a collection that an aborted one created counts as created, which can only hide a warning."""

    created: dict[bytes, Ts] = field(default_factory=dict)
    dropped: dict[bytes, Ts] = field(default_factory=dict)
    dropped_as: dict[bytes, str] = field(default_factory=dict)
    """The names under which they were dropped or replaced."""
    renamed: set[bytes] = field(default_factory=set)
    views_removed: set[str] = field(default_factory=set)
    """Removed views by namespace; ``db.`` if all views of a database were removed."""

    def feed(self, entry: Entry, at: Ts | None = None) -> None:
        """Take the next entry; ``at`` is when it takes effect, if that is not its own timestamp."""
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
        elif entry.command == "drop" and entry.ui:
            self.dropped[entry.ui] = at
            self.dropped_as[entry.ui] = f"{entry.db}.{entry.o.get('drop')}"
            if entry.o.get("drop") == VIEWS[1:]:
                self.views_removed.add(f"{entry.db}.")
        elif entry.command == "renameCollection":
            self.renamed.add(entry.ui)
            if entry.replaced:
                self.dropped[entry.replaced] = at
                self.dropped_as[entry.replaced] = str(entry.o.get("to"))
