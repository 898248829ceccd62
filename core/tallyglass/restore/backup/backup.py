"""What a backup holds, and from when it is, as each kind of backup is read. A backup is never written to."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tallyglass.moment import Ts
from tallyglass.restore.backup.bson_file import Stated, entry_ts
from tallyglass.restore.backup.copy_note import CopyNote
from tallyglass.restore.model.proof import stored_as
from tallyglass.restore.model.source import Backup

DIRECTORY, ARCHIVE, DATA_FILES, PBM = "directory", "archive", "data files", "PBM"
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


def ends_of(entries: Iterable[bytes]) -> tuple[Anchor, ...]:
    """The positions of the first and the last of some oplog entries; none without entries. Raises Malformed."""
    first = last = b""
    for raw in entries:
        first, last = first or raw, raw
    return tuple(Anchor(entry_ts(raw), entry=raw) for raw in (first, last) if raw)


def earliest(files: list[Path]) -> datetime | None:
    """When the oldest file was written; None without files."""
    stamps = [file.stat().st_mtime for file in files]
    return datetime.fromtimestamp(int(min(stamps)), UTC) if stamps else None
