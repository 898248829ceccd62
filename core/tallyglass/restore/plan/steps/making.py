"""The ways to make a step, and to join some."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypedDict, Unpack

from tallyglass.restore.model.step import Command, Effect, Phase, PlanFile, PlanSteps, Proof, RunMode
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import PLAN, SPARE
from tallyglass.text import shell_join


def join(parts: Iterable[PlanSteps]) -> PlanSteps:
    """All steps of some parts, in order; a file that several parts have is listed once."""
    found = list(parts)
    files = {file.name: file for part in found for file in part.files}
    return PlanSteps(tuple(step for part in found for step in part.commands), tuple(files.values()))


def with_files(steps: PlanSteps, *files: PlanFile) -> PlanSteps:
    """These steps with the ``files`` that they read, and the helpers of their mongosh programs."""
    programs = [file.text for file in steps.files if file.name.endswith(".js")]
    helpers = (PlanFile(mongosh.HELPERS, mongosh.helpers(programs)),) if programs else ()
    return PlanSteps(steps.commands, (*files, *helpers, *steps.files))


_START_SECONDS = 1.0
"""What a program of a step takes to start and to connect, on a machine that is not busy."""


class Details(TypedDict, total=False):
    """What else is known of a step, as :class:`Command` describes it."""

    undo: str
    mode: RunMode
    proof: Proof
    seconds: float | None
    counts: tuple[str, ...]
    exits: tuple[int, ...]


def run(
    phase: Phase, title: str, effect: Effect, argv: Sequence[str], *, why: str, **details: Unpack[Details]
) -> PlanSteps:
    """A step that is one command. An estimate of less than the start of a program is that."""
    if (seconds := details.get("seconds")) is not None:
        details["seconds"] = max(seconds, _START_SECONDS)
    return PlanSteps((Command(phase, title, tuple(argv), shell_join(argv), why, effect=effect, **details),))


def run_shell(
    phase: Phase, title: str, effect: Effect, file: PlanFile, *, why: str, **details: Unpack[Details]
) -> PlanSteps:
    """A step that is a small shell program."""
    return replace(run(phase, title, effect, ("bash", file.name), why=why, **details), files=(file,))


def run_mongosh(
    phase: Phase, title: str, effect: Effect, name: str, statements: Sequence[str], *, why: str,
    **details: Unpack[Details],
) -> PlanSteps:  # fmt: skip
    """A step that is a small mongosh program, which takes about a second."""
    details.setdefault("seconds", _START_SECONDS)
    step = run(phase, title, effect, mongosh_call(name), why=why, **details)
    return replace(step, files=(PlanFile(name, mongosh.program(statements)),))


def mongosh_call(name: str) -> tuple[str, ...]:
    """The command that runs a mongosh program of the folder."""
    return ("mongosh", "--nodb", "--norc", "--quiet", f"--file={name}")


def verification(*options: str) -> tuple[str, ...]:
    """``tallyglass restore verify`` of the spare against the plan in the folder."""
    return ("tallyglass", "restore", "verify", PLAN, f"--spare={SPARE}", *options)


def escape_pattern(ns: str) -> str:
    """A namespace as a literal in a pattern of the tools: ``*`` and ``\\`` are escaped with a backslash."""
    return ns.replace("\\", "\\\\").replace("*", "\\*")
