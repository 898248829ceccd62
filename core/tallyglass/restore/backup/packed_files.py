"""Data files in one tar file, compressed or not, as snapshots of Atlas and Ops Manager are."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Self

from tallyglass.errors import InputError
from tallyglass.restore.backup.compression import BAD_GZIP, CorruptFile, open_plain
from tallyglass.restore.backup.copy_note import LARGEST, is_note
from tallyglass.text import clean

_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst")
_CHUNK = 2**20
"""Bytes that are read at once behind the end of the archive, where nothing is kept of them."""
STORAGE = "storage.bson"
"""In this file a server keeps the options that data files were made with."""


@dataclass(frozen=True, slots=True)
class PackedFiles:
    """Data files: ``folder`` is theirs inside a tar file, empty where they are in none. ``notes`` and ``storage`` are
    the contents of small files; ``size`` is that of all in bytes, unpacked. ``problem`` is empty if all was read."""

    folder: str
    catalog: bool
    size: int
    oldest: datetime | None
    notes: tuple[tuple[str, bytes], ...]
    storage: bytes
    problem: str = ""


class _Header(tarfile.TarInfo):
    """A header that must be whole: to Python, one that is damaged or cut off ends the archive like its end mark."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if buf == bytes(tarfile.BLOCKSIZE):  # the end mark
                raise
            raise tarfile.ReadError(str(error)) from None


def is_packed(path: Path) -> bool:
    """Whether a file is called like a tar file."""
    return path.name.endswith(_SUFFIXES) and path.is_file()


def read_packed(path: Path) -> PackedFiles:
    """Read a tar file once, to its end: its checksum is verified. Raises InputError if it holds no data files."""
    sizes: dict[PurePosixPath, int] = {}
    small: dict[PurePosixPath, bytes] = {}
    oldest: float | None = None
    problem = ""
    try:
        with open_plain(path) as file:
            with tarfile.open(fileobj=file, mode="r|", tarinfo=_Header) as packed:
                for one in packed:
                    if not one.isfile():
                        continue
                    name = PurePosixPath(one.name)
                    sizes[name] = one.size
                    oldest = one.mtime if oldest is None else min(oldest, one.mtime)
                    if one.size <= LARGEST and (is_note(name.name) or name.name == STORAGE):
                        content = packed.extractfile(one)
                        small[name] = content.read() if content is not None else b""
            while file.read(_CHUNK):
                pass
    except (*BAD_GZIP, CorruptFile, tarfile.TarError, OSError) as error:
        problem = f"it cannot be unpacked further ({clean(str(error), 60)})"
    found = [name.parent for name in sizes if name.name == "WiredTiger"]
    if len(found) != 1:
        title = f"{clean(str(path))} holds the data files of {len(found)} servers instead of one"
        raise InputError(f"{title}{': ' * bool(problem)}{problem}.", "Name a backup.")
    folder = found[0]
    return PackedFiles(
        str(folder),
        folder / "_mdb_catalog.wt" in sizes,
        sum(sizes.values()),
        datetime.fromtimestamp(int(oldest), UTC) if oldest is not None else None,
        tuple((name.name, raw) for name, raw in small.items() if is_note(name.name)),
        small.get(folder / STORAGE, b""),
        problem,
    )
