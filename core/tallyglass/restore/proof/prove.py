"""Read everything that a plan rests on, stage by stage; each stage needs the one before."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import InputError, PrivilegeError, TallyglassError
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.read.entries import edge, stamp, walk_oplog
from tallyglass.oplog.snapshot import Incident
from tallyglass.paths import home
from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES, Contents
from tallyglass.restore.backup.data_files import read_running
from tallyglass.restore.backup.read import read_backup
from tallyglass.restore.model.plan import Choice, Slice
from tallyglass.restore.proof.assess import assess
from tallyglass.restore.proof.base import BaseFacts, OplogEvidence, read_base
from tallyglass.restore.proof.capped import removals
from tallyglass.restore.proof.expectation import expect
from tallyglass.restore.proof.findings import Assessed, Covered, Findings, Inputs, Located, Replayed, Saved, is_broken
from tallyglass.restore.proof.later_writes import LaterWrites
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.saved_oplog.joined import JoinedOplog, join
from tallyglass.restore.saved_oplog.saved_oplog import read_saved
from tallyglass.restore.spare import own_spare
from tallyglass.restore.spare.spare import feature_version, look_at_spare
from tallyglass.restore.timeline import coverage
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.timeline.earlier_writes import read_earlier
from tallyglass.restore.timeline.identity import LiveCollections, foreign_anchor, list_live, stale
from tallyglass.restore.timeline.timeline import VIEWS, Timeline
from tallyglass.restore.tools import toolset
from tallyglass.restore.tools.tool_uri import tool_uri
from tallyglass.restore.tools.toolset import version_pair
from tallyglass.restore.undo.evidence import KnownStatement

NO_UPSERT_SINCE = (8, 1)
"""From this version on an update of a missing document stops the replay."""


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """What is wanted: back to just before ``before``, or before ``incident``; one of the two is given.

    ``backup`` is a mongodump directory, an archive or data files, or a folder of backups; None to undo an incident from
    pre-images alone. ``way`` is the way that was asked for, empty for the best possible one. ``source_uri`` is the
    operator's own URI; it may hold a password, which is not passed on. ``spare`` is host:port, ``spare_uri`` its whole
    URI where it needs more than that. ``backup_start`` is an oplog position known to lie before the backup began.
    ``work_dir`` is where the commands keep their files, a new folder in the home directory if empty.
    ``own_spare_port`` is where they start a spare of their own if none is named. ``choice`` asks for one namespace
    under another name, and for nothing else. ``oplog`` is a saved oplog, a file or a folder of slices, that is read
    before the live one. ``evidence`` is what a person knows of the incident.
    """

    backup: Path | None
    source_uri: str
    before: Ts | None = None
    incident: Incident | None = None
    spare: str = ""
    spare_uri: str = ""
    backup_start: Ts | None = None
    work_dir: str = ""
    own_spare_port: int = own_spare.PORT
    choice: Choice | None = None
    oplog: Path | None = None
    evidence: KnownStatement | None = None
    way: str = ""

    @property
    def limit(self) -> Ts:
        """The exclusive limit. Raises InputError where neither a moment nor an incident is given."""
        if self.before is not None:
            return self.before
        if self.incident is not None:
            return self.incident.limit
        raise InputError("A restore needs a point.", "Name the moment to return to, or an incident.")

    @property
    def only_from_backup(self) -> bool:
        """Whether it asks for what only a restore from a backup gives."""
        return bool(self.incident is None or self.choice or self.spare or self.spare_uri or self.oplog)

    @property
    def full_spare_uri(self) -> str:
        """The URI of the spare that was named."""
        return self.spare_uri or f"mongodb://{self.spare}/?directConnection=true"


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


async def locate(gateway: Gateway, request: RestoreRequest) -> tuple[Findings, Gateway]:
    """The first two stages, the request and the ends of the oplog, and the gateway that the rest is read through.

    Takes seconds on any oplog of a server; of a saved one it visits every entry. Errors as for :func:`gather`.
    """
    inputs = await _inputs(gateway, request)
    if inputs.deployment.sharded or not inputs.deployment.has_oplog:
        return Findings(inputs), gateway
    try:
        paths = tuple(path for path in (request.oplog, inputs.contents.oplog) if path is not None)
        if paths:
            gateway, inputs = await _with_saved(gateway, inputs, paths)
            if is_broken(inputs):
                return Findings(inputs), gateway
        return Findings(inputs, await _locate(gateway, inputs)), gateway
    except PrivilegeError as error:
        return Findings(inputs, unreadable=error.title), gateway


async def _with_saved(gateway: Gateway, inputs: Inputs, paths: tuple[Path, ...]) -> tuple[Gateway, Inputs]:
    """The saved oplog and the live one as one, from before the backup on."""
    oplog = await asyncio.to_thread(read_saved, paths, inputs.contents.backup.start)
    joined, found = await join(gateway, oplog)
    return joined, replace(inputs, saved=Saved(paths, oplog, found))


async def _inputs(gateway: Gateway, request: RestoreRequest) -> Inputs:
    limit = request.limit
    if request.backup is None:
        raise InputError("No backup is named.", "Name a mongodump directory, an archive, or data files.")
    deployment = await look_at(gateway)
    contents = await asyncio.to_thread(read_backup, request.backup, request.backup_start)
    inputs = Inputs(
        limit,
        deployment,
        contents,
        request.incident,
        tools=await asyncio.to_thread(toolset.installed),
        free_bytes=_free_bytes(request.work_dir),
        choice=request.choice,
        evidence=request.evidence,
    )
    if deployment.sharded or not deployment.has_oplog:
        return inputs
    return await _look_at_spare(_with_uris(inputs, request), request)


def _with_uris(inputs: Inputs, request: RestoreRequest) -> Inputs:
    try:
        source = tool_uri(request.source_uri, inputs.deployment.set_name, inputs.deployment.reached_at)
    except InputError as error:
        return replace(inputs, uri_trouble=str(error))
    inputs = replace(inputs, source_uri=source)
    try:
        if request.spare or request.spare_uri:
            return replace(inputs, spare_uri=tool_uri(request.spare_uri or f"mongodb://{request.spare}/"))
        if inputs.contents.backup.form != DATA_FILES:
            port = request.own_spare_port
            return replace(inputs, spare_uri=tool_uri(own_spare.uri(port)), own_spare=port)
    except InputError as error:
        return replace(inputs, uri_trouble=str(error))
    return inputs


async def _look_at_spare(inputs: Inputs, request: RestoreRequest) -> Inputs:
    if inputs.own_spare or inputs.spare_uri is None:
        return inputs
    address = request.spare or inputs.spare_uri.hosts[0]
    uri = request.full_spare_uri
    contents = inputs.contents
    try:
        gateway = open_gateway(uri, serverSelectionTimeoutMS=5_000)
    except TallyglassError as error:
        return replace(inputs, uri_trouble=str(error))
    try:
        spare = await look_at_spare(gateway, address)
        if contents.backup.form == DATA_FILES and not spare.trouble:
            contents = await read_running(gateway, contents)
    finally:
        await gateway.close()
    spare_uri = tool_uri(uri, spare.set_name) if spare.set_name else inputs.spare_uri
    return replace(inputs, spare=spare, contents=contents, spare_uri=spare_uri)


async def _locate(gateway: Gateway, inputs: Inputs) -> Located:
    located = Located(inputs, await feature_version(gateway), await coverage.majority(gateway))
    backup = inputs.contents.backup
    if backup.start is None or inputs.limit.t == 0:
        return located
    exact = backup.exact or backup.form == DATA_FILES
    start = await coverage.choose_start(gateway, backup.start, 0 if exact else coverage.BACK_OFF_SECONDS)
    at_limit = await edge(gateway, 1, {"ts": {"$gte": stamp(inputs.limit)}})
    foreign = ""
    if isinstance(start, Start):
        foreign = await foreign_anchor(gateway, inputs.contents.anchors, start.oldest)
    return replace(located, start=start, at_limit=at_limit, foreign=foreign)


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
    loss, later = LossCount(covered.inputs.incident), LaterWrites(covered.replay.timeline, covered.inputs.limit)
    for parts in covered.open_at_limit:
        if parts[0].txn is not None:
            loss.begin(parts[0].txn, parts)
            later.begin(parts[0].txn, parts)
    query = {"ts": {"$gte": stamp(covered.inputs.limit)}}
    await walk_oplog(gateway, query, _AfterPoint(loss, later), _steps(progress, covered.start))
    return loss, later


@dataclass(frozen=True, slots=True)
class _AfterPoint:
    """Takes the entries from the point on."""

    loss: LossCount
    later: LaterWrites

    def write(
        self, op: str, ns: str, ui: bytes, key: bytes, place: int, term: int, size: int, batch: bytes, o: int
    ) -> bool:
        if ns.endswith(VIEWS) or not self.loss.write(op, ns, key, place):
            return False
        self.later.write(op, ns, ui, key)
        return True

    def feed(self, entry: Entry) -> None:
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


def _free_bytes(work_dir: str) -> int | None:
    folder = Path(work_dir) if work_dir else home()
    while not folder.exists():
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
