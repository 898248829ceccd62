"""Where drills and windows of this user are kept between runs."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_state_path

from tallyglass.errors import InputError
from tallyglass.text import clean
from tallyglass.whole_file import write_whole


def state_folder() -> Path:
    """The folder; it may not exist yet."""
    return user_state_path("tallyglass", appauthor=False) / "drills"


def kept(name: str) -> str:
    """The text of a file of that folder. Raises OSError, and ValueError for one that nothing here wrote."""
    with (state_folder() / name).open(encoding="ascii") as file:
        return file.read(_MOST_BYTES)


_MOST_BYTES = 50_000_000
"""Far more than a report has: a file that is larger is none."""


def keep(name: str, text: str) -> None:
    """Write a file of that folder, which is made. Raises InputError if that fails."""
    folder = state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(f"{clean(str(folder))} cannot be written: {error.strerror}.") from None
    write_whole(folder / name, text)
