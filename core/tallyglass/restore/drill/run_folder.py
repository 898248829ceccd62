"""The folder of a drill: one run at a time, removed at the end.

A guard process removes the folder and ends what runs in it when the drill's own process ends for any reason. If the
guard was killed too, or the machine lost power, the next drill cleans up: the lock, which the kernel releases when its
process ends, names the folder of the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from tallyglass.errors import TallyglassError
from tallyglass.text import clean

PREFIX = "drill-"
MARK = "TALLYGLASS_DRILL"
"""The environment variable that names the run's folder to every process that it starts."""

_PROGRAMS = "(^|/)(bash|mongo[a-z]+|python[0-9.]*|node|tallyglass|tee|gzip)$"
"""Programs that a run starts. Where environments cannot be read, processes are found by name and by the folder in their
arguments."""

_GUARD = """
cat >/dev/null
users() {
  if [ -e /proc/self/environ ]; then
    for p in /proc/[0-9]*; do grep -qzxF "$3=$1" "$p/environ" 2>/dev/null && echo "${p#/proc/}"; done
  else
    ps -ww -U "$(id -u)" -o pid=,args= |
      folder="$1/" programs="$2" awk 'index($0, ENVIRON["folder"]) && $2 ~ ENVIRON["programs"] {print $1}'
  fi
}
n=0
while [ $n -lt 100 ]; do
  left=$(users "$@")
  [ -n "$left" ] || break
  kill -9 $left 2>/dev/null
  n=$((n+1)); sleep 0.1
done
rm -rf "$1"
"""
_END_SECONDS = 30.0
"""A process that was killed ends at once, unless it waits for a disk."""


class DrillRunning(TallyglassError):
    """Another drill runs on this machine."""


@contextlib.contextmanager
def sole_run(state: Path, root: Path) -> Iterator[Path]:
    """A new folder under ``root`` for one run, which is removed at the end with every process that uses it.

    The lock in ``state`` names the folder of the last run: what a killed run left behind is removed first. Raises
    DrillRunning, and OSError if one of the folders cannot be written.
    """
    for place in (state, root):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
    with (state / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DrillRunning("Another drill is running on this machine.", "Wait until it has ended.") from None
        lock.seek(0)
        last = lock.read()
        if Path(last).name.startswith(PREFIX):
            remove(Path(last))
        folder = root / f"{PREFIX}{secrets.token_hex(8)}"
        # Recorded before the folder is made: a run may be killed at any moment.
        lock.truncate(0)
        lock.write(str(folder))
        lock.flush()
        folder.mkdir(mode=0o700)
        with _guard(folder):
            try:
                yield folder
            finally:
                remove(folder)


@contextlib.contextmanager
def _guard(folder: Path) -> Iterator[None]:
    """A process that outlives this one and removes the run as soon as its pipe closes."""
    with subprocess.Popen(
        ["sh", "-c", _GUARD, "tallyglass-guard", str(folder), _PROGRAMS, MARK],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    ):  # fmt: skip
        yield


def remove(folder: Path) -> None:
    """End every process that a run started, and remove its files. Raises TallyglassError if a process does not end or a
    file cannot be removed."""
    deadline = time.monotonic() + _END_SECONDS
    while users := users_of(folder):
        if time.monotonic() > deadline:
            raise TallyglassError(f"The processes {users} of a drill do not end.", f"End them, and remove {folder}.")
        for pid in users:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        raise TallyglassError(f"Files of a drill cannot be removed: {clean(str(folder))}.", "Remove that folder.")


def users_of(folder: Path) -> list[int]:
    """The processes that a run in ``folder`` started, directly or not."""
    proc = Path("/proc/self/environ")
    found = _by_environment(folder) if proc.exists() else _by_arguments(folder)
    return [pid for pid in found if pid != os.getpid()]


def _by_environment(folder: Path) -> list[int]:
    mark = f"{MARK}={folder}".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # Belongs to another user, or has ended.
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return found


def _by_arguments(folder: Path) -> list[int]:
    listed = subprocess.run(["ps", "-ww", "-U", str(os.getuid()), "-o", "pid=,args="], capture_output=True, check=False)
    found = []
    for line in listed.stdout.decode(errors="replace").splitlines():
        pid, _, command = line.strip().partition(" ")
        if f"{folder}/" in command and re.search(_PROGRAMS, command.split(maxsplit=1)[0]):
            found.append(int(pid))
    return found
