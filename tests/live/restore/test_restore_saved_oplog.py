"""A restore from saved slices: on a live set, and to a point that its oplog no longer holds."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from restore_scene import Scene, blocks, ids, record

from tallyglass.demo.server import ReplicaSet, Standalone
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import OPLOG, Document, Gateway, Namespace
from tallyglass.oplog.read.entries import stamp
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.undo import Choice
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.saved_oplog.cut import cut
from tallyglass.restore.saved_oplog.save import SavedSlice, save_slice

pytestmark = [pytest.mark.live, pytest.mark.tools]

DAY = 86_400.0


async def save(scene: Scene, folder: Path) -> SavedSlice:
    gateway = open_gateway(scene.source.uri)
    try:
        return await save_slice(gateway, folder, DAY)
    finally:
        await gateway.close()


async def accident(scene: Scene, folder: Path) -> tuple[Path, Any, Ts]:
    """A backup, writes that are spread over two slices, an update of many, and writes after it."""
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n, "paid": False} for n in range(20)])
    backup = scene.backup("--oplog")
    await save(scene, folder)
    shop.orders.insert_many([{"_id": n, "paid": False} for n in range(20, 40)])
    scene.settle()
    await save(scene, folder)
    shop.orders.update_one({"_id": 3}, {"$set": {"paid": True}})
    before, since = record(scene.client), scene.now()
    shop.orders.update_many({}, {"$set": {"paid": "lost"}})
    scene.settle()
    return backup, before, scene.first_entry({"ns": "shop.orders", "op": "u"}, since)


async def test_a_restore_takes_the_window_from_slices_and_the_rest_from_the_server(
    scene: Scene, tmp_path: Path
) -> None:
    folder = tmp_path / "slices"
    backup, before, limit = await accident(scene, folder)
    incident = await scene.incident("updateMany", "shop.orders")
    assert incident.first == limit
    plan = await scene.plan(backup, limit, oplog=folder, incident=incident)
    assert "oplog-saved" in ids(plan, Level.OK), blocks(plan)
    secure = [step.argv for step in plan.steps.commands if step.phase == "secure"]
    assert [argv[0] for argv in secure] == ["mongodump", "tallyglass", "bash"], "the slices end before the point"
    assert [file.name for file in plan.steps.files if "query" in file.name] == ["query.json", "live-query.json"]
    scene.must_run(plan, "--until=return")
    after = record(scene.client, databases=("shop",))
    assert after["shop.orders"] == before["shop.orders"]


async def test_another_set_of_the_same_name_saves_nothing_into_the_folder(
    scene: Scene, spare: Standalone, tmp_path: Path, tool_path: str
) -> None:
    """Nor does it spoil what is there. How long the oplog of that set, seconds old, lasts is unknown, not 0.0 h."""
    folder = tmp_path / "slices"
    scene.settle()
    await save(scene, folder)
    kept = sorted(folder.iterdir())
    with ReplicaSet(1) as servers:
        assert servers.set_name == scene.source.set_name
        other = Scene(servers, spare, tmp_path, tool_path)
        with pytest.raises(InputError, match="slices of another set"):
            await save(other, folder)
        assert sorted(folder.iterdir()) == kept
        assert (await save(other, tmp_path / "theirs")).path is not None, "in a folder of its own it does"
        other.client["shop"].orders.insert_one({"_id": 1})
        backup, since = other.backup("--oplog"), other.now()
        other.client["shop"].orders.drop()
        other.settle()
        plan = await other.plan(backup, other.first_entry({"o.drop": "orders"}, since))
        room = {check.title for check in plan.checks if check.id == "head-room"}
        assert room <= {"How long the oplog still holds the start is unknown."}
        other.close()
    scene.settle()
    assert (await save(scene, folder)).hole is None, "the next slice of this set joins"
    assert len(sorted(folder.iterdir())) == len(kept) + 1


class Rolled:
    """The live set with an oplog that begins at ``oldest``: what came before was overwritten."""

    def __init__(self, gateway: Gateway, oldest: Ts) -> None:
        self._gateway, self._oldest = gateway, oldest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    def find_raw(self, ns: Namespace, query: Document, **how: Any) -> AsyncIterator[bytes]:
        if ns == OPLOG:
            query = {"$and": [query, {"ts": {"$gte": stamp(self._oldest)}}]}
        return self._gateway.find_raw(ns, query, **how)


async def test_the_point_may_be_older_than_the_live_oplog(scene: Scene, tmp_path: Path) -> None:
    folder = tmp_path / "slices"
    backup, _, limit = await accident(scene, folder)
    oldest = (await save(scene, folder)).last
    scene.client["shop"].orders.insert_one({"_id": 99})
    scene.settle()

    async def plan(live_from: Ts, **more: Any) -> Plan:
        gateway = open_gateway(scene.source.uri)
        asked = {"spare": scene.spare.members[0].address, **more}
        try:
            rolled = cast("Gateway", Rolled(gateway, live_from))
            return await plan_restore(rolled, RestoreRequest(backup, scene.source.uri, before=limit, **asked))
        finally:
            await gateway.close()

    assert "coverage" in ids(await plan(oldest)), "the live oplog alone does not reach back"
    made = await plan(oldest, oplog=folder)
    assert "oplog-saved" in ids(made, Level.OK), blocks(made)
    assert [step.argv[0] for step in made.steps.commands if step.phase == "secure"] == ["tallyglass", "bash"]
    assert next(row for row in made.proof.loss if row.ns == "shop.orders").inserts == 1, (
        "what came after the slices is there"
    )
    query, out = tmp_path / "query.json", tmp_path / "slice" / "oplog.bson"
    query.write_text(next(file.text for file in made.steps.files if file.name == "query.json"))
    assert made.proof.slice is not None
    assert (cut(query, [folder], out), out.stat().st_size) == (made.proof.slice.entries, made.proof.slice.bytes)

    later = scene.now()
    assert f"between {oldest} and {later}" in blocks(await plan(later, oplog=folder))[0]
    choice = Choice("shop.orders", "shop.before", ())
    made = await plan(later, oplog=folder, choice=choice)
    assert (ids(made), "oplog-hole" in ids(made, Level.WARN)) == (set(), True), "nothing live is touched"

    middle = sorted(folder.glob("oplog-*"))[1]
    whole = gzip.decompress(middle.read_bytes())
    middle.write_bytes(gzip.compress(whole[:-7]))
    torn = await plan(oldest, oplog=folder)
    assert ("oplog-hole" in ids(torn), "oplog-slice-broken" in ids(torn, Level.WARN)) == (True, True), blocks(torn)
