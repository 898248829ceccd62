"""The third stage: the backup is read, and compared with what the oplog says of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.backup.backup import ARCHIVE, LEFT_OUT
from tallyglass.restore.proof.after_point import read_later
from tallyglass.restore.proof.base import BaseFacts, read_base
from tallyglass.restore.proof.cover import cover, slice_of
from tallyglass.restore.proof.expectation import expect, refuse_half_made_series
from tallyglass.restore.proof.findings import Covered, Located, Replayed
from tallyglass.restore.proof.progress import Progress
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.timeline.earlier_writes import read_earlier
from tallyglass.restore.timeline.identity import LiveCollections, list_live, stale
from tallyglass.restore.timeline.timeline import Timeline


async def replayed(gateway: Gateway, located: Located, start: Start, progress: Progress | None) -> Replayed:
    """Read the window, what lies around it, and the backup; window and backup once more where entries have to be left
    out of the replay."""
    contents = located.inputs.contents
    # Before the end of the oplog is read: a collection that is dropped meanwhile is listed, or its drop is seen.
    live = await list_live(gateway, {ns.partition(".")[0] for ns in contents.collections} - LEFT_OUT)
    await gateway.catch_up()  # the primary lists, and what is read may come from a member that lags
    covered = await cover(gateway, located, start, frozenset(), progress)
    refuse_half_made_series(covered.replay, covered.inputs.limit)
    loss, later = await read_later(gateway, covered, progress)
    uuids = {item.uuid_bytes for item in contents.collections.values()}
    earlier = await read_earlier(gateway, covered.start.ts, uuids)

    async def read(replay: Replay) -> BaseFacts:
        archive = contents.backup.path if contents.backup.form == ARCHIVE else None
        return await asyncio.to_thread(
            read_base, contents.collections, replay.catalog, archive, earlier=earlier, later=later, live=live.uuids
        )

    base = await read(covered.replay)
    replay = covered.replay
    without = replay.groups_to_leave_out() | frozenset(base.dead_updates)
    if without and not replay.unexplained():
        covered = await cover(gateway, located, covered.start, without, progress)
        base = await read(covered.replay)
    covered.replay.finish()
    covered = _compare_live(covered, live, later.timeline)
    return Replayed(covered, base, expect(covered.replay.catalog, base), slice_of(covered), loss, later)


def _compare_live(covered: Covered, live: LiveCollections, timeline: Timeline) -> Covered:
    """The collections of the backup that are neither live nor were dropped since; unknown where entries are missing."""
    stored, saved = covered.inputs.contents.collections, covered.inputs.saved
    if saved is not None and saved.hole is not None:
        return replace(covered, unlisted=frozenset(ns.partition(".")[0] for ns in stored))
    return replace(covered, stale=stale(stored, live, timeline), unlisted=live.unknown)
