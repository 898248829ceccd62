"""Restore: pick the moment before the mistake, see it proven, and take the commands along. Nothing is run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize

from tallyglass.errors import InputError
from tallyglass.moment import Ts, parse_since
from tallyglass.oplog.snapshot import Incident, IncidentScan
from tallyglass.restore.plan import Plan
from tallyglass.text import clean
from tallyglass_tui import oplog_reads
from tallyglass_tui import restore_items as items
from tallyglass_tui.feed import Feed
from tallyglass_tui.messages import RestoreRequested, Tick, Visit
from tallyglass_tui.restore_draft import Draft, Planned, Room
from tallyglass_tui.restore_feed import plan_once, watch_room
from tallyglass_tui.restore_head import LINES, PARTS, head_lines, parts_line
from tallyglass_tui.screens.page import Page
from tallyglass_tui.script_file import write_new
from tallyglass_tui.widgets.filter_box import FilterBox
from tallyglass_tui.widgets.pick_list import PickList
from tallyglass_tui.widgets.text_line import TextLines

_PLAN_SILENCE = 3_600.0
_ASKS = {
    "point": "a timestamp such as 1795197974:14, or a time such as now-10m",
    "backup": "the directory of a mongodump, or an archive",
    "spare": "host:port of the server to rebuild on; empty for one that the script starts itself",
    "script": "where to write the script",
}


class RestorePage(Page):
    """The point above; below it what people did, the checks, the loss, the counters and the commands."""

    TITLE = "Restore"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,right,l", "section(1)", "Part", key_display="Tab", id="restore.next", tooltip="Next part"),
        Binding("shift+tab,left,h", "section(-1)", "Part before", show=False, id="restore.previous"),
        Binding("b", "ask('backup')", "Backup", id="restore.backup", tooltip="Name the backup to restore from"),
        Binding("t", "ask('point')", "Point", show=False, id="restore.point", tooltip="Type the moment to return to"),
        Binding("s", "ask('spare')", "Spare", show=False, id="restore.spare", tooltip="Name the server to rebuild on"),
        Binding("w", "write", "Script", id="restore.write", tooltip="Write the commands as a script, mode 0700"),
        Binding("Y", "copy_all", "Copy all", show=False, id="restore.copy_all", tooltip="Copy the whole script"),
        Binding("r", "plan", "Plan anew", show=False, id="restore.plan", tooltip="Plan again with what is there now"),
        Binding("o", "oplog", "Oplog", show=False, id="restore.oplog", tooltip="See the oplog at the point"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._part = PARTS[0]
        self._asked_for = ""
        self._scans: Feed[IncidentScan] | None = None
        self._scan: IncidentScan | None = None
        self._draft = Draft()

    def compose_body(self) -> ComposeResult:
        """Point, parts, the list of the part, and the line to type in."""
        yield TextLines(id="head")
        yield TextLines(id="parts")
        yield PickList(id="part")
        yield FilterBox("", id="box")

    def start(self) -> None:
        """Follow the incidents."""
        self.query_one("#head").styles.height = LINES
        self._draft = Draft(backup=str(self.dashboard.session.backup or ""))
        self._scans = self.feeds.follow("restore incidents", oplog_reads.incidents, silence=oplog_reads.NO_END)
        self.subscribe(self._scans, self.show_scan)
        self.query_one(PickList).focus()
        self._show()

    def visit(self, message: Visit) -> None:
        """Take the point that another page names."""
        if isinstance(message, RestoreRequested):
            limit = message.before or (items.point_of(message.incident) if message.incident else None)
            if limit is not None:
                self._choose(limit, message.incident)

    def show_scan(self, scan: IncidentScan) -> None:
        """Show what people did."""
        self._scan = scan
        self._show()

    def show_planned(self, planned: Planned) -> None:
        """Show a plan, or why there is none."""
        plan = planned.plan
        failure = clean(f"{planned.title} {planned.advice}".strip(), 600)
        self._draft = replace(self._draft, plan=plan, failure=failure, planning=False, room=None)
        if self._part == PARTS[0]:
            self._part = PARTS[1]
        if plan and plan.start:
            start = plan.start
            self.subscribe(
                self.feeds.follow("restore room", lambda gateway: watch_room(gateway, start)), self.show_room
            )
        self._show()
        self.query_one(PickList).action_edge(0)

    def show_room(self, room: Room) -> None:
        """Show how long the start stays in the oplog."""
        self._draft = replace(self._draft, room=room)
        self._show()

    def on_tick(self, _: Tick) -> None:
        """Keep the ages true."""
        if self._part == "incidents":
            self._show_part()

    def on_resize(self, _: Resize) -> None:
        """Fit the lines anew."""
        self.call_after_refresh(self._show)

    @property
    def data_age(self) -> float | None:
        """A scan and a plan say themselves what they are from."""
        return None

    def help_notes(self) -> Sequence[str]:
        """How it goes, and what is never done."""
        return (
            "Pick an incident with Enter, or come here with r from an entry of the oplog. The point is exclusive: "
            "the entry at it, and everything after it, is undone. A plan proves that backup and oplog reach it, "
            "whole; where one check blocks, there are no commands.",
            "Tallyglass runs none of the commands and writes nothing to any server. y copies one, Y the script; w "
            "writes it to a file that only you can read. The script asks before each step and checks after it.",
        )

    def to_copy(self) -> tuple[str, str] | None:
        """What the cursor is on."""
        selected = self.query_one(PickList).selected
        words = {
            "incidents": "the point",
            "checks": "the check",
            "loss": "the namespace",
            "counters": "the fix",
            "commands": "the command",
        }
        return (words[self._part], selected.copy) if selected and selected.copy else None

    @property
    def can_go_back(self) -> bool:
        """From any other part to the incidents."""
        return self._part != PARTS[0]

    def back(self) -> None:
        """To the incidents."""
        self._open_part(PARTS[0])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While something is typed, Tab stays in its line."""
        if action == "section":
            return not self.query_one(FilterBox).has_focus
        return super().check_action(action, parameters)

    def action_section(self, by: int) -> None:
        """To another part."""
        self._open_part(PARTS[(PARTS.index(self._part) + by) % len(PARTS)])

    def action_ask(self, what: str) -> None:
        """Open the line for a backup, a point or a spare."""
        draft = self._draft
        now = {"backup": draft.backup, "spare": draft.spare, "point": str(draft.limit or "")}
        self._ask(what, now[what])

    def action_write(self) -> None:
        """Ask where to write the script."""
        plan = self._plan_with_commands()
        if plan:
            self._ask("script", f"{plan.work_dir}.sh")

    def action_copy_all(self) -> None:
        """Copy the whole script."""
        plan = self._plan_with_commands()
        if plan:
            self.dashboard.copy("the script", _script(plan))

    def action_plan(self) -> None:
        """Plan with what is there now."""
        self._make_plan()

    def action_oplog(self) -> None:
        """Open the oplog at the point."""
        if self._draft.limit:
            self.dashboard.open_oplog(self._draft.limit.time)
        else:
            self.say("Pick an incident first.")

    @on(PickList.Picked)
    def _picked(self, message: PickList.Picked) -> None:
        if self._part == "incidents" and self._scan:
            incident = items.incident_at(self._scan.incidents, message.item.key)
            if incident:
                self._choose(items.point_of(incident), incident)

    @on(FilterBox.Taken)
    def _typed(self, message: FilterBox.Taken) -> None:
        self.query_one(PickList).focus()
        text = message.text.strip()
        if self._asked_for == "backup" and text:
            self._draft = replace(self._draft, backup=text)
            self._make_plan()
        elif self._asked_for == "spare":
            self._draft = replace(self._draft, spare=text)
            self._make_plan()
        elif self._asked_for == "script" and text and self._draft.plan:
            self._write(Path(text).expanduser(), _script(self._draft.plan))
        elif self._asked_for == "point" and text:
            try:
                self._choose(parse_since(text), None)
            except InputError as error:
                self.say(str(error))

    def _ask(self, what: str, value: str) -> None:
        self._asked_for = what
        self.query_one(FilterBox).open(value, _ASKS[what])
        self.refresh_bindings()
        self.say(f"{what.capitalize()}: {_ASKS[what]}")

    def _choose(self, limit: Ts, incident: Incident | None) -> None:
        before = self._draft
        self._draft = Draft(limit, incident, before.backup, before.spare)
        if before.backup:
            self._make_plan()
        else:
            self._show()
            self._ask("backup", "")

    def _make_plan(self) -> None:
        draft = self._draft
        if draft.limit is None:
            self.say("Pick an incident first, or t types the point.")
        elif not draft.backup:
            self._ask("backup", "")
        else:
            self._draft = Draft(draft.limit, draft.incident, draft.backup, draft.spare, planning=True)
            uri = self.dashboard.session.target.uri
            feed = self.feeds.follow(
                "restore plan", lambda gateway: plan_once(gateway, draft, uri), silence=_PLAN_SILENCE, once=True
            )
            self.subscribe(feed, self.show_planned)
        self._show()

    def _plan_with_commands(self) -> Plan | None:
        plan = self._draft.plan
        if plan is None or not plan.commands:
            self.say("There are no commands yet: pick an incident, name a backup, and see the checks.")
            return None
        return plan

    @work(thread=True, exit_on_error=False)
    def _write(self, path: Path, text: str) -> None:
        self.app.call_from_thread(self.say, write_new(path, text))

    def _open_part(self, part: str) -> None:
        self._part = part
        self._show()
        self.query_one(PickList).focus()
        self.refresh_bindings()

    def _show(self) -> None:
        incidents = len(self._scan.incidents) if self._scan else None
        self.query_one("#head", TextLines).show(*head_lines(self._draft, self.size.width))
        self.query_one("#parts", TextLines).show(parts_line(self._draft, incidents, self._part))
        self._show_part()

    def _show_part(self) -> None:
        if self._part == PARTS[0]:
            found = self._scan.incidents if self._scan else ()
            shown, said = items.incident_items(found, datetime.now(UTC)), self._why_no_incidents()
        else:
            shown, said = items.part_items(self._part, self._draft)
        listed = self.query_one(PickList)
        listed.show(shown, said)
        pickable = self._part == PARTS[0]
        if listed.pickable != pickable:
            listed.pickable = pickable
            self.refresh_bindings()

    def _why_no_incidents(self) -> str:
        deployment, trouble = self.dashboard.deployment, self._scans.trouble if self._scans else None
        if deployment and not deployment.has_oplog:
            return deployment.no_oplog_because()
        if trouble:
            return f"{trouble.title} {trouble.advice}".rstrip()
        if self._scan and self._scan.done:
            return "Nobody dropped, renamed, or mass-deleted anything in the whole oplog."
        return "Looking through the oplog for what people did ..."


def _script(plan: Plan) -> str:
    from tallyglass.restore.runbook import script

    return script(plan)
