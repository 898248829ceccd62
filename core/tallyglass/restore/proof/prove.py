"""Read everything that a plan rests on, stage by stage; each stage needs the one before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.read.entries import stamp, walk_oplog
from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES, Contents
from tallyglass.restore.model.proof import Slice
from tallyglass.restore.proof.assess import assess
from tallyglass.restore.proof.base import BaseFacts, OplogEvidence, read_base
from tallyglass.restore.proof.capped import removals
from tallyglass.restore.proof.counter_inserts import CounterInserts
from tallyglass.restore.proof.expectation import expect
from tallyglass.restore.proof.findings import Assessed, Covered, Findings, Inputs, Located, Replayed
from tallyglass.restore.proof.later_writes import LaterWrites
from tallyglass.restore.proof.locate import locate
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.saved_oplog.joined import JoinedOplog
from tallyglass.restore.timeline import coverage
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.timeline.earlier_writes import read_earlier
from tallyglass.restore.timeline.identity import LiveCollections, list_live, stale
from tallyglass.restore.timeline.timeline import VIEWS, Timeline
from tallyglass.restore.tools.toolset import version_pair

NO_UPSERT_SINCE = (8, 1)
"""From this version on an update of a missing document stops the replay."""


@dataclass(frozen=True, slots=True)
class Step:
    """How far the oplog was read: ``entries`` of this pass, up to ``at``, which lies between ``start`` and ``end``."""

    entries: int
    at: Ts
    start: Ts
    end: Ts

    @property
    def share(self) -> float:
        """The part of the time between start and end that lies behind, 0 to 1."""
        return min(max((self.at.t - self.start.t) / max(self.end.t - self.start.t, 1), 0.0), 1.0)


Progress = Callable[[Step], None]
"""Called after each batch."""


def _steps(progress: Progress | None, start: Start) -> Callable[[int, Ts], None] | None:
    if progress is None:
        return None
    return lambda entries, at: progress(Step(entries, at, start.ts, start.newest))


async def gather(gateway: Gateway, request: RestoreRequest, progress: Progress | None = None) -> Findings:
    """Run the stages as far as the facts allow. Raises the errors of the gateway, and InputError for what cannot
    be read."""
    found, oplog = await locate(gateway, request)
    if found.located is None:
        return found
    proven = replace(found, reached=await _prove(oplog, request, found.located, progress))
    if isinstance(oplog, JoinedOplog):
        await oplog.prove()
    return proven


async def _prove(
    gateway: Gateway, request: RestoreRequest, located: Located, progress: Progress | None
) -> Located | Covered | Replayed | Assessed:
    inputs, start = located.inputs, located.start
    backup, spare = inputs.contents.backup, inputs.spare
    if not isinstance(start, Start) or inputs.limit <= start.ts:
        return located
    if backup.form == DATA_FILES and (spare is None or spare.trouble):
        return located  # only the spare that runs on them can list what they hold
    replayed = await _replay(gateway, located, start, progress)
    copy = open_gateway(request.full_spare_uri) if backup.form == DATA_FILES else None
    try:
        return await assess(gateway, replayed, copy)
    finally:
        if copy is not None:
            await copy.close()


async def _replay(gateway: Gateway, located: Located, start: Start, progress: Progress | None) -> Replayed:
    """Read the window, what lies around it, and the backup; window and backup once more where entries have to be left
    out of the replay."""
    contents = located.inputs.contents
    live = await list_live(gateway, contents.collections)
    covered = await _cover(gateway, located, start, frozenset(), progress)
    loss, later = await _read_later(gateway, covered, progress)
    uuids = {item.uuid_bytes for item in contents.collections.values()}
    evidence = OplogEvidence(await read_earlier(gateway, covered.start.ts, uuids), later)
    base = await _read_base(contents, covered.replay, evidence)
    replay = covered.replay
    without = replay.groups_to_leave_out() | frozenset(base.dead_updates)
    if without and not replay.unexplained():
        covered = await _cover(gateway, located, covered.start, without, progress)
        base = await _read_base(contents, covered.replay, evidence)
    covered.replay.finish()
    covered = _compare_live(covered, live, later.timeline)
    return Replayed(covered, base, expect(covered.replay.catalog, base), _slice(covered), loss, later)


def _compare_live(covered: Covered, live: LiveCollections, timeline: Timeline) -> Covered:
    """The collections of the backup that are neither live nor were dropped since; unknown where entries are missing."""
    stored, saved = covered.inputs.contents.collections, covered.inputs.saved
    if saved is not None and saved.hole is not None:
        return replace(covered, unlisted=frozenset(ns.partition(".")[0] for ns in stored))
    return replace(covered, stale=stale(stored, live, timeline), unlisted=live.unknown)


async def _read_later(gateway: Gateway, covered: Covered, progress: Progress | None) -> tuple[LossCount, LaterWrites]:
    """Go through the oplog from the point on."""
    replay, inputs = covered.replay, covered.inputs
    loss, later = LossCount(inputs.incident), LaterWrites(replay.timeline, inputs.limit, replay.catalog.ids)
    for parts in covered.open_at_limit:
        if parts[0].txn is not None:
            loss.begin(parts[0].txn, parts)
            later.begin(parts[0].txn, parts)
    query = {"ts": {"$gte": stamp(inputs.limit)}}
    sink = _AfterPoint(loss, later, replay.counter_inserts)
    await walk_oplog(gateway, query, sink, _steps(progress, covered.start))
    return loss, later


@dataclass(frozen=True, slots=True)
class _AfterPoint:
    """Takes the entries from the point on."""

    loss: LossCount
    later: LaterWrites
    counter_inserts: CounterInserts

    def write(
        self, op: str, ns: str, ui: bytes, key: bytes, place: int, term: int, size: int, batch: bytes, o: int
    ) -> bool:
        if ns.endswith(VIEWS) or not self.loss.write(op, ns, key, place):
            return False
        if op == "i":
            self.counter_inserts.write(ns, batch, o)
        self.later.write(op, ns, ui, key)
        return True

    def feed(self, entry: Entry) -> None:
        self.counter_inserts.feed(entry)
        self.loss.feed(entry)
        self.later.feed(entry)


async def _read_base(contents: Contents, replay: Replay, evidence: OplogEvidence) -> BaseFacts:
    archive = contents.backup.path if contents.backup.form == ARCHIVE else None
    return await asyncio.to_thread(read_base, contents.collections, replay.catalog, archive, evidence=evidence)


async def _cover(
    gateway: Gateway, located: Located, start: Start, without: frozenset[Ts], progress: Progress | None
) -> Covered:
    """Go through the window, from further back where a transaction in it begins before."""
    inputs = located.inputs
    version = version_pair(inputs.deployment.version)
    while True:
        replay = Replay(
            inputs.contents.collections,
            upserts=version is None or version < NO_UPSERT_SINCE,
            removals=removals(version),
            running=inputs.contents.backup.form == DATA_FILES,
            without=without,
            begun_after=inputs.contents.backup.start,
        )
        bounds = {"$gte": stamp(start.ts), "$lt": stamp(inputs.limit)}
        walked = await walk_oplog(gateway, {"ts": bounds}, replay, _steps(progress, start))
        beginnings = [await coverage.chain_beginning(gateway, link) for link in replay.unlinked.values()]
        earliest = min((ts for ts in beginnings if ts is not None), default=None)
        torn = None in beginnings or (earliest is not None and earliest >= start.ts)
        if torn or earliest is None:
            return Covered(
                located,
                start,
                replay,
                walked.last,
                lost_beginning=min(replay.unlinked.values()) if torn else None,
                open_at_limit=tuple(replay.open_transactions()),
                hours_left=await hours_left(gateway, inputs, start),
            )
        start = replace(start, ts=earliest)


async def hours_left(gateway: Gateway, inputs: Inputs, start: Start) -> float | None:
    """How long the live oplog still holds what the replay needs of it; None where that is nothing, or not known."""
    if inputs.saved is None:
        return await coverage.hours_left(gateway, start.ts)
    if not isinstance(gateway, JoinedOplog) or inputs.saved.holds(inputs.limit):
        return None
    return await gateway.hours_left()


def _slice(covered: Covered) -> Slice | None:
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
