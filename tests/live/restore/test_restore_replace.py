"""A live collection that is replaced: beside writers, torn in two by a run that was stopped, and through a failover."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Int64
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient, ReturnDocument
from restore_scene import OtherClient, Scene

from server_version import major
from tallyglass.demo.server import ReplicaSet, Standalone
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Strategy

pytestmark = [pytest.mark.live, pytest.mark.tools]

COUNT = 300
EARLIER = 50
"""How many orders ago the one was inserted that the application changes next."""


def next_id(db: Any, name: str = "orders") -> int:
    """Hand out an id, as an application does."""
    row = db.counters.find_one_and_update(
        {"_id": name}, {"$inc": {"seq": Int64(1)}}, upsert=True, return_document=ReturnDocument.AFTER
    )
    return int(row["seq"])


class Shop(OtherClient):
    """An application that hands out ids and inserts orders under them; ``issued`` is its own ledger."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.issued: list[int] = []
        self.paid = 0
        self.busy = threading.Event()

    def work(self, client: MongoClient[Any]) -> None:
        db = client["shop"]
        while not self.stop.wait(0.002):
            number = next_id(db)
            self.issued.append(number)
            db.orders.insert_one({"_id": f"order {len(self.issued)}", "number": number})
            earlier = f"order {len(self.issued) - EARLIER}"
            self.paid += db.orders.update_one({"_id": earlier}, {"$set": {"paid": True}}).modified_count
            if len(self.issued) > 100:
                self.busy.set()


async def replaced(scene: Scene, name: str) -> Plan:
    """``$out`` over a live collection, and the plan to undo it."""
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n, "v": n} for n in range(COUNT)])
    shop.orders.create_index("v")
    shop.counters.insert_many([{"_id": "orders", "seq": Int64(1000)}, {"_id": "bills", "seq": Int64(7)}])
    backup = scene.backup("--oplog")
    since = scene.now()
    shop.other.insert_one({"_id": 1})
    shop.other.aggregate([{"$match": {"_id": 1}}, {"$out": name}])
    scene.settle()
    incident = await scene.incident("out", f"shop.{name}")
    assert (incident.point or incident.first) > since
    plan = await scene.plan(backup, incident.point or incident.first, incident=incident)
    assert [(row.ns, row.strategy) for row in plan.undo.returns] == [(f"shop.{name}", Strategy.REPLACE)]
    return plan


class Numbers(OtherClient):
    """An application that only hands out ids, as fast as it can."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.issued: list[int] = []

    def work(self, client: MongoClient[Any]) -> None:
        while not self.stop.is_set():
            self.issued.append(next_id(client["shop"]))


async def test_a_collection_is_replaced_while_it_is_written(scene: Scene) -> None:
    plan = await replaced(scene, "orders")
    shop = scene.client["shop"]
    with Shop(scene) as application:
        assert application.busy.wait(60)
        done = scene.run(plan)
        count = len(application.issued)
        await asyncio.to_thread(until, lambda: len(application.issued) > count + 100)
    assert done.returncode == 0, done.stderr
    inserted = list(shop.orders.find({"number": {"$exists": True}}))
    assert sorted(row["number"] for row in inserted) == application.issued, "no order lost"
    assert sum(row.get("paid", False) for row in inserted) == application.paid, "no acknowledged update lost"
    # An update that comes within milliseconds of the change of names may find nothing.
    assert len(inserted) - EARLIER - application.paid < EARLIER // 2
    assert {row["_id"]: row["v"] for row in shop.orders.find({"v": {"$exists": True}})} == {n: n for n in range(COUNT)}
    (row,) = plan.undo.returns
    left = {row.ns.partition(".")[2], row.away.partition(".")[2], "counters", "other"}
    assert set(shop.list_collection_names()) == left


async def test_a_replacement_is_not_emptied_by_its_ttl_index(scene: Scene) -> None:
    """Neither before it is live nor afterwards: the index is there without its expiry, and a person sets it back."""
    shop, old = scene.client["shop"], datetime.now(UTC) - timedelta(days=2)
    scene.client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
    try:
        shop.orders.create_index("at", expireAfterSeconds=3600)
        shop.orders.create_index("n", unique=True, sparse=True)
        shop.orders.insert_many([{"_id": f"expired {n}", "at": old, "n": n} for n in range(10)])
        plan = await replaced(scene, "orders")
    finally:
        scene.client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
    done = scene.run(plan)
    assert done.returncode == 3, done.stderr
    assert "would remove 10 documents within a minute" in done.stderr
    assert shop.orders.count_documents({}) == COUNT + 10
    found = {index["name"]: index.get("expireAfterSeconds") for index in shop.orders.list_indexes()}
    assert found == {"_id_": None, "at_1": None, "n_1": None, "v_1": None}
    (left,) = (scene.folder / "work" / "still-damaged.jsonl").read_text().splitlines()
    assert "at_1" in left
    if major() >= (5, 1):
        shop.command("collMod", "orders", index={"name": "at_1", "expireAfterSeconds": 3600})
    else:
        shop.orders.drop_index("at_1")
        shop.orders.create_index("at", expireAfterSeconds=3600)
    assert scene.run(plan).returncode == 0


async def test_counters_are_replaced_while_they_move(scene: Scene) -> None:
    plan = await replaced(scene, "counters")
    counters = scene.client["shop"].counters
    counters.update_one({"_id": "orders"}, {"$inc": {"seq": Int64(5_000)}}, upsert=True)
    with Numbers(scene) as application:
        done = scene.run(plan)
        count = len(application.issued)
        await asyncio.to_thread(until, lambda: len(application.issued) > count + 100)
    assert done.returncode == 0, done.stderr
    assert application.issued == sorted(set(application.issued)), "no number twice"
    assert counters.count_documents({"_id": "bills", "seq": 7}) == 1


async def test_no_update_meets_a_counter_with_one_field_name_twice(scene: Scene) -> None:
    counters = scene.client["shop"].counters
    field = bson.encode({"seq": Int64(5)})[4:-1]
    body = bson.encode({"_id": "twice"})[4:-1] + 2 * field
    twice = RawBSONDocument((len(body) + 5).to_bytes(4, "little") + body + b"\0")
    counters.insert_one(twice)
    plan = await replaced(scene, "counters")
    counters.insert_one({"_id": "twice", "seq": Int64(9)})
    done = scene.run(plan)
    assert done.returncode == 1, done.stderr
    assert "[name-twice]" in done.stderr
    assert counters.find_one({"_id": "twice"}) == {"_id": "twice", "seq": 9}, (
        "the primary is there, and nothing changed"
    )


def stopped_before_the_names_change(scene: Scene, plan: Plan) -> None:
    """Run the script with a mongosh that fails where the names would change."""
    real, stop = scene.path, scene.folder / "stop"
    stop.mkdir()
    (stop / "mongosh").write_text("#!/bin/sh\nexit 9\n")
    (stop / "mongosh").chmod(0o755)
    scene.path = f"{stop}:{real}"
    assert "[step-failed]" in scene.run(plan).stderr
    scene.path = real


async def test_a_collection_that_the_application_created_between_two_renames_is_put_together(scene: Scene) -> None:
    shop = scene.client["shop"]
    plan = await replaced(scene, "orders")
    (row,) = plan.undo.returns
    shop.orders.insert_one({"_id": "since"})
    stopped_before_the_names_change(scene, plan)
    shop.orders.rename(row.away.partition(".")[2])
    shop.orders.insert_one({"_id": "again", "v": 1})
    shop.orders.update_one({"_id": 5}, {"$set": {"paid": True}}, upsert=True)
    done = scene.run(plan)
    assert done.returncode == 3, done.stderr
    held = {one["_id"]: one for one in shop.orders.find()}
    assert held.pop("again") == {"_id": "again", "v": 1}
    assert held.pop(5) == {"_id": 5, "paid": True}, "what the application wrote stays"
    assert held.pop("since") == {"_id": "since"}
    assert held == {n: {"_id": n, "v": n} for n in range(COUNT) if n != 5}
    assert "v_1" in shop.orders.index_information()
    (line,) = (scene.folder / "work" / "still-damaged.jsonl").read_text().splitlines()
    assert json.loads(line)["_id"] == {"$numberInt": "5"}
    left = shop[row.beside.partition(".")[2]]
    assert list(left.find()) == [{"_id": 5, "v": 5}], "what should have come back is kept"
    left.drop()
    scene.must_run(plan)


async def test_counters_that_began_again_between_two_renames_hand_out_no_number_again(scene: Scene) -> None:
    shop = scene.client["shop"]
    plan = await replaced(scene, "counters")
    (row,) = plan.undo.returns
    issued = [next_id(shop, "new") for _ in range(4)]
    stopped_before_the_names_change(scene, plan)
    shop.counters.rename(row.away.partition(".")[2])
    assert [next_id(shop), next_id(shop, "new")] == [1, 1]
    done = scene.run(plan)
    assert done.returncode == 3, done.stderr
    assert "The numbers from 1 to 4 may have been handed out twice." in done.stderr, "as it happened before this run"
    assert [next_id(shop), next_id(shop, "bills"), next_id(shop, "new")] == [1001, 8, max(issued) + 1]


@pytest.fixture
def three_members() -> Iterator[ReplicaSet]:
    """A set whose default is that one member alone acknowledges a write."""
    with ReplicaSet(3, options=["--setParameter", "enableTestCommands=1"]) as servers:
        with servers.client() as client:
            client.admin.command("setDefaultRWConcern", 1, defaultWriteConcern={"w": 1})
        yield servers


def pause_replication(servers: ReplicaSet, primary: int, mode: str) -> None:
    for index in {0, 1, 2} - {primary}:
        with servers.client(index, w=1) as client:
            client.admin.command("configureFailPoint", "stopReplProducer", mode=mode)


STILL = timedelta(seconds=3)


def until(happened: Callable[[], bool]) -> None:
    """Wait until it has happened."""
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def waits_for_others(servers: ReplicaSet, primary: int) -> bool:
    """Whether the return began to write, and does not go on: it waits for a majority."""
    with servers.client(primary) as client:
        query = {"ns": {"$regex": "^shop"}, "op": {"$in": ["i", "c"]}}
        last = client.local["oplog.rs"].find_one(query, sort=[("$natural", -1)])
        assert last is not None
        return (
            "_pitr_" in f"{last['ns']} {last['o']}"
            and client.admin.command("hello")["localTime"] - last["wall"] > STILL
        )


@pytest.mark.parametrize("lags", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["behind", "control"])
async def test_what_is_reported_as_restored_survives_a_failover(
    three_members: ReplicaSet, spare: Standalone, tmp_path: Path, tool_path: str, lags: bool
) -> None:
    """The other members are behind when the primary is killed, or it is killed after the end."""
    scene = Scene(three_members, spare, tmp_path, tool_path)
    orders = scene.client["shop"]["orders"]
    orders.insert_many([{"_id": n} for n in range(3_000)])
    backup = scene.backup("--oplog")
    orders.delete_many({})
    scene.settle()
    incident = await scene.incident("deleteMany", "shop.orders")
    plan = await scene.plan(backup, incident.point or incident.first, incident=incident)
    scene.must_run(plan, "--until", "verify")
    primary = three_members.await_primary()
    if lags:
        pause_replication(three_members, primary, "alwaysOn")
    running = asyncio.create_task(asyncio.to_thread(scene.run, plan))
    await asyncio.to_thread(until, lambda: running.done() or (lags and waits_for_others(three_members, primary)))
    three_members.kill(primary)
    if lags:
        pause_replication(three_members, primary, "off")
    three_members.await_primary()
    done = await running
    assert done.returncode or orders.count_documents({}) == 3_000, done.stderr
    assert lags or not done.returncode, done.stderr
    three_members.restart(primary)
    scene.must_run(plan)
    assert orders.count_documents({}) == 3_000
    scene.close()
