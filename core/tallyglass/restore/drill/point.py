"""The backup and the point of a drill."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

from tallyglass.errors import InputError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.paths import absolute_path
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.catalogue.backups import newest_backup
from tallyglass.restore.catalogue.window import prove_window
from tallyglass.restore.drill import load
from tallyglass.restore.drill.random_point import draw
from tallyglass.restore.drill.report import PHASES
from tallyglass.restore.drill.request import DrillRun, counted
from tallyglass.restore.drill.stopped import Failed
from tallyglass.restore.timeline import coverage

_FOR_A_LATER_ENTRY = 15.0
"""An idle set writes an entry every ten seconds; a point must lie after the end of the backup."""


async def point(run: DrillRun) -> tuple[Path, Ts]:
    """The backup, and the exclusive limit. Raises Failed."""
    request = run.request
    backup = absolute_path(request.backup)
    if request.seed is not None:
        return await _random_point(run, backup, request.seed)
    limit = request.to or await _newest(run.gateway)
    with counted(run, PHASES[0]):
        backup = await _chosen(run.gateway, backup, limit, request.oplog)
    if request.to is None:
        end = (await asyncio.to_thread(read_backup, backup, request.backup_start)).backup.end
        limit = await _newest(run.gateway, after=end)
    return backup, limit


async def _random_point(run: DrillRun, backup: Path, seed: int) -> tuple[Path, Ts]:
    """Not counted: in a real restore the point is given. Raises Failed."""
    slices = (run.request.oplog,) if run.request.oplog else ()
    try:
        window, oplogs = await prove_window([backup], slices, load.paced(run.gateway, run.request.rate))
        drawn = await draw(window, oplogs, seed)
    except InputError as error:
        raise Failed("no-window", error.title, error.advice) from None
    run.known = replace(run.known, random_where=drawn.stratum.value)
    return drawn.base, drawn.limit


async def _chosen(gateway: Gateway, backup: Path, limit: Ts, oplog: Path | None) -> Path:
    """The backup, or of a folder of backups the newest that ended before the point. Raises Failed."""
    try:
        return await newest_backup(gateway, backup, limit, oplog)
    except InputError as error:
        raise Failed("no-backup", error.title, error.advice) from None


async def _newest(gateway: Gateway, after: Ts | None = None) -> Ts:
    """The newest majority-committed position; waits a limited time for one later than ``after``."""
    deadline = time.monotonic() + _FOR_A_LATER_ENTRY
    while True:
        newest = await coverage.majority(gateway)
        if newest is None:
            raise ReadError("The server does not say which entries a majority of the members has.")
        if after is None or newest > after or time.monotonic() > deadline:
            return newest
        await asyncio.sleep(0.5)
