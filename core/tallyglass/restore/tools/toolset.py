"""Which programs the steps of a plan need, and which are here. Only asks them for their version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tallyglass.errors import EmbeddedServerError
from tallyglass.restore.tools.find_mongod import find_mongod

NAMES = ("mongodump", "mongorestore")
NEEDED = (100, 15)
"""Older ones lose --bypassDocumentValidation on the way to the server, and stop at some changes of indexes."""

PLAIN = (100, 10)
"""These suffice where no validator and no changed index is replayed, on the servers that they were tested with."""

_PLAIN_BEFORE = (8, 0)
"""The first server with which those were not tested."""

TOOLS_FROM = "https://www.mongodb.com/try/download/database-tools"
MONGOSH_FROM = "https://www.mongodb.com/try/download/shell"

_BY_SERVER = (((9, 0), (100, 18)), ((8, 3), (100, 16)))
"""Servers from this version on, and the first tools that support them by their changelog."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The version of each tool that was found; empty where none is on the path of this machine."""

    versions: dict[str, tuple[int, int, int]]
    missing: tuple[str, ...] = ()
    """Those that are not here, and mongosh if it is not."""

    @property
    def oldest(self) -> tuple[int, int, int] | None:
        """The oldest of them."""
        return min(self.versions.values(), default=None)

    @property
    def differ(self) -> bool:
        """Whether they are not all of one version."""
        return len(set(self.versions.values())) > 1


def needed_for(server: str, *, plain: bool = False) -> tuple[int, int]:
    """The oldest tools that replay the oplog of this server version; ``plain`` if it needs no more than the oldest."""
    version = version_pair(server)
    if plain and version is not None and version < _PLAIN_BEFORE:
        return PLAIN
    for since, tools in _BY_SERVER:
        if version is not None and version >= since:
            return tools
    return NEEDED


def version_pair(text: str) -> tuple[int, int] | None:
    """Major and minor version, such as (6, 0); None for a text that holds none."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def parse_tool_version(output: str) -> tuple[int, int, int] | None:
    """The version in what a tool prints for ``--version``, or in a dump's prelude."""
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", output)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def said_of_version(program: str | Path, env: Mapping[str, str] | None = None) -> str:
    """All that a program prints for ``--version``; empty where it cannot be run."""
    try:
        done = subprocess.run(
            [program, "--version"], env=env, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"{done.stdout}{done.stderr}"


def version_in(text: str) -> str:
    """The first version of three numbers in a text; empty where there is none."""
    found = re.search(r"\d+\.\d+\.\d+", text)
    return found[0] if found else ""


def installed() -> Tools:
    """Ask the tools on the path for their versions. Blocks for as long as they take to start."""
    versions = {}
    for name in NAMES:
        path = shutil.which(name)
        version = parse_tool_version(said_of_version(path)) if path else None
        if version is not None:
            versions[name] = version
    return Tools(versions, tuple(name for name in (*NAMES, "mongosh") if shutil.which(name) is None))


def how_to_get(missing: tuple[str, ...], version: str) -> str:
    """Where to get programs that are missing; ``version`` is that of the database tools."""
    tools = f"the Database Tools {version} or newer ({TOOLS_FROM})" if set(missing) & set(NAMES) else ""
    shell = f"mongosh ({MONGOSH_FROM})" if "mongosh" in missing else ""
    return f"Install {' and '.join(filter(None, (tools, shell)))} where the steps are run; in a checkout: make tools."


_USUAL = frozenset(f"{root}/{name}" for root in ("", "/usr", "/usr/local") for name in ("bin", "sbin"))


def own_program() -> str:
    """What any shell of this user can call this program by: its name, or the path of the one beside this Python where
    only a virtual environment has it. That may be on PATH here alone."""
    beside, found = Path(sys.executable).with_name("tallyglass"), shutil.which("tallyglass")
    own = str(beside.parent) not in _USUAL and os.access(beside, os.X_OK)
    return str(beside) if own and found in (None, str(beside)) else "tallyglass"


def found_in() -> tuple[str, ...]:
    """The folders of the programs that the steps call, without those that every shell looks in."""
    found = [where for name in (*NAMES, "mongosh", "node") if (where := shutil.which(name))]
    with suppress(EmbeddedServerError):  # a run reports it where a mongod is needed
        mongod = shutil.which("mongod") or find_mongod()
        found += [str(mongod)] if Path(mongod).name == "mongod" else []
    found += filter(None, [shutil.which(own_program())])
    folders = dict.fromkeys(str(Path(where).absolute().parent) for where in found)
    # A line of a script, and a list that colons divide.
    return tuple(name for name in folders if name not in _USUAL and name.isprintable() and os.pathsep not in name)
