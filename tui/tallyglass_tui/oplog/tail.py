"""The tail: new rows as they arrive, until the user scrolls up; then the view is fixed until the user follows again."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from tallyglass.moment import Ts
from tallyglass.oplog.filter.compile import CompiledFilter
from tallyglass.oplog.snapshot import OplogRow, RowKind
from tallyglass_tui.oplog.row_ring import RowRing
from tallyglass_tui.oplog.rows import header, row_pieces, wrapped_pieces
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.row_list import RowList

_PREVIEWED = 1_000
"""Rows on which a filter is previewed while it is typed: each key must stay fast."""

_MAJORITY_SECONDS = 2
"""The lag of the majority point above which rows are marked: less is normal for any replica set."""

_SCROLL_SECONDS = 0.45
"""The tail scrolls at most this often: every scroll sends the whole view, and nobody reads faster."""


class Tail(RowList):
    """Rows of the oplog. While following, the cursor stays on the newest row; moving up stops that, End resumes it."""

    DEFAULT_CSS = """
    Tail { height: 1fr; }
    Tail > .table--header { text-style: bold; color: $text-muted; }
    Tail > .tail--here { background: $panel; text-style: bold; }
    Tail > .tail--chosen { text-style: underline; }
    Tail > .tail--destructive { color: $error; }
    Tail > .tail--insert { color: $success; }
    Tail > .tail--update { color: $warning; }
    Tail > .tail--command { color: $accent; }
    Tail > .tail--found { background: $warning; color: $background; }
    Tail > .tail--break { color: $warning; text-style: bold; }
    Tail:ansi > .table--header { color: ansi_default; text-style: bold underline; }
    Tail:ansi > .tail--found { background: ansi_default; color: ansi_default; text-style: reverse; }
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
        "tail--found",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "mark", "Select", show=False, id="tail.mark", tooltip="Start or drop a selection of rows"),
        Binding("ctrl+w", "wrap", "Wrap", show=False, id="tail.wrap", tooltip="Wrap long rows, or cut them"),
    ]

    class FollowChanged(Message):
        """It stopped following, or follows again."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.ring = RowRing()
        self.following = True
        self.majority: Ts | None = None
        self.marked: int | None = None
        self.wraps = False
        self._lines: list[tuple[int, list[Piece]]] | None = None
        self._found: re.Pattern[str] | None = None
        self._place = (0, 0)
        self._waiting: Sequence[str] = ()
        self._drawn_at = 0.0
        self._shown: tuple[CompiledFilter, list[OplogRow]] | None = None

    @property
    def rows(self) -> Sequence[OplogRow]:
        """The rows that can be scrolled through."""
        return self.ring.rows if self._shown is None else self._shown[1]

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def highlight(self, found: re.Pattern[str] | None) -> None:
        """Highlight what matches, in all rows."""
        self._found = found
        self.show_changes()

    def preview(self, matcher: CompiledFilter | None) -> None:
        """Preview a filter on the newest rows while it is typed; None shows all again."""
        if matcher is None and self._shown is None:
            return
        if self._shown is None:
            self._place = (self.cursor, self.top)
            self._waiting = self.empty_text
        newest = self.ring.rows[-_PREVIEWED:]
        self.empty_text = self._waiting if matcher is None else (f"None of the newest {len(newest):,} rows matches.",)
        self._shown = None if matcher is None else (matcher, [row for row in newest if _passes(row, matcher)])
        self.cursor, self.marked = max(0, self.count - 1), None
        if self._shown is None and not self.following:
            self.cursor, self.top = self._place
        self.keep_in_view()
        self.show_changes()

    def stop_at(self, index: int) -> None:
        """Put the cursor on a row and stop following, also on the newest row."""
        self._stop()
        self.move_to(index)

    @property
    def selected(self) -> Sequence[OplogRow]:
        """The rows from the mark to the cursor, or the one under the cursor."""
        if not self.rows:
            return ()
        marked = self.cursor if self.marked is None else self.marked
        return self.rows[min(marked, self.cursor) : max(marked, self.cursor) + 1]

    def add(self, rows: Sequence[OplogRow], dropped: int, majority: Ts | None) -> None:
        """Add new rows, and show them if the tail follows."""
        newest = rows[-1].ts if rows else self.ring.rows[-1].ts if self.ring.rows else None
        self.majority = majority if majority and newest and newest.t - majority.t >= _MAJORITY_SECONDS else None
        removed = self.ring.add(rows, dropped)
        if self._shown is not None:
            self.preview(self._shown[0])
            return
        if self.following:
            self.cursor = max(0, self.count - 1)
            self.marked = None
        else:
            self.cursor, self.top = max(0, self.cursor - removed), max(0, self.top - removed)
        self.keep_in_view()
        if not self.following or self.count <= self.page_rows or self._undrawn_seconds >= _SCROLL_SECONDS:
            self._draw()

    @property
    def _undrawn_seconds(self) -> float:
        return time.monotonic() - self._drawn_at

    def _draw(self) -> None:
        self._drawn_at = time.monotonic()
        self.show_changes()

    def draw_if_due(self) -> None:
        """Draw rows that arrived too soon after others."""
        if self._undrawn_seconds >= 2 * _SCROLL_SECONDS:
            self._draw()

    def replace(self, rows: Sequence[OplogRow]) -> None:
        """Show these past rows, from the first, and do not follow."""
        self.ring.hold_past(rows)
        self._shown = None
        self.following, self.cursor, self.top, self.marked = False, 0, 0, None
        self.show_changes()

    def restart(self, empty_text: Sequence[str] = ()) -> None:
        """Clear the rows and follow. ``empty_text`` is shown until rows arrive."""
        self.ring.clear()
        self._shown = None
        self.following, self.cursor, self.top, self.marked = True, 0, 0, None
        self.say(empty_text)

    def say(self, empty_text: Sequence[str]) -> None:
        """Set the text that is shown while there are no rows; while a filter is previewed, the one after it."""
        if self._shown is None:
            self.empty_text = empty_text
        else:
            self._waiting = empty_text
        self.show_changes()

    def move_to(self, index: int) -> None:
        """Move the cursor: leaving the newest row stops following, moving past it resumes."""
        if self.following and index < self.count - 1:
            self._stop()
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
        """Go to the row at ``index``; a negative one follows the newest row again."""
        if index < 0:
            self.follow()
        else:
            super().action_go(index)

    def action_mark(self) -> None:
        """Start a selection at the cursor, or drop it."""
        self.marked = self.cursor if self.marked is None else None
        self._stop()
        self.show_changes()

    def _stop(self) -> None:
        """Stop following."""
        if self.following:
            self.following = False
            self.ring.hold()
            self.post_message(self.FollowChanged())

    def at(self, index: int) -> OplogRow:
        """The row at this index."""
        return self.rows[index]

    def header(self, width: int) -> Iterable[Piece]:
        """The titles of the columns."""
        return ((header(width), "table--header"),)

    def row(self, index: int, width: int, here: bool) -> Iterable[Piece]:
        """The pieces of the row at ``index``."""
        return self._styled(index, here, row_pieces(self.rows[index], width, self.majority))

    def _styled(self, index: int, here: bool, pieces: Iterable[Piece]) -> Iterable[Piece]:
        """The pieces with the cursor, the selection and what was searched for."""
        over = "tail--here" if here and not self.following else ""
        if self.marked is not None and min(self.marked, self.cursor) <= index <= max(self.marked, self.cursor):
            over = f"tail--chosen {over}".strip()
        for text, style in pieces:
            yield from _highlighted(text, f"{style} {over}".strip(), self._found)

    # Wrapped rows

    def action_wrap(self) -> None:
        """Show long rows on several lines, or cut them."""
        self.wraps = not self.wraps
        self.keep_in_view()
        self.show_changes()

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """A line: where rows are wrapped, a part of one."""
        if not self.wraps or y < self.HEADER_LINES or not self.count:
            return super().pieces(y, width)
        lines = self._visible_lines(width)
        if y - self.HEADER_LINES >= len(lines):
            return ()
        index, pieces = lines[y - self.HEADER_LINES]
        return self._styled(index, index == self.cursor, pieces)

    def index_at(self, y: int) -> int | None:
        """The row at line ``y``."""
        if not self.wraps:
            return super().index_at(y)
        lines = self._visible_lines(self.content_size.width)[max(y - self.HEADER_LINES, 0) :]
        return lines[0][0] if lines and y >= self.HEADER_LINES else None

    def show_changes(self) -> None:
        """Send what differs from what was shown."""
        self._lines = None
        super().show_changes()

    def keep_in_view(self) -> None:
        """Scroll as little as it takes to show the cursor, with all lines of its row."""
        if not (self.wraps and self.count):
            super().keep_in_view()
            return
        self.top = max(min(self.top, self.cursor, self._top_for(self.count - 1)), self._top_for(self.cursor), 0)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        if not self.wraps:
            super().action_page(pages)
            return
        shown = len({index for index, _ in self._visible_lines(self.content_size.width)})
        self.move_to(self.cursor + pages * max(1, shown - 1))

    def _wrapped(self, index: int, width: int) -> list[list[Piece]]:
        return wrapped_pieces(self.rows[index], width, self.majority)[: self.page_rows]

    def _visible_lines(self, width: int) -> list[tuple[int, list[Piece]]]:
        """The row of each line below the header, and its pieces."""
        if self._lines is None:
            self._lines, index = [], self.top
            while len(self._lines) < self.page_rows and index < self.count:
                self._lines += [(index, pieces) for pieces in self._wrapped(index, width)]
                index += 1
        return self._lines

    def _top_for(self, last: int) -> int:
        """The first row that may be on top so that all of row ``last`` is shown."""
        width, room, index = self.content_size.width, self.page_rows, last
        while index >= 0 and (room := room - len(self._wrapped(index, width))) >= 0:
            index -= 1
        return min(index + 1, last)


def _passes(row: OplogRow, matcher: CompiledFilter) -> bool:
    return row.kind is not RowKind.ENTRY or matcher.wants(row.raw)


def _highlighted(text: str, style: str, found: re.Pattern[str] | None) -> Iterable[Piece]:
    """A piece, cut where it matches."""
    at = 0
    for match in found.finditer(text) if found is not None else ():
        if match.start() > at:
            yield text[at : match.start()], style
        yield match[0], f"{style} tail--found".strip()
        at = match.end()
    if at < len(text):
        yield text[at:], style
