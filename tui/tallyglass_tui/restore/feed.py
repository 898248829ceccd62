"""The feeds of the restore page other than the incidents: one plan, and its headroom.

Core is imported within the functions: they run in the background thread, and the driver comes with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tallyglass.errors import TallyglassError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.snapshot import Incident
from tallyglass.paths import absolute_path
from tallyglass.restore.model.plan import Level, Plan
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES, Way
from tallyglass_tui.restore.draft import Draft, First, Planned, Room

if TYPE_CHECKING:
    from tallyglass.restore.drill.past_drills import LastDrill
    from tallyglass.restore.proof.prove import Progress, RestoreRequest

_ROOM_SECONDS = 5.0


async def plan_once(
    gateway: Gateway, draft: Draft, source_uri: str, progress: Progress | None = None
) -> AsyncIterator[Planned | First]:
    """One plan, and a quick answer before one from a backup. It may take minutes: it reads the window of the oplog, and
    the images or the backup.

    An incident is undone in the requested way, otherwise in the best possible one.
    """
    ways: tuple[Way, ...] = ()
    try:
        if draft.incident is None:
            yield await _first(gateway, draft, source_uri)
            yield Planned(await _from_backup(gateway, draft, source_uri, progress), way=FROM_BACKUP)
            return
        ways = await _ways(gateway, draft, draft.incident, source_uri)
        best = ways[0].name if ways[0].possible else FROM_BACKUP
        way = draft.way or best
        if way == FROM_IMAGES:
            plan = await _from_images(gateway, draft, draft.incident, source_uri)
            if draft.way or not draft.backup or plan.level is not Level.BLOCK:
                yield Planned(plan, ways=ways, way=way)
                return
        if not draft.backup:
            yield Planned(None, ways[-1].line, ways=ways, way=FROM_BACKUP, needs_backup=True)
            return
        yield await _first(gateway, draft, source_uri)
        yield Planned(await _from_backup(gateway, draft, source_uri, progress), ways=ways, way=FROM_BACKUP)
    except TallyglassError as error:
        yield Planned(None, error.title, error.advice, ways)


async def _ways(gateway: Gateway, draft: Draft, incident: Incident, source_uri: str) -> tuple[Way, ...]:
    from tallyglass.restore.plan.ways import possible_ways

    return await possible_ways(gateway, incident, _request(draft, source_uri) if draft.backup else None)


async def _from_images(gateway: Gateway, draft: Draft, incident: Incident, source_uri: str) -> Plan:
    from tallyglass.restore.plan.from_images import UndoRequest, plan_undo

    backup = _request(draft, source_uri).backup if draft.backup else None
    return await plan_undo(gateway, UndoRequest(incident, source_uri, backup=backup))


async def _first(gateway: Gateway, draft: Draft, source_uri: str) -> First:
    from tallyglass.restore.plan.precheck import quick_answer

    found = await quick_answer(gateway, _request(draft, source_uri))
    return First(found.line, found.save)


async def _from_backup(gateway: Gateway, draft: Draft, source_uri: str, progress: Progress | None) -> Plan:
    from tallyglass.restore.plan.from_backup import plan_restore

    return await plan_restore(gateway, _request(draft, source_uri), progress)


def _request(draft: Draft, source_uri: str) -> RestoreRequest:
    from tallyglass.restore.proof.prove import RestoreRequest

    return RestoreRequest(
        absolute_path(draft.backup),
        source_uri,
        before=None if draft.incident else draft.limit,
        incident=draft.incident,
        spare=draft.spare,
        oplog=absolute_path(draft.oplog) if draft.oplog else None,
    )


async def watch_drill(gateway: Gateway) -> AsyncIterator[LastDrill]:
    """The last drill of the deployment, repeatedly."""
    from tallyglass.restore.drill.past_drills import follow_last

    async for drill in follow_last(gateway):
        yield drill


async def watch_room(gateway: Gateway, start: Ts) -> AsyncIterator[Room]:
    """The headroom of a start, repeatedly."""
    from tallyglass.oplog.read.window import WindowReader

    reader = WindowReader(gateway)
    while True:
        window = await reader.read()
        if window.first is None:
            yield Room(None)
        elif window.first > start:
            yield Room(0.0, gone=True)
        else:
            yield Room(window.hours_left(start))
        await asyncio.sleep(_ROOM_SECONDS)
