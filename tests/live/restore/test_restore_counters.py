"""After a restore no counter hands out an id that was handed out before, whatever library wrote it."""

from __future__ import annotations

import pytest
from bson import Int64
from pymongo import ReturnDocument
from restore_scene import Scene, record, same

pytestmark = [pytest.mark.live, pytest.mark.tools]


def issue(scene: Scene) -> dict[str, int]:
    """One id from each of three counters, as three libraries take it."""
    shop = scene.client["shop"]
    after = ReturnDocument.AFTER
    manual = shop.counters.find_one_and_update({"_id": "orders"}, {"$inc": {"seq": 1}}, return_document=after)
    engine = shop["mongoengine.counters"].find_one_and_update(
        {"_id": "invoice.number"}, {"$inc": {"next": 1}}, return_document=after
    )
    mongoose = shop.counters.find_one_and_update(
        {"id": "ticket", "reference_value": None}, {"$inc": {"seq": 1}}, return_document=after
    )
    return {"manual": manual["seq"], "engine": engine["next"], "mongoose": mongoose["seq"]}


async def test_no_id_twice(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.counters.insert_many([
        {"_id": "orders", "seq": Int64(2**40)},
        {"id": "ticket", "reference_value": None, "seq": 7},
    ])  # fmt: skip
    shop["mongoengine.counters"].insert_one({"_id": "invoice.number", "next": 500})
    shop.orders.insert_one({"_id": 1})
    used: dict[str, set[int]] = {"manual": set(), "engine": set(), "mongoose": set()}

    def issue_some(times: int) -> None:
        for _ in range(times):
            for name, number in issue(scene).items():
                assert number not in used[name], f"{name} handed out {number} twice"
                used[name].add(number)

    issue_some(3)
    backup = scene.backup("--oplog")
    issue_some(4)
    before, since = record(scene.client), scene.now()
    shop.orders.insert_one({"_id": 2})
    issue_some(5)
    shop.counters.drop()
    shop["mongoengine.counters"].drop()
    scene.settle()
    plan = await scene.plan(backup, scene.first_entry({"o._id": 2, "ns": "shop.orders"}, since))
    fixes = {(row.ns, row.field): (row.restored, row.live) for row in plan.proof.reissue}
    assert fixes == {
        ("shop.counters", "seq"): fixes[("shop.counters", "seq")],
        ("shop.mongoengine.counters", "next"): (507, 512),
    }
    assert {(row.restored, row.live) for row in plan.proof.reissue} == {(2**40 + 7, 2**40 + 12), (14, 19), (507, 512)}
    assert all("$max" in row.fix for row in plan.proof.reissue)
    scene.must_run(plan, "--until", "verify")
    same(record(scene.spare_client), before)
    scene.must_run(plan)
    issue_some(3)
    found = shop.counters.find_one({"_id": "orders"})
    assert found is not None
    assert isinstance(found["seq"], Int64)
