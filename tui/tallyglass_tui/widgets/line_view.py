"""A widget of lines that sends only the cells that changed.

Textual sends every dirty region again and does not compare it with what the terminal shows, so the
comparing is done here: :meth:`LineView.show_changes` rebuilds the visible lines and marks in each the run of
segments that differs. With nothing changed nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.segment import Segment
from rich.style import Style
from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

Piece = tuple[str, str]
"""A text and the component classes that style it, separated by spaces; an empty name for the plain style."""


class LineView(Widget):
    """Base of the live widgets. A subclass says what line ``y`` shows in :meth:`pieces`.

    Texts reach the terminal as they are: they come through :func:`tallyglass.text.clean` in core.
    """

    DEFAULT_CSS = """
    LineView > .text--title { text-style: bold; }
    LineView > .text--muted { color: $text-muted; }
    LineView > .text--good { color: $success; }
    LineView > .text--warn { color: $warning; }
    LineView > .text--bad { color: $error; text-style: bold; }
    LineView:ansi > .text--muted { color: ansi_default; text-style: dim; }
    """
    COMPONENT_CLASSES = {"text--title", "text--muted", "text--good", "text--warn", "text--bad"}  # noqa: RUF012

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._strips: dict[int, Strip] = {}
        self._strips_width = -1
        self._styles_by_name: dict[str, Style] = {}

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """The pieces of one line, from the left. More than ``width`` cells are cut."""
        return ()

    def show_changes(self) -> None:
        """Compare every visible line with what was sent, and send what differs."""
        width, height = self.content_size
        if width != self._strips_width:
            self._strips.clear()
            self.refresh()
            return
        for y in range(height):
            before = self._strips.get(y)
            after = self._build(y, width)
            if before is None or before.cell_length != after.cell_length:
                self._strips[y] = after
                self.refresh(Region(0, y, width, 1))
                continue
            run = changed_run(list(before), list(after))
            if run:
                self._strips[y] = after
                self.refresh(Region(run[0], y, run[1], 1))

    def render_line(self, y: int) -> Strip:
        """The line for the compositor, from what :meth:`show_changes` built, or built now."""
        width = self.content_size.width
        if width != self._strips_width:
            self._strips.clear()
            self._strips_width = width
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._build(y, width)
        return strip

    def notify_style_update(self) -> None:
        """Clear the cache of styled lines."""
        self._strips.clear()
        self._styles_by_name.clear()
        super().notify_style_update()

    def on_resize(self, _: Resize) -> None:
        """Lay out all lines for the new width."""
        self._strips.clear()

    def style_of(self, name: str) -> Style:
        """The style of component classes over the plain style of this widget."""
        style = self._styles_by_name.get(name)
        if style is None:
            style = self.rich_style
            for part in name.split():
                style = style + self._style_of_part(part)
            self._styles_by_name[name] = style
        return style

    def _style_of_part(self, name: str) -> Style:
        """One component class. A colour that lets the background through is mixed here: a terminal cannot."""
        style = self.get_component_rich_style(name, partial=True)
        styles = self.get_component_styles(name)
        background = self.background_colors[1]
        if background.ansi is not None or not styles.has_rule("color"):
            return style
        color = background.get_contrast_text(styles.color.a) if styles.auto_color else styles.color
        return style + Style.from_color((background + color).rich_color) if color.a < 1 else style

    def _build(self, y: int, width: int) -> Strip:
        segments = [Segment(text, self.style_of(name)) for text, name in self.pieces(y, width) if text]
        return Strip(segments).adjust_cell_length(width, self.style_of(""))


def changed_run(before: list[Segment], after: list[Segment]) -> tuple[int, int] | None:
    """The cells from the first to the last difference of two lines of equal width: (x, cells), or None.

    One run a line: for each, the compositor sends the line again from its first cell.
    """
    shorter = min(len(before), len(after))
    start, end = 0, 0
    while start < shorter and before[start] == after[start]:
        start += 1
    if start == len(before) == len(after):
        return None
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    x = sum(segment.cell_length for segment in after[:start])
    return x, sum(segment.cell_length for segment in after[start : len(after) - end])
