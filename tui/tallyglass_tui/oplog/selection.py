"""What can be done with the entries or the incident that is selected: copy, save, follow up, restore."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from textual import work

from tallyglass.errors import InputError
from tallyglass.oplog.filter.query import words_for
from tallyglass.oplog.snapshot import Incident, OplogRow
from tallyglass.text import clean
from tallyglass_tui import format as fmt
from tallyglass_tui.oplog import reads as oplog_reads
from tallyglass_tui.oplog.jumps import OplogJumps
from tallyglass_tui.oplog.opened_text import OpenedText
from tallyglass_tui.oplog.rows import incident_lines
from tallyglass_tui.shell.messages import RestoreRequested


class OplogSelection(OplogJumps):
    """The part of the oplog page that acts on its selection. The page itself says which view is on top."""

    def __init__(self) -> None:
        super().__init__()
        self._views = ["tail"]

    def _set_filter(self, text: str) -> None:
        """Show only what matches ``text``."""

    @property
    def _row(self) -> OplogRow | None:
        if self._views[-1] == "text" and self._text.entry is not None:
            return self._text.entry
        rows = self._tail.ring.rows
        return rows[self._tail.cursor] if self._tail.cursor < len(rows) else None

    @property
    def _incident(self) -> Incident | None:
        if self._views[-1] == "text":
            return self._text.incident
        return self._incidents.selected if self._views[-1] == "incidents" else None

    def action_restore(self) -> None:
        """Open the restore page at what is selected."""
        incident, row = self._incident, self._row
        if incident is not None:
            self.dashboard.visit(RestoreRequested(before=incident.limit, incident=incident))
        elif row is not None:
            self.dashboard.visit(RestoreRequested(before=row.ts))

    def to_copy(self) -> tuple[str, str] | None:
        """The entry or incident in full, or the rows that are selected."""
        if self._views[-1] == "text":
            return "the text", self._text.text
        if self._incident is not None:
            return "the incident", "\n".join(incident_lines(self._incident, datetime.now(UTC)))
        rows = [row for row in self._tail.selected if row.raw]
        if not rows:
            return None
        from tallyglass.oplog.decode.entry import to_json

        return fmt.plural(len(rows), "entry", "entries"), "\n".join(to_json(row.raw) for row in rows[:1000])

    @work(exclusive=True, group="oplog-save", exit_on_error=False)
    async def action_save(self) -> None:
        """Save what is selected."""
        chosen = [self._text.entry] if self._views[-1] == "text" else self._tail.selected
        rows = [row for row in chosen if row is not None and row.raw]
        if not rows:
            self.say("No entry is selected.")
            return
        try:
            path = await asyncio.to_thread(oplog_reads.save, rows, Path.cwd())
        except OSError as error:
            self.say(f"It cannot be saved here: {error.strerror or error}.")
        else:
            self.say(f"Saved {fmt.plural(len(rows), 'entry', 'entries')} to {clean(str(path), 200)}")

    def action_document(self) -> None:
        """Only entries of the document of this one."""
        row = self._row
        if row is None or not row.id:
            self.say("This entry names no document.")
            return
        try:
            self._set_filter(words_for(row.ns, row.id))
        except InputError as error:
            self.say(str(error))

    def action_transaction(self) -> None:
        """Only entries of the transaction, or of the retryable write, of this one."""
        from tallyglass.oplog.decode.transaction import name_of

        row = self._row
        name = name_of(row.raw) if row is not None else ""
        if name:
            self._set_filter(f"txn:{name}")
        else:
            self.say("This entry belongs to no transaction.")

    @property
    def _text(self) -> OpenedText:
        return self.query_one("#text", OpenedText)
