"""Passwords: in the tools' configuration files for as long as the steps run, and in no argument."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tallyglass.restore.run.journal import private
from tallyglass.restore.run.operator import Operator
from tallyglass.restore.run.stop import RunStopped
from tallyglass.restore.tools.files import without_password
from tallyglass.text import clean

ROLES = ("source", "spare")


@contextlib.contextmanager
def passwords_in_place(
    folder: Path, users: Mapping[str, str], files: Mapping[str, Path], needed: frozenset[str], operator: Operator
) -> Iterator[None]:
    """Add the passwords to the configuration files in ``folder``, and remove them at the end.

    ``users`` are the users by role, only of those with a password; ``files`` the files whose first line is one. Those
    of the roles in ``needed`` are read or asked for. What a killed run left is removed first. Raises RunStopped.
    """
    for role in users:
        _write(folder, role, None)
    try:
        for role in users:
            if role in needed:
                _write(folder, role, _read(role, files[role]) if role in files else _asked(role, users[role], operator))
        yield
    finally:
        for role in users:
            _write(folder, role, None)


def _read(role: str, path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            password = file.readline().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise RunStopped("password", f"{clean(str(path))} cannot be read: {error.strerror}.") from None
    if not password:
        raise RunStopped("password", f"{clean(str(path))} is empty.", "Its first line is the password.")
    return password


def _asked(role: str, user: str, operator: Operator) -> str:
    password = operator.password(f"Password of {user} on the {role}: ")
    if password is None:
        raise RunStopped("password", f"There is no terminal to ask on: give --{role}-password-file.")
    return password


def _write(folder: Path, role: str, password: str | None) -> None:
    """Replace the file at once: with this password, or without any."""
    path = folder / f"{role}.yml"
    draft = path.with_suffix(".yml.new")
    before = path.read_text(encoding="utf-8", errors="surrogateescape") if path.exists() else ""
    text = without_password(before)
    if password is None:
        draft.unlink(missing_ok=True)  # of a run that was killed
        if before.startswith(text) and before != text:
            # Cut off in place: a password must not stay because the disk is full.
            os.truncate(path, len(text.encode(errors="surrogateescape")))
            return
    else:
        # What ends a line for somebody, or is no YAML, is escaped; bytes that are not UTF-8 cannot be.
        as_it_is = password.isprintable() or any("\udc80" <= one <= "\udcff" for one in password)
        quoted = "'" + password.replace("'", "''") + "'" if as_it_is else json.dumps(password)
        text += f"password: {quoted}\n"
    if text == before:
        return
    with open(draft, "w", encoding="utf-8", errors="surrogateescape", opener=private) as file:
        file.write(text)
    draft.replace(path)
