"""What the point keeps and loses: operations after it, per namespace, with the operations of transactions."""

from __future__ import annotations

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.model.proof import Loss
from tallyglass.restore.proof.base import whole_number
from tallyglass.restore.timeline.chains import is_left_out
from tallyglass.restore.undo.changed import Changed
from tallyglass.restore.undo.incident_scope import is_sent_by, session_of, written
from tallyglass.text import clean_name


class LossCount:
    """Show it the entries from the limit on with :meth:`observe`, oldest first, and their operations, in the order in
    which they take effect, with :meth:`count`."""

    def __init__(self, incident: Incident | None = None) -> None:
        self.incident = incident
        self.changed: dict[str, Changed] = {}
        self._last = 0
        self.fcv_changed: Ts | None = None
        """When feature compatibility was changed after the point: the spare must have what it was before."""

    def observe(self, entry: Entry) -> None:
        """Record how far the oplog was read, and a change of feature compatibility."""
        self._last = entry.ts.number
        if entry.ns == "admin.system.version" and entry.document_id == "featureCompatibilityVersion":
            self.fcv_changed = entry.ts

    def write(self, op: str, ns: str, key: bytes, place: int) -> bool:
        """Count an insert, update or delete of one document, without its entry. False where the entry is needed: it may
        be the incident's."""
        incident = self.incident
        if is_left_out(ns) or (incident is not None and self._is_in(incident, ns, place)):
            return False
        self._last = place
        changed = self.changed.get(ns)
        if changed is None:
            changed = self.changed[ns] = Changed()
        changed.others += 1
        if op == "i":
            changed.inserts += 1
            changed.note_number(whole_number(key))
        elif op == "u":
            changed.updates += 1
        else:
            changed.deletes += 1
        return True

    @staticmethod
    def _is_in(incident: Incident, ns: str, place: int) -> bool:
        first, last = incident.first.number, incident.last.number
        return first <= place <= last and clean_name(ns) == incident.ns

    @property
    def last(self) -> Ts | None:
        """The newest entry; None before the first."""
        return Ts.of_number(self._last) if self._last else None

    def count(self, entry: Entry, whole: Entry) -> None:
        """Count an operation that takes effect with ``whole``; a transaction that was open at the limit is lost
        whole."""
        if is_left_out(whole.ns):
            return
        changed = self.changed.setdefault(entry.target if entry.op == "c" else entry.ns, Changed())
        if entry.op == "i":
            changed.inserts += 1
            changed.note_number(whole_number(entry.id_key))
        elif entry.op == "u":
            changed.updates += 1
        elif entry.op == "d":
            changed.deletes += 1
        elif entry.op == "c":
            changed.commands += 1
            changed.dropped |= entry.command == "drop"
            changed.removed |= entry.command in ("drop", "emptycapped", "renameCollection")
            changed.replaced |= changed.removed
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
        if entry.op != written(incident) or clean_name(entry.ns) != incident.ns:
            return False
        return is_sent_by(whole, session_of(incident))

    def losses(self) -> tuple[Loss, ...]:
        """One row per namespace that changed, most changed first."""
        rows = [
            Loss(clean_name(ns), item.inserts, item.updates, item.deletes, item.commands)
            for ns, item in self.changed.items()
            if ns
        ]
        return tuple(sorted(rows, key=lambda row: (-(row.inserts + row.updates + row.deletes), row.ns)))
