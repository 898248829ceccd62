"""Entries of a window, and what a replay of them does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bson
from bson import Binary, Int64, Timestamp

from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.restore.backup.backup import StoredCollection
from tallyglass.restore.proof.after_point import AfterPoint
from tallyglass.restore.proof.counter_inserts import CounterInserts
from tallyglass.restore.proof.later_writes import LaterWrites
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.replay import Replay

UUID = Binary(bytes(range(16)), 4)


OTHER = Binary(bytes(16), 4)


NEITHER = Binary(bytes(range(100, 116)), 4)


FIRST = {"ts": Timestamp(0, 0), "t": Int64(-1)}


def entry(at: int, op: str, ns: str, o: dict[str, Any], **more: Any) -> Entry:
    return read_entry(bson.encode({"ts": Timestamp(at, 1), "t": Int64(1), "v": 2, "op": op, "ns": ns, "o": o} | more))


def stored(tmp_path: Path, *ids: Any, indexes: tuple[str, ...] = ()) -> dict[str, StoredCollection]:
    data = tmp_path / "c.bson"
    data.write_bytes(b"".join(bson.encode({"_id": one}) for one in ids))
    specs = [{"v": 2, "key": {"_id": 1}, "name": "_id_"}] + [{"v": 2, "key": {n: 1}, "name": f"{n}_1"} for n in indexes]
    return {"s.c": StoredCollection("s.c", "collection", data, {}, tuple(specs), bytes(UUID).hex())}


def run(replay: Replay, *rows: Entry) -> Replay:
    for row in rows:
        replay.feed(row)
    replay.finish()
    return replay


def insert(at: int, number: Any, ns: str = "s.c", **more: Any) -> Entry:
    return entry(at, "i", ns, {"_id": number}, **more)


def update(at: int, number: Any, ns: str = "s.c", **more: Any) -> Entry:
    return entry(at, "u", ns, {"$v": 2, "diff": {"u": {"x": 1}}}, o2={"_id": number}, **more)


def delete(at: int, number: Any, ns: str = "s.c") -> Entry:
    return entry(at, "d", ns, {"_id": number})


def kinds(replay: Replay) -> list[str]:
    return [problem.kind for problem in replay.problems]


def after_point(loss: LossCount | None = None, later: LaterWrites | None = None) -> AfterPoint:
    """What reads the entries from the point on, for these two or for one of them."""
    return AfterPoint(loss or LossCount(), later or LaterWrites(), CounterInserts())
