"""A list of rows of one line each: the scrolling and the header that the table and the tail share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual.events import Resize

from tallyglass_tui.widgets.cells import wrap
from tallyglass_tui.widgets.cursor_list import CursorList
from tallyglass_tui.widgets.line_view import Piece


class RowList(CursorList):
    """Rows below an optional header. A subclass gives ``count``, ``row`` and ``header``.

    The cursor is a row index, kept in the window; ``top`` is the first row shown.
    """

    HEADER_LINES = 1

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.empty_text: Sequence[str] = ()
        """The text below the header while there are no rows."""

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

    def index_at(self, y: int) -> int | None:
        """The row at line ``y``."""
        index = self.top + y - self.HEADER_LINES
        return index if y >= self.HEADER_LINES and index < self.count else None

    def _empty(self, y: int, width: int) -> Iterable[Piece]:
        lines: list[str] = []
        for text in self.empty_text:
            if not text.startswith(" "):  # An indented line belongs to the paragraph above it.
                lines.append("")
            lines += wrap(f" {text}", width, indent=" ")
        return [(lines[y], "")] if y < len(lines) else ()

    def on_resize(self, _: Resize) -> None:
        """The cursor stays in view, with as many rows around it as fit: a hidden list had no room for any."""
        self.keep_in_view()
        self.show_changes()

    def keep_in_view(self) -> None:
        """Scroll as little as it takes to show the cursor."""
        rows = self.page_rows
        if self.cursor < self.top:
            self.top = self.cursor
        elif self.cursor >= self.top + rows:
            self.top = self.cursor - rows + 1
        self.top = max(0, min(self.top, self.count - rows))

    def action_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        self.move_to(self.cursor + pages * max(1, self.page_rows - 1))
