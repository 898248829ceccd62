"""Logical backups of Percona Backup for MongoDB (PBM), as it stores them in a folder.

``NAME.pbm.json``, the note, is written last: without it a backup was not finished. ``NAME/SET/metadata.json`` describes
the collections, ``NAME/SET/DB.COLLECTION.s2`` holds documents, ``NAME/SET/oplog/`` the entries written meanwhile, and
``pbmPitr/SET/`` the slices of the oplog that are saved between backups. PBM does not escape names in file names.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tallyglass.errors import InputError
from tallyglass.moment import Ts, checked_ts
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.restore.backup.backup import LEFT_OUT, PBM, Anchor, Contents, StoredCollection, ends_of
from tallyglass.restore.backup.bson_file import BrokenFile, Stated, documents
from tallyglass.restore.backup.metadata import Metadata, read_metadata
from tallyglass.restore.model.source import Backup
from tallyglass.text import clean, clean_name

NOTE = ".pbm.json"
SLICES = "pbmPitr"
_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
_SUFFIXES = {
    "none": "", "gzip": ".gz", "pgzip": ".gz", "snappy": ".snappy", "lz4": ".lz4", "s2": ".s2", "zstd": ".zst",
}  # fmt: skip
_OWN_COLLECTIONS = "admin.pbm"
"""What the names of PBM's own collections begin with; it leaves them out when it restores."""


def note_of(path: Path) -> Path | None:
    """The note of the backup at ``path``, its folder or the note itself; None if this is no backup of PBM.

    Raises InputError for one that PBM did not finish.
    """
    if path.name.endswith(NOTE):
        return path if path.is_file() else None
    note = path.parent / f"{path.name}{NOTE}"
    if note.is_file():
        return note
    if _NAME.match(path.name) and is_storage(path.parent):
        raise InputError(f"PBM did not finish {clean(path.name)}: {clean(note.name)} is missing.", "Name another one.")
    return None


def is_storage(folder: Path) -> bool:
    """Whether PBM stores backups in this folder."""
    return (folder / ".pbm.init").is_file() or (folder / SLICES).is_dir() or any(folder.glob(f"*{NOTE}"))


def backups_in(folder: Path) -> list[Path]:
    """The folders of backups in a storage folder, also those that were not finished."""
    return sorted(child for child in folder.iterdir() if child.is_dir() and _NAME.match(child.name))


def read(note: Path) -> Contents:
    """Read a backup by its note. Raises InputError if the note cannot be read, or its kind of backup is not."""
    name = note.name.removesuffix(NOTE)
    try:
        content = json.loads(note.read_text(encoding="utf-8"))
        kind, (first, *others) = str(content["type"]), content["replsets"]
        set_name, compression = str(first["name"]), str(content["compression"])
        start, end = _ts(content["first_write_ts"]), _ts(content["last_write_ts"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{clean(note.name)} is not a note of PBM, or damaged: {clean(str(error), 80)}.") from None
    if kind != "logical" or compression not in _SUFFIXES:
        title = f"{clean(name)} is a {clean(kind, 20)} backup of PBM, compressed with {clean(compression, 20)}."
        raise InputError(title, "Of PBM's backups the logical ones are read; restore this one with PBM.")
    folder = note.parent / name / set_name
    problems = list(_doubts(content, name, len(others)))
    if folder.parent.parent != note.parent or set_name in (".", ".."):
        raise InputError(f"{clean(note.name)} names a set outside the backup.", "Do not use this backup.")
    collections = {one.ns: one for one in _collections(folder, _SUFFIXES[compression], problems)}
    anchors = _own_oplog(folder / "oplog", start, end, problems)
    files = [file for file in folder.rglob("*") if file.is_file()]
    backup = Backup(
        path=note.parent / name,
        form=PBM,
        gzip=False,
        start=start,
        end=end,
        source="note",
        server_version=clean(str(content.get("mongodb_version", ""))),
        namespaces=tuple(sorted(collections)),
        bytes=sum(one.stated.bytes for one in collections.values() if one.stated)
        or sum(file.stat().st_size for file in files),
        compressed=True,
    )
    return Contents(
        backup,
        collections,
        tuple(problems),
        fcv=clean(str(content.get("fcv", ""))),
        set_name=clean(set_name),
        databases=tuple(sorted({ns.partition(".")[0] for ns in collections} - LEFT_OUT)),
        users="admin.system.users" in collections,
        anchors=anchors,
        oplog=note.parent if anchors else None,
    )


def _doubts(content: Mapping[str, Any], name: str, others: int) -> Iterator[str]:
    if content.get("name") != name:
        yield f"its note is that of {clean(str(content.get('name')), 40)}"
    if content.get("status") != "done":
        yield f"PBM did not finish it: its status is {clean(str(content.get('status')), 40)}"
    if chosen := content.get("nss"):
        shown = ", ".join(map(str, chosen)) if isinstance(chosen, list) else str(chosen)
        yield f"it is selective, only {clean(shown, 80)}"
    if others:
        yield f"it is of a sharded cluster of {others + 1} sets"


def _collections(folder: Path, suffix: str, problems: list[str]) -> Iterator[StoredCollection]:
    try:
        rows = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))["namespaces"]
        for row in rows:
            ns = f"{row['db']}.{row['collection']}"
            if ns.startswith(_OWN_COLLECTIONS):
                continue
            found = read_metadata(str(row.get("metadata") or "{}"))
            stated = Stated(int(row["size"]["$numberLong"]), int(row["crc"]["$numberLong"]))
            file = Path(os.path.normpath(f"{folder}/{ns}{suffix}"))
            if not file.is_relative_to(folder) or "/" in str(row["db"]):
                problems.append(f"the file of {clean_name(ns)} lies outside the backup")
            elif stated.bytes and not file.is_file():
                problems.append(f"the documents of {clean_name(ns)} are missing")
            else:
                data = file if stated.bytes else None
                yield StoredCollection(ns, found.kind, data, found.options, _indexes(found), found.uuid, stated)
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        problems.append(f"metadata.json cannot be read: {clean(str(error), 80)}")


def _indexes(found: Metadata) -> tuple[dict[str, Any], ...]:
    """The indexes, with the mark of a clustered one, which PBM does not store."""
    clustered = found.options.get("clusteredIndex")
    name = clustered.get("name") if isinstance(clustered, Mapping) else None  # true for that of buckets
    return tuple(
        index | {"clustered": True} if name and index.get("name") == name else index for index in found.indexes
    )


def _own_oplog(folder: Path, start: Ts, end: Ts, problems: list[str]) -> tuple[Anchor, ...]:
    """The ends of the entries that were written during the backup, which must be those of its note."""
    try:
        files = sorted(folder.iterdir(), key=_numbers) if folder.is_dir() else ()
        anchors = ends_of(raw for file in files for raw in documents(file))
    except (BrokenFile, Malformed) as error:
        problems.append(f"its own oplog is damaged: {error}")
        return ()
    found = tuple(anchor.ts for anchor in anchors)
    if found != (start, end):
        shown = f"reaches from {found[0]} to {found[1]}" if found else "is missing"
        problems.append(f"its own oplog {shown}; by its note from {start} to {end}")
    return anchors


def _numbers(file: Path) -> list[int]:
    """The time and the ordinal in the name of a chunk, which orders them: ordinals have no leading zeros."""
    return [int(digits) for digits in re.findall(r"[0-9]+", file.name)]


def _ts(value: Mapping[str, Any]) -> Ts:
    return checked_ts(value["T"], value["I"])
