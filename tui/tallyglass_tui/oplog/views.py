"""The part of the oplog page that its controllers use: the rows, the filter, and short messages."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from tallyglass.oplog.snapshot import OplogRow
from tallyglass_tui.incidents.table import IncidentTable
from tallyglass_tui.oplog.opened_text import OpenedText
from tallyglass_tui.oplog.tail import Tail
from tallyglass_tui.shell.feed import Feed
from tallyglass_tui.shell.protocol import Shell

T = TypeVar("T")


class OplogViews(Protocol):
    """The oplog page as its controllers see it."""

    @property
    def shell(self) -> Shell:
        """The app around it."""
        ...

    @property
    def view(self) -> str:
        """The view that is on top: tail, text, incidents or rates."""
        ...

    @property
    def tail(self) -> Tail:
        """The list of oplog rows."""
        ...

    @property
    def incidents(self) -> IncidentTable:
        """The list of incidents."""
        ...

    @property
    def opened(self) -> OpenedText:
        """The opened entry or incident."""
        ...

    def subscribe(self, feed: Feed[T], show: Callable[[T], None]) -> Feed[T]:
        """Call ``show`` with the new data of ``feed`` while the page is shown."""
        ...

    def say(self, text: str) -> None:
        """Show a short message."""
        ...

    def show_lines(self) -> None:
        """Update the status lines."""
        ...

    def refresh_bindings(self) -> None:
        """Update the line of keys."""
        ...

    def set_filter(self, text: str) -> None:
        """Show only what matches ``text``. Raises InputError if it is not a valid filter."""
        ...

    def show_past(self, rows: Sequence[OplogRow], note: str) -> None:
        """Show past entries, if there are any, in place of the live tail; then show a message."""
        ...

    def read_incidents(self) -> None:
        """Read the incidents, if they are not read yet."""
        ...

    def run_alone(self, work: Coroutine[Any, Any, None], group: str) -> None:
        """Run a coroutine in the background; one that still runs in ``group`` is cancelled."""
        ...
