"""The activity: operations a second by namespace, as a table."""

from __future__ import annotations

from collections.abc import Sequence

from tallyglass.oplog.filter.query import words_for
from tallyglass.oplog.snapshot import OplogUpdate
from tallyglass_tui.oplog.rows import RATE_COLUMNS, rate_cells
from tallyglass_tui.widgets.cells import fit
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column, LiveTable


class RateList(LiveTable):
    """The table. Its keys are the words that filter by a namespace."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(RATE_COLUMNS, id=id)

    def show_update(self, update: OplogUpdate) -> None:
        """Show the rates of an update."""
        names, rows = rate_cells(update)

        def cell(index: int, column: Column, width: int) -> Sequence[Piece]:
            return ((fit(rows[index][column.key], width, right=column.right), ""),)

        self.show([words_for(name) for name in names], cell, ("No writes since this view was opened.",))
