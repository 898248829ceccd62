"""A plan's folder as it was written: nothing of a folder that was changed is run."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from tallyglass import __version__
from tallyglass.errors import InputError
from tallyglass.restore.model.document import from_json
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.folder import CHECKSUMS, checksums, no_folder_of_a_plan
from tallyglass.restore.run.programs import other_version
from tallyglass.restore.run.stop import RunStopped
from tallyglass.restore.tools.files import PLAN, without_password
from tallyglass.text import clean, shell_join


def read_written(folder: Path) -> Plan:
    """The plan of a folder, with its steps.

    Raises InputError for anything but the folder of a plan, and RunStopped if a file of it was changed or another
    version wrote it.
    """
    try:
        listed = (folder / CHECKSUMS).read_text(encoding="utf-8")
        text = (folder / PLAN).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
        raise no_folder_of_a_plan(folder) from None
    except OSError as error:
        raise InputError(f"{clean(str(folder), 200)} cannot be read: {error.strerror}.") from None
    _refuse_changed(folder, listed)
    made_by = json.loads(text).get("made_by")
    if made_by != __version__:
        raise other_version(str(made_by), f"tallyglass {__version__}")
    plan = from_json(text)
    commands = tuple(replace(step, shell=step.shell or shell_join(step.argv)) for step in plan.steps.commands)
    return replace(plan, steps=replace(plan.steps, commands=commands))


def _refuse_changed(folder: Path, listed: str) -> None:
    rows = (line.partition("  ") for line in listed.splitlines() if not line.startswith("#"))
    wanted = {name: digest for digest, _, name in rows}
    changed = [name for name, digest in wanted.items() if _digest(folder / name) != digest]
    if checksums(wanted) != listed:
        changed = [CHECKSUMS]
    if changed:
        shown = clean(" ".join(changed), 400)
        title = f"Changed since it was written: {shown}."
        raise RunStopped("edited", title, "Nothing was run; write the plan again.")


def _digest(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    if path.suffix == ".yml":
        # A killed run may have left a password there.
        data = without_password(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    return hashlib.sha256(data).hexdigest()
