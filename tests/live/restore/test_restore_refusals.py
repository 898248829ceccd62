"""What cannot be proven is refused, with the id of the check that says why, and without a single command."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from restore_scene import Scene, blocks, ids

from builders.base_claims import refused
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import OPLOG, Document, Namespace
from tallyglass.mongo.mongo_gateway import MongoGateway
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.spare.ready import ready
from tallyglass.restore.spare.spare import VIEW_OPENER

pytestmark = [pytest.mark.live, pytest.mark.tools]


async def late_accident(scene: Scene) -> tuple[Path, Ts]:
    """The same with a sidecar: the replay begins right before the backup, and needs all that is in it."""
    scene.client["shop"].orders.insert_many([{"_id": n} for n in range(20)])
    scene.settle()
    await scene.prepare()
    return accident(scene, built=True)


def accident(scene: Scene, *options: str, built: bool = False) -> tuple[Path, Ts]:
    """A backup, some writes, and a drop: the backup's place and the point."""
    shop = scene.client["shop"]
    if not built:
        shop.orders.insert_many([{"_id": n} for n in range(20)])
    backup = scene.backup(*options or ("--oplog",))
    since = scene.now()
    shop.orders.insert_one({"_id": 100})
    shop.orders.update_one({"_id": 3}, {"$set": {"x": 1}})
    shop.orders.drop()
    scene.settle()
    return backup, scene.first_entry({"o.drop": "orders"}, since)


async def test_points_that_cannot_be(scene: Scene) -> None:
    backup, limit = accident(scene)
    refused(await scene.plan(backup, Ts(0, 0)), "limit-zero")
    refused(await scene.plan(backup, Ts(limit.t - 3600, 1)), "backup-after-point")
    refused(await scene.plan(backup, Ts(limit.t + 3600, 1)), "limit-beyond-oplog")
    assert (await scene.plan(backup, limit)).steps.commands
    refused(await scene.plan(backup, limit, backup_start=Ts(limit.t + 1, 1)), "backup-after-point")
    with pytest.raises(InputError):
        await scene.plan(backup, None)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        await scene.plan(scene.folder / "nothing here", limit)


async def test_a_spare_that_is_none(scene: Scene) -> None:
    backup, limit = accident(scene)
    refused(await scene.plan(backup, limit, spare=scene.source.members[0].address), "spare-is-source")
    refused(await scene.plan(backup, limit, spare="127.0.0.1:1"), "spare-unreachable")
    plan = await scene.plan(backup, limit)
    scene.spare_client["opened"].create_collection(VIEW_OPENER, viewOn="none")
    gateway = open_gateway(scene.spare.direct_uri())
    try:
        assert (await ready(plan, gateway)).level is Level.OK, "the commands themselves made it, a step before"
        scene.spare_client["opened"].over.insert_one({})
        assert (await ready(plan, gateway)).level is Level.BLOCK
    finally:
        await gateway.close()
    refused(await scene.plan(backup, limit), "spare-not-empty")
    scene.spare_client.drop_database("opened")
    scene.spare_client.admin.command({"setParameter": 1, "ttlMonitorEnabled": True})
    try:
        refused(await scene.plan(backup, limit), "spare-ttl")
    finally:
        scene.spare_client.admin.command({"setParameter": 1, "ttlMonitorEnabled": False})


async def test_a_backup_that_is_not_whole(scene: Scene) -> None:
    backup, limit = await late_accident(scene)
    data = backup / "shop" / "orders.bson"
    whole = data.read_bytes()
    data.write_bytes(whole[:-5])
    refused(await scene.plan(backup, limit), "backup-broken")
    data.write_bytes(whole + b"\x05\x00\x00\x00\x01")
    refused(await scene.plan(backup, limit), "backup-broken")
    data.write_bytes(b"\x1f\x8b" + whole)
    refused(await scene.plan(backup, limit), "backup-broken")
    data.unlink()
    refused(await scene.plan(backup, limit), "backup-broken")
    (backup / "shop" / "orders.metadata.json").unlink()
    refused(await scene.plan(backup, limit), "base-incomplete")
    (backup / "shop" / "orders.metadata.json").write_text("{not json")
    refused(await scene.plan(backup, limit), "backup-broken")


async def test_an_archive_that_was_damaged_since(scene: Scene) -> None:
    """mongorestore restores such an archive in part, and then waits for ever."""
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n, "text": "x" * 100} for n in range(20)])
    backup, since = scene.backup("--oplog", archive=True), scene.now()
    shop.orders.drop()
    scene.settle()
    limit, whole = scene.first_entry({"o.drop": "orders"}, since), backup.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(b"x" * 100)] ^= 1
    packed = bytearray(gzip.compress(whole))
    backup.write_bytes(packed)
    assert (await scene.plan(backup, limit)).steps.commands
    packed[len(packed) // 2] ^= 1
    for damaged in (flipped, packed, whole[:-40]):
        backup.write_bytes(damaged)
        plan = await scene.plan(backup, limit)
        refused(plan, "backup-broken")
        assert "Take another copy" in next(check.advice for check in plan.checks if check.id == "backup-broken")


async def test_a_backup_with_a_link_instead_of_data(scene: Scene) -> None:
    backup, limit = await late_accident(scene)
    (backup / "shop").rename(scene.folder / "elsewhere")
    (backup / "shop").symlink_to("../elsewhere")
    plan = await scene.plan(backup, limit)
    refused(plan, "backup-broken")
    assert "shop is a symbolic link" in blocks(plan)[0]


async def test_a_backup_that_lacks_what_the_oplog_changes(scene: Scene) -> None:
    backup, limit = await late_accident(scene)
    data = backup / "shop" / "orders.bson"
    rows = data.read_bytes()
    size = int.from_bytes(rows[:4], "little")
    data.write_bytes(rows[: 3 * size] + rows[4 * size :])
    refused(await scene.plan(backup, limit), "document-missing")


async def test_a_backup_of_unknown_age(scene: Scene) -> None:
    backup, limit = accident(scene, "--quiet")
    refused(await scene.plan(backup, limit), "backup-start-unknown")


async def test_users_and_versions_in_the_backup(scene: Scene) -> None:
    backup, limit = accident(scene)
    prelude = backup / "prelude.json"
    prelude.write_text('{"ServerVersion":"7.0.1","ToolVersion":"100.3.0"}')
    plan = await scene.plan(backup, limit)
    refused(plan, "backup-version")
    assert "backup-tool-old" in ids(plan, Level.WARN)


async def test_an_old_tool_is_seen_before_and_by_the_script(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    backup, limit = accident(scene)
    plan = await scene.plan(backup, limit)
    old = scene.folder / "old"
    old.mkdir()
    (old / "mongorestore").write_text("#!/bin/sh\necho 'mongorestore version: 100.3.1'\n")
    (old / "mongorestore").chmod(0o755)
    scene.path = f"{old}:{scene.path}"
    done = scene.run(plan)
    assert done.returncode == 1
    assert "[tool-version] mongorestore is 100.3.1" in done.stderr
    monkeypatch.setenv("PATH", str(old), prepend=":")
    refused(await scene.plan(backup, limit, work_dir=""), "tool-version")


async def test_the_oplog_moved_on(scene: Scene) -> None:
    backup, limit = accident(scene)
    gateway = Doctored(scene, hide_before=limit)
    refused(await gateway.plan(backup, limit), "coverage")


async def test_not_on_a_majority(scene: Scene) -> None:
    backup, limit = accident(scene)
    refused(await Doctored(scene, majority=Ts(limit.t - 1, 1)).plan(backup, limit), "not-majority")


@pytest.mark.parametrize(
    ("entry", "check"),
    [
        ({"op": "c", "ns": "shop.$cmd", "o": {"importCollection": "x"}}, "unknown-command"),
        ({"op": "xi", "ns": "shop.orders", "o": {"_id": 1}}, "unknown-command"),
        (
            {
                "op": "u",
                "ns": "admin.system.version",
                "o": {"$v": 2, "diff": {"u": {"version": "5.0"}}},
                "o2": {"_id": "featureCompatibilityVersion"},
            },
            "fcv-change",
        ),
        ({"op": "i", "ns": "shop.never_seen", "o": {"_id": 1}}, "base-incomplete"),
        ({"op": "c", "ns": "shop.$cmd", "o": {"renameCollection": "shop.a", "to": "shop.b"}}, "rename-overlap"),
        (
            {
                "op": "c",
                "ns": "admin.$cmd",
                "o": {"applyOps": [{"op": "i", "ns": "shop.orders", "o": {"_id": 5}}], "count": 3},
                "lsid": {"id": 1},
                "txnNumber": 1,
                "prevOpTime": {"ts": Timestamp(5, 1), "t": 1},
            },
            "mid-transaction",
        ),
    ],
)
async def test_entries_that_cannot_be_replayed(scene: Scene, entry: dict[str, Any], check: str) -> None:
    """No server writes these at will, so they are put into what the gateway reads."""
    backup, limit = accident(scene)
    refused(await Doctored(scene, insert=entry).plan(backup, limit), check)


@pytest.mark.parametrize("part", [{"msg": "isdbgrid"}, {"configsvr": 2}, {"shardingState": {"enabled": True}}])
async def test_parts_of_a_sharded_cluster(scene: Scene, part: dict[str, Any]) -> None:
    backup, limit = accident(scene)
    refused(await Doctored(scene, say=part).plan(backup, limit), "sharded")


async def test_a_standalone_has_no_oplog(scene: Scene) -> None:
    backup, limit = accident(scene)
    plan = await scene.plan(backup, limit, uri=scene.spare.direct_uri())
    refused(plan, "no-oplog")


class Doctored(MongoGateway):
    """A real gateway whose answers are changed in one respect."""

    def __init__(
        self,
        scene: Scene,
        *,
        hide_before: Ts | None = None,
        majority: Ts | None = None,
        insert: dict[str, Any] | None = None,
        say: dict[str, Any] | None = None,
    ) -> None:
        real = open_gateway(scene.source.uri)
        super().__init__(real.link)
        self.scene, self.hide_before, self.majority, self.insert, self.said = (
            scene,
            hide_before,
            majority,
            insert,
            say or {},
        )

    async def plan(self, backup: Path, limit: Ts) -> Plan:
        request = RestoreRequest(
            backup, self.scene.source.uri, before=limit, spare=self.scene.spare.members[0].address,
            work_dir=str(self.scene.folder / "work"),
        )  # fmt: skip
        try:
            return await plan_restore(self, request)
        finally:
            await self.close()

    async def command(self, name: str, value: object = 1, **more: Any) -> Document:
        answer = dict(await super().command(name, value, **more))
        if name == "hello":
            answer |= {key: said for key, said in self.said.items() if key != "shardingState"}
            if self.majority:
                answer["lastWrite"]["majorityOpTime"]["ts"] = Timestamp(self.majority.t, self.majority.i)
        if name == "shardingState" and name in self.said:
            answer |= self.said[name]
        return answer

    async def find_raw(self, ns: Namespace, query: Document, **more: Any) -> AsyncIterator[bytes]:
        if ns == OPLOG and self.hide_before is not None:
            query = {"$and": [query, {"ts": {"$gte": Timestamp(self.hide_before.t, self.hide_before.i)}}]}
        scans = ns == OPLOG and not more.get("sort") and "$lt" in query.get("ts", {})
        if scans and self.insert is not None:
            yield self._forged(query["ts"]["$gte"])
        async for batch in super().find_raw(ns, query, **more):
            yield batch

    def _forged(self, start: Timestamp) -> bytes:
        import bson

        row = {"ts": Timestamp(start.time, 0) if start.inc else start, "t": 1, "v": 2} | (self.insert or {})
        return bson.encode(row)
