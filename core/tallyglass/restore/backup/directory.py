"""Read a directory that mongodump wrote: a folder for each database, with documents and metadata of each collection."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

from tallyglass.errors import InputError
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.snapshot import BUCKETS
from tallyglass.restore.backup.backup import DIRECTORY, LEFT_OUT, Anchor, Contents, StoredCollection, earliest, ends_of
from tallyglass.restore.backup.bson_file import UNREADABLE, BrokenFile, documents
from tallyglass.restore.backup.compression import Compression, compression_of, read_plain
from tallyglass.restore.backup.file_names import file_stem, full_name
from tallyglass.restore.backup.metadata import read_metadata
from tallyglass.restore.backup.sidecar import SIDECAR
from tallyglass.restore.model.source import Backup
from tallyglass.text import clean, clean_name


def read_directory(path: Path) -> Contents:
    """Read a mongodump directory. Raises InputError if it is none."""
    problems: list[str] = []
    databases = sorted(child.name for child in path.iterdir() if child.is_dir())
    if not databases and not (path / "oplog.bson").is_file():
        raise InputError(f"{clean(str(path))} holds no mongodump backup.", "It has no database directories.")
    collections = {one.ns: one for db in databases for one in _collections_of(path / db, db, problems)}
    problems += _odd_files([path, *map(path.joinpath, databases)])
    files = [file for file in path.rglob("*") if file.is_file()]
    compressions = _compressions(files, problems)
    anchors = _oplog_ends(path / "oplog.bson", problems)
    prelude = _prelude(path)
    backup = Backup(
        path=path,
        form=DIRECTORY,
        gzip=compressions == {Compression.GZIP},
        start=anchors[0].ts if anchors else None,
        end=anchors[-1].ts if anchors else None,
        source="oplog" if anchors else "file times",
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


def _compressions(files: Iterable[Path], problems: list[str]) -> set[Compression]:
    """How the documents are compressed, which must be one way that mongorestore reads."""
    data = [file for file in files if ".bson" in file.suffixes]
    found = {compression_of(file) for file in data if file.stat().st_size}
    if len(found) > 1:
        names = sorted("plain" if one is Compression.NONE else str(one) for one in found)
        problems.append(f"{' and '.join(names)} files are mixed")
    elif found - {Compression.NONE, Compression.GZIP}:
        problems.append(f"its files are compressed with {next(iter(found))}, which mongorestore does not read")
    problems += (f"{clean(file.name)} is cut off" for file in data if file.suffix == ".gz" and not file.stat().st_size)
    return found


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
        name = full_name(stem, found.name)
        bson = data.pop(file_stem(f"{BUCKETS}{name}") if found.kind == "timeseries" else stem, None)
        if bson is None and found.kind != "view":
            problems.append(f"{clean_name(db)}/{clean_name(stem)} has metadata but no documents file")
        yield StoredCollection(
            ns=f"{db}.{name}",
            kind=found.kind,
            data=bson,
            options=found.options,
            indexes=found.indexes,
            uuid=found.uuid,
        )
    for stem, file in data.items():
        if db in LEFT_OUT or (stem.startswith("system.") and not stem.startswith(BUCKETS)):
            continue
        problems.append(f"{clean_name(db)}/{clean_name(stem)} has documents but no metadata")
        yield StoredCollection(f"{db}.{unquote_plus(stem)}", "collection", file, {}, ())


def _oplog_ends(path: Path, problems: list[str]) -> tuple[Anchor, ...]:
    """The first and the last entry of the dump's own oplog."""
    if not path.is_file():
        return ()

    def whole() -> Iterator[bytes]:
        try:
            yield from documents(path)
        except BrokenFile as error:
            problems.append(error.title)

    try:
        return ends_of(whole())
    except Malformed as error:
        problems.append(f"{path.name} is not an oplog: {error}")
        return ()


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


def _written_over(files: list[Path]) -> int | None:
    stamps = [file.stat().st_mtime for file in files]
    return int(max(stamps) - min(stamps)) if stamps else None
