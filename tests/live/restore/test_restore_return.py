"""What comes back to the live set, and what stays: the emitted script, unchanged, against independent records."""

from __future__ import annotations

import asyncio
import json
import random
import shlex
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Int64, ObjectId, Timestamp
from click.testing import CliRunner
from pymongo import MongoClient, UpdateOne
from pymongo.errors import DuplicateKeyError, PyMongoError, WriteError
from restore_scene import Scene, blocks, ids, record

from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.undo import Choice
from tallyglass.restore.plan.folder import write_folder
from tallyglass.restore.spare.verify import verify
from tallyglass.restore.undo.evidence import read_evidence
from tallyglass_tui.cli.main import main

pytestmark = [pytest.mark.live, pytest.mark.tools]


@pytest.mark.parametrize(
    "accident",
    [pytest.param("drop", marks=pytest.mark.soak), pytest.param("set back", marks=pytest.mark.soak), "deleteMany"],
)
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
    assert [(row.restored, row.live) for row in plan.proof.reissue if row.id == "orders"] == [(1005, 1005)]
    scene.run(plan)
    assert next_id() == max(issued) + 1


class Writer(threading.Thread):
    """Writes until :meth:`finish`, on its own client, and keeps a ledger that nothing under test reads."""

    def __init__(self, scene: Scene, write: Callable[[Any, random.Random], None], **options: Any) -> None:
        super().__init__(daemon=True)
        self.client: MongoClient[Any] = MongoClient(scene.source.uri, **options)
        self.write, self.ended, self.trouble = write, threading.Event(), ""

    def run(self) -> None:
        choice = random.Random(7)
        while not self.ended.wait(0.005):
            try:
                self.write(self.client["shop"], choice)
            except PyMongoError as error:
                self.trouble = repr(error)
                return

    def finish(self) -> None:
        self.ended.set()
        self.join()
        self.client.close()
        assert not self.trouble, self.trouble


@pytest.mark.soak
async def test_a_bad_update_amid_writers_without_sessions(scene: Scene) -> None:
    shop, count = scene.client["shop"], 1_500
    shop.accounts.insert_many([
        {"_id": n, "status": "ok", "vip": n % 2 > 0, "balance": 0, "addr": {"zip": n, "street": "s"}, "tags": []}
        for n in range(count)
    ])  # fmt: skip
    backup = scene.backup("--oplog")
    deposits, renamed, removed = Counter[int](), dict[int, str](), set[int]()

    def deposit(db: Any, choice: random.Random) -> None:
        n = choice.randrange(count)
        if db.accounts.update_one({"_id": n}, {"$inc": {"balance": 1}}).modified_count:
            deposits[n] += 1

    def rename(db: Any, choice: random.Random) -> None:
        n = choice.randrange(count)
        what = choice.random()
        if what < 0.1:
            db.accounts.delete_one({"_id": n})
            removed.add(n)
        elif what < 0.3:
            if db.accounts.update_one({"_id": n}, {"$set": {"status": "mine"}}).matched_count:
                renamed[n] = "mine"
        else:
            db.accounts.update_one({"_id": n}, {"$push": {"tags": 1}, "$set": {"addr.street": "t"}})

    writers = [Writer(scene, deposit, retryWrites=False), Writer(scene, rename)]
    for writer in writers:
        writer.start()
    while sum(deposits.values()) < 200:
        assert not writers[0].trouble, writers[0].trouble
    since = scene.now()
    stages = [{"$set": {"status": "BAD", "addr.zip": None}}, {"$unset": "vip"}]
    modified = shop.accounts.update_many({"_id": {"$gte": 0}}, stages).modified_count
    while sum(deposits.values()) < 600:
        assert not writers[0].trouble, writers[0].trouble
    bad = {"ns": "shop.accounts", "o.diff.u.status": "BAD"}
    first, last = scene.first_entry(bad, since), scene.newest_of(bad)
    incident = await scene.incident("updateMany", "shop.accounts", first)
    # On a loaded machine the run of updates may have been torn by a pause.
    incident = replace(incident, first=min(first, incident.first), last=max(last, incident.last), point=None)
    assert ids(await scene.plan(backup, incident.first, incident=incident)) == {"incident-unclear"}
    known = read_evidence(f"updateMany({{_id: {{$gte: 0}}}}, {json.dumps(stages)})", modified)
    plan = await scene.plan(backup, incident.first, incident=incident, evidence=known)
    assert not blocks(plan), blocks(plan)
    done = scene.run(plan)
    for writer in writers:
        writer.finish()
    live = {row["_id"]: row for row in shop.accounts.find()}
    assert done.returncode == 0, done.stderr
    assert set(live) == set(range(count)) - removed
    assert {n: row["balance"] for n, row in live.items() if row["balance"] != deposits[n]} == {}
    damaged = [n for n, row in live.items() if row["status"] == "BAD" or row.get("vip") is not (n % 2 > 0)]
    assert damaged == []
    assert [n for n, row in live.items() if row["addr"]["zip"] != n] == []
    assert {n for n, row in live.items() if row["status"] == "mine"} <= set(renamed)
    assert "unclear  damaged" in done.stderr


@pytest.mark.since(5, 0)
async def test_a_bad_update_that_is_logged_in_two_forms_amid_writes_without_sessions(scene: Scene) -> None:
    """A pipeline update is logged as the difference, or as the whole document where that is shorter. Others write the
    same field in the same second: the incident is refused, and --before at its first entry undoes it alone."""
    items, count = scene.client["shop"]["items"], 40
    items.insert_many([
        {"_id": n, "status": "ok", "name": f"n{n}", "balance": n, "addr": {"zip": n, "street": "s"}}
        | ({"text": "t" * 500} if n % 2 else {}) | ({"addr": {"zip": n, "street": "s" * 500}} if n % 3 else {})
        for n in range(count)
    ])  # fmt: skip
    backup = scene.backup("--oplog")
    plain: MongoClient[Any] = MongoClient(scene.source.uri, retryWrites=False)
    theirs = plain["shop"]["items"]
    theirs.update_one({"_id": 1}, {"$inc": {"balance": 5}})
    theirs.replace_one({"_id": 2}, items.find_one({"_id": 2}) | {"balance": 9})
    before, since = {row["_id"]: row for row in items.find()}, scene.now()
    items.update_many({"_id": {"$gte": 0}}, [{"$set": {"status": "BAD", "addr.zip": None}}, {"$unset": "name"}])
    for n in range(10):
        theirs.update_one({"_id": n}, {"$inc": {"balance": 1}})
    theirs_whole = items.find_one({"_id": 12}) | {"balance": -1}
    theirs.replace_one({"_id": 12}, theirs_whole)
    theirs.update_one({"_id": 14}, {"$set": {"status": "theirs"}})
    plain.close()
    logged = list(
        scene.client.local["oplog.rs"].find({"ns": "shop.items", "op": "u", "ts": {"$gt": Timestamp(since.t, since.i)}})
    )
    bad = [row["o"] for row in logged[:count]]
    assert {frozenset(o.get("diff", o)) for o in bad} >= {frozenset({"d", "u", "saddr"})}
    assert any("diff" not in o for o in bad), "both forms"
    incident = await scene.incident("updateMany", "shop.items")
    first = Ts(logged[0]["ts"].time, logged[0]["ts"].inc)
    assert "incident-unclear" in ids(await scene.plan(backup, first, incident=incident))
    plan = await scene.plan(backup, first)
    assert [row.documents for row in plan.undo.undone] == [count], (plan.undo.undone, blocks(plan))
    done = scene.run(plan)
    assert done.returncode == 3, done.stderr
    assert "Still damaged or unclear: 2." in done.stderr
    assert '"12"}: Others may have computed what it holds' in done.stderr, "written back whole, as the accident left it"
    assert '"14"}: Others may have computed what it holds' in done.stderr, "perhaps since there was no name"
    wanted = {n: row | ({"balance": row["balance"] + 1} if n < 10 else {}) for n, row in before.items()}
    wanted[12] = theirs_whole
    wanted[14] |= {"status": "theirs"}
    assert {row["_id"]: row for row in items.find()} == wanted


@pytest.mark.parametrize("form", [pytest.param("bulk", marks=pytest.mark.soak), "loop"])
async def test_an_accident_of_many_single_writes(scene: Scene, form: str) -> None:
    shop, count = scene.client["shop"], 500
    shop.items.insert_many([{"_id": n, "price": n * 3, "stock": 0} for n in range(count)])
    backup = scene.backup("--oplog")
    for n in range(0, count, 7):
        shop.items.update_one({"_id": n}, {"$inc": {"stock": 1}})
    scene.await_pause("shop.items")
    before, since = record(scene.client), scene.now()
    if form == "bulk":
        shop.items.bulk_write([UpdateOne({"_id": n}, {"$set": {"price": n * 2.5}}) for n in range(count)])
    else:
        with scene.client.start_session() as session:
            for n in range(count):
                shop.items.update_one({"_id": n}, {"$set": {"price": -1}}, session=session)
    shop.items.update_one({"_id": 3}, {"$inc": {"stock": 50}})
    scene.settle()
    plan = await scene.plan(backup, scene.first_entry({"op": "u", "ns": "shop.items"}, since))
    scene.must_run(plan)
    shop.items.update_one({"_id": 3}, {"$inc": {"stock": -50}})
    assert record(scene.client)["shop.items"] == before["shop.items"]


@pytest.mark.since(6, 0)
async def test_documents_that_would_stop_or_undo_the_merge_are_left_out_and_reported(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.legacy.insert_many([{"_id": n} for n in range(20)])
    shop.command("collMod", "legacy", validator={"new": {"$exists": True}})
    scene.await_out_of_window({"op": "i", "ns": "shop.legacy"})  # Tools before 100.15 do not replay these.
    shop.users.create_index("mail", unique=True)
    shop.users.insert_many([{"_id": n, "mail": f"m{n}"} for n in range(100)])
    old = datetime.now(UTC) - timedelta(days=2)
    shop.visits.insert_many([{"_id": n, "at": old if n % 2 else datetime.now(UTC)} for n in range(10)])
    shop.create_collection("days", clusteredIndex={"key": {"_id": 1}, "unique": True}, expireAfterSeconds=3600)
    shop.days.insert_many([{"_id": old, "n": 1}, {"_id": datetime.now(UTC), "n": 2}])
    shop.create_collection("words", collation={"locale": "en", "strength": 2})
    shop.words.insert_many([{"_id": "abc", "n": 1}, {"_id": "def", "n": 2}])
    shop.create_collection("people", validator={"mail": {"$type": "string"}})
    shop.people.create_index("mail", unique=True)
    shop.people.insert_many([{"_id": n, "mail": f"p{n}"} for n in range(10)])
    backup = scene.backup("--oplog")
    since = scene.now()
    for name in ("users", "legacy", "visits", "words", "days"):
        shop[name].delete_many({})
    shop.people.drop()
    shop.users.insert_one({"_id": "new", "mail": "m7"})
    shop.visits.create_index("at", expireAfterSeconds=3600)
    shop.words.insert_one({"_id": "ABC", "n": 3})
    shop.people.insert_many([{"_id": "new", "mail": "p3"}, {"_id": "more", "mail": "q"}])
    scene.settle()
    plan = await scene.plan(backup, scene.first_entry({"op": "d", "ns": "shop.users"}, since))
    done = scene.run(plan)
    assert done.returncode == 3, done.stderr
    left = {
        name: sorted(map(str, shop[name].distinct("_id"))) for name in ("users", "legacy", "visits", "words", "people")
    }
    assert left["users"] == sorted([*(str(n) for n in range(100) if n != 7), "new"])
    assert len(left["legacy"]) == 20
    assert left["visits"] == ["0", "2", "4", "6", "8"]
    assert left["words"] == ["ABC", "def"]
    assert shop.days.distinct("n") == [2], "the collection itself expires"
    assert "the collation takes their _id for another one" in done.stderr
    assert left["people"] == sorted([*(str(n) for n in range(10) if n != 3), "new", "more"])
    with pytest.raises(DuplicateKeyError):
        shop.people.insert_one({"mail": "p1"})
    with pytest.raises(WriteError):
        shop.people.insert_one({"mail": 1})
    lines = (scene.folder / "work" / "still-damaged.jsonl").read_text().splitlines()
    damaged = {(row["ns"], str(row["_id"])) for row in map(json.loads, lines)}
    assert {
        ("shop.users", "{'$numberInt': '7'}"),
        ("shop.people", "{'$numberInt': '3'}"),
        ("shop.words", "abc"),
    } <= damaged
    assert Counter(ns for ns, _ in damaged if ns in ("shop.visits", "shop.days")) == {"shop.visits": 5, "shop.days": 1}
    shop.users.delete_one({"_id": "new"})
    shop.people.delete_one({"_id": "new"})
    shop.words.delete_one({"_id": "ABC"})
    shop.command("collMod", "visits", index={"name": "at_1", "expireAfterSeconds": 2**31 - 1})
    shop.command("collMod", "days", expireAfterSeconds="off")
    again = scene.run(plan)
    assert again.returncode == 0, again.stderr
    assert "All is as it would be without the accident" in again.stderr
    assert "Nothing to decide" in again.stderr, "the merge had set back the definitions of what was created again"
    assert shop.users.count_documents({"_id": 7, "mail": "m7"}) == 1
    assert sorted(shop.words.distinct("_id")) == ["abc", "def"]
    assert shop.visits.count_documents({}) == 10
    assert shop.days.distinct("n") == [1, 2]


async def test_a_copy_of_what_expired_is_there_to_look_at(scene: Scene) -> None:
    """A TTL index would remove its documents within a minute, as it did in the collection itself."""
    shop, old = scene.client["shop"], datetime.now(UTC) - timedelta(days=2)
    scene.client.admin.command("setParameter", 1, ttlMonitorEnabled=False)
    try:
        shop.visits.create_index("at", expireAfterSeconds=3600)
        shop.visits.create_index("who")
        shop.visits.insert_many([{"_id": n, "at": old, "who": n} for n in range(10)])
        backup, since = scene.backup("--oplog"), scene.now()
        shop.visits.delete_many({})
        scene.settle()
        limit = scene.first_entry({"op": "d", "ns": "shop.visits"}, since)
        scene.must_run(await scene.plan(backup, limit, choice=Choice("shop.visits", "other.copy")))
    finally:
        scene.client.admin.command("setParameter", 1, ttlMonitorEnabled=True)
    copy = scene.client["other"]["copy"]
    assert copy.count_documents({}) == 10
    found = {index["name"]: index.get("expireAfterSeconds") for index in copy.list_indexes()}
    assert found == {"_id_": None, "at_1": None, "who_1": None}


@pytest.mark.since(6, 0)
@pytest.mark.parametrize("passed", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["passed", "not yet"])
async def test_what_expires_by_its_own_option_comes_back_whole(expiring: Scene, passed: bool) -> None:
    """Clustered, or a time series: the live set would remove what is old as soon as it is loaded."""
    shop, old = expiring.client["shop"], datetime.now(UTC) - timedelta(days=200)
    admin, span = expiring.client.admin, 3_600 if passed else 10**9
    admin.command("setParameter", 1, ttlMonitorEnabled=False)
    shop.create_collection("days", clusteredIndex={"key": {"_id": 1}, "unique": True}, expireAfterSeconds=span)
    shop.days.insert_many([{"_id": old + timedelta(seconds=n)} for n in range(10)])
    shop.create_collection("heat", timeseries={"timeField": "at"}, expireAfterSeconds=span)
    shop.heat.insert_many([{"at": old + timedelta(seconds=n), "v": n} for n in range(10)])
    backup, since = expiring.backup("--oplog"), expiring.now()
    expiring.client.drop_database("shop")
    expiring.settle()
    admin.command("setParameter", 1, ttlMonitorEnabled=True)
    incident = await expiring.incident("dropDatabase", "shop")
    assert incident.first > since
    plan = await expiring.plan(backup, incident.point or incident.first, incident=incident)
    done = expiring.run(plan)
    assert done.returncode == (3 if passed else 0), done.stderr
    assert done.stderr.count("documents within a minute. It is left off") == 2 * passed
    await asyncio.sleep(3)
    assert [shop[name].count_documents({}) for name in ("days", "heat")] == [10, 10]
    there = {info["name"]: info["options"].get("expireAfterSeconds") for info in shop.list_collections()}
    assert [there[name] for name in ("days", "heat")] == [None if passed else span] * 2
    gateway = open_gateway(expiring.spare.uri)
    try:
        again = await verify(plan, gateway)
    finally:
        await gateway.close()
    assert again.level is Level.OK, "the expiry that was turned off there is no difference"


@pytest.mark.since(6, 0)
async def test_a_copy_of_a_clustered_collection_does_not_expire(scene: Scene) -> None:
    """Its expireAfterSeconds needs no index, and the live set would remove what is old as soon as it is loaded."""
    shop, old = scene.client["shop"], datetime.now(UTC) - timedelta(days=2)
    shop.create_collection("passes", clusteredIndex={"key": {"_id": 1}, "unique": True}, expireAfterSeconds=10**6)
    shop.passes.insert_many([{"_id": old + timedelta(seconds=n)} for n in range(10)])
    backup, since = scene.backup("--oplog"), scene.now()
    shop.later.insert_one({})
    scene.settle()
    limit = scene.first_entry({"op": "i", "ns": "shop.later"}, since)
    scene.must_run(await scene.plan(backup, limit, choice=Choice("shop.passes", "other.copy")))
    copy = scene.client["other"]["copy"]
    assert (copy.count_documents({}), copy.options()["clusteredIndex"]["key"]) == (10, {"_id": 1})
    assert "expireAfterSeconds" not in copy.options()
    assert shop.passes.options()["expireAfterSeconds"] == 10**6


async def test_one_collection_and_two_documents_by_choice(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.orders.create_index("mail", unique=True)
    shop.orders.insert_many([{"_id": n, "mail": f"m{n}"} for n in range(50)])
    person = ObjectId()
    shop.orders.insert_one({"_id": person, "mail": "p"})
    shop.other.insert_one({"_id": 1})
    backup = scene.backup("--oplog")
    shop.orders.update_one({"_id": 3}, {"$set": {"mail": "new"}})
    before, limit = record(scene.client), scene.now()
    limit = Ts(limit.t, limit.i + 1)
    shop.orders.delete_many({"_id": {"$not": {"$lt": 5}}})
    shop.orders.update_many({}, {"$set": {"bad": 1}})
    shop.other.drop()
    scene.settle()
    live = record(scene.client)
    whole = await scene.plan(backup, limit, choice=Choice("shop.orders", "shop.monday"))
    shop.monday.insert_one({"_id": "since"})
    refused = scene.run(whole)
    assert refused.returncode == 1
    assert '[name-taken] "shop.monday" is there already' in refused.stderr
    assert list(shop.monday.find()) == [{"_id": "since"}]
    shop.monday.drop()
    scene.must_run(whole)
    after = record(scene.client)
    assert after.pop("shop.monday") == before["shop.orders"]
    assert after == live
    taken = await scene.plan(backup, limit, choice=Choice("shop.orders", "shop.monday"))
    assert "target-taken" in ids(taken)
    absent = await scene.plan(backup, limit, choice=Choice("shop.nothing", "shop.x"))
    assert "not-at-point" in ids(absent)

    scene.empty_spare()
    file, work = scene.folder / "some.sh", scene.folder / "some"
    words = f"--only=shop.orders --as=shop.some --id=3 --id={person} --id=nobody --json --script={file}".split()
    words += [f"--backup={backup}", f"--before={limit}", f"--spare={scene.spare.members[0].address}"]
    command = ["restore", "plan", scene.source.uri, *words, f"--work-dir={work}"]
    made = await asyncio.to_thread(CliRunner().invoke, main, command)
    assert made.exit_code in (0, 1), made.stderr
    printed = json.loads(made.stdout)
    assert printed["limit"] == str(limit)
    assert printed["commands"], "the same plan as in the script"
    done = scene.run_file(file)
    assert done.returncode == 3, done.stderr
    after = record(scene.client)
    kind, options, indexes, rows = before["shop.orders"]
    chosen = [row for row in rows if bson.decode(row)["_id"] in (3, person)]
    assert after.pop("shop.some") == (kind, options, indexes, chosen)
    assert after.pop("shop.monday") == before["shop.orders"]
    assert after == live
    (missing,) = (work / "still-damaged.jsonl").read_text().splitlines()
    assert json.loads(missing)["_id"] == "nobody", "the ObjectId, which may also be meant as a text, is not missing"


def _runs_at_once(scene: Scene, *folders: Path) -> list[subprocess.CompletedProcess[str]]:
    def one(folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["tallyglass", "restore", "run", str(folder), "--yes"],
            env=scene.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip

    with ThreadPoolExecutor(len(folders)) as pool:
        return list(pool.map(one, folders))


@pytest.mark.parametrize("accident", [pytest.param("drop", marks=pytest.mark.soak), "deleteMany"])
async def test_of_two_runs_of_one_plan_at_the_same_time_one_is_stopped_before_it_writes(
    scene: Scene, accident: str
) -> None:
    shop = scene.client["shop"]
    shop.carts.insert_many([{"_id": n} for n in range(500)])
    backup = scene.backup("--oplog")
    before, since = record(scene.client), scene.now()
    if accident == "drop":
        shop.carts.drop()
    else:
        shop.carts.delete_many({"_id": {"$lt": 300}})
    scene.settle()
    incident = await scene.incident(accident, "shop.carts")
    assert incident.last > since
    plan = await scene.plan(backup, incident.limit, incident=incident)
    one, other = write_folder(plan, scene.folder / "one"), scene.folder / "other"
    scene.tool("tallyglass", "restore", "run", str(one), "--yes", "--until=verify")
    shutil.copytree(one, other)
    done = sorted(_runs_at_once(scene, one, other), key=lambda run: run.returncode)
    assert [run.returncode for run in done] == [0, 1], [run.stderr for run in done]
    # The last of these is mongorestore's: the other reserved the name in the moment between its drop and its create.
    refusals = ("[name-taken]", "was created since the plan", "(NamespaceExists)")
    assert any(refusal in done[1].stderr + done[1].stdout for refusal in refusals), done[1].stderr
    assert record(scene.client)["shop.carts"] == before["shop.carts"]
    assert [name for name in shop.list_collection_names() if "_pitr_" in name] == []


async def test_a_spare_that_was_changed_after_it_was_compared_returns_nothing(scene: Scene) -> None:
    """What it lacks would count as never having been there, and what others wrote there would be brought back."""
    shop = scene.client["shop"]
    shop.carts.insert_many([{"_id": n} for n in range(500)])
    backup = scene.backup("--oplog")
    shop.carts.delete_many({"_id": {"$lt": 300}})
    scene.settle()
    incident = await scene.incident("deleteMany", "shop.carts")
    plan = await scene.plan(backup, incident.limit, incident=incident)
    scene.must_run(plan, "--until=verify")
    carts = scene.spare_client["shop"].carts
    for change, words in (
        (lambda: carts.update_one({"_id": 5}, {"$set": {"v": "other"}}), "shop.carts was written to there"),
        (lambda: carts.delete_many({"_id": {"$lt": 100}}), "shop.carts holds 400 documents there, not 500"),
    ):
        change()
        done = scene.run(plan)
        assert (done.returncode, words in done.stderr) == (1, True), done.stderr
    assert shop.carts.count_documents({}) == 200


async def test_a_named_spare_that_a_killed_run_half_filled_is_emptied(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n} for n in range(50)])
    backup = scene.backup("--oplog")
    before, since = record(scene.client), scene.now()
    shop.orders.drop()
    scene.settle()
    plan = await scene.plan(backup, scene.first_entry({"o.drop": "orders"}, since))
    real, killed = scene.path, scene.folder / "killed"
    killed.mkdir()
    (killed / "mongorestore").write_text(
        f'#!/bin/sh\nPATH={shlex.quote(real)}:$PATH\nmongorestore "$@" || exit\n'
        'case "$*" in *--oplogReplay*) exit 9 ;; esac\n'
    )
    (killed / "mongorestore").chmod(0o755)
    scene.path = f"{killed}:{real}"
    assert "step-failed" in scene.run(plan).stderr
    scene.path = real
    assert "shop" in scene.spare_client.list_database_names()
    marks = scene.spare_client["admin"]["tallyglass_spare"]
    mark = marks.find_one_and_delete({"_id": plan.mark})
    assert mark is not None
    refused = scene.run(plan)
    assert "spare is not empty" in refused.stderr, "nothing proves whose data it is"
    assert "shop" in scene.spare_client.list_database_names()
    marks.insert_one(mark)
    scene.spare_client["shop"]["half"].insert_one({})  # what a replay made that was killed: --drop leaves it
    scene.must_run(plan)
    assert record(scene.client)["shop.orders"] == before["shop.orders"]


@pytest.mark.parametrize(
    ("limit", "room"),
    [
        ({"size": 2**20, "max": 100}, False),
        pytest.param({"size": 8192}, False, marks=pytest.mark.soak),
        ({"size": 2**20}, True),
    ],
)
async def test_what_comes_back_to_a_capped_collection_removes_nothing(
    scene: Scene, limit: dict[str, int], room: bool
) -> None:
    log = scene.client["shop"].create_collection("log", capped=True, **limit)
    log.insert_many([{"_id": n, "text": "x" * 50} for n in range(99)])
    log.insert_one({"_id": None, "text": "y"})
    backup = scene.backup("--oplog")
    scene.settle()
    deleted = [row["_id"] for row in log.find().limit(40)]
    log.delete_many({"_id": {"$in": deleted}})
    log.insert_many([{"_id": 1000 + n, "text": "z" * 50} for n in range(35)])
    there = [row["_id"] for row in log.find()]
    scene.settle()
    incident = await scene.incident("deleteMany", "shop.log")
    plan = await scene.plan(backup, incident.limit, incident=incident)
    assert "It is capped" in plan.undo.returns[0].note
    done = scene.run(plan)
    assert [row["_id"] for row in log.find()] == there + deleted * room
    assert done.returncode == (0 if room else 3), done.stderr
    assert ("Still damaged or unclear: 40." in done.stderr) is not room, done.stderr
