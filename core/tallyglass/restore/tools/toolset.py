"""Which database tools a plan needs, and which are here. Only asks them for their version."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass

NAMES = ("mongodump", "mongorestore", "bsondump")
NEEDED = (100, 15)
"""Older ones lose --bypassDocumentValidation on the way to the server, and stop at some changes of indexes."""

_VERSION = re.compile(r"version:\s*(?:r|v)?(\d+)\.(\d+)\.(\d+)")
_BY_SERVER = (((9, 0), (100, 18)), ((8, 3), (100, 16)))


@dataclass(frozen=True, slots=True)
class Tools:
    """The version of each tool that was found; empty where none is on the path of this machine."""

    versions: dict[str, tuple[int, int, int]]

    @property
    def oldest(self) -> tuple[int, int, int] | None:
        """The oldest of them."""
        return min(self.versions.values(), default=None)

    @property
    def differ(self) -> bool:
        """Whether they are not all of one version."""
        return len(set(self.versions.values())) > 1


def needed_for(server: str) -> tuple[int, int]:
    """The oldest tools that replay the oplog of this server version."""
    version = version_pair(server)
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
    found = _VERSION.search(output) or re.match(r"(?:r|v)?(\d+)\.(\d+)\.(\d+)", output)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def installed() -> Tools:
    """Ask the tools on the path for their versions. Blocks for as long as they take to start."""
    versions = {}
    for name in NAMES:
        path = shutil.which(name)
        if path is None:
            continue
        try:
            output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        version = parse_tool_version(output)
        if version is not None:
            versions[name] = version
    return Tools(versions)
