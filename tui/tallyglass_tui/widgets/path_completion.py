"""Completion of file paths, as Tab does in a shell."""

from __future__ import annotations

import os

from tallyglass.errors import InputError
from tallyglass.paths import absolute_path
from tallyglass.text import clean

_MOST_NAMES = 10_000
"""Names of a folder that are compared: more would delay the key."""


def complete_path(text: str) -> str:
    """``text`` with its last name completed as far as it is unambiguous; a folder gets a ``/`` at its end.

    A leading ``~`` stays. Unreadable folders, and names that match nothing, leave the text as it is. Names that a
    terminal cannot show as they are, such as one with an escape sequence, are not completed.
    """
    head, _, start = text.rpartition("/")
    try:
        folder = absolute_path(f"{head}/" if "/" in text else ".")
        names = [entry.name for _, entry in zip(range(_MOST_NAMES), os.scandir(folder), strict=False)]
        found = [name for name in names if name.startswith(start) and (start or not name.startswith("."))]
        found = [name for name in found if clean(name, len(name)) == name]
        if not found:
            return text
        common = os.path.commonprefix(found)  # noqa: RUF071 - by character
        is_folder = len(found) == 1 and (folder / common).is_dir()
    except (OSError, InputError):
        return text
    return f"{text[: len(text) - len(start)]}{common}{'/' * is_folder}"
