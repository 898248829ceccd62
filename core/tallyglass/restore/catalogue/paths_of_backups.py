"""Which paths of a folder are backups, of any kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.paths import absolute_path
from tallyglass.restore.backup import pbm, walg
from tallyglass.restore.backup.archive import MAGIC
from tallyglass.restore.backup.compression import BAD_GZIP, CorruptFile, open_plain
from tallyglass.restore.backup.data_files import is_in_use
from tallyglass.restore.backup.packed_files import is_packed
from tallyglass.restore.backup.sidecar import SIDECAR
from tallyglass.text import clean

_OWN_FILES = ("oplog.bson", "WiredTiger", SIDECAR, "prelude.json", "prelude.json.gz")
"""Names at the top of a backup, but not of a folder of backups."""


_LOST_AND_FOUND = "lost+found"
"""A folder at the root of a file system, which only root may read."""


def holds_backups(path: Path) -> bool:
    """Whether ``path`` is a folder of backups, and not a backup itself."""
    try:
        if not path.is_dir() or any((path / name).exists() for name in _OWN_FILES):
            return False
        return any(_backups_in(path))
    except OSError:
        return False


def backups_of(folder: Path) -> list[Path]:
    """The paths of the backups in a folder, or of the backup that it is. Raises InputError if there is none."""
    folder = absolute_path(folder)
    try:
        if holds_backups(folder):
            return list(dict.fromkeys(_backups_in(folder)))
        if pbm.note_of(folder) is not None or walg.sentinel_of(folder) is not None or _is_backup(folder):
            return [folder]
    except OSError as error:
        raise InputError(f"{clean(str(folder))} cannot be read: {error.strerror}.") from None
    raise InputError(f"There is no backup in {clean(str(folder))}.", "Name the folder that holds the backups.")


def _backups_in(folder: Path) -> Iterator[Path]:
    """The backups in a folder, those in the storage folders of PBM and wal-g among them."""
    yield from _stored_in(folder)
    for child in sorted(folder.iterdir()):
        if child.name == _LOST_AND_FOUND:
            continue
        try:
            stored = list(_stored_in(child)) if child.is_dir() else []
            if not stored and _is_backup(child):
                stored = [child]
        except OSError:
            stored = [child]  # listed as one that cannot be read: it may be a backup
        yield from stored


def _stored_in(folder: Path) -> Iterator[Path]:
    """The backups of PBM or wal-g, if one of them stores backups in this folder."""
    if pbm.is_storage(folder):
        yield from pbm.backups_in(folder)
    if (bases := walg.bases_of(folder)) is not None:
        yield from walg.backups_in(bases)


def _is_backup(path: Path) -> bool:
    if is_in_use(path):
        return False
    if path.is_dir():
        return any((path / name).exists() for name in _OWN_FILES) or any(
            _is_dump_file(file) for child in path.iterdir() if _may_be_dumped(child) for file in child.iterdir()
        )
    return path.is_file() and (is_packed(path) or _is_archive(path))


def _may_be_dumped(folder: Path) -> bool:
    """Whether a folder can hold the collections of a dump: the data of a mongod has a storage.bson of its own."""
    return folder.is_dir() and not (folder / "WiredTiger").exists()


def _is_dump_file(path: Path) -> bool:
    return path.is_file() and ".bson" in path.suffixes


def _is_archive(path: Path) -> bool:
    try:
        with open_plain(path) as file:
            return file.read(len(MAGIC)) == MAGIC
    except (*BAD_GZIP, CorruptFile, InputError):
        return True  # listed as damaged, or with the library that it needs: nothing else could be said of it
