"""The programs that a drill runs: their versions, and where to get missing ones."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tallyglass.restore.drill.report import UNKNOWN
from tallyglass.restore.drill.run_folder import MARK
from tallyglass.restore.drill.stopped import Failed
from tallyglass.restore.tools.find_mongod import VARIABLE
from tallyglass.restore.tools.toolset import (
    MONGOSH_FROM,
    NAMES,
    TOOLS_FROM,
    installed,
    needed_for,
    said_of_version,
    version_in,
    version_pair,
)
from tallyglass.text import clean

_COMMON = ("bash", "ps", "awk", "sha256sum", "gzip")


def check_components(server_version: str, mongod: Path | None) -> dict[str, str]:
    """The version of each program, by name. Raises Failed, which names all that are missing or unfit. Blocks until each
    program has started and answered."""
    problems: list[str] = []
    tools, floor = installed(), needed_for(server_version, plain=True)
    unfit = [
        f"{name} is {_as_found(tools.versions.get(name), name in tools.missing)}"
        for name in NAMES
        if tools.versions.get(name, ())[:2] < floor
    ]
    if unfit:
        needed = ".".join(map(str, floor))
        problems.append(f"{', '.join(unfit)}: install the Database Tools {needed} or newer ({TOOLS_FROM})")
    if shutil.which("mongosh") is None:
        problems.append(f"mongosh is missing: install it ({MONGOSH_FROM})")
    found = {name: ".".join(map(str, version)) for name, version in tools.versions.items()}
    wanted = ".".join(map(str, version_pair(server_version) or ("?",)))
    mongod_version = version_in(said_of_version(mongod)) if mongod else ""
    if mongod and not mongod_version:
        problems.append(f"{clean(str(mongod))} does not say its version: run it with --version to see why")
    elif not mongod_version:
        problems.append(
            f"mongod {wanted} is missing: put one on PATH, name one with $TALLYGLASS_MONGOD, or, for 6.0, "
            "pip install 'tallyglass[demo]'"
        )
    elif version_pair(mongod_version) != version_pair(server_version):
        problems.append(
            f"mongod is {mongod_version}, the source is {server_version}: name one of {wanted} with $TALLYGLASS_MONGOD"
        )
    problems += [f"{name} is missing" for name in _COMMON if shutil.which(name) is None]
    if problems:
        raise Failed("components", "A drill cannot run here: " + "; ".join(problems) + ".", level=UNKNOWN)
    return found | {"mongod": mongod_version}


def _as_found(version: tuple[int, int, int] | None, missing: bool) -> str:
    return ".".join(map(str, version)) if version else "missing" if missing else "of an unknown version"


def search_path(mongod: Path | None) -> str:
    """A short PATH with the folders of all programs that a drill runs."""
    programs = [where for name in (*NAMES, "mongosh", "node", *_COMMON) if (where := shutil.which(name))]
    folders = [str(Path(where).parent) for where in (*programs, *([str(mongod)] if mongod else []))]
    return os.pathsep.join(dict.fromkeys([*folders, *os.defpath.strip(":").split(os.pathsep)]))


def environment(folder: Path, mongod: Path, cache_bytes: int, tallyglass: Sequence[str]) -> Mapping[str, str]:
    """The environment for the script: its ``mongod`` has a bounded cache, its ``tallyglass`` is this one.

    ``folder`` is a new folder for these programs, inside the folder of the run."""
    folder.mkdir(mode=0o700)
    size = f"--wiredTigerCacheSizeGB={cache_bytes / 2**30:.3f}"
    # ``--version`` accepts no other option.
    _program(folder / "mongod", f'[ "$1" = --version ] || set -- "$@" {size}\nexec {shlex.quote(str(mongod))} "$@"')
    _program(folder / "tallyglass", f'exec {shlex.join(tallyglass)} "$@"')
    return os.environ | {
        "PATH": f"{folder}:{os.environ.get('PATH', os.defpath)}",
        VARIABLE: str(folder / "mongod"),
        MARK: str(folder.parent),
    }


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o700)
