"""Everything a database can hold, in one window: the spare is the same to the byte."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from pymongo import MongoClient
from restore_scene import Scene, copy_of_data, ids, record, same, start_copy

from server_version import major
from tallyglass.restore.model.check import Level

pytestmark = [pytest.mark.live, pytest.mark.tools]

NAMES = [
    "with space", 'quote"double', "quote'single", "new\nline", "tab\tand\x1besc", "Größe_日本", "-rf", "--uri=x", "a*b",
    "back\\slash",     "semi;id", "`id`", "50%", "plus+",
]  # fmt: skip
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def build(scene: Scene) -> None:
    """What is in the backup."""
    shop = scene.client["shop"]
    shop.create_collection("events", capped=True, size=4096, max=5)
    shop.create_collection("strict", validator={"n": {"$gte": 0}}, validationAction="error")
    shop.orders.insert_many([{"_id": n, "v": n, "code": f"c{n}"} for n in range(50)])
    shop.orders.create_index("code", unique=True)
    shop.orders.create_index("v", expireAfterSeconds=3600, name="ttl")
    shop.create_collection("cheap", viewOn="orders", pipeline=[{"$match": {"v": {"$lt": 5}}}])
    shop.old_name.insert_many([{"_id": n} for n in range(10)])
    shop.old_name.create_index("x")
    shop.summed.insert_one({"_id": "old"})
    shop.summed.create_index("total")
    if major() >= (5, 0):
        shop.create_collection("weather", timeseries={"timeField": "at", "metaField": "where"})
        shop.weather.insert_many([{"at": EPOCH + timedelta(minutes=n), "where": n % 2, "c": n} for n in range(20)])
    for name in NAMES:
        shop.get_collection(name).insert_one({"_id": 1, "name": name})


def go_on(scene: Scene) -> None:
    """What happens between the backup and the point."""
    shop = scene.client["shop"]
    shop.events.insert_many([{"_id": n} for n in range(12)])
    if major() >= (5, 0):
        shop.weather.insert_many([{"at": EPOCH + timedelta(hours=n), "where": 1, "c": n} for n in range(20)])
    shop.strict.insert_one({"_id": 1, "n": 1})
    shop.command({"collMod": "strict", "validationAction": "warn"})
    shop.strict.insert_one({"_id": 2, "n": -1})
    shop.command({"collMod": "strict", "validator": {"n": {"$gte": 10}}, "validationAction": "error"})
    shop.command({"collMod": "orders", "index": {"name": "ttl", "expireAfterSeconds": 7200}})
    shop.orders.drop_index("code_1")
    shop.orders.update_one({"_id": 0}, {"$set": {"code": "c1"}})
    shop.orders.update_one({"_id": 1}, {"$set": {"code": "c0"}})
    shop.orders.update_one({"_id": 2}, {"$set": {"code": "c0"}})
    shop.orders.create_index([("code", 1), ("v", -1)])
    shop.old_name.rename("new_name")
    shop.new_name.insert_one({"_id": 99})
    shop.orders.aggregate([{"$group": {"_id": {"$mod": ["$_id", 3]}, "total": {"$sum": "$v"}}}, {"$out": "summed"}])
    shop.create_collection("dear", viewOn="orders", pipeline=[{"$match": {"v": {"$gt": 40}}}])
    shop.command({"collMod": "cheap", "viewOn": "orders", "pipeline": [{"$match": {"v": {"$lt": 2}}}]})
    for name in NAMES:
        shop.get_collection(name).update_one({"_id": 1}, {"$set": {"seen": True}})
    fresh = scene.client["fresh;id"]
    fresh.things.insert_many([{"_id": n} for n in range(5)])
    fresh.things.create_index("w", unique=True, sparse=True)
    fresh.create_collection("seen", viewOn="things", pipeline=[])
    if major() >= (5, 0):
        write_signs(scene)
    scene.client["odd"].types.insert_one(
        {
            "_id": ObjectId(), "b": Binary(b"\x00\xff", 2), "c": Code("f()", {"x": 1}), "d": Decimal128("1.10"), "i": 1,
            "l": Int64(1), "f": -0.0, "r": Regex("a/b", "i"), "t": Timestamp(0, 1), "lo": MinKey(), "hi": MaxKey(),
            "s": "\u202e\x1b]0;x\x07", "n": None, "list": [1, [2, {"k": []}]], "": 1,
        }
    )  # fmt: skip


def write_signs(scene: Scene) -> None:
    """Names of fields that servers take from 5.0 on."""
    signs = scene.client["odd"].signs
    signs.insert_one({"_id": 1, "$price": 1, "a.b": {"$x": 1}})
    signs.replace_one({"_id": 1}, {"_id": 1, "a.b": {"$x": 2, "c.$d": [{"$y": 1}]}})
    field = {"field": {"$literal": "$price"}, "input": "$$ROOT", "value": 5}
    signs.update_one({"_id": 1}, [{"$replaceWith": {"$setField": field}}])


async def test_everything_at_once(scene: Scene) -> None:
    build(scene)
    backup = scene.backup("--oplog")
    go_on(scene)
    before, since = record(scene.client), scene.now()
    scene.client["shop"].orders.drop()
    scene.settle()
    plan = await scene.plan(backup, scene.first_entry({"o.drop": "orders"}, since))
    assert {"renames", "replaced"} <= ids(plan, Level.WARN)
    scene.must_run(plan, "--until", "verify")
    same(record(scene.spare_client), before)


async def test_indexes_of_what_was_replaced_do_not_stop_the_replay(scene: Scene) -> None:
    """mongorestore keeps them under the name: it would build them on what has that name at the end."""
    shop = scene.client["shop"]
    for name in ("twice", "unique", "view"):
        shop[name].insert_many([{"_id": n, "v": n} for n in range(5)])
        shop[f"new_{name}"].insert_many([{"_id": n, "v": 0} for n in range(6)])
        shop[name].create_index("v", name="old", unique=name == "unique")
    backup = scene.backup("--oplog")
    shop.new_twice.create_index("v", name="new", expireAfterSeconds=3600, partialFilterExpression={"v": Int64(0)})
    for name in ("twice", "unique"):
        shop[f"new_{name}"].rename(name, dropTarget=True)
    shop.twice.create_index("v", name="newer", collation={"locale": "fr"})
    shop.command({"collMod": "twice", "index": {"name": "newer", "hidden": True}})
    shop.view.rename("no_view")
    shop.no_view.create_index([("w", -1)], unique=True, sparse=True)
    shop.create_collection("view", viewOn="no_view", pipeline=[])
    before, since = record(scene.client), scene.now()
    shop.unique.drop()
    scene.settle()
    plan = await scene.plan(backup, scene.first_entry({"o.drop": "unique"}, since))
    scene.must_run(plan, "--until", "verify")
    same(record(scene.spare_client), before)


@pytest.mark.soak
async def test_all_of_it_comes_back_to_the_live_set(scene: Scene) -> None:
    build(scene)
    backup = scene.backup("--oplog", "--gzip")
    go_on(scene)
    before, since = record(scene.client), scene.now()
    scene.client.drop_database("shop")
    scene.client["shop"].orders.insert_one({"_id": 1000})
    scene.settle()
    incident = await scene.incident("dropDatabase", "shop")
    assert incident.first > since
    plan = await scene.plan(backup, incident.point or incident.first, incident=incident)
    scene.must_run(plan, "--until", "verify")
    same(record(scene.spare_client), before)
    scene.must_run(plan)
    after = record(scene.client)
    assert len(after["shop.orders"][3]) == len(before["shop.orders"][3]) + 1
    left = {ns: row for ns, row in before.items() if ns != "shop.orders"}
    same({ns: row for ns, row in after.items() if ns in left}, left)


async def test_a_unique_index_of_data_files_that_is_dropped_does_not_stop_the_replay(scene: Scene) -> None:
    """The copy still has it: a value that is there twice afterwards would be refused."""
    shop = scene.client["shop"]
    for name in ("gone", "again", "capped"):
        shop.create_collection(name, **({"capped": True, "size": 4096, "max": 3} if name == "capped" else {}))
        shop[name].insert_many([{"_id": n, "v": n} for n in range(3)])
        shop[name].create_index("v", name="own", unique=True)
    scene.settle()
    backup, _ = copy_of_data(scene)
    shop.gone.rename("moved")
    for name in ("moved", "again"):
        shop[name].drop_index("own")
        shop[name].update_many({}, {"$set": {"v": 7}})
    shop.again.update_one({"_id": 1}, {"$set": {"v": 8}})
    shop.again.delete_one({"_id": 2})
    shop.again.create_index("v", name="own", unique=True)
    shop.command({"collMod": "capped", "cappedMax": 0})  # no limit
    shop.capped.insert_many([{"_id": n, "v": n} for n in range(3, 9)])
    before, since = record(scene.client), scene.now()
    shop.again.drop()
    scene.settle()
    with start_copy(backup, scene.folder) as port, MongoClient("127.0.0.1", port, directConnection=True) as client:
        limit = scene.first_entry({"o.drop": "again"}, since)
        scene.must_run(await scene.plan(backup, limit, spare=f"127.0.0.1:{port}"), "--until", "verify")
        same(record(client), before)
