"""The specification of the steps of one restore, and the ways to make a step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tallyglass.moment import Ts
from tallyglass.restore.backup.backup import ARCHIVE, Contents
from tallyglass.restore.model.proof import ExpectedNamespace, Slice
from tallyglass.restore.model.step import Command, Effect, Phase, PlanFile
from tallyglass.restore.model.undo import Accident, Return, WriteGroup
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import PLAN, SOURCE, SPARE
from tallyglass.restore.tools.tool_uri import ToolUri
from tallyglass.text import shell_join


@dataclass(frozen=True, slots=True)
class Damage:
    """How many operations of the accident hit a namespace, and how many documents others wrote there since."""

    by_accident: int = 0
    by_others: int = 0

    def of(self, accident: Accident | None, ns: str) -> Damage:
        """The damage of a namespace if as many operations are the accident's as were found to be, where they were."""
        if accident is None or accident.ns != ns or not accident.entries:
            return self
        return Damage(accident.entries, self.by_accident + self.by_others - accident.entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnSpec:
    """Everything that the steps of the return are made from. All of it was proven before.

    ``own_spare`` is the port on which the steps start a spare, 0 if one was named or none is needed. ``fixes`` and
    ``live_fixes`` are the mongosh statements for counters on the spare and on the live set. ``documents`` says by
    namespace how many documents come back, None if that was not computed, and ``paths`` the paths of the counter values
    in its documents. ``definitions`` are the statements for indexes and validators that a person decides on.
    ``set_name`` is that of the source, which the spare must not have. ``ids`` are those of the documents that were
    asked for, if only some were. ``copy`` is the option for the source of the documents as they were at the point.
    """

    source: ToolUri
    set_name: str = ""
    expected: tuple[ExpectedNamespace, ...] = ()
    returns: tuple[Return, ...] = ()
    documents: dict[str, int | None] = field(default_factory=dict)
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    damage: dict[str, Damage] = field(default_factory=dict)
    fixes: tuple[str, ...] = ()
    live_fixes: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    undone: tuple[WriteGroup, ...] = ()
    left_out: tuple[WriteGroup, ...] = ()
    ids: tuple[str, ...] = ()
    own_spare: int = 0
    copy: str = f"--spare={SPARE}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunbookSpec(ReturnSpec):
    """What the steps are made from that rebuild the data on a spare, and return it.

    ``mark`` is the mark that a named spare gets. ``oplog`` is where the saved oplog lies that the window is cut from,
    empty if it is dumped from the server; ``live_from`` where the server's oplog must take over, None if the saved one
    reaches the limit.
    """

    mark: str
    spare: ToolUri
    contents: Contents
    start: Ts
    limit: Ts
    slice: Slice
    applied: int
    without: tuple[Ts, ...] = ()
    open_views: tuple[str, ...] = ()
    surplus: dict[str, list[str]] = field(default_factory=dict)
    phantoms: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    spare_in_set: bool = False
    oplog: tuple[str, ...] = ()
    live_from: Ts | None = None

    @property
    def gzip(self) -> bool:
        """Whether the run that replays reads compressed files: an archive was unpacked before."""
        return self.contents.backup.gzip and self.contents.backup.form != ARCHIVE


@dataclass(frozen=True, slots=True)
class Steps:
    """Some steps, and the files that they run or read."""

    commands: tuple[Command, ...] = ()
    files: tuple[PlanFile, ...] = ()


def join(parts: Iterable[Steps]) -> Steps:
    """All steps of some parts, in order; a file that several parts have is listed once."""
    found = list(parts)
    files = {file.name: file for part in found for file in part.files}
    return Steps(tuple(step for part in found for step in part.commands), tuple(files.values()))


def run(phase: Phase, title: str, effect: Effect, argv: Sequence[str], *, why: str, undo: str = "") -> Command:
    """A step that is one command."""
    return Command(phase, title, tuple(argv), shell_join(argv), why, undo, effect=effect)


def run_shell(phase: Phase, title: str, effect: Effect, file: PlanFile, *, why: str, undo: str = "") -> Steps:
    """A step that is a small shell program."""
    return Steps((run(phase, title, effect, ("bash", file.name), why=why, undo=undo),), (file,))


def run_mongosh(
    phase: Phase, title: str, effect: Effect, name: str, statements: Sequence[str], *, why: str, undo: str = ""
) -> Steps:
    """A step that is a small mongosh program."""
    step = replace(run(phase, title, effect, mongosh_call(name), why=why, undo=undo), seconds=1.0)
    return Steps((step,), (PlanFile(name, mongosh.program(statements)),))


def mongosh_call(name: str) -> tuple[str, ...]:
    """The command that runs a mongosh program of the folder."""
    return ("mongosh", "--nodb", "--norc", "--quiet", f"--file={name}")


def verification(*options: str) -> tuple[str, ...]:
    """``tallyglass restore verify`` of the spare against the plan in the folder."""
    return ("tallyglass", "restore", "verify", PLAN, f"--spare={SPARE}", *options)


def both_sides(command: str, copy: str, *options: str) -> tuple[str, ...]:
    """A command of ``tallyglass restore`` that reads the live set and ``copy``, the option for the other side."""
    return ("tallyglass", "restore", command, PLAN, f"--source={SOURCE}", copy, *options)


def escape_pattern(ns: str) -> str:
    """A namespace as a literal in a pattern of the tools: ``*`` and ``\\`` are escaped with a backslash."""
    return ns.replace("\\", "\\\\").replace("*", "\\*")
