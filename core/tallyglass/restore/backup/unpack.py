"""Write a backup that mongorestore cannot read as one that it can: a dump directory or a plain archive."""

from __future__ import annotations

import shutil
from pathlib import Path
from urllib.parse import quote_plus

from bson import json_util

from tallyglass.errors import InputError
from tallyglass.restore.backup.backup import ARCHIVE, PBM, Contents, StoredCollection
from tallyglass.restore.backup.bson_file import UNREADABLE, documents
from tallyglass.restore.backup.compression import open_plain
from tallyglass.restore.backup.file_names import file_stem
from tallyglass.restore.backup.metadata import EXACT
from tallyglass.restore.backup.read import read_backup
from tallyglass.text import clean


def unpack(path: Path, out: Path) -> None:
    """Write the backup at ``path`` to ``out``, which is made. Slow: run it in a thread.

    Raises InputError if the backup is damaged or of no such kind, or ``out`` cannot be written.
    """
    contents = read_backup(path)
    if contents.problems:
        raise InputError(f"{clean(str(path))} is damaged or incomplete: {contents.problems[0]}.")
    try:
        if contents.backup.form == PBM:
            out.mkdir(mode=0o700, parents=True)
            _write_dump(contents, out)
        elif contents.backup.form == ARCHIVE:
            with open_plain(contents.backup.path) as source, out.open("xb") as target:
                shutil.copyfileobj(source, target, 2**20)
        else:
            raise InputError(f"{clean(str(path))} needs no unpacking.", "mongorestore reads it.")
    except UNREADABLE as error:
        raise InputError(f"{clean(str(path))} cannot be unpacked: {clean(str(error), 200)}.") from None


def _write_dump(contents: Contents, out: Path) -> None:
    for stored in contents.collections.values():
        db, _, name = stored.ns.partition(".")
        if db not in contents.databases:
            continue
        (out / db).mkdir(mode=0o700, exist_ok=True)
        (out / db / f"{file_stem(name)}.metadata.json").write_text(_metadata(stored, name), "ascii")
        if stored.kind != "view":
            _write_documents(stored, out / db / f"{file_stem(stored.stored_as.partition('.')[2])}.bson")


def _write_documents(stored: StoredCollection, target: Path) -> None:
    with target.open("xb") as file:
        for raw in documents(stored.data, stored.stated) if stored.data is not None else ():
            file.write(raw)


def _metadata(stored: StoredCollection, name: str) -> str:
    """The metadata. mongorestore needs the escaped name where it is cut off in the name of the file."""
    content = {
        "options": stored.options, "indexes": stored.indexes, "uuid": stored.uuid, "type": stored.kind,
        "collectionName": quote_plus(name),
    }  # fmt: skip
    return json_util.dumps(content, json_options=EXACT)
