"""The names of saved slices, which say from where to where each reaches: those of ``save-oplog``, PBM and wal-g."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tallyglass.moment import Ts, checked_ts

OWN = re.compile(r"oplog-(\d+)_(\d+)-(\d+)_(\d+)\.bson\.gz\Z")
"""How ``restore save-oplog`` names a slice: by its first and its last entry."""
_DUMP = re.compile(r"oplog[^/]*\.bson(\.gz)?\Z")
"""A mongodump of the oplog."""
_PBM = re.compile(r"(\d{14})(?:-(\d+))?\.(\d{14})(?:-(\d+))?(?:\.oplog)?(?:\.(?:gz|s2|snappy|lz4|zst))?\Z")
_PBM_FOLDERS = re.compile(r"/pbmPitr/[^/]+/\d{8}/|/oplog/")
_WAL_G = re.compile(r"oplog_(\d+)\.(\d+)_(\d+)\.(\d+)\.(?:lz4|zst|lzma|br)\Z")


@dataclass(frozen=True, slots=True)
class NamedSpan:
    """The ends of a slice by its name, both inclusive. With ``after`` it may begin with the entry that follows
    ``start``, as the slices of wal-g do."""

    start: Ts
    end: Ts
    after: bool = False

    def contradicts(self, first: Ts, last: Ts) -> str:
        """Why a slice from ``first`` to ``last`` does not have this name; empty if it may."""
        if last != self.end:
            return f"it ends with {last}, and its name says {self.end}"
        if first < self.start or (first > self.start and not self.after):
            return f"it begins with {first}, and its name says {self.start}"
        return ""


def is_slice(path: Path) -> bool:
    """Whether a file is called like a slice."""
    return _DUMP.match(path.name) is not None or span(path) is not None


def span(path: Path) -> NamedSpan | None:
    """What the name of a slice says; None if it says nothing."""
    try:
        if found := OWN.match(path.name):
            return NamedSpan(*_ends(*map(int, found.groups())))
        if found := _WAL_G.match(path.name):
            return NamedSpan(*_ends(*map(int, found.groups())), after=True)
        if (found := _PBM.match(path.name)) and _PBM_FOLDERS.search(path.as_posix()):
            start, first, end, last = found.groups(default="0")
            return NamedSpan(*_ends(_seconds(start), int(first), _seconds(end), int(last)))
    except ValueError:  # no time, or no numbers of an oplog
        pass
    return None


def _ends(start: int, first: int, end: int, last: int) -> tuple[Ts, Ts]:
    return checked_ts(start, first), checked_ts(end, last)


def _seconds(text: str) -> int:
    return int(datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC).timestamp())
