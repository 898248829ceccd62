"""Random changes of indexes and of the collections under them, before and after a backup, each restored for real.

mongorestore keeps indexes by name and builds them at the end; the plan must know which of them it may build.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import Any

import pytest
from bson import Int64
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from restore_scene import Scene, copy_of_data, ids, record, same, start_copy

from tallyglass.restore.model.check import Level

pytestmark = [pytest.mark.live, pytest.mark.tools, pytest.mark.since(6, 0)]

COLLECTIONS, INDEXES, FIELDS = ("a", "b", "c", "d"), ("one", "two", "three"), ("x", "y", "z")
BEFORE, AFTER = 10, 30
"""Changes before the backup and after it."""

FIRST = 20_261_128
SEEDS = [FIRST + n for n in range(3)]
SOAKED = [pytest.param(FIRST + n, marks=pytest.mark.soak) for n in range(3, 60)]


def build(rng: random.Random, db: Any, name: str) -> None:
    field = rng.choice(FIELDS)
    options: dict[str, Any] = rng.choice([{}, {}, {"v": 1}, {"collation": {"locale": "fr"}}])
    for more in (
        {"unique": True}, {"sparse": True}, {"partialFilterExpression": {field: {"$gt": Int64(1)}}},
        {"expireAfterSeconds": 10**8},
    ):  # fmt: skip
        options |= more if rng.random() < 0.2 else {}
    db[name].create_index([(field, rng.choice([1, -1, "hashed"]))], name=rng.choice(INDEXES), **options)


def change(rng: random.Random, db: Any, name: str) -> None:
    index = rng.choice(INDEXES)
    for one in rng.choice(
        [
            [{"hidden": True}], [{"hidden": False}], [{"expireAfterSeconds": 10**8 + 1}], [{"prepareUnique": True}],
            [{"prepareUnique": False}], [{"prepareUnique": True}, {"unique": True}],
        ]
    ):  # fmt: skip
        db.command({"collMod": name, "index": {"name": index} | one})


def make_again(rng: random.Random, db: Any, name: str) -> None:
    db[name].drop()
    db.create_collection(name, **rng.choice([{}, {"collation": {"locale": "en"}}]))


def insert(rng: random.Random, db: Any, name: str) -> None:
    db[name].insert_many([{rng.choice(FIELDS): rng.randrange(4), "y": rng.randrange(50)} for _ in range(3)])


STEPS: list[Callable[[random.Random, Any, str], object]] = [
    insert, build, build, build, change, change, make_again,
    lambda rng, db, name: db[name].update_many({}, {"$set": {rng.choice(FIELDS): rng.randrange(3)}}),
    lambda rng, db, name: db[name].drop_index(rng.choice(INDEXES)),
    lambda rng, db, name: db[name].drop_index(rng.choice(INDEXES)),
    lambda rng, db, name: db[name].drop_indexes(),
    lambda rng, db, name: db[name].rename(rng.choice(COLLECTIONS)),
    lambda rng, db, name: db[name].rename(rng.choice(COLLECTIONS), dropTarget=True),
    lambda rng, db, name: list(db[name].aggregate([{"$out": rng.choice(COLLECTIONS)}])),
    lambda rng, db, name: db[name].drop(),
    lambda rng, db, name: db.create_collection(name, viewOn="a", pipeline=[]),
]  # fmt: skip


def go_on(rng: random.Random, db: Any, steps: int) -> None:
    """Some of these are refused, as by a unique index: then nothing happens."""
    for _ in range(steps):
        with suppress(PyMongoError):
            rng.choice(STEPS)(rng, db, rng.choice(COLLECTIONS))


@pytest.mark.parametrize("seed", [*SEEDS, *SOAKED])
async def test_whatever_happened_to_indexes_the_spare_is_the_same(scene: Scene, seed: int) -> None:
    rng, db = random.Random(seed), scene.client["fields"]
    for name in COLLECTIONS:
        db[name].insert_many([{"x": n, "y": n, "z": n % 3} for n in range(8)])
    go_on(rng, db, BEFORE)
    db.other.insert_one({})  # mongodump takes no oplog that begins with a rename
    scene.settle()
    of_files = rng.random() < 0.3
    backup = copy_of_data(scene)[0] if of_files else scene.backup("--oplog")
    go_on(rng, db, AFTER)
    before, since = record(scene.client), scene.now()
    db.mark.insert_one({"_id": 1})
    scene.settle()
    limit = scene.first_entry({"o.create": "mark"}, since)
    with ExitStack() as stack:
        spare, client = {}, scene.spare_client
        if of_files:
            port = stack.enter_context(start_copy(backup, scene.folder))
            spare = {"spare": f"127.0.0.1:{port}"}
            client = stack.enter_context(closing(MongoClient("127.0.0.1", port, directConnection=True)))
        plan = await scene.plan(backup, limit, **spare)
        if plan.level is Level.BLOCK:
            found = (of_files, ids(plan, Level.BLOCK))
            assert found == (True, {"classic-indexes"}), "only a unique index that was dropped stays on data files"
            return
        scene.must_run(plan, "--until", "verify")
        same(record(client), before)
