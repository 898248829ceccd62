"""Walk files of concatenated BSON documents, plain or compressed, and report where they are truncated."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tallyglass.errors import InputError
from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.restore.backup.compression import BAD_GZIP, LARGEST, open_plain
from tallyglass.restore.backup.crc64 import checksum

UNREADABLE: Final = (*BAD_GZIP, OSError, ValueError)
"""What reading and decoding a file raises where that is not possible."""


class BrokenFile(InputError):
    """A file ends in the middle of a document, or holds something that is not BSON. ``whole`` documents came before."""

    def __init__(self, path: Path, whole: int, why: str) -> None:
        super().__init__(
            f"{path.name} is damaged or incomplete: {why} after {whole} documents.", "Copy the backup again."
        )
        self.whole = whole


@dataclass(frozen=True, slots=True)
class Stated:
    """What was recorded of the documents of a collection: their bytes, and the CRC-64 of these."""

    bytes: int
    crc: int


def documents(path: Path, stated: Stated | None = None) -> Iterator[bytes]:
    """Each document of a BSON file, undecoded. Raises BrokenFile at the first incomplete one, and at the end if the
    documents are not as ``stated``."""
    count = size = 0
    total = checksum() if stated is not None else None
    try:
        with open_plain(path) as file:
            while head := file.read(4):
                length = int.from_bytes(head, "little")
                if len(head) < 4 or not 5 <= length <= LARGEST:
                    raise BrokenFile(path, count, "a length is invalid")
                raw = head + file.read(length - 4)
                if len(raw) != length or raw[-1]:
                    raise BrokenFile(path, count, "it ends in the middle of a document")
                if total is not None:
                    total.add(raw)
                    size += length
                yield raw
                count += 1
    except UNREADABLE as error:
        raise BrokenFile(path, count, str(error) or "it ends early") from None
    if stated is not None and total is not None and (size != stated.bytes or not total.matches(stated.crc)):
        raise BrokenFile(path, count, f"its checksum is not the one recorded, which is of {stated.bytes} bytes,")


def decode(raw: bytes) -> dict[str, Any]:
    """Decode one document leniently: broken UTF-8 and impossible dates do not raise. Raises Malformed."""
    return walk.decode(raw, 0, len(raw))


def entry_ts(raw: bytes) -> Ts:
    """The ``ts`` of an undecoded oplog entry. Raises Malformed, also where it has none."""
    ts = read_entry(raw).ts
    if ts == ZERO:
        raise walk.Malformed("an oplog entry has no timestamp")
    return ts


def id_key(raw: bytes) -> bytes:
    """The ``_id`` of an undecoded document as comparable bytes; empty where it has none. Raises Malformed."""
    return walk.value_key(raw, b"_id")
