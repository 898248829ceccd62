"""Read the oplog's past: its newest entries, or a span of it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bson import Timestamp

from tallyglass.errors import ReadError, RefusedError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.driver_errors import closed_oplog
from tallyglass.mongo.gateway import OPLOG, Document, Gateway, closing
from tallyglass.oplog.entry.batch import entries, first_ts, last_ts
from tallyglass.oplog.entry.entry import Txn, read_entry
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.filter.compile import CompiledFilter
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read.entries import end_of_oplog
from tallyglass.oplog.read.stream import EntryPosition, Gap, op_position

BACKLOG = 500
"""Older entries with which a reader of new ones begins: some screens."""

_BACKLOG_SECONDS, _BACKLOG_BYTES = 3.0, 32_000_000
"""How long a tail looks for older entries to begin with, and how many bytes of them it holds, within one answer of the
server: entries have up to 16 MB."""

_SEARCH_SECONDS = 30.0
"""How long a command that ends looks for older entries."""

ATTEMPTS = 5
"""Failed reads in a row, over some 5 s, after which a read of the past gives up."""

_TIME_IS_UP = 50
"""The code of a server that has looked for as long as it was allowed to."""

_PAST_MS = 60_000
"""Milliseconds that the server may take for one slice."""

_SLICE_BYTES = 12_000_000
"""The most bytes of a slice that are held, unless one second has more."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Older entries may match: how the search for them ``ended``, as "stopped after 3 s"."""

    ended: str

    @property
    def what(self) -> str:
        """That in a sentence without an end."""
        return f"older entries may match: the search for them {self.ended}"


async def safe_end(gateway: Gateway, among: Document | None = None) -> EntryPosition:
    """The newest entry before which nothing can appear any more: the majority point. ``among`` is a query that the
    service demands; the point is then known even if it finds nothing.

    The newest entry by ``$natural: -1`` is not: on a busy primary an earlier one may not be committed yet.
    Raises PrivilegeError where the oplog shows no entry at all.
    """
    if among is None and await end_of_oplog(gateway, -1) is None:
        raise closed_oplog()
    hello = await gateway.command("hello")
    majority = op_position(hello.get("lastWrite", {}).get("majorityOpTime"))
    if majority is None or majority.ts == ZERO:
        raise ReadError("This member does not know the majority commit point yet.", "The read is retried.")
    return majority


async def end_of_past(gateway: Gateway, wanted: OplogFilter) -> Ts:
    """Before which entry a read of the past ends: ``wanted.until``, or the majority point."""
    end = (await safe_end(gateway)).ts.next
    return min(wanted.until, end) if wanted.until else end


async def newest(
    gateway: Gateway, wanted: OplogFilter, until: Ts, count: int, *, backlog: bool = False
) -> tuple[list[bytes], Incomplete | None]:
    """The ``count`` newest wanted entries before ``until``, oldest first, and why there may be others: None where the
    search reached the beginning or found them all. It stops after some time, for a ``backlog`` also after some bytes. A
    transaction counts once, however many entries it has, and comes whole."""
    if count <= 0:
        return [], None
    seconds, most_bytes = (_BACKLOG_SECONDS, _BACKLOG_BYTES) if backlog else (_SEARCH_SECONDS, sys.maxsize)
    query: dict[str, Any] = {"ts": {"$lt": Timestamp(*until)}, **wanted.on_server()}
    if not wanted.noops:
        query = {"$and": [query, {"op": {"$ne": "n"}}]}
    at_once = 1_000 if wanted.narrow else min(count, 1_000)
    found, ends = _Newest(wanted, count), time.monotonic() + seconds
    ended = ""
    try:
        batches = gateway.find_raw(
            OPLOG, query, sort=[("$natural", -1)], batch_size=at_once, time_ms=int(seconds * 1_000)
        )
        async with closing(batches) as held:
            async for batch in held:
                if not all(map(found.add, entries(batch))):
                    break
                if time.monotonic() > ends:
                    ended = f"stopped after {seconds:.0f} s"
                elif found.size > most_bytes:
                    ended = f"stopped after {found.size / 1e6:.0f} MB"
                if ended:
                    break
    except ReadError as error:
        in_time = isinstance(error, RefusedError) and error.code == _TIME_IS_UP
        ended = f"stopped after {seconds:.0f} s" if in_time else f"failed: {error.title.rstrip('.')}"
    return found.entries[::-1], Incomplete(ended) if ended else None


class _Newest:
    """Keeps so many wanted entries of those that it is given, newest first: of a transaction, which counts once, all
    entries."""

    def __init__(self, wanted: OplogFilter, count: int) -> None:
        self.entries: list[bytes] = []
        self.size = 0
        """Bytes of the entries that are kept."""
        self._matcher = CompiledFilter(wanted)
        self._left = count
        self._wanted, self._cut = set[Txn](), set[Txn]()
        """Wanted transactions, and those of them of which earlier entries are still to come."""

    def add(self, raw: bytes) -> bool:
        """Keep an entry if it is wanted. Returns whether others before it are."""
        txn, begins = None, True
        try:
            entry = read_entry(raw)
            wants = self._matcher.wants_entry(entry)
            if entry.in_transaction:
                txn, begins = Txn(entry.session, entry.txn_number or 0), entry.previous is None
        except Malformed:
            wants = True
        known = txn in self._wanted
        if known or (self._left > 0 and (wants or txn)):
            self.entries.append(raw)
            self.size += len(raw)
        if wants and not known and self._left > 0:
            self._left -= 1
            known = txn is not None
        if known and txn:
            self._wanted.add(txn)
            (self._cut.discard if begins else self._cut.add)(txn)
        return self._left > 0 or bool(self._cut)


async def wanted_past(
    gateway: Gateway, wanted: OplogFilter, end: Ts, count: int | None = None, *, backlog: bool = False
) -> AsyncIterator[tuple[bytes, ...] | Gap | Incomplete]:
    """Batches with all that is wanted of the entries before ``end``, oldest first: from ``wanted.since``, or where that
    is not given the ``count`` newest of them, as :func:`newest` finds them; None for all.

    Errors: as for :func:`past`.
    """
    if count is not None and wanted.since is None:
        found, incomplete = await newest(gateway, wanted, end, count, backlog=backlog)
        if incomplete is not None:
            yield incomplete
        yield tuple(found)
        return
    async with closing(past(gateway, wanted.since or ZERO, end, wanted.on_server())) as batches:
        async for batch in batches:
            yield batch if isinstance(batch, Gap) else (batch,)


class SliceLength:
    """How many seconds of oplog to ask for at once, so that an answer takes about a second, whatever the filter.

    A server that looks for what is rare answers only when it has looked through everything it was asked for; a long
    wait looks like a dead link.
    """

    def __init__(self) -> None:
        self.seconds = 30
        self.failures = 0
        """Attempts that failed since something was read."""

    async def failed(self, error: ReadError) -> None:
        """Wait for another attempt, at half a slice. Raises the error of the last of :data:`ATTEMPTS` in a row."""
        self.failures += 1
        if self.failures >= ATTEMPTS:
            raise error
        self.slower()
        await asyncio.sleep(0.5 * self.failures)

    def took(self, seconds: float, size: int = 0) -> None:
        """Adjust to how long the last slice took, and to its size in bytes."""
        self.failures = 0
        if seconds < 0.5 and size < _SLICE_BYTES // 2:
            self.seconds = min(self.seconds * 2, 86_400)
        elif seconds > 2.0:
            self.slower()

    def filled(self, seconds: int) -> None:
        """Adjust to a slice of which so many seconds alone had the most bytes that are held."""
        self.seconds = max(seconds // 2, 1)

    def slower(self) -> None:
        """Halve the slice after one that was too large."""
        self.seconds = max(self.seconds // 2, 1)


async def past(gateway: Gateway, since: Ts, until: Ts, match: Document | None = None) -> AsyncIterator[bytes | Gap]:
    """Batches of entries from ``since``, or from the oldest for 0:0, up to before ``until``, oldest first, and every
    place where some may be missing. Resumed where the link is lost. Errors: those of the gateway, after five failed
    attempts."""
    pace = SliceLength()
    begin = since if since > ZERO else await end_of_oplog(gateway, 1) or ZERO
    while begin < until:
        end = min(Ts(begin.t + pace.seconds, 0), until)
        began, member, first = time.monotonic(), list[str](), True
        query = {"ts": {"$gte": Timestamp(*begin), "$lt": Timestamp(*end)}, **(match or {})}
        try:
            batches = gateway.find_raw(OPLOG, query, time_ms=_PAST_MS, on_open=member.append)
            async with closing(batches) as held:
                async for batch in held:
                    if batch:
                        if first and (gap := await _gap(gateway, member, since, begin, first_ts(batch))):
                            yield gap
                        begin, first, pace.failures = max(begin, last_ts(batch).next), False, 0
                        yield batch
            if first and (gap := await _gap(gateway, member, since, begin, None)):
                yield gap
                begin = gap.first
                continue
            begin = end
            pace.took(time.monotonic() - began)
        except ReadError as error:
            await pace.failed(error)


async def _gap(gateway: Gateway, member: Sequence[str], since: Ts, begin: Ts, first: Ts | None) -> Gap | None:
    """What may be lost between ``begin`` and the ``first`` entry that a cursor has found, if it has found any.

    Asked of the cursor's own member, and only after it was opened: what is there still, the cursor has passed.
    """
    if first == begin:
        return None
    oldest = await end_of_oplog(gateway, 1, member="".join(member)) or ZERO
    after = oldest if first is None else min(oldest, first)
    return Gap(begin, after, begin == since) if after > begin else None


async def backward(
    gateway: Gateway, since: Ts, until: Ts, match: Document, among: Document | None = None
) -> AsyncIterator[tuple[Iterator[bytes], Ts]]:
    """Slices of what matches, newest first: the batches of each, newest first as well, and where it begins.

    The entries of a batch are oldest first: a server seeks the bounds of ``ts`` only in that direction. ``among`` is
    the query that a service demands for the oldest entry. If the oplog rolls past ``since`` meanwhile, the last slice
    begins at the oldest entry that is left: what lies before it was not read. Errors: as for :func:`past`.
    """
    pace, end = SliceLength(), until
    while end > since:
        begin = max(Ts(max(end.t - pace.seconds, 0), 0), since)
        began = time.monotonic()
        query = {"ts": {"$gte": Timestamp(*begin), "$lt": Timestamp(*end)}, **match}
        held, size, left, member = list[bytes](), 0, begin, list[str]()
        try:
            batches = gateway.find_raw(OPLOG, query, time_ms=_PAST_MS, on_open=member.append)
            async with closing(batches) as found:
                async for batch in found:
                    held.append(batch)
                    size += len(batch)
                    if size > _SLICE_BYTES and pace.seconds > 1:
                        break
            left = max(begin, await end_of_oplog(gateway, 1, among, member="".join(member)) or ZERO)
        except ReadError as error:
            await pace.failed(error)
            continue
        if size > _SLICE_BYTES and pace.seconds > 1:
            try:
                pace.filled(last_ts(held[-1]).t - begin.t)
            except Malformed:
                pace.slower()
            continue
        pace.took(time.monotonic() - began, size)
        yield _newest_first(held), left
        if left > begin:
            return
        end = begin


def _newest_first(batches: list[bytes]) -> Iterator[bytes]:
    """The batches from the last to the first, each given up when the next is wanted."""
    while batches:
        yield batches.pop()
