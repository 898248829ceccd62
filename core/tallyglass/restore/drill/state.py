"""Where drills and windows of this user are kept between runs."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_state_path


def state_folder() -> Path:
    """The folder; it may not exist yet."""
    return user_state_path("tallyglass", appauthor=False) / "drills"
