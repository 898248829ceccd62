"""Past values of counters, read from the oplog.

The work is bounded. The oplog is read in narrow slices, which the server seeks by ``ts`` without a scan, spread over
its whole window and more finely as long as time is left. Their width depends on the number of entries per hour, so
that the server examines at most a fixed number of them.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bson.timestamp import Timestamp

from tallyglass.counters.numbers import Number, as_number, numeric_type
from tallyglass.counters.pacer import rest
from tallyglass.counters.recognise.identity import document_key
from tallyglass.counters.recognise.shapes import dig
from tallyglass.counters.snapshot import NumericType
from tallyglass.errors import RefusedError
from tallyglass.mongo.gateway import OPLOG, Gateway, Namespace
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.batch import unpacked
from tallyglass.oplog.entry.changes import ChangeKind
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.entry.walk import Malformed

SLICES = 64
"""The maximum number of slices of a window: with a day of oplog one every 23 minutes, so that the hours differ."""

DOCUMENTS = 1_000_000
"""The maximum number of oplog entries the server examines for all slices together, in about a second."""

ENTRIES = 2_000
"""The maximum number of counter entries that one slice yields. Of a slice the first and last values matter."""

_AT_ONCE = 4
"""Requests under way at a time, so that few threads of the server work for this."""

_BATCH = 400
"""Entries in an answer, about 100 kB."""


@dataclass(frozen=True, slots=True)
class PastValue:
    """One value that a counter had: when (seconds since 1970), the number, and the type it was stored as."""

    at: float
    number: Number
    kind: NumericType


Values = dict[Namespace, dict[Hashable, dict[str, list[PastValue]]]]
"""Past values by collection, document and path."""


class OplogPast:
    """Reads the past values of the numbers at ``paths`` of some collections, up to ``until``, a few slices at a time.

    Of those in ``grouped``, updates only: 100,000 new documents say nothing of when any of them moves. ``values`` is
    complete once :meth:`advance` returns True: a part of it would be a series with holes. ``cut`` is how many requests
    the server did not answer to the end.
    """

    def __init__(
        self,
        gateway: Gateway,
        paths: Mapping[Namespace, Sequence[str]],
        until: Timestamp,
        grouped: Collection[Namespace] = (),
    ) -> None:
        self._gateway = gateway
        self._paths = paths
        self._until = until
        self._of_counters = _entries_of(paths.keys() - set(grouped), grouped)
        self._slices: list[tuple[int, int]] | None = None
        self.cut = 0
        self.values: Values = {}

    async def advance(self, deadline: float) -> bool:
        """Read on until ``deadline`` (monotonic), at least one step; returns whether everything was read.

        Raises PrivilegeError if this user may not read the oplog, ReadError if no server answers.
        """
        if self._slices is None:
            self._slices = await self._plan() if self._paths else []
        while self._slices:
            batch, self._slices = self._slices[:_AT_ONCE], self._slices[_AT_ONCE:]
            found = await asyncio.gather(*(self._read(*ends) for ends in batch))
            for row in (row for rows in found for row in rows):
                if row.ts <= (self._until.time, self._until.inc):
                    with suppress(Malformed):
                        _collect(self.values, row, self._paths)
                await rest()
            if time.monotonic() > deadline:
                break
        return not self._slices

    async def _plan(self) -> list[tuple[int, int]]:
        """The slices in whole seconds, which are what the server can seek to; none if there is no oplog.

        They do not overlap, and come in an order in which the first ones are spread over the whole oplog.
        """
        oldest = await oplog_end(self._gateway, 1)
        if oldest is None:
            return []
        first, seconds = oldest.time, self._until.time + 1 - oldest.time
        entries = await self._gateway.estimate(OPLOG)
        widest = math.ceil(DOCUMENTS / SLICES / max(entries, 1) * seconds)
        bounds = [first + part * seconds // SLICES for part in range(SLICES + 1)]
        slices = [(bounds[part], min(bounds[part] + widest, bounds[part + 1])) for part in scattered(SLICES)]
        return [(start, end) for start, end in slices if start < end]

    async def _read(self, start: int, end: int) -> list[Entry]:
        """The entries of one slice that can be read; none if the server cuts the request off."""
        query = {"ts": {"$gte": Timestamp(start, 0), "$lt": Timestamp(end, 0)}, "$or": self._of_counters}
        found = self._gateway.find_raw(OPLOG, query, limit=ENTRIES, batch_size=_BATCH)
        rows: list[Entry] = []
        try:
            with suppress(Malformed):
                async for raw in unpacked(found):
                    with suppress(Malformed):
                        rows.append(read_entry(raw))
        except RefusedError:
            self.cut += 1
            return []
        return rows


async def oplog_end(gateway: Gateway, direction: int) -> Timestamp | None:
    """The first (1) or last (-1) timestamp of the oplog; None if there is none."""
    row = await gateway.find_one(OPLOG, {}, projection={"ts": 1}, sort=[("$natural", direction)])
    return row["ts"] if row and isinstance(row.get("ts"), Timestamp) else None


def _entries_of(single: Collection[Namespace], grouped: Collection[Namespace]) -> list[dict[str, object]]:
    """The alternatives of a query for the entries about collections; of those that are ``grouped`` their updates."""
    names, updated = [str(ns) for ns in single], [str(ns) for ns in grouped]
    return [
        {"ns": {"$in": names}},
        {"op": "u", "ns": {"$in": updated}},
        {"ns": "admin.$cmd", "o.applyOps.ns": {"$in": [*names, *updated]}},
    ]


def scattered(count: int) -> list[int]:
    """0..count-1 in an order in which every prefix is evenly spread: first, last, middle, quarters and so on."""
    order, seen = [0, count - 1], {0, count - 1}
    step = count
    while len(seen) < count:
        step = max(1, step // 2)
        for place in range(0, count, step):
            if place not in seen:
                seen.add(place)
                order.append(place)
    return order[:count]


def _collect(found: Values, entry: Entry, paths: Mapping[Namespace, Sequence[str]]) -> None:
    # The ordinal distinguishes entries of one second.
    at = entry.ts.t + min(entry.ts.i, 999_999) / 1e6
    for operation in operations_of(entry):
        ns = Namespace.parse(operation.ns)
        for path in paths.get(ns, ()):
            raw = value_after(operation, path)
            kind = numeric_type(raw)
            if kind is None:
                continue
            key = document_key(operation.document_id)
            found.setdefault(ns, {}).setdefault(key, {}).setdefault(path, []).append(
                PastValue(at, as_number(raw), kind)
            )


def value_after(operation: Entry, path: str) -> Any:
    """The raw number at ``path`` after an oplog operation; None if the operation does not contain it. Raises
    Malformed."""
    changes = operation.changes() if operation.op == "u" else None
    if changes is None:
        return dig(operation.o, path) if operation.op in ("i", "u") else None
    for kind, names, value, _ in changes:
        if value is not None and kind in (ChangeKind.SET, ChangeKind.ADD):
            changed = b".".join(names).decode("utf-8", "replace")
            if changed == path:
                return walk.value(operation.raw, value)
            if path.startswith(f"{changed}."):
                return dig(walk.value(operation.raw, value), path[len(changed) + 1 :])
    return None


def pool_levels(
    points: Mapping[Hashable, Iterable[PastValue]], now: Mapping[Hashable, int], total: int
) -> list[tuple[float, float]]:
    """How many ids a pool had issued at moments of the past, estimated from those of its documents that were seen.

    ``points`` are values of single documents, ``now`` their present values, ``total`` the ids issued by now.
    Batches go to documents at random, so that the ids issued since by the documents seen at a moment are
    representative of all documents.
    """
    rows = sorted((past.at, now[key] - past.number) for key, pasts in points.items() if key in now for past in pasts)
    rows = [row for row in rows if row[1] >= 0]
    size = max(_LEAST_GROUP, -(-len(rows) // _MOST_GROUPS))
    levels: list[tuple[float, float, int]] = []
    for start in range(0, len(rows) - _LEAST_GROUP + 1, size):
        group = rows[start : start + size]
        at = sum(row[0] for row in group) / len(group)
        since = sum(row[1] for row in group) / len(group)
        levels.append((at, max(0.0, total - since * len(now)), len(group)))
    return _not_falling(levels)


_LEAST_GROUP = 8
"""Documents whose mean stands for the pool. It is off by a third (1 / sqrt(8)) of what the documents differ by."""

_MOST_GROUPS = 32
"""A sample for every second slice of the oplog, each of more documents then."""


def _not_falling(levels: list[tuple[float, float, int]]) -> list[tuple[float, float]]:
    """The closest series that never falls: neighbours that fall are averaged (pool adjacent violators)."""
    merged: list[list[tuple[float, float, int]]] = []
    means: list[float] = []
    for level in levels:
        merged.append([level])
        means.append(level[1])
        while len(means) > 1 and means[-2] > means[-1]:
            fallen = merged.pop()
            means.pop()
            group = merged[-1]
            group += fallen
            means[-1] = sum(row[1] * row[2] for row in group) / sum(row[2] for row in group)
    return [(row[0], mean) for group, mean in zip(merged, means, strict=True) for row in group]
