"""The incidents as a table: losses first, the newest on top, what is not sure folded by its kind, routine hidden. The
same on every page.

The rows hold still while they are read: from the first key on, what is new is only counted, until it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import Binding, BindingType

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident, IncidentScan
from tallyglass.text import clean, plural
from tallyglass_tui import bound, clock
from tallyglass_tui.incidents.cells import INCIDENT_COLUMNS, TITLE, about, as_known, incident_cell
from tallyglass_tui.incidents.filter import INCIDENT_FILTER_HELP, IncidentFilter
from tallyglass_tui.incidents.fold import Fold, fold
from tallyglass_tui.incidents.report import ask_for_report
from tallyglass_tui.shell.feed import Feed
from tallyglass_tui.shell.incidents import by_urgency, key_of, share_incidents, share_sources
from tallyglass_tui.shell.page import NOTHING_SELECTED, Page
from tallyglass_tui.widgets.cells import fit, whole_pieces
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column, LiveTable

if TYPE_CHECKING:
    from tallyglass.restore.plan.at_hand import SourcesAtHand

INCIDENT_PROMPT = f"Filter incidents: {INCIDENT_FILTER_HELP}"


class IncidentTable(LiveTable):
    """The table. Its keys name incidents: :meth:`find` gives the incident of one."""

    NEEDS_ROW = LiveTable.NEEDS_ROW | {"report"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "routine", "Routine", id="incidents.routine", tooltip="Show or hide what is routine"),
        Binding("e", "report", "Report", id="incidents.report", tooltip="Write a report of this incident to pass on"),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(INCIDENT_COLUMNS, id=id)
        self.scan: IncidentScan | None = None
        self.filter = IncidentFilter()
        self.with_routine = False
        self.lost = False
        """Whether the server does not answer: what went on then may have ended."""
        self.new = 0
        """How many incidents are not among the rows yet, since the rows hold still."""
        self.gone = 0
        """How many are among the rows only since these hold still: more of the oplog made them routine, or a part of
        another one."""
        self._held = False
        self._feed: Feed[IncidentScan] | None = None
        self._sources: SourcesAtHand | None = None
        self._ordered: list[Incident] = []
        self._rows: list[Incident | Fold] = []
        self._unfolded = frozenset[str]()

    def follow(self, show: Callable[[IncidentScan], None]) -> Feed[IncidentScan]:
        """Read the incidents, and from what each could come back, for this page; ``show`` is called with each scan."""
        page = self._page
        self._feed = page.subscribe(share_incidents(page.feeds), show)
        page.subscribe(share_sources(page.feeds, page.shell.context.backup), self.show_sources)
        return self._feed

    @property
    def refusal(self) -> str:
        """Why no incidents can be read; empty where they are, or may be once the server is back."""
        trouble = self._feed.trouble if self._feed else None
        return "" if trouble is None or trouble.lost else trouble.line

    @property
    def _page(self) -> Page:
        return cast("Page", self.screen)

    @property
    def incidents(self) -> Sequence[Incident]:
        """The incidents that are shown or folded, in the order of the rows."""
        return self._ordered

    @property
    def selected(self) -> Incident | None:
        """The one under the cursor; None on the row of several."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        return row if isinstance(row, Incident) else None

    @property
    def newest(self) -> Incident | None:
        """The one that began last, also while the rows hold still."""
        return max(self._wanted, key=lambda one: one.first, default=None)

    def after(self, ts: Ts) -> Incident | None:
        """The first one that began after a timestamp, also while the rows hold still."""
        later = [one for one in self._wanted if one.first > ts]
        return min(later, key=lambda one: one.first, default=None)

    @property
    def _wanted(self) -> list[Incident]:
        """What the last scan has and the list would show, in its order."""
        hides_routine = not (self.with_routine or self.filter.text)
        return by_urgency(
            one
            for one in (self.scan.incidents if self.scan else ())
            if self.filter.shows(one) and not (hides_routine and one.routine)
        )

    def find(self, key: object) -> Incident | None:
        """The incident with this key; None if it no longer exists."""
        return next((one for one in self.incidents if key_of(one) == key), None)

    def same_as(self, incident: Incident) -> Incident | None:
        """An incident as it is known now; None if it no longer exists."""
        return self.find(key_of(incident))

    def set_filter(self, text: str) -> None:
        """Show only the incidents that match. Raises InputError if the text is not a valid filter."""
        self.filter = IncidentFilter.parse(text)
        self.release()

    def about(self, width: int) -> list[Piece]:
        """The incident under the cursor, in one line."""
        return about(self.selected, width) if self.selected else []

    def show_sources(self, sources: SourcesAtHand) -> None:
        """Show from where each could come back."""
        self._sources = sources
        self.show_scan(self.scan)

    def action_routine(self) -> None:
        """Show what is routine below the rest, or hide it."""
        self.with_routine = not self.with_routine
        self.release()

    def action_report(self) -> None:
        """Ask for a report of the incident under the cursor."""
        if self.selected is None:
            self._page.say(NOTHING_SELECTED)
        else:
            self._held = True
            ask_for_report(self, self.selected)

    def header(self, width: int) -> Iterable[Piece]:
        """The titles; beside that of the incidents how many are new, and where one is in a list that scrolls."""
        # What is new goes before what went: nobody who reads "3 changed" would expect a loss among them.
        changed = f"{self.new:,} new" if self.new else f"{self.gone:,} gone" if self.gone else ""
        new = f" · {changed}: {bound.key('list.first', 'g')}" if changed else ""
        place = f" · {self.cursor + 1}/{self.count}" if self.count > self.page_rows else ""
        for text, style in super().header(width):
            if text.rstrip() != TITLE:
                yield text, style
                continue
            beside = whole_pieces([(TITLE, style), (new, f"{style} table--warn"), (place, style)], len(text))
            yield from beside
            yield " " * (len(text) - sum(len(one) for one, _ in beside)), style

    def release(self) -> None:
        """Sort the rows again, with what came in meanwhile."""
        self._held = False
        scan, self.scan = self.scan, None
        self.show_scan(scan)

    def move_to(self, index: int) -> None:
        """Put the cursor on a row; from then on the rows hold still."""
        self._held = True
        super().move_to(index)

    def action_choose(self) -> None:
        """Choose the row under the cursor, or unfold it; the rows hold still for whoever comes back."""
        self._held = True
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else None
        if isinstance(row, Fold):
            self._unfolded ^= {row.key}
            self.show_scan(self.scan)
        else:
            super().action_choose()

    def row(self, index: int, width: int, here: bool) -> Iterable[Piece]:
        """The cells of an incident, or the line of several."""
        row = self._rows[index]
        if isinstance(row, Incident):
            return super().row(index, width, here)
        over = "table--here" if here else ""
        hint = f"{bound.key('list.open', 'Enter')} {'hides' if row.key in self._unfolded else 'shows'} them "
        room = width - len(hint) - 1
        named = "".join(text for text, _ in whole_pieces([(f"?  {row.title}", ""), (f" {row.where}", "")], room))
        return (f"{fit(named, room)} ", over), (hint, over or "table--muted")

    def action_go(self, index: int) -> None:
        """To a row; to the first one also lets in what is new."""
        super().action_go(index)
        if index == 0:
            self.release()
            super().move_to(0)

    def show_scan(self, scan: IncidentScan | None, why_none: str = "") -> None:
        """Show the incidents of a scan; None before the first result. ``why_none`` says why there can be none."""
        if scan is not self.scan:
            self.scan = scan
            self._ordered = self._rows_of(scan) if scan else []
        now = clock.now()
        rows: list[Incident | Fold] = [*self._ordered]
        if not self.filter.text:
            rows = fold(self._ordered, self._unfolded)
        self._rows = rows

        def cell(index: int, column: Column, width: int) -> Sequence[Piece]:
            row = rows[index]
            if isinstance(row, Fold):
                return ()
            return incident_cell(as_known(row, lost=self.lost), now, column, width, self._sources)

        keys = [key_of(row) if isinstance(row, Incident) else row.key for row in rows]
        self.show(keys, cell, (why_none or self._empty_text_of(scan),))
        if not self._held and self.top:
            self.top = 0
            self.keep_in_view()
            self.show_changes()

    def _empty_text_of(self, scan: IncidentScan | None) -> str:
        if scan is None:
            return self.refusal or "Reading the oplog back ..."
        if self.filter.text and scan.incidents:
            none = f"None of {plural(len(scan.incidents), 'incident')} matches '{clean(self.filter.text, 60)}'."
            return f"{none} {bound.key('page.back', 'Esc')} clears it."
        if not scan.done:
            return "Reading the oplog back ..."
        shows = f" What is routine is hidden: {bound.key('incidents.routine', 'a')} shows it."
        return "No drop, mass delete or mass update stands out in this oplog." + shows * bool(scan.incidents)

    def _rows_of(self, scan: IncidentScan) -> list[Incident]:
        wanted = self._wanted
        if not (self._held and self._ordered):
            self.new = self.gone = 0
            return wanted
        known = {key_of(one): one for one in scan.incidents}
        held = [known.get(key_of(one), one) for one in self._ordered]
        shown = {key_of(one) for one in held}
        self.new = sum(key_of(one) not in shown for one in wanted)
        self.gone = len(held) + self.new - len(wanted)
        return held
