"""What comes back to the live set, and what stays: the emitted script as it stands, against records kept outside."""

from __future__ import annotations

import pytest
from bson import Int64
from restore_scene import Scene

pytestmark = [pytest.mark.live, pytest.mark.tools]


@pytest.mark.parametrize("accident", ["drop", "set back", "deleteMany"])
async def test_a_counter_that_starts_again_at_one_is_raised(scene: Scene, accident: str) -> None:
    shop = scene.client["shop"]
    shop.counters.insert_many([{"_id": "orders", "seq": Int64(1000)}, {"_id": "other", "seq": 1}])
    backup = scene.backup("--oplog")

    def next_id() -> int:
        query, step = {"_id": "orders"}, {"$inc": {"seq": 1}}
        row = shop.counters.find_one_and_update(query, step, upsert=True, return_document=True)
        return int(row["seq"])

    issued = {next_id() for _ in range(5)}
    since = scene.now()
    if accident == "drop":
        shop.counters.drop()
        limit = scene.first_entry({"o.drop": "counters"}, since)
    elif accident == "set back":
        shop.counters.update_one({"_id": "orders"}, {"$set": {"seq": 0}})
        limit = scene.first_entry({"op": "u", "ns": "shop.counters"}, since)
    else:
        shop.counters.delete_many({})
        limit = scene.first_entry({"op": "d", "ns": "shop.counters"}, since)
    assert [next_id() for _ in range(3)] == [1, 2, 3]
    scene.settle()
    incident = await scene.incident(accident, "shop.counters") if accident != "set back" else None
    plan = await scene.plan(backup, limit, incident=incident)
    assert [(row.restored, row.live) for row in plan.reissue if row.id == "orders"] == [(1005, 1005)]
    scene.run(plan)
    assert next_id() == max(issued) + 1
