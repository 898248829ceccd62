"""A backup from which documents can be carried forward: the oplog continues it up to the point."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.backup.backup import Contents
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.catalogue.backups import newest_backup, why_not
from tallyglass.restore.timeline.coverage import BACK_OFF_SECONDS, NoStart, choose_start
from tallyglass.text import clean


@dataclass(frozen=True, slots=True)
class UsableBackup:
    """A backup that the oplog continues from ``start``."""

    contents: Contents
    start: Ts


async def usable_backup(gateway: Gateway, path: Path, limit: Ts, start: Ts | None = None) -> UsableBackup:
    """The backup at ``path``, or the newest of a folder that ended before ``limit``. ``start`` is an oplog position
    known to lie before it. Raises InputError, which says why the backup cannot be used, and the errors of the
    gateway."""
    path = await newest_backup(gateway, path, limit)
    contents = await asyncio.to_thread(read_backup, path, start)
    backup = contents.backup
    why = await why_not(gateway, contents, await look_at(gateway))
    end = backup.end or backup.start
    if not why and (end is None or end >= limit):
        why = f"It ended at {end}, which is not before {limit}."
    begin = await choose_start(gateway, backup.start or limit, 0 if backup.exact else BACK_OFF_SECONDS)
    if why or isinstance(begin, NoStart):
        raise InputError(f"{clean(str(path), 200)}: {why or 'the oplog does not reach back to it.'}")
    return UsableBackup(contents, begin.ts)
