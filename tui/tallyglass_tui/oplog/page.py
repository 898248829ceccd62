"""Oplog: who changed or deleted what, and when. The live tail, one entry, the incidents, the rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from tallyglass.oplog.snapshot import IncidentScan, OplogRow
from tallyglass_tui import bound
from tallyglass_tui import format as fmt
from tallyglass_tui.incidents.table import INCIDENT_PROMPT, IncidentTable
from tallyglass_tui.oplog.following import TIME_PROMPT, Following
from tallyglass_tui.oplog.jumps import Jumps
from tallyglass_tui.oplog.opened_text import OpenedText
from tallyglass_tui.oplog.rate_list import RateList
from tallyglass_tui.oplog.search import RowSearch
from tallyglass_tui.oplog.selection import Selection
from tallyglass_tui.oplog.state import scan_lines
from tallyglass_tui.oplog.tail import Tail
from tallyglass_tui.shell.messages import OplogRequested, SearchRequested, Visit
from tallyglass_tui.widgets.input_line import InputLine
from tallyglass_tui.widgets.text_line import TextLines

_FILTER_HELP = "ns:shop.* ns:!*.tmp op:du id:42 destructive text /regex/"
_FILTER_PROMPT = f"Filter: {_FILTER_HELP}"
_SEARCH_PROMPT = "Search these rows: a part of a namespace, an _id or a value"


class OplogPage(Selection, RowSearch):
    """The tail and the views that open from it."""

    TITLE = "Oplog"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "incidents", "Incidents", id="oplog.incidents", tooltip="Incidents: drops, mass deletes ..."),
        Binding("r", "restore", "Restore", id="oplog.restore", tooltip="Plan a restore to just before this"),
        Binding("t", "time", "Time", id="oplog.time", tooltip="Go to a time"),
        Binding(
            "slash", "search", "Search", key_display="/", id="oplog.search", tooltip="Look for a text in these rows"
        ),
        Binding("ampersand", "filter", "Filter", key_display="&", id="oplog.filter", tooltip="Show only what matches"),
        Binding("n", "next", "Next match", show=False, id="oplog.next", tooltip="To the next match below"),
        Binding("N", "previous", "Previous match", show=False, id="oplog.previous", tooltip="To the next match above"),
        Binding(
            "exclamation_mark",
            "destructive",
            "Next !",
            key_display="!",
            id="oplog.destructive",
            tooltip="To the next destructive operation",
        ),
        Binding("a", "rates", "Activity", id="oplog.rates", tooltip="Operations a second by namespace"),
        Binding("I", "next_incident", "Next incident", show=False, id="oplog.incident", tooltip="To the next incident"),
        Binding("x", "document", "History", show=False, id="oplog.document", tooltip="This document's history"),
        Binding("X", "transaction", "Transaction", show=False, id="oplog.transaction", tooltip="This transaction"),
        Binding("w", "save", "Write", show=False, id="oplog.save", tooltip="Save the selection as JSON lines"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.following = Following(self)
        self._jumps = Jumps(self, self.following)
        self._reads_incidents = False
        self._visited = False

    def compose_body(self) -> ComposeResult:
        """Two lines of state, one of four views, and the line to type into."""
        yield TextLines(id="state")
        yield Tail(id="tail")
        yield OpenedText(id="text")
        yield IncidentTable(id="incidents")
        yield TextLines(id="about")
        yield RateList(id="rates")
        yield InputLine(id="input")

    def start(self) -> None:
        """Follow the oplog from now on."""
        self._show_view()
        self.following.start()

    # --- the tail ---------------------------------------------------------------------------------------------

    def on_tick(self, message: object) -> None:
        """Explain an empty view, and keep the ages up to date."""
        self.tail.draw_if_due()
        self.incidents.lost = self.is_lost
        self.following.explain_empty()
        if self.view == "incidents":
            self.incidents.show_scan(self.incidents.scan)
        elif self.view == "text":
            opened = self.opened.incident
            known = self.incidents.same_as(opened) if opened else None
            self.opened.renew(self.following.majority, known, lost=self.is_lost)

    def show_state(self) -> None:
        """Update the status and the lines below it: what they say of following ends with a pause."""
        super().show_state()
        self.show_lines()

    @on(Tail.FollowChanged)
    def _follow_changed(self) -> None:
        if self.tail.following:
            self._visited = False
            self.say("")  # how to return to the live tail
            if self.following.past:
                self.following.start()
        self.show_lines()
        self.refresh_bindings()

    @on(Tail.Chosen, "#tail")
    def _entry_chosen(self, message: Tail.Chosen) -> None:
        if isinstance(message.chosen, OplogRow):
            self.opened.show_entry(message.chosen, self.following.majority)
            self._go("text")

    # --- filter, jumps ----------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Type a filter: for the incidents if they are on top, otherwise for the entries."""
        if self.view == "incidents":
            self._input.open(INCIDENT_PROMPT, self._filter_incidents, self.incidents.filter.text, live=True)
        else:
            self._input.open(
                _FILTER_PROMPT,
                self._submit_filter,
                self.following.wanted_text,
                preview=self._preview_filter,
                cancel=lambda: self.tail.preview(None),
            )

    def action_search(self) -> None:
        """Ask for a text to search for; in the list of incidents, for a filter."""
        if self.view == "incidents":
            self.action_filter()
        else:
            self._input.open(
                _SEARCH_PROMPT, self.search_for, self.searched, preview=self.highlight,
                cancel=lambda: self.highlight(self.searched),
            )  # fmt: skip

    def action_time(self) -> None:
        """Ask for a time to go to."""
        self._input.open(TIME_PROMPT, self._submit_time, describe=fmt.time_meaning)

    def _submit_filter(self, text: str) -> None:
        self.set_filter(text.strip())

    def _submit_time(self, text: str) -> None:
        if not text.strip():
            return
        at = self.following.time(text)
        self._visited = False
        self._jumps.to(at)

    def _preview_filter(self, text: str) -> None:
        """Preview the filter on the loaded rows."""
        if self.view == "tail":
            self.following.preview(text)

    def set_filter(self, text: str) -> None:
        """Show only what matches ``text``. Raises InputError if it is not a valid filter."""
        self.following.set_filter(text)
        self._jumps.stop_reading()
        self._visited = False
        self.say("")
        self.show_tail()
        self.following.start()
        self.refresh_bindings()

    def visit(self, message: Visit) -> None:
        """Show a moment that another page asked for; Esc goes straight back to that page until the user looks for
        something else."""
        if isinstance(message, OplogRequested):
            self._visited = True
            self._jumps.to(message.at)
        elif isinstance(message, SearchRequested):
            self.set_filter(message.words)

    def show_past(self, rows: Sequence[OplogRow], note: str) -> None:
        """Show past entries, if there are any, in place of the live tail; then show a message."""
        self.show_tail()
        if rows:
            self.following.show_past(rows)
        self.say(note)
        self.show_lines()
        self.refresh_bindings()

    def action_destructive(self) -> None:
        """Go to the next destructive entry."""
        self._jumps.to_destructive()

    def action_next_incident(self) -> None:
        """Go to the next incident."""
        self._jumps.to_incident()

    # --- incidents and rates ----------------------------------------------------------------------------------

    def action_incidents(self) -> None:
        """Show the list of incidents."""
        self.read_incidents()
        self.incidents.release()
        self._go("incidents")

    def read_incidents(self) -> None:
        """Read the incidents, if they are not read yet."""
        if not self._reads_incidents:
            self._reads_incidents = True
            self.incidents.follow(self._show_scan)
            self.incidents.show_scan(None)

    def _show_scan(self, scan: IncidentScan) -> None:
        self.incidents.show_scan(scan)
        self._jumps.take_scan(scan)

    def _filter_incidents(self, text: str) -> None:
        self.incidents.set_filter(text)
        self.show_lines()
        self.refresh_bindings()

    @on(Tail.Chosen, "#incidents")
    def _incident_chosen(self, message: Tail.Chosen) -> None:
        chosen = self.incidents.find(message.chosen)
        if chosen is not None:
            self.opened.show_incident(chosen)
            self._go("text")

    @on(Tail.Moved, "#incidents")
    def _incident_moved(self) -> None:
        self.show_lines()

    def action_rates(self) -> None:
        """Show operations a second by namespace."""
        self._go("rates")

    @on(Tail.Chosen, "#rates")
    def _rate_chosen(self, message: Tail.Chosen) -> None:
        self.set_filter(str(message.chosen))

    # --- views ------------------------------------------------------------------------------------------------

    @property
    def data_age(self) -> float | None:
        """Seconds since the tailed member last answered. The feed of incidents does not count: it is often silent."""
        return self.following.data_age

    @property
    def can_go_back(self) -> bool:
        """Whether Esc leaves a view, the past or a filter; Esc returns to the page that sent the user here first."""
        if len(self._views) == 1 and self._visited and self.shell.can_go_back:
            return False
        return len(self._views) > 1 or self._is_elsewhere

    def back(self) -> None:
        """Go back one view; then to the live tail; then clear the filter."""
        if self.view == "incidents" and self.incidents.filter.text:
            self._filter_incidents("")
        elif len(self._views) > 1:
            self._views.pop()
            self._show_view()
        elif self.searched:
            self.search_for("")
        elif self.following.past or not self.tail.following:
            self.tail.follow()
        else:
            self.set_filter("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that only make sense in some views."""
        view = self.view
        if action in ("destructive", "next_incident"):
            return view == "tail"
        if action in ("next", "previous"):
            return view == "tail" and not self._input.is_open
        if action == "search":
            return view in ("tail", "incidents") and not self._input.is_open
        if action in ("document", "save", "transaction"):
            return view == "tail" or (view == "text" and self.opened.entry is not None)
        if action == "restore":
            return view != "rates"
        if action in ("incidents", "rates"):
            return view != action
        return super().check_action(action, parameters)

    def show_tail(self) -> None:
        """Show the live tail, without an opened entry."""
        self._views = ["tail"]
        self._show_view()

    def _go(self, view: str) -> None:
        self._jumps.stop_seeking()
        if self.view != view:
            self._views.append(view)
        self._show_view()

    def _show_view(self) -> None:
        for name in ("tail", "text", "incidents", "rates"):
            self.query_one(f"#{name}", Widget).display = name == self.view
        self.query_one("#about").display = self.view == "incidents"
        self.give_keys(self.query_one(f"#{self.view}", Widget))
        self.show_lines()
        self.refresh_bindings()

    def show_lines(self) -> None:
        """Update the lines around the view; the rates have none of their own."""
        width = self.size.width
        if self.view == "incidents":
            listed = self.incidents
            lines = scan_lines(
                listed.scan, width, listed.filter.text, len(listed.incidents), with_routine=listed.with_routine,
                silent=listed.lost, refused=bool(listed.refusal),
            )  # fmt: skip
            self.query_one("#about", TextLines).show(listed.about(width))
        else:
            lines = self.following.lines(width, silent=self.incidents.lost)
        if self.view == "rates" and self.following.last is not None:
            self.query_one("#rates", RateList).show_update(self.following.last)
        self.query_one("#state", TextLines).show(*lines, grow=True)

    def help_notes(self) -> Sequence[str]:
        """The words of the filter, and the marks."""
        return (
            f"A filter is words, all of which must hold: {_FILTER_HELP}. A ! before a value means not. since: and "
            "until: bound the time. The server does what it can of it, before anything is counted.",
            f"{bound.key('oplog.search', '/')} looks for a text among the rows that are here and "
            f"{bound.key('oplog.next', 'n')} and {bound.key('oplog.previous', 'N')} go from match to match; "
            f"{bound.key('oplog.filter', '&')} filters the oplog itself. In the list of incidents both filter the "
            "list, by name, time and text.",
            f"{bound.key('oplog.document', 'x')} shows the history of one document, "
            f"{bound.key('oplog.transaction', 'X')} the whole transaction; {bound.key('oplog.destructive', '!')} goes "
            f"to the next destructive entry, {bound.key('oplog.incident', 'I')} to the next incident: from the live "
            "tail, to the newest.",
            "Incidents: losses first, then mass changes, the newest on top; "
            f"{bound.key('incidents.routine', 'a')} shows what is routine. From the first key on the rows hold still, "
            f"and new ones are counted: {bound.key('list.first', 'g')} shows them. back? names what it could come back "
            "from: a backup from before it, or pre-images that are held, ? if that is not known; only a plan, with "
            f"{bound.key('oplog.restore', 'r')}, proves it. {bound.key('incidents.report', 'e')} writes a report.",
            "Their marks: !! is a loss, ! a mass change or a loss of low confidence, ~ a definition, such as an index, "
            "? what may be an application's own change. ~ before a number: some of these documents may be others'.",
            "In the tail ! marks what removes data or definitions, ? an entry that is not majority-committed yet.",
            f"{bound.key('list.up', 'Up')} stops the tail, {bound.key('list.last', 'End')} follows again. "
            f"{bound.key('tail.mark', 'v')} selects rows; {bound.key('page.copy', 'y')} copies them, "
            f"{bound.key('oplog.save', 'w')} writes them as JSON lines.",
        )

    @property
    def _is_elsewhere(self) -> bool:
        """Whether anything but the whole live tail is shown, or was searched for."""
        following = self.following
        return bool(following.past or following.wanted_text or self.searched) or not self.tail.following

    @property
    def _input(self) -> InputLine:
        return self.query_one("#input", InputLine)
