"""The tails of several shards as one: their updates merged, their rows in order of cluster time.

A shard that sends nothing delays the rows of the others for a moment only; one that cannot be read is named in
``trouble`` and does not stop them.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from itertools import takewhile

from tallyglass.errors import TallyglassError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import Gateway, closing
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read.fan_in import FanIn
from tallyglass.oplog.read.merge import HOLD_SECONDS
from tallyglass.oplog.read.past import BACKLOG
from tallyglass.oplog.read.tail import EVERYTHING, FLUSH_SECONDS, QUIET_SECONDS, ROOM, follow, read
from tallyglass.oplog.snapshot import NamespaceRate, OplogRow, OplogUpdate, OplogWindow, RowKind
from tallyglass.tasks import answers_by_name


@dataclass(slots=True)
class _Shard:
    """One shard's newest update, and its rows that were not handed out yet."""

    name: str
    update: OplogUpdate | None = None
    waiting: list[tuple[float, OplogRow]] = field(default_factory=list)
    dropped: int = 0

    def update_with(self, update: OplogUpdate) -> None:
        now = time.monotonic()
        self.update = update
        self.dropped += update.dropped
        self.waiting += [(now, replace(row, shard=self.name)) for row in update.rows]


async def follow_shards(
    shards: Mapping[str, Gateway],
    wanted: OplogFilter = EVERYTHING,
    *,
    backlog: int = BACKLOG,
    room: int = ROOM,
) -> AsyncIterator[OplogUpdate]:
    """Follow several shards, by name, as :func:`~tallyglass.oplog.read.tail.follow` does one.

    Sums and rates are those of all shards, ``behind_seconds`` that of the slowest; ``window`` is the shortest. A row of
    a shard that sent nothing for :data:`HOLD_SECONDS` comes late, after newer ones of others. Raises the first
    error where no shard is left.
    """
    parts = {name: _Shard(name) for name in shards}
    tails = {name: follow(gateway, wanted, backlog=backlog, room=room) for name, gateway in shards.items()}
    async with FanIn(tails) as arrivals:
        while True:
            await arrivals.wait(QUIET_SECONDS)
            for name, update in arrivals.all_arrived():
                parts[name].update_with(update)
            arrivals.raise_if_none_is_left()
            if any(part.update for part in parts.values()):
                yield _merged([*parts.values()], arrivals.errors)
            await asyncio.sleep(FLUSH_SECONDS)


def _merged(shards: list[_Shard], errors: Mapping[str, TallyglassError]) -> OplogUpdate:
    """The updates of all shards as one; its rows are handed out once."""
    rows = _ready(shards, errors)
    dropped = sum(shard.dropped for shard in shards)
    for shard in shards:
        shard.dropped = 0
    known = {shard.name: shard.update for shard in shards if shard.update is not None}
    updates = [*known.values()]
    now = {name: update for name, update in known.items() if name not in errors}
    current = [*now.values()]  # what the last update of a lost shard says of that moment is not so any more
    lost = [f"{shard.name} is not read: {errors[shard.name]}" for shard in shards if shard.name in errors]
    lost += [f"{name}: {update.trouble}" for name, update in now.items() if update.trouble]
    majorities = [update.majority for update in current]
    return OplogUpdate(
        at=datetime.now(UTC),
        rows=rows,
        seen=sum(update.seen for update in updates),
        matched=sum(update.matched for update in updates),
        dropped=dropped,
        last=max((update.last for update in updates if update.last), default=None),
        window=_shortest(update.window for update in current),
        rates=_summed(update.rates for update in current),
        per_second=sum(update.per_second for update in current),
        connected_to=", ".join(f"{name} {update.connected_to}".rstrip() for name, update in now.items()),
        trouble=" ".join(lost),
        since=min((update.since for update in current if update.since), default=None),
        majority=None if None in majorities else min((one for one in majorities if one is not None), default=None),
        rates_5m=_summed(update.rates_5m for update in current),
        rates_all=_summed(update.rates_all for update in updates),
        partial=any(update.partial for update in updates),
        behind_seconds=max((u.behind_seconds for u in current if u.behind_seconds is not None), default=None),
        gaps=sum(update.gaps for update in updates),
        rollbacks=sum(update.rollbacks for update in updates),
        answered_seconds=min((update.answered_seconds for update in current), default=0.0),
        older_unread=any(update.older_unread for update in updates),
    )


def _ready(shards: list[_Shard], errors: Mapping[str, TallyglassError]) -> tuple[OplogRow, ...]:
    """The rows that no other shard can come before any more, and those that have waited long enough, in order."""
    horizon = min((_reached(shard) for shard in shards if shard.name not in errors), default=ZERO)
    old = time.monotonic() - HOLD_SECONDS
    ready: list[list[OplogRow]] = []
    for shard in shards:
        # Within a shard the order stays, whatever the rows are: a rollback names an earlier moment.
        rows = [row for _, row in takewhile(lambda one: one[1].ts <= horizon or one[0] <= old, shard.waiting)]
        ready.append(rows)
        del shard.waiting[: len(rows)]
    return tuple(heapq.merge(*ready, key=lambda row: row.ts))


def _reached(shard: _Shard) -> Ts:
    """Up to where the rows of a shard are all here."""
    return (shard.update.last or ZERO) if shard.update else ZERO


def _shortest(windows: Iterable[OplogWindow | None]) -> OplogWindow | None:
    known = [window for window in windows if window is not None]
    return min(known, key=lambda window: window.hours if window.hours is not None else float("inf"), default=None)


def _summed(groups: Iterable[tuple[NamespaceRate, ...]]) -> tuple[NamespaceRate, ...]:
    parts = [one.name for one in fields(NamespaceRate) if one.name != "ns"]
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(parts))
    for group in groups:
        for rate in group:
            for place, part in enumerate(parts):
                sums[rate.ns][place] += getattr(rate, part)
    found = [NamespaceRate(ns, *values) for ns, values in sums.items()]
    return tuple(sorted(found, key=lambda rate: -(rate.inserts + rate.updates + rate.deletes + rate.commands)))


async def read_shards(
    shards: Mapping[str, Gateway], wanted: OplogFilter = EVERYTHING, *, limit: int = 0
) -> list[OplogRow]:
    """Read the past of several shards in order of cluster time, as :func:`~tallyglass.oplog.read.tail.read` does one.

    A note row names a shard that cannot be read. Raises the first error where none can.
    """

    async def rows_of(name: str) -> list[OplogRow]:
        async with closing(read(shards[name], wanted, limit=limit)) as rows:
            return [replace(row, shard=name) async for row in rows]

    found, errors = await answers_by_name({name: rows_of(name) for name in shards})
    rows = list(heapq.merge(*found.values(), key=lambda row: row.ts))
    places = [place for place, row in enumerate(rows) if row.kind is RowKind.ENTRY]
    if limit and len(places) > limit:
        if wanted.since is not None:
            del rows[places[limit - 1] + 1 :]
        else:  # that the search for older entries of a shard was cut short stays
            rows = [row for place, row in enumerate(rows) if row.kind is not RowKind.ENTRY or place >= places[-limit]]
    at = rows[0].ts if rows else wanted.since or ZERO
    notes = [
        OplogRow(RowKind.NOTE, at, None, None, "", "", f"{name} is not read: {error}", shard=name)
        for name, error in errors.items()
    ]
    return notes + rows
