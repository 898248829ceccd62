"""How fast the oplog fills of late, and how long an entry stays: the same answer from one look to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from bson import Int64, Timestamp

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Extent
from tallyglass.oplog.read.window import MOST_ENTRIES, WindowReader, window
from tallyglass.oplog.snapshot import OplogWindow

SIZE = 100
"""Bytes of each entry."""


class Server:
    """A gateway to an oplog of so many entries in each second; it holds them from ``first`` to ``now``."""

    def __init__(self, writes: list[int], now: int, first: int = 0) -> None:
        self.writes, self.now, self.first = writes, now, first
        self.added_up: list[int] = []

    async def find_one(self, *_: Any, sort: Any, **__: Any) -> dict[str, Any]:
        return {"ts": Timestamp(self.first if sort[0][1] > 0 else self.now, 1)}

    async def command(self, name: str, *_: Any, **__: Any) -> dict[str, Any]:
        return {"size": sum(self.writes[: self.now]) * SIZE, "maxSize": 10**9} if name == "collStats" else {}

    async def extent(self, ns: object, query: dict[str, Any], *, most: int, **_: Any) -> Extent:
        count = min(sum(self.writes[query["ts"]["$gte"].time : query["ts"]["$lt"].time]), most)
        self.added_up.append(count)
        return Extent(count, count * SIZE)


async def rate(writes: list[int], now: int) -> float:
    """Entries a second of late."""
    found = (await window(Server(writes, now), recent=True)).recent_bytes_per_hour  # type: ignore[arg-type]
    return (found or 0.0) / SIZE / 3600


@pytest.mark.parametrize("base", [20, 90, 400, 3_000], ids="{} a second".format)
async def test_mass_writes_of_seconds_hardly_move_the_growth(base: int) -> None:
    """Once a minute 1,000 documents in a second, and every 20 s a pause."""
    writes = [base + (1_000 if t % 60 == 11 else 0) - (base // 2 if t % 20 == 3 else 0) for t in range(1_000)]
    mean = sum(writes) / len(writes)
    seen = [await rate(writes, now) for now in range(700, 900)]
    assert seen == [pytest.approx(mean, rel=0.15)] * 200


async def test_a_load_that_begins_counts_after_a_minute() -> None:
    """An hour with two writes a second, then 90: after a minute at most a fifth is missing, and nothing later on."""
    writes = [2] * 3_600 + [90] * 600
    for since, share in ((20, 0.26), (60, 0.79), (200, 0.79), (300, 1.0), (600, 1.0)):
        assert share * 90 <= await rate(writes, 3_600 + since) <= 90


async def test_the_server_adds_up_a_bounded_number_of_entries() -> None:
    server = Server([5_000] * 1_000, 900)
    found = await window(server, recent=True)  # type: ignore[arg-type]
    assert found.recent_bytes_per_hour == 5_000 * SIZE * 3600
    assert sum(server.added_up) <= 2 * MOST_ENTRIES


async def test_an_oplog_of_some_seconds_has_no_growth() -> None:
    assert await rate([90] * 20, 9) == 0.0
    assert await rate([90] * 20, 20) == pytest.approx(90)
    young, older = [await window(Server([90] * 20, now)) for now in (9, 10)]  # type: ignore[arg-type]
    assert (young.bytes_per_hour, older.bytes_per_hour) == (None, 90 * SIZE * 3600)


class Asked(Server):
    """An oplog of 100 entries a second for 80 s, of whose commands the answers are given."""

    def __init__(self, answers: dict[str, Any]) -> None:
        super().__init__([100] * 90, 90, first=10)
        self.answers = answers

    async def command(self, name: str, *_: Any, **__: Any) -> dict[str, Any]:
        answer = self.answers.get(name, {})
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]


def kept(hours: object) -> dict[str, Any]:
    return {"parsed": {"storage": {"oplogMinRetentionHours": hours}}}


@pytest.mark.parametrize(
    ("stats", "options", "found"),
    [
        ({"size": 900, "maxSize": 5_000.0}, kept(2), (900, 5_000, 40_500.0, "", 2.0)),
        ({"size": Int64(900)}, kept(0.5), (900, None, 40_500.0, "", 0.5)),
        ({"size": "900", "maxSize": None}, kept(0), (None, None, None, "", None)),
        ({"size": float("nan"), "maxSize": float("inf")}, kept(2), (None, None, None, "", 2.0)),
        (PrivilegeError("no"), kept("2"), (None, None, None, "collStats on local.oplog.rs", None)),
        (ReadError("lost"), ReadError("lost"), (None, None, None, "", None)),
        ({"size": 0}, PrivilegeError("no"), (0, None, 0.0, "", None)), ({}, {"parsed": {}}, (None,) * 3 + ("", None)),
    ],
)  # fmt: skip
async def test_what_may_not_be_read_of_the_window_is_not_known(
    stats: Any, options: Any, found: tuple[Any, ...]
) -> None:
    used, most, growth, lacking, hours = found
    server: Any = Asked({"collStats": stats, "getCmdLineOpts": options})
    plain = OplogWindow(Ts(10, 1), Ts(90, 1), used, most, growth, lacking)
    assert await window(server) == plain
    assert server.added_up == []
    late = 100 * SIZE * 3600.0
    assert await window(server, recent=True) == replace(plain, recent_bytes_per_hour=late, kept_hours=hours)
    assert server.added_up == [100, 1_000, 6_000, 8_000]
    server.find_one = empty
    assert await window(server, recent=True) == replace(
        plain, first=None, last=None, bytes_per_hour=None, kept_hours=hours
    )


async def empty(*_: Any, **__: Any) -> None:
    """What an oplog without entries answers."""


async def test_a_reader_that_stays_adds_up_once_a_minute() -> None:
    server = Server([90] * 1_000, 800)
    reader = WindowReader(server)  # type: ignore[arg-type]
    first = await reader.read()
    server.now, count = 805, len(server.added_up)
    second = await reader.read()
    assert len(server.added_up) == count
    assert second == replace(first, last=Ts(805, 1), used_bytes=second.used_bytes, bytes_per_hour=second.bytes_per_hour)


@pytest.mark.parametrize(
    ("changes", "hours"),
    [
        ({}, 2.0),
        ({"used_bytes": 500, "bytes_per_hour": 50.0}, 12.0),
        ({"used_bytes": 2_000, "bytes_per_hour": 200.0}, 2.0),
        ({"recent_bytes_per_hour": 200.0}, 1.0),
        ({"recent_bytes_per_hour": 1.0}, 2.0),
        ({"kept_hours": 24.0}, 16.0),
        ({"used_bytes": None}, None),
        ({"max_bytes": 0}, None),
        ({"bytes_per_hour": None}, None),
    ],
)
def test_how_long_an_entry_stays(changes: dict[str, Any], hours: float | None) -> None:
    """The oplog spans ten hours and is full; the entry lies two hours after its oldest one."""
    full = OplogWindow(Ts(0, 1), Ts(36_000, 1), 1_000, 1_000, 100.0)
    assert (full.hours, replace(full, first=None).hours) == (10, None)
    found = replace(full, **changes).hours_left(Ts(7_200, 1))
    assert found == (None if hours is None else pytest.approx(hours))


@pytest.mark.parametrize(
    ("changes", "full", "forecast", "reach"),
    [
        ({}, True, None, 10.0), ({"recent_bytes_per_hour": 50.0}, True, 20.0, 10.0),
        ({"recent_bytes_per_hour": 200.0}, True, 5.0, 5.0),
        ({"recent_bytes_per_hour": 200.0, "kept_hours": 7.0}, True, 7.0, 7.0),
        ({"recent_bytes_per_hour": 50.0, "kept_hours": 7.0}, True, 20.0, 10.0),
        ({"used_bytes": 950}, True, None, 10.0), ({"used_bytes": 949}, False, None, None),
        ({"used_bytes": 949, "recent_bytes_per_hour": 50.0}, False, 20.0, 20.0),
        ({"used_bytes": None}, False, None, None),
        ({"max_bytes": None, "recent_bytes_per_hour": 50.0}, False, None, None),
        ({"last": None, "recent_bytes_per_hour": 50.0}, True, 20.0, 20.0),
        ({"recent_bytes_per_hour": 0.0, "max_bytes": 0}, False, None, None),
    ],
)  # fmt: skip
def test_how_far_back_the_oplog_will_reach(
    changes: dict[str, Any], full: bool, forecast: float | None, reach: float | None
) -> None:
    found = replace(OplogWindow(Ts(0, 1), Ts(36_000, 1), 1_000, 1_000, 100.0), **changes)
    assert (found.is_full, found.forecast_hours, found.reach_hours) == (full, forecast, reach)
