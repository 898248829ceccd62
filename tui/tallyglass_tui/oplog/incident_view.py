"""The incidents on the oplog page: read once somebody asks for them, with a filter and the lines around the list."""

from __future__ import annotations

from tallyglass.oplog.snapshot import IncidentScan
from tallyglass_tui.incidents.cells import about
from tallyglass_tui.incidents.filter import INCIDENT_FILTER_HELP, IncidentFilter
from tallyglass_tui.oplog.jumps import Jumps
from tallyglass_tui.oplog.state import scan_lines
from tallyglass_tui.oplog.views import OplogViews
from tallyglass_tui.widgets.input_line import InputLine
from tallyglass_tui.widgets.line_view import Piece


class IncidentView:
    """Reads the incidents into the list of the page."""

    def __init__(self, page: OplogViews, jumps: Jumps) -> None:
        self._page = page
        self._jumps = jumps
        self._reading = False

    @property
    def wanted_text(self) -> str:
        """The filter as it was typed; empty to show all."""
        return self._page.incidents.filter.text

    def read(self) -> None:
        """Read the incidents, if they are not read yet."""
        if not self._reading:
            self._reading = True
            self._page.incidents.follow(self._show_scan)
            self._page.incidents.show_scan(None)

    def _show_scan(self, scan: IncidentScan) -> None:
        self._page.incidents.show_scan(scan)
        self._jumps.take_scan(scan)

    def ask_for_filter(self, line: InputLine) -> None:
        """Ask for the filter; it applies while it is typed."""
        line.open(f"Filter incidents: {INCIDENT_FILTER_HELP}", self.set_filter, self.wanted_text, live=True)

    def set_filter(self, text: str) -> None:
        """Show only the incidents that match. Raises InputError if the text is not a valid filter."""
        self._page.incidents.set_filter(IncidentFilter.parse(text))
        self._page.show_lines()
        self._page.refresh_bindings()

    def lines(self, width: int) -> list[list[Piece]]:
        """The lines above the list."""
        listed = self._page.incidents
        return scan_lines(
            listed.scan, width, self.wanted_text, len(listed.incidents), with_routine=listed.with_routine,
            silent=listed.lost,
        )  # fmt: skip

    def about(self, width: int) -> list[Piece]:
        """The incident under the cursor, in one line."""
        selected = self._page.incidents.selected
        return about(selected, width) if selected else []
