"""Items of one or more lines each, under a cursor: what can be picked, read and copied."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.events import Resize

from tallyglass_tui.widgets.cells import wrap_words
from tallyglass_tui.widgets.cursor_list import CursorList
from tallyglass_tui.widgets.line_view import Piece

Lines = Sequence[Sequence[Piece]]

GUTTER = 2
"""Cells at the left that show where the cursor is; the lines of an item get the width without them."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item: ``lines`` draws it for a width in cells. ``copy`` is what ``y`` copies, empty for nothing.

    ``key`` is what the cursor follows when the list changes. ``brief`` draws it while the cursor is elsewhere.
    """

    key: str
    lines: Callable[[int], Lines]
    copy: str = ""
    brief: Callable[[int], Lines] | None = None


class PickList(CursorList):
    """Items under a cursor. Enter chooses an :class:`Item` where they are ``pickable``."""

    DEFAULT_CSS = """
    PickList { height: 1fr; }
    PickList > .text--tool { color: $accent; text-style: bold; }
    PickList:focus > .pick--here { background: $panel; text-style: bold; }
    PickList:ansi > .text--tool { color: ansi_default; text-style: bold underline; }
    PickList:ansi:focus > .pick--here { background: ansi_default; color: ansi_default; text-style: reverse; }
    """
    COMPONENT_CLASSES = {"text--tool", "pick--here"}  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Pick", id="list.pick", tooltip="Choose the row under the cursor"),
    ]

    def __init__(self, *, pickable: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self.pickable = pickable
        """Whether Enter picks an item; if not, the key is hidden."""
        self._empty_text = ""
        self._items: tuple[Item, ...] = ()
        self._opens = False
        self._drawn: list[tuple[int, Sequence[Piece]]] = []
        self._drawn_width = -1

    @property
    def count(self) -> int:
        """How many items there are."""
        return len(self._items)

    def at(self, index: int) -> Item:
        """The item at this index."""
        return self._items[index]

    @property
    def selected(self) -> Item | None:
        """The item under the cursor."""
        return self._items[self.cursor] if self._items else None

    @property
    def place(self) -> str:
        """Where the cursor is, such as ``3/18``; empty where all items are in view."""
        return f"{self.cursor + 1}/{self.count}" if len(self._drawn) > self.content_size.height else ""

    def lines_at(self, width: int) -> int:
        """How many lines the items take at this width, none of them in its brief form."""
        return sum(len(item.lines(max(1, width - GUTTER))) for item in self._items)

    def show(self, items: Iterable[Item], empty_text: str = "") -> None:
        """Set the items. The cursor stays on the item with the same key. ``empty_text`` is shown if there are none."""
        before = self.selected
        self._items, self._empty_text = tuple(items), empty_text
        self._opens = any(item.brief for item in self._items)
        keys = [item.key for item in self._items]
        if before and before.key in keys:
            self.cursor = keys.index(before.key)
        self.cursor = max(0, min(self.cursor, len(self._items) - 1))
        self._redraw()

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """Line ``y`` of what is in view."""
        self._draw(width)
        if not self._items:
            lines = ["", *wrap_words(self._empty_text, max(1, width - GUTTER))] if self._empty_text else []
            return [(" " * (GUTTER - 1) + lines[y], "")] if y < len(lines) else ()
        at = self.top + y
        return self._line(*self._drawn[at], width) if at < len(self._drawn) else ()

    def index_at(self, y: int) -> int | None:
        """The item at line ``y``."""
        at = self.top + y
        return self._drawn[at][0] if at < len(self._drawn) else None

    def _line(self, index: int, line: Sequence[Piece], width: int) -> Iterable[Piece]:
        here = index == self.cursor
        first = here and line is self._drawn[self._span(index)[0]][1]
        over = " pick--here" if first else ""
        yield ("> " if first else "| " if here else "  "), over
        used = GUTTER
        for text, style in line:
            used += cell_len(text)
            yield text, f"{style}{over}"
        yield " " * max(0, width - used), over

    def action_page(self, pages: int) -> None:
        """Move by a screenful: within an item that is taller than the view, else over the items."""
        if not self._drawn:
            return
        first, last = self._span(self.cursor)
        height = max(1, self.content_size.height)
        if pages > 0 and last >= self.top + height:
            self._show_from(min(self.top + height - 1, last - height + 1))
        elif pages < 0 and first < self.top:
            self._show_from(max(self.top - height + 1, first))
        else:
            line = max(0, min(len(self._drawn) - 1, (last if pages > 0 else first) + pages * (height - 1)))
            self.move_to(self._drawn[line][0])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide Enter where nothing can be picked."""
        return self.pickable if action == "choose" else super().check_action(action, parameters)

    def on_resize(self, _: Resize) -> None:
        """Wrap the lines again."""
        self._redraw()

    def move_to(self, index: int) -> None:
        """Put the cursor on an item, which opens it where it has a brief form."""
        before = self.cursor
        self.cursor = max(0, min(index, self.count - 1))
        if self.cursor != before and self._opens:
            self._drawn_width = -1
            self._draw(self.content_size.width)
        super().move_to(self.cursor)

    def _redraw(self) -> None:
        self._drawn_width = -1
        self._draw(self.content_size.width)
        self.keep_in_view()
        self.show_changes()

    def _draw(self, width: int) -> None:
        if width == self._drawn_width or width <= 0:
            return
        self._drawn_width = width
        room = max(1, width - GUTTER)
        self._drawn = [
            (index, line)
            for index, item in enumerate(self._items)
            for line in (item.lines if index == self.cursor else item.brief or item.lines)(room)
        ]
        self.top = max(0, min(self.top, len(self._drawn) - 1))

    def _span(self, index: int) -> tuple[int, int]:
        at = [n for n, (owner, _) in enumerate(self._drawn) if owner == index]
        return (at[0], at[-1]) if at else (0, 0)

    def keep_in_view(self) -> None:
        """Scroll as little as it takes to show the item under the cursor; of a tall one the first lines."""
        height = max(1, self.content_size.height)
        first, last = self._span(self.cursor)
        top = self.top
        if last >= top + height:
            top = last - height + 1
        self._set_top(min(top, first))

    def _set_top(self, top: int) -> None:
        self.top = max(0, min(top, len(self._drawn) - max(1, self.content_size.height)))

    def _show_from(self, top: int) -> None:
        self._set_top(top)
        self.show_changes()
