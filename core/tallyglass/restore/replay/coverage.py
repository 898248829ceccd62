"""Does the oplog reach, whole, from backup to point? Where the replay must begin, and how long that stays true."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from bson import Timestamp

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, Document, Gateway
from tallyglass.oplog.decode import walk
from tallyglass.oplog.read.ends import op_time
from tallyglass.restore.raw import entries
from tallyglass.restore.raw.entries import Entry

BACK_OFF_SECONDS = 10
"""mongodump notes the newest entry it sees; entries before it may not be visible yet. So the replay begins earlier."""

_TURN = 200
"""Entries that are read in one go: some milliseconds."""
SCAN_MS = 3_600_000
"""How long one pass over the window may take on the server."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where the replay begins. ``ts`` is that of an entry that exists, or None: then ``why`` says what is missing.

    ``back_off`` is in seconds. ``from_birth`` means that the oplog still holds the set's first entry.
    """

    ts: Ts | None
    back_off: int
    oldest: Ts | None
    newest: Ts | None
    from_birth: bool = False
    why: str = ""


def stamp(ts: Ts) -> Timestamp:
    """The driver's form of a timestamp."""
    return Timestamp(ts.t, ts.i)


async def edge(gateway: Gateway, direction: int, query: dict[str, object] | None = None) -> Entry | None:
    """The oldest (1) or newest (-1) entry of the oplog that matches."""
    async for batch in gateway.find_raw(OPLOG, query or {}, sort=[("$natural", direction)], limit=1, time_ms=60_000):
        for start, end in walk.split(batch):
            return entries.read(batch[start:end])
    return None


async def choose_start(gateway: Gateway, known: Ts, back_off: int) -> Start:
    """The newest entry at or before ``known`` less ``back_off`` seconds. None of it is assumed: the entry is read.

    Where the oplog still holds the first entry of the set's life, that entry will do: nothing came before it.
    """
    oldest, newest = await edge(gateway, 1), await edge(gateway, -1)
    if oldest is None or newest is None:
        return Start(None, back_off, None, None, why="the oplog is empty")
    wanted = Ts(max(known.t - back_off, 0), known.i)
    born = oldest.op == "n" and oldest.o.get("msg") == "initiating set"
    found = await edge(gateway, -1, {"ts": {"$lte": stamp(wanted)}}) if oldest.ts <= wanted else None
    if found is not None:
        return Start(found.ts, back_off, oldest.ts, newest.ts, born)
    if born:
        return Start(oldest.ts, back_off, oldest.ts, newest.ts, True)
    return Start(None, back_off, oldest.ts, newest.ts, why=f"its oldest entry is {oldest.ts}, and {wanted} is needed")


def moved(start: Start, ts: Ts) -> Start:
    """The same with the replay beginning at ``ts``, where a transaction begins."""
    return replace(start, ts=ts)


async def still_covered(gateway: Gateway, start: Start) -> Start:
    """Look again, after everything was read: the server may have overwritten the start in the meantime."""
    oldest = await edge(gateway, 1)
    if oldest is not None and start.ts is not None and oldest.ts > start.ts:
        return replace(start, ts=None, why=f"while it was read its oldest entry became {oldest.ts}")
    return start


async def chain_beginning(gateway: Gateway, link: Ts) -> Ts | None:
    """The first entry of the transaction that ``link`` belongs to; None where the oplog does not hold it any more."""
    while True:
        found = await edge(gateway, 1, {"ts": stamp(link)})
        if found is None:
            return None
        if found.previous is None:
            return found.ts
        link = found.previous


async def window(gateway: Gateway, start: Ts, end: Ts | None = None) -> AsyncIterator[Entry]:
    """All entries from ``start`` on, up to but not including ``end``."""
    bounds = {"$gte": stamp(start)} | ({"$lt": stamp(end)} if end else {})
    async for entry in read_all(gateway, {"ts": bounds}):
        yield entry


async def read_all(gateway: Gateway, query: Document) -> AsyncIterator[Entry]:
    """The entries that a query finds.

    A batch holds some 100,000 of them. Without a turn for others meanwhile the driver's heartbeats would be late, and
    would take the server for lost.
    """
    async for batch in gateway.find_raw(OPLOG, query, time_ms=SCAN_MS):
        for number, (at, after) in enumerate(walk.split(batch)):
            if number % _TURN == 0:
                await asyncio.sleep(0)
            yield entries.read(batch[at:after])


async def majority(gateway: Gateway) -> Ts | None:
    """The newest timestamp that a majority of the members has; None where the server does not say."""
    hello = await gateway.command("hello")
    return op_time(hello.get("lastWrite", {}).get("majorityOpTime"))


async def hours_left(gateway: Gateway, start: Ts, oldest: Ts, newest: Ts) -> float | None:
    """Hours until ``start`` is the oldest entry and goes next, at the rate at which the present window was written.

    None where it cannot be told.
    """
    try:
        stats = await gateway.command("collStats", OPLOG.collection, db=OPLOG.db)
    except (PrivilegeError, ReadError):
        return None
    used, most = int(stats.get("size", 0)), int(stats.get("maxSize", 0))
    span = newest.t - oldest.t
    if used <= 0 or most <= 0 or span <= 0:
        return None
    bytes_a_second = used / span
    room = max(most - used, 0) / bytes_a_second + (start.t - oldest.t)
    return room / 3600
