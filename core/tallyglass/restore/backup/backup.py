"""What mongodump and copies of data files hold, and from when they are, read from the backup itself, which is never
written to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tallyglass.errors import InputError
from tallyglass.moment import Ts, parse_ts
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.restore.backup import archive
from tallyglass.restore.backup.bson_file import UNREADABLE, BrokenFile, Stated, documents, entry_ts
from tallyglass.restore.backup.compression import Compression, compression_of, read_plain
from tallyglass.restore.backup.copy_note import CopyNote
from tallyglass.restore.backup.file_names import full_name
from tallyglass.restore.backup.metadata import read_metadata
from tallyglass.restore.model.proof import BUCKETS, stored_as
from tallyglass.restore.model.source import Backup
from tallyglass.text import clean, clean_name

DIRECTORY, ARCHIVE, DATA_FILES, PBM = "directory", "archive", "data files", "PBM"
SIDECAR = "pitr.json"
SIDECAR_FORMAT = 1
"""The format version of the sidecar."""
LEFT_OUT = frozenset({"admin", "config", "local"})
"""Databases that are not staged: the source's users must not land on the spare."""
TEMPORARY = re.compile(r"tmp.{5}\.(rename|convertToCapped)|tmp\.agg_out\.|tmp\.mr\.")
"""Names that the server gives to temporary collections."""


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """One collection, view or time-series collection of a backup. ``data`` is None for a view. ``stated`` is what the
    tool that made the backup recorded of the documents, None if it recorded nothing."""

    ns: str
    kind: str
    data: Path | None
    options: dict[str, Any]
    indexes: tuple[dict[str, Any], ...]
    uuid: str = ""
    stated: Stated | None = None

    @property
    def uuid_bytes(self) -> bytes:
        """The UUID; empty for views and time-series collections, and where the backup does not give it."""
        try:
            return bytes.fromhex(self.uuid.replace("-", "")) if self.kind == "collection" else b""
        except ValueError:
            return b""

    @property
    def stored_as(self) -> str:
        """The namespace that its documents are in."""
        return stored_as(self.ns, self.kind)


@dataclass(frozen=True, slots=True)
class Anchor:
    """An oplog position that the backup was taken with. ``term`` is None and ``entry``, the raw entry, is empty where
    the backup does not say so much."""

    ts: Ts
    term: int | None = None
    entry: bytes = b""


@dataclass(frozen=True, slots=True)
class Contents:
    """A backup with its collections by namespace, and its problems."""

    backup: Backup
    collections: dict[str, StoredCollection] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    fcv: str = ""
    set_name: str = ""
    databases: tuple[str, ...] = ()
    """Names of the top-level directories that are to be staged."""
    users: bool = False
    anchors: tuple[Anchor, ...] = ()
    """Positions that the oplog of the backup's set must hold."""
    late_sidecar: Ts | None = None
    """The start in the sidecar, where the dump's own oplog begins before it: the dump's own start is used."""
    oplog: Path | None = None
    """The folder of the slices that the tool which made the backup has saved; None if it saves none."""
    written_over: int | None = None
    """Seconds between the oldest and the newest file; None where there is one file."""
    note: CopyNote | None = None
    """What lies beside copied data files."""

    @property
    def is_dump(self) -> bool:
        """Whether its documents can be read here, without a server of its own."""
        return self.backup.form in (ARCHIVE, DIRECTORY)


def read_directory(path: Path) -> Contents:
    """Read a mongodump directory. Raises InputError if it is none."""
    problems: list[str] = []
    collections: dict[str, StoredCollection] = {}
    databases = sorted(child.name for child in path.iterdir() if child.is_dir())
    if not databases and not (path / "oplog.bson").is_file():
        raise InputError(f"{clean(str(path))} holds no mongodump backup.", "It has no database directories.")
    for db in databases:
        for stored in _collections_of(path / db, db, problems):
            collections[stored.ns] = stored
    problems += _odd_files([path, *map(path.joinpath, databases)])
    files = [file for file in path.rglob("*") if file.is_file()]
    data = [file for file in files if ".bson" in file.suffixes]
    kinds = {compression_of(file) for file in data if file.stat().st_size > 0}
    problems += _mixed(kinds)
    anchors = _oplog_ends(path / "oplog.bson", problems)
    start, end = (anchors[0].ts, anchors[-1].ts) if anchors else (None, None)
    prelude = _prelude(path)
    backup = Backup(
        path=path,
        form=DIRECTORY,
        gzip=kinds == {Compression.GZIP},
        start=start,
        end=end,
        source="oplog" if start else "file times",
        server_version=clean(str(prelude.get("ServerVersion", ""))),
        tool_version=clean(str(prelude.get("ToolVersion", ""))),
        namespaces=tuple(sorted(collections)),
        bytes=sum(file.stat().st_size for file in files),
        has_oplog=(path / "oplog.bson").is_file(),
        taken_hint=earliest(files),
    )
    return Contents(
        backup,
        collections,
        tuple(problems),
        databases=tuple(db for db in databases if db not in LEFT_OUT),
        users="admin.system.users" in collections,
        anchors=anchors,
        written_over=_written_over([file for file in files if file.name != SIDECAR]),
    )


def _odd_files(folders: Iterable[Path]) -> Iterator[str]:
    inside = [child for folder in folders for child in folder.iterdir()]
    yield from (f"{clean(child.name)} is a symbolic link" for child in inside if child.is_symlink())
    yield from (f"{clean(child.name)} is not a file" for child in inside if not (child.is_file() or child.is_dir()))


def _mixed(kinds: set[Compression]) -> Iterator[str]:
    if len(kinds) > 1:
        yield f"{' and '.join(sorted(kinds - {Compression.NONE}))} and plain files are mixed"
    elif kinds - {Compression.NONE, Compression.GZIP}:
        yield f"its files are compressed with {next(iter(kinds))}, which mongorestore does not read"


def _collections_of(folder: Path, db: str, problems: list[str]) -> Iterator[StoredCollection]:
    data: dict[str, Path] = {}
    metadata: dict[str, Path] = {}
    for file in sorted(file for file in folder.iterdir() if file.is_file()):
        name = file.name.removesuffix(".gz")
        if name.endswith(".metadata.json"):
            metadata[name.removesuffix(".metadata.json")] = file
        elif name.endswith(".bson"):
            data[name.removesuffix(".bson")] = file
    for stem, file in metadata.items():
        try:
            found = read_metadata(read_plain(file).decode("utf-8"))
        except UNREADABLE as error:
            problems.append(f"{clean_name(db)}/{clean(file.name)} cannot be read: {clean(str(error), 80)}")
            continue
        bson = data.pop(f"{BUCKETS}{stem}" if found.kind == "timeseries" else stem, None)
        if bson is None and found.kind != "view":
            problems.append(f"{clean_name(db)}/{clean_name(stem)} has metadata but no documents file")
        yield StoredCollection(
            ns=f"{db}.{full_name(stem, found.name)}",
            kind=found.kind,
            data=bson,
            options=found.options,
            indexes=found.indexes,
            uuid=found.uuid,
        )
    for stem, file in data.items():
        if db in LEFT_OUT or stem.startswith("system."):
            continue
        problems.append(f"{clean_name(db)}/{clean_name(stem)} has documents but no metadata")
        yield StoredCollection(f"{db}.{unquote(stem)}", "collection", file, {}, ())


def _oplog_ends(path: Path, problems: list[str]) -> tuple[Anchor, ...]:
    """The first and the last entry of the dump's own oplog."""
    if not path.is_file():
        return ()
    first = last = None
    try:
        for raw in documents(path):
            first = first or raw
            last = raw
    except BrokenFile as error:
        problems.append(error.title)
    try:
        return anchors_of(first, last)
    except Malformed as error:
        problems.append(f"{path.name} is not an oplog: {error}")
        return ()


def anchors_of(first: bytes | None, last: bytes | None) -> tuple[Anchor, ...]:
    """The positions of two oplog entries. Raises Malformed."""
    if first is None or last is None:
        return ()
    return tuple(Anchor(entry_ts(raw), entry=raw) for raw in (first, last))


def _prelude(path: Path) -> dict[str, Any]:
    candidates = [path / "prelude.json", path / "prelude.json.gz", *path.glob("*/prelude.json*")]
    for file in candidates:
        if file.is_file():
            try:
                content = json.loads(read_plain(file))
            except UNREADABLE:
                return {}
            return content if isinstance(content, dict) else {}
    return {}


def earliest(files: list[Path]) -> datetime | None:
    """When the oldest file was written; None without files."""
    stamps = [file.stat().st_mtime for file in files]
    return datetime.fromtimestamp(int(min(stamps)), UTC) if stamps else None


def _written_over(files: list[Path]) -> int | None:
    stamps = [file.stat().st_mtime for file in files]
    return int(max(stamps) - min(stamps)) if stamps else None


def read_archive(path: Path) -> Contents:
    """Read an archive. Raises InputError if it is none."""
    content = archive.read(path)
    collections = {
        stored.ns: StoredCollection(stored.ns, stored.kind, None, stored.options, stored.indexes, stored.uuid)
        for stored in content.collections
    }
    backup = Backup(
        path=path,
        form=ARCHIVE,
        gzip=content.compression is Compression.GZIP,
        compressed=content.compression not in (Compression.NONE, Compression.GZIP),
        start=content.first,
        end=content.last,
        source="oplog" if content.first else "file times",
        server_version=content.server_version,
        tool_version=content.tool_version,
        namespaces=tuple(sorted(collections)),
        bytes=path.stat().st_size,
        has_oplog=content.first is not None,
        taken_hint=earliest([path]),
    )
    anchors = anchors_of(content.first_entry, content.last_entry)
    return Contents(backup, collections, content.problems, users="admin.system.users" in collections, anchors=anchors)


def with_sidecar(found: Contents, path: Path) -> Contents:
    """The backup with what the sidecar beside it or in it records."""
    for file in (path / SIDECAR, path.with_name(f"{path.name}.{SIDECAR}")):
        if file.is_file():
            break
    else:
        return found
    try:
        content = json.loads(file.read_text())
        if content["format"] != SIDECAR_FORMAT:
            problem = f"{SIDECAR} is of format {clean(str(content['format']), 20)}, not {SIDECAR_FORMAT}"
            return replace(found, problems=(*found.problems, problem))
        start = parse_ts(content["before"])
        end = parse_ts(content["after"]) if content.get("after") else found.backup.end
        term = int(content["term"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError):
        return replace(found, problems=(*found.problems, f"{SIDECAR} cannot be read"))
    own = found.backup.start
    late = own is not None and own < start
    backup = replace(
        found.backup,
        start=own if late else start,
        end=end,
        source=found.backup.source if late else "sidecar",
        server_version=found.backup.server_version or clean(str(content.get("server_version", ""))),
    )
    return replace(
        found,
        backup=backup,
        fcv=clean(str(content.get("fcv", ""))),
        set_name=clean(str(content.get("set_name", ""))),
        anchors=(*found.anchors, Anchor(start, term or None)),
        late_sidecar=start if late else None,
    )
