"""Find out everything that one plan needs to know, in the order in which one answer allows the next question."""

from __future__ import annotations

import asyncio
import functools
import shutil
from dataclasses import dataclass
from pathlib import Path

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import InputError, PrivilegeError, TallyglassError
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.backup import ARCHIVE, DATA_FILES, read_backup
from tallyglass.restore.backup.data_files import read_running
from tallyglass.restore.facts import Facts
from tallyglass.restore.impact.loss import LossCount
from tallyglass.restore.impact.reissue import Found as CounterFacts
from tallyglass.restore.impact.reissue import find_reissues
from tallyglass.restore.raw.entries import Entry
from tallyglass.restore.replay import coverage
from tallyglass.restore.replay.base import read_base
from tallyglass.restore.replay.capped import removals
from tallyglass.restore.replay.replay import Replay
from tallyglass.restore.spare import own_spare
from tallyglass.restore.spare.spare import feature_version, look_at_spare
from tallyglass.restore.tools import toolset
from tallyglass.restore.tools.tool_uri import tool_uri
from tallyglass.restore.tools.toolset import version_pair

NO_UPSERT_SINCE = (8, 1)
"""From this version on an update of a missing document stops the replay."""


@dataclass(frozen=True, slots=True)
class RestoreRequest:
    """What is wanted: back to just before ``before``, or before ``incident``; one of the two is given.

    ``backup`` is a mongodump directory, an archive or data files. ``source_uri`` is the operator's own URI; it may hold
    a password, which goes no further. ``spare`` is host:port, ``spare_uri`` its whole URI where it needs more than
    that. ``backup_start`` is an oplog position known to lie before the backup began. ``work_dir`` is where the
    commands keep their files, a new folder in the home directory if empty. ``own_spare_port`` is where they start a
    spare of their own if none is named.
    """

    backup: Path
    source_uri: str
    before: Ts | None = None
    incident: Incident | None = None
    spare: str = ""
    spare_uri: str = ""
    backup_start: Ts | None = None
    work_dir: str = ""
    own_spare_port: int = own_spare.PORT

    @property
    def limit(self) -> Ts:
        """The exclusive limit. Raises InputError where neither a moment nor an incident is given."""
        if self.before is not None:
            return self.before
        if self.incident is not None:
            return self.incident.limit
        raise InputError("A restore needs a point.", "Name the moment to return to, or an incident.")


async def gather(gateway: Gateway, request: RestoreRequest) -> Facts:
    """All facts for the plan. Raises the errors of the gateway, and InputError for what cannot be read."""
    limit = request.limit
    deployment = await look_at(gateway)
    contents = await asyncio.to_thread(read_backup, request.backup, request.backup_start)
    facts = Facts(limit, deployment, contents, request.incident)
    facts.tools = await asyncio.to_thread(toolset.installed)
    if deployment.sharded or not deployment.has_oplog:
        return facts
    _name_servers(facts, request)
    await _look_at_spare(facts, request)
    try:
        await _look_at_oplog(gateway, facts)
    except PrivilegeError as error:
        facts.unreadable = error.title
        return facts
    await _look_at_window(gateway, facts, request)
    facts.free_bytes = _free_bytes(request.work_dir)
    return facts


def _name_servers(facts: Facts, request: RestoreRequest) -> None:
    try:
        facts.source_uri = tool_uri(request.source_uri, facts.deployment.set_name)
        if request.spare or request.spare_uri:
            facts.spare_uri = tool_uri(request.spare_uri or f"mongodb://{request.spare}/")
        elif facts.contents.backup.form != DATA_FILES:
            facts.own_spare = request.own_spare_port
            facts.spare_uri = tool_uri(own_spare.uri(request.own_spare_port))
    except InputError as error:
        facts.uri_trouble = str(error)


async def _look_at_oplog(gateway: Gateway, facts: Facts) -> None:
    facts.fcv = await feature_version(gateway)
    facts.majority = await coverage.majority(gateway)
    known = facts.contents.backup.start
    if known is None or facts.limit.t == 0:
        return
    exact = facts.contents.backup.source == "sidecar" or facts.contents.backup.form == DATA_FILES
    back_off = 0 if exact else coverage.BACK_OFF_SECONDS
    facts.start = await coverage.choose_start(gateway, known, back_off)
    facts.at_limit = await coverage.edge(gateway, 1, {"ts": {"$gte": coverage.stamp(facts.limit)}})


async def _look_at_window(gateway: Gateway, facts: Facts, request: RestoreRequest) -> None:
    start, spare = facts.start, facts.spare
    if start is None or start.ts is None or start.newest is None or facts.limit <= start.ts:
        return
    if facts.contents.backup.form == DATA_FILES and (spare is None or spare.trouble):
        return  # only the spare that runs on them says what they hold
    archive = facts.contents.backup.path if facts.contents.backup.form == ARCHIVE else None
    replay = await _replay(gateway, facts, frozenset())
    facts.base = await asyncio.to_thread(read_base, facts.contents.collections, replay.catalog, archive)
    without = replay.groups_to_leave_out() | (frozenset() if replay.upserts else frozenset(facts.base.dead_updates))
    if without and not replay.unexplained():
        replay = await _replay(gateway, facts, without)
        facts.base = await asyncio.to_thread(read_base, facts.contents.collections, replay.catalog, archive)
    replay.finish()
    facts.replay = replay
    facts.open_at_limit = replay.open_transactions()
    facts.cut_off_in_group = _same_group(facts.before_limit, facts.at_limit)
    facts.loss = await _count_loss(gateway, facts)
    first = facts.start.ts if facts.start else None
    if first is None:
        return
    facts.counters = await _look_at_counters(gateway, facts, request, first, archive)
    facts.start = await coverage.still_covered(gateway, facts.start or start)
    if start.oldest is not None:
        facts.hours_left = await coverage.hours_left(gateway, first, start.oldest, start.newest)


async def _look_at_counters(
    gateway: Gateway, facts: Facts, request: RestoreRequest, first: Ts, archive: Path | None
) -> CounterFacts:
    assert facts.loss is not None
    look = functools.partial(find_reissues, gateway, facts.contents.collections, facts.loss.changed, first, facts.limit)
    if facts.contents.backup.form != DATA_FILES:
        return await look(archive=archive)
    copy = open_gateway(_spare_uri(request))
    try:
        return await look(copy=copy)
    finally:
        await copy.close()


async def _replay(gateway: Gateway, facts: Facts, without: frozenset[Ts]) -> Replay:
    """Go through the window, from further back where a transaction in it begins before."""
    version = version_pair(facts.deployment.version)
    running = facts.contents.backup.form == DATA_FILES
    assert facts.start is not None
    assert facts.start.ts is not None
    while True:
        at = facts.start.ts
        replay = Replay(
            facts.contents.collections,
            upserts=version is None or version < NO_UPSERT_SINCE,
            removals=removals(version),
            running=running,
            without=without,
            begun_after=facts.contents.backup.start,
        )
        async for entry in coverage.window(gateway, at, facts.limit):
            replay.feed(entry)
            facts.before_limit = entry if entry.op != "n" else facts.before_limit
        if not replay.unlinked:
            return replay
        beginnings = [await coverage.chain_beginning(gateway, link) for link in replay.unlinked.values()]
        earliest = min((ts for ts in beginnings if ts is not None), default=None)
        if None in beginnings or earliest is None or earliest >= at:
            facts.lost_beginning = min(replay.unlinked.values())
            return replay
        facts.start, facts.moved_for_transaction = coverage.moved(facts.start, earliest), True


async def _count_loss(gateway: Gateway, facts: Facts) -> LossCount:
    loss = LossCount(facts.incident)
    for chain in facts.open_at_limit:
        if chain.entries[0].txn is not None:
            loss.begin(chain.entries[0].txn, chain.entries)
    async for entry in coverage.window(gateway, facts.limit):
        loss.feed(entry)
    return loss


def _same_group(before: Entry | None, at_limit: Entry | None) -> bool:
    """Whether the entry before the point belongs to the same act as the one at it."""
    if before is None or at_limit is None:
        return False
    if at_limit.command == "dropDatabase":
        return before.command == "drop" and before.db == at_limit.db
    same = (before.op, before.ns) == (at_limit.op, at_limit.ns) and at_limit.op in ("u", "d")
    return same and not before.linked and not at_limit.linked and at_limit.ts.t - before.ts.t <= 1


async def _look_at_spare(facts: Facts, request: RestoreRequest) -> None:
    if facts.own_spare or facts.spare_uri is None:
        return
    address = request.spare or facts.spare_uri.hosts[0]
    uri = _spare_uri(request)
    try:
        gateway = open_gateway(uri, serverSelectionTimeoutMS=5_000)
    except TallyglassError as error:
        facts.uri_trouble = str(error)
        return
    try:
        facts.spare = await look_at_spare(gateway, address)
        if facts.contents.backup.form == DATA_FILES and not facts.spare.trouble:
            facts.contents = await read_running(gateway, facts.contents)
    finally:
        await gateway.close()
    if facts.spare.set_name:
        facts.spare_uri = tool_uri(uri, facts.spare.set_name)


def _spare_uri(request: RestoreRequest) -> str:
    return request.spare_uri or f"mongodb://{request.spare}/?directConnection=true"


def _free_bytes(work_dir: str) -> int | None:
    folder = Path(work_dir) if work_dir else Path.home()
    while not folder.exists():
        folder = folder.parent
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
