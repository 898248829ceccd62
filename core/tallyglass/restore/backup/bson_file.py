"""Walk files of concatenated BSON documents, plain or gzip, and report where they are truncated."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import bson

from tallyglass.errors import InputError
from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.decode import walk
from tallyglass.restore.raw.entries import element_key, read

LARGEST = 64 * 1024 * 1024
"""No BSON document, oplog entries included, is larger; a greater length means a broken file."""

_GZIP = b"\x1f\x8b"


class BrokenFile(InputError):
    """A file ends in the middle of a document, or holds something that is not BSON. ``whole`` documents came before."""

    def __init__(self, path: Path, whole: int, why: str) -> None:
        super().__init__(f"{path.name} is incomplete: {why} after {whole} documents.", "Copy the backup again.")
        self.whole = whole


def is_gzip(path: Path) -> bool:
    """Whether the file is gzip. The length of a plain file's first document may begin with the same two bytes."""
    with path.open("rb") as file:
        head = file.read(4)
        size = int.from_bytes(head, "little")
        return head.startswith(_GZIP) and not (size <= LARGEST and bson.is_valid(head + file.read(size - 4)))


def open_plain(path: Path) -> IO[bytes]:
    """Open for reading, decompressing where the file is gzip."""
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")  # type: ignore[return-value]


def read_plain(path: Path) -> bytes:
    """The whole content of a small file, decompressed."""
    with open_plain(path) as file:
        return file.read()


def documents(path: Path) -> Iterator[bytes]:
    """Each document of a BSON file, undecoded. Raises BrokenFile at the first incomplete one."""
    count = 0
    with open_plain(path) as file:
        while True:
            try:
                head = file.read(4)
                if not head:
                    return
                size = int.from_bytes(head, "little")
                if len(head) < 4 or not 5 <= size <= LARGEST:
                    raise BrokenFile(path, count, "a length is invalid")
                rest = file.read(size - 4)
            except (EOFError, gzip.BadGzipFile, OSError, ValueError) as error:
                raise BrokenFile(path, count, str(error) or "it ends early") from None
            if len(rest) != size - 4 or rest[-1:] != b"\0":
                raise BrokenFile(path, count, "it ends in the middle of a document")
            yield head + rest
            count += 1


def decode(raw: bytes) -> dict[str, Any]:
    """Decode one document leniently: broken UTF-8 and impossible dates do not raise. Raises Malformed."""
    return walk.decode(raw, 0, len(raw))


def entry_ts(raw: bytes) -> Ts:
    """The ``ts`` of an undecoded oplog entry. Raises Malformed, also where it has none."""
    ts = read(raw).ts
    if ts == ZERO:
        raise walk.Malformed("an oplog entry has no timestamp")
    return ts


def id_key(raw: bytes) -> bytes:
    """The ``_id`` of an undecoded document as comparable bytes; empty where it has none. Raises Malformed."""
    return element_key(raw, walk.find(raw, b"_id"))
