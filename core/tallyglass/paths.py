"""Paths as a person types them."""

from __future__ import annotations

import os
from pathlib import Path

from tallyglass.errors import InputError


def absolute_path(typed: str | Path) -> Path:
    """The absolute path, with the home folder for a leading ``~``; without one of that name it stays, as in a shell.

    Raises InputError for a relative path where the present folder was removed.
    """
    try:
        return Path(os.path.expanduser(typed)).absolute()
    except FileNotFoundError:
        raise InputError("The folder that this program was started in was removed.", "Write a whole path.") from None


def home() -> Path:
    """The home folder of this user; the present folder where there is none."""
    return absolute_path("~") if os.path.expanduser("~") != "~" else Path.cwd()
