"""The base of all lists: a cursor, its keys, and the messages when it moves or a row is chosen."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Click, MouseScrollDown, MouseScrollUp
from textual.message import Message

from tallyglass_tui.widgets.line_view import LineView

_WHEEL_ROWS = 3
"""Rows for a notch of the mouse wheel, as in other programs."""


class CursorList(LineView, can_focus=True):
    """A list with a cursor. A subclass gives ``count``, draws, and scrolls in :meth:`keep_in_view`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)", "Down", show=False, id="list.down", tooltip="Next row"),
        Binding("up,k", "move(-1)", "Up", show=False, id="list.up", tooltip="Previous row"),
        Binding("pagedown,space,ctrl+f", "page(1)", "Page down", show=False, id="list.pagedown", tooltip="Page down"),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False, id="list.pageup", tooltip="Page up"),
        Binding("home,g", "go(0)", "First", show=False, id="list.first", tooltip="First row"),
        Binding("end,G", "go(-1)", "Last", show=False, id="list.last", tooltip="Last row"),
        Binding("enter", "choose", "Open", id="list.open", tooltip="Open the row under the cursor"),
    ]

    class Moved(Message):
        """The cursor is on another row."""

        def __init__(self, rows: CursorList) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> CursorList:
            """The list it comes from."""
            return self.rows

        def can_replace(self, message: Message) -> bool:
            """Only the last move counts."""
            return isinstance(message, CursorList.Moved)

    class Chosen(Message):
        """Enter was pressed: ``chosen`` is :meth:`CursorList.at` of the cursor, whatever has moved there since."""

        def __init__(self, rows: CursorList, chosen: object) -> None:
            super().__init__()
            self.rows = rows
            self.chosen = chosen

        @property
        def control(self) -> CursorList:
            """The list it comes from."""
            return self.rows

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.cursor = 0
        self.top = 0

    @property
    def count(self) -> int:
        """How many rows there are."""
        return 0

    def at(self, index: int) -> object:
        """The value of row ``index``: a key, or the item itself."""
        return index

    def index_at(self, y: int) -> int | None:
        """The row that is shown at line ``y`` of the list; None for no row."""
        return None

    def on_click(self, event: Click) -> None:
        """A click moves the cursor; on the row of the cursor it opens it."""
        index = self.index_at(event.y)
        if index is None:
            return
        if index == self.cursor and self.has_focus:
            self.action_choose()
        else:
            self.move_to(index)

    def on_mouse_scroll_down(self, _: MouseScrollDown) -> None:
        """The wheel moves the cursor."""
        self.action_move(_WHEEL_ROWS)

    def on_mouse_scroll_up(self, _: MouseScrollUp) -> None:
        """The wheel moves the cursor."""
        self.action_move(-_WHEEL_ROWS)

    def keep_in_view(self) -> None:
        """Scroll as little as it takes to show the cursor."""

    def move_to(self, index: int) -> None:
        """Put the cursor on a row, and scroll it into view."""
        self.cursor = max(0, min(index, self.count - 1))
        self.keep_in_view()
        self.show_changes()
        self.post_message(self.Moved(self))

    def action_move(self, rows: int) -> None:
        """Move the cursor by rows."""
        self.move_to(self.cursor + rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a page."""

    def action_go(self, index: int) -> None:
        """To a row; -1 is the last."""
        self.move_to(index if index >= 0 else self.count - 1)

    def action_choose(self) -> None:
        """Choose the row under the cursor."""
        if self.count:
            self.post_message(self.Chosen(self, self.at(self.cursor)))
