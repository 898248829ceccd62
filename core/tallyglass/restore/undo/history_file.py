"""The file that holds the operations on one collection: a temporary one, or one that is kept for the next reader."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.tools.files import HISTORY
from tallyglass.restore.undo.temporary import temporary_tables, write_fast
from tallyglass.text import clean

_TABLES = (
    "CREATE TABLE operation (n INTEGER PRIMARY KEY, id BLOB, own INTEGER, op TEXT, o BLOB,"
    " t INTEGER, i INTEGER, millis INTEGER, sender INTEGER, linked INTEGER)",
    "CREATE TABLE removal (n INTEGER, own INTEGER, t INTEGER, i INTEGER)",
    "CREATE TABLE refined (n INTEGER PRIMARY KEY, changes BLOB)",
    "CREATE TABLE explained (n INTEGER PRIMARY KEY, own INTEGER)",
    "CREATE TABLE attributed (n INTEGER, ambiguous INTEGER)",
    "CREATE TABLE staging (name TEXT, t INTEGER, i INTEGER)",
    "CREATE TABLE staged (name TEXT, t INTEGER, i INTEGER, id BLOB, digest BLOB, repair BLOB)",
    "CREATE TABLE expiring (field TEXT)",
    "CREATE TABLE undone (id BLOB, t INTEGER, i INTEGER)",
    "CREATE TABLE returned (accident BLOB)",
    "CREATE TABLE computed (id BLOB PRIMARY KEY, n INTEGER, digest BLOB, inserts INTEGER, written INTEGER)"
    " WITHOUT ROWID",
    "CREATE TABLE about (what TEXT, t INTEGER, i INTEGER, digest BLOB)",
)
_PART = ".part"
"""While a kept file is written, it has a name of its own: a process that is killed leaves no file that looks whole."""


class HistoryFile:
    """Tables of one history. ``read_to`` is the ``ts`` of the last entry that is in it, and a digest of the entry; None
    in a new one."""

    def __init__(self, what: str, kept: Path | None = None) -> None:
        """Open the file ``kept`` if it holds ``what``, otherwise a new one. Raises InputError if that fails."""
        self._what, self._kept, self._whole = f"{what} {_TABLES}", kept, False  # another version may have other tables
        self._path = None if kept is None else _part_of(kept)
        self.rows = self._open()
        self.read_to = self._known()
        if self.read_to is None:
            self.begin_again()

    def begin_again(self) -> None:
        """Remove all operations from the file."""
        self.rows.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        self.rows, self.read_to = self._open(), None
        self._write_fast()
        for statement in _TABLES:
            self.rows.execute(statement)

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            return temporary_tables()
        try:
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise InputError(f"{clean(str(self._path))} cannot be written: {error.strerror}.") from None
        return sqlite3.connect(self._path, isolation_level=None)

    def _write_fast(self) -> None:
        """A file that is not whole is not used, so its writes need no journal; nor does another process use it."""
        self.rows.execute("PRAGMA locking_mode = EXCLUSIVE")
        write_fast(self.rows)

    def _known(self) -> tuple[Ts, bytes] | None:
        with contextlib.suppress(sqlite3.DatabaseError):
            self._write_fast()
            for t, i, digest in self.rows.execute("SELECT t, i, digest FROM about WHERE what = ?", (self._what,)):
                return Ts(t, i), digest
        return None

    def now_whole(self, read_to: tuple[Ts, bytes] | None) -> None:
        """It holds everything up to this entry, so it can be kept."""
        if read_to is not None:
            ts, digest = read_to
            self.rows.execute("DELETE FROM about")
            self.rows.execute("INSERT INTO about VALUES (?, ?, ?, ?)", (self._what, ts.t, ts.i, digest))
        self._whole = True

    def close(self) -> None:
        """Keep it under its name if it is whole, and remove it otherwise."""
        self.rows.close()
        if self._path is None or self._kept is None:
            return
        if self._whole:
            with self._path.open("rb") as file:
                os.fsync(file.fileno())
            self._path.replace(self._kept)
        else:
            self._path.unlink(missing_ok=True)


def _part_of(kept: Path) -> Path:
    """The file to write into: the kept one under its other name, without what a killed process left there."""
    part = kept.with_name(kept.name + _PART)
    try:
        kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part.unlink(missing_ok=True)
        if kept.exists():
            kept.rename(part)
    except OSError as error:
        raise InputError(f"{clean(str(kept))} cannot be written: {error.strerror}.") from None
    return part


def history_file(work: Path, number: int) -> Path:
    """Where the steps of a return keep what they read of the oplog; ``number`` is the place in the plan's return, from
    1."""
    return work / HISTORY / f"{number}.sqlite"


def seen_file(work: Path, number: int) -> Path:
    """Where the steps of a return store up to where others' writes were carried over; ``number`` is the place in the
    plan's return, from 1."""
    return work / HISTORY / f"{number}.seen"
