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


class Selection(OplogViews):
    """The oplog page, as far as it acts on the selection of the view on top."""

    @property
    def _row(self) -> OplogRow | None:
        """The opened entry, or the one under the cursor; None where no entry is shown."""
        if self.view == "text":
            return self.opened.entry
        tail, rows = self.tail, self.tail.rows
        return rows[tail.cursor] if self.view == "tail" and tail.cursor < len(rows) else None

    @property
    def _incident(self) -> Incident | None:
        """The opened incident, or the one under the cursor."""
        if self.view == "text":
            return self.opened.incident
        return self.incidents.selected if self.view == "incidents" else None

    def action_restore(self) -> None:
        """Open the restore page at it."""
        incident, row = self._incident, self._row
        if incident is not None:
            self.shell.visit(RestoreRequested(before=incident.limit, incident=incident))
        elif row is not None:
            self.shell.visit(RestoreRequested(before=row.ts))
        else:
            self.say(NOTHING_SELECTED)

    def to_copy(self) -> tuple[str, str] | None:
        """The entry or incident in full, or the rows that are selected."""
        if self.view == "text":
            return "the text", self.opened.text
        incident = self._incident
        if incident is not None:
            return "the incident", "\n".join(incident_lines(incident, clock.now()))
        rows = _with_document(self.tail.selected) if self.view == "tail" else []
        if not rows:
            return None
        from tallyglass.oplog.entry.json import to_json

        return fmt.plural(len(rows), "entry", "entries"), "\n".join(to_json(row.raw) for row in rows)

    def action_save(self) -> None:
        """Save it as JSON lines in the current folder."""
        opened = self.opened.entry
        chosen = ([opened] if opened else []) if self.view == "text" else self.tail.selected
        self.run_alone(self._save(_with_document(chosen)), "oplog-save")

    async def _save(self, rows: list[OplogRow]) -> None:
        if not rows:
            recorded = self.shell.context.recorded
            self.say(NOT_FROM_A_RECORDING if recorded else "No entry is selected.")
            return
        try:
            path = await asyncio.to_thread(oplog_reads.save, rows, Path.cwd())
        except OSError as error:
            self.say(f"It cannot be saved here: {error.strerror or error}.")
        else:
            self.say(f"Saved {fmt.plural(len(rows), 'entry', 'entries')} to {clean(str(path), 200)}")

    def action_document(self) -> None:
        """Show only entries about the same document."""
        row = self._row
        if row is None or not row.id:
            self.say("This entry names no document.")
            return
        try:
            self.set_filter(words_for(row.ns, row.id))
        except InputError as error:
            self.say(str(error))

    def action_transaction(self) -> None:
        """Show only entries of the same transaction or retryable write."""
        from tallyglass.oplog.entry.row import chain_name

        row = self._row
        name = chain_name(row.raw) if row is not None else ""
        if name:
            self.set_filter(f"txn:{name}")
        elif row is not None and row.kind is RowKind.ENTRY and not row.raw:
            self.say("This entry is not held here as a whole: its transaction is not known.")
        else:
            self.say("This entry belongs to no transaction.")


def _with_document(rows: Sequence[OplogRow]) -> list[OplogRow]:
    return [row for row in rows if row.raw]
