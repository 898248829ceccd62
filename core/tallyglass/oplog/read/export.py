"""Whole entries for another program: no entry is dropped, and a slow reader slows this down.

The oplog itself is the buffer: the next batch is asked for when the last one was taken. A reader that falls so far
behind that the oplog rolls past it gets a :class:`~tallyglass.oplog.read.stream.Gap`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tallyglass.errors import ConnectError, PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway, closing
from tallyglass.oplog.entry.batch import last_ts
from tallyglass.oplog.filter.compile import CompiledFilter, EntrySelector
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read.entries import end_of_oplog
from tallyglass.oplog.read.past import BACKLOG, Incomplete, end_of_past, safe_end, wanted_past
from tallyglass.oplog.read.stream import Arrived, Gap, Interruption, Opened, OplogStream, RolledBack

LAG_SECONDS = 10.0
"""A reader that is so far behind is warned, and again when the lag has doubled or ended."""

_ASK_SECONDS = 1.0
"""How often the end of the oplog is asked for at most."""


Entries = tuple[bytes, ...]
"""Wanted entries in order, each as raw BSON."""


@dataclass(frozen=True, slots=True)
class Lag:
    """The reader is ``behind_seconds`` behind: it has had what lies up to ``after``, the member has ``newest``."""

    behind_seconds: int
    after: Ts
    newest: Ts


ExportItem = Entries | Gap | RolledBack | Lag | Interruption | Opened | Incomplete


async def follow_entries(gateway: Gateway, wanted: OplogFilter) -> AsyncIterator[ExportItem]:
    """Matching entries from ``wanted.since``, else the :data:`BACKLOG` newest and then new ones, without end.

    Raises PrivilegeError; ReadError and ConnectError only before the stream has begun.
    """
    wanted.check()
    selector, anchor = EntrySelector(wanted), await safe_end(gateway)
    lag, last = _LagMonitor(gateway), wanted.since or anchor.ts
    before = wanted_past(gateway, wanted, anchor.ts.next, BACKLOG, backlog=True)
    async with closing(before) as items:
        async for item in items:
            if isinstance(item, Gap):
                yield item
            elif isinstance(item, tuple):
                last = last_ts(item[-1]) if item else last
                yield selected(selector, item)
                if wanted.since is not None and (found := await lag.news(last)):
                    yield found
    last = max(last, anchor.ts)  # what is wanted may be older than all that was read
    wants = CompiledFilter(wanted).wants
    stream = OplogStream(gateway, anchor.ts, wanted.on_server(), anchor=anchor, wants=wants)
    async with closing(stream.events()) as events:
        async for event in events:
            if not isinstance(event, Arrived):
                yield event
            elif event.batch:
                last = last_ts(event.batch)
                yield selected(selector, (event.batch,))
            if found := await lag.news(last, stream):
                yield found


async def read_entries(gateway: Gateway, wanted: OplogFilter, *, limit: int = 0) -> AsyncIterator[ExportItem]:
    """Matching entries of the past, oldest first, from ``wanted.since``. Where that is not given, ``limit`` keeps the
    newest so many, of which a transaction of several entries is one; 0 keeps all. Errors: those of the gateway."""
    wanted.check()
    selector, end = EntrySelector(wanted), await end_of_past(gateway, wanted)
    async with closing(wanted_past(gateway, wanted, end, limit or None)) as items:
        async for item in items:
            yield selected(selector, item) if isinstance(item, tuple) else item


def selected(selector: EntrySelector, batches: Sequence[bytes]) -> Entries:
    """The wanted entries of some batches."""
    return tuple(raw for batch in batches for raw in selector.select(batch))


class _LagMonitor:
    """Reads the end of the oplog now and then, while the consumer is slow."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._asked = time.monotonic()
        self._reported = 0

    async def news(self, last: Ts, stream: OplogStream | None = None) -> Lag | None:
        """The lag when it should be reported: when it begins, has doubled, or is over."""
        if time.monotonic() - self._asked < _ASK_SECONDS:
            return None
        newest: Ts | None = None
        with suppress(ConnectError, PrivilegeError, ReadError):
            newest = (await stream.read_ends())[0] if stream else await end_of_oplog(self._gateway, -1)
        self._asked = time.monotonic()
        if newest is None:
            return None
        behind = max(newest.t - last.t, 0)
        if behind >= max(LAG_SECONDS, 2 * self._reported) or (self._reported and behind < LAG_SECONDS / 2):
            self._reported = behind if behind >= LAG_SECONDS else 0
            return Lag(behind, last, newest)
        return None
