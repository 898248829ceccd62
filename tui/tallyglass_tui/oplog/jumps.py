"""Ways about the oplog: to a moment, to the next destructive entry, to the next incident."""

from __future__ import annotations

from textual import work

from tallyglass.errors import TallyglassError
from tallyglass.moment import Ts
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.snapshot import IncidentScan
from tallyglass_tui import format as fmt
from tallyglass_tui.oplog import reads as oplog_reads
from tallyglass_tui.oplog.incident_list import IncidentList
from tallyglass_tui.oplog.tail import Tail
from tallyglass_tui.shell.feed import Feed
from tallyglass_tui.shell.page import Page


class OplogJumps(Page):
    """The part of the oplog page that goes elsewhere. The page itself has a tail and a list of incidents."""

    def __init__(self) -> None:
        super().__init__()
        self._wanted = OplogFilter()
        self._past = ""
        self._incident_feed: Feed[IncidentScan] | None = None
        self._seeks_incident = False

    def show_tail(self) -> None:
        """Close all views but the tail."""

    def show_scan(self, scan: IncidentScan) -> None:
        """Show what is known of the incidents."""

    def show_lines(self) -> None:
        """Say how things stand."""

    @work(exclusive=True, group="oplog-jump", exit_on_error=False)
    async def _jump(self, at: Ts, said: str = "End returns to the live tail.") -> None:
        self.say(f"Reading from {fmt.moment(at.time)} ...")
        wanted = self._wanted
        try:
            rows = await self.feeds.ask(lambda gateway: oplog_reads.read_from(gateway, wanted, at))
        except TallyglassError as error:
            self.say(str(error))
            return
        self.show_tail()
        if not rows:
            self.say(f"No entry at or after {fmt.moment(at.time)}.")
            return
        self._past = f"the past from {fmt.moment(rows[0].ts.time)}, {fmt.plural(len(rows), 'entry', 'entries')}"
        self._tail.replace(rows)
        self.say(said)
        self.show_lines()
        self.refresh_bindings()

    @work(exclusive=True, group="oplog-jump", exit_on_error=False)
    async def action_destructive(self) -> None:
        """To the next destructive entry: among the rows that are here, else in the rest of the oplog."""
        rows, tail = self._tail.ring.rows, self._tail
        ahead = range(tail.cursor + 1, len(rows)) if not tail.following else range(len(rows) - 1, -1, -1)
        found = next((index for index in ahead if rows[index].destructive), None)
        if found is not None:
            tail.move_to(found)
            return
        if tail.following or not rows:
            self.say("No destructive operation among these rows; t goes further back, i lists incidents.")
            return
        after, wanted = rows[tail.cursor].ts, self._wanted
        try:
            row = await self.feeds.ask(lambda gateway: oplog_reads.next_destructive(gateway, wanted, after))
        except TallyglassError as error:
            self.say(str(error))
            return
        if row is None:
            self.say("No destructive operation after this one.")
        else:
            self._jump(row.ts)

    def action_next_incident(self) -> None:
        """To the first incident after this entry; from the live tail, to the newest one."""
        self._seeks_incident = True
        self._watch_incidents()
        self._seek_incident()

    def _seek_incident(self) -> None:
        """Go there once the whole oplog is known: the scan finds the newest first."""
        scan, tail = self._incidents.scan, self._tail
        if scan is None or not scan.done:
            self.say("Reading the oplog back for incidents ...")
            return
        self._seeks_incident = False
        rows = tail.ring.rows
        found = self._incidents.newest if tail.following or not rows else self._incidents.after(rows[tail.cursor].ts)
        if found is None:
            self.say("No incident after this entry." if scan.incidents and not tail.following else "No incident.")
            return
        said = f"{found.title}. i lists all; End returns to the live tail."
        at = next((index for index, row in enumerate(rows) if row.ts == found.first), None)
        if at is None:
            self._jump(found.first, said)
        else:
            tail.move_to(at)
            self.say(said)

    def _watch_incidents(self) -> None:
        if self._incident_feed is None:
            self._incident_feed = self.feeds.share("incidents", oplog_reads.incidents, silence=oplog_reads.NO_END)
            self.subscribe(self._incident_feed, self.show_scan)
            self._incidents.show_scan(None)

    def _go_on_seeking(self, scan: IncidentScan) -> None:
        if self._seeks_incident and scan.done:
            self._seek_incident()

    @property
    def _tail(self) -> Tail:
        return self.query_one("#tail", Tail)

    @property
    def _incidents(self) -> IncidentList:
        return self.query_one("#incidents", IncidentList)
