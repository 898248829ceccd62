"""Read a ``mongodump --archive`` file: its collections, versions, and the ends of its oplog.

Layout: a magic number; a prelude (a header document, one document per collection, a terminator); then blocks, each a
header that names a collection, its documents, and a terminator. The last block of a collection has no documents but
the CRC-64 of all of them. ``--gzip`` compresses the whole. Header and prelude have no checksum of their own: only gzip
protects them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

from tallyglass.errors import InputError
from tallyglass.oplog.snapshot import BUCKETS
from tallyglass.restore.backup.backup import ARCHIVE, Anchor, Contents, StoredCollection, earliest, ends_of
from tallyglass.restore.backup.bson_file import UNREADABLE, BrokenFile, decode
from tallyglass.restore.backup.compression import Compression, compression_of, open_plain
from tallyglass.restore.backup.crc64 import Checksum, checksum
from tallyglass.restore.backup.metadata import Metadata, read_metadata
from tallyglass.restore.model.source import Backup
from tallyglass.text import clean

MAGIC = (0x8199E26D).to_bytes(4, "little")
TERMINATOR = b"\xff\xff\xff\xff"
LARGEST = 16 * 2**20
"""Bytes of the largest document that a server takes, and that mongorestore reads."""


class _Name(NamedTuple):
    db: str
    collection: str

    def __str__(self) -> str:
        return clean(f"{self.db}.{self.collection}")


OPLOG = _Name("", "oplog")


class _Broken(ValueError):
    """The archive is damaged or cut off here."""


def read(path: Path) -> Contents:
    """Read the archive from one end to the other. Raises InputError where the file is no archive."""
    header: dict[str, Any] = {}
    rows: list[_Row] = []
    anchors: tuple[Anchor, ...] = ()
    try:
        with open_plain(path) as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise InputError(
                    f"{clean(path.name)} is not a mongodump archive.",
                    "Name a dump directory, an archive or data files.",
                )
            header, rows = _prelude(file)
            anchors, problems = _body(file, rows)
    except UNREADABLE as error:
        header, rows, problems = {}, [], (f"the archive cannot be read to its end: {error}",)
    stored = [row.stored for row in rows if row.db]
    collections = {one.ns: one for one in stored}
    compression = compression_of(path)
    backup = Backup(
        path=path,
        form=ARCHIVE,
        gzip=compression is Compression.GZIP,
        compressed=compression not in (Compression.NONE, Compression.GZIP),
        start=anchors[0].ts if anchors else None,
        end=anchors[-1].ts if anchors else None,
        source="oplog" if anchors else "file times",
        server_version=clean(str(header.get("server_version", ""))),
        tool_version=clean(str(header.get("tool_version", ""))),
        namespaces=tuple(sorted(collections)),
        bytes=path.stat().st_size,
        has_oplog=bool(anchors),
        taken_hint=earliest([path]),
    )
    return Contents(backup, collections, problems, users="admin.system.users" in collections, anchors=anchors)


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
    except UNREADABLE as error:
        raise BrokenFile(path, count, str(error)) from None


def _document(file: IO[bytes], head: bytes = b"") -> bytes | None:
    """The next document, of which ``head`` was read already, or None at a terminator."""
    head = head or file.read(4)
    if head == TERMINATOR:
        return None
    size = int.from_bytes(head, "little")
    if len(head) < 4 or not 5 <= size <= LARGEST:
        raise _Broken("it ends early" if len(head) < 4 else "a length is invalid")
    rest = file.read(size - 4)
    if len(rest) != size - 4 or rest[-1]:
        raise _Broken("it ends in the middle of a document")
    return head + rest


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of the prelude."""

    db: str
    collection: str
    metadata: Metadata

    @property
    def stored(self) -> StoredCollection:
        found = self.metadata
        name = self.collection.removeprefix(BUCKETS) if found.kind == "timeseries" else self.collection
        return StoredCollection(f"{self.db}.{name}", found.kind, None, found.options, found.indexes, found.uuid)

    @property
    def data(self) -> _Name:
        """Where the blocks with its documents say that they belong."""
        buckets = self.metadata.kind == "timeseries" and not self.collection.startswith(BUCKETS)
        return _Name(self.db, f"{BUCKETS}{self.collection}" if buckets else self.collection)


def _prelude(file: IO[bytes]) -> tuple[dict[str, Any], list[_Row]]:
    header = _document(file)
    if header is None:
        raise _Broken("it has no header")
    rows = []
    while (raw := _document(file)) is not None:
        rows.append(_row(decode(raw)))
    return decode(header), rows


def _row(row: dict[str, Any]) -> _Row:
    match row:
        case {"db": str(db), "collection": str(collection)} if collection:
            try:
                return _Row(db, collection, read_metadata(str(row.get("metadata") or "{}")))
            except ValueError as error:
                raise _Broken(f"the description of {_Name(db, collection)} is damaged: {error}") from None
    raise _Broken("its list of collections is damaged")


def _body(file: IO[bytes], rows: list[_Row]) -> tuple[tuple[Anchor, ...], tuple[str, ...]]:
    """The ends of the oplog, and what is missing: mongodump ends each collection of the prelude, also one without
    documents."""
    ended: set[_Name] = set()
    begun: set[_Name] = set()

    def oplog() -> Iterator[bytes]:
        for name, raw in _blocks(file):
            begun.add(name)
            if raw is None:
                ended.add(name)
            elif name == OPLOG:
                yield raw

    ends = ends_of(oplog())
    listed = {row.data for row in rows}
    # mongodump writes the end of a view, too, which has no documents.
    needed = {row.data for row in rows if row.metadata.kind != "view"}
    problems = [f"the archive breaks off within {name}" for name in sorted(begun - ended)]
    problems += [f"the archive breaks off before {name}" for name in sorted(needed - begun)]
    problems += [f"the archive holds {name}, which it does not list" for name in sorted(begun - listed)]
    return ends, tuple(problems)


def _blocks(file: IO[bytes]) -> Iterator[tuple[_Name, bytes | None]]:
    """Each document of the blocks with its database and collection, and None at the end of a collection, whose checksum
    is right."""
    sums: dict[_Name, Checksum] = {}
    ended: set[_Name] = set()
    while head := file.read(4):
        raw = _document(file, head)
        if raw is None:
            raise _Broken("a block has no header")
        name, crc = _block_header(raw)
        if name in ended:
            raise _Broken(f"{name} goes on after its end")
        total = sums.setdefault(name, checksum())
        while (row := _document(file)) is not None:
            if crc is not None:
                raise _Broken(f"{name} goes on after its end")
            total.add(row)
            yield name, row
        if crc is not None:
            if not sums.pop(name).matches(crc):
                raise _Broken(f"the checksum of {name} does not match its documents")
            ended.add(name)
            yield name, None


def _block_header(raw: bytes) -> tuple[_Name, int | None]:
    """The database and collection of a block, and the checksum of the collection if that ends here."""
    match decode(raw):
        case {"db": str(db), "collection": str(collection), "EOF": bool(end), "CRC": int(crc), **more} if not more:
            if collection and (end or crc == 0):
                return _Name(db, collection), crc if end else None
    raise _Broken("the header of a block is damaged")
