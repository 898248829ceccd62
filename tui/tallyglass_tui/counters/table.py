"""The table of the counters, in which one line can stand for many that need nobody."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tallyglass.counters.snapshot import CounterView
from tallyglass_tui import bound
from tallyglass_tui.counters.order import FINE, Listing
from tallyglass_tui.widgets.cells import fit
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import CellSource, LiveTable

_NAMED = 40
"""How many counters the line of a group names at most, where there is room."""


class CounterTable(LiveTable):
    """The rows; :meth:`show_listing` also gives it the lines of the folded groups."""

    _folded: Mapping[str, Sequence[CounterView]] = {}
    _unfolded: frozenset[str] = frozenset()

    def show_listing(
        self, listing: Listing, unfolded: frozenset[str], cell: CellSource, empty_text: Sequence[str]
    ) -> None:
        """Show the lines of a listing, with the groups in ``unfolded`` open."""
        self._folded, self._unfolded = listing.folded, unfolded
        self.show(listing.keys, cell, empty_text)

    def row(self, index: int, width: int, here: bool) -> Iterable[Piece]:
        """The cells of a counter, or the line of a group: how many, and their names."""
        key = self.keys[index]
        group = self._folded.get(key)
        if group is None:
            return super().row(index, width, here)
        over = "table--here" if here else ""
        hint = f"{bound.key('list.open', 'Enter')} {'folds' if key in self._unfolded else 'unfolds'} "
        names = "" if key in self._unfolded else ", ".join(one.id or one.ns for one in group[:_NAMED])
        text = f"   {len(group):,} {'fine' if key == FINE else 'not sure'}: {names}"
        return (fit(text, width - len(hint) - 1) + " ", over), (hint, over or "table--muted")
