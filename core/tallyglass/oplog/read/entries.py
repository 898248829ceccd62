"""Read entries of a server's oplog: one at either end, whatever a query finds, a transaction, or all past a sink."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from itertools import chain
from typing import Any

from bson import Timestamp

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, Document, Gateway
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.batch import BatchWalker, Sink, unpacked
from tallyglass.oplog.entry.entry import Entry, Txn, read_entry
from tallyglass.oplog.entry.operations import Transactions, operations_of

SCAN_MS = 3_600_000
"""Milliseconds that one pass over the oplog may take on the server."""

WRITES = frozenset({"i", "u", "d"})
"""The letters of an entry that is one write of one document, and no part of a transaction."""

_EDGE_MS = 60_000
"""Milliseconds that the search for one entry may take on the server."""


def stamp(ts: Ts) -> Timestamp:
    """The driver's form of a timestamp."""
    return Timestamp(ts.t, ts.i)


def op_time(value: Any) -> Ts | None:
    """The ``ts`` of an optime document such as ``{ts, t}``; None where it is not one."""
    found = value.get("ts") if isinstance(value, Mapping) else None
    return Ts(found.time, found.inc) if isinstance(found, Timestamp) else None


async def end_of_oplog(gateway: Gateway, order: int, among: Document | None = None, *, member: str = "") -> Ts | None:
    """The ``ts`` of the oldest entry (of those that ``among`` finds) with order 1, of the newest with -1; None where
    there is none."""
    sort = [("$natural", order)]
    return op_time(await gateway.find_one(OPLOG, among or {}, projection={"ts": 1}, sort=sort, member=member))


async def edge(gateway: Gateway, direction: int, query: dict[str, object] | None = None) -> Entry | None:
    """The oldest (1) or newest (-1) entry of the oplog that matches."""
    found = gateway.find_raw(OPLOG, query or {}, sort=[("$natural", direction)], limit=1, time_ms=_EDGE_MS)
    async for batch in found:
        for start, end in walk.split(batch):
            return read_entry(batch[start:end])
    return None


async def reaches_back(gateway: Gateway, since: Ts) -> bool:
    """Whether the oplog holds all from ``since`` on: without that, what is not found in it is unknown."""
    oldest = await edge(gateway, 1)
    return oldest is not None and oldest.ts <= since


async def read_all(gateway: Gateway, query: Document) -> AsyncIterator[Entry]:
    """The entries that a query finds."""
    async for raw in unpacked(gateway.find_raw(OPLOG, query, time_ms=SCAN_MS)):
        yield read_entry(raw)


async def earlier_parts(gateway: Gateway, entry: Entry) -> list[Entry]:
    """The entries of the transaction of ``entry`` that were written before it, oldest first. Where the oplog no longer
    holds its beginning, the first of them has a ``previous``."""
    parts: list[Entry] = []
    link = entry.previous
    while link is not None:
        found = await edge(gateway, 1, {"ts": stamp(link)})
        if found is None:
            break
        parts.append(found)
        link = found.previous
    return parts[::-1]


async def read_effects(gateway: Gateway, query: Document) -> AsyncIterator[tuple[Entry, list[Entry]]]:
    """Each entry that a query finds, with the entries that take effect with it: none for a part of a transaction that
    is not its last, all parts for the one that commits it, also those written before the first that is found."""
    transactions, known = Transactions(), set[Txn]()
    async for entry in read_all(gateway, query):
        if entry.op in WRITES:
            yield entry, [entry]
            continue
        txn = transactions.key(entry)
        if txn is not None and txn not in known:
            known.add(txn)
            transactions.begin(txn, await earlier_parts(gateway, entry))
        yield entry, transactions.complete(entry)


async def operations(gateway: Gateway, ns: str, start: Ts, end: Ts | None = None) -> AsyncIterator[tuple[Entry, Entry]]:
    """The operations on one collection, and the commands of its database, each with the entry at which it takes
    effect, from ``start`` on, up to but not including ``end``. A transaction that was begun before is there whole."""
    db = ns.partition(".")[0]
    async for whole, parts in read_effects(gateway, entries_about(ns, start, end)):
        if whole.op in WRITES:
            if whole.ns == ns:
                yield whole, whole
            continue
        for operation in chain.from_iterable(map(operations_of, parts)):
            commands = operation.op == "c" and (operation.db == db or operation.command == "renameCollection")
            if operation.txn is None and (operation.ns == ns or commands):
                yield operation, whole


def entries_about(ns: str, start: Ts, end: Ts | None = None) -> Document:
    """The query for the entries that may hold operations on a collection or commands of its database."""
    bounds = {"$gte": stamp(start)} | ({"$lt": stamp(end)} if end else {})
    return {"ts": bounds, "ns": {"$in": [ns, f"{ns.partition('.')[0]}.$cmd", "admin.$cmd"]}}


async def walk_oplog(
    gateway: Gateway,
    query: Document,
    sink: Sink,
    progress: Callable[[int, Ts], None] | None = None,
    *,
    newest: int = 0,
) -> BatchWalker:
    """Pass the entries that a query finds to ``sink``, or the ``newest`` of them, newest first. ``progress`` gets their
    number and the newest ``ts``, batch by batch.

    The event loop runs in between: otherwise the driver's heartbeats would be late, and the server considered lost.
    """
    walker = BatchWalker(sink)
    batches: AsyncIterator[bytes] = gateway.find_raw(
        OPLOG, query, sort=[("$natural", -1)] if newest else (), limit=newest, time_ms=SCAN_MS
    )
    async for batch in batches:
        for _ in walker.walk(batch):
            await asyncio.sleep(0)
        if progress is not None and walker.last is not None:
            progress(walker.entries, walker.last.ts)
    return walker
