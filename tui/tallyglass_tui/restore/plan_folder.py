"""Writing a plan's folder, with the message for the user."""

from __future__ import annotations

from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.restore.model.plan import Plan
from tallyglass.text import shell_quote


def write_new(plan: Plan, path: Path) -> str:
    """Write the folder of a plan, never over an existing one. Returns the message for the user."""
    from tallyglass.restore.plan.folder import SCRIPT, write_folder

    try:
        written = write_folder(plan, path)
    except InputError as error:
        return f"Nothing was written. {error.title} {error.advice}".rstrip()
    return f"Written. See README.md there, then: bash {shell_quote(str(written / SCRIPT))}"
