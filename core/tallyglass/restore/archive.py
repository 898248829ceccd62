"""Read a ``mongodump --archive`` file: its collections, versions, and the ends of its oplog.

Layout: a magic number; a prelude (a header document, one document per collection, a terminator); then blocks, each a
header that names a collection, its documents, and a terminator. ``--gzip`` compresses the whole.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from bson import json_util

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.bson_file import LARGEST, decode, is_gzip, open_plain
from tallyglass.text import clean, clean_name

MAGIC = (0x8199E26D).to_bytes(4, "little")
TERMINATOR = b"\xff\xff\xff\xff"


@dataclass(frozen=True, slots=True)
class ArchivedCollection:
    """One collection of the prelude."""

    ns: str
    kind: str
    options: dict[str, Any]
    indexes: tuple[dict[str, Any], ...]
    uuid: str


@dataclass(frozen=True, slots=True)
class Archive:
    """What an archive says. ``first`` and ``last`` are the ends of its oplog; None without one."""

    gzip: bool
    server_version: str
    tool_version: str
    collections: tuple[ArchivedCollection, ...]
    first: Ts | None
    last: Ts | None
    problems: tuple[str, ...]


class Readable(Protocol):
    """Anything that can be read from."""

    def read(self, size: int, /) -> bytes:
        """At most ``size`` bytes."""
        ...


class _Broken(Exception):
    pass


def read(path: Path) -> Archive:
    """Read the archive from one end to the other. Raises InputError where the file is no archive."""
    with open_plain(path) as file:
        try:
            if file.read(4) != MAGIC:
                raise InputError(
                    f"{clean(path.name)} is no mongodump archive.", "Name a dump directory, an archive or data files."
                )
            header, rows = _prelude(file)
            oplog_block, problems = _body(file)
        except (_Broken, EOFError, OSError, gzip.BadGzipFile, ValueError) as error:
            return Archive(is_gzip(path), "", "", (), None, None, (f"the archive is not whole: {error}",))
    first, last = (_ts(raw) if raw else None for raw in oplog_block)
    return Archive(
        gzip=is_gzip(path),
        server_version=clean(str(header.get("server_version", ""))),
        tool_version=clean(str(header.get("tool_version", ""))),
        collections=tuple(_collection(row) for row in rows if row.get("db")),
        first=first,
        last=last,
        problems=problems,
    )


def _document(file: Readable) -> bytes | None:
    """The next document, or None at a terminator."""
    head = file.read(4)
    if head == TERMINATOR:
        return None
    size = int.from_bytes(head, "little")
    if len(head) < 4 or not 5 <= size <= LARGEST:
        raise _Broken("it ends early" if len(head) < 4 else "a length cannot be right")
    rest = file.read(size - 4)
    if len(rest) != size - 4:
        raise _Broken("it ends in the midst of a document")
    return head + rest


def _prelude(file: IO[bytes]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    header = _document(file)
    if header is None:
        raise _Broken("it has no header")
    rows = []
    while (raw := _document(file)) is not None:
        rows.append(decode(raw))
    return decode(header), rows


def _body(file: IO[bytes]) -> tuple[tuple[bytes | None, bytes | None], tuple[str, ...]]:
    first: bytes | None = None
    last: bytes | None = None
    ended: set[tuple[str, str]] = set()
    begun: set[tuple[str, str]] = set()
    while True:
        head = file.read(1)
        if not head:
            break
        file_head = _Joined(head, file)
        raw = _document(file_head)
        if raw is None:
            continue
        block = decode(raw)
        name = (str(block.get("db", "")), str(block.get("collection", "")))
        begun.add(name)
        if block.get("EOF"):
            ended.add(name)
        while (row := _document(file)) is not None:
            if name == ("", "oplog"):
                first = first or row
                last = row
    missing = begun - ended
    problems = tuple(f"the archive breaks off within {clean_name('.'.join(name))}" for name in sorted(missing))
    return (first, last), problems


class _Joined:
    """One byte that was read already, and then the rest of the file."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head, self._file = head, file

    def read(self, size: int, /) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        return head + self._file.read(size - len(head))


def _collection(row: dict[str, Any]) -> ArchivedCollection:
    said: dict[str, Any] = json_util.loads(row["metadata"]) if row.get("metadata") else {}
    options = said.get("options") or {}
    kind = "timeseries" if "timeseries" in options else "view" if "viewOn" in options else "collection"
    name = str(row["collection"])
    if kind == "timeseries":
        name = name.removeprefix("system.buckets.")
    return ArchivedCollection(
        f"{row['db']}.{name}", kind, options, tuple(said.get("indexes") or ()), str(said.get("uuid") or "")
    )


def _ts(raw: bytes) -> Ts:
    stamp = decode(raw)["ts"]
    return Ts(stamp.time, stamp.inc)
