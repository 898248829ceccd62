"""Where the documents of a plan come from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tallyglass.moment import Ts
from tallyglass.restore.model.way import FROM_IMAGES

SPARE_PORT = 27117
"""Where emitted commands start a spare, or a mongod on a copy of data files: a hundred above the port of mongod, which
the servers of a host share with the next few."""

WITH_BACKUP = "pre-images, the missing ones from this backup"
"""The form of a source of pre-images in which documents without an image come from a backup."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds. ``start`` and ``end`` are the oplog positions between which it was taken, None where
    it does not say; ``source`` tells how they are known: ``oplog``, ``sidecar``, ``note`` (of the tool that made it),
    ``given`` or ``file times``."""

    path: Path
    form: str
    gzip: bool
    start: Ts | None
    end: Ts | None
    source: str
    server_version: str = ""
    tool_version: str = ""
    namespaces: tuple[str, ...] = ()
    bytes: int = 0
    has_oplog: bool = False
    taken_hint: datetime | None = None
    compressed: bool = False
    """Whether its files must be decompressed before mongorestore can read them."""

    @property
    def exact(self) -> bool:
        """Whether the data holds all that was written before the start, so that the replay can begin right there."""
        return self.source in ("sidecar", "note")


@dataclass(frozen=True, slots=True)
class FromBackup:
    """The documents come from the ``spare``, an address, on which the ``backup`` is restored and the oplog replayed.
    ``oplog`` tells where the saved oplog is that is read before the live one; empty where there is none."""

    backup: Backup
    spare: str
    oplog: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where the documents lie."""
        return self.backup.path

    @property
    def form(self) -> str:
        """What they lie in, safe to show."""
        return self.backup.form


@dataclass(frozen=True, slots=True)
class FromImages:
    """The documents come from pre-images of so many ``bytes``, and from ``backup`` those that have none."""

    bytes: int = 0
    backup: Backup | None = None

    @property
    def path(self) -> Path:
        """Where the documents lie."""
        return self.backup.path if self.backup else Path("config.system.preimages")

    @property
    def form(self) -> str:
        """What they lie in, safe to show."""
        return self.backup.form if self.backup else FROM_IMAGES
