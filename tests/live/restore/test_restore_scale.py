"""Restores of large collections with the emitted script unchanged, amid a writer. Prints the seconds of each step."""

from __future__ import annotations

import os
import re
import resource
import time
from typing import Any

import pytest
from pymongo import MongoClient
from restore_scene import OtherClient, Scene

from tallyglass.moment import Ts

pytestmark = [pytest.mark.live, pytest.mark.tools, pytest.mark.soak]

_THEIRS = 1_000_000_000
"""The first ``_id`` of the writer's documents."""


def fill(scene: Scene, count: int) -> None:
    for first in range(0, count, 20_000):
        rows: list[dict[str, Any]] = [
            {"_id": n, "v": n, "own": {"a": n, "b": "text"}, "n": 0} for n in range(first, min(first + 20_000, count))
        ]
        scene.client["shop"].orders.insert_many(rows, ordered=False)


class Writer(OtherClient):
    """Inserts documents, and updates the first of them as often."""

    inserted = 0

    def work(self, client: MongoClient[Any]) -> None:
        while not self.stop.wait(0.01):
            client["shop"].orders.insert_one({"_id": _THEIRS + self.inserted, "v": "theirs"})
            client["shop"].orders.update_one({"_id": _THEIRS}, {"$inc": {"n": 1}})
            self.inserted += 1


async def test_a_tenth_of_a_collection_comes_back_at_any_size(scene: Scene) -> None:
    """``TALLYGLASS_RESTORE_DOCUMENTS`` is the size of the collection, of which a deleteMany removes a tenth."""
    count = int(os.environ.get("TALLYGLASS_RESTORE_DOCUMENTS", "200000"))
    lost = count // 10
    fill(scene, count)
    scene.await_out_of_window({"op": "i", "ns": "shop.orders"})
    backup = scene.backup("--oplog")
    orders = scene.client["shop"].orders
    with Writer(scene) as writer:
        since = scene.now()
        orders.delete_many({"_id": {"$lt": lost}})
        scene.settle()
        limit = scene.first_entry({"ns": "shop.orders", "op": "d"}, since)
        begun = time.monotonic()
        plan = await scene.plan(backup, Ts(*limit))
        print(f"plan {time.monotonic() - begun:.1f} s")
        printed = scene.must_run(plan, seconds=7_200)
        whole = time.monotonic() - begun
    print(*re.findall(r"^  \[\d+/\d+\] .*, .*$", printed, re.MULTILINE), sep="\n")
    print(f"{lost:,} of {count:,} documents came back in {whole:.0f} s")
    print(f"at most {resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6:.0f} MB a process")
    ours = {"_id": {"$lt": _THEIRS}}
    assert orders.count_documents(ours) == count
    other = [{"$ne": [f"${name}", "$_id"]} for name in ("v", "own.a")]
    assert orders.count_documents({**ours, "$expr": {"$or": other}}) == 0
    assert orders.count_documents({"v": "theirs"}) == writer.inserted
    assert (orders.find_one({"_id": _THEIRS}) or {})["n"] == writer.inserted
