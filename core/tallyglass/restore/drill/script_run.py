"""Runs the emitted script of a drill as a person would, and times its phases."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from tallyglass.connection.secret import Secret
from tallyglass.restore.drill import load
from tallyglass.restore.drill.report import PHASES
from tallyglass.restore.drill.request import DrillRun
from tallyglass.restore.drill.run_folder import users_of
from tallyglass.restore.drill.stopped import why_stopped
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.self_extracting import MODE, script

_POLL_SECONDS = 0.2
"""How exactly phases are timed, and how long a tool may exceed its rate."""

_STEP = re.compile(rb"^\[\d+/\d+\] ([a-z]+): ", re.MULTILINE)
"""What the script says first of a step."""


async def run_script(run: DrillRun, folder: Path, env: Mapping[str, str], plan: Plan) -> None:
    """Run the script of a plan in this folder once, as a person would, up to its last phase that only reads the live
    set. Raises Failed."""
    log = folder / "script.log"
    password = run.request.password if "source" in plan.steps.passwords else None
    path = folder / "restore.sh"
    path.write_text(script(plan), encoding="utf-8")
    path.chmod(MODE)
    process = _start_script(path, env, password, log)
    pace = load.ToolPace(run.request.rate) if run.request.rate else None
    phases = _PhaseClock(run, log)
    try:
        while process.poll() is None:
            if pace is not None:
                pace.check(await asyncio.to_thread(users_of, folder))
            phases.read_log()
            await asyncio.sleep(_POLL_SECONDS)
        phases.read_log()
    finally:
        phases.end()
        # A deadline may end the drill before the script; what it runs goes with the folder.
        process.kill()
        process.wait()
    if process.returncode:
        raise why_stopped(log, phases.now, process.returncode)


class _PhaseClock:
    """Follows the script's output, and records how long each phase takes."""

    def __init__(self, run: DrillRun, log: Path) -> None:
        self._run, self._log, self._read = run, log, 0
        self._rest = b""
        self._begin(1)

    @property
    def now(self) -> str:
        """The phase that runs."""
        return PHASES[self._number]

    def read_log(self) -> None:
        """Read what was printed since the last call."""
        with self._log.open("rb") as file:
            file.seek(self._read)
            text = self._rest + file.read()
            self._read = file.tell()
        self._rest = text[text.rfind(b"\n") + 1 :]
        for name in _STEP.findall(text):
            later = [number for number in range(self._number + 1, len(PHASES)) if PHASES[number].encode() == name]
            if later:
                self.end()
                self._begin(later[0])

    def end(self) -> None:
        """The phase is over."""
        self._run.seconds[self.now] = time.monotonic() - self._since

    def _begin(self, number: int) -> None:
        self._number, self._since = number, time.monotonic()
        self._run.tell(self.now)


def _start_script(path: Path, env: Mapping[str, str], password: Secret | None, log: Path) -> subprocess.Popen[bytes]:
    words = ["bash", str(path), "--yes", "--until", PHASES[-1]]
    pipes = [_as_pipe(password)] if password else []
    words += [word for pipe in pipes for word in ("--source-password-file", f"/dev/fd/{pipe}")]
    try:
        with log.open("wb") as out:
            return subprocess.Popen(
                words, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=pipes,
                start_new_session=True, cwd=path.parent,
            )  # fmt: skip
    finally:
        for pipe in pipes:
            os.close(pipe)


def _as_pipe(secret: Secret) -> int:
    """A file descriptor to read a password from, so that the password is in no file and no argument."""
    reading, writing = os.pipe()
    os.write(writing, secret.reveal().encode() + b"\n")
    os.close(writing)
    return reading
