"""Every form of backup, a spare of the commands' own, and the commands as they are pasted, one by one."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from restore_scene import Scene, blocks, ids, record, same

from tallyglass.demo.find_mongod import find_mongod
from tallyglass.demo.server import ReplicaSet, Standalone, free_port
from tallyglass.moment import Ts
from tallyglass.restore.plan import Level

pytestmark = pytest.mark.live


def fill(scene: Scene, first: int, last: int) -> None:
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n, "v": n} for n in range(first, last)])
    shop.orders.update_many({"_id": {"$lt": 10}}, {"$inc": {"v": 1}})
    shop["it's odd"].insert_one({"_id": first})


async def drop_and_restore(scene: Scene, backup: Path, start: Ts | None = None) -> None:
    shop = scene.client["shop"]
    fill(scene, 50, 60)
    before, since = record(scene.client), scene.now()
    shop.orders.drop()
    scene.settle()
    plan = await scene.plan(backup, scene.first_entry({"o.drop": "orders"}, since), backup_start=start)
    scene.must_run(plan, "--until=verify")
    same(record(scene.spare_client), before)


@pytest.mark.parametrize(
    ("options", "archive"),
    [
        pytest.param((), False, marks=pytest.mark.soak),
        pytest.param(("--oplog", "--gzip"), True),
        pytest.param((), True, marks=pytest.mark.soak),
        pytest.param(("--oplog",), True, marks=pytest.mark.soak),
        pytest.param(("--gzip",), False, marks=pytest.mark.soak),
    ],
    ids=["plain", "archive-oplog-gzip", "archive", "archive-oplog", "gzip"],
)
async def test_forms_of_mongodump(scene: Scene, options: tuple[str, ...], archive: bool) -> None:
    fill(scene, 0, 50)
    scene.client["shop"].orders.create_index("v")
    scene.settle()
    start = None if "--oplog" in options else scene.now()
    backup = scene.backup(*options, archive=archive)
    await drop_and_restore(scene, backup, start)


async def test_a_copy_of_the_data_files(scene: Scene, live_set: ReplicaSet, tmp_path: Path) -> None:
    fill(scene, 0, 50)
    scene.client["shop"].orders.create_index("v")
    scene.client.admin.command({"fsync": 1, "lock": True})
    copy = tmp_path / "copy"
    shutil.copytree(live_set.members[0].folder / "data", copy, ignore=shutil.ignore_patterns("mongod.lock"))
    scene.client.admin.command("fsyncUnlock")
    fill(scene, 50, 60)
    before, since = record(scene.client), scene.now()
    scene.client["shop"].orders.drop()
    scene.settle()
    limit = scene.first_entry({"o.drop": "orders"}, since)
    plan = await scene.plan(copy, limit, spare="")
    assert "data-files-not-running" in ids(plan)
    await asyncio.to_thread(recover, copy)
    with Standalone() as running:
        running.shut_down(0)
        data = running.members[0].folder / "data"
        shutil.rmtree(data)
        shutil.copytree(copy, data)
        running.restart(0)
        plan = await scene.plan(copy, limit, spare=running.members[0].address)
        assert plan.level is not Level.BLOCK, blocks(plan)
        scene.must_run(plan, "--until=verify")
        with running.client(0) as client:
            same(record(client), before)


def recover(data: Path) -> None:
    """What the plan says to do first: bring the copy to the end of its own oplog, and shut it down."""
    options = ["recoverFromOplogAsStandalone=true", "takeUnstableCheckpointOnShutdown=true"]
    process = subprocess.Popen(
        [
            str(find_mongod(None)), f"--dbpath={data}", f"--port={free_port()}", "--bind_ip=127.0.0.1",
            f"--unixSocketPrefix={data}", f"--logpath={data.parent / 'recovery.log'}",
            *(f"--setParameter={one}" for one in options),
        ]
    )  # fmt: skip
    try:
        log = data.parent / "recovery.log"
        while not (log.exists() and "Waiting for connections" in log.read_text()):
            assert process.poll() is None, log.read_text()[-2000:]
            time.sleep(0.05)
        process.terminate()
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()


async def test_a_spare_of_its_own_and_every_line_pasted(scene: Scene) -> None:
    fill(scene, 0, 50)
    backup = scene.backup("--oplog", "--gzip")
    fill(scene, 50, 60)
    before, since = record(scene.client), scene.now()
    scene.client["shop"].orders.drop()
    scene.settle()
    scene.path += f":{Path(find_mongod(None)).parent}"
    plan = await scene.plan(backup, scene.first_entry({"o.drop": "orders"}, since), spare="")
    assert "spare-not-given" in ids(plan, Level.WARN)
    scene.must_run(plan, "--until=secure")
    try:
        for command in plan.commands:
            if command.phase not in ("secure", "clean"):
                done = await asyncio.to_thread(
                    subprocess.run,
                    ["bash", "--norc", "-c", command.shell],
                    env=scene.environment,
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                assert done.returncode == 0, f"{command.shell}\n{done.stdout}{done.stderr}"
        assert record(scene.client)["shop.orders"] == before["shop.orders"]
    finally:
        pid = Path(plan.work_dir) / "spare.pid"
        if pid.exists():
            os.kill(int(pid.read_text()), 9)
