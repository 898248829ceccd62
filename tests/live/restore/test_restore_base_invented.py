"""Ways to obtain a wrong plan in silence that nobody was known to have tried; and their neighbours that are right."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import bson
import pytest
from restore_scene import Scene, blocks, ids, record, same

from builders.base_claims import drop, fill, refused, sidecar
from tallyglass.moment import Ts
from tallyglass.restore.backup.bson_file import documents
from tallyglass.restore.model.check import Level
from tallyglass.restore.proof import id_states

pytestmark = [pytest.mark.live, pytest.mark.tools]


def orders(backup: Path) -> Path:
    return backup / "shop" / "orders.bson"


async def test_a_dump_of_after_the_accident(scene: Scene) -> None:
    """With a start from before the accident: it holds later writes, and nothing in it says so."""
    fill(scene)
    await sidecar(scene)
    since = scene.now()
    scene.client["shop"].orders.delete_many({"_id": {"$lt": 10}})
    scene.client["shop"].orders.insert_one({"_id": "later"})
    scene.settle()
    backup = scene.backup()
    limit = scene.first_entry({"op": "d"}, since)
    plan = await scene.plan(backup, limit)
    refused(plan, "document-surplus")
    assert "document-missing" in ids(plan)


@pytest.mark.since(5, 0)
async def test_a_start_that_is_too_late(scene: Scene) -> None:
    """All documents exist; only those updated between dump and start are outdated."""
    fill(scene)
    scene.settle()
    backup = scene.backup()
    scene.client["shop"].orders.update_many({"_id": {"$lt": 7}}, {"$set": {"in.n": 1}})
    await sidecar(scene, "later")
    shutil.copy(scene.folder / "later" / "pitr.json", backup)
    limit = drop(scene)
    plan = await scene.plan(backup, limit)
    refused(plan, "base-differs")
    assert any("7 documents are not as" in title for title in blocks(plan)), blocks(plan)


async def test_a_file_of_an_older_dump_of_the_same_collection(scene: Scene) -> None:
    fill(scene)
    older = scene.backup(name="older")
    scene.client["shop"].orders.delete_one({"_id": 3})
    await sidecar(scene)
    backup = scene.backup("--oplog")
    limit = drop(scene)
    assert (await scene.plan(backup, limit)).level is not Level.BLOCK
    shutil.copy(orders(older), orders(backup))
    refused(await scene.plan(backup, limit), "base-differs")


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Ids go to the file after the third of them, as otherwise after 150,000. The list grows each time."""
    written: list[int] = []
    spill = id_states.IdStore.spill

    def counted(store: id_states.IdStore) -> None:
        written.append(1)
        spill(store)

    monkeypatch.setattr(id_states, "IN_MEMORY", 3)
    monkeypatch.setattr(id_states.IdStore, "spill", counted)
    return written


async def test_documents_taken_out_of_the_file_and_put_into_it(scene: Scene, little_memory: list[int]) -> None:
    fill(scene)
    await sidecar(scene)
    backup = scene.backup("--oplog")
    scene.client["shop"].orders.insert_many([{"_id": n} for n in range(100, 200)])
    limit = drop(scene)
    rows = list(documents(orders(backup)))
    orders(backup).write_bytes(b"".join(rows[1:]))
    refused(await scene.plan(backup, limit), "count-differs")
    orders(backup).write_bytes(b"".join([*rows, bson.encode({"_id": "smuggled"})]))
    refused(await scene.plan(backup, limit), "count-differs")
    changed = bson.encode(bson.decode(rows[0]) | {"v": 5})
    orders(backup).write_bytes(b"".join([changed, *rows[1:]]))
    plan = await scene.plan(backup, limit)
    refused(plan, "base-differs")
    assert "count-differs" not in ids(plan)
    assert little_memory
    orders(backup).write_bytes(b"".join(rows))
    assert (await scene.plan(backup, limit)).level is not Level.BLOCK


async def test_a_collection_that_was_renamed_between_two_dumps(scene: Scene) -> None:
    """Its UUID is live; its old name would come back with the database."""
    fill(scene)
    scene.client["shop"].people.insert_one({"_id": 1})
    scene.backup("--oplog")
    scene.client["shop"].people.rename("persons")
    await sidecar(scene, "sidecar")
    backup = scene.backup("--oplog")
    shutil.copy(scene.folder / "sidecar" / "pitr.json", backup)
    limit = drop(scene)
    plan = await scene.plan(backup, limit)
    refused(plan, "stale-collection")
    assert any("shop.people, shop.persons" in title for title in blocks(plan)), blocks(plan)
    (backup / "shop" / "persons.bson").unlink()
    (backup / "shop" / "persons.metadata.json").unlink()
    refused(await scene.plan(backup, limit), "stale-collection")


async def test_a_sidecar_that_was_edited_or_is_of_another_version(scene: Scene) -> None:
    fill(scene)
    await sidecar(scene)
    backup = scene.backup("--oplog")
    limit = drop(scene)
    file = backup / "pitr.json"
    found = json.loads(file.read_text())
    before = Ts(*map(int, found["before"].split(":")))
    for change, check in (
        ({"before": f"{before.t}:{before.i + 5000}", "term": found["term"]}, "other-history"),
        ({"term": found["term"] + 1}, "other-history"),
        ({"format": 2}, "backup-broken"),
        ({"before": 5}, "backup-broken"),
    ):
        file.write_text(json.dumps(found | change))
        plan = await scene.plan(backup, limit)
        assert plan.level is Level.BLOCK, change
        if check == "backup-broken":
            refused(plan, check)
    file.write_text(json.dumps(found))
    assert (await scene.plan(backup, limit)).level is not Level.BLOCK


async def test_an_archive_of_another_database(scene: Scene) -> None:
    fill(scene)
    scene.client["other"].things.insert_one({"_id": 1})
    await sidecar(scene, "archive.d")
    backup = scene.backup("--db=other", archive=True, name="archive")
    shutil.copy(scene.folder / "archive.d" / "pitr.json", scene.folder / "archive.pitr.json")
    limit = drop(scene)
    refused(await scene.plan(backup, limit), "damage-not-in-backup")


async def test_an_out_over_a_part(scene: Scene) -> None:
    """``$out`` states how many documents it replaced."""
    fill(scene)
    await sidecar(scene)
    backup = scene.backup()
    orders(backup).write_bytes(b"".join(list(documents(orders(backup)))[5:]))
    scene.client["shop"].orders.aggregate([{"$match": {"_id": 1}}, {"$out": "orders"}])
    scene.settle()
    limit = scene.newest_of({"o.to": "shop.orders"})
    refused(await scene.plan(backup, limit), "count-differs")


async def test_cases_close_to_a_refusal_are_restored(scene: Scene, little_memory: list[int]) -> None:
    """Renamed, dropped and made again, replaced and emptied around the backup: all of it explained by the oplog."""
    shop = scene.client["shop"]
    fill(scene)
    shop.a.insert_many([{"_id": n} for n in range(5)])
    shop.b.insert_many([{"_id": n} for n in range(5)])
    await sidecar(scene)
    backup = scene.backup("--oplog")
    shop.a.rename("c")
    shop.b.drop()
    shop.b.insert_many([{"_id": n, "new": True} for n in range(3)])
    shop.orders.delete_one({"_id": 0})
    shop.orders.insert_one({"_id": 0, "again": True})
    shop.orders.aggregate([{"$match": {"_id": {"$lt": 20}}}, {"$out": "orders"}])
    shop.orders.update_many({}, [{"$set": {"in": {"n": "$_id"}}}])
    before = record(scene.client)
    limit = drop(scene)
    shop.c.insert_one({"_id": 5})
    shop.c.delete_one({"_id": 5})
    shop.c.drop()
    scene.settle()
    plan = await scene.plan(backup, limit)
    assert little_memory
    assert "counts-not-computed" not in ids(plan, Level.WARN)
    scene.must_run(plan, "--until=verify")
    same(record(scene.spare_client), before)
