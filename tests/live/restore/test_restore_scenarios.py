"""Real servers: back up, keep writing, have the accident, plan, run the emitted script unchanged, and compare.

The record of what was right is taken from the live set itself, just before the accident or, amid other writers,
from the server's own memory of that moment (a snapshot read).
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from bson import Int64
from pymongo import UpdateOne
from restore_scene import Scene, State, ids, record, same

from tallyglass.moment import Ts
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.step import RunMode
from tallyglass.restore.model.undo import Strategy
from tallyglass.restore.plan.folder import write_folder

pytestmark = [pytest.mark.live, pytest.mark.tools]


def orders(scene: Scene, first: int = 0, last: int = 100, name: str = "orders") -> None:
    """Fill a collection. ``name`` it where the scan must find the incident: what other scenarios did again and again
    to ``shop.orders`` makes one more such act look like routine."""
    scene.client["shop"][name].insert_many([{"_id": n, "v": n, "n": Int64(n)} for n in range(first, last)])


async def rehearse(scene: Scene, backup: Path, limit: Ts, wanted: State, **more: Any) -> Plan:
    """Plan, run the script as far as the verification, and compare the spare with the record."""
    plan = await scene.plan(backup, limit, **more)
    scene.must_run(plan, "--until", "verify")
    same(record(scene.spare_client), wanted)
    return plan


async def test_a_dropped_collection_comes_back_whole(scene: Scene) -> None:
    shop = scene.client["shop"]
    orders(scene)
    shop.orders.create_index("v", unique=True)
    backup = scene.backup("--oplog")
    orders(scene, 100, 150)
    shop.orders.update_many({"_id": {"$lt": 5}}, {"$set": {"late": True}})
    shop.orders.delete_one({"_id": 7})
    before, since = record(scene.client), scene.now()
    shop.orders.drop()
    shop.other.insert_one({"_id": 1})
    scene.settle()
    plan = await rehearse(scene, backup, scene.first_entry({"o.drop": "orders"}, since), before)
    assert plan.level is Level.WARN
    assert [(row.ns, row.strategy) for row in plan.undo.returns] == [("shop.orders", Strategy.WHOLE)]
    output = scene.must_run(plan)
    # How many depends on what ended just before the backup: leftovers of its replay are one step more.
    rehearsed = [step for step in plan.steps.commands if step.phase in ("secure", "restore", "verify")]
    assert output.count("(done before)") == len(rehearsed) >= 6
    after = record(scene.client)
    assert after["shop.orders"] == before["shop.orders"]
    assert len(after["shop.other"][3]) == 1
    assert "is not a spare" not in output


async def test_a_dropped_database(scene: Scene) -> None:
    shop = scene.client["shop"]
    orders(scene)
    shop["odd name"].insert_one({"_id": "x"})
    backup = scene.backup("--oplog", "--gzip")
    orders(scene, 100, 130)
    before, since = record(scene.client), scene.now()
    scene.client.drop_database("shop")
    scene.settle()
    wrong = await scene.plan(backup, scene.first_entry({"o.dropDatabase": 1}, since))
    assert "inside-incident" in ids(wrong, Level.WARN)
    await rehearse(scene, backup, scene.first_entry({"ns": "shop.$cmd", "o.drop": {"$exists": True}}, since), before)


@pytest.mark.smoke
@pytest.mark.since(5, 0)
async def test_delete_many_amid_other_writers(scene: Scene) -> None:
    shop = scene.client["shop"]
    orders(scene, 0, 400, "amid_others")
    backup = scene.backup("--oplog")
    stop = threading.Event()
    other = threading.Thread(target=_write_on, args=(scene, stop))
    other.start()
    try:
        since = scene.now()
        shop.amid_others.delete_many({"_id": {"$lt": 200}})
        scene.settle()
        incident = await scene.incident("deleteMany", "shop.amid_others")
        assert incident.first > since
    finally:
        stop.set()
        other.join()
    shop.amid_others.delete_one({"_id": 399})
    scene.settle()
    limit = incident.point or incident.first
    before = record(scene.client, scene.entry_before(limit), databases=("shop",))
    plan = await rehearse(scene, backup, limit, before, incident=incident)
    scene.must_run(plan)
    live = {row["_id"] for row in shop.amid_others.find({}, {"_id": 1})}
    assert set(range(399)) <= live, "what the mistake deleted is back"
    assert 399 not in live, "what was deleted later on purpose stays deleted"
    assert shop.amid_others.find_one({"_id": 300}) == {"_id": 300, "v": "new", "n": 300}, "later writes stay"
    assert not [name for name in shop.list_collection_names() if "pitr" in name]


def _write_on(scene: Scene, stop: threading.Event) -> None:
    with scene.source.client() as client:
        number = 1000
        client["shop"].amid_others.update_one({"_id": 300}, {"$set": {"v": "new"}})
        while not stop.is_set():
            client["shop"].amid_others.insert_one({"_id": number, "v": number})
            client["shop"].amid_others.update_one({"_id": 300}, {"$set": {"v": "new"}})
            number += 1


async def test_a_bad_update_many(scene: Scene) -> None:
    shop = scene.client["shop"]
    orders(scene, name="updated")
    odd = [{"b": n, "1": {"0": n}} for n in range(3)]  # ids whose fields JavaScript would bring into another order
    shop.updated.insert_many([{"_id": one, "v": "odd"} for one in odd])
    backup = scene.backup("--oplog")
    before, since = record(scene.client), scene.now()
    shop.updated.update_many({"_id": {"$not": {"$gte": 50}}}, {"$set": {"v": 0}})
    shop.updated.update_one({"_id": 3}, {"$set": {"v": "by hand"}})
    shop.updated.update_one({"_id": odd[2]}, {"$set": {"v": "by hand"}})
    shop.updated.insert_one({"_id": 500})
    scene.settle()
    incident = await scene.incident("updateMany", "shop.updated")
    assert incident.first > since
    plan = await rehearse(scene, backup, incident.first, before, incident=incident)
    shop.updated.update_one({"_id": 4}, {"$set": {"v": "since the plan"}})
    shop.updated.delete_one({"_id": 5})
    scene.must_run(plan)
    assert [row["v"] for row in shop.updated.find({"_id": {"$in": odd}}).sort("_id")] == ["odd", "odd", "by hand"]
    found = {row["_id"]: row.get("v") for row in shop.updated.find({"_id": {"$nin": odd}})}
    wanted = {n: n for n in range(100) if n != 5}
    assert found == wanted | {3: "by hand", 4: "since the plan", 500: None}


async def test_counters_that_out_replaced(scene: Scene) -> None:
    shop = scene.client["shop"]
    orders(scene)
    shop.counters.insert_many([{"_id": "orders", "seq": Int64(40)}, {"_id": "bills", "seq": 7}])
    shop.counters.create_index("seq")
    backup = scene.backup("--oplog")
    shop.counters.update_one({"_id": "orders"}, {"$inc": {"seq": 60}})
    before, since = record(scene.client), scene.now()
    shop.orders.aggregate([{"$match": {"_id": 1}}, {"$out": "counters"}])
    scene.settle()
    incident = await scene.incident("out", "shop.counters")
    assert (incident.point or incident.first) > since
    plan = await scene.plan(backup, incident.point or incident.first, incident=incident)
    assert [(row.ns, row.strategy) for row in plan.undo.returns] == [("shop.counters", Strategy.REPLACE)]
    # What is handed out after the plan is known to the live collection alone.
    shop.counters.update_one({"_id": "orders"}, {"$inc": {"seq": 120}}, upsert=True)
    shop.counters.update_one({"_id": "begun since"}, {"$inc": {"seq": 3}}, upsert=True)
    scene.must_run(plan)
    after = record(scene.client)
    held = {row["_id"]: row["seq"] for row in shop.counters.find()}
    assert held == {"orders": 220, "bills": 7, "begun since": 103}, "a hundred beyond the live ones"
    assert after["shop.counters"][2] == before["shop.counters"][2], "indexes"
    (kept,) = [ns for ns in after if "before_restore" in ns]
    assert len(after[kept][3]) == 3
    assert len(after) == len(before) + 2, "nothing else came back"


async def test_indexes_that_were_dropped_and_changed(scene: Scene) -> None:
    shop = scene.client["shop"]
    orders(scene)
    shop.orders.create_index("v", expireAfterSeconds=3600, name="it's v")
    shop.orders.create_index([("n", 1), ("v", -1)], unique=True)
    backup = scene.backup("--oplog")
    before, since = record(scene.client), scene.now()
    shop.command({"collMod": "orders", "index": {"name": "it's v", "expireAfterSeconds": 1}})
    shop.orders.drop_index("n_1_v_-1")
    shop.orders.create_index("since")
    scene.settle()
    plan = await scene.plan(backup, scene.first_entry({"o.collMod": "orders"}, since))
    assert "definitions" in ids(plan, Level.WARN)
    (step,) = [command for command in plan.steps.commands if command.mode is RunMode.BY_HAND]
    scene.tool("bash", "-c", f"cd {write_folder(plan, Path(plan.steps.work_dir))} && {step.shell}")
    after = record(scene.client)["shop.orders"][2]
    assert set(after) == {*before["shop.orders"][2], *(one for one in after if '"since"' in one)}
    assert len(after) == 4


async def test_bad_and_cut_and_straddling_transactions(scene: Scene) -> None:
    shop = scene.client["shop"]
    scene.await_out_of_window({"o.collMod": {"$exists": True}})
    orders(scene)
    shop.create_collection("big")
    with scene.client.start_session() as session:
        with session.start_transaction():
            shop.big.insert_many([{"_id": n, "fill": "x"} for n in range(40)], session=session)
        inside = scene.newest_of({"o.partialTxn": {"$exists": False}, "o.applyOps": {"$exists": True}})
        backup = scene.backup()
        with session.start_transaction():
            shop.orders.update_one({"_id": 1}, {"$set": {"v": "kept"}}, session=session)
            shop.orders.delete_one({"_id": 2}, session=session)
        before = record(scene.client)
        with session.start_transaction():
            shop.big.insert_many([{"_id": 100 + n, "fill": "y"} for n in range(40)], session=session)
            shop.orders.delete_many({"_id": {"$lt": 20}}, session=session)
    scene.settle()
    last = scene.newest_of({"o.count": {"$exists": True}, "o.applyOps": {"$exists": True}})
    plan = await rehearse(scene, backup, last, before, backup_start=inside)
    assert "open-transaction" in ids(plan, Level.WARN)
    assert plan.proof.start is not None
    assert plan.proof.start < inside


async def test_backup_under_load_with_a_sidecar(scene: Scene) -> None:
    orders(scene, 0, 300)
    stop = threading.Event()
    other = threading.Thread(target=_write_hard, args=(scene, stop))
    other.start()
    try:
        prepared = await scene.prepare()
        backup = scene.backup("--oplog")
    finally:
        stop.set()
        other.join()
    assert prepared.exists()
    assert (backup / "oplog.bson").stat().st_size, "nothing was written while mongodump read"
    before, since = record(scene.client), scene.now()
    scene.client["shop"].orders.drop()
    scene.settle()
    plan = await rehearse(scene, backup, scene.first_entry({"o.drop": "orders"}, since), before)
    assert plan.from_backup.backup.source == "sidecar"


def _write_hard(scene: Scene, stop: threading.Event) -> None:
    with scene.source.client() as client:
        number = 1000
        while not stop.is_set():
            shop = client["shop"]
            shop.orders.bulk_write([UpdateOne({"_id": n}, {"$inc": {"v": 1}}) for n in range(number % 7, 300, 7)])
            shop.orders.insert_one({"_id": number, "v": number})
            shop.orders.delete_one({"_id": number - 3})
            shop[f"made_{number}"].insert_one({"_id": number})
            if number % 3 == 0:
                shop[f"made_{number - 1}"].drop()
            number += 1
