"""Oplog: who changed or deleted what, and when. The live tail, one entry, the incidents, the rates."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from tallyglass.errors import InputError
from tallyglass.moment import Ts, parse_since
from tallyglass.oplog.filter.query import OplogFilter, words_for
from tallyglass.oplog.snapshot import IncidentScan, OplogRow, OplogUpdate
from tallyglass.text import clean
from tallyglass_tui import format as fmt
from tallyglass_tui.oplog import reads as oplog_reads
from tallyglass_tui.oplog.incident_list import IncidentList
from tallyglass_tui.oplog.jumps import Jumps
from tallyglass_tui.oplog.opened_text import OpenedText
from tallyglass_tui.oplog.rate_list import RateList
from tallyglass_tui.oplog.selection import Selection
from tallyglass_tui.oplog.state import scan_lines, state_lines
from tallyglass_tui.oplog.tail import Tail
from tallyglass_tui.shell.feed import Feed
from tallyglass_tui.shell.incidents import share_incidents
from tallyglass_tui.shell.messages import OplogRequested, Visit
from tallyglass_tui.shell.page import Page
from tallyglass_tui.widgets.filter_box import FilterBox
from tallyglass_tui.widgets.row_list import RowList
from tallyglass_tui.widgets.text_line import TextLines

_FILTER_HELP = "ns:shop.* ns:!*.tmp op:du id:42 destructive text /regex/"
_FILTER_ASKS = f"Filter: {_FILTER_HELP}"
_TIME_ASKS = "Go to: 18:06 or 2026-11-20 18:06 (both UTC), now-5m, or 1795197974:14"
_SILENCE = 45.0


class OplogPage(Page):
    """The tail and what can be opened from it."""

    TITLE = "Oplog"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "i", "incidents", "Incidents", id="oplog.incidents", tooltip="What people did: drops, mass deletes ..."
        ),
        Binding("r", "restore", "Restore", id="oplog.restore", tooltip="Plan a restore to just before this"),
        Binding("t", "time", "Time", id="oplog.time", tooltip="Go to a moment"),
        Binding("n", "destructive", "Next !", id="oplog.destructive", tooltip="To the next destructive operation"),
        Binding("a", "rates", "Activity", id="oplog.rates", tooltip="Operations a second by namespace"),
        Binding("N", "next_incident", "Next incident", show=False, id="oplog.incident", tooltip="To the next incident"),
        Binding("x", "document", "History", show=False, id="oplog.document", tooltip="This document's history"),
        Binding("X", "transaction", "Transaction", show=False, id="oplog.transaction", tooltip="This transaction"),
        Binding("s", "save", "Save", show=False, id="oplog.save", tooltip="Save what is selected as JSON lines"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._jumps = Jumps(self)
        self._selection = Selection(self)
        self._views = ["tail"]
        self._past = ""
        self._wanted = OplogFilter()
        self._wanted_text = ""
        self._incident_feed: Feed[IncidentScan] | None = None
        self._feed: Feed[OplogUpdate] | None = None
        self._last: OplogUpdate | None = None
        self._visited = False
        self._asking = ""

    def compose_body(self) -> ComposeResult:
        """Two lines of state, one of four views, and the line to type into."""
        yield TextLines(id="state")
        yield Tail(id="tail")
        yield OpenedText(id="text")
        yield IncidentList(id="incidents")
        yield RateList(id="rates")
        yield FilterBox(_FILTER_ASKS, id="box")

    def start(self) -> None:
        """Begin to follow."""
        self._show_view()
        self._follow()

    # --- the tail ---------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        wanted = self._wanted
        self._past = ""
        self._last = None
        self.tail.restart((_no_oplog(self) or "Reading the oplog ...",))
        self._feed = self.feeds.follow(
            "oplog", lambda gateway: oplog_reads.follow(gateway, wanted), merge=oplog_reads.merge, silence=_SILENCE
        )
        self.subscribe(self._feed, self._show_update)
        self.show_lines()

    def _show_update(self, update: OplogUpdate) -> None:
        self._last = update
        if not self._past:
            self.tail.add(update.rows, update.dropped, update.majority)
            if not self.tail.count:
                self.tail.say((self._waiting_line(),))
        self.show_lines()
        self._show_rates()

    def on_tick(self, message: object) -> None:
        """Show why there is nothing, where there is nothing, and keep the ages true."""
        if not self.tail.count and self._feed and self._feed.trouble:
            self.tail.say((self._feed.trouble.line,))
        if self.view == "incidents":
            self.incidents.show_scan(self.incidents.scan)

    def _waiting_line(self) -> str:
        if self._wanted_text:
            return (
                f"Nothing that matches '{self._wanted_text[:60]}' yet. It is applied as entries arrive; Esc drops it."
            )
        if self._last and self._last.trouble:
            return "No entry has arrived since this was opened. What was written meanwhile is not known."
        return "No entry has arrived since this was opened. t goes to a moment in the past."

    @on(Tail.FollowChanged)
    def _follow_changed(self) -> None:
        if self.tail.following:
            self._visited = False
            if self._past:
                self._follow()
        self.show_lines()
        self.refresh_bindings()

    @on(RowList.Chosen, "#tail")
    def _entry_chosen(self, message: RowList.Chosen) -> None:
        if isinstance(message.chosen, OplogRow):
            self.opened.show_entry(message.chosen, self._last.majority if self._last else None)
            self._go("text")

    # --- filter, jumps ----------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Type a filter."""
        self._asking = "filter"
        self._box.open(self._wanted_text, _FILTER_ASKS)

    def action_time(self) -> None:
        """Type a moment."""
        self._asking = "time"
        self._box.open("", _TIME_ASKS)

    @on(FilterBox.Taken)
    def _taken(self, message: FilterBox.Taken) -> None:
        text = message.text.strip()
        try:
            if self._asking == "filter":
                self.set_filter(text)
            elif text:
                self._visited = False
                self._jumps.to(parse_since(_with_day(text)))
        except InputError as error:
            self._box.refuse()
            self.say(str(error))
            self._focus_view()

    def set_filter(self, text: str) -> None:
        """Show only what matches ``text``. Raises InputError for a text that is no filter."""
        self._wanted = OplogFilter.parse(text)
        self._wanted_text = text
        self._visited = False
        self.show_tail()
        self._follow()
        self.refresh_bindings()

    def visit(self, message: Visit) -> None:
        """Another page names a moment; Esc goes straight back to it, until something else is looked for here."""
        if isinstance(message, OplogRequested):
            self._visited = True
            self._jumps.to(message.at)

    def show_past(self, at: Ts, rows: Sequence[OplogRow], said: str) -> None:
        """Show entries of the past, read from ``at`` on, in place of the live tail; then say something."""
        self.show_tail()
        if not rows:
            self.say(f"No entry at or after {fmt.moment(at.time)}.")
            return
        self._past = f"the past from {fmt.moment(rows[0].ts.time)}, {fmt.plural(len(rows), 'entry', 'entries')}"
        self.tail.replace(rows)
        self.say(said)
        self.show_lines()
        self.refresh_bindings()

    def action_destructive(self) -> None:
        """To the next destructive entry."""
        self._jumps.to_destructive()

    def action_next_incident(self) -> None:
        """To the next incident."""
        self._jumps.to_incident()

    # --- what is selected -------------------------------------------------------------------------------------

    def action_restore(self) -> None:
        """Open the restore page at what is selected."""
        self._selection.restore()

    def action_save(self) -> None:
        """Save what is selected."""
        self._selection.save()

    def action_document(self) -> None:
        """Only entries of the document of this one."""
        self._selection.only_document()

    def action_transaction(self) -> None:
        """Only entries of the transaction of this one."""
        self._selection.only_transaction()

    def to_copy(self) -> tuple[str, str] | None:
        """The entry or incident in full, or the rows that are selected."""
        return self._selection.to_copy()

    def run_alone(self, work: Coroutine[Any, Any, None], group: str) -> None:
        """Run a coroutine in the background; one that still runs in ``group`` is cancelled."""
        self.run_worker(work, group=group, exclusive=True, exit_on_error=False)

    # --- incidents and rates ----------------------------------------------------------------------------------

    def action_incidents(self) -> None:
        """The list of what people did."""
        self.watch_incidents()
        self._go("incidents")

    def watch_incidents(self) -> None:
        """Follow the incidents, if they are not followed yet."""
        if self._incident_feed is None:
            self._incident_feed = share_incidents(self.feeds)
            self.subscribe(self._incident_feed, self.show_scan)
            self.incidents.show_scan(None)

    def show_scan(self, scan: IncidentScan) -> None:
        """Show what is known of the incidents."""
        self.incidents.show_scan(scan)
        self.show_lines()
        self._jumps.take_scan(scan)

    @on(RowList.Chosen, "#incidents")
    def _incident_chosen(self, message: RowList.Chosen) -> None:
        chosen = self.incidents.find(message.chosen)
        if chosen is not None:
            self.opened.show_incident(chosen)
            self._go("text")

    def action_rates(self) -> None:
        """Operations a second by namespace."""
        self._go("rates")
        self._show_rates()

    def _show_rates(self) -> None:
        if self.view == "rates" and self._last is not None:
            self.query_one("#rates", RateList).show_update(self._last)

    @on(RowList.Chosen, "#rates")
    def _rate_chosen(self, message: RowList.Chosen) -> None:
        self.set_filter(words_for(str(message.chosen)))

    # --- views ------------------------------------------------------------------------------------------------

    @property
    def data_age(self) -> float | None:
        """Seconds since the member that is tailed last answered: a watch of incidents is silent by nature."""
        silent = self._feed.silent_seconds if self._feed else None
        return silent if silent is None or self._last is None else silent + self._last.answered_seconds

    @property
    def can_go_back(self) -> bool:
        """From a view, from the past, from a filter; but from where another page led, back to that page."""
        if len(self._views) == 1 and self._visited and self.shell.can_go_back:
            return False
        return len(self._views) > 1 or bool(self._past or self._wanted_text) or not self.tail.following

    def back(self) -> None:
        """One view back; then to the live tail; then away with the filter."""
        if len(self._views) > 1:
            self._views.pop()
            self._show_view()
        elif self._past or not self.tail.following:
            self.tail.follow()
        else:
            self.set_filter("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that only make sense in some views."""
        view = self.view
        if action in ("destructive", "document", "next_incident", "transaction"):
            return view == "tail"
        if action == "save":
            return view == "tail" or (view == "text" and self.opened.entry is not None)
        if action == "restore":
            return view != "rates"
        if action in ("incidents", "rates"):
            return view != action
        return super().check_action(action, parameters)

    def show_tail(self) -> None:
        """The tail alone."""
        self._views = ["tail"]
        self._show_view()

    def _go(self, view: str) -> None:
        self._jumps.stop_seeking()
        if self.view != view:
            self._views.append(view)
        self._show_view()

    def _show_view(self) -> None:
        for name in ("tail", "text", "incidents", "rates"):
            self.query_one(f"#{name}", Widget).display = name == self._views[-1]
        self._focus_view()
        self.show_lines()
        self.refresh_bindings()

    def _focus_view(self) -> None:
        self.give_keys(self.query_one(f"#{self._views[-1]}", Widget))

    def show_lines(self) -> None:
        """Say how things stand."""
        if self.view == "incidents":
            lines = scan_lines(self.incidents.scan)
        else:
            tail = self.tail
            told = self._past or ("" if tail.following else f"stopped, +{tail.ring.new:,} new")
            lines = state_lines(
                self._last, told, clean(self._wanted_text, 600), tail.ring.lost, self.size.width, live=not self._past
            )
        self.query_one("#state", TextLines).show(*lines, grow=True)

    def help_notes(self) -> Sequence[str]:
        """The words of the filter, and the marks."""
        return (
            f"A filter is words, all of which must hold: {_FILTER_HELP}. A ! before a value means not. since: and "
            "until: bound the time. The server does what it can of it, before anything is counted.",
            "x shows the history of one document, X the whole transaction; n goes to the next destructive entry, N to "
            "the next incident: from the live tail, to the newest.",
            "! marks what removes data or definitions; ? an entry that a majority does not hold yet.",
            "Up stops the tail, End follows again. v selects rows; y copies them and s saves them as JSON lines.",
        )

    @property
    def view(self) -> str:
        """The view that is on top: tail, text, incidents or rates."""
        return self._views[-1]

    @property
    def wanted(self) -> OplogFilter:
        """What the filter lets through."""
        return self._wanted

    @property
    def tail(self) -> Tail:
        """The rows."""
        return self.query_one("#tail", Tail)

    @property
    def incidents(self) -> IncidentList:
        """What people did."""
        return self.query_one("#incidents", IncidentList)

    @property
    def opened(self) -> OpenedText:
        """The entry or the incident that is opened."""
        return self.query_one("#text", OpenedText)

    @property
    def _box(self) -> FilterBox:
        return self.query_one("#box", FilterBox)


def _no_oplog(page: Page) -> str:
    deployment = page.shell.deployment
    return deployment.no_oplog_because() if deployment else ""


def _with_day(text: str) -> str:
    """A bare time of day means today, in UTC."""
    return f"{datetime.now(UTC):%Y-%m-%d} {text}" if len(text) in (5, 8) and text[2:3] == ":" else text
