"""Find and kill the descendants of this process through /proc, including those whose parents have exited.

Finds nothing on systems without /proc.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_GUARD = "tallyglass-guard"
"""How `tallyglass.demo.server` names the process that removes a server's folder after its starter exits."""


Key = tuple[int, int]
"""PID and start time, which together are unique."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process. ``started`` is in clock ticks since boot."""

    pid: int
    started: int
    parent: int
    group: int
    state: str
    """The state letter of ``ps``: ``T`` is stopped, ``Z`` is a zombie."""

    @property
    def key(self) -> Key:
        return self.pid, self.started

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command line, or an empty tuple if the process has exited."""
        try:
            return tuple((_PROC / str(self.pid) / "cmdline").read_text(errors="replace").split("\0")[:-1])
        except OSError:
            return ()

    @property
    def is_guard(self) -> bool:
        """Whether this is a guard, which exits by itself and must outlive the process that it guards."""
        return _GUARD in self.argv

    def __str__(self) -> str:
        return f"{self.pid} ({self.state}) {' '.join(self.argv)[:200]}"


def adopt_orphans() -> None:
    """Make this process the parent of descendants whose own parent exits (child subreaper)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(*roots: int) -> dict[Key, Process]:
    """Return all living descendants of the processes ``roots``, or of this process, by key."""
    children: dict[int, list[Process]] = {}
    for process in _all_processes():
        children.setdefault(process.parent, []).append(process)
    found: dict[Key, Process] = {}
    parents = [*(roots or (os.getpid(),))]
    while parents:
        for process in children.pop(parents.pop(), ()):
            parents.append(process.pid)
            if process.state != "Z":
                found[process.key] = process
    return found


def children() -> set[int]:
    """Return the PIDs of this process's own children, zombies included.

    Far cheaper than :func:`descendants`, and enough to notice a new process: an orphan becomes a child of this process
    (:func:`adopt_orphans`).
    """
    try:
        lists = [(task / "children").read_text() for task in (_PROC / "self" / "task").iterdir()]
    except OSError:  # a kernel without these lists, or a thread that has just ended
        return {process.pid for process in _all_processes() if process.parent == os.getpid()}
    return {int(pid) for pids in lists for pid in pids.split()}


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped (SIGSTOP)."""
    try:
        return _parse((_PROC / str(pid) / "stat").read_text(errors="replace")).state == "T"
    except OSError:
        return False


def kill(processes: Iterable[Process], seconds: float = 10.0) -> None:
    """Send SIGKILL to the processes and to the groups that they lead, and wait up to ``seconds`` until they exit."""
    processes = list(processes)
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if process.group == process.pid:
                os.killpg(process.pid, signal.SIGKILL)
            os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    keys = {process.key for process in processes}
    while keys & descendants().keys() and time.monotonic() < deadline:
        time.sleep(0.01)


def _all_processes() -> list[Process]:
    found = []
    for folder in _PROC.iterdir() if _PROC.is_dir() else ():
        if folder.name.isdecimal():
            with contextlib.suppress(OSError):
                found.append(_parse((folder / "stat").read_text(errors="replace")))
    return found


def _parse(stat: str) -> Process:
    # The name in parentheses may contain anything: the fields start after the last parenthesis.
    pid = int(stat.split(" ", 1)[0])
    fields = stat.rpartition(")")[2].split()
    return Process(pid, int(fields[19]), int(fields[1]), int(fields[2]), fields[0])
