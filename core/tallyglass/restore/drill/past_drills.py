"""The last drill of each deployment, and the outcomes of those at random points, kept in the user's state folder for
the next drill and for the dashboard."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tallyglass.deployment.identity import identify
from tallyglass.errors import InputError
from tallyglass.moment import parse_time
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.drill.last_window import LastWindow, last_window
from tallyglass.restore.drill.report import UNKNOWN, Report, from_json, to_json
from tallyglass.restore.drill.state import keep, kept
from tallyglass.restore.model.check import Level
from tallyglass.restore.proof.speed import BYTES_A_SECOND
from tallyglass.text import clean

_PROVED = (Level.OK.value, Level.WARN.value)
_LOOK_SECONDS = 30.0
"""A drill takes minutes: its result need not be shown sooner."""
_EVERY = timedelta(weeks=1)
"""A drill is due every week."""
_RANDOM_KEPT = 1_000
"""Drills at random points that are counted: nearly three years of nights."""


def last(deployment: str, *, proved: bool = False) -> Report | None:
    """The last drill of a deployment, or with ``proved`` the last that succeeded; None if there is none, or it cannot
    be read."""
    try:
        return from_json(kept(_name(deployment, proved)))
    except (OSError, UnicodeDecodeError, InputError):
        return None


@dataclass(frozen=True, slots=True)
class LastDrill:
    """A summary of the last drill of a deployment; safe to show. ``made`` is None if there was none. ``window`` is the
    recoverable window as it was last computed; None if it never was."""

    made: datetime | None = None
    proved: bool = False
    title: str = ""
    rto_seconds: float | None = None
    backup_bytes: int = 0
    window: LastWindow | None = None

    def is_old(self, now: datetime) -> bool:
        """Whether another drill is due: the last one was more than a week ago."""
        return self.made is not None and now - self.made > _EVERY


async def follow_last(gateway: Gateway) -> AsyncIterator[LastDrill]:
    """Yields the last drill of the deployment, now and then every half minute."""
    name = await identify(gateway, await gateway.command("hello"))
    while True:
        yield await _last_by_name(name)
        await asyncio.sleep(_LOOK_SECONDS)


async def last_of(gateway: Gateway) -> LastDrill:
    """The last drill of the deployment."""
    return await _last_by_name(await identify(gateway, await gateway.command("hello")))


async def _last_by_name(name: str) -> LastDrill:
    report = await asyncio.to_thread(last, name) if name else None
    found = LastDrill() if report is None else _in_short(report)
    return replace(found, window=await asyncio.to_thread(last_window, name) if name else None)


def _in_short(report: Report) -> LastDrill:
    name = f"{report.id}: " if report.id else ""
    return LastDrill(
        parse_time(report.made),
        report.level in _PROVED,
        clean(f"{name}{report.title}", 300),
        report.rto_seconds,
        report.backup_bytes,
    )


def restore_seconds(size: int, drill: LastDrill | None) -> tuple[float, float] | None:
    """How long a restore of a backup of ``size`` bytes may take, from its plan to a verified spare: the band between
    what the speed of mongorestore says and what the last drill took, for its backup and in proportion for this one.
    None if no drill has succeeded: the speed alone says nothing about this machine."""
    if drill is None or not drill.proved or drill.rto_seconds is None:
        return None
    share = size / drill.backup_bytes if drill.backup_bytes else 1.0
    found = [size / BYTES_A_SECOND, drill.rto_seconds, drill.rto_seconds * max(share, 1.0)]
    return min(found), max(found)


def store(report: Report) -> None:
    """Store a report as the last one of its deployment. Raises InputError if that fails."""
    if not report.deployment:
        return
    for proved in (False, True) if report.level in _PROVED else (False,):
        keep(_name(report.deployment, proved), to_json(report))


def with_random(report: Report) -> Report:
    """The report of a drill at a random point, counted and with the count of all of its deployment so far.

    One that could not be run says nothing and is not counted. Raises InputError if the count cannot be stored.
    """
    if report.seed is None or not report.deployment:
        return report
    name = f"{report.deployment}-random.json"
    try:
        rows = [(str(made), bool(good)) for made, good in json.loads(kept(name))]
    except (OSError, ValueError, TypeError):
        rows = []
    if report.level != UNKNOWN:
        rows = [*rows, (report.made, report.level in _PROVED)][-_RANDOM_KEPT:]
        keep(name, json.dumps(rows))
    if not rows:
        return report
    identical = sum(good for _, good in rows)
    return replace(report, random_drills=len(rows), random_identical=identical, random_since=rows[0][0])


def _name(deployment: str, proved: bool) -> str:
    return f"{deployment}-{'proved' if proved else 'last'}.json"
