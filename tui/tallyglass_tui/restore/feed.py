"""What the restore page follows apart from the incidents: one plan, and its head-room.

Core is imported within the functions: they run in the background thread, and the driver comes with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

from tallyglass.errors import TallyglassError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass_tui.restore.draft import Draft, Planned, Room

if TYPE_CHECKING:
    from tallyglass.restore.drill.past_drills import LastDrill
    from tallyglass.restore.planner import RestoreRequest

_ROOM_SECONDS = 5.0


async def plan_once(gateway: Gateway, draft: Draft, source_uri: str) -> AsyncIterator[Planned]:
    """One plan. It may take minutes: it reads the window of the oplog and the backup."""
    from tallyglass.restore.planner import plan_restore

    request = _request(draft, source_uri)
    try:
        yield Planned(await plan_restore(gateway, request))
    except TallyglassError as error:
        yield Planned(None, error.title, error.advice)


def _request(draft: Draft, source_uri: str) -> RestoreRequest:
    from tallyglass.restore.planner import RestoreRequest

    return RestoreRequest(
        Path(draft.backup).expanduser().absolute(),
        source_uri,
        before=None if draft.incident else draft.limit,
        incident=draft.incident,
        spare=draft.spare,
    )


async def watch_drill(gateway: Gateway) -> AsyncIterator[LastDrill]:
    """The last drill of the deployment, again and again."""
    from tallyglass.restore.drill.past_drills import follow_last

    async for drill in follow_last(gateway):
        yield drill


async def watch_room(gateway: Gateway, start: Ts) -> AsyncIterator[Room]:
    """The head-room of a start, again and again."""
    from tallyglass.restore.raw.oplog import edge
    from tallyglass.restore.replay.coverage import hours_left

    while True:
        oldest, newest = await edge(gateway, 1), await edge(gateway, -1)
        if oldest is None or newest is None:
            yield Room(None)
        elif oldest.ts > start:
            yield Room(0.0, gone=True)
        else:
            yield Room(await hours_left(gateway, start, oldest.ts, newest.ts))
        await asyncio.sleep(_ROOM_SECONDS)
