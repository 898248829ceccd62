"""Undo an incident from pre-images with real tools: no backup, no spare, the emitted script unchanged."""

from __future__ import annotations

import json
import os
import re
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp, decode
from click.testing import CliRunner
from pymongo import MongoClient
from restore_scene import OtherClient, Scene, blocks, ids, kill_at, resume

from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.oplog.incidents.incident import scan
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.backup.bson_file import documents
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.source import FromImages
from tallyglass.restore.plan.from_images import plan_undo
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.tools.files import LOADED
from tallyglass.restore.undo.evidence import read_evidence
from tallyglass.restore.undo.sources.image_files import image_file
from tallyglass_tui.cli.main import main

pytestmark = [pytest.mark.live, pytest.mark.tools, pytest.mark.since(6, 0)]

_COUNT = 400
_STEPS, _LOAD, _MERGE = 10, 5, 7
"""Of the undo of a delete, with the one that loads the repairs and the one that writes them."""


@pytest.fixture
def kept(scene: Scene) -> Scene:
    """A collection that keeps pre-images."""
    shop = scene.client["shop"]
    shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
    fill(scene, _COUNT)
    return scene


def fill(scene: Scene, count: int) -> None:
    rows: list[dict[str, Any]] = [{"_id": n, "v": n, "own": {"a": n, "b": "text"}, "n": 0} for n in range(count)]
    for first in range(0, count, 10_000):
        scene.client["shop"].orders.insert_many(rows[first : first + 10_000])


def done_since(scene: Scene, since: Ts, op: str, ns: str = "shop.orders") -> Incident:
    """What was done to a collection by entries without a session. Made by hand: the scan takes the same delete at equal
    intervals, as these tests repeat it, for a job."""
    scene.settle()
    mine = {"ns": ns, "op": op, "lsid": {"$exists": False}}
    first, last = scene.first_entry(mine, since), scene.newest_of(mine)
    kind = {"d": "deleteMany", "u": "updateMany"}[op]
    return Incident(1, kind, f"{kind} on {ns}", ns, Harm.LOSS, first, last, None, None, 1, None)


def contents(scene: Scene) -> dict[Any, dict[str, Any]]:
    return {row["_id"]: row for row in scene.client["shop"].orders.find()}


def still_damaged(scene: Scene) -> dict[int, str]:
    """The ids that the account lists, each with the reason."""
    rows = (scene.folder / "work" / "still-damaged.jsonl").read_text().splitlines()
    return {int(row["_id"]["$numberInt"]): row["why"] for row in map(json.loads, rows)}


class Writer(OtherClient):
    """Keeps a ledger of what it wrote."""

    def __init__(self, scene: Scene, first: int = 1_000_000) -> None:
        super().__init__(scene)
        self._first = first
        self.deposits: dict[int, int] = {}
        self.inserted: list[int] = []

    def work(self, client: MongoClient[Any]) -> None:
        orders, number = client["shop"].orders, 0
        while not self.stop.wait(0.002):
            number += 1
            id_ = (number * 7) % _COUNT
            if orders.update_one({"_id": id_}, {"$inc": {"n": 1}}).modified_count:
                self.deposits[id_] = self.deposits.get(id_, 0) + 1
            orders.insert_one({"_id": self._first + number, "v": "theirs"})
            self.inserted.append(self._first + number)


class Worker(OtherClient):
    """Deletes all that there is, as soon as it is there."""

    def work(self, client: MongoClient[Any]) -> None:
        while not self.stop.wait(0.002):
            client["shop"].items.delete_many({})


async def test_deleted_documents_come_back_amid_other_writers(kept: Scene) -> None:
    orders = kept.client["shop"].orders
    since = kept.now()
    with Writer(kept) as writer:
        orders.delete_many({"_id": {"$lt": 300}})
        plan = await kept.undo(done_since(kept, since, "d"))
        assert [check for check in plan.checks if check.level is not Level.OK and check.id != "head-room"] == []
        output = kept.must_run(plan)
    after = contents(kept)
    assert [n for n in range(_COUNT) if n not in after] == []
    assert {n: after[n]["n"] for n in range(_COUNT)} == {n: writer.deposits.get(n, 0) for n in range(_COUNT)}
    assert all(after[n]["own"] == {"a": n, "b": "text"} for n in range(_COUNT))
    assert all(after[n]["v"] == "theirs" for n in writer.inserted)
    assert "NOT COMPLETE" not in output
    assert not [name for name in kept.client["shop"].list_collection_names() if name != "orders"]


@pytest.mark.soak
async def test_updates_are_undone_field_by_field(kept: Scene) -> None:
    orders = kept.client["shop"].orders
    with Writer(kept) as writer:
        since = kept.now()
        mine = {"_id": {"$gte": 100}, "v": {"$ne": "theirs"}}
        orders.update_many(mine, {"$set": {"own.a": "BAD"}, "$unset": {"v": ""}})
        plan = await kept.undo(done_since(kept, since, "u"))
        assert [check for check in plan.checks if check.level is not Level.OK and check.id != "head-room"] == []
        kept.must_run(plan)
    after = contents(kept)
    for n in range(_COUNT):
        assert after[n] == {"_id": n, "v": n, "own": {"a": n, "b": "text"}, "n": writer.deposits.get(n, 0)}


async def test_the_document_whose_id_is_null_counts_as_restored(kept: Scene) -> None:
    orders, since = kept.client["shop"].orders, kept.now()
    orders.insert_one({"_id": None, "v": "good"})
    orders.update_many({"_id": {"$in": [None, 1, 2]}}, {"$set": {"v": "BAD"}})
    output = kept.must_run(await kept.undo(done_since(kept, since, "u")))
    assert re.findall(r"shop\.orders +(\d+) +(\d+) +(\d+) +(\d+)", output)[-1] == ("3", "3", "0", "0"), output
    assert contents(kept)[None] == {"_id": None, "v": "good"}


async def test_repairs_wait_for_those_that_free_their_unique_values_but_in_a_circle(kept: Scene) -> None:
    orders = kept.client["shop"].orders
    orders.delete_many({})
    # 0, 1 and 2 get each other's value; 3 to 11, visited from the last, the value of the next.
    orders.insert_many([{"_id": -n, "k": n} for n in range(12)])
    since = kept.now()
    moved = {"$add": ["$k", {"$cond": [{"$eq": ["$k", 2]}, -2, 1]}]}
    orders.update_many({}, [{"$set": {"k": moved}}], hint=[("_id", 1)])
    orders.create_index("k", unique=True)
    plan = await kept.undo(done_since(kept, since, "u"), evidence=read_evidence("", 12))
    done = kept.run(plan)
    assert done.returncode == 3, done.stderr
    rows = still_damaged(kept)
    assert sorted(rows) == [-2, -1, 0], done.stderr
    assert all("waits for this one" in why for why in rows.values()), rows
    assert {n: row["k"] for n, row in contents(kept).items() if n < -2} == {-n: n for n in range(3, 12)}


async def test_what_an_index_refuses_is_left_out(kept: Scene) -> None:
    """The review finds the live document that has the value of an element. Only the server says that an empty array is
    taken, and that an index made since does not take a document."""
    items = kept.client["shop"].create_collection("items", changeStreamPreAndPostImages={"enabled": True})
    items.insert_many(
        [{"_id": n, "c": n % 2, "items": [{"sku": n}, {"sku": -n}], "tags": [n, n] if n else []} for n in range(11)]
        + [{"_id": 11, "c": 1, "items": [], "tags": 11, "at": [500, 500]}]
    )
    items.create_index([("c", 1), ("items.sku", 1)], unique=True)
    items.create_index("tags", unique=True)
    since = kept.now()
    items.delete_many({})
    items.insert_many([
        {"_id": 20, "c": 1, "items": [{"sku": 99}, {"sku": -5}], "tags": 20},
        {"_id": 21, "c": 0, "items": [{"sku": -7}], "tags": 21},
        {"_id": 22, "c": 2, "items": [], "tags": []},
    ])  # fmt: skip
    items.create_index([("at", "2dsphere")])
    done = kept.run(await kept.undo(done_since(kept, since, "d", "shop.items")))
    assert done.returncode == 3, done.stderr
    assert "1 left out" in done.stderr, done.stderr
    assert sorted(items.distinct("_id")) == [*(n for n in range(1, 11) if n != 5), 20, 21, 22]
    rows = still_damaged(kept)
    assert "live document 20." in rows[5]
    assert "The server refuses it: E11000 duplicate key error" in rows[0]
    assert "The server refuses it: Can't extract geo keys" in rows[11]
    assert len(rows) == 3


async def test_what_came_back_before_an_index_refused_one_and_was_deleted_stays_deleted(kept: Scene) -> None:
    """A worker deletes what comes back at once. The server writes 16 MB at a time, and goes no further where an index
    refuses one: the rest, and that one once more, is left to the catch-up."""
    count, pad = 400, "x" * 65536
    items = kept.client["shop"].create_collection("items", changeStreamPreAndPostImages={"enabled": True})
    items.insert_many([{"_id": n, "pad": pad, "at": [500 if n == count - 1 else 0, 0]} for n in range(count)])
    since = kept.now()
    items.delete_many({})
    items.create_index([("at", "2dsphere")])
    plan = await kept.undo(done_since(kept, since, "d", "shop.items"))
    with Worker(kept):
        done = kept.run(plan)
    assert (done.returncode, list(still_damaged(kept))) == (3, [count - 1]), done.stderr
    inserted = kept.client.local["oplog.rs"].find(
        {"ts": {"$gt": Timestamp(since.t, since.i)}, "ns": "shop.items", "op": "i"}
    )
    assert Counter(row["o"]["_id"] for row in inserted) == Counter(range(count - 1))


@pytest.mark.soak
async def test_a_transaction_over_several_collections(kept: Scene) -> None:
    shop = kept.client["shop"]
    shop.create_collection("parts", changeStreamPreAndPostImages={"enabled": True})
    shop.parts.insert_many([{"_id": n, "v": n} for n in range(50)])
    with kept.client.start_session() as session, session.start_transaction():
        for n in range(30):
            shop.parts.delete_one({"_id": n}, session=session)
            shop.orders.update_one({"_id": n}, {"$set": {"v": "bad"}}, session=session)
    kept.settle()
    gateway = open_gateway(kept.source.uri)
    try:
        found: dict[tuple[Any, int], Any] = {}
        async for progress in scan(gateway):
            found = {(one.first, one.number): one for one in progress.incidents if one.kind == "transaction"}
        incident = found[max(found)]
        plan = await plan_undo(
            gateway, RestoreRequest(None, kept.source.uri, incident=incident, work_dir=str(kept.folder / "work"))
        )
    finally:
        await gateway.close()
    assert plan.level is not Level.BLOCK, blocks(plan)
    kept.must_run(plan)
    assert [row["v"] for row in shop.parts.find().sort("_id")] == list(range(50))
    assert {n: row["v"] for n, row in contents(kept).items()} == {n: n for n in range(_COUNT)}


def await_count(scene: Scene, wanted: int) -> None:
    """Wait until what expired is gone."""
    while scene.client["shop"].orders.count_documents({}) > wanted:
        time.sleep(0.05)


@pytest.mark.soak
@pytest.mark.parametrize("shortened", [True, False], ids=["collMod", "createIndexes"])
async def test_documents_that_expired_by_mistake_come_back(expiring: Scene, shortened: bool) -> None:
    """The incident is found as commands and screen find it. While the mistake stands nothing is written; with the time
    raised, the same script brings back every document."""
    shop, today = expiring.client["shop"], datetime.now(UTC).replace(microsecond=0)
    shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": True})
    rows = [{"_id": n, "at": today - timedelta(days=n % 100, hours=1), "own": {"a.b": n}} for n in range(2_000)]
    shop.orders.insert_many(rows)
    year, month = 365 * 86_400, 30 * 86_400
    shop.orders.create_index("at", name="at", expireAfterSeconds=year if shortened else month)
    if shortened:
        shop.command("collMod", "orders", index={"name": "at", "expireAfterSeconds": month})
    await_count(expiring, 600)
    expiring.settle()
    entry = expiring.client.local["oplog.rs"].find_one({"op": "d", "ns": "shop.orders"})
    assert entry is not None
    assert not {"lsid", "txnNumber"} & entry.keys(), "nothing but the index says what deleted it"
    incident = await expiring.incident("deleteMany", "shop.orders")
    assert (incident.documents, incident.note) == (1_400, "or the TTL index of this collection")
    plan = await expiring.undo(incident)
    assert ids(plan, Level.WARN) >= {"images-ttl"}
    refused = expiring.run(plan)
    assert (refused.returncode, shop.orders.count_documents({})) == (3, 600), refused.stderr
    assert "The TTL index at would remove it again: raise its time first." in refused.stderr
    shop.command("collMod", "orders", index={"name": "at", "expireAfterSeconds": year})
    expiring.must_run(plan)
    assert contents(expiring) == {row["_id"]: row | {"at": row["at"].replace(tzinfo=None)} for row in rows}
    definition = await expiring.incident("collMod" if shortened else "createIndexes", "shop.orders")
    blocked = await expiring.undo(definition)
    assert "plan for the incident of their deletes" in next(check.advice for check in blocked.checks)


async def test_what_cannot_be_undone_from_images_is_refused(kept: Scene) -> None:
    shop = kept.client["shop"]
    shop.plain.insert_many([{"_id": n} for n in range(200)])
    since = kept.now()
    shop.plain.delete_many({})
    plan = await kept.undo(done_since(kept, since, "d", "shop.plain"))
    assert ids(plan) == {"images-gap"}
    assert "none of the 200 pre-images is held" in blocks(plan)[0]
    assert "collMod" in next(check.advice for check in plan.checks if check.id == "images-gap")
    assert plan.steps.commands == ()
    shop.orders.drop()
    kept.settle()
    drop = await kept.incident("drop", "shop.orders")
    assert ids(await kept.undo(drop)) == {"images-kind"}


@pytest.mark.parametrize("written", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["renamed", "control"])
async def test_images_of_a_renamed_collection_are_held_under_its_old_name(kept: Scene, written: bool) -> None:
    """The plan says so, and is possible once it is renamed back, unless it was written to in between."""
    shop, since = kept.client["shop"], kept.now()
    shop.orders.delete_many({"_id": {"$lt": 300}})
    incident = done_since(kept, since, "d")
    planned = await kept.undo(incident)
    shop.orders.rename("away")
    for another in (False, True):
        if another:
            shop.create_collection("orders")
        refused = await kept.undo(incident)
        assert ids(refused) == {"images-collection"}
        advice = next(check.advice for check in refused.checks if check.id == "images-collection")
        assert "rename it back and plan again: its pre-images are held" in advice
    if written:
        stopped = kept.run(planned)
        assert (stopped.returncode, "was renamed to shop.away since" in stopped.stderr) == (1, True), stopped.stderr
        (kept.folder / "work").rename(kept.folder / "first")
    shop.orders.drop()
    if written:
        shop.away.update_one({"_id": 399}, {"$inc": {"n": 1}})
    shop.away.rename("orders")
    plan = await kept.undo(incident)
    if written:
        done = kept.run(plan)
        assert (done.returncode, len(contents(kept))) == (1, _COUNT - 300), done.stderr
        assert "one of them was written to meanwhile" in done.stderr
        return
    kept.must_run(plan)
    assert {n: row["v"] for n, row in contents(kept).items()} == {n: n for n in range(_COUNT)}


@pytest.mark.soak
async def test_images_that_expire_after_the_plan_stop_the_script(kept: Scene) -> None:
    since = kept.now()
    kept.client["shop"].orders.delete_many({"_id": {"$lt": 200}})
    plan = await kept.undo(done_since(kept, since, "d"))
    assert plan.level is not Level.BLOCK
    before = contents(kept)
    kept.client.config["system.preimages"].delete_many({})
    done = kept.run(plan)
    assert done.returncode != 0
    assert "no longer exists" in done.stderr
    assert contents(kept) == before


@pytest.mark.soak
@pytest.mark.parametrize("with_step", [False, True], ids=["alone", "with-step"])
@pytest.mark.parametrize("step", range(1, _STEPS + 1))
async def test_killed_at_any_step_it_resumes(kept: Scene, step: int, with_step: bool) -> None:
    orders = kept.client["shop"].orders
    since = kept.now()
    orders.delete_many({"_id": {"$lt": 300}})
    plan = await kept.undo(done_since(kept, since, "d"))
    assert len(plan.steps.commands) == _STEPS
    kill_at(kept, plan, step, with_step=with_step)
    done = resume(kept, plan)
    assert done.returncode == 0, done.stderr
    assert {n: row["v"] for n, row in contents(kept).items()} == {n: n for n in range(_COUNT)}


@pytest.mark.parametrize("step", [_LOAD, _MERGE])
async def test_what_came_back_beside_a_killed_run_and_was_deleted_stays_deleted(kept: Scene, step: int) -> None:
    shop, since, five = kept.client["shop"], kept.now(), contents(kept)[5]
    shop.orders.delete_many({"_id": {"$lt": 300}})
    plan = await kept.undo(done_since(kept, since, "d"))
    kill_at(kept, plan, step, with_step=True)
    if step == _MERGE:  # as it would be, had it been killed later
        staging = plan.undo.returns[0].beside.partition(".")[2]
        assert shop[staging].update_one({}, {"$set": {"b": datetime.now(UTC)}}).matched_count == 1
    shop.orders.insert_one(five)
    shop.orders.delete_one(five)
    done = resume(kept, plan)
    assert done.returncode == 0, done.stderr
    assert sorted(contents(kept)) == [n for n in range(_COUNT) if n != 5]
    assert re.findall(r"shop\.orders +(\d+) +(\d+) +(\d+) +(\d+)", done.stderr)[-1] == ("300", "300", "0", "0")


async def test_what_a_killed_catch_up_loaded_is_dropped_by_the_next(kept: Scene) -> None:
    shop, since = kept.client["shop"], kept.now()
    shop.orders.delete_many({"_id": {"$lt": 300}})
    plan = await kept.undo(done_since(kept, since, "d"))
    kill_at(kept, plan, _MERGE + 1, with_step=True)
    # As it would be, had it been killed after its last write.
    staging, work = plan.undo.returns[0].repairs.partition(".")[2], Path(plan.steps.work_dir)
    shop[staging].insert_one({"_id": 5, "r": {"_id": 5}, "b": datetime.now(UTC)})
    (work / LOADED).touch()
    done = resume(kept, plan)
    assert done.returncode == 0, done.stderr
    assert shop.list_collection_names() == ["orders"]
    assert sorted(contents(kept)) == list(range(_COUNT))
    assert not (work / LOADED).exists()


@pytest.mark.soak
async def test_many_documents_beside_the_same_from_backup_and_oplog(scene: Scene) -> None:
    """The deleted documents of a collection under write load, each way; prints the seconds of each.
    ``TALLYGLASS_RESTORE_DOCUMENTS`` is how many. Each way has a collection of its own: of two such deletes in one
    collection within a minute, nothing tells whose the entries are."""
    count = int(os.environ.get("TALLYGLASS_RESTORE_DOCUMENTS", "100000"))
    shop = scene.client["shop"]
    folder = scene.folder
    for first, way in ((1_000_000, "pre-images"), (2_000_000, "backup alone"), (3_000_000, "backup and spare")):
        scene.folder = folder / way.replace(" ", "-")
        scene.folder.mkdir()
        shop.drop_collection("orders")
        shop.create_collection("orders", changeStreamPreAndPostImages={"enabled": way == "pre-images"})
        fill(scene, count)
        backup, since = scene.backup("--oplog"), scene.now()
        with Writer(scene, first) as writer:
            shop.orders.delete_many({"_id": {"$lt": count}})
            scene.settle()
            begun = time.monotonic()
            if way != "backup and spare":
                plan = await scene.undo(done_since(scene, since, "d"), None if way == "pre-images" else backup)
            else:
                incident = done_since(scene, since, "d")
                plan = await scene.plan(backup, incident.limit, incident=incident)
            planned = time.monotonic() - begun
            output = scene.must_run(plan)
            seconds = time.monotonic() - begun
        print(f"plan {planned:.1f} s", *re.findall(r"^  \[\d+/\d+\] .*, \d+:\d+.*$", output, re.MULTILINE), sep="\n")
        print(f"{way}: {count} documents in {seconds:.1f} s")
        after = contents(scene)
        assert [n for n in range(count) if n not in after] == []
        assert all(after[n]["own"] == {"a": n, "b": "text"} for n in range(count))
        assert all(n in after for n in writer.inserted)


@pytest.mark.parametrize("archive", [False, pytest.param(True, marks=pytest.mark.soak)])
async def test_documents_without_an_image_come_from_the_backup(kept: Scene, archive: bool) -> None:
    shop = kept.client["shop"]
    backup = kept.backup("--oplog", archive=archive)
    shop.orders.update_many({"_id": {"$lt": 60}}, {"$set": {"own.b": "after the backup"}})
    shop.orders.insert_one({"_id": 399_999, "v": "inserted after the backup"})
    wanted = contents(kept)
    since = kept.now()
    shop.command("collMod", "orders", changeStreamPreAndPostImages={"enabled": False})
    shop.orders.delete_many({"$or": [{"_id": {"$lt": 100}}, {"_id": 399_999}]})
    shop.command("collMod", "orders", changeStreamPreAndPostImages={"enabled": True})
    shop.orders.delete_many({"_id": {"$lt": 300}})
    incident = done_since(kept, since, "d")
    assert ids(await kept.undo(incident)) == {"images-gap"}
    plan = await kept.undo(incident, backup)
    held = next(check for check in plan.checks if check.id == "images-from-backup")
    assert "200 pre-images are held; the other 101 documents come from the backup" in held.title
    assert isinstance(plan.source, FromImages)
    if archive:
        kept.must_run(plan)
        assert contents(kept) == wanted
        return
    kept.must_run(plan, "--until", "secure")
    saved = map(decode, documents(image_file(kept.folder / "work" / "images", 1)))
    assert {row["_id"]: row for row in saved} == {n: row for n, row in wanted.items() if n < 300 or n == 399_999}


def test_the_command_takes_the_backup_without_a_spare_and_falls_back_to_one(scene: Scene) -> None:
    """Without images the documents are carried forward from the backup; of a collection that was made again since,
    the backup has none of them, and the spare is used."""
    shop = scene.client["shop"]
    for name in ("fallback", "again"):
        shop[name].insert_many([{"_id": n, "v": n} for n in range(300)])
    before = {row["_id"]: row for row in shop.fallback.find()}
    backup = scene.backup("--oplog")
    shop.again.drop()
    shop.again.insert_many([{"_id": n, "v": -n} for n in range(300)])
    for name in ("fallback", "again"):
        shop[name].delete_many({})
    scene.settle()
    incidents = CliRunner().invoke(main, ["incidents", scene.source.uri, "--json"])
    # Not by their numbers: what an earlier test wrote may become an incident meanwhile.
    points = {one["ns"]: one["point"] for one in json.loads(incidents.stdout) if one["kind"] == "deleteMany"}
    words = ["restore", "plan", scene.source.uri, "--incident", points["shop.fallback"]]
    alone = CliRunner().invoke(main, words)
    assert (alone.exit_code, "none of the 300 pre-images is held" in alone.stderr) == (2, True)
    assert "pre-images: not possible. shop.fallback keeps no pre-images." in alone.stderr
    assert "backup and oplog: not known yet. No backup is named." in alone.stderr
    out = scene.folder / "plan"
    offered = CliRunner().invoke(main, [*words, "--backup", str(backup), "--out", str(out)])
    assert offered.exit_code in (0, 1), offered.stderr
    first, second = [line for line in offered.stderr.splitlines() if "possible. " in line][:2]
    assert first.startswith("tallyglass: backup, no spare: possible. shop.fallback keeps no pre-images. The backup has")
    assert "backup and oplog: possible." in second
    assert not (out / "spare.yml").exists()
    assert scene.run_file(out / "restore.sh").returncode == 0
    assert {row["_id"]: row for row in shop.fallback.find()} == before
    words[-1] = points["shop.again"]
    both = CliRunner().invoke(main, [*words, "--backup", str(backup)])
    assert both.exit_code in (0, 1), both.stderr
    assert "planning from the backup" in both.stderr
    assert "--config=spare.yml" in both.stdout
