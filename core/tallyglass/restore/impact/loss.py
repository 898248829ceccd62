"""What the point keeps and loses: operations after it, per namespace, transactions unfolded."""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.moment import Ts
from tallyglass.oplog.decode.head import target_of
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.model.plan import Loss
from tallyglass.restore.raw.entries import Entry, Txn
from tallyglass.restore.replay.chains import is_left_out
from tallyglass.restore.replay.unfold import Unfolder
from tallyglass.text import clean_name


@dataclass(slots=True)
class Changed:
    """Operations on one namespace after the point; ``by_incident`` and ``others`` say whose they are, as far as the
    incident's span, kind and sessions tell."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    commands: int = 0
    by_incident: int = 0
    others: int = 0
    dropped: bool = False
    replaced: bool = False
    """Whether it was dropped or emptied, or its name was given away or taken: what is there now came otherwise."""
    numbers: tuple[int, int] | None = None
    """The least and the greatest whole number that was inserted as an ``_id``."""


class LossCount:
    """Feed the entries from the limit on, oldest first."""

    def __init__(self, incident: Incident | None = None) -> None:
        self.incident = incident
        self.changed: dict[str, Changed] = {}
        self.entries = 0
        self.last: Ts | None = None
        self.fcv_changed: Ts | None = None
        """When feature compatibility was changed after the point: the spare must have what it was before."""
        self._unfolder = Unfolder()

    def begin(self, txn: Txn, parts: list[Entry]) -> None:
        """A transaction that began before the limit and was still open there: it is lost whole."""
        self._unfolder.begin(txn, parts)

    def feed(self, entry: Entry) -> None:
        """Take the next entry."""
        self.entries += 1
        self.last = entry.ts
        if entry.ns == "admin.system.version" and entry.document_id == "featureCompatibilityVersion":
            self.fcv_changed = entry.ts
        if is_left_out(entry.ns) or entry.op == "n":
            return
        for operation, whole in self._unfolder.feed(entry):
            self._count(operation, whole)

    def _count(self, entry: Entry, whole: Entry) -> None:
        changed = self.changed.setdefault(target_of(entry.head) if entry.op == "c" else entry.ns, Changed())
        if entry.op == "i":
            changed.inserts += 1
            number = entry.document_id
            if isinstance(number, float) and number.is_integer():
                number = int(number)
            if isinstance(number, int) and not isinstance(number, bool):
                least, most = changed.numbers or (number, number)
                changed.numbers = (min(least, number), max(most, number))
        elif entry.op == "u":
            changed.updates += 1
        elif entry.op == "d":
            changed.deletes += 1
        elif entry.op == "c":
            changed.commands += 1
            changed.dropped |= entry.command == "drop"
            changed.replaced |= entry.command in ("drop", "emptycapped", "renameCollection")
            if entry.command == "renameCollection":
                target = self.changed.setdefault(str(entry.o.get("to")), Changed())
                target.commands += 1
                target.replaced = True
            return
        if self._belongs(entry, whole):
            changed.by_incident += 1
        else:
            changed.others += 1

    def _belongs(self, entry: Entry, whole: Entry) -> bool:
        """Whether an operation is part of the incident: within its span, on its namespace, of its kind."""
        incident = self.incident
        if incident is None or not incident.first <= whole.ts <= incident.last:
            return False
        if incident.kind == "transaction":
            return whole.txn is not None and whole.ts == (incident.point or incident.last)
        if incident.kind == "deleteMany":
            return entry.op == "d" and clean_name(entry.ns) == incident.ns and not whole.retryable
        if incident.kind == "updateMany":
            return entry.op == "u" and clean_name(entry.ns) == incident.ns and not whole.retryable
        return False

    def losses(self) -> tuple[Loss, ...]:
        """One row per namespace that changed, most changed first."""
        rows = [
            Loss(clean_name(ns), item.inserts, item.updates, item.deletes, item.commands)
            for ns, item in self.changed.items()
            if ns
        ]
        return tuple(sorted(rows, key=lambda row: (-(row.inserts + row.updates + row.deletes), row.ns)))
