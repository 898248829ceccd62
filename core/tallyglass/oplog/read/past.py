"""Read the oplog's past: its newest entries, or a span of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

from bson import Timestamp

from tallyglass.errors import ReadError, RefusedError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.driver_errors import closed_oplog
from tallyglass.mongo.gateway import OPLOG, Document, Gateway, closing
from tallyglass.oplog.entry.batch import entries, last_ts
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.filter.compile import CompiledFilter
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read.entries import end_of_oplog, op_time
from tallyglass.oplog.read.stream import EntryPosition, Gap

BACKLOG = 500
"""Older entries with which a reader of new ones begins: some screens."""

BACKLOG_SECONDS = 3.0
"""How long a tail looks for older entries to begin with."""

SEARCH_SECONDS = 30.0
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
    """Older entries may match: the search for them was stopped after so many seconds, or failed for a ``reason``."""

    seconds: float
    reason: str = ""

    @property
    def what(self) -> str:
        """That in a sentence without an end."""
        ended = f"failed: {self.reason}" if self.reason else f"stopped after {self.seconds:.0f} s"
        return f"older entries may match: the search for them {ended}"


async def safe_end(gateway: Gateway, among: Document | None = None) -> EntryPosition:
    """The newest entry before which nothing can appear any more: the majority point. ``among`` is a query that the
    service demands; the point is then known even if it finds nothing.

    The newest entry by ``$natural: -1`` is not: on a busy primary an earlier one may not be committed yet.
    Raises PrivilegeError where the oplog shows no entry at all.
    """
    if among is None and await end_of_oplog(gateway, -1) is None:
        raise closed_oplog()
    hello = await gateway.command("hello")
    majority = hello.get("lastWrite", {}).get("majorityOpTime")
    ts = op_time(majority)
    if ts is None or ts == ZERO:
        raise ReadError("This member does not know the majority commit point yet.", "The read is retried.")
    term = majority.get("t")
    # The entry that initiates a set has no term, and its optime says -1.
    return EntryPosition(ts, int(term) if isinstance(term, int) and term >= 0 else None)


async def end_of_past(gateway: Gateway, wanted: OplogFilter) -> Ts:
    """Before which entry a read of the past ends: ``wanted.until``, or the majority point."""
    end = (await safe_end(gateway)).ts.next
    return min(wanted.until, end) if wanted.until else end


async def newest(
    gateway: Gateway, wanted: OplogFilter, until: Ts, count: int, *, seconds: float = BACKLOG_SECONDS
) -> tuple[list[bytes], Incomplete | None]:
    """The ``count`` newest wanted entries before ``until``, oldest first, and why there may be others: None where the
    search reached the beginning or found them all. It stops after ``seconds``."""
    if count <= 0:
        return [], None
    query: dict[str, Any] = {"ts": {"$lt": Timestamp(*until)}, **wanted.on_server()}
    if not wanted.noops:
        query = {"$and": [query, {"op": {"$ne": "n"}}]}
    limit = 0 if wanted.narrow else count
    matcher, found, matched = CompiledFilter(wanted), list[bytes](), 0
    ends = time.monotonic() + seconds
    batches = gateway.find_raw(
        OPLOG, query, sort=[("$natural", -1)], limit=limit, batch_size=1_000, time_ms=int(seconds * 1_000)
    )
    try:
        async with closing(batches) as held:
            async for batch in held:
                for raw in entries(batch):
                    try:
                        entry = read_entry(raw)
                        wants, is_part = matcher.wants_entry(entry), entry.in_transaction
                    except Malformed:
                        wants, is_part = True, False
                    if wants or is_part:
                        found.append(raw)
                    matched += wants
                    if matched >= count:
                        return found[::-1], None
                if time.monotonic() > ends:
                    return found[::-1], Incomplete(seconds)
    except ReadError as error:
        in_time = not isinstance(error, RefusedError) or error.code != _TIME_IS_UP
        return found[::-1], Incomplete(seconds, error.title.rstrip(".") if in_time else "")
    return found[::-1], None


async def wanted_past(
    gateway: Gateway, wanted: OplogFilter, end: Ts, count: int | None = None, *, seconds: float = SEARCH_SECONDS
) -> AsyncIterator[tuple[bytes, ...] | Gap | Incomplete]:
    """Batches with all that is wanted of the entries before ``end``, oldest first: from ``wanted.since``, or where that
    is not given the ``count`` newest of them, for which it is searched for ``seconds``; None for all.

    Errors: as for :func:`past`.
    """
    if count is not None and wanted.since is None:
        found, incomplete = await newest(gateway, wanted, end, count, seconds=seconds)
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

    def took(self, seconds: float, size: int = 0) -> None:
        """Adjust to how long the last slice took, and to its size in bytes."""
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
    """Batches of entries from ``since`` up to before ``until``, oldest first, and every place where the oplog rolled
    past the reader. Resumed where the link is lost. Errors: those of the gateway, after five failed attempts."""
    pace, failures = SliceLength(), 0
    begin = max(since, await end_of_oplog(gateway, 1) or ZERO)
    while begin < until:
        end = min(Ts(begin.t + pace.seconds, 0), until)
        began = time.monotonic()
        try:
            oldest = await end_of_oplog(gateway, 1) or ZERO
            if oldest > begin:
                yield Gap(begin, oldest)
                begin = oldest
                continue
            query = {"ts": {"$gte": Timestamp(*begin), "$lt": Timestamp(*end)}, **(match or {})}
            async with closing(gateway.find_raw(OPLOG, query, time_ms=_PAST_MS)) as batches:
                async for batch in batches:
                    if batch:
                        begin, failures = last_ts(batch).next, 0
                        yield batch
            begin = end
            failures = 0
            pace.took(time.monotonic() - began)
        except ReadError:
            failures += 1
            if failures >= ATTEMPTS:
                raise
            pace.slower()
            await asyncio.sleep(0.5 * failures)


async def backward(
    gateway: Gateway, since: Ts, until: Ts, match: Document, among: Document | None = None
) -> AsyncIterator[tuple[Iterator[bytes], Ts]]:
    """Slices of what matches, newest first: the batches of each, newest first as well, and where it begins.

    The entries of a batch are oldest first: a server seeks the bounds of ``ts`` only in that direction. ``among`` is
    the query that a service demands for the oldest entry. If the oplog rolls past ``since`` meanwhile, the last slice
    begins at the oldest entry that is left: what lies before it was not read. Errors: as for :func:`past`.
    """
    pace, failures, end = SliceLength(), 0, until
    while end > since:
        begin = max(Ts(max(end.t - pace.seconds, 0), 0), since)
        began = time.monotonic()
        query = {"ts": {"$gte": Timestamp(*begin), "$lt": Timestamp(*end)}, **match}
        held, size, left = list[bytes](), 0, begin
        try:
            async with closing(gateway.find_raw(OPLOG, query, time_ms=_PAST_MS)) as batches:
                async for batch in batches:
                    held.append(batch)
                    size += len(batch)
                    if size > _SLICE_BYTES and pace.seconds > 1:
                        break
            left = max(begin, await end_of_oplog(gateway, 1, among) or ZERO)
        except ReadError:
            failures += 1
            if failures >= ATTEMPTS:
                raise
            pace.slower()
            await asyncio.sleep(0.5 * failures)
            continue
        if size > _SLICE_BYTES and pace.seconds > 1:
            try:
                pace.filled(last_ts(held[-1]).t - begin.t)
            except Malformed:
                pace.slower()
            continue
        failures = 0
        pace.took(time.monotonic() - began, size)
        yield _newest_first(held), left
        if left > begin:
            return
        end = begin


def _newest_first(batches: list[bytes]) -> Iterator[bytes]:
    """The batches from the last to the first, each given up when the next is wanted."""
    while batches:
        yield batches.pop()
