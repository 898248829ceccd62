"""A forecast from the first second, from hours that the server's oplog remembers and weeks that ObjectIds tell."""

from __future__ import annotations

import math
import random
import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson import Int64, ObjectId, Timestamp
from gateways import OpenGateway
from tests.builders.backdate import hours_ago, write_past

from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import Watcher, look
from tallyglass.counters.history.oplog_samples import SLICES, OplogPast, PastValue
from tallyglass.counters.history.store import SampleStore
from tallyglass.counters.snapshot import CountersSnapshot, CounterView, Flag, NumericType
from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import Namespace

pytestmark = pytest.mark.live

SPAN = 10**6


def update(at: float, ns: str, identity: Any, field: str, value: float) -> dict[str, Any]:
    return {"at": at, "op": "u", "ns": ns, "o": {"$v": 2, "diff": {"u": {field: value}}}, "o2": {"_id": identity}}


def made_at(at: float, number: int) -> ObjectId:
    """An ObjectId of a moment."""
    return ObjectId(ObjectId.from_datetime(datetime.fromtimestamp(at, UTC)).binary[:4] + number.to_bytes(8, "big"))


async def look_at(servers: ReplicaSet, settings: WatchSettings) -> CountersSnapshot:
    gateway = open_gateway(servers.uri)
    try:
        return await look(gateway, settings)
    finally:
        await gateway.close()


@pytest.mark.since(6, 0)
async def test_hours_of_oplog_give_a_band_in_the_first_snapshot(
    one_member: ReplicaSet, gateway_to: OpenGateway
) -> None:
    rng = random.Random(1)
    start, count = hours_ago(12), 3_000
    entries: list[dict[str, Any]] = []
    pool = {n: n * SPAN for n in range(200)}
    for n in range(count):
        at = start + n * 12 * 3600 / count
        number = rng.randrange(200)
        pool[number] += 1_000
        entries += [
            update(at, "shop.counters", "orders", "seq", n),
            update(at, "shop.pool", number, "COUNT", Int64(pool[number])),
            update(at, "shop.carts", n, "total", n),
        ]
        if n == count // 2:
            entries.append(update(at, "shop.counters", "wild", "seq", 70))
            entries.append(update(at + 1, "shop.counters", "wild", "seq", 71.0))
            entries.append(update(at, "shop.counters", "back", "seq", 9_000))
    with one_member.client() as client:
        client.shop.counters.insert_many(
            [{"_id": "orders", "seq": count}, {"_id": "wild", "seq": 90.0}, {"_id": "back", "seq": 500}]
        )
        client.shop.pool.insert_many(
            [{"_id": n, "COUNT": Int64(next_id), "MAX_VALUE": Int64((n + 1) * SPAN - 1)} for n, next_id in pool.items()]
        )
    write_past(one_member, entries)
    gateway = gateway_to(one_member.uri)
    snapshot = await look(gateway)
    found = {counter.id: counter for counter in snapshot.counters}
    orders = found["orders"]
    assert orders.forecast.rate == pytest.approx(count / (12 * 3600), rel=0.05)
    assert orders.forecast.history_seconds == pytest.approx(12 * 3600, rel=0.05)
    assert orders.forecast.steps > 1_000
    assert orders.crossing is not None
    assert orders.crossing.spread is not None
    assert len(orders.history) > 100
    # A pool of 200 million ids, 6 million of them gone in 12 hours: its end lies within what 12 hours can tell.
    accounts = found["pool"]
    assert accounts.pool is not None
    assert accounts.forecast.rate == pytest.approx(1_000 * count / (12 * 3600), rel=0.15)
    assert accounts.forecast.spread is not None
    assert found["wild"].notes[0].startswith("Turned from int32 into double at ")
    assert found["back"].flags == (Flag.REWOUND,)


@pytest.mark.since(6, 0)
async def test_a_dashboard_on_a_slow_oplog_agrees_with_a_fresh_one(
    one_member: ReplicaSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A day, with hours at three times the load of others: a few slices tell another rate than all of them.
    start, number, entries = hours_ago(24), 0, []
    for minute in range(24 * 60):
        number += 3 if minute // 60 % 4 == 0 else 1
        entries.append(update(start + 60 * minute, "shop.counters", "orders", "seq", number))
    with one_member.client() as client:
        client.shop.counters.insert_one({"_id": "orders", "seq": number})
    write_past(one_member, entries)
    (fresh,) = (await look_at(one_member, WatchSettings())).counters
    advance = OplogPast.advance

    async def few_at_once(past: OplogPast, _: float) -> bool:
        return await advance(past, float("-inf"))

    monkeypatch.setattr(OplogPast, "advance", few_at_once)
    gateway = open_gateway(one_member.uri)
    watcher = Watcher(gateway, WatchSettings())
    try:
        views = [(await watcher.refresh(1)).counters[0] for _ in range(SLICES // 4 + 2)]
    finally:
        await watcher.close()
        await gateway.close()
    # It says nothing of the past before it knows all of it.
    assert {round(view.forecast.history_seconds / 3600) for view in views} == {0, 24}
    for running, one in zip(_figures(views[-1]), _figures(fresh), strict=True):
        assert running == pytest.approx(one, rel=0.05)


async def test_new_documents_of_a_group_are_not_read_from_the_oplog(
    one_member: ReplicaSet, gateway_to: OpenGateway
) -> None:
    start, members = hours_ago(1), range(300)
    rows = [{"_id": f"tenant {n}", "seq": n} for n in members]
    entries: list[dict[str, Any]] = [
        {"at": start, "op": "i", "ns": f"shop.{name}", "o": row, "o2": {"_id": row["_id"]}}
        for name in ("many_counters", "counters")
        for row in (rows if name == "many_counters" else rows[:2])
    ]
    entries += [update(start + 60 * n, "shop.many_counters", "tenant 7", "seq", n) for n in range(1, 8)]
    with one_member.client() as client:
        client.shop.many_counters.insert_many(rows)
        client.shop.counters.insert_many(rows[:2])
    write_past(one_member, entries)
    gateway = gateway_to(one_member.uri)
    many, few = Namespace("shop", "many_counters"), Namespace("shop", "counters")
    found = []
    for grouped in ([many], []):
        past = OplogPast(gateway, {many: ("seq",), few: ("seq",)}, Timestamp(int(time.time()), 0), grouped)
        assert await past.advance(math.inf)
        found.append({ns.collection: len(by_key) for ns, by_key in past.values.items()})
    watcher = Watcher(gateway, WatchSettings())
    await watcher.refresh(math.inf, patient=True)
    (group,) = [collection for collection in watcher._collections.by_ns.values() if collection.groups]
    await watcher.close()
    assert found == [{"many_counters": 1, "counters": 2}, {"many_counters": 300, "counters": 2}]
    (history,) = [one.series for key, one in group.groups["seq"].followed.items() if key == "tenant 7"]
    assert history.steps > 3


def _figures(counter: CounterView) -> tuple[float, ...]:
    crossing = counter.crossing
    assert crossing is not None
    assert crossing.rate is not None
    assert crossing.spread is not None
    return crossing.rate, crossing.history_seconds, crossing.steps, crossing.spread


async def test_weeks_of_object_ids_give_dates(one_member: ReplicaSet) -> None:
    days, each = 35, 40
    now = time.time()
    with one_member.client() as client:
        client.shop.invoices.create_index("number", unique=True)
        client.shop.invoices.insert_many(
            [{"_id": made_at(now - days * 86_400 + n * 86_400 / each, n), "number": n} for n in range(1, days * each)]
        )
        client.shop["mongoengine.counters"].insert_one({"_id": "invoices.number", "next": days * each})
    config = WatchSettings(oplog_history=False)
    (counter,) = (await look_at(one_member, config)).counters
    assert counter.drift == 1
    assert counter.forecast.rate == pytest.approx(each / 86_400, rel=0.05)
    assert counter.forecast.basis in ("28 days", "35 days")


async def test_a_growth_is_seen_in_object_ids(one_member: ReplicaSet) -> None:
    # 15 % a day for 40 days: half of the ids are of the last 5. They will last 14 days more.
    daily, days, now = 0.15, 40, time.time()
    newest = round((2**31 - 1) / (1 + daily) ** 14)
    moments = [now - days * 86_400 * n / 2_000 for n in range(2_000)]
    rows = [{"_id": made_at(at, n), "number": round(newest * (1 + daily) ** ((at - now) / 86_400))}
            for n, at in enumerate(moments)]  # fmt: skip
    # Imported: an old number in a new document, and the other way round.
    rows += [
        {"_id": made_at(now - 86_400, 9_001), "number": 3},
        {"_id": made_at(now - 39 * 86_400, 9_002), "number": newest - 5},
    ]
    with one_member.client() as client:
        client.shop.invoices.create_index("number", unique=True)
        client.shop.invoices.insert_many(rows)
        client.shop["mongoengine.counters"].insert_one({"_id": "invoices.number", "next": newest})
    (counter,) = (await look_at(one_member, WatchSettings(oplog_history=False))).counters
    assert counter.crossing is not None
    assert counter.crossing.likely is not None
    assert (counter.crossing.likely.timestamp() - now) / 86_400 == pytest.approx(14, rel=0.1)


async def test_samples_of_earlier_runs_reach_beyond_the_oplog(one_member: ReplicaSet, tmp_path: Path) -> None:
    path = tmp_path / "counters.sqlite"
    settings = WatchSettings(history_path=path)
    with one_member.client() as client:
        client.shop.counters.insert_one({"_id": "orders", "seq": 10_000})
    await look_at(one_member, settings)
    store = SampleStore(path)
    with closing(sqlite3.connect(path)) as connection:
        (deployment,) = {row[0] for row in connection.execute("SELECT deployment FROM sample")}
    now = time.time()
    key = "shop.counters/orders/seq"
    hours = [(key, PastValue(now - n * 3600, 10_000 - n * 10, NumericType.INT32)) for n in range(2, 24 * 15)]
    store.save(deployment, hours, now)
    store.close()
    (counter,) = (await look_at(one_member, settings)).counters
    assert counter.key == key
    assert counter.forecast.basis == "14 days"
    assert counter.forecast.rate == pytest.approx(10 / 3600, rel=0.02)
