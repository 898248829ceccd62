"""A table whose rows change all the time: fixed columns, a cursor that stays on its row, few bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tallyglass_tui.widgets.cells import fit
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.row_list import RowList

_GAP = 1
"""Cells between two columns."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its width in cells, its share of the room left over, and between which table widths it shows.

    Where the columns do not fit, those with the highest ``rank`` go first, the last of equals.
    """

    key: str
    title: str
    width: int
    flex: int = 0
    right: bool = False
    since: int = 0
    until: int = 100_000
    rank: int = 0


def layout(columns: Sequence[Column], width: int) -> list[tuple[Column, int]]:
    """The columns that show in ``width`` cells, each with its own width."""
    fitting = [column for column in columns if column.since <= width < column.until]
    while len(fitting) > 1 and _needed(fitting) > width:
        rank = max(column.rank for column in fitting)
        del fitting[max(index for index, column in enumerate(fitting) if column.rank == rank)]
    room = width - _needed(fitting)
    flex = sum(column.flex for column in fitting)
    widths: list[tuple[Column, int]] = []
    for column in fitting:
        extra = max(0, room) * column.flex // flex if flex else 0
        flex -= column.flex
        room -= extra
        widths.append((column, column.width + extra))
    return widths


def _needed(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + _GAP * (len(columns) - 1)


CellSource = Callable[[int, Column, int], Sequence[Piece]]
"""(row index, column, width) to the pieces of that cell. They should fill the width; what is missing is padded."""


class LiveTable(RowList):
    """The table. :meth:`show` gives it the keys of the rows and a function for their cells, asked for what is seen."""

    DEFAULT_CSS = """
    LiveTable { height: 1fr; }
    LiveTable > .table--header { text-style: bold; color: $text-muted; }
    LiveTable > .table--here { background: $panel; text-style: bold; }
    LiveTable > .table--muted { color: $text-muted; }
    LiveTable > .table--good { color: $success; }
    LiveTable > .table--warn { color: $warning; }
    LiveTable > .table--bad { color: $error; }
    LiveTable:ansi > .table--header { color: ansi_default; text-style: bold underline; }
    LiveTable:ansi > .table--here { background: ansi_default; color: ansi_default; text-style: reverse; }
    LiveTable:ansi > .table--muted { color: ansi_default; text-style: dim; }
    """
    NEEDS_ROW = frozenset({"choose"})
    """The actions on the row under the cursor."""
    COMPONENT_CLASSES = {  # noqa: RUF012
        "table--header",
        "table--here",
        "table--muted",
        "table--good",
        "table--warn",
        "table--bad",
        "table--bar",
    }

    def __init__(self, columns: Sequence[Column], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.columns = columns
        self.sorted_by = ""
        self.descending = False
        self.keys: Sequence[str] = ()
        self._cell: CellSource = _no_cell
        self._layout: tuple[int, list[tuple[Column, int]]] = (-1, [])

    def show(self, keys: Sequence[str], cell: CellSource, empty_text: Sequence[str] = ()) -> None:
        """Show these rows. The cursor stays on the row with the same key. ``empty_text`` is shown if there are none."""
        first_or_last = bool(keys) != bool(self.keys)
        here = self.keys[self.cursor] if self.cursor < len(self.keys) else None
        self.keys, self._cell, self.empty_text = keys, cell, empty_text
        if here is not None and (self.cursor >= len(keys) or keys[self.cursor] != here):
            offset = self.cursor - self.top
            found = keys.index(here) if here in keys else min(self.cursor, max(0, len(keys) - 1))
            self.cursor, self.top = found, max(0, found - offset)
        if first_or_last:
            self.refresh_bindings()
        self.keep_in_view()
        self.show_changes()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide what needs a row where there is none."""
        return bool(self.keys) if action in self.NEEDS_ROW else super().check_action(action, parameters)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.keys)

    def at(self, index: int) -> str:
        """The key of a row."""
        return self.keys[index]

    def header(self, width: int) -> Iterable[Piece]:
        """The titles, with a mark at the column that rows are sorted by."""
        for first, (column, cells) in self._cells(width):
            if not first:
                yield " ", "table--header"
            mark = ("▼" if self.descending else "▲") if column.key == self.sorted_by else ""
            yield fit(column.title + mark, cells, right=column.right), "table--header"

    def row(self, index: int, width: int, here: bool) -> Iterable[Piece]:
        """The cells of a row. In reverse video a bar would show what is left in place of what is used."""
        over = "table--here" if here else ""
        over_bar = "" if self.app.native_ansi_color else over
        for first, (column, cells) in self._cells(width):
            if not first:
                yield " ", over
            for text, style in self._cell(index, column, cells):
                yield text, f"{style} {over_bar if style.endswith('table--bar') else over}".strip()

    def _cells(self, width: int) -> Iterable[tuple[bool, tuple[Column, int]]]:
        if self._layout[0] != width:
            self._layout = (width, layout(self.columns, width))
        return ((index == 0, cell) for index, cell in enumerate(self._layout[1]))


def _no_cell(index: int, column: Column, width: int) -> Sequence[Piece]:
    return ((" " * width, ""),)
