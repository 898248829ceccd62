"""Whole entries for another program: no entry is dropped, and a slow reader slows this down.

The oplog itself is the buffer: the next batch is asked for when the last one was taken. A reader that falls so far
behind that the oplog rolls past it gets a :class:`~tallyglass.oplog.read.stream.Gap`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass

from tallyglass.errors import ConnectError, PrivilegeError, ReadError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import Gateway, closing
from tallyglass.oplog.entry.batch import last_ts
from tallyglass.oplog.filter.compile import EntrySelector
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read.entries import end_of_oplog, op_time
from tallyglass.oplog.read.past import SEARCH_SECONDS, newest, past, safe_end
from tallyglass.oplog.read.stream import Arrived, Gap, Interruption, Opened, OplogStream, RolledBack

LAG_SECONDS = 10.0
"""A reader that is so far behind is warned, and again when the lag has doubled or ended."""

_ASK_SECONDS = 1.0
"""How often the end of the oplog is asked for at most."""


@dataclass(frozen=True, slots=True)
class Entries:
    """Wanted entries in order, each as raw BSON. ``last`` is the ``ts`` of the last entry looked at for them."""

    raws: tuple[bytes, ...]
    last: Ts


@dataclass(frozen=True, slots=True)
class Lag:
    """The reader is ``behind_seconds`` behind: it has had what lies up to ``after``, the member has ``newest``."""

    behind_seconds: int
    after: Ts
    newest: Ts


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Older entries may match: the search for them was stopped."""

    seconds: float


ExportItem = Entries | Gap | RolledBack | Lag | Interruption | Opened | Incomplete


async def follow_entries(
    gateway: Gateway, wanted: OplogFilter, *, prefer_secondary: bool = True, backlog: int = 500
) -> AsyncIterator[ExportItem]:
    """Matching entries from ``wanted.since``, else the ``backlog`` newest and then new ones, without end.

    Raises PrivilegeError; ReadError and ConnectError only before the stream has begun.
    """
    wanted.check()
    selector, anchor = EntrySelector(wanted), await safe_end(gateway)
    lag = _LagMonitor(gateway)
    last = wanted.since or anchor.ts
    if wanted.since is not None:
        async with closing(past(gateway, wanted.since, anchor.ts.next, wanted.on_server())) as batches:
            async for batch in batches:
                if isinstance(batch, Gap):
                    yield batch
                    continue
                last = last_ts(batch)
                yield Entries(tuple(selector.select(batch)), last)
                if found := await lag.look(last, ""):
                    yield found
    else:
        found_before, _ = await newest(gateway, wanted, anchor.ts.next, backlog)
        yield Entries(tuple(raw for raw in found_before if selector.select(raw)), anchor.ts)
    stream = OplogStream(gateway, anchor.ts, wanted.on_server(), anchor=anchor, prefer_secondary=prefer_secondary)
    async with closing(stream.events()) as events:
        async for event in events:
            if not isinstance(event, Arrived):
                yield event
            elif event.batch:
                last = last_ts(event.batch)
                yield Entries(tuple(selector.select(event.batch)), last)
            if found := await lag.look(last, stream.member, stream):
                yield found


async def read_entries(gateway: Gateway, wanted: OplogFilter, *, limit: int = 0) -> AsyncIterator[ExportItem]:
    """Matching entries of the past, oldest first.

    ``limit`` keeps the first so many from ``wanted.since``, or the newest so many where that is not given; 0 keeps
    all. Errors: those of the gateway.
    """
    wanted.check()
    end = (await safe_end(gateway)).ts
    until = min(wanted.until, end.next) if wanted.until else end.next
    selector, given = EntrySelector(wanted), 0
    if limit and wanted.since is None:
        found, whole = await newest(gateway, wanted, until, limit, seconds=SEARCH_SECONDS)
        if not whole:
            yield Incomplete(SEARCH_SECONDS)
        yield Entries(tuple(raw for raw in found if selector.select(raw))[-limit:], end)
        return
    async with closing(past(gateway, wanted.since or ZERO, until, wanted.on_server())) as batches:
        async for batch in batches:
            if isinstance(batch, Gap):
                yield batch
                continue
            raws = selector.select(batch)
            raws = raws[: limit - given] if limit else raws
            given += len(raws)
            yield Entries(tuple(raws), last_ts(batch))
            if given >= limit > 0:
                return


class _LagMonitor:
    """Reads the end of the oplog now and then, while the consumer is slow."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._asked = time.monotonic()
        self._reported = 0

    async def look(self, last: Ts, member: str, stream: OplogStream | None = None) -> Lag | None:
        """The lag when it should be reported: when it begins, has doubled, or is over."""
        if time.monotonic() - self._asked < _ASK_SECONDS:
            return None
        newest: Ts | None = None
        with suppress(ConnectError, PrivilegeError, ReadError):
            if stream is not None:
                hello = await self._gateway.command("hello", member=member)
                newest = op_time(hello.get("lastWrite", {}).get("opTime"))
                majority = op_time(hello.get("lastWrite", {}).get("majorityOpTime"))
                if majority is not None:
                    stream.commit(majority)
            else:
                newest = await end_of_oplog(self._gateway, -1)
        self._asked = time.monotonic()
        if newest is None:
            return None
        behind = max(newest.t - last.t, 0)
        if behind >= max(LAG_SECONDS, 2 * self._reported) or (self._reported and behind < LAG_SECONDS / 2):
            self._reported = behind if behind >= LAG_SECONDS else 0
            return Lag(behind, last, newest)
        return None
