"""A few lines of styled text that are seldom changed, and sent only when they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len

from tallyglass_tui.widgets.cells import ELLIPSIS, fit
from tallyglass_tui.widgets.line_view import LineView, Piece


class TextLines(LineView):
    """Lines of pieces. Its height is that of its content, or what the style sheet says."""

    DEFAULT_CSS = """
    TextLines { height: 1; }
    TextLines > .text--here { text-style: bold reverse; }
    """
    COMPONENT_CLASSES = {"text--here"}  # noqa: RUF012

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines: Sequence[Sequence[Piece]] = ()

    def show(self, *lines: Sequence[Piece], grow: bool = False) -> None:
        """Set the lines. ``grow`` makes the height theirs."""
        self._lines = lines
        if grow and (self.styles.height is None or self.styles.height.value != len(lines)):
            self.styles.height = len(lines)
        self.show_changes()

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """One of them; what is cut ends with an ellipsis."""
        line = self._lines[y] if y < len(self._lines) else ()
        return line if sum(cell_len(text) for text, _ in line) <= width else _cut(line, width)


def _cut(line: Sequence[Piece], width: int) -> Iterable[Piece]:
    for text, style in line:
        cells = cell_len(text)
        if cells >= width:
            yield fit(f"{text}{ELLIPSIS}", width), style
            return
        yield text, style
        width -= cells
