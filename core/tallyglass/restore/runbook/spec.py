"""What the commands of one restore are made from, and the few ways to make one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tallyglass.moment import Ts
from tallyglass.restore.backup.backup import ARCHIVE, Contents
from tallyglass.restore.model.plan import Command, ExpectedNamespace, Phase, Return, Slice
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.files import WorkDir, chain, write
from tallyglass.restore.tools.tool_uri import ToolUri
from tallyglass.text import shell_join, shell_quote


@dataclass(frozen=True, slots=True)
class RunbookSpec:
    """Everything that the commands are made from. All of it was proven before.

    ``own_spare`` is a port: the commands start a spare of their own there; 0 where one was named. ``fixes`` and
    ``live_fixes`` are the mongosh statements for counters on the spare and on the live set; ``merges`` those that merge
    what came back, by namespace. ``moved`` are the namespaces of the counters in ``live_fixes``,
    ``definitions`` the statements for indexes and validators that a person decides on. ``set_name`` is that of the
    source, which the spare must not have. ``ids`` are those of the documents that were asked for, if only some were.
    """

    work: WorkDir
    source: ToolUri
    spare: ToolUri
    contents: Contents
    start: Ts
    limit: Ts
    slice: Slice
    applied: int
    without: tuple[Ts, ...] = ()
    open_views: tuple[str, ...] = ()
    expected: tuple[ExpectedNamespace, ...] = ()
    surplus: dict[str, list[str]] = field(default_factory=dict)
    phantoms: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    returns: tuple[Return, ...] = ()
    merges: dict[str, list[str]] = field(default_factory=dict)
    fixes: tuple[str, ...] = ()
    live_fixes: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    definitions: tuple[str, ...] = ()
    own_spare: int = 0
    set_name: str = ""
    ids: tuple[str, ...] = ()

    def password(self, role: str) -> str:
        """The file that holds the password of ``source`` or ``spare`` while the commands run."""
        own = role == "spare" and self.own_spare
        return self.work.at("spare.key") if own else self.work.password(role)

    @property
    def gzip(self) -> bool:
        """Whether the run that replays reads compressed files: an archive was unpacked before."""
        return self.contents.backup.gzip and self.contents.backup.form != ARCHIVE


def tool(name: str, *options: str) -> tuple[str, ...]:
    """The argument list of a tool; every option is one word, ``--name=value``."""
    return (name, *options)


def run(phase: Phase, title: str, argv: Sequence[str], *, why: str = "", undo: str = "", proof: str = "") -> Command:
    """A step that is one command."""
    return Command(phase, title, tuple(argv), shell_join(argv), why, undo, proof)


def text(phase: Phase, title: str, shell: str, *, why: str = "", undo: str = "", proof: str = "") -> Command:
    """A step that is shell text."""
    return Command(phase, title, (), shell, why, undo, proof)


def run_mongosh(
    spec: RunbookSpec,
    phase: Phase,
    file: str,
    title: str,
    statements: Sequence[str],
    role: str,
    why: str,
    undo: str = "",
) -> Command:
    """A step that writes a file for mongosh and runs it. ``role`` is source or spare."""
    uri = spec.source if role == "source" else spec.spare
    path = spec.work.at(file)
    password = spec.password(role) if uri.asks else ""
    argv = tool("mongosh", "--nodb", "--norc", "--quiet", f"--file={path}")
    if role == "spare":
        # Its address may lead elsewhere by now: a tunnel that was opened again, a name that moved.
        statements = [mongosh.must_not_be_set(spec.set_name), *statements]
    lines = mongosh.program(statements, uri.text, password)
    return Command(phase, title, argv, chain(write(path, lines), shell_join(argv)), why, undo)


def logged(argv: Sequence[str], log: str) -> str:
    """A tool whose words are kept as they are; the terminal is shown nothing that could steer it."""
    return f"{shell_join(argv)} 2>&1 | tee {shell_quote(log)} | cat -v"


def said_at_the_end(restored: str, log: str) -> str:
    """Whether the last line that mongorestore wrote says that ``restored`` documents came, a pattern, and none failed.

    The last line alone: in those before it stand names out of the data, which may read like it.
    """
    came = rf"{restored} document\(s\) restored successfully\. 0 document\(s\) failed to restore\."
    line = f"^[^[:space:]]+[[:space:]]{came}$"
    return f"tail -n 1 {shell_quote(log)} | grep -qE {shell_quote(line)}"


def verification(spec: RunbookSpec, *options: str) -> tuple[str, ...]:
    """``tallyglass restore verify`` of the spare against the plan in the work directory."""
    words = [spec.work.plan, f"--spare={spec.spare.text}", *options]
    if spec.spare.asks:
        words.append(f"--password-file={spec.password('spare')}")
    return tool("tallyglass", "restore", "verify", *words)


def escape_pattern(ns: str) -> str:
    """A namespace where the tools read a pattern: ``*`` and ``\\`` stand for themselves after a backslash."""
    return ns.replace("\\", "\\\\").replace("*", "\\*")
