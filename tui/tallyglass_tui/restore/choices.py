"""What is chosen for a restore: point, backup, spare, where to write the script; and the plan that is made of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from textual import on, work

from tallyglass.errors import InputError
from tallyglass.moment import Ts, parse_since
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.model.plan import Plan
from tallyglass_tui.restore.draft import Draft, Planned
from tallyglass_tui.restore.feed import plan_once
from tallyglass_tui.restore.script_file import write_new
from tallyglass_tui.shell.page import Page
from tallyglass_tui.widgets.filter_box import FilterBox
from tallyglass_tui.widgets.pick_list import PickList

_PLAN_SILENCE = 3_600.0
_ASKS = {
    "point": "Point: a timestamp such as 1795197974:14, or a time such as now-10m. It and all after it is undone.",
    "backup": "Backup: a mongodump directory, an archive or data files, from before the incident.",
    "spare": "Spare: host:port of the server to rebuild on; empty for one that the script starts itself.",
    "script": "Script: the file to write it to. It is new, and only you can read it.",
}


class RestoreChoices(Page):
    """The part of the restore page that asks and plans. The page itself has a list and a line to type in."""

    def __init__(self) -> None:
        super().__init__()
        self._asked_for = ""
        self._draft = Draft()

    def show_draft(self) -> None:
        """Show what is chosen, and what came of it."""

    def show_planned(self, planned: Planned) -> None:
        """Show a plan, or why there is none."""

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

    @on(FilterBox.Taken)
    def _typed(self, message: FilterBox.Taken) -> None:
        self.give_keys(self.query_one(PickList))
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
                message.box.refuse()
                self.say(str(error))

    def _ask(self, what: str, value: str) -> None:
        self._asked_for = what
        self.query_one(FilterBox).open(value, _ASKS[what])
        self.refresh_bindings()

    def _choose(self, limit: Ts, incident: Incident | None) -> None:
        before = self._draft
        self._draft = Draft(limit, incident, before.backup, before.spare)
        if before.backup:
            self._make_plan()
        else:
            self.show_draft()
            self._ask("backup", "")

    def _make_plan(self) -> None:
        draft = self._draft
        if draft.limit is None:
            self.say("Pick an incident first, or t types the point.")
        elif not draft.backup:
            self._ask("backup", "")
        else:
            self._draft = Draft(
                draft.limit, draft.incident, draft.backup, draft.spare, planning=True, since=datetime.now(UTC)
            )
            uri = self.dashboard.session.target.uri
            feed = self.feeds.follow(
                "restore plan", lambda gateway: plan_once(gateway, draft, uri), silence=_PLAN_SILENCE, once=True
            )
            self.subscribe(feed, self.show_planned)
        self.show_draft()

    def _plan_with_commands(self) -> Plan | None:
        plan = self._draft.plan
        if plan is None or not plan.commands:
            self.say("There are no commands yet: pick an incident, name a backup, and see the checks.")
            return None
        return plan

    @work(thread=True, exit_on_error=False)
    def _write(self, path: Path, text: str) -> None:
        self.app.call_from_thread(self.say, write_new(path, text))


def _script(plan: Plan) -> str:
    from tallyglass.restore.runbook.runbook import script

    return script(plan)
