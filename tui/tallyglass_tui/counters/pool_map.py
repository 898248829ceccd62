"""The map of a pool: one cell for each document, shaded by its used share, with a cursor that shows the numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Resize

from tallyglass.counters.snapshot import PoolView
from tallyglass_tui import format as fmt
from tallyglass_tui.widgets.cells import fit_middle, joined, whole_pieces
from tallyglass_tui.widgets.line_view import LineView, Piece

_STEPS = ((1.0, "X", "X", "map--full"), (0.9, "█", "#", "map--hot"), (0.75, "▓", "+", "map--warm"),
          (0.5, "▒", "=", ""), (0.25, "░", "-", ""), (0.0, "·", ".", "map--cool"))  # fmt: skip

_MOST_ID = 40
"""Cells of an _id in the line below the map."""


def shades(plain: bool) -> str:
    """What each cell of a map means."""
    return ", ".join(f"{simple if plain else glyph} from {share:.0%}" for share, glyph, simple, _ in reversed(_STEPS))


class PoolMapWidget(LineView, can_focus=True):
    """The cells, then a line with the numbers of the one under the cursor."""

    DEFAULT_CSS = """
    PoolMapWidget { height: 1fr; padding: 0 1; }
    PoolMapWidget > .map--full { color: $error; text-style: bold; }
    PoolMapWidget > .map--hot { color: $error; }
    PoolMapWidget > .map--warm { color: $warning; }
    PoolMapWidget > .map--cool { color: $text-muted; }
    PoolMapWidget > .map--here { text-style: reverse; }
    PoolMapWidget:ansi > .map--cool { color: ansi_default; text-style: dim; }
    """
    COMPONENT_CLASSES = {"map--full", "map--hot", "map--warm", "map--cool", "map--here"}  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l", "step(1)", "Right", show=False, id="map.right", tooltip="Next document"),
        Binding("left,h", "step(-1)", "Left", show=False, id="map.left", tooltip="Previous document"),
        Binding("down,j", "line(1)", "Down", show=False, id="map.down", tooltip="Next line"),
        Binding("up,k", "line(-1)", "Up", show=False, id="map.up", tooltip="Previous line"),
        Binding("home,g", "to(0)", "First", show=False, id="map.first", tooltip="First document"),
        Binding("end,G", "to(-1)", "Last", show=False, id="map.last", tooltip="Last document"),
        Binding("tab", "app.focus_next", "Facts", key_display="Tab", id="map.facts", tooltip="Scroll the facts above"),
        Binding("f", "fullest", "Fullest", show=False, id="map.fullest", tooltip="To the fullest document"),
    ]

    def __init__(self, *, plain: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plain = plain
        self._pool: PoolView | None = None
        self._top = 0
        self.cursor = 0

    def show(self, pool: PoolView | None) -> None:
        """Show this pool; None for none."""
        self._pool = pool
        self.cursor = max(0, min(self.cursor, self._count - 1))
        self.show_changes()

    def on_resize(self, _: Resize) -> None:
        """Keep the cursor in view: in wider lines it is on a higher one."""
        self.move_to(self.cursor)

    @property
    def _count(self) -> int:
        return len(self._pool.used) if self._pool else 0

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """A line of cells; the last line describes the document under the cursor."""
        height = self.content_size.height
        if y == height - 1:
            yield from whole_pieces(self.status_line(), width)
            return
        start = (self._top + y) * width
        yield from joined(self._glyph(index) for index in range(start, min(start + width, self._count)))

    def status_line(self) -> list[Piece]:
        """The numbers of the document under the cursor."""
        pool = self._pool
        if pool is None or self.cursor >= self._count:
            return []
        at = self.cursor
        id_text = pool.ids[at] if at < len(pool.ids) else fmt.UNKNOWN
        value = fmt.count(pool.values[at]) if at < len(pool.values) else fmt.UNKNOWN
        most = fmt.count(pool.maxima[at]) if at < len(pool.maxima) else fmt.UNKNOWN
        numbers = f"{fit_middle(id_text, _MOST_ID).rstrip()}: {value} of {most}, {fmt.share(pool.used[at])} used"
        return [(numbers, ""), (f" ({at + 1:,} of {self._count:,})", "")]

    def move_to(self, index: int) -> None:
        """Put the cursor on a document."""
        self.cursor = max(0, min(index, self._count - 1))
        width, rows = max(1, self.content_size.width), max(1, self.content_size.height - 1)
        line = self.cursor // width
        lowest = max(0, (self._count - 1) // width - rows + 1)
        self._top = min(max(self._top, line - rows + 1), line, lowest)
        self.show_changes()

    def action_step(self, cells: int) -> None:
        """Move the cursor by a number of cells."""
        self.move_to(self.cursor + cells)

    def action_line(self, lines: int) -> None:
        """Move the cursor by a number of lines."""
        self.move_to(self.cursor + lines * max(1, self.content_size.width))

    def action_to(self, index: int) -> None:
        """To a document; -1 is the last."""
        self.move_to(index if index >= 0 else self._count - 1)

    def action_fullest(self) -> None:
        """To the fullest document."""
        if self._pool and self._pool.used:
            self.move_to(max(range(self._count), key=self._pool.used.__getitem__))

    def _glyph(self, index: int) -> tuple[str, str]:
        used = self._pool.used[index] if self._pool else 0.0
        for least, glyph, plain, style in _STEPS:
            if used >= least:
                over = " map--here" if index == self.cursor else ""
                return (plain if self._plain else glyph), f"{style}{over}".strip()
        return "?", ""
