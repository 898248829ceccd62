"""Write a file at once: a reader never sees half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.text import clean


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace the file at ``path`` by one with this text. Raises InputError where it cannot be written."""
    try:
        handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
        Path(draft).replace(path)
    except OSError as error:
        raise InputError(f"{clean(str(path))} cannot be written: {error.strerror}.") from error
