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
from tallyglass.paths import absolute_path
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.way import FROM_BACKUP, Way
from tallyglass_tui.restore.draft import Draft, First, Planned, Room

if TYPE_CHECKING:
    from tallyglass.restore.proof.progress import Progress
    from tallyglass.restore.proof.request import RestoreRequest

_ROOM_SECONDS = 5.0
"""Seconds between two readings of how far the oplog goes back; it is shown in minutes."""


async def plan_once(
    gateway: Gateway, draft: Draft, source_uri: str, progress: Progress | None = None
) -> AsyncIterator[Planned | First]:
    """One plan, and a quick answer before one from a backup. It may take minutes: it reads the window of the oplog, and
    the images or the backup.

    An incident is undone in the requested way, otherwise in the best possible one.
    """
    from tallyglass.restore.plan.make import make_plan
    from tallyglass.restore.plan.precheck import QuickAnswer
    from tallyglass.restore.plan.ways import Decision, possible_ways

    ways: tuple[Way, ...] = ()
    way = FROM_BACKUP
    planned: Plan | None = None
    try:
        request = _request(draft, source_uri)
        if draft.way and draft.incident is not None:
            ways = await possible_ways(gateway, draft.incident, request)
        async for found in make_plan(gateway, request, progress):
            if isinstance(found, Decision):
                if planned is not None and draft.way:
                    break  # what blocks the way that was asked for is the answer
                ways, way = found.ways or ways, found.way
                if found.needs_backup:
                    others = [one.line for one in ways if one.possible is False]
                    title = " ".join(["This needs a backup, and none is named.", *others])
                    yield Planned(None, title, ways=ways, way=FROM_BACKUP, needs_backup=True)
                    return
            elif isinstance(found, QuickAnswer):
                yield First(found.line, found.save)
            elif isinstance(found, Plan):
                planned = found
        yield Planned(planned, ways=ways, way=way)
    except TallyglassError as error:
        yield Planned(None, error.title, error.advice, ways)


def _request(draft: Draft, source_uri: str) -> RestoreRequest:
    from tallyglass.restore.proof.request import RestoreRequest
    from tallyglass.restore.undo.evidence import read_evidence

    return RestoreRequest(
        absolute_path(draft.backup) if draft.backup else None,
        source_uri,
        before=None if draft.incident else draft.limit,
        incident=draft.incident,
        spare=draft.spare,
        oplog=absolute_path(draft.oplog) if draft.oplog else None,
        evidence=read_evidence(draft.statement, draft.reported),
        way=draft.way,
    )


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
