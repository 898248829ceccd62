"""Restore: pick the moment before the mistake, see it proven, and take the commands. Nothing is run here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.widget import Widget

from tallyglass.oplog.snapshot import IncidentScan
from tallyglass.restore.drill.past_drills import LastDrill, follow_last
from tallyglass_tui import bound
from tallyglass_tui.incidents.table import IncidentTable
from tallyglass_tui.restore import items
from tallyglass_tui.restore.choices import Choices
from tallyglass_tui.restore.draft import Draft, First, Planned, Reading, Room
from tallyglass_tui.restore.feed import watch_room
from tallyglass_tui.restore.head import NO_OPLOG, PARTS, RUN_PARTS, head_lines, parts_line
from tallyglass_tui.shell.feed import Feed
from tallyglass_tui.shell.messages import OplogRequested, RestoreRequested, Tick, Visit
from tallyglass_tui.widgets.cursor_list import CursorList
from tallyglass_tui.widgets.input_line import InputLine
from tallyglass_tui.widgets.pick_list import Item, PickList
from tallyglass_tui.widgets.text_line import TextLines


class RestorePage(Choices):
    """The point at the top; below it the incidents, the checks, the loss, the counters and the commands."""

    TITLE = "Restore"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab,right,l", "section(1)", "Next part", key_display="Tab", id="restore.next", tooltip="Next part"),
        Binding("shift+tab,left,h", "section(-1)", "Previous part", show=False, id="restore.previous"),
        Binding("b", "ask('backup')", "Backup", id="restore.backup", tooltip="Name the backup to restore from"),
        Binding(
            "s",
            "ask('oplog')",
            "Saved oplog",
            show=False,
            id="restore.saved_oplog",
            tooltip="Name a saved oplog to read before the server's",
        ),
        Binding("f", "way", "Way", show=False, id="restore.way", tooltip="Plan in the other way to undo the incident"),
        Binding(
            "x",
            "what_was_run",
            "What was run",
            show=False,
            id="restore.evidence",
            tooltip="Say what was run, and what it reported",
        ),
        Binding("t", "ask('point')", "Point", show=False, id="restore.point", tooltip="Type the moment to return to"),
        Binding(
            "d", "ask('spare')", "Spare", show=False, id="restore.spare", tooltip="Name the server to restore onto"
        ),
        Binding("w", "write", "Write", id="restore.write", tooltip="Write the plan as a folder that only you can read"),
        Binding(
            "Y", "copy_all", "Copy phase", show=False, id="restore.copy_all", tooltip="Copy all lines of the phase"
        ),
        Binding("r", "plan", "Plan again", show=False, id="restore.plan", tooltip="Plan again from the present state"),
        Binding("o", "oplog", "Oplog", show=False, id="restore.oplog", tooltip="See the oplog at the point"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._part = PARTS[0]
        self._scans: Feed[IncidentScan] | None = None
        self._scan: IncidentScan | None = None
        self._shown_for = ""
        self._drill: LastDrill | None = None

    def compose_body(self) -> ComposeResult:
        """Point, parts, the list of the part, and the input line."""
        yield TextLines(id="head")
        yield TextLines(id="parts")
        yield IncidentTable(id="incidents")
        yield PickList(id="part")
        yield InputLine(id="input")

    def start(self) -> None:
        """Start the feed of the incidents."""
        self.draft = Draft(backup=str(self.shell.context.backup or ""))
        self._scans = self.query_one(IncidentTable).follow(self.show_scan)
        self.subscribe(self.feeds.follow("last drill", follow_last), self.show_drill)
        self.show_draft()
        self.give_keys(self._list)

    def visit(self, message: Visit) -> None:
        """Take the point that another page sent."""
        if isinstance(message, RestoreRequested):
            limit = message.before or (message.incident.limit if message.incident else None)
            if limit is not None:
                self.choose(limit, message.incident)

    def show_scan(self, scan: IncidentScan) -> None:
        """Show the incidents of a scan."""
        self._scan = scan
        self.show_draft()

    def show_drill(self, drill: LastDrill) -> None:
        """Show when a restore was last rehearsed."""
        self._drill = drill
        self.show_draft()

    def show_planned(self, planned: Planned | First | Reading) -> None:
        """Show the quick answer, the progress of the plan, then the plan, or why there is none."""
        before = self.draft
        draft = self.draft = before.after(planned)
        if not isinstance(planned, Planned):
            if draft.first and not before.first:
                self._part = PARTS[1]
                self.show_draft()
            else:
                self._show_head()
            return
        plan = planned.plan
        if self._part == PARTS[0]:
            self._part = PARTS[1]
        if plan and plan.proof.start:
            start = plan.proof.start
            self.subscribe(
                self.feeds.follow("restore room", lambda gateway: watch_room(gateway, start)),
                lambda room: self._show_room(room, planned),
            )
        self.show_draft()
        self.query_one(PickList).action_go(0)
        if planned.needs_backup:
            self.action_ask("backup")

    def _show_room(self, room: Room, planned: Planned) -> None:
        """Show how long the start of a plan stays in the oplog, unless another plan, which may need none of it, came
        since."""
        if self.draft.plan is planned.plan:
            self.draft = replace(self.draft, room=room)
            self.show_draft()

    def on_tick(self, _: Tick) -> None:
        """Keep the ages up to date, and show whether the plan still fits the server's version."""
        if self.draft.planning or self._version != self._shown_for:
            self._show_head()
        if self._part == "incidents":
            self.query_one(IncidentTable).lost = self.is_lost
            self._show_part()

    def on_resize(self, _: Resize) -> None:
        """Wrap the lines again."""
        self.call_after_refresh(self.show_draft)

    @property
    def data_age(self) -> float | None:
        """The feeds are often silent, since nothing happened: what is shown is old once the server is lost."""
        return self.lost_seconds

    def help_notes(self) -> Sequence[str]:
        """How to use the page, and what it never does."""
        pick, copy = bound.key("list.open", "Enter"), bound.key("page.copy", "y")
        return (
            f"Pick an incident with {pick}, or come here with {bound.key('oplog.restore', 'r')} from an entry of the "
            "oplog. The point is exclusive: the entry at it, and everything after it, is undone. A plan proves that "
            "backup and oplog reach it, whole; where one check blocks, there are no commands. "
            f"{bound.key('restore.saved_oplog', 's')} names a saved oplog: the point may then be older than what the "
            "server holds. A first answer comes within seconds, with the line that saves the oplog.",
            "An incident is undone from pre-images where its collection keeps them: in seconds, without a backup and "
            f"without a spare. {bound.key('restore.way', 'f')} plans in the other way; the checks begin with what is "
            f"possible, best first. Where its entries may be several statements, {bound.key('restore.evidence', 'x')} "
            f"asks what was run and how many it reported, and {bound.key('list.pick', 'Enter')} takes one group.",
            "Tallyglass runs none of the commands and writes nothing to any server. "
            f"{bound.key('restore.write', 'w')} writes the plan as a folder that only you can read, and shows the line "
            "for a shell that runs it, which asks before each step and checks after it; on Checks, Loss and Counters "
            f"{copy} copies it. Each line of Commands can be pasted in that folder instead; {copy} copies the one "
            f"under the cursor, {bound.key('restore.copy_all', 'Y')} all of its phase.",
        )

    def to_copy(self) -> tuple[str, str] | None:
        """The item under the cursor; once the plan is written, the line that runs it where the head promises that."""
        if self.draft.run and self._part in RUN_PARTS:
            return "the line that runs the plan", self.draft.run
        if self._part == PARTS[0]:
            incident = self.query_one(IncidentTable).selected
            return ("the point", str(incident.limit)) if incident else None
        selected = self.query_one(PickList).selected
        words = {
            "checks": "the check" if selected and selected.key[:1].isdecimal() else "the line",
            "loss": "the namespace",
            "counters": "the fix",
            "commands": "the line, for the plan's folder",
        }
        return (words[self._part], selected.copy) if selected and selected.copy else None

    @property
    def can_go_back(self) -> bool:
        """Esc goes from any other part to the incidents; it first stops a plan that is running."""
        return self.draft.is_running or self._part != PARTS[0]

    def back(self) -> None:
        """Stop planning, or go to the incidents."""
        if self.draft.is_running:
            self.stop_planning()
        else:
            self._open_part(PARTS[0])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While text is being typed, Tab stays in the input line."""
        if action == "section":
            return not self.query_one(InputLine).has_focus
        return super().check_action(action, parameters)

    def action_copy_all(self) -> None:
        """Copy all lines of the phase under the cursor; of the first phase if another part is shown."""
        selected = self.query_one(PickList).selected
        self.copy_phase(int(selected.key) if selected and self._part == "commands" else 1)

    def action_section(self, by: int) -> None:
        """Go to another part."""
        self._open_part(PARTS[(PARTS.index(self._part) + by) % len(PARTS)])

    def action_oplog(self) -> None:
        """Open the oplog at the point."""
        if self.draft.limit:
            self.shell.visit(OplogRequested(self.draft.limit))
        else:
            self.say("Pick an incident first.")

    @on(CursorList.Chosen, "#incidents")
    def _incident_picked(self, message: CursorList.Chosen) -> None:
        incident = self.query_one(IncidentTable).find(message.chosen)
        if incident:
            self.choose(incident.limit, incident)

    @on(PickList.Chosen)
    def _group_picked(self, message: PickList.Chosen) -> None:
        if not isinstance(message.chosen, Item):
            return
        group = items.group_at(self.draft, message.chosen.key)
        if self._part == "checks" and group:
            self.choose_group(group.statement, group.first)

    @property
    def _list(self) -> Widget:
        """The list of the part that is shown."""
        return self.query_one(IncidentTable if self._part == PARTS[0] else PickList)

    def _open_part(self, part: str) -> None:
        self._part = part
        self.show_draft()
        self.give_keys(self._list)
        self.refresh_bindings()

    def show_draft(self) -> None:
        """Show the choices and their result."""
        self._show_head()
        self._show_part()
        self._show_place()

    @on(CursorList.Moved)
    def _show_place(self) -> None:
        incidents = len(self._scan.incidents) - self._scan.routine if self._scan else None
        place = "" if self._part == PARTS[0] else self.query_one(PickList).place
        line = parts_line(self.draft, incidents, self._part, place, self.size.width)
        self.query_one("#parts", TextLines).show(line)

    def _show_head(self) -> None:
        """Show how far the plan is; the list below it stays."""
        self._shown_for = self._version
        deployment = self.shell.deployment
        lines = head_lines(self.draft, self.size.width, self._version, self._drill, self._part)
        shown = NO_OPLOG if deployment and not deployment.has_oplog else lines
        self.query_one("#head", TextLines).show(*shown, grow=True)

    @property
    def _version(self) -> str:
        """The last known version of the server."""
        deployment = self.shell.deployment
        return deployment.version if deployment else ""

    def _show_part(self) -> None:
        table, listed = self.query_one(IncidentTable), self.query_one(PickList)
        before = table.display
        table.display = self._part == PARTS[0]
        listed.display = not table.display
        if table.display:
            table.show_scan(self._scan, self._why_no_incidents())
        else:
            listed.show(*items.part_items(self._part, self.draft))
        pickable = self._part == "checks" and items.has_groups(self.draft)
        if table.display != before:
            self.give_keys(self._list)
        if table.display != before or listed.pickable != pickable:
            listed.pickable = pickable
            self.refresh_bindings()

    def _why_no_incidents(self) -> str:
        """Why none can be found; empty where the table says it itself."""
        deployment, trouble = self.shell.deployment, self._scans.trouble if self._scans else None
        if deployment and not deployment.has_oplog:
            return deployment.no_oplog_because()
        if trouble:
            return f"{trouble.title} {trouble.advice}".rstrip()
        return ""
