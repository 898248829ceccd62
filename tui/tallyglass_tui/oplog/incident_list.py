"""The incidents of a scan as a table, data loss first. The cursor stays on its incident while others arrive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident, IncidentScan
from tallyglass.text import clean
from tallyglass_tui.oplog.incident_filter import IncidentFilter
from tallyglass_tui.oplog.rows import INCIDENT_COLUMNS, incident_cell
from tallyglass_tui.shell.incidents import by_urgency, key_of
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column, LiveTable


class IncidentList(LiveTable):
    """The table. Its keys name incidents: :meth:`find` gives the incident of one."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(INCIDENT_COLUMNS, id=id)
        self.scan: IncidentScan | None = None
        self.filter = IncidentFilter()
        self._ordered: list[Incident] = []

    @property
    def incidents(self) -> Sequence[Incident]:
        """The incidents that are shown, in the order of the rows."""
        return self._ordered

    @property
    def selected(self) -> Incident | None:
        """The one under the cursor."""
        return self.incidents[self.cursor] if self.cursor < len(self.incidents) else None

    @property
    def newest(self) -> Incident | None:
        """The one that began last."""
        return max(self.incidents, key=lambda one: one.first, default=None)

    def after(self, ts: Ts) -> Incident | None:
        """The first one that began after a timestamp."""
        later = [one for one in self.incidents if one.first > ts]
        return min(later, key=lambda one: one.first, default=None)

    def find(self, key: object) -> Incident | None:
        """The incident with this key; None if it no longer exists."""
        return next((one for one in self.incidents if key_of(one) == key), None)

    def same_as(self, incident: Incident) -> Incident | None:
        """An incident as it is known now; None if it no longer exists."""
        return self.find(key_of(incident))

    def set_filter(self, wanted: IncidentFilter) -> None:
        """Show only the incidents that ``wanted`` lets through."""
        self.filter = wanted
        scan, self.scan = self.scan, None
        self.show_scan(scan)

    def show_scan(self, scan: IncidentScan | None) -> None:
        """Show the incidents of a scan; None before the first result."""
        if scan is not self.scan:
            self.scan, self._ordered = scan, self._wanted(scan) if scan else []
        incidents, now = self._ordered, datetime.now(UTC)

        def cell(index: int, column: Column, width: int) -> Sequence[Piece]:
            return incident_cell(incidents[index], now, column, width)

        done = scan is not None and scan.done
        note = "No drop, mass delete or mass update stands out in this oplog." if done else "Reading the oplog back ..."
        if scan and scan.incidents and not incidents:
            note = f"None of {len(scan.incidents):,} incidents matches '{clean(self.filter.text, 60)}'. Esc clears it."
        self.show([key_of(one) for one in incidents], cell, (note,))

    def _wanted(self, scan: IncidentScan) -> list[Incident]:
        return by_urgency([one for one in scan.incidents if self.filter.shows(one)])
