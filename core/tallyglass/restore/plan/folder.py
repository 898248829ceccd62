"""A plan as a folder: everything that its steps need, in files that a person can read."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.moment import iso
from tallyglass.paths import absolute_path
from tallyglass.restore.model.check import merged_checks
from tallyglass.restore.model.document import from_json, to_json
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Strategy
from tallyglass.restore.plan.readme import readme
from tallyglass.restore.plan.step_text import step_text
from tallyglass.restore.tools.files import PLAN, fold_json, without_password
from tallyglass.restore.tools.toolset import own_program
from tallyglass.text import clean, clean_name, shell_quote

SCRIPT = "restore.sh"
CHECKSUMS = "checksums"
"""The SHA-256 of each file; they are checked before anything is run."""


def no_folder_of_a_plan(path: Path) -> InputError:
    """The error for a path that is something else."""
    return InputError(
        f"{clean(str(path), 200)} is not the folder of a plan.",
        "tallyglass restore plan --out DIR writes one; so does w on the restore page.",
    )


def folder_files(plan: Plan) -> dict[str, str]:
    """The files of the folder by name. Raises InputError for a plan that blocks."""
    if plan.is_blocked or not plan.steps.commands:
        raise InputError("The plan is blocked: there are no commands to write.", "Its checks say why.")
    found = {
        "README.md": readme(plan),
        PLAN: fold_json(to_json(_kept(plan), packed=True)) + "\n",
        SCRIPT: _script(plan),
        "steps.txt": _steps(plan),
        **{file.name: file.text for file in plan.steps.files},
    }
    return found | {CHECKSUMS: checksums({name: _digest(text) for name, text in found.items()})}


def checksums(digests: Mapping[str, str]) -> str:
    """The text of :data:`CHECKSUMS`, as ``sha256sum --check`` reads it. Its last line is a comment with the SHA-256 of
    the others, so that no line can be taken out."""
    text = "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))
    return f"{text}# {_digest(text)}\n"


def _kept(plan: Plan) -> Plan:
    """The part of a plan that a run and its steps read, without what is only for display. The line of a step that is
    one command follows from its arguments."""
    merged = {clean_name(row.ns) for row in plan.undo.returns if row.strategy is Strategy.MERGE}
    source = plan.source
    if source.backup is not None:
        source = replace(source, backup=replace(source.backup, namespaces=()))
    commands = tuple(replace(step, shell="") if step.argv else step for step in plan.steps.commands)
    return replace(
        plan,
        source=source,
        proof=replace(
            plan.proof,
            loss=tuple(row for row in plan.proof.loss if row.commands),
            reissue=tuple(replace(row, fix="") for row in plan.proof.reissue if row.ns in merged),
        ),
        checks=tuple(replace(check, title=clean(check.title, 100), advice="") for check in merged_checks(plan.checks)),
        steps=replace(plan.steps, commands=commands, files=()),
    )


def mode_of(name: str) -> int:
    """The mode of a file of the folder."""
    return 0o700 if name.endswith(".sh") else 0o600


def check_free(path: Path) -> None:
    """Raise InputError if a new plan cannot be written to ``path``; called before planning, which may take hours."""
    path = absolute_path(path)
    shown = clean(str(path))
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise InputError(f"{shown} exists already.", "Name a new folder; it is made.")
    except OSError as error:
        raise InputError(f"The folder {shown} cannot be written: {error.strerror}.") from None
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"The folder {shown} cannot be written: its parent is missing or read-only.")


def write_folder(plan: Plan, path: Path) -> Path:
    """Write the folder, readable by its owner alone, and give its absolute path. It appears whole or not at all.

    Raises InputError, and changes nothing, if the plan blocks, ``path`` holds something else, a file of this plan was
    changed, or the folder cannot be written. Does nothing if the folder already holds this plan.
    """
    path = absolute_path(path)
    wanted = folder_files(plan)
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            _check_unchanged(path, wanted)
            return path
        draft = Path(tempfile.mkdtemp(prefix=".tallyglass-", dir=path.parent))
        try:
            for name, text in wanted.items():
                with open(draft / name, "x", encoding="utf-8", opener=_private(name)) as file:
                    file.write(text)
            draft.replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                shutil.rmtree(draft)
            raise
    except OSError as error:
        raise InputError(f"The folder {clean(str(path))} cannot be written: {error.strerror}.") from None
    return path


def run_line(path: Path) -> str:
    """The line for a shell that runs the plan of a folder, from anywhere."""
    return f"{shell_quote(own_program())} restore run {shell_quote(str(path))}"


def _private(name: str) -> Callable[[str, int], int]:
    return lambda path, flags: os.open(path, flags, mode_of(name))


def _check_unchanged(path: Path, wanted: dict[str, str]) -> None:
    shown, advice = clean(str(path)), "Name a new folder."
    plan = path / PLAN
    if not plan.is_file() or not (path / CHECKSUMS).is_file():
        raise InputError(f"{shown} exists and is not the folder of a plan.", advice)
    try:
        there = from_json(plan.read_text(encoding="utf-8"))
    except (InputError, UnicodeDecodeError):
        raise InputError(f"{shown} holds a plan of another version, or one that was changed.", advice) from None
    if (path / CHECKSUMS).read_text(encoding="utf-8", errors="replace") != wanted[CHECKSUMS]:
        facts = there.facts
        made = f"to just before {facts.limit}, made {iso(facts.made)} by tallyglass {clean(facts.made_by, 40)}"
        raise InputError(f"{shown} holds another plan: {made}.", advice)
    for name, text in wanted.items():
        file = path / name
        if not file.is_file() or without_password(file.read_text(encoding="utf-8", errors="replace")) != text:
            raise InputError(f"{name} in {shown} was changed since it was written.", advice)


def _script(plan: Plan) -> str:
    """A few lines for those who start it with a shell."""
    found = f'PATH="$PATH:"{shlex.quote(os.pathsep.join(plan.steps.found_in))}\n' if plan.steps.found_in else ""
    limit = plan.facts.limit
    head = f"# Restores {clean(plan.facts.set_name)} to just before {limit} ({iso(limit.time)}): see README.md."
    return f"#!/usr/bin/env bash\n{head}\n{found}{_RUN}"


_RUN = """\
# Asks before each step of steps.txt, checks after it, and stops at the first doubt. Run it again to resume.
# Options: --yes, --until PHASE, --source-password-file FILE, --spare-password-file FILE, --max-silence SECONDS.
command -v tallyglass >/dev/null || { echo "STOPPED: [tool-missing] tallyglass is not installed here." >&2; exit 1; }
exec tallyglass restore run "$@" -- "$(dirname -- "$0")"
"""


def _steps(plan: Plan) -> str:
    total = len(plan.steps.commands)
    return "\n".join(
        line
        for number, step in enumerate(plan.steps.commands, start=1)
        for line in (*step_text(number, total, step), "")
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
