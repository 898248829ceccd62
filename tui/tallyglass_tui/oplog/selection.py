"""Actions on the selected entries or incident: copy, save, follow up, restore."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.oplog.filter.query import words_for
from tallyglass.oplog.snapshot import Incident, OplogRow, RowKind
from tallyglass.text import clean
from tallyglass_tui import clock
from tallyglass_tui import format as fmt
from tallyglass_tui.oplog import reads as oplog_reads
from tallyglass_tui.oplog.rows import incident_lines
from tallyglass_tui.oplog.views import OplogViews
from tallyglass_tui.shell.context import NOT_FROM_A_RECORDING
from tallyglass_tui.shell.messages import RestoreRequested
from tallyglass_tui.shell.page import NOTHING_SELECTED


class Selection:
    """Acts on the selection of the view on top."""

    def __init__(self, page: OplogViews) -> None:
        self._page = page

    @property
    def row(self) -> OplogRow | None:
        """The opened entry, or the one under the cursor; None where no entry is shown."""
        if self._page.view == "text":
            return self._page.opened.entry
        tail, rows = self._page.tail, self._page.tail.rows
        return rows[tail.cursor] if self._page.view == "tail" and tail.cursor < len(rows) else None

    @property
    def incident(self) -> Incident | None:
        """The opened incident, or the one under the cursor."""
        if self._page.view == "text":
            return self._page.opened.incident
        return self._page.incidents.selected if self._page.view == "incidents" else None

    def restore(self) -> None:
        """Open the restore page at it."""
        incident, row = self.incident, self.row
        if incident is not None:
            self._page.shell.visit(RestoreRequested(before=incident.limit, incident=incident))
        elif row is not None:
            self._page.shell.visit(RestoreRequested(before=row.ts))
        else:
            self._page.say(NOTHING_SELECTED)

    def to_copy(self) -> tuple[str, str] | None:
        """The entry or incident in full, or the rows that are selected."""
        if self._page.view == "text":
            return "the text", self._page.opened.text
        incident = self.incident
        if incident is not None:
            return "the incident", "\n".join(incident_lines(incident, clock.now()))
        rows = _with_document(self._page.tail.selected) if self._page.view == "tail" else []
        if not rows:
            return None
        from tallyglass.oplog.entry.json import to_json

        return fmt.plural(len(rows), "entry", "entries"), "\n".join(to_json(row.raw) for row in rows)

    def save(self) -> None:
        """Save it as JSON lines in the current folder."""
        opened = self._page.opened.entry
        chosen = ([opened] if opened else []) if self._page.view == "text" else self._page.tail.selected
        self._page.run_alone(self._save(_with_document(chosen)), "oplog-save")

    async def _save(self, rows: list[OplogRow]) -> None:
        if not rows:
            recorded = self._page.shell.context.recorded
            self._page.say(NOT_FROM_A_RECORDING if recorded else "No entry is selected.")
            return
        try:
            path = await asyncio.to_thread(oplog_reads.save, rows, Path.cwd())
        except OSError as error:
            self._page.say(f"It cannot be saved here: {error.strerror or error}.")
        else:
            self._page.say(f"Saved {fmt.plural(len(rows), 'entry', 'entries')} to {clean(str(path), 200)}")

    def only_document(self) -> None:
        """Show only entries about the same document."""
        row = self.row
        if row is None or not row.id:
            self._page.say("This entry names no document.")
            return
        try:
            self._page.set_filter(words_for(row.ns, row.id))
        except InputError as error:
            self._page.say(str(error))

    def only_transaction(self) -> None:
        """Show only entries of the same transaction or retryable write."""
        from tallyglass.oplog.entry.row import chain_name

        row = self.row
        name = chain_name(row.raw) if row is not None else ""
        if name:
            self._page.set_filter(f"txn:{name}")
        elif row is not None and row.kind is RowKind.ENTRY and not row.raw:
            self._page.say("This entry is not held here as a whole: its transaction is not known.")
        else:
            self._page.say("This entry belongs to no transaction.")


def _with_document(rows: Sequence[OplogRow]) -> list[OplogRow]:
    return [row for row in rows if row.raw]
