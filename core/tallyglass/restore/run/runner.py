"""The steps of a plan's folder, one after the other: asks before each, checks after it, and stops at the first doubt.

What is done is kept in the folder, so the next run resumes where this one stopped: a step that is not marked as done
is repeated, and repeating is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.step import Command, Phase, RunMode
from tallyglass.restore.plan.step_text import estimate, labelled, purpose, step_text, step_title, wrapped
from tallyglass.restore.run.folder_lock import sole_run
from tallyglass.restore.run.journal import LOG, Journal, LogTail
from tallyglass.restore.run.operator import Operator
from tallyglass.restore.run.passwords import passwords_in_place
from tallyglass.restore.run.programs import check_programs, environment
from tallyglass.restore.run.silence import Silence
from tallyglass.restore.run.step_output import StepOutput
from tallyglass.restore.run.step_process import StepProcess, left_running
from tallyglass.restore.run.stop import Interrupted, RunStopped, interruptible
from tallyglass.restore.run.written import read_written
from tallyglass.restore.tools.files import INCOMPLETE, OUTCOME, SOURCE, SPARE, UNDECIDED, WIDTH
from tallyglass.text import clean, plural

DONE = 0
"""Exit status of a run after which nothing is damaged."""
STOPPED = 1
"""Exit status of a run that has steps left; it can be resumed."""
DAMAGED = 3
"""Exit status of a run that went to its end and left something damaged, unclear, or undecided."""

MAX_SILENCE = 600.0
"""After how many seconds of silence a database tool is ended for which no server works."""

_LOOK_SECONDS = 0.2
"""Between two checks of a running step: what it prints appears at once to an eye, at 5 checks a second."""
_LONGEST_LINE = 2_000
"""Characters of a printed line that are shown: 25 lines of a terminal. The log has all of it."""
_USUAL_WIDTH = 80
"""Columns where the output is no terminal: those of a plain one."""
_PHASES = list(Phase)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What to run: the steps in ``folder`` up to the phase ``until``, without a question where ``yes``.

    ``password_files`` holds a file by role (source, spare). ``works`` tells whether the server of a configuration file
    works for the program of that name.
    """

    folder: Path
    works: Callable[[Path, str], bool]
    yes: bool = False
    until: Phase = Phase.CLEAN
    password_files: Mapping[str, Path] = field(default_factory=dict)
    max_silence: float = MAX_SILENCE


def run(request: RunRequest, operator: Operator) -> int:
    """Run the steps, and return the exit status: :data:`DONE`, :data:`STOPPED`, :data:`DAMAGED`, or that of a signal.

    Raises InputError, before anything is run, if the folder is not that of a plan.
    """
    try:
        with interruptible():
            plan = read_written(request.folder)
            env = environment(plan)
            check_programs(plan, request.folder, env)
            with sole_run(request.folder):
                return _Run(request, operator, plan, env).to_the_end()
    except (RunStopped, Interrupted, OSError) as stop:
        text, code = _last_words(stop, request.folder)
        operator.show_progress("")
        tell(operator, text)
        return code


def _last_words(stop: RunStopped | Interrupted | OSError, folder: Path) -> tuple[str, int]:
    """What is said of the end of a run, and its exit status."""
    if isinstance(stop, Interrupted):
        return "Stopped at your request. Run it again to resume.", stop.code
    if isinstance(stop, RunStopped):
        return f"STOPPED: [{stop.check}] {stop}", STOPPED
    where = clean(str(stop.filename or folder))
    return f"STOPPED: [folder] {where} cannot be used: {stop.strerror}. Run it again to resume.", STOPPED


class _Run:
    """One run of a folder that no other run uses, and whose files are as they were written."""

    def __init__(self, request: RunRequest, operator: Operator, plan: Plan, env: Mapping[str, str]) -> None:
        self._request, self._operator, self._plan = request, operator, plan
        self._folder, self._steps = request.folder, plan.steps.commands
        self._done = self._folder / "done"
        self._journal = Journal(self._folder)
        self._env = env
        self._report: list[str] = []
        self._undecided: list[str] = []
        self._earlier_account = _modified(self._folder / OUTCOME)

    def to_the_end(self) -> int:
        """Run all steps that are wanted, and return the exit status."""
        left = left_running(self._folder)
        if left:
            numbers = " ".join(map(str, left))
            title = f"A step of a killed run is still running (process {numbers}): wait until it ends."
            raise RunStopped("still-running", title)
        self._done.mkdir(exist_ok=True)
        self._say(purpose(self._plan))
        try:
            with self._passwords():
                for number, step in enumerate(self._steps, start=1):
                    if self._is_past(step) or (step.phase is Phase.CLEAN and self._is_incomplete()):
                        break
                    self._take(number, step)
                return self._finish()
        except (RunStopped, Interrupted, OSError) as stop:
            self._journal.note(_last_words(stop, self._folder)[0])
            raise

    def _passwords(self) -> AbstractContextManager[None]:
        plan, until = self._plan, self._request.until
        users = {"source": plan.steps.source_user, "spare": plan.steps.spare_user}
        users = {role: user for role, user in users.items() if user and role in plan.steps.passwords}
        needed = frozenset(users) - ({"spare"} if until is Phase.SECURE else set())
        return passwords_in_place(self._folder, users, self._request.password_files, needed, self._operator)

    def _is_past(self, step: Command) -> bool:
        return _PHASES.index(step.phase) > _PHASES.index(self._request.until)

    def _is_incomplete(self) -> bool:
        if not (self._folder / INCOMPLETE).exists():
            return False
        self._say("")
        self._say("Not cleaned up: this folder can still restore what is damaged. Run it again once that is possible.")
        return True

    def _is_done(self, number: int) -> bool:
        """Whether a step was done; a guard is repeated with each attempt at the step after it."""
        after = number + 1 if self._steps[number - 1].mode is RunMode.GUARD else number
        return (self._done / str(after)).exists()

    def _take(self, number: int, step: Command) -> None:
        """Run a step if it is not done, and with the guard before it."""
        if self._is_done(number):
            self._say(f"{self._head(number)} (done before)")
            if step.mode is RunMode.AGAIN and not self._is_done(len(self._steps)):
                self._attempt(number, step, "it was done before, and failed when it was repeated.")
            return
        if step.mode is RunMode.GUARD:
            return
        self._say("")
        before = self._steps[number - 2] if number > 1 else None
        guard = [(number - 1, before)] if before is not None and before.mode is RunMode.GUARD else []
        for one, shown in (*guard, (number, step)):
            self._show(partial(step_text, one, len(self._steps), shown))
        self._show(lambda width: [labelled("left", f"{self._time_left(number)}, with this step", width)])
        if not self._is_wanted(number, step):
            return
        for one, attempted in (*guard, (number, step)):
            output = self._attempt(one, attempted, "nothing after it was run.")
        if not output.printed.proves(step.proof, self._folder):
            raise self._failed("check-failed", number, "did not give the computed result.", output)
        (self._done / str(number)).touch()

    def _is_wanted(self, number: int, step: Command) -> bool:
        if self._request.yes:
            why = _SKIPPED_WITH_YES.get(step.mode)
            if why:
                self._say(f"  skipped with --yes: {why}")
            if step.mode is RunMode.BY_HAND:
                self._undecided.append(self._head(number))
            return why is None
        agrees = self._operator.agrees()
        if agrees is None:
            raise RunStopped("no-terminal", "There is no terminal to ask on.", "Run it with --yes, or in a terminal.")
        if agrees:
            return True
        if step.mode not in _SKIPPED_WITH_YES:
            raise RunStopped("declined", f"Before step {number}, at your request.", "Run it again to resume.")
        self._say("  skipped")
        return False

    def _attempt(self, number: int, step: Command, otherwise: str) -> StepOutput:
        """Run one step, and follow what it prints. Raises RunStopped if it fails."""
        tail = LogTail(self._journal.path, self._journal.size())
        with StepProcess(step.shell, self._folder, self._journal.path, self._env) as process:
            silence = Silence(process.group, self._request.max_silence, self._works)
            output = StepOutput(tail, step.seconds, silence)
            status = process.wait(0)
            while status is None:
                status = process.wait(_LOOK_SECONDS)
                self._show_printed(output.new_lines(ended=False))
                self._operator.show_progress(f"  {output.progress.line()}")
                silent = silence.broken() if status is None else ""
                # It may have said something while the servers were asked.
                if silent and not self._show_printed(output.new_lines(ended=False)):
                    raise self._silent(number, silent)
        self._show_printed(output.new_lines(ended=True))
        self._operator.show_progress("")
        self._report.append(f"  {self._head(number)}, {output.progress.so_far()}")
        if status not in step.exits:
            raise self._failed("step-failed", number, f"failed; {otherwise}", output)
        return output

    def _show_printed(self, lines: list[str]) -> bool:
        """Show what a step printed, without what steers a terminal; the log keeps it as it was. Whether it did."""
        if lines:
            self._operator.show_progress("")
            tell(self._operator, "\n".join(clean(line.expandtabs(2), _LONGEST_LINE) for line in lines))
        return bool(lines)

    def _works(self, tool: str) -> bool:
        files = (self._folder / name for name in (SPARE, SOURCE))
        return any(self._request.works(file, tool) for file in files if file.exists())

    def _failed(self, check: str, number: int, what: str, output: StepOutput) -> RunStopped:
        cause = output.printed.likely_cause()
        advice = f"{cause} What it printed is in {LOG}." if cause else f"What it printed is in {LOG}."
        return RunStopped(check, f"Step {number} ({clean(self._steps[number - 1].title)}) {what}", advice)

    def _silent(self, number: int, tool: str) -> RunStopped:
        return RunStopped(
            "step-silent",
            f"Step {number} ({clean(self._steps[number - 1].title)}) was ended, and nothing after it was run: {tool} "
            f"printed nothing new for {self._request.max_silence:g} s, and no server was working for it.",
            "See the log of the server and check the backup; then run it again: it repeats this step.",
        )

    def _head(self, number: int) -> str:
        return step_title(number, len(self._steps), self._steps[number - 1])

    def _time_left(self, number: int) -> str:
        """The estimates of the steps that are still to be run, from this one on."""
        left = list(self._to_run(number))
        known = sum(step.seconds or 0.0 for step in left)
        unknown = sum(not step.seconds for step in left)
        steps = [f"{plural(unknown, 'step')} without an estimate"] if unknown else []
        return ", and ".join([estimate(known)] * bool(known) + steps)

    def _to_run(self, first: int) -> Iterator[Command]:
        for number, step in enumerate(self._steps[first - 1 :], start=first):
            if not self._is_past(step) and not self._is_done(number):
                yield step

    def _finish(self) -> int:
        self._say("")
        if self._report:
            self._say("\n".join(["What was done:", *self._report]))
        outcome = self._folder / OUTCOME
        made = _modified(outcome)
        if made is not None:
            if made == self._earlier_account:
                self._say(f"By the account of an earlier run, {datetime.fromtimestamp(made, UTC):%Y-%m-%dT%H:%M:%SZ}:")
            self._say(outcome.read_text(encoding="ascii", errors="replace").rstrip("\n"))
        left = self._undecided and self._say_what_is_undecided(outcome)
        if left or (self._folder / INCOMPLETE).exists():
            self._say(f"NOT COMPLETE. Files are in {clean(str(self._folder))}.")
            return DAMAGED
        self._say(f"Done up to: {self._request.until}. Files are in {clean(str(self._folder))}.")
        return DONE

    def _say_what_is_undecided(self, outcome: Path) -> bool:
        """Whether something is: not where the account found all as the steps that were left out would make it."""
        differing, heads = self._folder / UNDECIDED, ", ".join(self._undecided)
        if outcome.exists() and not differing.exists():
            self._say(f"Nothing to decide: what {heads} would set back is as it was at the point.")
            return False
        said = _lines(outcome)
        for line in _lines(differing):
            if line not in said:
                self._say(line)
        self._say(f"Not decided, and not done: {heads}. Run it again without --yes.")
        return True

    def _show(self, lines: Callable[[int], Iterable[str]]) -> None:
        """Show what is said of a step as wide as the person sees it; the log is as wide as the folder's other files."""
        self._operator.tell("\n".join(lines(self._operator.width or _USUAL_WIDTH)))
        self._journal.note("\n".join(lines(WIDTH)))

    def _say(self, text: str) -> None:
        tell(self._operator, text)
        self._journal.note(text)


def _modified(file: Path) -> float | None:
    """When a file was written last, in seconds since 1970; None without one."""
    return file.stat().st_mtime if file.exists() else None


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="ascii", errors="replace").splitlines() if file.exists() else []


def tell(operator: Operator, text: str) -> None:
    """Show lines, those that are wider than the person sees broken between words."""
    width = operator.width
    operator.tell("\n".join(wrapped(line, width) for line in text.split("\n")) if width else text)


_SKIPPED_WITH_YES = {
    RunMode.BY_HAND: "this step needs a decision. Run it again without --yes, or run the line above.",
    RunMode.PREVIEW: "it only shows what the next steps do.",
}
"""The steps that a no does not stop at, and why --yes leaves them out."""
