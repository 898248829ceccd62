"""Read a ``mongodump --archive`` file: its collections, versions, and the ends of its oplog.

Layout: a magic number; a prelude (a header document, one document per collection, a terminator); then blocks, each a
header that names a collection, its documents, and a terminator. ``--gzip`` compresses the whole.
"""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from bson import json_util

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.backup.bson_file import LARGEST, BrokenFile, decode, entry_ts, is_gzip, open_plain
from tallyglass.restore.model.plan import BUCKETS
from tallyglass.text import clean

MAGIC = (0x8199E26D).to_bytes(4, "little")
TERMINATOR = b"\xff\xff\xff\xff"
OPLOG = ("", "oplog")
SMALL = 16 * 2**20
"""Bytes up to which a collection is held in memory as a whole."""


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
    """The contents of an archive. ``first`` and ``last`` are the ends of its oplog; None without one. ``first_entry``
    and ``last_entry`` are the same as raw entries."""

    gzip: bool
    server_version: str
    tool_version: str
    collections: tuple[ArchivedCollection, ...]
    first: Ts | None
    last: Ts | None
    problems: tuple[str, ...]
    first_entry: bytes | None = None
    last_entry: bytes | None = None


class Readable(Protocol):
    """A readable stream."""

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
                    f"{clean(path.name)} is not a mongodump archive.",
                    "Name a dump directory, an archive or data files.",
                )
            header, rows = _prelude(file)
            ends, problems = _body(file, rows)
            first, last = (entry_ts(raw) if raw else None for raw in ends)
        except (_Broken, EOFError, OSError, gzip.BadGzipFile, ValueError) as error:
            return Archive(is_gzip(path), "", "", (), None, None, (f"the archive is incomplete: {error}",))
    return Archive(
        gzip=is_gzip(path),
        server_version=clean(str(header.get("server_version", ""))),
        tool_version=clean(str(header.get("tool_version", ""))),
        collections=tuple(_collection(row) for row in rows if row.get("db")),
        first=first,
        last=last,
        problems=problems,
        first_entry=ends[0],
        last_entry=ends[1],
    )


def documents(path: Path) -> Iterator[tuple[str, bytes]]:
    """Each document with the namespace that it is stored in, as they lie in the file: the collections alternate.

    Raises BrokenFile where the archive breaks off.
    """
    count = 0
    try:
        with open_plain(path) as file:
            file.read(len(MAGIC))
            _prelude(file)
            for name, raw in _blocks(file):
                if raw is not None and name != OPLOG:
                    yield ".".join(name), raw
                    count += 1
    except (_Broken, EOFError, OSError, gzip.BadGzipFile, ValueError) as error:
        raise BrokenFile(path, count, str(error)) from None


def small_collections(path: Path, wanted: Collection[str], most: int) -> dict[str, list[bytes]]:
    """The documents of these collections; none of one that holds more than ``most``, or that is large."""
    held: dict[str, list[bytes]] = {ns: [] for ns in wanted}
    room = dict.fromkeys(wanted, SMALL)
    for ns, raw in documents(path):
        if ns not in held:
            continue
        room[ns] -= len(raw)
        if len(held[ns]) == most or room[ns] < 0:
            del held[ns]
        else:
            held[ns].append(raw)
    return held


def _document(file: Readable) -> bytes | None:
    """The next document, or None at a terminator."""
    head = file.read(4)
    if head == TERMINATOR:
        return None
    size = int.from_bytes(head, "little")
    if len(head) < 4 or not 5 <= size <= LARGEST:
        raise _Broken("it ends early" if len(head) < 4 else "a length is invalid")
    rest = file.read(size - 4)
    if len(rest) != size - 4:
        raise _Broken("it ends in the middle of a document")
    return head + rest


def _prelude(file: IO[bytes]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    header = _document(file)
    if header is None:
        raise _Broken("it has no header")
    rows = []
    while (raw := _document(file)) is not None:
        rows.append(decode(raw))
    return decode(header), rows


def _body(file: IO[bytes], rows: list[dict[str, Any]]) -> tuple[tuple[bytes | None, bytes | None], tuple[str, ...]]:
    """The first and the last entry of the oplog, and what is missing: mongodump ends each collection of the prelude,
    also one without documents."""
    first: bytes | None = None
    last: bytes | None = None
    ended: set[tuple[str, str]] = set()
    begun: set[tuple[str, str]] = set()
    for name, raw in _blocks(file):
        begun.add(name)
        if raw is None:
            ended.add(name)
        elif name == OPLOG:
            first = first or raw
            last = raw
    lacking = {_data_of(row) for row in rows if _collection(row).kind != "view"} - begun - ended
    problems = [f"the archive breaks off within {clean('.'.join(name))}" for name in sorted(begun - ended)]
    problems += [f"the archive breaks off before {clean('.'.join(name))}" for name in sorted(lacking)]
    return (first, last), tuple(problems)


def _blocks(file: IO[bytes]) -> Iterator[tuple[tuple[str, str], bytes | None]]:
    """Each document of the blocks with its database and collection, and None at the end of a collection."""
    while head := file.read(1):
        raw = _document(_Joined(head, file))
        if raw is None:
            continue
        block = decode(raw)
        name = (str(block.get("db", "")), str(block.get("collection", "")))
        while (row := _document(file)) is not None:
            yield name, row
        if block.get("EOF"):
            yield name, None


class _Joined:
    """One byte that was read already, and then the rest of the file."""

    def __init__(self, head: bytes, file: IO[bytes]) -> None:
        self._head, self._file = head, file

    def read(self, size: int, /) -> bytes:
        head, self._head = self._head[:size], self._head[size:]
        return head + self._file.read(size - len(head))


def _data_of(row: dict[str, Any]) -> tuple[str, str]:
    """The database and collection of the blocks that hold the documents of one collection of the prelude."""
    name = str(row["collection"])
    buckets = _collection(row).kind == "timeseries" and not name.startswith(BUCKETS)
    return str(row["db"]), f"{BUCKETS}{name}" if buckets else name


def _collection(row: dict[str, Any]) -> ArchivedCollection:
    content: dict[str, Any] = json_util.loads(row["metadata"]) if row.get("metadata") else {}
    options = content.get("options") or {}
    kind = "timeseries" if "timeseries" in options else "view" if "viewOn" in options else "collection"
    name = str(row["collection"])
    if kind == "timeseries":
        name = name.removeprefix(BUCKETS)
    return ArchivedCollection(
        f"{row['db']}.{name}", kind, options, tuple(content.get("indexes") or ()), str(content.get("uuid") or "")
    )
