"""Search among the rows of the tail: matches are highlighted, and the cursor moves from one to another."""

from __future__ import annotations

import re

from tallyglass.oplog.snapshot import OplogRow
from tallyglass_tui import bound
from tallyglass_tui.oplog.views import OplogViews


class RowSearch:
    """The search text, case-insensitive; empty for none."""

    def __init__(self, page: OplogViews) -> None:
        self._page = page
        self.text = ""

    def type(self, text: str) -> None:
        """Highlight matches of the text typed so far."""
        self._page.tail.highlight(re.compile(re.escape(text), re.IGNORECASE) if text else None)

    def take(self, text: str) -> None:
        """Search for a text: go to the newest match at or above the cursor, otherwise to the first below. Empty ends
        the search."""
        self.text = text
        self.type(text)
        tail = self._page.tail
        if text and not (self._go(range(min(tail.cursor, tail.count - 1), -1, -1)) or self._go(self._below)):
            self._page.say(f"No match among these rows; {bound.key('oplog.filter', '&')} filters the whole oplog.")

    def leave(self) -> None:
        """Highlight the previous search again."""
        self.type(self.text)

    def next(self) -> None:
        """Go to the next match below."""
        if not self.text:
            self._page.say(_none())
        elif not self._go(self._below):
            previous, newest = bound.key("oplog.previous", "N"), bound.key("list.last", "G")
            self._page.say(f"No more matches below in these rows; {previous} goes up, {newest} to the newest.")

    def previous(self) -> None:
        """Go to the next match above."""
        if not self.text:
            self._page.say(_none())
        elif not self._go(range(self._page.tail.cursor - 1, -1, -1)):
            self._page.say(f"No more matches above; {bound.key('oplog.next', 'n')} goes down.")

    @property
    def _below(self) -> range:
        tail = self._page.tail
        return range(tail.cursor + 1, tail.count)

    def _go(self, places: range) -> bool:
        tail, text = self._page.tail, self.text.casefold()
        found = next((place for place in places if _holds(tail.rows[place], text)), None)
        if found is not None:
            tail.stop_at(found)
        return found is not None


def _none() -> str:
    return f"There is no search to repeat; {bound.key('oplog.search', '/')} starts one."


def _holds(row: OplogRow, text: str) -> bool:
    return any(text in part.casefold() for part in (row.ns, row.id, row.what, row.shard))
