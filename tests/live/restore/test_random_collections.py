"""Random changes of collections of every kind, before and after a backup, each restored for real."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from random_world import restored, seeds
from restore_scene import Scene

pytestmark = [pytest.mark.live, pytest.mark.tools, pytest.mark.since(6, 0)]

DATABASES, COLLECTIONS, FIELDS = ("one", "two"), ("a", "b", "c", "ts"), ("x", "y", "z")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

OPTIONS: list[dict[str, Any]] = [
    {},
    {"validator": {"x": {"$lt": 50}}},
    {"validator": {"$jsonSchema": {"properties": {"x": {"bsonType": "int"}}}}, "validationAction": "warn"},
    {"validator": {"$expr": {"$lt": ["$x", 30]}}, "validationLevel": "moderate"},
    {"collation": {"locale": "en", "strength": 2}},
    {"capped": True, "size": 4096},
    {"capped": True, "size": 100_000, "max": 7},
    {"clusteredIndex": {"key": {"_id": 1}, "unique": True, "name": "own"}},
    {"clusteredIndex": {"key": {"_id": 1}, "unique": True}, "expireAfterSeconds": 10**8},
    {"timeseries": {"timeField": "at"}},
    {"timeseries": {"timeField": "at", "metaField": "x", "granularity": "minutes"}, "expireAfterSeconds": 10**8},
    {"timeseries": {"timeField": "at", "metaField": "x"}, "collation": {"locale": "fr"}},
    {"changeStreamPreAndPostImages": {"enabled": True}},
    {"storageEngine": {"wiredTiger": {"configString": "block_compressor=zlib"}}},
    {"indexOptionDefaults": {"storageEngine": {"wiredTiger": {"configString": "prefix_compression=false"}}}},
    {"viewOn": "a", "pipeline": [{"$match": {"x": {"$gt": 1}}}]},
    {"viewOn": "b", "pipeline": [], "collation": {"locale": "fr"}},
    {"viewOn": "ts", "pipeline": [{"$project": {"x": 1}}]},
]
CHANGES: list[dict[str, Any]] = [
    {"validator": {"x": {"$gt": -5}}}, {"validator": {}}, {"validationLevel": "off"}, {"validationAction": "warn"},
    {"validationLevel": "strict", "validationAction": "error"}, {"cappedSize": 8000}, {"cappedMax": 3},
    {"cappedMax": 0}, {"expireAfterSeconds": 10**8 + 1}, {"expireAfterSeconds": "off"},
    {"timeseries": {"granularity": "hours"}}, {"changeStreamPreAndPostImages": {"enabled": False}},
    {"changeStreamPreAndPostImages": {"enabled": True}}, {"viewOn": "c", "pipeline": [{"$sort": {"y": 1}}]},
]  # fmt: skip


def deep(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = {"": value} if level % 2 else [value]
    return value


HOSTILE: list[Any] = [
    None, float("nan"), -0.0, float("-inf"), Decimal128("-0E+3"), Decimal128("NaN"), MinKey(), MaxKey(), Int64(2**62),
    "\0", "\ud7ff", "", [], {}, [None, [None]], {"": None, "$a": {"b.c": 1}, "d..e": 0}, {"$ref": 1}, DBRef("a", 1),
    Timestamp(0, 0), Timestamp(2**32 - 1, 0), Regex("^a", "imsx"), Code("f", {"$x": 1}), Binary(b"", 128), ObjectId(),
    Binary(b"\x07abc", 6), datetime(1, 1, 1, tzinfo=UTC), deep(100), "x" * 9000,
    {"$date": 1}, {"$numberLong": "1"}, {"$oid": "x"}, {"$undefined": True}, {"$binary": ""},
]  # fmt: skip


def place(rng: random.Random, client: Any) -> Any:
    return client[rng.choice(DATABASES)][rng.choice(COLLECTIONS)]


def document(rng: random.Random) -> dict[str, Any]:
    row: dict[str, Any] = {"x": rng.choice([rng.randrange(60), float(rng.randrange(60)), rng.choice(HOSTILE)])}
    for name in ("y", "", "$z", "a.b", "$"):
        if rng.random() < 0.3:
            row[name] = rng.choice(HOSTILE)
    if rng.random() < 0.4:
        row["_id"] = rng.choice(
            [None, rng.randrange(9), float(rng.randrange(9)), "", {"a": 1, "b": rng.randrange(3)}, {"a.b": 1}, MinKey(),
             Decimal128("3"), Binary(b"\0", 0), -0.0, float("nan"), datetime(2026, 1, 1, tzinfo=UTC)]
        )  # fmt: skip
    row["at"] = EPOCH + timedelta(minutes=rng.randrange(5000))
    return row


def make(rng: random.Random, client: Any) -> None:
    found = place(rng, client)
    if rng.random() < 0.7:
        found.drop()
    found.database.create_collection(found.name, **rng.choice(OPTIONS))


def modify(rng: random.Random, client: Any) -> None:
    found, change = place(rng, client), rng.choice(CHANGES)
    if found.options().get("capped") or not {"cappedSize", "cappedMax"} & set(change):  # 6.0.5 dies of it on a view
        found.database.command({"collMod": found.name} | change)


def insert(rng: random.Random, client: Any) -> None:
    place(rng, client).insert_many([document(rng) for _ in range(rng.randrange(1, 12))], ordered=rng.random() < 0.5)


UPDATES: list[Any] = [
    {"$set": {"y": 3}}, {"$inc": {"y": 1}}, {"$push": {"l": {"$each": [1, None], "$slice": -3}}}, {"$unset": {"x": 1}},
    {"$rename": {"x": "y"}}, {"$set": {"d.e.f": [1, {"g": 2}]}}, {"$bit": {"y": {"xor": 5}}}, {"$mul": {"x": 1.5}},
    {"$currentDate": {"when": {"$type": "timestamp"}}}, {"$min": {"x": MinKey()}}, {"$set": {"d": {"0": 1}}},
    [{"$set": {"when": {"$literal": Timestamp(0, 0)}}}],
    [{"$set": {"z": "$$NOW", "y": {"$literal": {"$a": 1}}}}, {"$unset": "x"}],
    [{"$replaceWith": {"$setField": {"field": {"$literal": "$p.q"}, "input": "$$ROOT", "value": "$x"}}}],
]  # fmt: skip


def update(rng: random.Random, client: Any) -> None:
    found, which = place(rng, client), rng.choice([{}, {"x": {"$lt": 30}}, {"_id": rng.randrange(9)}])
    change, upsert = rng.choice(UPDATES), rng.random() < 0.3
    way = rng.choice([found.update_one, found.update_many, found.find_one_and_update])
    way(which, change, upsert=upsert)


def remove(rng: random.Random, client: Any) -> None:
    found, which = place(rng, client), rng.choice([{"x": rng.randrange(9)}, {"x": {"$lt": 3}}, {"y": None}])
    rng.choice([found.delete_one, found.delete_many, found.find_one_and_delete])(which)


def rename(rng: random.Random, client: Any) -> None:
    source, target = place(rng, client), place(rng, client)
    command = {"renameCollection": source.full_name, "to": target.full_name, "dropTarget": rng.random() < 0.5}
    client.admin.command(command)


def write_out(rng: random.Random, client: Any) -> None:
    source, target = place(rng, client), place(rng, client)
    where = {"db": target.database.name, "coll": target.name}
    last: dict[str, Any] = {"$out": where}
    if rng.random() < 0.5:
        last = {"$merge": {"into": where, "whenMatched": rng.choice(["replace", "merge", "keepExisting"])}}
    list(source.aggregate([{"$limit": 5}, last]))


def transact(rng: random.Random, client: Any) -> None:
    with client.start_session() as session, session.start_transaction():
        for _ in range(rng.randrange(1, 5)):
            found = place(rng, client)
            if rng.random() < 0.3:
                found.database.create_collection(found.name, session=session)
            found.insert_many([document(rng) for _ in range(rng.randrange(1, 8))], session=session)
            found.update_many({"x": {"$lt": 20}}, {"$set": {"t": 1}}, session=session)
            found.delete_one({"x": rng.randrange(9)}, session=session)
        if rng.random() < 0.2:
            session.abort_transaction()


def sent(rng: random.Random) -> dict[str, Any]:
    """What a server stores of an applyOps as its entry says. It would put an ``_id`` first, use its own time for a zero
    timestamp, and take an ``_id`` for another one that is equal."""
    row = {name: value for name, value in document(rng).items() if value != Timestamp(0, 0)}
    return {"_id": ObjectId()} | row | {"_id": ObjectId()}


def apply_ops(rng: random.Random, client: Any) -> None:
    found = place(rng, client)
    made = {"op": "c", "ns": f"{found.database.name}.$cmd", "o": {"create": found.name}}
    rows = [{"op": "i", "ns": found.full_name, "o": sent(rng)} for _ in range(3)]
    gone = {"op": "d", "ns": found.full_name, "o": {"_id": rows[0]["o"]["_id"]}}
    client.admin.command({"applyOps": rng.choice([[made, *rows], rows, [rows[0], gone], [rows[0], rows[0]]])})


def cap(rng: random.Random, client: Any) -> None:
    found = place(rng, client)
    size = rng.choice([4096, 10_000])
    if rng.random() < 0.5:
        found.database.command({"convertToCapped": found.name, "size": size})
    else:
        to = rng.choice(COLLECTIONS)
        found.database.command({"cloneCollectionAsCapped": found.name, "toCollection": to, "size": size})


def index(rng: random.Random, client: Any) -> None:
    way = rng.choice([1, -1, "hashed", "text", "2dsphere"])
    place(rng, client).create_index([(rng.choice(FIELDS), way)], name="i", sparse=rng.random() < 0.3)


def odd_documents(rng: random.Random, client: Any) -> None:
    """As deep and as long as the server stores them."""
    place(rng, client).insert_one({"x": deep(rng.choice([150, 176, 177, 178])), "at": EPOCH})
    if rng.random() < 0.3:
        place(rng, client).insert_one({"x": 1, "y": "x" * (16 * 2**20 - rng.choice([70, 200])), "at": EPOCH})


STEPS: list[Callable[[random.Random, Any], object]] = [
    make, make, make, make, modify, modify, modify, insert, insert, insert, insert, update, update, update, remove,
    rename, rename, write_out, transact, transact, apply_ops, cap, index, odd_documents,
    lambda rng, client: place(rng, client).drop(),
    lambda rng, client: rng.random() < 0.3 and client.drop_database(rng.choice(DATABASES)),
    lambda rng, client: place(rng, client).drop_indexes(),
]  # fmt: skip


@pytest.mark.parametrize("seed", seeds(20_261_129, always=2, soaked=60))
async def test_whatever_happened_to_collections_the_spare_is_the_same(scene: Scene, seed: int) -> None:
    rng = random.Random(seed)
    for db in DATABASES:
        for name in COLLECTIONS[:3]:
            scene.client[db][name].insert_many([{"x": n, "y": n, "z": n % 3} for n in range(8)])
    await restored(scene, rng, lambda: rng.choice(STEPS)(rng, scene.client))
