"""Write a file at once: a reader never sees half of it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.text import clean


def check_writable(path: Path) -> None:
    """Raise InputError where :func:`write_whole` could not write: before a long answer, not after it."""
    try:
        is_folder, is_special = path.is_dir(), _is_special(path)
    except OSError as error:
        raise _refusal(path, error) from error
    place = path if is_special else Path(os.path.realpath(path)).parent
    if is_folder:
        raise InputError(f"{clean(str(path))} is a folder.", "Name a file.")
    if not (is_special or place.is_dir()) or not os.access(place, os.W_OK):
        shown = clean(str(place))
        raise InputError(f"{clean(str(path))} cannot be written: {shown} is missing, not a folder, or read-only.")


def write_whole(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace the file at ``path`` by one with this text; a link is followed, and a pipe or a device is written to.

    Raises InputError where it cannot be written.
    """
    try:
        if _is_special(path):
            path.write_text(text, encoding="utf-8")
        else:
            _replace(Path(os.path.realpath(path)), text, mode)
    except OSError as error:
        raise _refusal(path, error) from error


def _refusal(path: Path, error: OSError) -> InputError:
    return InputError(f"{clean(str(path))} cannot be written: {error.strerror}.")


def _is_special(path: Path) -> bool:
    return path.exists() and not (path.is_file() or path.is_dir())


def _replace(path: Path, text: str, mode: int) -> None:
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=".tallyglass-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), mode)
            file.write(text)
        Path(draft).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        raise
