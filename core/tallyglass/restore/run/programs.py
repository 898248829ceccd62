"""The programs that the steps call: all here, the database tools of one version and new enough."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tallyglass.restore.model.plan import Plan
from tallyglass.restore.run.stop import RunStopped
from tallyglass.restore.spare import own_spare
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.toolset import NAMES, version_pair
from tallyglass.text import clean

_COMMON = ("bash", "awk", "ps", "sha256sum", "gzip")
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def environment(plan: Plan) -> Mapping[str, str]:
    """The environment of the steps: the places where the plan found programs come after those of this shell."""
    folders = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *plan.steps.found_in]
    return os.environ | {"PATH": os.pathsep.join(dict.fromkeys(folders))}


def check_programs(plan: Plan, folder: Path, env: Mapping[str, str]) -> None:
    """Raise RunStopped if one is missing or unfit. Blocks until each has said its version."""
    path = env["PATH"]
    needed = version_pair(plan.steps.tools_needed) or (0, 0)
    versions = set()
    for name in NAMES:
        if shutil.which(name, path=path) is None:
            raise _missing(name, f"The Database Tools {plan.steps.tools_needed} or newer are needed.")
        version = _version_of(name, env)
        if not version:
            raise RunStopped("tool-version", f"The version of {name} cannot be read.")
        if (version_pair(version) or ()) < needed:
            raise RunStopped("tool-version", f"{name} is {version}; {plan.steps.tools_needed} or newer is needed.")
        versions.add(version)
    if len(versions) > 1:
        raise RunStopped("tool-mixed", "The Database Tools are of different versions.", "Install them as one package.")
    for name in (*_COMMON, "tallyglass", *(["mongosh"] if (folder / mongosh.HELPERS).exists() else [])):
        if shutil.which(name, path=path) is None:
            raise _missing(name)
    here = _output("tallyglass", env).strip()
    if here != f"tallyglass {plan.facts.made_by}":
        raise other_version(plan.facts.made_by, here)
    if (folder / own_spare.PROGRAM).exists():
        _check_mongod(plan, env)


def other_version(made_by: str, here: str) -> RunStopped:
    """The reason to stop if the folder was made by another version, whose steps may mean something else."""
    title = f"This plan was made by tallyglass {clean(made_by, 40)}; the version here is: {clean(here, 80)}."
    return RunStopped("tallyglass-version", title, "Plan again.")


def _check_mongod(plan: Plan, env: Mapping[str, str]) -> None:
    if shutil.which("mongod", path=env["PATH"]) is None:
        raise _missing("mongod", "Install it, or plan again with --spare.")
    version = _version_of("mongod", env)
    if version_pair(version) != version_pair(plan.facts.server_version):
        raise RunStopped("spare-version", f"mongod is {version} here, the source is {plan.facts.server_version}.")


def _missing(name: str, advice: str = "") -> RunStopped:
    return RunStopped("tool-missing", f"{name} is not installed here.", advice)


def _version_of(name: str, env: Mapping[str, str]) -> str:
    found = _VERSION.search(_output(name, env))
    return found[0] if found else ""


def _output(name: str, env: Mapping[str, str]) -> str:
    program = shutil.which(name, path=env["PATH"]) or name
    try:
        done = subprocess.run(
            [program, "--version"], env=env, capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return f"{done.stdout}{done.stderr}"
