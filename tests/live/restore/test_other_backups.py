"""Backups that PBM and wal-g made: restored from their folder to a point, and compared with what was recorded then."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import json_util
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from restore_scene import RAW, Scene, blocks, ids

from stored_backups import FIRST, T1, extract, stop_at
from tallyglass.demo.server import ReplicaSet, Servers, Standalone
from tallyglass.errors import InputError
from tallyglass.restore.catalogue.backups import list_backups
from tallyglass.restore.model.check import Level

pytestmark = [pytest.mark.live, pytest.mark.tools]

SKIPPED = "tab\tnl\nx"
"""A collection whose name mongorestore leaves out of every dump."""


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    folder = extract(tmp_path / "stored", f"pbm/main/{FIRST}", "pbm/main/pbmPitr", "pbm/main/.pbm.init", "truth/T1")
    rows = folder / "pbm" / "main" / FIRST / "rs0" / "metadata.json"
    content = json.loads(rows.read_text())
    content["namespaces"] = [row for row in content["namespaces"] if row["collection"] != SKIPPED]
    rows.write_text(json.dumps(content))
    return folder


@pytest.fixture
def as_at_t1(stored: Path, spare: Standalone, tmp_path: Path, tool_path: str) -> Iterator[Scene]:
    """The set whose backups these are, as it was at T1: its data, and its oplog up to there."""
    entries = stop_at(stored / "pbm" / "main", T1)

    def before(servers: Servers) -> None:
        shutil.rmtree(stored / "truth" / "T1.dump" / "admin")
        load = ("--gzip", "--preserveUUID", "--drop", f"--dir={stored}/truth/T1.dump")
        tool = ("mongorestore", "--quiet", f"--uri={servers.direct_uri()}", *load)
        subprocess.run(tool, check=True, env={"PATH": f"{tool_path}:/usr/bin:/bin"})
        with servers.client(0) as client:
            client.local.create_collection("oplog.rs", capped=True, size=2**26)
            client.local.get_collection("oplog.rs", RAW).insert_many([RawBSONDocument(raw) for raw in entries])

    with ReplicaSet(1, set_name="rs0", before=before) as servers:
        scene = Scene(servers, spare, tmp_path, tool_path)
        yield scene
        scene.close()


def state(client: MongoClient[Any]) -> dict[str, Any]:
    """What a server holds, in the form of the recorded truth."""
    found = {}
    for db in client.list_database_names():
        for info in client[db].list_collections() if db not in ("admin", "config", "local") else ():
            name, kind = info["name"], info["type"]
            if name == "system.views" or kind == "timeseries":  # its buckets are listed, too
                continue
            rows = [bytes(row.raw) for row in client[db].get_collection(name, RAW).find()]
            found[f"{db}.{name}"] = {
                "n": len(rows),
                "nat": hashlib.sha256(b"".join(rows)).hexdigest()[:16],
                "idx": sorted(_index(one) for one in client[db][name].list_indexes()) if kind == "collection" else [],
            }
    return found


def _index(index: Any) -> str:
    return json.dumps(json.loads(json_util.dumps(index)), sort_keys=True)


@pytest.mark.since(6, 0)
async def test_a_backup_of_pbm_and_its_slices_give_the_state_that_was_recorded(as_at_t1: Scene, stored: Path) -> None:
    """All but hidden indexes, which come back visible: PBM does not record that."""
    scene, storage = as_at_t1, stored / "pbm" / "main"
    since = scene.now()
    scene.client["shop"].orders.drop()
    scene.settle()
    limit = scene.first_entry({"o.drop": "orders"}, since)
    plan = await scene.plan(storage / FIRST, limit)
    assert plan.level is not Level.BLOCK, blocks(plan)
    assert "hidden-indexes" in ids(plan, Level.WARN)
    assert plan.from_backup.oplog == (str(storage),)
    scene.must_run(plan, "--until=verify")
    truth = json.loads((stored / "truth" / "T1.json").read_text())
    found = state(scene.spare_client)
    left_out = {ns for ns, item in truth.items() if item["type"] == "timeseries"} | {f"odd.{SKIPPED}"}
    wanted = {ns: item for ns, item in truth.items() if not ns.startswith("admin.") and ns not in left_out}
    assert sorted(found) == sorted(wanted)
    for ns, item in wanted.items():
        assert item["type"] == "view" or found[ns]["nat"] == item["nat"], ns
        assert found[ns]["idx"] == sorted(one.replace('"hidden": true, ', "") for one in item.get("idx", ())), ns


async def test_the_data_folder_of_a_running_mongod_is_no_backup(scene: Scene, live_set: ReplicaSet) -> None:
    data = live_set.members[0].folder / "data"
    with pytest.raises(InputError, match="a mongod that is running"):
        await scene.plan(data, scene.now())
    copy = scene.folder / "backups" / "copy"
    copy.mkdir(parents=True)
    shutil.copy(data / "WiredTiger", copy)
    (scene.folder / "backups" / "live").symlink_to(data)
    assert [one.path async for one in list_backups(copy.parent)] == [copy]
