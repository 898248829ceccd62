"""What a plan is for, and one step, as text: the same on the screen, in the folder, and before the script asks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from tallyglass.moment import iso
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.step import Command, Effect, Proof
from tallyglass.restore.tools.files import WIDTH, fold_shell
from tallyglass.text import clean, duration, shell_quote

_PROMPT = "  $ "
_LABEL = 9
"""Columns up to the text: an indent of two, the longest label, its colon and a blank."""


def purpose(plan: Plan) -> str:
    """What a run of the plan undoes or restores, in one line."""
    facts, choice = plan.facts, plan.undo.choice
    point = f"just before {facts.limit} ({iso(facts.limit.time)})"
    if choice is not None:
        return f"Restores {clean(choice.ns)} as {clean(choice.target)}, as it was {point}."
    return f"Undoes: {clean(facts.incident, 300)}; {point}." if facts.incident else f"Restores to {point}."


def step_text(number: int, total: int, step: Command, width: int = WIDTH) -> Iterator[str]:
    """The title, the line to paste, and what it does, in ``width`` columns. ``steps.txt`` consists of these."""
    yield wrapped(step_title(number, total, step), width)
    first, *rest = fold_line(step, width - len(_PROMPT)).split("\n")
    yield f"{_PROMPT}{first}"
    yield from (f"  {line}" for line in rest)
    said = [("does", step.effect.value)]
    if step.seconds is not None:
        said.append(("takes", estimate(step.seconds)))
    said += [("why", clean(step.why, 1_000)), *(("count", clean(count)) for count in step.counts)]
    said += [("undo", clean(step.undo, 1_000)), ("ends", _end_of(step.proof))]
    yield from (labelled(label, text, width) for label, text in said if text)


def labelled(label: str, text: str, width: int) -> str:
    """One thing that is said of a step, below its label."""
    return wrapped(f"  {label + ':':<{_LABEL - 2}}{text}", width, " " * _LABEL)


def step_title(number: int, total: int, step: Command) -> str:
    """Which step it is, and what for."""
    return f"[{number}/{total}] {step.phase}: {clean(step.title)}"


def numbered(number: int, step: Command) -> str:
    """A step in a list of lines to paste: its title and effect as a comment, and the line."""
    effect = "" if step.effect is Effect.FILES else f" ({step.effect.value})"
    return f"{wrapped(f'# {number}. {clean(step.title)}{effect}', WIDTH, '#    ')}\n{fold_line(step)}"


def fold_line(step: Command, width: int = WIDTH) -> str:
    """The command line of a step, wrapped before options if it is long; it can still be pasted."""
    return fold_shell(step.shell, [shell_quote(word) for word in step.argv], width)


def wrapped(line: str, width: int, indent: str | None = None) -> str:
    """A line broken between words; ``indent`` begins the further lines, two columns more than the first if None."""
    if indent is None:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def estimate(seconds: float) -> str:
    """An estimate in words."""
    return f"about {duration(max(1.0, seconds))}"


def _end_of(proof: Proof) -> str:
    """What a step prints at its end where it did all its work."""
    lines = [] if proof.applied is None else [f"applied {proof.applied} oplog entries"]
    lines += [] if proof.restored is None else ["0 document(s) failed to restore."]
    return " and ".join(f'"{line}"' for line in lines)
