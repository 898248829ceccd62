"""Search among the rows of the tail: matches are highlighted, and the cursor moves from one to another."""

from __future__ import annotations

import re

from tallyglass.oplog.snapshot import OplogRow
from tallyglass_tui import bound
from tallyglass_tui.oplog.views import OplogViews


class RowSearch(OplogViews):
    """The oplog page, as far as it searches. ``searched`` is the text, case-insensitive; empty for none."""

    def __init__(self) -> None:
        super().__init__()
        self.searched = ""

    def highlight(self, text: str) -> None:
        """Highlight matches of the text typed so far."""
        self.tail.highlight(re.compile(re.escape(text), re.IGNORECASE) if text else None)

    def search_for(self, text: str) -> None:
        """Search for a text: go to the newest match at or above the cursor, otherwise to the first below. Empty ends
        the search."""
        self.searched = text
        self.highlight(text)
        tail = self.tail
        if text and not (self._go_to(range(min(tail.cursor, tail.count - 1), -1, -1)) or self._go_to(self._rows_below)):
            self.say(f"No match among these rows; {bound.key('oplog.filter', '&')} filters the whole oplog.")

    def action_next(self) -> None:
        """Go to the next match below."""
        if not self.searched:
            self.say(_none())
        elif not self._go_to(self._rows_below):
            previous, newest = bound.key("oplog.previous", "N"), bound.key("list.last", "G")
            self.say(f"No more matches below in these rows; {previous} goes up, {newest} to the newest.")

    def action_previous(self) -> None:
        """Go to the next match above."""
        if not self.searched:
            self.say(_none())
        elif not self._go_to(range(self.tail.cursor - 1, -1, -1)):
            self.say(f"No more matches above; {bound.key('oplog.next', 'n')} goes down.")

    @property
    def _rows_below(self) -> range:
        tail = self.tail
        return range(tail.cursor + 1, tail.count)

    def _go_to(self, places: range) -> bool:
        tail, text = self.tail, self.searched.casefold()
        found = next((place for place in places if _holds(tail.rows[place], text)), None)
        if found is not None:
            tail.stop_at(found)
        return found is not None


def _none() -> str:
    return f"There is no search to repeat; {bound.key('oplog.search', '/')} starts one."


def _holds(row: OplogRow, text: str) -> bool:
    return any(text in part.casefold() for part in (row.ns, row.id, row.what, row.shard))
