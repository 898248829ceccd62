"""The tail: rows as they come, until somebody scrolls up; then they stay until he has seen enough."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import OplogRow
from tallyglass_tui.oplog.row_ring import RowRing
from tallyglass_tui.oplog.rows import header, row_pieces
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.row_list import RowList

_MAJORITY_SECONDS = 2
"""How far the majority must be behind before its rows are marked: less is the pace of every replica set."""


class Tail(RowList):
    """Rows of the oplog. Following, the cursor stays on the newest; any move up stops that, the end resumes it."""

    DEFAULT_CSS = """
    Tail { height: 1fr; }
    Tail > .table--header { text-style: bold; color: $text-muted; }
    Tail > .tail--here { background: $panel; text-style: bold; }
    Tail > .tail--chosen { text-style: underline; }
    Tail > .tail--destructive { color: $error; }
    Tail > .tail--insert { color: $success; }
    Tail > .tail--update { color: $warning; }
    Tail > .tail--command { color: $accent; }
    Tail > .tail--break { color: $warning; text-style: bold; }
    Tail:ansi > .table--header { color: ansi_default; text-style: bold underline; }
    Tail:ansi > .tail--here { background: ansi_default; color: ansi_default; text-style: reverse; }
    """
    COMPONENT_CLASSES = {  # noqa: RUF012
        "table--header",
        "tail--here",
        "tail--chosen",
        "tail--destructive",
        "tail--insert",
        "tail--update",
        "tail--command",
        "tail--break",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "mark", "Select", show=False, id="tail.mark", tooltip="Start or drop a selection of rows"),
    ]

    class FollowChanged(Message):
        """It stopped following, or follows again."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ring = RowRing()
        self.following = True
        self.majority: Ts | None = None
        self.marked: int | None = None

    @property
    def count(self) -> int:
        """How many rows can be scrolled through."""
        return len(self.ring.rows)

    @property
    def selected(self) -> Sequence[OplogRow]:
        """The rows from the mark to the cursor, or the one under the cursor."""
        if not self.ring.rows:
            return ()
        marked = self.cursor if self.marked is None else self.marked
        return self.ring.rows[min(marked, self.cursor) : max(marked, self.cursor) + 1]

    def add(self, rows: Sequence[OplogRow], dropped: int, majority: Ts | None) -> None:
        """Take what arrived, and show it if it follows."""
        newest = rows[-1].ts if rows else self.ring.rows[-1].ts if self.ring.rows else None
        self.majority = majority if majority and newest and newest.t - majority.t >= _MAJORITY_SECONDS else None
        gone = self.ring.add(rows, dropped)
        if self.following:
            self.cursor = max(0, self.count - 1)
            self.marked = None
        else:
            self.cursor, self.top = max(0, self.cursor - gone), max(0, self.top - gone)
        self.keep_in_view()
        self.show_changes()

    def replace(self, rows: Sequence[OplogRow]) -> None:
        """Show these rows of the past, from the first, and do not follow."""
        self.ring.clear()
        self.ring.add(rows)
        self.ring.hold()
        self.following, self.cursor, self.top, self.marked = False, 0, 0, None
        self.show_changes()

    def restart(self, said: Sequence[str] = ()) -> None:
        """Forget the rows and follow. ``said`` stands there until rows come."""
        self.ring.clear()
        self.following, self.cursor, self.top, self.marked = True, 0, 0, None
        self.say(said)

    def say(self, said: Sequence[str]) -> None:
        """Set what stands there while there are no rows."""
        self.said = said
        self.show_changes()

    def move_to(self, index: int) -> None:
        """Move the cursor; away from the newest row it stops following, past it it follows again."""
        if self.following and index < self.count - 1:
            self.following = False
            self.ring.hold()
            self.post_message(self.FollowChanged())
        elif not self.following and index >= self.count:
            self.follow()
            return
        super().move_to(index)

    def follow(self) -> None:
        """Follow again, from the newest row."""
        self.ring.release()
        self.following, self.marked = True, None
        super().move_to(self.count - 1)
        self.post_message(self.FollowChanged())

    def action_go(self, index: int) -> None:
        """The end follows again."""
        if index < 0:
            self.follow()
        else:
            super().action_go(index)

    def action_mark(self) -> None:
        """Start a selection at the cursor, or drop it."""
        self.marked = self.cursor if self.marked is None else None
        if self.following:
            self.following = False
            self.ring.hold()
            self.post_message(self.FollowChanged())
        self.show_changes()

    def at(self, index: int) -> OplogRow:
        """The row itself."""
        return self.ring.rows[index]

    def header(self, width: int) -> Iterable[Piece]:
        """The titles."""
        return ((header(width), "table--header"),)

    def row(self, index: int, width: int, here: bool) -> Iterable[Piece]:
        """One row."""
        over = "tail--here" if here and not self.following else ""
        if self.marked is not None and min(self.marked, self.cursor) <= index <= max(self.marked, self.cursor):
            over = f"tail--chosen {over}".strip()
        for text, style in row_pieces(self.ring.rows[index], width, self.majority):
            yield text, f"{style} {over}".strip()
