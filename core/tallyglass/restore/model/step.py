"""The steps of a plan: command lines, with what each changes and what must hold after it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    """The phases of a runbook, in order."""

    SECURE = "secure"
    RESTORE = "restore"
    VERIFY = "verify"
    RETURN = "return"
    CLEAN = "clean"


class Effect(StrEnum):
    """The strongest effect of a step."""

    FILES = "files only"
    READS_SPARE = "reads spare"
    READS_LIVE = "reads live"
    WRITES_SPARE = "writes spare"
    WRITES_LIVE = "writes live"


class RunMode(StrEnum):
    """When a run of all steps runs this one."""

    ONCE = "once"
    GUARD = "guard"
    """Together with the step after it, and again with each attempt at that one."""
    AGAIN = "again"
    """In each run until all is done: what it did may have to be done again."""
    PREVIEW = "preview"
    """Shows a person what the next steps will do, which do it once more themselves: ``--yes`` leaves it out."""
    BY_HAND = "by-hand"
    """Only if the user agrees: ``--yes`` skips it, and a no does not stop the script."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What must hold after a step, by what mongorestore printed: it ``applied`` so many entries of the oplog, and its
    last line reports at least ``restored`` documents and no failure; None where that is not looked at. ``file`` names a
    file that the step must have made."""

    applied: int | None = None
    restored: int | None = None
    file: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One step: ``shell`` is one line to paste in the plan's folder, and ``argv`` its arguments.

    ``why`` is one sentence; ``undo`` says how to take the step back, and is empty where nothing was changed. ``counts``
    tells, for each namespace that is written, how many documents are expected to change. ``proof`` must hold after the
    step. ``seconds`` is an estimate, None where there is none. ``exits`` are the exit codes of a step that did its
    work.
    """

    phase: Phase
    title: str
    argv: tuple[str, ...]
    shell: str
    why: str = ""
    undo: str = ""
    proof: Proof = Proof()
    mode: RunMode = RunMode.ONCE
    effect: Effect = Effect.FILES
    counts: tuple[str, ...] = ()
    seconds: float | None = None
    exits: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A file of the plan's folder that a step reads or runs. It holds no secret."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class PlanSteps:
    """The steps of a plan, the ``files`` that they need, and what a run of them needs.

    ``work_dir`` is where a script unpacks the folder of the plan. ``tools_needed`` is the oldest version of the
    Database Tools, ``found_in`` the folders of the programs that the steps call, on the machine that made the plan,
    without the usual ones. ``passwords`` names the servers, ``source`` or ``spare``, whose password the tools ask for.
    """

    commands: tuple[Command, ...] = ()
    files: tuple[PlanFile, ...] = ()
    work_dir: str = ""
    tools_needed: str = ""
    found_in: tuple[str, ...] = ()
    source_user: str = ""
    spare_user: str = ""
    passwords: tuple[str, ...] = ()
