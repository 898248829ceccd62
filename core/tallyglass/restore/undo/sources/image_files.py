"""Pre-images in a dump folder, and lookup of documents in it by ``_id``."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import cast

from tallyglass.errors import InputError
from tallyglass.oplog.entry import walk
from tallyglass.restore.backup.bson_file import BrokenFile
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.undo.temporary import temporary_tables
from tallyglass.text import clean

FOLDER = "images"
"""The dump folder inside the plan's folder: one numbered file per namespace, in the order of the return."""

_DATABASE = "tallyglass"

_AT_ONCE = 500
"""How many documents are looked up in one go; SQLite before 3.32 takes 999 parameters."""


def image_file(folder: Path, number: int) -> Path:
    """The file with the images of one namespace; ``number`` is its place in the plan's return, from 1."""
    return folder / _DATABASE / f"{number}.bson"


class ImageFiles:
    """The documents of a dump folder, found by ``_id``: the source of an undo's documents in place of a spare.

    The ids are kept in a temporary file, so that memory does not grow with their number; :meth:`close` removes it.
    """

    def __init__(self, folder: Path, plan: Plan) -> None:
        """Read the files once. Raises InputError if one is missing or differs from what the plan proved, and BrokenFile
        if one is incomplete."""
        expected = {item.ns: item.documents for item in plan.proof.expected}
        self._rows = temporary_tables()
        self._paths: dict[str, Path] = {}
        try:
            self._rows.execute(
                "CREATE TABLE place (ns TEXT, id BLOB, at INTEGER, size INTEGER, PRIMARY KEY (ns, id)) WITHOUT ROWID"
            )
            for number, row in enumerate(plan.undo.returns, start=1):
                self._index(row.ns, image_file(folder, number), expected.get(row.ns))
        except BaseException:
            self.close()
            raise

    def _index(self, ns: str, path: Path, expected: int | None) -> None:
        if not path.is_file():
            raise InputError(f"{clean(str(path))} is missing.", "Run the step that saves the pre-images first.")
        self._paths[ns] = path
        self._rows.execute("BEGIN")
        self._rows.executemany("INSERT OR IGNORE INTO place VALUES (?, ?, ?, ?)", _places(ns, path))
        self._rows.execute("COMMIT")
        (held,) = self._rows.execute("SELECT count(*) FROM place WHERE ns = ?", (ns,)).fetchone()
        if held != expected:
            raise InputError(
                f"{clean(str(path))} holds {held} documents; the plan proved {expected}.", "Save the pre-images again."
            )

    async def by_id(self, ns: str, keys: Iterable[bytes]) -> AsyncIterator[tuple[bytes, bytes]]:
        """The documents with these ids, each a type byte and the value's bytes; those that are not there are left
        out."""
        await asyncio.sleep(0)  # reading a file does not yield: let the driver's heartbeats run
        rest = iter(keys)
        with mapped(self._paths[ns]) as held:
            while some := list(islice(rest, _AT_ONCE)):
                marks = ", ".join("?" * len(some))
                query = f"SELECT id, at, size FROM place WHERE ns = ? AND id IN ({marks}) ORDER BY at"
                for key, at, size in self._rows.execute(query, (ns, *some)):
                    yield key, held[at : at + size]

    def close(self) -> None:
        """Remove the file of ids."""
        self._rows.close()


def _places(ns: str, path: Path) -> Iterator[tuple[str, bytes, int, int]]:
    """Where each document of a file lies. Raises BrokenFile."""
    count = 0
    with mapped(path) as held:
        try:
            for at, end in walk.split(held):
                yield ns, walk.value_key(held, b"_id", at, end), at, end - at
                count += 1
        except walk.Malformed as error:
            raise BrokenFile(path, count, str(error)) from None


@contextmanager
def mapped(path: Path) -> Iterator[bytes]:
    """The bytes of a file, which are read where they are used."""
    with path.open("rb") as file:
        if not path.stat().st_size:
            yield b""  # there is nothing to map
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
            yield cast(bytes, held)  # it has the methods that are used of bytes
