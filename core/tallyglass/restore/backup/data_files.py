"""A backup that is a copy of the data files: it is read from the spare, which must already run on a copy of it."""

from __future__ import annotations

import fcntl
from collections.abc import Collection
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import bson

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.read.entries import edge
from tallyglass.restore.backup.backup import DATA_FILES, LEFT_OUT, Anchor, Contents, StoredCollection, earliest
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.backup.copy_note import LARGEST, is_note, read_notes
from tallyglass.restore.backup.packed_files import STORAGE, PackedFiles, read_packed
from tallyglass.restore.model.source import SPARE_PORT, Backup
from tallyglass.text import clean, clean_name, shell_quote

LOOKED_AT = 200
"""Newest entries of the copy's own oplog whose documents are looked for."""


def is_in_use(path: Path) -> bool:
    """Whether a mongod runs on these data files; it holds a lock on one of them."""
    try:
        with (path / "mongod.lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_data_files(path: Path) -> Contents:
    """What is known of data files without a server on them: of a folder, or of a tar file. Raises InputError if a
    server runs on them, or a tar file holds none."""
    found = _files_at(path)
    note = read_notes(found.notes)
    problems = [found.problem or "_mdb_catalog.wt is missing"] if found.problem or not found.catalog else []
    problems += [note.problem] if note and note.problem else []
    backup = Backup(
        path=path,
        form=DATA_FILES,
        gzip=False,
        start=None,
        end=note.end if note else None,
        source="file times",
        server_version=note.version if note else "",
        bytes=found.size,
        taken_hint=found.oldest,
    )
    return Contents(backup, problems=tuple(problems), set_name=note.set_name if note else "", note=note)


def _files_at(path: Path) -> PackedFiles:
    """The data files in a tar file, or as they would be in one."""
    if path.is_file():
        return read_packed(path)
    if is_in_use(path):
        raise InputError(
            f"{clean(str(path))} is the data folder of a mongod that is running, not a backup.",
            "Name a copy: a snapshot of the volume, or a copy made while the server was locked or shut down.",
        )
    held = [file for file in path.rglob("*") if file.is_file()]
    return PackedFiles(
        "",
        (path / "_mdb_catalog.wt").exists(),
        sum(file.stat().st_size for file in held),
        earliest(held),
        tuple((file.name, _beginning(file)) for file in held if file.parent == path and is_note(file.name)),
        _beginning(path / STORAGE) if (path / STORAGE).is_file() else b"",
    )


def _beginning(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(LARGEST)


def start_script(path: Path, port: int = SPARE_PORT) -> str:
    """A script for bash that copies the data files at ``path``, brings the copy to the end of its own oplog, and starts
    a mongod on the copy, on loopback; the original is only read. Raises InputError if ``path`` holds no data files."""
    if not path.is_file() and not (path / "WiredTiger").exists():
        raise InputError(f"{clean(str(path))} holds no data files.", "Name a copy of a dbPath, or a tar file of one.")
    found, quoted = _files_at(path), shell_quote(str(path))
    copy = f"tar -xf {quoted} -C copy" if path.is_file() else f"cp -a {quoted}/. copy/"
    data = f"copy/{found.folder}".rstrip("/")
    options = " ".join(_made_with(found.storage))
    head = f"#!/usr/bin/env bash\nDATA={shell_quote(data)}\nPORT={port}\nOPTIONS='{options}'\ncopy() {{ {copy}; }}\n"
    return head + _START


_START = (files(__package__) / "start_copy.sh").read_text(encoding="ascii")


def _made_with(storage: bytes) -> list[str]:
    """The options without which a mongod does not start on data files that were made with them."""
    try:
        options = bson.decode(storage).get("storage", {}).get("options", {}) if storage else {}
    except (bson.errors.InvalidBSON, AttributeError):
        return []
    names = {"directoryPerDB": "--directoryperdb", "directoryForIndexes": "--wiredTigerDirectoryForIndexes"}
    return [word for name, word in names.items() if options.get(name)]


def how_to_start(contents: Contents) -> str:
    """The first steps of an operator: run a server on a copy of the data files."""
    path = shell_quote(str(contents.backup.path))
    note = contents.note
    key = f" They are encrypted: mongod needs the master key {note.key}." if note and note.key else ""
    return (
        f"In a new folder: tallyglass restore start-copy {path} >start.sh, then bash start.sh: it starts a mongod on a "
        f"copy. Then plan with --spare 127.0.0.1:{SPARE_PORT}.{key}"
    )


async def read_running(spare: Gateway, contents: Contents) -> Contents:
    """The copy's collections, and the end of its own oplog as the moment it is from.

    A copy that was not recovered to that end is named among the problems: its newest documents are not there.
    """
    end = await edge(spare, -1)
    if end is None:
        return replace(contents, problems=(*contents.problems, "the copy holds no oplog"))
    collections: dict[str, StoredCollection] = {}
    for db in await spare.list_databases():
        if db in LEFT_OUT:
            continue
        for info in await spare.list_collections(db):
            name = info.ns.collection
            if name.startswith("system."):
                continue
            indexes = () if info.kind == "view" else tuple(dict(row) for row in await spare.list_indexes(info.ns))
            stored = StoredCollection(str(info.ns), info.kind, None, dict(info.options or {}), indexes, info.uuid.hex())
            collections[stored.ns] = stored
    missing = await _missing(spare, {ns for ns, stored in collections.items() if stored.options.get("capped")})
    problems = [f"the copy was not recovered to the end of its oplog: {missing} is missing"] if missing else []
    problems += [why] if (why := _contradicted(contents, end.ts)) else []
    backup = replace(
        contents.backup, start=end.ts, end=end.ts, source="oplog", namespaces=tuple(sorted(collections)), has_oplog=True
    )
    return replace(
        contents,
        backup=backup,
        collections=collections,
        problems=(*contents.problems, *problems),
        anchors=(*contents.anchors, Anchor(end.ts, entry=end.raw)),
    )


def _contradicted(contents: Contents, end: Ts) -> str:
    """Why note or sidecar are not of a copy whose oplog ends at ``end``; empty where nothing speaks against it."""
    if contents.note is not None and (why := contents.note.contradicts(end)):
        return why
    start, backup = contents.backup.start, contents.backup
    if backup.source == "sidecar" and start is not None and end < start:
        return f"its oplog ends at {end}, before the position {start} of its sidecar"
    return ""


async def _missing(spare: Gateway, capped: Collection[str]) -> str:
    """A document of the newest inserts that is missing and was not deleted; empty if there is none. Those of ``capped``
    collections say nothing: before 5.0 a server does not log what it removes there."""
    deleted: set[tuple[str, bytes]] = set()
    dropped: set[str] = set()
    async for batch in spare.find_raw(OPLOG, {}, sort=[("$natural", -1)], limit=LOOKED_AT, time_ms=60_000):
        for at, after in walk.split(batch):
            entry = read_entry(batch[at:after])
            if entry.op == "c":
                dropped.add(entry.db)
                continue
            where = (entry.ns, entry.id_key)
            if entry.op == "d":
                deleted.add(where)
            gone = where in deleted or entry.db in dropped or entry.ns in capped
            if entry.op != "i" or gone or entry.db in LEFT_OUT:
                continue
            if not await _is_there(spare, entry):
                return f"{clean_name(entry.ns)} {clean_name(str(entry.document_id), 60)}"
    return ""


async def _is_there(spare: Gateway, entry: Entry) -> bool:
    query = {"_id": entry.document_id}
    async for batch in spare.find_raw(Namespace.parse(entry.ns), query, limit=1):
        for at, after in walk.split(batch):
            return id_key(batch[at:after]) == entry.id_key
    return False
