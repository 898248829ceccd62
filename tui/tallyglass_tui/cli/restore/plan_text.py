"""A plan, its checks and its progress as text for a person."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TYPE_CHECKING

from tallyglass.moment import iso
from tallyglass.text import clean
from tallyglass_tui.cli.error_boundary import print_aside, print_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tallyglass.restore.model.check import Check
    from tallyglass.restore.model.plan import Plan
    from tallyglass.restore.plan.precheck import QuickAnswer
    from tallyglass.restore.proof.progress import Progress, Step

CODES = {"ok": 0, "warn": 1, "block": 2}
WORDS = {"ok": "ok", "warn": "warning", "block": "blocked"}


def print_first(found: QuickAnswer) -> None:
    """What is known before the proof, on stderr: saving the oplog cannot wait for it."""
    print_message(found.line)
    if found.save:
        print_message("Save the oplog now with this line, since the proof may take long:")
        print_aside(found.save)


@contextlib.contextmanager
def shown_progress() -> Iterator[Progress]:
    """How far the proof is: one line that is overwritten on a terminal, and gone at the end; elsewhere a line every
    30 s."""
    terminal = sys.stderr.isatty()
    every = _SHOWN_SECONDS if terminal else _LOGGED_SECONDS
    begun = shown = time.monotonic()

    def show(step: Step) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - shown < every:
            return
        shown = now
        line = f"{step.entries:,} entries, at {iso(step.at.time)}"
        if step.share:
            line += f", about {(now - begun) * (1 - step.share) / step.share:,.0f} s left"
        if terminal:
            overwrite(line)
        else:
            print_message(line)

    def overwrite(line: str) -> None:
        sys.stderr.write(f"\r{line:<70}\r")
        sys.stderr.flush()

    try:
        yield show
    finally:
        if terminal and shown > begun:
            overwrite("")


_SHOWN_SECONDS = 0.5  # between two states of the line in a terminal
_LOGGED_SECONDS = 30.0  # between two lines in a log, which keeps them all


def print_doubts(checks: Iterable[Check]) -> None:
    """Prints the checks that warn or block to stderr; equal ones of many namespaces as one."""
    from tallyglass.restore.model.check import merged_checks

    for check in merged_checks(checks):
        if check.level != "ok":
            print_message(f"{WORDS[check.level]}: {in_words(check)}")


def in_words(check: Check) -> str:
    """A check's title and advice, safe to show."""
    return f"{clean(check.title, 2_000)} {clean(check.advice)}".rstrip()


_MOST_LOSSES = 20  # namespaces, so that the commands below are not scrolled away


def as_lines(made: Plan) -> Iterator[str]:
    """The plan for a person: lines to paste in its folder, everything else as comments of a shell."""
    from tallyglass.restore.model.check import merged_checks
    from tallyglass.restore.plan.readme import first_not_kept

    first = first_not_kept(made)
    how = f"replaying from {made.proof.start}" if made.proof.start else f"from {clean(made.source.form)}"
    yield f"# Restore to just before {made.facts.limit} ({iso(made.facts.limit.time)}), {how}."
    if made.facts.before:
        yield f"# {'Last entry kept:':<{len(first) + 1}} {clean(made.facts.before, 160)}"
    if made.facts.after:
        yield f"# {first}: {clean(made.facts.after, 160)}"
    yield from (f"# {line}" for line in made.undo.lines("--json lists them all"))
    yield "#"
    for check in merged_checks(made.checks):
        yield f"# {WORDS[check.level]:<8} {in_words(check)}"
    for loss in made.proof.loss[:_MOST_LOSSES]:
        yield (
            f"# after the point on {clean(loss.ns)}: {loss.inserts} inserts, {loss.updates} updates, "
            f"{loss.deletes} deletes"
        )
    if len(made.proof.loss) > _MOST_LOSSES:
        yield f"# after the point: {len(made.proof.loss) - _MOST_LOSSES} more namespaces; --json lists them all"
    for reissue in made.proof.reissue:
        restored = "nothing" if reissue.restored is None else reissue.restored
        yield (
            f"# {clean(reissue.ns)} {clean(reissue.id)} would hand out ids again: "
            f"{restored} restored, {reissue.live} live"
        )
    yield from _steps(made)


def _steps(made: Plan) -> Iterator[str]:
    from tallyglass.restore.plan.step_text import numbered

    if made.steps.commands:
        yield "#"
        yield "# The lines below run in the plan's folder. Write it with --out DIR; restore.sh there runs them all."
    phase = ""
    for number, step in enumerate(made.steps.commands, start=1):
        if step.phase != phase:
            phase = step.phase
            yield from ("", f"# --- {phase} ---")
        yield numbered(number, step)
