"""One step as a process, in a session of its own: it can be ended whole, and is found again after a kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tallyglass.restore.run.journal import private
from tallyglass.restore.run.processes import birth, members

RUNNING = "running"
"""The file that names the step that runs: the number of its process, and when that began."""

# The line is run only once its process is named in RUNNING: a run that is killed before leaves nothing.
_ON_A_WORD = 'read -r go && exec bash -c "$1" </dev/null'
_GRACE_SECONDS = 10.0
"""What the processes of a step have to end after they are asked, so that they can close their files."""
_LOOK_SECONDS = 0.1
"""A person who pressed Ctrl-C does not notice it."""
_POLL_SECONDS = 0.02
"""Between two questions whether it has ended: what a short step may take longer than it does."""


class StepProcess:
    """The command line of a step, run by bash in ``folder``; what it prints is added to ``log``.

    A context manager: whatever runs at its end is ended.
    """

    def __init__(self, line: str, folder: Path, log: Path, env: Mapping[str, str]) -> None:
        self._running = folder / RUNNING
        with open(log, "ab", opener=private) as out:
            self._process = subprocess.Popen(
                ["bash", "-c", _ON_A_WORD, "step", line],
                cwd=folder, env=env, stdin=subprocess.PIPE, stdout=out, stderr=out, umask=0o077,
                start_new_session=True,
            )  # fmt: skip
        self.group = self._process.pid

    def __enter__(self) -> Self:
        try:
            self._running.write_text(f"{self.group}\n{birth(self.group)}\n", encoding="ascii")
            assert self._process.stdin is not None
            with self._process.stdin as start:
                start.write(b"go\n")
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.end()
        self._running.unlink(missing_ok=True)

    def wait(self, seconds: float) -> int | None:
        """The exit status, negative for a signal; None if it still runs after so many seconds."""
        end = time.monotonic() + seconds
        while not self._has_ended() and (left := end - time.monotonic()) > 0:
            time.sleep(min(_POLL_SECONDS, left))
        return self._process.returncode

    def _has_ended(self) -> bool:
        # Popen.wait holds a lock, which a signal that ends the run leaves locked if it comes as it is taken: the next
        # wait would then never return.
        if self._process.returncode is None:
            try:
                pid, status = os.waitpid(self.group, os.WNOHANG)
            except ChildProcessError:  # a signal came between an earlier answer and its use
                pid, status = self.group, signal.SIGKILL
            if pid:
                self._process.returncode = os.waitstatus_to_exitcode(status)
        return self._process.returncode is not None

    def end(self) -> None:
        """End it and all that it started in its session: first asked to, and after 10 s made to."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.group, number)
            waited = 0.0
            while members(self.group) and waited < _GRACE_SECONDS:
                if self.wait(_LOOK_SECONDS) is not None:
                    time.sleep(_LOOK_SECONDS)  # others of its group may need a moment more
                waited += _LOOK_SECONDS
        while self.wait(_GRACE_SECONDS) is None:
            pass


def left_running(folder: Path) -> list[int]:
    """The processes of a step that a killed run left; they go on writing."""
    try:
        pid, began = (folder / RUNNING).read_text(encoding="ascii").splitlines()
        group = int(pid)
    except (OSError, ValueError):
        return []
    now = birth(group)
    # The number may belong to another process by now.
    return [] if now and now != began else sorted(members(group))
