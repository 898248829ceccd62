"""Where the documents of a plan come from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tallyglass.moment import Ts


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
