"""The spare of a plan's folder, restored and verified, left running for a person who may only read."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tallyglass.errors import InputError, TallyglassError
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.step import Phase
from tallyglass.restore.spare import own_spare
from tallyglass.restore.spare.own_spare import PROGRAM
from tallyglass.restore.tools import mongosh
from tallyglass.text import clean, clean_name, shell_join
from tallyglass.whole_file import write_whole

USER = "tallyglass_look"
"""The user who may read, and with one collection alone the role of that user."""
_OPEN, _SHELL, _PASSWORD = "look-open.js", "look.js", "look.password"
_ACTIONS = ("find", "listIndexes", "collStats")
_LINGER = 'cat >/dev/null; rm -f "$1" "$2" "$3"; exec bash "$4" stop'
"""Ends the spare as soon as its input is closed, also where the command that holds it was killed."""


class NotRestored(TallyglassError):
    """The spare could not be restored, or not be opened."""


@dataclass(frozen=True, slots=True)
class OpenedSpare:
    """How to connect: ``shell`` is a line for mongosh without a password in it, ``uri`` is for other programs, with the
    user but without the password, which ``password_file`` holds."""

    shell: str
    uri: str
    password_file: Path


def check_folder(folder: Path, plan: Plan, only: str) -> None:
    """Raise InputError if the folder has no spare of its own, or the plan no collection ``only``."""
    if not (folder / PROGRAM).is_file():
        spare = clean(plan.from_backup.spare)
        title = f"The plan in {clean(str(folder))} starts no spare of its own: it restores onto {spare}."
        raise InputError(title, "Plan without --spare, or look at that server.")
    if only and only not in {item.ns for item in plan.proof.expected}:
        known = ", ".join(clean_name(item.ns) for item in plan.proof.expected[:5])
        raise InputError(f"The plan restores no {clean_name(only)}.", f"It restores, among others: {known}.")


def restore(folder: Path, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
    """Run the emitted script up to the phase that verifies; its output goes to stderr. Raises NotRestored."""
    argv = ["bash", str(folder / "restore.sh"), "--yes", f"--until={Phase.VERIFY}", *words]
    done = subprocess.run(argv, env=environment, stdin=subprocess.DEVNULL, stdout=2, check=False)
    if done.returncode:
        raise NotRestored(f"The script stopped with status {done.returncode}.", "Its last lines say why.")


@contextmanager
def running(folder: Path, environment: Mapping[str, str]) -> Iterator[None]:
    """The spare runs; it is stopped at the end, however that comes, and keeps its data. Raises NotRestored."""
    paths = [str(folder / name) for name in (_OPEN, _SHELL, _PASSWORD)]
    with subprocess.Popen(
        ["sh", "-c", _LINGER, "tallyglass-look", *paths, PROGRAM],
        cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
    ):  # fmt: skip
        started = subprocess.run(["bash", PROGRAM, "start"], cwd=folder, env=environment, check=False)
        if started.returncode:
            raise NotRestored("The spare cannot be started.", f"{clean(str(folder / 'spare.log'))} says why.")
        yield


def open_to_read(folder: Path, plan: Plan, only: str, environment: Mapping[str, str]) -> OpenedSpare:
    """Make the user who may read all that was restored, or the collection ``only``. Raises NotRestored."""
    password = secrets.token_urlsafe(18)
    write_whole(folder / _OPEN, "\n".join(_statements(plan, only, password)) + "\n")
    done = subprocess.run(
        ["mongosh", "--nodb", "--norc", "--quiet", f"--file={_OPEN}"],
        cwd=folder, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    (folder / _OPEN).unlink()
    if done.returncode:
        raise NotRestored("The user of the spare cannot be made.", clean(done.stderr or done.stdout, 300))
    where = f"{plan.from_backup.spare}/?authSource=admin&directConnection=true"
    write_whole(folder / _PASSWORD, password + "\n")
    write_whole(folder / _SHELL, f"db = connect({mongosh.literal(f'mongodb://{USER}:{password}@{where}')});\n")
    shell = shell_join(("mongosh", "--nodb", "--shell", str(folder / _SHELL)))
    return OpenedSpare(shell, f"mongodb://{USER}@{where}", folder / _PASSWORD)


def _statements(plan: Plan, only: str, password: str) -> Iterator[str]:
    address, _, options = own_spare.uri(int(plan.from_backup.spare.rpartition(":")[2])).partition("@")
    yield 'const key = encodeURIComponent(require("fs").readFileSync("spare.key", "utf8").trim());'
    yield f"const admin = connect({mongosh.literal(address)} + ':' + key + {mongosh.literal('@' + options)})"
    yield "  .getSiblingDB('admin');"
    for kind, missing in (("dropUser", 11), ("dropRole", 31)):
        attempt = f"admin.runCommand({mongosh.literal({kind: USER})});"
        yield f"try {{ {attempt} }} catch (error) {{ if (error.code !== {missing}) {{ throw error; }} }}"
    role = "readAnyDatabase"
    if only:
        db, _, name = only.partition(".")
        role = USER
        allowed = [{"resource": {"db": db, "collection": name}, "actions": list(_ACTIONS)}]
        yield _must({"createRole": role, "privileges": allowed, "roles": []})
    yield _must({"createUser": USER, "pwd": password, "roles": [role]})


def _must(command: Mapping[str, Any]) -> str:
    return f"if (!admin.runCommand({mongosh.literal(command)}).ok) {{ throw new Error('not made'); }}"
