"""The oplog names each pre-image exactly: of single writes, of transactions of several entries, of what expired."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Timestamp, decode
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from click.testing import CliRunner
from pymongo import MongoClient, ReturnDocument

from access_control import ADMIN, GuardedSet
from tallyglass.connection.target import Driver, Target
from tallyglass.demo.server import ReplicaSet
from tallyglass.errors import PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.restore.model.undo import Accident
from tallyglass.restore.pre_images.before_after import BeforeAfterText, before_and_after
from tallyglass.restore.pre_images.settings import keeps_images, oldest_image, retention
from tallyglass.restore.undo.sources.images import PRE_IMAGES, Image, read_images, select
from tallyglass_tui.cli.main import main

pytestmark = [pytest.mark.live, pytest.mark.smoke, pytest.mark.since(6, 0)]


@pytest.fixture
def client(live_set: ReplicaSet) -> Iterator[MongoClient[Any]]:
    with live_set.client() as client:
        client.drop_database("images")
        client["images"].create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
        client["images"].orders.insert_many([{"_id": n, "v": n, "text": "as it was"} for n in range(60)])
        yield client
        client.drop_database("images")


def now(client: MongoClient[Any]) -> Ts:
    row = client.local["oplog.rs"].find_one({}, sort=[("$natural", -1)])
    assert row is not None
    return Ts(row["ts"].time, row["ts"].inc)


async def images(live_set: ReplicaSet, accident: Accident, limit: Ts) -> tuple[list[Image], tuple[int, int]]:
    """The images of an accident; how many operations were the accident's, and how many ids others inserted again."""
    gateway = open_gateway(live_set.uri)
    try:
        with closing(await select(gateway, accident, "images.orders", limit)) as selection:
            found = [one async for one in read_images(gateway, selection)]
            assert len(found) == selection.count
            return found, (selection.by_accident, selection.again)
    finally:
        await gateway.close()


def documents(found: list[Image]) -> list[dict[str, Any]]:
    assert all(one.document is not None for one in found)
    return sorted((decode(one.document or b"") for one in found), key=lambda row: row["_id"])


async def test_each_hit_document_is_read_as_it_was_at_the_point(live_set: ReplicaSet, client: MongoClient[Any]) -> None:
    orders = client["images"].orders
    limit = now(client).next
    orders.update_one({"_id": 1}, {"$set": {"v": "by others, before"}})
    orders.insert_one({"_id": 1000, "v": "inserted after the point"})
    first = now(client).next
    orders.delete_many({"_id": {"$lt": 10}})
    orders.delete_many({"_id": 1000})
    last = now(client)
    orders.delete_one({"_id": 50})  # by others, with a session
    orders.insert_one({"_id": 2, "v": "again"})
    orders.update_one({"_id": 2}, {"$set": {"v": "and again"}})
    found, hit = await images(live_set, Accident("deletes", "images.orders", first, last), limit)
    assert documents(found) == [{"_id": n, "v": n, "text": "as it was"} for n in range(10)]
    assert hit == (11, 1)


async def test_updates_and_replacements(live_set: ReplicaSet, client: MongoClient[Any]) -> None:
    orders = client["images"].orders
    limit = now(client).next
    orders.update_many({"_id": {"$lt": 20}}, {"$set": {"v": "bad"}, "$unset": {"text": ""}})
    orders.update_many({"_id": {"$lt": 5}}, [{"$replaceWith": {"_id": "$_id"}}])
    last = now(client)
    accident = Accident("updates", "images.orders", limit, last, updates=True)
    found, hit = await images(live_set, accident, limit)
    assert documents(found) == [{"_id": n, "v": n, "text": "as it was"} for n in range(20)]
    assert hit == (25, 0)


async def test_a_transaction_of_several_entries_and_collections(live_set: ReplicaSet, client: MongoClient[Any]) -> None:
    shop = client["images"]
    shop.other.insert_many([{"_id": n} for n in range(60)])
    limit = now(client).next
    with client.start_session() as session, session.start_transaction():
        for n in range(25):
            shop.other.delete_one({"_id": n}, session=session)
            shop.orders.update_one({"_id": n}, {"$set": {"v": "bad"}}, session=session)
            if n % 2:
                shop.orders.delete_one({"_id": n}, session=session)
    commit = now(client)
    parts = list(
        client.local["oplog.rs"].find({"ts": {"$gte": Timestamp(limit.t, limit.i)}, "o.applyOps": {"$ne": None}})
    )
    assert len(parts) > 2, "it takes several entries"
    found, _ = await images(live_set, Accident("transaction", "", commit, commit), limit)
    assert documents(found) == [{"_id": n, "v": n, "text": "as it was"} for n in range(25)]


@pytest.mark.parametrize("driver", ["pymongo", pytest.param("motor", marks=pytest.mark.soak)])
async def test_without_the_privilege_a_change_stream_gives_the_same_images(
    guarded_set: GuardedSet, driver: Driver
) -> None:
    db = guarded_set.admin["streamed"]
    db.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
    try:
        db.orders.insert_many([{"_id": n, "v": n} for n in range(30)])
        begin = now(guarded_set.admin).next
        db.orders.update_one({"_id": 0}, {"$set": {"v": "by others, first"}})
        first = now(guarded_set.admin).next
        db.orders.delete_many({"_id": {"$lt": 10}})
        db.command("collMod", "orders", changeStreamPreAndPostImages={"enabled": False})
        db.orders.delete_one({"_id": 20})
        db.command("collMod", "orders", changeStreamPreAndPostImages={"enabled": True})
        with guarded_set.admin.start_session() as session, session.start_transaction():
            db.orders.update_one({"_id": 12}, {"$set": {"v": 1}}, session=session)
            db.orders.delete_one({"_id": 12}, session=session)
        db.orders.insert_one({"_id": 1, "v": "again"})
        accident = Accident("everything", "", first, now(guarded_set.admin))
        reader = guarded_set.create_user([{"role": "read", "db": "streamed"}, {"role": "read", "db": "local"}])
        found = []
        for user in (reader, ADMIN):
            gateway = open_gateway(Target.parse(guarded_set.uri(user)), driver=driver)
            try:
                with closing(await select(gateway, accident, "streamed.orders", begin)) as selection:
                    found.append({one async for one in read_images(gateway, selection)})
                    assert selection.streamed == (user == reader)
            finally:
                await gateway.close()
        assert found[0] == found[1]
        assert documents([one for one in found[0] if one.document]) == [{"_id": n, "v": n} for n in (*range(10), 12)]
        assert [one.id[1:5] for one in found[0] if one.document is None] == [(20).to_bytes(4, "little")]
        outsider = guarded_set.create_user([{"role": "read", "db": "local"}])
        gateway = open_gateway(Target.parse(guarded_set.uri(outsider)))
        selection = await select(gateway, accident, "streamed.orders", begin)
        with closing(selection), pytest.raises(PrivilegeError, match=r"config\.system\.preimages"):
            [one async for one in read_images(gateway, selection)]
        await gateway.close()
    finally:
        guarded_set.admin.drop_database("streamed")


async def test_what_is_not_held_is_named(live_set: ReplicaSet, client: MongoClient[Any]) -> None:
    orders = client["images"].orders
    client["images"].command("collMod", "orders", changeStreamPreAndPostImages={"enabled": False})
    limit = now(client).next
    orders.delete_many({"_id": {"$lt": 3}})
    client["images"].command("collMod", "orders", changeStreamPreAndPostImages={"enabled": True})
    orders.delete_many({"_id": {"$gte": 3, "$lt": 5}})
    found, _ = await images(live_set, Accident("deletes", "images.orders", limit, now(client)), limit)
    assert [one.id[1:5] for one in found if one.document is None] == [n.to_bytes(4, "little") for n in range(3)]
    assert [row["_id"] for row in documents([one for one in found if one.document])] == [3, 4]


async def test_settings_are_those_of_the_server(live_set: ReplicaSet, client: MongoClient[Any]) -> None:
    shop = client["images"]
    shop.create_collection("off")
    gateway = open_gateway(live_set.uri)
    try:
        infos = {info.ns.collection: info for info in await gateway.list_collections("images")}
        assert (keeps_images(infos["orders"]), keeps_images(infos["off"])) == (True, False)
        assert (await retention(gateway)).off
        client.admin.command(
            {"setClusterParameter": {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": 3600}}}}
        )
        try:
            assert (await retention(gateway)).seconds == 3600
        finally:
            client.admin.command(
                {"setClusterParameter": {"changeStreamOptions": {"preAndPostImages": {"expireAfterSeconds": "off"}}}}
            )
        assert await oldest_image(gateway, infos["orders"].uuid) is None
        deleted = shop.orders.find_one_and_update({"_id": 1}, {"$set": {"v": 0}}, return_document=ReturnDocument.BEFORE)
        assert deleted["v"] == 1
        assert await oldest_image(gateway, infos["orders"].uuid) is not None
        assert client[PRE_IMAGES.db][PRE_IMAGES.collection].count_documents({}) > 0
    finally:
        await gateway.close()


async def test_doctor_lists_what_keeps_images_and_how_to_switch_them_on(
    live_set: ReplicaSet, client: MongoClient[Any]
) -> None:
    off = client["images"].create_collection("it's off")
    off.insert_many([{"_id": n, "text": "x" * 80} for n in range(100)])
    off.update_many({}, {"$set": {"v": 1}})
    client["images"].orders.delete_one({"_id": 1})
    result = await asyncio.to_thread(CliRunner().invoke, main, ["doctor", live_set.uri, "--pre-images"])
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].split("  ")[-1].strip() == "images.orders"
    assert "as long as the oplog" in lines[1]
    assert f"{datetime.now(UTC):%Y-%m-%d}" in lines[2]
    assert "of images.orders" in lines[2]
    assert "it's off" in lines[3]
    command = next(line for line in lines if "runCommand" in line)
    assert "changeStreamPreAndPostImages" in command
    result = await asyncio.to_thread(CliRunner().invoke, main, ["doctor", live_set.uri, "--pre-images", "--json"])
    facts = json.loads(result.stdout)
    assert facts["keeping"] == ["images.orders"]
    if facts["sampled_seconds"]:  # a server that just began has no rate yet
        (cost,) = (one for one in facts["costs"] if one["ns"] == "images.it's off")
        assert cost["changes_per_hour"] == pytest.approx(100 * 3_600 / facts["sampled_seconds"])
        assert 80 * cost["changes_per_hour"] < cost["bytes_per_hour"] < 150 * cost["changes_per_hour"]


async def explained(live_set: ReplicaSet, client: MongoClient[Any], query: dict[str, Any]) -> BeforeAfterText:
    """The document before and after the newest entry that matches."""
    raw = client.local.get_collection("oplog.rs", codec_options=CodecOptions(document_class=RawBSONDocument))
    entry = raw.find_one(query, sort=[("$natural", -1)])
    assert entry is not None
    gateway = open_gateway(live_set.uri)
    try:
        return await before_and_after(gateway, bytes(entry.raw))
    finally:
        await gateway.close()


async def test_an_entry_is_shown_with_its_document_before_and_after(
    live_set: ReplicaSet, client: MongoClient[Any]
) -> None:
    orders = client["images"].orders
    orders.update_one({"_id": 7}, {"$set": {"v": "\x1b[2J", "in": {"a.b": [1]}}, "$unset": {"text": ""}})
    text = await explained(live_set, client, {"ns": "images.orders", "op": "u"})
    assert text.found == (
        "before -> after, _id 7, from its pre-image:",
        '  v: 7 -> "\\u001b[2J"',
        '  text: "as it was" -> (missing)',
        '  in: (missing) -> {"a.b": [1]}',
    )
    assert "images.orders keeps pre-images as long as the oplog, the oldest held is from 20" in text.notes[0]
    orders.delete_one({"_id": 8})
    text = await explained(live_set, client, {"ns": "images.orders", "op": "d"})
    assert text.found[0] == "before, _id 8, from its pre-image:"
    assert '  "text": "as it was"' in text.found
    with client.start_session() as session, session.start_transaction():
        orders.insert_one({"_id": 500}, session=session)
        orders.delete_one({"_id": 9}, session=session)
        orders.update_one({"_id": 10}, {"$set": {"v": 11}}, session=session)
    text = await explained(live_set, client, {"o.applyOps.ns": "images.orders"})
    assert text.found[0] == "before, _id 9, from its pre-image:"
    assert text.found[-1] == "  v: 10 -> 11"
    plain = client["images"].plain
    plain.insert_one({"_id": 1})
    assert await explained(live_set, client, {"ns": "images.plain"}) == BeforeAfterText()
    plain.delete_one({"_id": 1})
    text = await explained(live_set, client, {"ns": "images.plain", "op": "d"})
    assert not text.found
    assert text.notes[0].startswith("before: unknown. images.plain keeps no pre-images.")
    assert "collMod" in text.notes[1]
