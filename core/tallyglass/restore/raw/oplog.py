"""Read entries of a server's oplog as raw BSON: one at either end, a range, or whatever a query finds."""

from __future__ import annotations

from collections.abc import AsyncIterator

from bson import Timestamp

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, Document, Gateway
from tallyglass.oplog.decode import walk
from tallyglass.restore.raw import entries
from tallyglass.restore.raw.batches import unpacked
from tallyglass.restore.raw.entries import Entry

SCAN_MS = 3_600_000
"""How long one pass over the window may take on the server."""


def stamp(ts: Ts) -> Timestamp:
    """The driver's form of a timestamp."""
    return Timestamp(ts.t, ts.i)


async def edge(gateway: Gateway, direction: int, query: dict[str, object] | None = None) -> Entry | None:
    """The oldest (1) or newest (-1) entry of the oplog that matches."""
    async for batch in gateway.find_raw(OPLOG, query or {}, sort=[("$natural", direction)], limit=1, time_ms=60_000):
        for start, end in walk.split(batch):
            return entries.read(batch[start:end])
    return None


async def window(gateway: Gateway, start: Ts, end: Ts | None = None) -> AsyncIterator[Entry]:
    """All entries from ``start`` on, up to but not including ``end``."""
    bounds = {"$gte": stamp(start)} | ({"$lt": stamp(end)} if end else {})
    async for entry in read_all(gateway, {"ts": bounds}):
        yield entry


async def read_all(gateway: Gateway, query: Document) -> AsyncIterator[Entry]:
    """The entries that a query finds."""
    async for raw in unpacked(gateway.find_raw(OPLOG, query, time_ms=SCAN_MS)):
        yield entries.read(raw)
