"""README.md of a plan's folder: what is restored, to which point, what is lost, how to run and stop it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from tallyglass.moment import iso
from tallyglass.restore.model.check import Level, merged_checks
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.source import FromBackup
from tallyglass.restore.model.step import Phase, RunMode
from tallyglass.restore.model.undo import WriteGroup
from tallyglass.restore.plan.step_text import estimate, numbered, wrapped
from tallyglass.restore.tools.files import WIDTH
from tallyglass.text import clean

_MOST_LOSSES = 12
"""Rows of a list in README.md, which is read whole; plan.json has all of what is undone."""
_HEADINGS = {
    Phase.SECURE: "Save what the server will remove",
    Phase.RESTORE: "Restore onto the spare",
    Phase.VERIFY: "Verify the spare",
    Phase.RETURN: "Return to the live set",
    Phase.CLEAN: "Clean up",
}


def readme(plan: Plan) -> str:
    """The whole text, as Markdown."""
    return "\n".join([*_head(plan), *_undone(plan), *_doubts(plan), *_loss(plan), *_how(plan), *_steps(plan), ""])


def _head(plan: Plan) -> Iterator[str]:
    point = f"just before {plan.facts.limit} ({iso(plan.facts.limit.time)})"
    choice, name = plan.undo.choice, f"the replica set {clean(plan.facts.set_name)}"
    if choice is not None:
        yield f"# Restore {clean(choice.ns)} of {name} as {clean(choice.target)}"
    else:
        yield f"# Undo an incident in {name}" if plan.facts.incident else f"# Restore {name}"
    yield ""
    yield "Run `tallyglass restore run DIR` with this folder: it asks before each step. Nothing was changed so far."
    yield ""
    rows = [
        ("Undoes" if choice is None else "Before", plan.facts.incident),
        ("Point", point),
        ("Last entry kept", plan.facts.before),
        (first_not_kept(plan), plan.facts.after),
        ("Documents from", f"{plan.source.path} ({plan.source.form})"),
        ("Replay from", str(plan.proof.start or "")),
        ("Spare", plan.source.spare if isinstance(plan.source, FromBackup) else ""),
        ("Planned", f"{iso(plan.facts.made)} by tallyglass {plan.facts.made_by}"),
    ]
    for label, text in rows:
        if text:
            yield _item(f"{label}: {clean(text, 300)}")


def first_not_kept(plan: Plan) -> str:
    """What the entry at the point is called: a copy beside the live collection undoes nothing, and without an incident
    that entry may be an insert, which stays."""
    if plan.undo.choice is not None:
        return "First entry left out"
    return "First entry undone" if plan.facts.incident else "First entry after it"


def _undone(plan: Plan) -> Iterator[str]:
    for name, heading in (("undone", "What is undone"), ("left_out", "What was written there meanwhile, and stays")):
        rows: tuple[WriteGroup, ...] = getattr(plan.undo, name)
        if rows:
            yield from ("", f"## {heading}", "")
        for row in rows[:_MOST_LOSSES]:
            yield _item(clean(row.line, 1_000))
        if len(rows) > _MOST_LOSSES:
            yield _item(f"{len(rows) - _MOST_LOSSES} more: see {name} in plan.json")


def _doubts(plan: Plan) -> Iterator[str]:
    doubts = [check for check in merged_checks(plan.checks) if check.level is not Level.OK]
    if doubts:
        yield from ("", "## Warnings", "")
    for check in doubts:
        yield _item(f"{check.id}: {clean(check.title, 2_000)} {clean(check.advice, 600)}".rstrip())


def _loss(plan: Plan) -> Iterator[str]:
    choice = plan.undo.choice
    yield from ("", f"## Written since the point{', what is undone included' if choice is None else ''}", "")
    if not plan.proof.loss:
        yield "Nothing."
    for row in plan.proof.loss[:_MOST_LOSSES]:
        yield _item(f"{clean(row.ns)}: {_operations(row.inserts, row.updates, row.deletes)}")
    rest = plan.proof.loss[_MOST_LOSSES:]
    if rest:
        inserts, updates, deletes = (sum(getattr(row, name) for row in rest) for name in _OPERATIONS)
        yield _item(f"{len(rest)} other namespaces: {_operations(inserts, updates, deletes)}")
    yield ""
    if choice is None:
        back = "Only what was damaged is brought back"
        yield wrapped(f"{back}; what others wrote after the point stays, unless a warning names it.", WIDTH, "")
    else:
        stays = f"All of it stays: {clean(choice.target)} is added, and nothing that is live is changed."
        yield wrapped(stays, WIDTH, "")


_OPERATIONS = ("inserts", "updates", "deletes")


def _operations(*counts: int) -> str:
    """How many of each kind there were, without those that there were none of."""
    some = [(count, name) for count, name in zip(counts, _OPERATIONS, strict=True) if count]
    return ", ".join(f"{count:,} {name[: -1 if count == 1 else None]}" for count, name in some) or "commands alone"


def _how(plan: Plan) -> Iterator[str]:
    total = sum(step.seconds or 0.0 for step in plan.steps.commands)
    yield from ("", "## How to run it, and how to stop", "")
    yield _item(
        "`tallyglass restore run DIR` (or `bash restore.sh` in this folder, which finds tallyglass also where the plan "
        "was made) asks before each step, checks after it, and stops at the first doubt."
    )
    phases = ", ".join(dict.fromkeys(step.phase.value for step in plan.steps.commands))
    yield _item(f"`--until=PHASE` ends after that phase, one of {phases}; `--yes` asks nothing.")
    choice = plan.undo.choice
    yield _item(
        "n, or Ctrl-C, stops it. Run it again to resume: steps that were done are passed over. "
        f"{'Live data change' if choice is None else 'That collection is added'} in the phase `return` alone."
    )
    ends = (
        ("nothing is damaged any more", "something is damaged or unclear")
        if choice is None
        else (f"all is in {clean(choice.target)}", "a document is missing there")
    )
    yield _item(
        f"It ends with 0 only if {ends[0]}; with 3 if {ends[1]}: "
        f"still-damaged.jsonl has each document and the reason{_undecided(plan)}; with 1 if it stopped: run it again."
    )
    yield _item(
        "Or paste the lines below one by one into bash or zsh, in this folder. Stop at the first failure. They need "
        f"the Database Tools {clean(plan.steps.tools_needed, 20)} or newer, all of one version: `restore.sh` checks."
    )
    if plan.steps.found_in:
        yield "- The programs were found on PATH and here; for pasted lines, first:"
        yield f'  `export PATH="$PATH:"{shlex.quote(os.pathsep.join(plan.steps.found_in))}`'
    yield _item(f"The steps with an estimate take {estimate(total)} together. restore.log keeps what was shown.")


def _undecided(plan: Plan) -> str:
    by_hand = any(step.mode is RunMode.BY_HAND for step in plan.steps.commands)
    return "; also with 3 if --yes left out a step that still needs a decision" if by_hand else ""


def _steps(plan: Plan) -> Iterator[str]:
    phase = None
    for number, step in enumerate(plan.steps.commands, start=1):
        if step.phase is not phase:
            if phase is not None:
                yield "```"
            phase = step.phase
            yield from ("", f"## {_HEADINGS[phase]}", "", "```sh")
        yield numbered(number, step)
    if phase is not None:
        yield "```"


def _item(text: str) -> str:
    return wrapped(f"- {text}", WIDTH)
