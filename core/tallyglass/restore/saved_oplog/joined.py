"""A saved oplog and the live one as one oplog, with the interface of the gateway.

Entries in the slices are read from the slices, later ones from the server. Each scan that continues on the server
begins there with the newest saved entry and compares it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

from bson import Timestamp

from tallyglass.errors import ReadError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import OPLOG, Document, Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.read.entries import edge, stamp
from tallyglass.restore.saved_oplog.saved_oplog import Hole, SavedOplog, read_saved
from tallyglass.restore.timeline.coverage import hours_left
from tallyglass.restore.timeline.identity import is_same_entry

_MOST = Ts(0xFFFF_FFFF, 0xFFFF_FFFF)


@dataclass(frozen=True, slots=True)
class Join:
    """Whether the live oplog continues the saved one. ``hole`` is the gap between them, ``differs`` says why they are
    not one oplog; if both are empty, it does."""

    hole: Hole | None = None
    differs: str = ""

    @property
    def holds(self) -> bool:
        """Whether nothing is missing between them."""
        return self.hole is None and not self.differs


@dataclass(frozen=True, slots=True)
class Saved:
    """The saved oplog that was named or belongs to the backup, at ``paths``, and whether the live one continues it."""

    paths: tuple[Path, ...]
    oplog: SavedOplog
    join: Join

    def holds(self, limit: Ts) -> bool:
        """Whether the window up to ``limit`` needs nothing of the live oplog."""
        return limit <= self.oplog.last

    @property
    def hole(self) -> Hole | None:
        """What is missing after the saved entries; None where the live oplog continues them."""
        return self.join.hole


class JoinedOplog:
    """Reads like the gateway of the live set, with an oplog that reaches further back. Create it with :func:`join`."""

    def __init__(self, live: Gateway, saved: SavedOplog, *, follows: bool) -> None:
        self._live, self._saved, self._follows = live, saved, follows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._live, name)

    async def find_raw(
        self, ns: Namespace, query: Document, *, sort: Sequence[tuple[str, int]] = (), limit: int = 0, **how: Any
    ) -> AsyncIterator[bytes]:
        """Yield batches like :meth:`Gateway.find_raw`. On the oplog a query may name ``ts``, ``ns`` and ``ui``, the
        last two in ``$or`` too; raises ValueError for any other."""
        if ns != OPLOG:
            async for batch in self._live.find_raw(ns, query, sort=sort, limit=limit, **how):
                yield batch
            return
        backward = bool(sort) and sort[-1][-1] < 0
        left = limit
        parts = (self._from_live, self._from_slices) if backward else (self._from_slices, self._from_live)
        for part in parts:
            async for batch in part(query, backward, left, how):
                if not limit:
                    yield batch
                    continue
                found, left = _at_most(batch, left)
                yield found
                if not left:
                    return

    async def _from_slices(
        self, query: Document, backward: bool, _: int, __: Mapping[str, Any]
    ) -> AsyncIterator[bytes]:
        low, high = _bounds(query)
        high = min(high, self._saved.last)
        if low > high:
            return
        wanted = {name: value for name, value in query.items() if name != "ts"}
        # Not closed here: a thread may still be using it when this is cancelled.
        blocks = self._saved.blocks(low, high, backward=backward)
        while (found := await asyncio.to_thread(next, blocks, None)) is not None:
            block, least, most, inside = found
            if not inside or wanted or backward:
                block = await asyncio.to_thread(_chosen, block, least, most, wanted, backward)
            if block:
                yield block

    async def _from_live(
        self, query: Document, backward: bool, limit: int, how: Mapping[str, Any]
    ) -> AsyncIterator[bytes]:
        low, high = _bounds(query)
        last = self._saved.last
        if not self._follows or high <= last:
            return
        joins = low <= last and not backward and not query.keys() - {"ts"}
        begin = {"$gte": stamp(last)} if joins else {"$gte": stamp(max(low, last.next))}
        bounds = begin | ({} if high == _MOST else {"$lte": stamp(high)})
        sort = [("$natural", -1)] if backward else []
        if joins and limit:
            limit += 1
        async for batch in self._live.find_raw(OPLOG, {**query, "ts": bounds}, sort=sort, limit=limit, **how):
            if joins:
                joins = False
                end = walk.document_end(batch)
                self._must_be_last(batch[:end])
                batch = batch[end:]
            if batch:
                yield batch
        if joins:
            self._must_be_last(b"")

    async def hours_left(self, limit: Ts) -> float | None:
        """Hours until the server overwrites the newest saved entry; None if unknown, and where the saved entries reach
        ``limit``."""
        return None if limit <= self._saved.last else await hours_left(self._live, self._saved.last)

    async def prove(self) -> None:
        """Check again after everything was read. Raises ReadError if the server no longer holds the newest saved
        entry."""
        if self._follows:
            found = await edge(self._live, 1, {"ts": stamp(self._saved.last)})
            self._must_be_last(found.raw if found else b"")

    def _must_be_last(self, raw: bytes) -> None:
        if not raw or not is_same_entry(read_entry(raw), read_entry(self._saved.last_entry)):
            raise ReadError(
                f"The live oplog no longer holds {self._saved.last}, the newest saved entry.",
                "Save another slice (tallyglass restore save-oplog), and plan again.",
            )


async def join(live: Gateway, saved: SavedOplog) -> tuple[Gateway, Join]:
    """Join the saved oplog and, if it continues the saved one, the live oplog."""
    found, follows = await _compare(live, saved)
    return cast("Gateway", JoinedOplog(live, saved, follows=follows)), found


async def join_saved(live: Gateway, paths: tuple[Path, ...], since: Ts | None) -> tuple[Gateway, Saved]:
    """The saved oplog at ``paths`` and the live one as one, from before ``since`` on. Raises InputError."""
    oplog = await asyncio.to_thread(read_saved, paths, since)
    joined, found = await join(live, oplog)
    return joined, Saved(paths, oplog, found)


def only_saved(saved: SavedOplog) -> Gateway:
    """A saved oplog by itself: nothing but the oplog can be read."""
    return cast("Gateway", JoinedOplog(cast("Gateway", None), saved, follows=False))


async def open_joined(live: Gateway, paths: Sequence[Path], start: Ts) -> Gateway:
    """The joined oplog for a restore step, which needs every entry from ``start``. Raises ReadError if one is missing,
    and InputError if the paths hold no saved oplog."""
    saved = await asyncio.to_thread(read_saved, paths, start)
    gateway, found = await join(live, saved)
    if saved.first > start or saved.differs or not found.holds:
        why = saved.differs or found.differs or str(found.hole or f"from {start} on")
        raise ReadError(f"The saved oplog does not hold every entry: {why}.", "Plan again.")
    return gateway


async def _compare(live: Gateway, saved: SavedOplog) -> tuple[Join, bool]:
    """Whether they are one oplog, and whether the live one has newer entries."""
    oldest, newest = await edge(live, 1), await edge(live, -1)
    last = saved.last
    if oldest is None or newest is None:
        return Join(differs="the live oplog is empty"), False
    if newest.ts < last:
        # A lagging member: its newest entry must be among the saved ones.
        held, found = saved.entry(newest.ts), newest
    elif oldest.ts > last:
        return Join(Hole(last, oldest.ts if saved.hole is None else min(oldest.ts, saved.hole.until))), False
    else:
        held, at = saved.last_entry, await edge(live, 1, {"ts": stamp(last)})
        if at is None:
            return Join(differs=f"the live oplog has no entry {last}, the newest saved one"), False
        found = at
    if not held or not is_same_entry(found, read_entry(held)):
        return Join(differs=f"the live oplog has another entry at {found.ts} than the saved one"), False
    return Join(), newest.ts >= last


def _bounds(query: Document) -> tuple[Ts, Ts]:
    """The lowest and the highest timestamp of a query, both inclusive."""
    given = query.get("ts", {})
    if isinstance(given, Timestamp):
        return _ts(given), _ts(given)
    low, high = ZERO, _MOST
    for name, value in given.items():
        ts = _ts(value)
        if name == "$gte":
            low = max(low, ts)
        elif name == "$gt":
            low = max(low, ts.next)
        elif name == "$lte":
            high = min(high, ts)
        elif name == "$lt":
            high = min(high, _before(ts))
        else:
            raise ValueError(f"{name} on ts cannot be asked of a saved oplog")
    return low, high


def _ts(value: Timestamp) -> Ts:
    return Ts(value.time, value.inc)


def _before(ts: Ts) -> Ts:
    return Ts(ts.t, ts.i - 1) if ts.i else Ts(ts.t - 1, _MOST.i)


def _chosen(block: bytes, low: Ts, high: Ts, wanted: Mapping[str, Any], backward: bool) -> bytes:
    """The entries of a block that the query selects, in its order."""
    found = []
    for start, end in walk.split(block):
        head = read_entry(block, start, end)
        if low <= head.ts <= high and _matches(head, wanted):
            found.append(block[start:end])
    return b"".join(reversed(found) if backward else found)


def _matches(head: Entry, wanted: Mapping[str, Any]) -> bool:
    for name, value in wanted.items():
        if name == "$or":
            if not any(_matches(head, one) for one in value):
                return False
        elif name == "ns":
            if head.ns not in _values(value):
                return False
        elif name == "ui":
            if head.ui not in map(bytes, _values(value)):
                return False
        else:
            raise ValueError(f"{name} cannot be asked of a saved oplog")
    return True


def _values(value: object) -> Sequence[Any]:
    return cast("Sequence[Any]", value["$in"]) if isinstance(value, Mapping) else (value,)


def _at_most(batch: bytes, most: int) -> tuple[bytes, int]:
    """The first ``most`` entries of a batch, and how many it has too few."""
    ends = [end for _, end in islice(walk.split(batch), most)]
    return batch[: ends[-1]], most - len(ends)
