"""The opened view of one oplog entry or one incident, with all its details."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType

from tallyglass.errors import TallyglassError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident, OplogRow, RowKind
from tallyglass.text import clean
from tallyglass_tui import clock
from tallyglass_tui.incidents.cells import as_known
from tallyglass_tui.incidents.report import ask_for_report
from tallyglass_tui.oplog import reads as oplog_reads
from tallyglass_tui.oplog.rows import ENTRY_HEADING, entry_lines, incident_lines
from tallyglass_tui.widgets.text_pane import TextPane

if TYPE_CHECKING:
    from tallyglass_tui.shell.page import Page


class OpenedText(TextPane):
    """The text, and its subject: ``entry`` or ``incident``; the other one is None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "report", "Report", id="oplog.report", tooltip="Write a report of this incident to pass on"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entry: OplogRow | None = None
        self.incident: Incident | None = None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A report is of an incident."""
        return self.incident is not None if action == "report" else super().check_action(action, parameters)

    def action_report(self) -> None:
        """Ask for a report of the incident."""
        if self.incident is not None:
            ask_for_report(self, self.incident)

    def show_entry(self, row: OplogRow, majority: Ts | None) -> None:
        """Show an entry; what the document was before and after it is read in the background. ``majority`` is the
        newest majority point, where known."""
        from tallyglass.oplog.entry.row import detail

        self.entry, self.incident = row, None
        lines = entry_lines(row, detail(row.raw) if row.raw else "", clock.now(), majority)
        self.show(lines, prose=ENTRY_HEADING)
        if row.kind is RowKind.ENTRY and row.op in ("u", "d", "c") and row.raw:
            self.run_worker(self._read_images(row), group="oplog-images", exclusive=True, exit_on_error=False)

    async def _read_images(self, row: OplogRow) -> None:
        feeds = cast("Page", self.screen).feeds
        try:
            text = await feeds.ask(lambda gateway: oplog_reads.read_images(gateway, row))
            found, notes = text.found, text.notes
        except TallyglassError as error:
            found, notes = (), (f"before: unknown. {clean(error.title, 300)}",)
        self.add(row, found, notes)

    def add(self, row: OplogRow, found: Sequence[str], notes: Sequence[str]) -> None:
        """Show what was read about an entry, if it is still open: the changes above the entry itself, the notes below
        it."""
        if self.entry is row:
            shown = self.text.split("\n")
            above = ["", *found] if found else []
            below = ["", *notes] if notes else []
            self.show([*shown[:ENTRY_HEADING], *above, *shown[ENTRY_HEADING:], *below], prose=ENTRY_HEADING)

    def show_incident(self, incident: Incident) -> None:
        """Show the facts of an incident."""
        self.entry, self.incident = None, incident
        lines = incident_lines(incident, clock.now())
        self.show(lines, prose=len(lines))

    def renew(self, majority: Ts | None, incident: Incident | None, *, lost: bool) -> None:
        """Show the age as it is now, whether a majority has the entry by now, and what is known of the incident by
        now: ``incident``, or None if it is not in the list any more. ``lost`` as for :func:`as_known`."""
        now = clock.now()
        if self.entry is not None:
            self.show_prose(entry_lines(self.entry, "", now, majority)[:ENTRY_HEADING])
        elif self.incident is not None:
            self.incident = incident or self.incident
            self.show_prose(incident_lines(as_known(self.incident, lost=lost), now))
