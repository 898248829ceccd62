"""Writing a plan's folder, with the message for the user."""

from __future__ import annotations

import os
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.paths import absolute_path
from tallyglass.restore.model.plan import Plan


def write_new(plan: Plan, path: Path) -> tuple[str, str]:
    """Write the folder of a plan, never over an existing one. Returns the message for the user, and the line for a
    shell that runs the folder; empty if nothing was written."""
    from tallyglass.restore.plan.folder import run_line, write_folder
    from tallyglass.restore.tools.files import PLAN

    there = os.access(absolute_path(path) / PLAN, os.F_OK)
    try:
        written = write_folder(plan, path)
    except InputError as error:
        return f"Nothing was written. {error.title} {error.advice}".rstrip(), ""
    line = run_line(written)
    word = "This plan is in that folder already:" if there else "Written. See README.md there, then:"
    return f"{word} {line}", line
