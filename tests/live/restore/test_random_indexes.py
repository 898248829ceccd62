"""Random changes of indexes and of the collections under them, before and after a backup, each restored for real.

mongorestore keeps indexes by name and builds them at the end; the plan must know which of them it may build.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from bson import Int64
from random_world import restored, seeds
from restore_scene import Scene

pytestmark = [pytest.mark.live, pytest.mark.tools, pytest.mark.since(6, 0)]

COLLECTIONS, INDEXES, FIELDS = ("a", "b", "c", "d"), ("one", "two", "three"), ("x", "y", "z")


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


@pytest.mark.parametrize("seed", seeds(20_261_128, always=2, soaked=60))
async def test_whatever_happened_to_indexes_the_spare_is_the_same(scene: Scene, seed: int) -> None:
    rng, db = random.Random(seed), scene.client["fields"]
    for name in COLLECTIONS:
        db[name].insert_many([{"x": n, "y": n, "z": n % 3} for n in range(8)])
    await restored(scene, rng, lambda: rng.choice(STEPS)(rng, db, rng.choice(COLLECTIONS)))
