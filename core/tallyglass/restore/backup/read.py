"""Read any kind of backup."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.paths import absolute_path
from tallyglass.restore.backup import archive, pbm, walg
from tallyglass.restore.backup.backup import Contents
from tallyglass.restore.backup.data_files import read_data_files
from tallyglass.restore.backup.directory import read_directory
from tallyglass.restore.backup.packed_files import is_packed
from tallyglass.restore.backup.sidecar import with_sidecar
from tallyglass.text import clean


def read_backup(path: Path, start: Ts | None = None) -> Contents:
    """Read what ``path`` holds. ``start`` is an oplog position known to lie before the backup began.

    Raises InputError for a path that is no backup, or may not be read. What is broken or missing inside stands in
    ``problems``.
    """
    path = absolute_path(path)
    try:
        if not path.exists():
            title = f"{clean(str(path))} does not exist."
            raise InputError(title, "Name a backup: a folder, an archive or data files.")
        found = with_sidecar(_read(path), path)
    except OSError as error:
        raise InputError(f"{clean(str(error.filename or path))} cannot be read: {error.strerror}.") from None
    if start is not None:
        found = replace(found, backup=replace(found.backup, start=start, source="given"))
    return found


def _read(path: Path) -> Contents:
    if (note := pbm.note_of(path)) is not None:
        return pbm.read(note)
    if (sentinel := walg.sentinel_of(path)) is not None:
        return walg.read(sentinel)
    if path.is_dir():
        return read_data_files(path) if (path / "WiredTiger").exists() else read_directory(path)
    if path.is_file():
        return read_data_files(path) if is_packed(path) else archive.read(path)
    raise InputError(f"{clean(str(path))} is neither a file nor a folder.", "Name the backup itself.")
