"""The choices for a restore (point, backup, spare, folder), and the plan made from them."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
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


class Choices(Page):
    """The restore page, as far as it asks for the choices that a plan needs, one at a time, and plans.

    ``draft`` holds the choices so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.draft = Draft()
        self._statement = ""
        self._way = ""
        """The way for which a backup was asked, empty for the way that was planned."""
        self._planning: Feed[Planned | First | Reading] | None = None

    @abstractmethod
    def show_draft(self) -> None:
        """Show the choices and their result."""

    @abstractmethod
    def show_planned(self, planned: Planned | First | Reading) -> None:
        """Show the quick answer, the progress of the plan, then the plan, or why there is none."""

    def _write_folder(self, plan: Plan, path: Path) -> None:
        """Write the plan's folder in the background, and show the line that runs it."""

        def work() -> None:
            self.app.call_from_thread(self._show_written, plan, *write_new(plan, path))

        self.run_worker(work, thread=True, exit_on_error=False)

    def _show_written(self, plan: Plan, text: str, line: str) -> None:
        if line and self.draft.plan is plan:
            self.draft = replace(self.draft, run=line)
            self.show_draft()
        self.say(text)

    def action_ask(self, what: str) -> None:
        """Open the input line for a backup, a saved oplog, a point or a spare."""
        draft = self.draft
        self._way = ""
        now = {"backup": draft.backup, "oplog": draft.oplog, "spare": draft.spare, "point": str(draft.limit or "")}
        self._ask(what, now[what])

    def action_what_was_run(self, statement: str = "") -> None:
        """Ask what a person knows of the incident: the statement, filled in as the server's log has it, then how many
        documents it reported."""
        draft = self.draft
        if draft.incident is None:
            self.say("Pick an incident first: the question is what was run then.")
        else:
            self._ask("statement", statement or suggested_statement(draft))

    def choose_group(self, statement: str, first: Ts) -> None:
        """Undo one of the groups that an incident may be: what it sets is asked back; from its first entry on where
        that cannot be said."""
        if statement and self.draft.incident is not None:
            self.action_what_was_run(statement)
        else:
            self.choose(first, None)

    def action_write(self) -> None:
        """Ask where to write the plan's folder."""
        plan = self._plan_with_commands()
        if self.shell.context.recorded:
            self.say(NOT_FROM_A_RECORDING)
        elif plan:
            self._ask("folder", plan.steps.work_dir)

    def copy_phase(self, number: int) -> None:
        """Copy all lines of a step's phase as one command; each line runs only if the one before it succeeded."""
        plan = self._plan_with_commands()
        if plan:
            phase = plan.steps.commands[min(number, len(plan.steps.commands)) - 1].phase
            lines = [step.shell for step in plan.steps.commands if step.phase is phase]
            self.shell.copy(f"the lines of {phase}", " &&\n".join(lines))

    def submit(self, what: str, text: str) -> None:
        """Accept the typed text. Raises InputError for a point that is not a time, a spare that is no address, and
        what is no statement or number."""
        if what == "backup" and text:
            self.draft = replace(self.draft, backup=text)
            self.action_plan(self._way or self.draft.way)
        elif what == "oplog":
            # Images do not need it: whoever names one wants the restore from the backup.
            self.draft = replace(self.draft, oplog=text)
            self.action_plan(FROM_BACKUP if text else self.draft.way)
        elif what == "statement":
            count = suggested_count(self.draft, text)
            self._statement = text
            self._ask("count", count)
        elif what == "count":
            self.draft = replace(self.draft, statement=self._statement, reported=count_of(text))
            self.action_plan(self.draft.way)
        elif what == "spare":
            self.draft = replace(self.draft, spare=address_of(text))
            self.action_plan()
        elif what == "folder" and text and self.draft.plan:
            self._write_folder(self.draft.plan, Path(text))
        elif what == "point" and text:
            self.choose(parse_since(text, clock.now()), None)

    def choose(self, limit: Ts, incident: Incident | None) -> None:
        """Choose the point, and plan. Asks for a backup first if there is none; for an incident only if it needs
        one."""
        before = self.draft
        self.draft = Draft(limit, incident, before.backup, before.spare, oplog=before.oplog)
        if before.backup or incident:
            self.action_plan()
        else:
            self.show_draft()
            self._ask("backup", "")

    def action_way(self) -> None:
        """Plan the other way to undo the incident, or say why it is not possible."""
        other, why = self.draft.other_way, self.draft.why_no_other_way
        if other is None or why:
            self.say(why)
        else:
            self.action_plan(other.name)

    def action_plan(self, way: str = "") -> None:
        """Plan with the current choices, in this way or the best possible one."""
        draft = self.draft
        if draft.limit is None:
            self.say(f"Pick an incident first, or {bound.key('restore.point', 't')} types the point.")
        elif not draft.backup and (draft.incident is None or way == FROM_BACKUP):
            self._way = way
            self._ask("backup", "")
        else:
            shell = self.shell
            asked = draft.being_planned(way)
            self.draft = replace(asked, since=None) if shell.context.recorded else asked
            target = shell.context.target
            feed = shell.feeds.follow(
                "restore plan", lambda _: plan_apart(target, asked), silence=PLAN_SILENCE, once=True,
                subject=str(asked.limit),
            )  # fmt: skip
            self._planning = feed
            self.say("")
            self.subscribe(feed, self.show_planned)
        self.show_draft()

    def stop_planning(self) -> None:
        """Stop planning; the choices stay."""
        if self._planning is not None:
            self.unsubscribe(self._planning)
        stopped = f"Planning was stopped. {bound.key('restore.plan', 'r')} plans again."
        self.draft = replace(self.draft, planning=False, failure=stopped)
        self.show_draft()

    def _ask(self, what: str, value: str) -> None:
        self.query_one(InputLine).open(
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
            self.say(none if plan is None else BLOCKED)
            return None
        return plan
