"""Paths as a person types them."""

from __future__ import annotations

import os
from pathlib import Path


def absolute_path(typed: str | Path) -> Path:
    """The absolute path, with the home folder for a leading ``~``; without one of that name it stays, as in a shell."""
    return Path(os.path.expanduser(typed)).absolute()


def home() -> Path:
    """The home folder of this user; the present folder where there is none."""
    return absolute_path("~") if os.path.expanduser("~") != "~" else Path.cwd()
