"""The base is proven: a backup that is not what it is taken for is refused by an id, or restored to the byte."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pymongo import WriteConcern
from restore_scene import Scene, blocks, ids, record, same

from builders.base_claims import drop, refused, sidecar
from tallyglass.demo.server import ReplicaSet, Servers, Standalone
from tallyglass.errors import DeploymentError
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.restore.model.check import Level
from tallyglass.restore.plan.prepare import prepare

pytestmark = [pytest.mark.live, pytest.mark.tools]

FAR = 3600
"""How many seconds the delayed member is behind: it applies nothing more within a test."""


def newest(scene: Scene) -> Ts:
    row = scene.client.local["oplog.rs"].find_one({}, sort=[("$natural", -1)])
    assert row is not None
    return Ts(row["ts"].time, row["ts"].inc)


def start_again(source: ReplicaSet) -> None:
    """Normal disaster recovery: ``local`` is dropped on a standalone, and the set is initiated again."""
    name, source.set_name = source.set_name, None
    source.shut_down(0)
    source.restart(0)
    with source.client(0) as client:
        client.drop_database("local")
    source.shut_down(0)
    source.set_name = name
    source.restart(0)
    config = {"_id": name, "members": [{"_id": 0, "host": source.members[0].address}]}
    with source.client(0) as client:
        client.admin.command("replSetInitiate", config)
    source.await_primary()


async def test_the_lives_of_a_set(spare: Standalone, tmp_path: Path, tool_path: str, live_set: ReplicaSet) -> None:
    """A standalone becomes a set and is initiated again later: each backup is valid only for its own period."""
    folder = tmp_path / "standalone"

    def fill_and_dump(servers: Servers) -> None:
        with servers.client(0) as client:
            client["shop"].orders.insert_many([{"_id": n, "v": n} for n in range(1_010)])
        scene = Scene.__new__(Scene)
        scene.path, scene.folder = tool_path, tmp_path
        scene.tool("mongodump", f"--uri={servers.direct_uri()}", f"--out={folder}")

    with ReplicaSet(1, before=fill_and_dump) as source, closing(Scene(source, spare, tmp_path, tool_path)) as scene:
        scene.settle()
        shop = scene.client["shop"]
        # In no oplog: what happened between the dump of the standalone and the first entry of the set.
        shop.orders.delete_many({"_id": {"$lt": 10}})
        limit = drop(scene)
        refused(await scene.plan(folder, limit, backup_start=Ts(limit.t - FAR, 1)), "set-initiated-later")

        # The oplog does not hold the inserts; what the drop says of the count does not fit a part of them.
        shop.orders.insert_many([{"_id": n} for n in range(5)])
        shop.old.insert_many([{"_id": n, "v": n} for n in range(300)])
        scene.settle()
        whole = scene.backup("--oplog", name="first life")
        shop.orders.insert_one({"_id": 100})
        before, last = record(scene.client), newest(scene)
        scene.client.close()
        start_again(source)
        scene.client = source.client()
        shop = scene.client["shop"]
        shop.orders.insert_one({"_id": 200})
        scene.settle()
        assert newest(scene) > last
        limit = drop(scene)
        plan = await scene.plan(whole, limit)
        refused(plan, "set-initiated-later")

        # The 300 documents are older than this oplog: it does not say what they were, only how many.
        since = scene.now()
        part = tmp_path / "part"
        query = '--query={"v":{"$lt":200}}'
        scene.tool("mongodump", f"--uri={source.uri}", "--db=shop", "--collection=old", query, f"--out={part}")
        shop.old.insert_one({"_id": 1000, "v": 1000})
        limit = drop(scene, "old")
        plan = await scene.plan(part, limit, backup_start=since)
        refused(plan, "count-differs")
        assert any("held 301 documents" in title and "give 201" in title for title in blocks(plan)), blocks(plan)
        assert before

    # A dump of another set of the same name, against a set that keeps writing.
    with closing(Scene(live_set, spare, tmp_path, tool_path)) as scene:
        scene.client["shop"].orders.insert_many([{"_id": n} for n in range(20)])
        scene.settle()
        limit = drop(scene)
        plan = await scene.plan(whole, limit)
        assert {"stale-collection"} <= ids(plan), blocks(plan)


@pytest.fixture(scope="module")
def delayed_set() -> Iterator[ReplicaSet]:
    """A set with a hidden member that stays where it is once it is delayed."""
    with ReplicaSet(2) as servers:
        yield servers


def delay(scene: Scene) -> None:
    config = scene.client.admin.command("replSetGetConfig")["config"]
    config["members"][1] |= {"priority": 0, "votes": 0, "hidden": True}
    for field in ("secondaryDelaySecs", "slaveDelay"):
        if field in config["members"][1]:
            config["members"][1][field] = FAR
    config["version"] += 1
    scene.client.admin.command("replSetReconfig", config)
    with scene.source.client(1) as member:
        while member.admin.command("replSetGetConfig")["config"]["version"] != config["version"]:
            time.sleep(0.05)


async def test_a_dump_of_a_member_that_is_behind(
    delayed_set: ReplicaSet, spare: Standalone, tmp_path: Path, tool_path: str
) -> None:
    with closing(Scene(delayed_set, spare, tmp_path, tool_path)) as scene:
        shop = scene.client["shop"]
        both = shop.orders.with_options(write_concern=WriteConcern(2))
        both.insert_many([{"_id": n, "v": 0} for n in range(500)])
        delay(scene)
        shop.orders.insert_many([{"_id": n, "v": 0} for n in range(500, 910)])
        shop.orders.update_many({"_id": {"$lt": 50}}, {"$set": {"v": 1}})
        await sidecar(scene, "plain", "oplog")
        for name in ("plain", "oplog"):
            behind = f"--uri={delayed_set.direct_uri(1)}"
            options = ["--oplog"] if name == "oplog" else []
            scene.tool("mongodump", behind, *options, f"--out={tmp_path / name}")
        gateway = open_gateway(delayed_set.direct_uri(1))
        try:
            with pytest.raises(DeploymentError, match="not the primary"):
                await prepare(gateway, delayed_set.direct_uri(1), tmp_path / "elsewhere")
        finally:
            await gateway.close()
        shop.orders.insert_one({"_id": 1000})
        before = record(scene.client)
        limit = drop(scene)
        plain = await scene.plan(tmp_path / "plain", limit)
        refused(plain, "base-differs")
        assert any("460 documents are not as" in title for title in blocks(plain)), blocks(plain)
        plan = await scene.plan(tmp_path / "oplog", limit)
        assert "sidecar-late" in ids(plan, Level.WARN)
        scene.must_run(plan, "--until=verify")
        same(record(scene.spare_client), before)


async def test_a_filtered_dump(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n, "v": n} for n in range(1_010)])
    await sidecar(scene)
    query = '--query={"v":{"$lt":344}}'
    part = scene.backup("--db=shop", "--collection=orders", query)
    limit = drop(scene)
    plan = await scene.plan(part, limit)
    refused(plan, "base-differs")
    assert any("held 1,010 documents" in title and "give 344" in title for title in blocks(plan)), blocks(plan)


async def test_the_damaged_collection_is_not_in_the_backup(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n} for n in range(20)])
    shop.items.insert_one({"_id": 1})
    scene.client["other"].things.insert_one({"_id": 1})
    await sidecar(scene, "elsewhere", "without", "prefix")
    start = scene.now()
    elsewhere = scene.backup("--db=other", name="elsewhere")
    without = scene.backup("--db=shop", "--excludeCollection=orders", name="without")
    prefix = scene.backup("--db=shop", "--excludeCollectionsWithPrefix=ord", name="prefix")
    shop.items.insert_one({"_id": 2})
    scene.client.drop_database("shop")
    scene.settle()
    limit = scene.first_entry({"op": "c", "o.drop": {"$in": ["orders", "items"]}}, start)
    incident = await scene.incident("dropDatabase", "shop")
    for backup, more in ((elsewhere, {}), (without, {}), (prefix, {}), (elsewhere, {"incident": incident})):
        plan = await scene.plan(backup, None if more else limit, **more)  # type: ignore[arg-type]
        refused(plan, "damage-not-in-backup")
        assert plan.checks[0].id == "damage-not-in-backup", "what cannot be undone is said first"


async def test_two_dumps_in_one_directory(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n} for n in range(20)])
    shop.secret.insert_many([{"_id": n, "name": "somebody"} for n in range(5)])
    shop.create_collection("shown", viewOn="orders", pipeline=[])
    scene.settle()
    scene.backup("--oplog")
    shop.secret.drop()
    shop.shown.drop()
    await sidecar(scene, "sidecar")
    backup = scene.backup("--oplog")
    shutil.copy(scene.folder / "sidecar" / "pitr.json", backup)
    assert (backup / "shop" / "secret.bson").exists()
    shop.orders.insert_one({"_id": 100})
    before = record(scene.client)
    limit = drop(scene)
    plan = await scene.plan(backup, limit)
    refused(plan, "stale-collection")
    assert any("shop.secret, shop.shown" in title for title in blocks(plan)), blocks(plan)
    for name in ("secret.bson", "secret.metadata.json", "shown.metadata.json"):
        (backup / "shop" / name).unlink()
    scene.must_run(await scene.plan(backup, limit), "--until=verify")
    same(record(scene.spare_client), before)
