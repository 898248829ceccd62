"""What is chosen for a restore: point, backup, spare, where to write the script; and the plan that is made of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from tallyglass.errors import InputError
from tallyglass.moment import Ts, parse_since
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.model.plan import Plan
from tallyglass_tui.restore.draft import Draft, Planned
from tallyglass_tui.restore.feed import plan_once
from tallyglass_tui.shell.feed import Feed
from tallyglass_tui.shell.protocol import Shell
from tallyglass_tui.widgets.filter_box import FilterBox

PLAN_SILENCE = 3_600.0
"""Seconds that a plan may take."""
_ASKS = {
    "point": "Point: a timestamp such as 1795197974:14, or a time such as now-10m. It and all after it is undone.",
    "backup": "Backup: a mongodump directory, an archive or data files, from before the incident.",
    "spare": "Spare: host:port of the server to rebuild on; empty for one that the script starts itself.",
    "script": "Script: the file to write it to. It is new, and only you can read it.",
}


class DraftView(Protocol):
    """The restore page as its controller knows it."""

    @property
    def shell(self) -> Shell:
        """The app around it."""
        ...

    def say(self, text: str) -> None:
        """Say something once."""
        ...

    def show_draft(self) -> None:
        """Show what is chosen, and what came of it."""
        ...

    def open_box(self, value: str, asks: str) -> None:
        """Open the line to type in."""
        ...

    def follow_plan(self, feed: Feed[Planned]) -> None:
        """Show the plan when it comes."""
        ...

    def write_script(self, path: Path, text: str) -> None:
        """Write a script in the background, and say what came of it."""
        ...


class Choices:
    """Asks for what a plan needs, one at a time, and plans. ``draft`` is what is known so far."""

    def __init__(self, page: DraftView) -> None:
        self._page = page
        self._asked_for = ""
        self.draft = Draft()

    def ask(self, what: str) -> None:
        """Open the line for a backup, a point or a spare."""
        draft = self.draft
        now = {"backup": draft.backup, "spare": draft.spare, "point": str(draft.limit or "")}
        self._ask(what, now[what])

    def ask_for_file(self) -> None:
        """Ask where to write the script."""
        plan = self._plan_with_commands()
        if plan:
            self._ask("script", f"{plan.work_dir}.sh")

    def copy_script(self) -> None:
        """Copy the whole script."""
        plan = self._plan_with_commands()
        if plan:
            self._page.shell.copy("the script", _script(plan))

    def take(self, text: str, box: FilterBox) -> None:
        """Take what was typed for what was asked last."""
        if self._asked_for == "backup" and text:
            self.draft = replace(self.draft, backup=text)
            self.plan()
        elif self._asked_for == "spare":
            self.draft = replace(self.draft, spare=text)
            self.plan()
        elif self._asked_for == "script" and text and self.draft.plan:
            self._page.write_script(Path(text).expanduser(), _script(self.draft.plan))
        elif self._asked_for == "point" and text:
            try:
                self.choose(parse_since(text), None)
            except InputError as error:
                box.refuse()
                self._page.say(str(error))

    def choose(self, limit: Ts, incident: Incident | None) -> None:
        """Choose the point, and plan; without a backup ask for one first."""
        before = self.draft
        self.draft = Draft(limit, incident, before.backup, before.spare)
        if before.backup:
            self.plan()
        else:
            self._page.show_draft()
            self._ask("backup", "")

    def plan(self) -> None:
        """Plan with what is there now."""
        draft = self.draft
        if draft.limit is None:
            self._page.say("Pick an incident first, or t types the point.")
        elif not draft.backup:
            self._ask("backup", "")
        else:
            self.draft = Draft(
                draft.limit, draft.incident, draft.backup, draft.spare, planning=True, since=datetime.now(UTC)
            )
            shell = self._page.shell
            uri = shell.session.target.uri
            feed = shell.feeds.follow(
                "restore plan", lambda gateway: plan_once(gateway, draft, uri), silence=PLAN_SILENCE, once=True
            )
            self._page.follow_plan(feed)
        self._page.show_draft()

    def _ask(self, what: str, value: str) -> None:
        self._asked_for = what
        self._page.open_box(value, _ASKS[what])

    def _plan_with_commands(self) -> Plan | None:
        plan = self.draft.plan
        if plan is None or not plan.commands:
            self._page.say("There are no commands yet: pick an incident, name a backup, and see the checks.")
            return None
        return plan


def _script(plan: Plan) -> str:
    from tallyglass.restore.runbook.runbook import script

    return script(plan)
