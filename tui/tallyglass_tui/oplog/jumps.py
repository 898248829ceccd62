"""Jumps in the oplog: to a moment, to the next destructive entry, to the next incident."""

from __future__ import annotations

from tallyglass.errors import TallyglassError
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import IncidentScan, OplogRow
from tallyglass.text import clean
from tallyglass_tui import bound
from tallyglass_tui import format as fmt
from tallyglass_tui.oplog import reads as oplog_reads
from tallyglass_tui.oplog.following import Following
from tallyglass_tui.oplog.views import OplogViews

_GROUP = "oplog-jump"


class Jumps:
    """Moves to another place in the oplog, within the loaded rows or by reading more."""

    def __init__(self, page: OplogViews, following: Following) -> None:
        self._page, self._following = page, following
        self._seeks_incident = False

    def to(self, at: Ts, note: str = "") -> None:
        """Go to the first entry at or after a moment, then show a message: how to return, after ``note``."""
        self._page.run_alone(self._read(at, note + _back_to_tail()), _GROUP)

    async def _read(self, at: Ts, note: str) -> None:
        page, wanted = self._page, self._following.wanted
        page.say(f"Reading from {fmt.moment(at.time)} ...")
        try:
            rows = await page.shell.feeds.ask(lambda gateway: oplog_reads.read_at(gateway, wanted, at))
        except TallyglassError as error:
            page.say(str(error))
            return
        none = f"No entry{_matching(self._following.wanted_text)} at or after {fmt.moment(at.time)}."
        page.show_past(rows, note if rows else none)

    def stop_reading(self) -> None:
        """Give up what is being read: it is for another filter than the present one."""
        self._page.workers.cancel_group(self._page, _GROUP)

    def to_destructive(self) -> None:
        """Go to the next destructive entry: among the loaded rows, otherwise in the rest of the oplog."""
        rows, tail = self._page.tail.rows, self._page.tail
        ahead = range(tail.cursor + 1, len(rows)) if not tail.following else range(len(rows) - 1, -1, -1)
        found = next((index for index in ahead if rows[index].destructive), None)
        if found is not None:
            tail.stop_at(found)
        elif tail.following or not rows:
            time, incidents = bound.key("oplog.time", "t"), bound.key("oplog.incidents", "i")
            self._page.say(
                f"No destructive operation among these rows; {time} goes further back, {incidents} lists incidents."
            )
        else:
            self._page.run_alone(self._read_destructive(rows[tail.cursor]), _GROUP)

    async def _read_destructive(self, after: OplogRow) -> None:
        page, wanted = self._page, self._following.wanted
        try:
            row = await page.shell.feeds.ask(lambda gateway: oplog_reads.next_destructive(gateway, wanted, after.ts))
        except TallyglassError as error:
            page.say(str(error))
            return
        if row is None:
            page.say(f"No destructive operation{_matching(self._following.wanted_text)} after this one.")
        else:
            self.to(row.ts)

    def to_incident(self) -> None:
        """Go to the first incident after this entry; from the live tail, to the newest one."""
        self._seeks_incident = True
        self._page.read_incidents()
        self._seek_incident()

    def stop_seeking(self) -> None:
        """Cancel the pending jump: the user went elsewhere."""
        self._seeks_incident = False

    def take_scan(self, scan: IncidentScan) -> None:
        """Continue a search that was waiting for the whole oplog to be read."""
        if self._seeks_incident and scan.done:
            self._seek_incident()

    def _seek_incident(self) -> None:
        """Go there once the whole oplog is known: the scan finds the newest first."""
        page, tail = self._page, self._page.tail
        scan = page.incidents.scan
        if scan is None or not scan.done:
            page.say("Reading the oplog back for incidents ...")
            return
        self._seeks_incident = False
        rows = tail.rows
        found = page.incidents.newest if tail.following or not rows else page.incidents.after(rows[tail.cursor].ts)
        if found is None:
            after = " after this entry" if scan.incidents and not tail.following else ""
            page.say(f"No incident{_matching(page.incidents.filter.text)}{after}.")
            return
        note = f"{found.title}. {bound.key('oplog.incidents', 'i')} lists all; "
        at = next((index for index, row in enumerate(rows) if row.ts == found.first), None)
        if at is None:
            self.to(found.first, note)
        else:
            tail.stop_at(at)
            page.say(note + _back_to_tail())


def _matching(wanted: str) -> str:
    """That only what a filter lets through was looked for, where there is one."""
    return f" that matches '{clean(wanted, 60)}'" if wanted else ""


def _back_to_tail() -> str:
    return f"{bound.key('list.last', 'End')} returns to the live tail."
