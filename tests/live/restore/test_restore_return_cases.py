"""Unusual accidents, each against an independent record: what comes back, and what is reported."""

from __future__ import annotations

import json
from typing import Any

import bson
import pytest
from bson import Binary, Decimal128, Int64, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient, ReplaceOne
from restore_scene import Scene, blocks, ids, record

from tallyglass.restore.undo.evidence import read_evidence

pytestmark = [pytest.mark.live, pytest.mark.tools, pytest.mark.soak]

ODD_IDS = [
    {"b": 1, "1": 2, "0": {"_bsontype": "MaxKey"}}, DatetimeMS(2**62), Binary(b"\0x", 5), Decimal128("1.0"), MinKey(),
    ObjectId(), Int64(2**60), 1.5, True, "a\nb\u202e\x01c", {"x$": 1, "a.b": 2}, Timestamp(1, 2), {},
]  # fmt: skip

NULL_ID = {
    "_id": None, "int": 5, "double": 5.0, "zero": -0.0, "long": Int64(5), "sum": Decimal128("5.0"),
    "at": DatetimeMS(-1), "b": Binary(b"\x00", 5), "r": Regex("x", "i"),
    "deep": [{"$d": 1, "a.b": [MinKey(), Timestamp(1, 2)]}], "n": None,
}  # fmt: skip
"""As ``$group`` leaves it, with values that JavaScript would change."""


def damaged(scene: Scene) -> list[dict[str, Any]]:
    lines = (scene.folder / "work" / "still-damaged.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


async def test_deletes_of_odd_documents(scene: Scene) -> None:
    odd = scene.client["odd"]
    odd.ids.insert_many([{"_id": one, "n": n} for n, one in enumerate(ODD_IDS)])
    bad = bson.encode({"_id": 1, "s": "x\x01y"}).replace(b"x\x01y", b"x\xffy")
    odd.bytes.insert_one(RawBSONDocument(bad))
    odd.names.insert_one({"_id": 1, "a.b": 1, "$c": {"$d": [1]}, "": 2, "10": 3, "9": 4, "r": Regex("x", "i")})
    odd.again.insert_many([{"_id": n, "v": "old"} for n in range(5)])
    odd.tossed.insert_many([{"_id": n, "v": "old"} for n in range(5)])
    odd.large.insert_many([{"_id": n, "x": "y" * 9_000_000} for n in range(2)])
    odd["na*me \\ \u00e9"].insert_many([{"_id": n} for n in range(3)])
    odd.null.insert_one(NULL_ID)
    odd.lossy.insert_one(RawBSONDocument(bson.encode({"_id": None, "s": "x\x01y"}).replace(b"x\x01y", b"x\xffy")))
    backup = scene.backup("--oplog")
    before, since = record(scene.client), scene.now()
    for name in ("null", "lossy", "ids", "bytes", "names", "again", "large", "na*me \\ \u00e9"):
        odd[name].delete_many({})
    odd.tossed.drop()
    odd.again.insert_one({"_id": 2, "v": "new"})
    odd.tossed.insert_many([{"_id": n, "v": "new"} for n in (1, 3, 9)])
    scene.settle()
    plan = await scene.plan(backup, scene.first_entry({"op": "d", "ns": "odd.null"}, since))
    assert {row.ns: row.again for row in plan.undo.returns if row.again} == {"odd.again": 1, "odd.tossed": 2}
    done = scene.run(plan)
    after = record(scene.client)
    for name in ("null", "ids", "bytes", "names", "large", "na*me \\ \u00e9"):
        assert after[f"odd.{name}"] == before[f"odd.{name}"], (name, done.stderr)
    assert {row["_id"]: row["v"] for row in odd.again.find()} == {0: "old", 1: "old", 2: "new", 3: "old", 4: "old"}
    assert {row["_id"]: row["v"] for row in odd.tossed.find()} == {
        0: "old", 1: "new", 2: "old", 3: "new", 4: "old", 9: "new",
    }  # fmt: skip
    assert done.returncode == 3, done.stderr
    left = {(row["ns"], str(row["_id"])): row["why"] for row in damaged(scene)}
    assert "mongosh cannot write exactly" in left.pop(("odd.lossy", "None")), "no text gives it exactly"
    again = {("odd.again", "2"), ("odd.tossed", "1"), ("odd.tossed", "3")}
    assert left.keys() == {(ns, f"{{'$numberInt': '{n}'}}") for ns, n in again}
    assert all("others inserted another document" in why for why in left.values())
    odd.lossy.insert_one({"_id": None})
    odd.again.delete_one({"_id": 2})
    odd.tossed.delete_many({"_id": {"$in": [1, 3]}})
    assert scene.run(plan).returncode == 3
    assert [row["ns"] for row in damaged(scene)] == ["odd.lossy"], "what was inserted there is others'"


async def test_an_update_of_many_kinds_of_fields(scene: Scene) -> None:
    items = scene.client["shop"]["fields"]
    start = {"status": "ok", "addr": {"zip": 7, "street": "s"}, "log": ["a"], "old": 1, "last": 1}
    items.insert_many([*({"_id": n} | start for n in range(40)), NULL_ID | start])
    backup = scene.backup("--oplog")
    for n in range(4):
        items.update_one({"_id": n}, {"$set": {"status": "mine"}})
    before = {row["_id"]: row for row in items.find()}
    order = record(scene.client)["shop.fields"]
    since = scene.now()
    modified = items.update_many({}, {
        "$set": {"status": "BAD", "addr": {"zip": 0}}, "$push": {"log": "bad"}, "$rename": {"old": "fresh"},
    }).modified_count  # fmt: skip
    items.update_one({"_id": 10}, {"$set": {"addr.street": "theirs"}})
    items.update_one({"_id": 11}, {"$push": {"log": "theirs"}})
    items.update_one({"_id": 12}, {"$set": {"status": "theirs"}})
    found = items.find_one({"_id": 13})
    items.bulk_write([ReplaceOne({"_id": 13}, found | {"last": 9})])
    items.delete_one({"_id": 14})
    items.delete_one({"_id": 15})
    items.insert_one({"_id": 15, "status": "again"})
    items.update_one({"_id": 16}, {"$unset": {"addr": 1}})
    incident = await scene.incident("updateMany", "shop.fields")
    assert incident.last > since
    first = scene.first_entry({"op": "u", "o.diff.u.status": "BAD"}, since)
    assert ids(await scene.plan(backup, first, incident=incident)) == {"incident-unclear"}, "what it did to the arrays"
    scene.empty_spare()
    plan = await scene.plan(backup, first, incident=incident, evidence=read_evidence("", modified))
    assert not blocks(plan), blocks(plan)
    done = scene.run(plan)
    assert done.returncode == 3, done.stderr
    live = {row["_id"]: row for row in items.find()}
    assert live[None] == before[None]
    assert live[10] == before[10] | {"addr": {"zip": 7, "street": "theirs"}}
    assert live[12] == before[12] | {"status": "theirs"}
    assert live[13] == found | {"last": 9}, "written back whole, as the accident left it"
    assert 14 not in live
    assert live[15] == {"_id": 15, "status": "again"}
    gone = {name: value for name, value in before[16].items() if name != "addr"}
    assert live[16] == gone, "what others removed with all that the accident left in it stays removed"
    # Not clearly theirs: a text beside one that the accident removed.
    left = {(row["_id"] or {}).get("$numberInt") for row in damaged(scene)}
    assert left >= {"11", "13"}
    assert left <= {"10", "11", "12", "13", "16", None}, done.stderr
    touched = {10, 11, 12, 13, 14, 15, 16}
    raw = {bytes(row.raw) for row in _raw(scene)}
    assert {one for one in order[3] if bson.decode(one)["_id"] not in touched} <= raw, "byte for byte, and in order"


def _raw(scene: Scene) -> list[RawBSONDocument]:
    options = bson.codec_options.CodecOptions(document_class=RawBSONDocument)
    return list(scene.client["shop"].get_collection("fields", codec_options=options).find())


async def test_sums_that_cannot_be_told_apart(scene: Scene) -> None:
    plain: MongoClient[Any] = MongoClient(scene.source.uri, retryWrites=False)
    accounts = plain["shop"]["accounts"]
    accounts.insert_many([{"_id": n, "balance": 100 + n} for n in range(20)])
    backup = scene.backup("--oplog")
    accounts.update_one({"_id": 1}, {"$inc": {"balance": 1}})
    since = scene.now()
    accounts.update_many({}, {"$mul": {"balance": 1.5}})
    accounts.update_one({"_id": 2}, {"$inc": {"balance": 7}})
    plain.close()
    incident = await scene.incident("updateMany", "shop.accounts")
    first = scene.first_entry({"op": "u", "ns": "shop.accounts"}, since)
    assert ids(await scene.plan(backup, first, incident=incident)) == {"incident-unclear"}
    scene.empty_spare()
    assert ids(await scene.plan(backup, first)) <= {"incident-unclear"}


async def test_a_transaction_over_two_collections_and_a_conflict_that_comes_while_it_is_undone(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.a.create_index("mail", unique=True)
    shop.a.insert_many([{"_id": n, "mail": f"m{n}", "v": 0} for n in range(20)])
    shop.b.insert_many([{"_id": n, "v": 0} for n in range(20)])
    backup = scene.backup("--oplog")
    before, since = record(scene.client), scene.now()
    with scene.client.start_session() as session, session.start_transaction():
        shop.a.delete_many({"_id": {"$lt": 10}}, session=session)
        shop.b.update_many({}, {"$set": {"v": 1}}, session=session)
        shop.b.insert_one({"_id": "new"}, session=session)
    shop.b.update_one({"_id": 3}, {"$set": {"w": "theirs"}})
    scene.settle()
    incident = await scene.incident("transaction", "shop.b")
    assert incident.last > since
    plan = await scene.plan(backup, incident.limit, incident=incident)
    real, stop = scene.path, scene.folder / "stop"
    stop.mkdir()
    (stop / "mongosh").write_text("#!/bin/sh\nexit 9\n")
    (stop / "mongosh").chmod(0o755)
    scene.path = f"{stop}:{real}"
    assert "[step-failed]" in scene.run(plan).stderr
    scene.path = real
    assert record(scene.client)["shop.a"] != before["shop.a"], "stopped before it is written"
    shop.a.insert_one({"_id": "rival", "mail": "m4"})
    done = scene.run(plan)
    assert done.returncode == 3, done.stderr
    assert [row["_id"] for row in damaged(scene)] == [{"$numberInt": "4"}, "new"], (
        "what it inserted stays, and is named"
    )
    assert shop.b.count_documents({"v": 0}) == 20
    assert shop.b.count_documents({"w": "theirs"}) == 1
    shop.a.delete_one({"_id": "rival"})
    shop.b.delete_one({"_id": "new"})
    assert scene.run(plan).returncode == 0
    assert record(scene.client)["shop.a"] == before["shop.a"]
