"""Follow the oplog, read its past, and look at its window: for a screen or the command line."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tallyglass.deployment.cluster import require_oplog
from tallyglass.errors import ConnectError, PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway, closing
from tallyglass.oplog.entry.batch import last_ts
from tallyglass.oplog.filter.compile import CompiledFilter
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read import notes
from tallyglass.oplog.read.collect import Collector
from tallyglass.oplog.read.past import BACKLOG, Incomplete, end_of_past, safe_end, wanted_past
from tallyglass.oplog.read.stream import Arrived, Gap, Interruption, Opened, OplogStream, RolledBack
from tallyglass.oplog.read.window import WindowReader, window
from tallyglass.oplog.snapshot import OplogRow, OplogUpdate, OplogWindow, RowKind
from tallyglass.tasks import cancel_all

ROOM = 500
"""Rows of one update at most."""

FLUSH_SECONDS = 0.25
"""How often rows are handed out: as often as a screen draws."""

QUIET_SECONDS = 1.0
"""An update comes at least so often, so that rates fall and ages grow on a quiet server."""

_ATTEND_SECONDS, _WINDOW_SECONDS = 0.5, 10.0
"""How often the member is asked for the majority point, which a row shows, and for the window, which changes slowly."""

_RATE_SECONDS = 5.0
"""The span over which entries a second are counted."""

_MUTE_SECONDS = 4.0
"""A member that has not answered for so long, some awaits of a second, is said not to answer."""

__all__ = ["QUIET_SECONDS", "ROOM", "follow", "read", "window"]

EVERYTHING = OplogFilter()


async def follow(
    gateway: Gateway,
    wanted: OplogFilter = EVERYTHING,
    *,
    backlog: int = BACKLOG,
    flush_seconds: float = FLUSH_SECONDS,
    prefer_secondary: bool = True,
    room: int = ROOM,
) -> AsyncIterator[OplogUpdate]:
    """Follow the oplog from ``wanted.since``, or from now with the ``backlog`` newest wanted entries before it.

    Reads on whether or not the caller keeps up: each update holds the newest ``room`` wanted rows at most (the first
    one ``backlog`` more) and counts the rest. Goes on by itself through failover and lost cursors; whatever is missing
    or was rolled back is shown among the rows. Raises DeploymentError where there is no oplog, PrivilegeError where it
    may not be read.
    """
    tail = _Tail(gateway, wanted, prefer_secondary, room, backlog)
    tasks = [asyncio.ensure_future(tail.run()), asyncio.ensure_future(tail.attend())]
    try:
        while True:
            await tail.changed(tasks[0])
            yield tail.update()
            await asyncio.sleep(flush_seconds)
    finally:
        await cancel_all(tasks)


@dataclass(slots=True)
class _Tail:
    """One reader: its stream, what it collected, and what is known about the member that it reads."""

    gateway: Gateway
    wanted: OplogFilter
    prefer_secondary: bool
    room: int
    backlog: int
    collector: Collector = field(init=False)
    stream: OplogStream | None = None
    trouble: str = ""
    since: datetime | None = None
    majority: Ts | None = None
    newest: Ts | None = None
    window: OplogWindow | None = None
    connected_to: str = ""
    gaps: int = 0
    rollbacks: int = 0
    older_unread: bool = False
    reached: Ts | None = None
    """Where the reading of a past from ``wanted.since`` goes on."""
    answered: float = field(default_factory=time.monotonic)
    arrived: float = field(default_factory=time.monotonic)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _recent: deque[tuple[float, int]] = field(default_factory=deque)
    _began: float | None = None

    def __post_init__(self) -> None:
        self.wanted.check()
        self.collector = Collector(self.wanted, self.room, self.backlog)

    async def changed(self, reader: asyncio.Future[None]) -> None:
        """Wait for a change, at most a second. Raises the error that ended the reader."""
        waiter: asyncio.Future[bool] = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((waiter, reader), timeout=QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiter.cancel()
        self._changed.clear()
        if reader.done():
            reader.result()

    async def run(self) -> None:
        """Read for ever. Raises DeploymentError and PrivilegeError."""
        while True:
            try:
                self.stream = await self._begin()
                break
            except (ReadError, ConnectError) as error:
                self._set_trouble(str(error), None)
                await asyncio.sleep(1.0)
        async with closing(self.stream.events()) as events:
            async for event in events:
                self._handle(event)

    async def _begin(self) -> OplogStream:
        await require_oplog(self.gateway)
        anchor = await safe_end(self.gateway)
        self._began = time.monotonic()
        await self._catch_up(anchor.ts.next)
        return OplogStream(
            self.gateway, anchor.ts, self.wanted.on_server(), anchor=anchor, prefer_secondary=self.prefer_secondary,
            wants=CompiledFilter(self.wanted).wants,
        )  # fmt: skip

    async def _catch_up(self, end: Ts) -> None:
        """What is wanted of the past before ``end``, from where an attempt that failed has come to."""
        since = self.reached or self.wanted.since
        wanted = replace(self.wanted, since=since)
        async for found in wanted_past(self.gateway, wanted, end, self.backlog, backlog=True):
            if isinstance(found, Gap):
                self._handle(replace(found, requested=found.requested and self.reached is None))
                self.reached = found.first
            elif isinstance(found, Incomplete):
                self.older_unread = True
            else:
                for batch in found:
                    self.collector.add(batch)
                if since is not None:
                    self.reached = last_ts(found[-1]).next
                    self._changed.set()  # a long past is shown as it comes, the newest entries with the first new ones
        self.older_unread |= since is None and self.collector.matched >= self.backlog

    def _handle(self, event: Arrived | Opened | Gap | RolledBack | Interruption) -> None:
        now = time.monotonic()
        match event:
            case Arrived(batch):
                self.answered = now
                if not batch:
                    return
                self._set_trouble("", None)
                before = self.collector.seen
                self.collector.add(batch)
                self.arrived = now
                self._recent.append((now, self.collector.seen - before))
            case Opened(member):
                self.answered = now
                self.connected_to = member
                self._set_trouble("", None)
            case Gap():
                self.gaps += not event.requested
                self.collector.break_here()
                self.collector.insert(notes.gap(event))
            case RolledBack():
                self.rollbacks += 1
                self.collector.break_here()
                self.collector.insert(notes.rolled_back(event))
            case Interruption(text, since):
                self._set_trouble(text, since)
        self._changed.set()

    def _set_trouble(self, text: str, since: datetime | None) -> None:
        if text:
            self.since = since or self.since or datetime.now(UTC)
        else:
            self.since = None
        if text != self.trouble:
            self.trouble = text
            self._changed.set()

    async def attend(self) -> None:
        """Poll the member that is read for the majority point, and less often for the window."""
        looked, reader = -_WINDOW_SECONDS, WindowReader(self.gateway)
        while True:
            try:
                if self.stream is not None and self.stream.member:
                    self.newest, self.majority = await self.stream.read_ends()
                if time.monotonic() - looked >= _WINDOW_SECONDS:
                    looked = time.monotonic()
                    self.window = await reader.read()
            except (ReadError, ConnectError, PrivilegeError):
                self.majority = self.newest = None
            await asyncio.sleep(_ATTEND_SECONDS)

    def update(self) -> OplogUpdate:
        """The current state; each row is handed out once."""
        rows, dropped = self.collector.rows(self.majority)
        collector, rates = self.collector, self.collector.rates
        now = int(rates.newest + time.monotonic() - self.arrived)
        trouble, since = self._trouble_now()
        return OplogUpdate(
            at=datetime.now(UTC), rows=rows, seen=collector.seen, matched=collector.matched, dropped=dropped,
            last=collector.last, window=self.window, rates=rates.over(60, now), per_second=self._per_second(),
            connected_to=self.connected_to, trouble=trouble, since=since, majority=self.majority,
            rates_5m=rates.over(300, now), rates_all=rates.overall(),
            partial=bool(self.wanted.on_server()), behind_seconds=self._behind(), gaps=self.gaps,
            rollbacks=self.rollbacks, answered_seconds=time.monotonic() - self.answered, older_unread=self.older_unread,
        )  # fmt: skip

    def _trouble_now(self) -> tuple[str, datetime | None]:
        mute = time.monotonic() - self.answered
        if self.trouble or self.stream is None or mute < _MUTE_SECONDS:
            return self.trouble, self.since
        since = datetime.fromtimestamp(time.time() - mute, UTC)
        return f"{self.connected_to or 'The server'} has not answered for {mute:.0f} s.", since

    def _per_second(self) -> float:
        """Entries a second over the last five seconds of this clock, or since what is new began."""
        now = time.monotonic()
        while self._recent and now - self._recent[0][0] > _RATE_SECONDS:
            self._recent.popleft()
        watched = now - self._began if self._began is not None else 0.0
        return sum(count for _, count in self._recent) / min(max(watched, 1.0), _RATE_SECONDS)

    def _behind(self) -> float | None:
        if self.newest is None or self.collector.last is None:
            return None
        return float(max(self.newest.t - self.collector.last.t, 0))


async def read(gateway: Gateway, wanted: OplogFilter = EVERYTHING, *, limit: int = 0) -> AsyncIterator[OplogRow]:
    """The wanted entries of the past, oldest first, then the end.

    ``limit`` keeps the first so many from ``wanted.since``, or the newest so many where that is not given; 0 keeps
    all. A gap row stands where the oplog rolled past the reader. Reads on after a failover. Errors: those of the
    gateway, DeploymentError where there is no oplog.
    """
    wanted.check()
    await require_oplog(gateway)
    given, collector = 0, Collector(wanted, sys.maxsize)
    end = await end_of_past(gateway, wanted)
    async with closing(wanted_past(gateway, wanted, end, limit or None)) as items:
        async for item in items:
            for row in _rows(collector, item):
                yield row
                given += row.kind is RowKind.ENTRY
                if given == limit > 0:
                    return


def _rows(collector: Collector, item: tuple[bytes, ...] | Gap | Incomplete) -> tuple[OplogRow, ...]:
    if isinstance(item, Gap):
        return (notes.gap(item),)
    if isinstance(item, Incomplete):
        return (notes.search_cut_short(item),)
    for batch in item:
        collector.add(batch)
    return collector.rows(None)[0]
