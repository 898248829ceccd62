"""The part of the oplog page that its controllers use: its views, the rows, the filter, and short messages."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Coroutine, Sequence
from typing import Any

from tallyglass.oplog.snapshot import OplogRow
from tallyglass_tui.incidents.table import IncidentTable
from tallyglass_tui.oplog.opened_text import OpenedText
from tallyglass_tui.oplog.tail import Tail
from tallyglass_tui.shell.page import Page


class OplogViews(Page):
    """The views of the oplog page, and what it does for its controllers."""

    def __init__(self) -> None:
        super().__init__()
        self._views = ["tail"]

    @property
    def view(self) -> str:
        """The view that is on top: tail, text, incidents or rates."""
        return self._views[-1]

    @property
    def tail(self) -> Tail:
        """The list of oplog rows."""
        return self.query_one("#tail", Tail)

    @property
    def incidents(self) -> IncidentTable:
        """The list of incidents."""
        return self.query_one("#incidents", IncidentTable)

    @property
    def opened(self) -> OpenedText:
        """The opened entry or incident."""
        return self.query_one("#text", OpenedText)

    def run_alone(self, work: Coroutine[Any, Any, None], group: str) -> None:
        """Run a coroutine in the background; one that still runs in ``group`` is cancelled."""
        self.run_worker(work, group=group, exclusive=True, exit_on_error=False)

    @abstractmethod
    def show_lines(self) -> None:
        """Update the lines around the view."""

    @abstractmethod
    def set_filter(self, text: str) -> None:
        """Show only what matches ``text``. Raises InputError if it is not a valid filter."""

    @abstractmethod
    def show_past(self, rows: Sequence[OplogRow], note: str) -> None:
        """Show past entries, if there are any, in place of the live tail; then show a message."""

    @abstractmethod
    def read_incidents(self) -> None:
        """Read the incidents, if they are not read yet."""
