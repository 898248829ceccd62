"""Backups that PBM and wal-g have made, with the truth of what they hold: ``tests/backups/backups.tar.xz``."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tallyglass.moment import Ts
from tallyglass.restore.backup.bson_file import documents, entry_ts
from tallyglass.restore.saved_oplog.slice_names import span

_PACKED = Path(__file__).parent / "backups" / "backups.tar.xz"
FIRST = "2026-11-23T06:11:05Z"
"""A backup of PBM, taken beside a writer."""
T1 = Ts(1795414293, 15)
"""A position within a slice, at which the whole state is recorded."""


def extract(folder: Path, *names: str) -> Path:
    """Extract what lies under these names; the name of a file may hold anything. Returns ``folder``."""
    with tarfile.open(_PACKED) as packed:
        chosen = [one for one in packed if one.name.startswith(names)]
        packed.extractall(folder, chosen, filter="data")
    return folder


@cache
def names() -> tuple[str, ...]:
    """What is packed."""
    with tarfile.open(_PACKED) as packed:
        return tuple(packed.getnames())


def stop_at(storage: Path, ts: Ts) -> list[bytes]:
    """Leave a storage of PBM as if saving slices had ended at ``ts``. Returns all entries up to there."""
    found: dict[Ts, bytes] = {}
    for file, named in _slices(storage):
        entries = [raw for raw in documents(file) if entry_ts(raw) <= ts]
        found |= {entry_ts(raw): raw for raw in entries}
        if named > ts:
            file.unlink()
            if entries:
                last = f"{ts.time:%Y%m%d%H%M%S}-{ts.i}"
                (file.parent / f"{file.name.split('.')[0]}.{last}.oplog").write_bytes(b"".join(entries))
    return [found[at] for at in sorted(found)]


def _slices(storage: Path) -> Iterator[tuple[Path, Ts]]:
    for file in sorted((storage / "pbmPitr").rglob("*.oplog*")):
        named = span(file)
        assert named is not None, file
        yield file, named.end
