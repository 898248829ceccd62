"""Save the next slice of the oplog: from the newest entry of the last slice to the newest majority-committed entry.

Each slice begins with the last entry of the slice before it; that alone proves that they join.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import DeploymentError, InputError, ReadError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import OPLOG, Gateway
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.batch import last_start
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.read.entries import SCAN_MS, edge, stamp
from tallyglass.restore.backup.bson_file import entry_ts
from tallyglass.restore.saved_oplog.saved_oplog import Hole
from tallyglass.restore.saved_oplog.slice_file import SliceFile
from tallyglass.restore.saved_oplog.slice_folder import check_set, last_slice, locked, remove_old, sync_folder
from tallyglass.restore.timeline.coverage import majority
from tallyglass.restore.timeline.identity import is_same_entry
from tallyglass.text import clean

_DRAFT = ".oplog-draft.bson.gz"
_BATCH = 10_000
"""Entries that are asked for at once; the server ends a batch at 16 MB anyway."""
_LEVEL = 1
"""Takes a third of the time of gzip's default level, for a tenth more bytes."""


@dataclass(frozen=True, slots=True)
class SavedSlice:
    """What was saved: ``path`` is None if there was nothing new. ``hole`` is what the server had overwritten since the
    last slice, ``differs`` says that the last slice is from another history of the set. ``removed`` are the slices that
    were older than the retention."""

    path: Path | None
    last: Ts
    entries: int = 0
    bytes: int = 0
    hole: Hole | None = None
    differs: str = ""
    removed: tuple[Path, ...] = ()


async def save_slice(gateway: Gateway, folder: Path, keep_seconds: float) -> SavedSlice:
    """Write the next slice into ``folder``, readable only by its owner, and remove slices older than ``keep_seconds``.
    The first slice reaches back as far. A slice appears complete or not at all.

    Raises InputError if the folder cannot be written or another run uses it, DeploymentError if there is no oplog,
    ReadError if the server does not report the majority commit point, and the errors of the gateway.
    """
    deployment = await look_at(gateway)
    if deployment.sharded:
        raise DeploymentError("This is part of a sharded cluster: one oplog does not hold all of it.")
    if not deployment.has_oplog:
        raise DeploymentError("There is no oplog to save here.", deployment.no_oplog_because())
    newest = await majority(gateway)
    if newest is None:
        raise ReadError("The server does not say which entries a majority of the members has.")
    try:
        with locked(folder):
            before = last_slice(folder)
            await check_set(gateway, folder, deployment.set_name)
            saved = await _save(gateway, folder, before, newest, keep_seconds)
            removed = tuple(remove_old(folder, saved.last.t - keep_seconds))
    except OSError as error:
        raise InputError(f"{clean(str(folder))} cannot be written: {error.strerror or error}.") from None
    return replace(saved, removed=removed)


async def _save(
    gateway: Gateway, folder: Path, before: SliceFile | None, newest: Ts, keep_seconds: float
) -> SavedSlice:
    hole, differs = None, ""
    oldest = await edge(gateway, 1)
    if oldest is None or oldest.ts > newest:
        raise ReadError("The oplog holds no entry that a majority of the members has.")
    start = Ts(max(int(newest.t - keep_seconds), 0), 0)
    if before is not None and newest < before.last and await _lags(gateway, before, newest):
        return SavedSlice(None, before.last)
    if before is not None:
        held = await edge(gateway, 1, {"ts": stamp(before.last)})
        if held is not None and is_same_entry(held, read_entry(before.last_entry)):
            start = before.last
        elif oldest.ts > before.last:
            hole = Hole(before.last, oldest.ts)
        else:
            differs = f"the server has no such entry {before.last} as {clean(before.path.name)} ends with"
    wanted = {"ts": {"$gte": stamp(start), "$lte": stamp(newest)}}
    batches = gateway.find_raw(OPLOG, wanted, batch_size=_BATCH, time_ms=SCAN_MS)
    draft = folder / _DRAFT
    try:
        first, last, count, size = await _write(batches, draft)
        if not count or (before is not None and last == before.last):
            return SavedSlice(None, before.last if before else newest, hole=hole, differs=differs)
        if before is not None and start == before.last and first != start:
            hole = Hole(before.last, first)  # overwritten meanwhile
        path = folder / f"oplog-{first.t}_{first.i}-{last.t}_{last.i}.bson.gz"
        draft.replace(path)
        sync_folder(folder)
    finally:
        draft.unlink(missing_ok=True)
    return SavedSlice(path, last, count, size, hole, differs)


async def _lags(gateway: Gateway, before: SliceFile, newest: Ts) -> bool:
    """Whether the member is only behind the last slice, as far as that slice tells; else it has another history."""
    held, saved = await edge(gateway, 1, {"ts": stamp(newest)}), before.entry(newest)
    return held is None or not saved or is_same_entry(held, read_entry(saved))


async def _write(batches: AsyncIterator[bytes], path: Path) -> tuple[Ts, Ts, int, int]:
    """The first and the last timestamp, how many entries, and the bytes of the file."""
    first = last = ZERO
    count = 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        with gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as packed:
            async for batch in batches:
                if not count:
                    first = entry_ts(batch[: walk.document_end(batch)])
                count += sum(1 for _ in walk.split(batch))
                last = entry_ts(batch[last_start(batch) :])
                packed.write(batch)
        file.flush()
        os.fsync(file.fileno())
        return first, last, count, file.tell()
