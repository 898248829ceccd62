"""The choices for a restore (point, backup, spare, folder), and the plan made from them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from tallyglass.moment import FORMS, Ts, parse_since
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.way import FROM_BACKUP
from tallyglass_tui import bound, clock
from tallyglass_tui import format as fmt
from tallyglass_tui.restore.draft import Draft, First, Planned, Reading
from tallyglass_tui.restore.items import BLOCKED
from tallyglass_tui.restore.plan_folder import write_new
from tallyglass_tui.restore.plan_process import plan_apart
from tallyglass_tui.restore.typed import address_of, count_of, suggested_count, suggested_statement
from tallyglass_tui.shell.context import NOT_FROM_A_RECORDING
from tallyglass_tui.shell.feed import Feed
from tallyglass_tui.shell.page import Page
from tallyglass_tui.widgets.input_line import InputLine
from tallyglass_tui.widgets.path_completion import complete_path

PLAN_SILENCE = 3_600.0
"""How many seconds a plan may take without reporting progress."""
_PROMPTS = {
    "point": f"Point: the first moment to undo. {FORMS}",
    "backup": "Backup: a mongodump directory, an archive or data files, from before the incident. {tab} completes.",
    "oplog": "Saved oplog, read before the server's: a dump of oplog.rs or a folder of slices. Empty: none.",
    "spare": "Spare: host:port of the server to restore onto; if empty, the commands start one.",
    "statement": "What was run? As in mongosh; as the server's log has it, where it does. Empty: not known.",
    "count": "How many documents did it report as modified or deleted? Empty: not known.",
    "folder": "Folder for the plan and its script. It must not exist yet; only you will be able to read it.",
}


class DraftView(Page):
    """The restore page, as far as its controller uses it."""

    @abstractmethod
    def show_draft(self) -> None:
        """Show the choices and their result."""

    @property
    def input_line(self) -> InputLine:
        """The line in which a choice is typed."""
        return self.query_one(InputLine)

    @abstractmethod
    def follow_plan(self, feed: Feed[Planned | First | Reading]) -> None:
        """Show the plan when it is ready."""

    @abstractmethod
    def write_folder(self, write: Callable[[], tuple[str, str]]) -> None:
        """Write the plan's folder in the background. ``write`` returns a message, and the line that runs the folder."""


class Choices:
    """Asks for the choices that a plan needs, one at a time, and plans. ``draft`` holds the choices so far."""

    def __init__(self, page: DraftView) -> None:
        self._page = page
        self.draft = Draft()
        self._statement = ""
        self._way = ""
        """The way for which a backup was asked, empty for the way that was planned."""
        self._planning: Feed[Planned | First | Reading] | None = None

    def ask(self, what: str) -> None:
        """Open the input line for a backup, a saved oplog, a point or a spare."""
        draft = self.draft
        self._way = ""
        now = {"backup": draft.backup, "oplog": draft.oplog, "spare": draft.spare, "point": str(draft.limit or "")}
        self._ask(what, now[what])

    def ask_what_was_run(self, statement: str = "") -> None:
        """Ask what a person knows of the incident: the statement, filled in as the server's log has it, then how many
        documents it reported."""
        draft = self.draft
        if draft.incident is None:
            self._page.say("Pick an incident first: the question is what was run then.")
        else:
            self._ask("statement", statement or suggested_statement(draft))

    def choose_group(self, statement: str, first: Ts) -> None:
        """Undo one of the groups that an incident may be: what it sets is asked back; from its first entry on where
        that cannot be said."""
        if statement and self.draft.incident is not None:
            self.ask_what_was_run(statement)
        else:
            self.choose(first, None)

    def ask_for_folder(self) -> None:
        """Ask where to write the plan's folder."""
        plan = self._plan_with_commands()
        if self._page.shell.context.recorded:
            self._page.say(NOT_FROM_A_RECORDING)
        elif plan:
            self._ask("folder", plan.steps.work_dir)

    def copy_phase(self, number: int) -> None:
        """Copy all lines of a step's phase as one command; each line runs only if the one before it succeeded."""
        plan = self._plan_with_commands()
        if plan:
            phase = plan.steps.commands[min(number, len(plan.steps.commands)) - 1].phase
            lines = [step.shell for step in plan.steps.commands if step.phase is phase]
            self._page.shell.copy(f"the lines of {phase}", " &&\n".join(lines))

    def submit(self, what: str, text: str) -> None:
        """Accept the typed text. Raises InputError for a point that is not a time, a spare that is no address, and
        what is no statement or number."""
        if what == "backup" and text:
            self.draft = replace(self.draft, backup=text)
            self.plan(self._way or self.draft.way)
        elif what == "oplog":
            # Images do not need it: whoever names one wants the restore from the backup.
            self.draft = replace(self.draft, oplog=text)
            self.plan(FROM_BACKUP if text else self.draft.way)
        elif what == "statement":
            count = suggested_count(self.draft, text)
            self._statement = text
            self._ask("count", count)
        elif what == "count":
            self.draft = replace(self.draft, statement=self._statement, reported=count_of(text))
            self.plan(self.draft.way)
        elif what == "spare":
            self.draft = replace(self.draft, spare=address_of(text))
            self.plan()
        elif what == "folder" and text and self.draft.plan:
            self._page.write_folder(partial(write_new, self.draft.plan, Path(text)))
        elif what == "point" and text:
            self.choose(parse_since(text, clock.now()), None)

    def choose(self, limit: Ts, incident: Incident | None) -> None:
        """Choose the point, and plan. Asks for a backup first if there is none; for an incident only if it needs
        one."""
        before = self.draft
        self.draft = Draft(limit, incident, before.backup, before.spare, oplog=before.oplog)
        if before.backup or incident:
            self.plan()
        else:
            self._page.show_draft()
            self._ask("backup", "")

    def take_other_way(self) -> None:
        """Plan the other way to undo the incident, or say why it is not possible."""
        other, why = self.draft.other_way, self.draft.why_no_other_way
        if other is None or why:
            self._page.say(why)
        else:
            self.plan(other.name)

    def plan(self, way: str = "") -> None:
        """Plan with the current choices, in this way or the best possible one."""
        draft = self.draft
        if draft.limit is None:
            self._page.say(f"Pick an incident first, or {bound.key('restore.point', 't')} types the point.")
        elif not draft.backup and (draft.incident is None or way == FROM_BACKUP):
            self._way = way
            self._ask("backup", "")
        else:
            shell = self._page.shell
            asked = draft.being_planned(way)
            self.draft = replace(asked, since=None) if shell.context.recorded else asked
            target = shell.context.target
            feed = shell.feeds.follow(
                "restore plan", lambda _: plan_apart(target, asked), silence=PLAN_SILENCE, once=True,
                subject=str(asked.limit),
            )  # fmt: skip
            self._planning = feed
            self._page.say("")
            self._page.follow_plan(feed)
        self._page.show_draft()

    def stop(self) -> None:
        """Stop planning; the choices stay."""
        if self._planning is not None:
            self._planning.stop()
        stopped = f"Planning was stopped. {bound.key('restore.plan', 'r')} plans again."
        self.draft = replace(self.draft, planning=False, failure=stopped)
        self._page.show_draft()

    def _ask(self, what: str, value: str) -> None:
        self._page.input_line.open(
            _PROMPTS[what].format(tab=bound.key("input.complete", "Tab")),
            lambda text: self.submit(what, text.strip()),
            value,
            describe=fmt.time_meaning if what == "point" else None,
            complete=complete_path if what in ("backup", "oplog", "folder") else None,
        )

    def _plan_with_commands(self) -> Plan | None:
        plan = self.draft.plan
        if plan is None or not plan.steps.commands:
            none = "There are no commands yet: pick an incident, name a backup, and see the checks."
            self._page.say(none if plan is None else BLOCKED)
            return None
        return plan
