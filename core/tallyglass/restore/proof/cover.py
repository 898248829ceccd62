"""The second stage: every entry of the window is read, from the start to the point."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.entries import stamp, walk_oplog
from tallyglass.restore.backup.backup import DATA_FILES
from tallyglass.restore.model.proof import Slice
from tallyglass.restore.proof.findings import Covered, Located
from tallyglass.restore.proof.inputs import Inputs
from tallyglass.restore.proof.progress import Progress, reporter
from tallyglass.restore.proof.replay import Removals, Replay
from tallyglass.restore.saved_oplog.joined import JoinedOplog
from tallyglass.restore.timeline import coverage
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.tools.toolset import version_pair

NO_UPSERT_SINCE = (8, 1)
"""From this version on an update of a missing document stops the replay."""


async def cover(
    gateway: Gateway, located: Located, start: Start, without: frozenset[Ts], progress: Progress | None
) -> Covered:
    """Go through the window, from further back where a transaction in it begins before."""
    inputs = located.inputs
    version = version_pair(inputs.deployment.version)
    while True:
        replay = Replay(
            inputs.contents.collections,
            upserts=version is None or version < NO_UPSERT_SINCE,
            removals=Removals.of(version),
            running=inputs.contents.backup.form == DATA_FILES,
            without=without,
            begun_after=inputs.contents.backup.start,
        )
        bounds = {"$gte": stamp(start.ts), "$lt": stamp(inputs.limit)}
        walked = await walk_oplog(gateway, {"ts": bounds}, replay, reporter(progress, start))
        beginnings = [await coverage.chain_beginning(gateway, link) for link in replay.unlinked.values()]
        earliest = min((ts for ts in beginnings if ts is not None), default=None)
        torn = None in beginnings or (earliest is not None and earliest >= start.ts)
        if torn or earliest is None:
            return Covered(
                located,
                start,
                replay,
                walked.last,
                is_cut=start.ts < inputs.limit and walked.first != start.ts,
                lost_beginning=min(replay.unlinked.values()) if torn else None,
                open_at_limit=tuple(replay.open_transactions()),
                hours_left=await hours_left(gateway, inputs, start),
            )
        start = replace(start, ts=earliest)


async def hours_left(gateway: Gateway, inputs: Inputs, start: Start) -> float | None:
    """How long the live oplog still holds what the replay needs of it; None where that is nothing, or not known."""
    if isinstance(gateway, JoinedOplog):
        return await gateway.hours_left(inputs.limit)
    return await coverage.hours_left(gateway, start.ts)


def slice_of(covered: Covered) -> Slice | None:
    """What the replay file will hold: the window, and the entry at the limit, which proves that it reaches it."""
    replay, at = covered.replay, covered.located.at_limit
    found = None
    if replay.first is not None and replay.last is not None:
        found = Slice(replay.entries, replay.first, replay.last, replay.bytes)
    if at is None or at.ts != covered.inputs.limit or covered.located.limit_is_left_out:
        return found
    if found is None:
        return Slice(1, at.ts, at.ts, at.size)
    return Slice(found.entries + 1, found.first, at.ts, found.bytes + at.size)
