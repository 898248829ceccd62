"""Processes by number: when one began, what runs in its group, and whether it is connected."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def birth(pid: int) -> str:
    """When a process began, as a text that no other process with its number has; empty if there is none."""
    try:
        # The fields after the name, which may hold blanks and brackets: the 20th is the start, in ticks since boot.
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {stat.rpartition(')')[2].split()[19]}"
    except (OSError, IndexError):
        return _ps("-o", "lstart=", "-p", str(pid)).strip()


def members(group: int) -> dict[int, str]:
    """The processes of a process group that have not ended: each with the name of its program, which may be empty."""
    found = {}
    for line in _ps("-eo", "pid=,pgid=,stat=,comm=").splitlines():
        pid, pgid, state, *name = line.split(maxsplit=3)
        if int(pgid) == group and not state.startswith("Z"):
            found[int(pid)] = "".join(name).rpartition("/")[2]
    return found


def is_connected(pid: int) -> bool:
    """Whether a process has a socket; also where that cannot be told."""
    try:
        return any(os.readlink(one).startswith("socket:") for one in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return True


def _ps(*options: str) -> str:
    env = os.environ | {"LC_ALL": "C"}
    return subprocess.run(["ps", *options], env=env, capture_output=True, text=True, check=False).stdout
