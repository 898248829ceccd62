"""What lies between two moments of the oplog is read exactly, and a hole in it is told as large as it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import bson
from bson import Int64, Timestamp

from tallyglass.moment import Ts
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read.past import past
from tallyglass.oplog.read.stream import Gap
from tallyglass.oplog.read.tail import read


class Log:
    """A gateway on an oplog of one insert a second; its beginning is each of ``oldest`` in turn, and then stays."""

    def __init__(self, last: int, *oldest: int) -> None:
        self.last = last
        self.oldest = list(oldest)

    async def command(self, name: str, **_: Any) -> dict[str, Any]:
        stamp = {"ts": Timestamp(self.last, 1), "t": Int64(1)}
        return {"setName": "rs", "lastWrite": {"majorityOpTime": stamp}} if name == "hello" else {"version": "6.0.5"}

    async def find_one(self, *_: Any, **__: Any) -> dict[str, Any]:
        first = self.oldest.pop(0) if len(self.oldest) > 1 else self.oldest[0]
        return {"ts": Timestamp(first, 1)}

    async def find_raw(
        self, ns: Any, query: dict[str, Any], *, sort: Sequence[tuple[str, int]] = (), limit: int = 0, **_: Any
    ) -> AsyncIterator[bytes]:
        span = query["$and"][0]["ts"] if "$and" in query else query["ts"]
        held = [Timestamp(second, 1) for second in range(self.oldest[0], self.last + 1)]
        held = [ts for ts in held if ts >= span.get("$gte", ts) and ts <= span.get("$lte", ts)]
        held = [ts for ts in held if "$lt" not in span or ts < span["$lt"]]
        held = (held[::-1] if sort else held)[: limit or None]
        yield b"".join(bson.encode({"op": "i", "ns": "a.b", "o": {"_id": ts.time}, "ts": ts}) for ts in held)


async def test_a_hole_before_the_first_entry_read_begins_where_reading_did() -> None:
    found = [part async for part in past(Log(900, 100, 700), Ts(100, 1), Ts(901, 0))]  # type: ignore[arg-type]
    assert found[0] == Gap(Ts(100, 1), Ts(700, 1))


async def test_the_newest_before_a_moment_are_as_many_as_asked_for() -> None:
    rows = [row.ts.t async for row in read(Log(900, 100), OplogFilter(until=Ts(500, 1)), limit=3)]  # type: ignore[arg-type]
    assert rows == [497, 498, 499]
    rows = [row.ts.t async for row in read(Log(900, 100), OplogFilter(), limit=3)]  # type: ignore[arg-type]
    assert rows == [898, 899, 900]
