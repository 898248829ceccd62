"""A text to read: lines that scroll, wrapped to the width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from textual.binding import Binding, BindingType

from tallyglass_tui import bound
from tallyglass_tui.widgets.cells import fit, wrap_words
from tallyglass_tui.widgets.line_view import LineView, Piece

_LINES = 20_000
"""Lines that are wrapped: some 800 screens."""


class TextPane(LineView, can_focus=True):
    """Lines of plain text; the first is highlighted."""

    DEFAULT_CSS = "TextPane { height: 1fr; padding: 0 1; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_by(1)", "Down", show=False, id="text.down", tooltip="Scroll down"),
        Binding("up,k", "scroll_by(-1)", "Up", show=False, id="text.up", tooltip="Scroll up"),
        Binding("pagedown,space", "scroll_page(1)", "Page down", show=False, id="text.pagedown", tooltip="Page down"),
        Binding("pageup", "scroll_page(-1)", "Page up", show=False, id="text.pageup", tooltip="Page up"),
        Binding("home,g", "scroll_by(-1000000)", "First", show=False, id="text.first", tooltip="To the beginning"),
        Binding("end,G", "scroll_by(1000000)", "Last", show=False, id="text.last", tooltip="To the end"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: Sequence[str] = ()
        self._prose = 0
        self._wrapped: list[tuple[str, str]] = []
        self._wrapped_width = -1
        self._prose_rows = 0
        self._first = 0

    @property
    def text(self) -> str:
        """The whole text, as it is copied."""
        return "\n".join(self._lines)

    def show(self, lines: Sequence[str], prose: int = 0) -> None:
        """Show these lines, from the first. The first ``prose`` of them break at spaces, the others anywhere."""
        self._lines, self._prose, self._first, self._wrapped_width = lines, prose, 0, -1
        self.show_changes()

    def show_prose(self, lines: Sequence[str]) -> None:
        """Show these lines in place of the ones that break at spaces. The text does not scroll."""
        if list(lines) == list(self._lines[: self._prose]):
            return
        self._lines, self._prose = [*lines, *self._lines[self._prose :]], len(lines)
        if self._wrapped_width > 0:
            wrapped = [row for number, line in enumerate(lines) for row in self._rows(number, line)]
            self._wrapped[: self._prose_rows], self._prose_rows = wrapped, len(wrapped)
        self.action_scroll_by(0)

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """The pieces of the line at row ``y`` of the pane."""
        if width != self._wrapped_width:
            self._wrap(width)
        index = self._first + y
        return [self._wrapped[index]] if index < len(self._wrapped) else ()

    def action_scroll_by(self, lines: int) -> None:
        """Scroll the text by a number of lines."""
        most = max(0, len(self._wrapped) - self.content_size.height)
        self._first = max(0, min(self._first + lines, most))
        self.show_changes()

    def action_scroll_page(self, pages: int) -> None:
        """Scroll the text by a number of pages."""
        self.action_scroll_by(pages * max(1, self.content_size.height - 1))

    def _wrap(self, width: int) -> None:
        self._wrapped, self._wrapped_width = [], width
        for number, line in enumerate(self._lines):
            if number == self._prose:
                self._prose_rows = len(self._wrapped)
            self._wrapped += self._rows(number, line)
            if len(self._wrapped) > _LINES:
                self._wrapped.append((f"... more than fits here; {bound.key('page.copy', 'y')} copies all of it.", ""))
                break
        if self._prose >= len(self._lines):
            self._prose_rows = len(self._wrapped)
        # In wider lines the text is shorter.
        self._first = max(0, min(self._first, len(self._wrapped) - self.content_size.height))

    def _rows(self, number: int, line: str) -> list[tuple[str, str]]:
        """A line of the text in lines of the screen, with their styles."""
        width, style = self._wrapped_width, "" if number else "text--title"
        if len(line) <= width and cell_len(line) <= width:
            parts = [line]
        else:
            parts = (wrap_words if number < self._prose else chop_cells)(line, max(2, width))
        return [(fit(part, width), style) for part in parts or [""]]
