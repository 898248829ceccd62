"""Logical backups of wal-g: a mongodump archive, compressed, and the sentinel that is written last.

``basebackups_005/NAME/stream.lz4``, ``basebackups_005/NAME_backup_stop_sentinel.json``, and slices of the oplog in
``oplog_005/``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tallyglass.errors import InputError
from tallyglass.moment import Ts, checked_ts
from tallyglass.restore.backup import archive
from tallyglass.restore.backup.backup import Anchor, Contents
from tallyglass.text import clean

SENTINEL = "_backup_stop_sentinel.json"
_BASES, _SLICES = "basebackups_", "oplog_"


def sentinel_of(path: Path) -> Path | None:
    """The sentinel of the backup at ``path``, its folder, its stream or the sentinel itself; None if this is no backup
    of wal-g. Raises InputError for one that wal-g did not finish."""
    if path.name.endswith(SENTINEL):
        return path if path.is_file() else None
    folder = path.parent if path.name.startswith("stream.") else path
    sentinel = folder.parent / f"{folder.name}{SENTINEL}"
    if sentinel.is_file():
        return sentinel
    if folder.parent.name.startswith(_BASES):
        title = f"wal-g did not finish {clean(folder.name)}: {clean(sentinel.name)} is missing."
        raise InputError(title, "Name another one.")
    return None


def bases_of(folder: Path) -> Path | None:
    """The folder of backups in a storage folder; None if wal-g stores nothing there."""
    return next((child for child in sorted(folder.glob(f"{_BASES}*")) if child.is_dir()), None)


def backups_in(folder: Path) -> list[Path]:
    """The folders of backups in a folder of them, also those that were not finished."""
    return sorted(child for child in folder.iterdir() if child.is_dir())


def read(sentinel: Path) -> Contents:
    """Read a backup by its sentinel. Raises InputError if that cannot be read, or its kind of backup is not."""
    folder = sentinel.with_name(sentinel.name.removesuffix(SENTINEL))
    try:
        content = json.loads(sentinel.read_text(encoding="utf-8"))
        kind, name = str(content["BackupType"]), str(content["BackupName"])
        before, after = (_ts(content["MongoMeta"][side]["LastMajTS"]) for side in ("Before", "After"))
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{clean(sentinel.name)} is not a sentinel of wal-g, or damaged: {clean(str(error), 80)}."
        ) from None
    if kind != "logical":
        raise InputError(f"{clean(folder.name)} is a {clean(kind, 20)} backup of wal-g.", "Restore it with wal-g.")
    streams = sorted(folder.glob("stream.*"))
    if len(streams) != 1:
        raise InputError(f"{clean(str(folder))} holds {len(streams)} streams instead of one.", "Copy it again.")
    if streams[0].suffix == ".br":
        raise InputError(f"{clean(str(streams[0]))} is compressed with brotli.", "Decompress it with wal-g first.")
    found = archive.read(streams[0])
    backup = replace(found.backup, start=before, end=max(found.backup.end or after, after), source="note")
    size, stated = streams[0].stat().st_size, content.get("DataSize")
    problems = [] if name == folder.name else [f"its sentinel is that of {clean(name, 60)}"]
    if stated is not None and stated != size:
        problems.append(f"{streams[0].name} has {size} bytes; by its sentinel {clean(str(stated), 20)}")
    storage = sentinel.parent.parent
    return replace(
        found,
        backup=backup,
        problems=(*found.problems, *problems),
        anchors=(*found.anchors, Anchor(before), Anchor(after)),
        oplog=storage if any(storage.glob(f"{_SLICES}*/oplog_*")) else None,
    )


def _ts(value: Mapping[str, Any]) -> Ts:
    return checked_ts(value["TS"], value["Inc"])
