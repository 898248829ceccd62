"""A list of rows with a cursor: the keys, the scrolling and the header that the table and the tail share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tallyglass_tui.widgets.cells import wrap
from tallyglass_tui.widgets.line_view import LineView, Piece


class RowList(LineView, can_focus=True):
    """Rows below an optional header. A subclass gives ``count``, ``row`` and ``header``.

    The cursor is a row index, kept in the window; ``top`` is the first row shown.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False, id="list.down", tooltip="Next row"),
        Binding("up,k", "move(-1)", "Up", show=False, id="list.up", tooltip="Row before"),
        Binding("pagedown,space,ctrl+f", "page(1)", "Page down", show=False, id="list.pagedown", tooltip="A page on"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="list.pageup", tooltip="A page back"),
        Binding("home,g", "go(0)", "First", show=False, id="list.first", tooltip="First row"),
        Binding("end,G", "go(-1)", "Last", show=False, id="list.last", tooltip="Last row"),
        Binding("enter", "choose", "Open", id="list.open", tooltip="Open what the cursor is on"),
    ]

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, rows: RowList) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> RowList:
            """The list it comes from."""
            return self.rows

        def can_replace(self, message: Message) -> bool:
            """Only the last move counts."""
            return isinstance(message, RowList.Moved)

    class Chosen(Message):
        """Enter was pressed on a row: ``chosen`` is :meth:`RowList.at` of it, whatever has moved there since."""

        def __init__(self, rows: RowList, chosen: object) -> None:
            super().__init__()
            self.rows = rows
            self.chosen = chosen

        @property
        def control(self) -> RowList:
            """The list it comes from."""
            return self.rows

    HEADER_LINES = 1

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor = 0
        self.top = 0
        self.said: Sequence[str] = ()
        """What stands below the header while there are no rows."""

    @property
    def count(self) -> int:
        """How many rows there are."""
        return 0

    def at(self, index: int) -> object:
        """What row ``index`` stands for: a key, or the thing itself."""
        return index

    def row(self, index: int, width: int, here: bool) -> Iterable[Piece]:
        """The pieces of one row; ``here`` where the cursor is on it."""
        return ()

    def header(self, width: int) -> Iterable[Piece]:
        """The pieces of the header."""
        return ()

    @property
    def page_rows(self) -> int:
        """How many rows fit."""
        return max(1, self.content_size.height - self.HEADER_LINES)

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """A line: the header, a row, or nothing."""
        if y < self.HEADER_LINES:
            return self.header(width)
        if not self.count:
            return self._empty(y - self.HEADER_LINES, width)
        index = self.top + y - self.HEADER_LINES
        return self.row(index, width, index == self.cursor) if index < self.count else ()

    def _empty(self, y: int, width: int) -> Iterable[Piece]:
        lines = [line for text in self.said for line in ["", *wrap(f" {text}", width, indent=" ")]]
        return [(lines[y], "")] if y < len(lines) else ()

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, and that row into the window."""
        self.cursor = max(0, min(index, self.count - 1))
        self.keep_in_view()
        self.show_changes()
        self.post_message(self.Moved(self))

    def keep_in_view(self) -> None:
        """Scroll as little as it takes to show the cursor."""
        rows = self.page_rows
        if self.cursor < self.top:
            self.top = self.cursor
        elif self.cursor >= self.top + rows:
            self.top = self.cursor - rows + 1
        self.top = max(0, min(self.top, self.count - rows))

    def action_move(self, rows: int) -> None:
        """Move the cursor by rows."""
        self.move_to(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        self.move_to(self.cursor + pages * max(1, self.page_rows - 1))

    def action_go(self, index: int) -> None:
        """To a row; -1 is the last."""
        self.move_to(index if index >= 0 else self.count - 1)

    def action_choose(self) -> None:
        """Open the row under the cursor."""
        if self.count:
            self.post_message(self.Chosen(self, self.at(self.cursor)))
