"""A point drawn at random: from every stratum, within the window, and the same one however the oplog is read."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, cast

import bson
import pytest
from bson import Timestamp

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.catalogue.backups import Listed
from tallyglass.restore.catalogue.window import OplogReader, RecoverableWindow, Stretch
from tallyglass.restore.drill.random_point import RandomPoint, Stratum, draw
from tallyglass.restore.model.source import Backup


def entry(t: int, i: int, **more: Any) -> bytes:
    return bson.encode({"op": "i", "ns": "d.a", "o": {"_id": t}, **more, "ts": Timestamp(t, i), "t": 1})


def part(t: int, previous: Timestamp, **o: Any) -> bytes:
    session = {"lsid": {"id": bson.Binary(b"s" * 16, 4)}, "txnNumber": 1}
    command = {"applyOps": [], **o}
    return entry(t, 1, op="c", ns="admin.$cmd", o=command, **session, prevOpTime={"ts": previous, "t": 1})


BUSY = [entry(150, i) for i in range(1, 81)]
OPLOG = [
    *(entry(t, 1) for t in range(100, 150)),
    *BUSY,
    part(160, Timestamp(0, 0), partialTxn=True),
    part(161, Timestamp(160, 1)),
    entry(170, 1, op="c", ns="d.$cmd", o={"drop": "a"}),
    *(entry(t, 1) for t in range(180, 200)),
]


class Server:
    """An oplog in batches of some size."""

    def __init__(self, rows: list[bytes], at_once: int) -> None:
        self.rows, self.at_once = rows, at_once

    async def find_raw(self, _: object, query: Mapping[str, Any], **__: Any) -> AsyncIterator[bytes]:
        low, high = query["ts"]["$gt"], query["ts"]["$lte"]
        found = [raw for raw in self.rows if low < bson.decode(raw)["ts"] <= high]
        for at in range(0, len(found), self.at_once):
            yield b"".join(found[at : at + self.at_once])


def base(t: int, why: str = "") -> Listed:
    return Listed(Path(f"/b/{t}"), Backup(Path(f"/b/{t}"), "directory", False, Ts(t, 1), Ts(t, 1), "oplog"), why, True)


WINDOW = RecoverableWindow((base(101), base(165)), (), (Stretch(Ts(101, 1), Ts(199, 1)),))
LIVE = OplogReader(Stretch(Ts(90, 1), Ts(199, 1)), cast("Gateway", Server(OPLOG, 7)))


def drawn(seed: int, *readers: OplogReader) -> RandomPoint:
    return asyncio.run(draw(WINDOW, readers or (LIVE,), seed))


def test_points_are_drawn_from_every_stratum_and_within_the_window() -> None:
    points = [drawn(seed) for seed in range(120)]
    assert set(Counter(one.stratum for one in points)) == set(Stratum)
    for one in points:
        assert Ts(101, 1) < one.limit <= Ts(199, 1), one
        assert one.base == Path("/b/165" if one.limit > Ts(165, 1) else "/b/101"), one
    by_stratum = {stratum: {one.limit for one in points if one.stratum is stratum} for stratum in Stratum}
    assert by_stratum[Stratum.TRANSACTION] == {Ts(161, 1)}
    assert by_stratum[Stratum.DEFINITIONS] <= {Ts(170, 1), Ts(170, 2)}
    assert {limit.t for limit in by_stratum[Stratum.BUSY]} > {150}
    assert len(by_stratum[Stratum.ANY_SECOND]) > 10


def test_no_point_is_drawn_between_the_two_entries_of_a_time_series() -> None:
    """There it has buckets and no view, which no plan restores."""
    bucket, views = "system.buckets.w", "d.system.views"
    rows = [
        entry(120, 1, op="c", ns="d.$cmd", o={"create": bucket, "timeseries": {"timeField": "at"}}),
        entry(120, 2, ns=views, o={"_id": "d.w"}),
        entry(130, 1, op="d", ns=views, o={"_id": "d.w"}),
        entry(130, 2, op="c", ns="d.$cmd", o={"drop": bucket}),
        entry(140, 1, op="c", ns="d.$cmd", o={"create": "a"}),
    ]
    reader = OplogReader(LIVE.stretch, cast("Gateway", Server(rows, 2)))
    points = [drawn(seed, reader) for seed in range(100)]
    assert {one.limit for one in points} & {Ts(120, 2), Ts(130, 2)} == set()
    assert {one.limit for one in points if one.stratum is Stratum.DEFINITIONS} <= {Ts(140, 1), Ts(140, 2)}
    assert {one.limit for one in points if one.stratum is Stratum.BUSY} == {Ts(140, 1)}


def test_a_seed_draws_the_same_point_from_slices_and_live_oplog() -> None:
    slices = OplogReader(Stretch(Ts(90, 1), Ts(150, 40)), cast("Gateway", Server(OPLOG[:90], 50)))
    later = OplogReader(Stretch(Ts(140, 1), Ts(199, 1)), cast("Gateway", Server(OPLOG[40:], 3)))
    for seed in range(30):
        assert drawn(seed) == drawn(seed, later, slices)


def test_without_a_window_there_is_nothing_to_draw() -> None:
    nothing = RecoverableWindow((base(101, "It is selective."),), (), ())
    with pytest.raises(InputError, match="nothing can be restored") as error:
        asyncio.run(draw(nothing, (), 1))
    assert "It is selective." in error.value.advice
