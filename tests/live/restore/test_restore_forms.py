"""Every form of backup, a spare of the commands' own, and the commands as they are pasted, one by one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import bson
import pytest
from gateways import OpenGateway
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from restore_scene import Scene, blocks, copy_of_data, ids, record, same, start_copy

from tallyglass.demo.server import free_port
from tallyglass.moment import Ts
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.folder import write_folder
from tallyglass.restore.plan.step_text import fold_line
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.spare.working import works_for
from tallyglass.restore.tools.find_mongod import find_mongod

pytestmark = [pytest.mark.live, pytest.mark.tools]


def fill(scene: Scene, first: int, last: int) -> None:
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n, "v": n} for n in range(first, last)])
    shop.orders.update_many({"_id": {"$lt": 10}}, {"$inc": {"v": 1}})
    shop["it's odd"].insert_one({"_id": first})


def issue(scene: Scene, name: str, times: int) -> None:
    for _ in range(times):
        scene.client["shop"][name].update_one({"_id": "orders"}, {"$inc": {"seq": 1}})


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
        pytest.param((), False, id="plain"),
        pytest.param((), True, id="archive"),
        pytest.param(("--oplog",), True, id="archive-oplog", marks=pytest.mark.soak),
        pytest.param(("--gzip",), False, id="gzip", marks=pytest.mark.soak),
    ],
)
async def test_forms_of_mongodump(scene: Scene, options: tuple[str, ...], archive: bool) -> None:
    fill(scene, 0, 50)
    scene.client["shop"].orders.create_index("v")
    scene.settle()
    start = None if "--oplog" in options else scene.now()
    backup = scene.backup(*options, archive=archive)
    await drop_and_restore(scene, backup, start)


async def test_a_tool_that_waits_for_ever_is_ended_and_its_step_is_not_done(scene: Scene) -> None:
    """mongorestore restores what it can of a damaged archive, and then waits for the rest of the oplog."""
    fill(scene, 0, 50)
    backup, before, since = scene.backup("--oplog", archive=True), record(scene.client), scene.now()
    scene.client["shop"].orders.drop()
    scene.settle()
    plan = await scene.plan(backup, scene.first_entry({"o.drop": "orders"}, since))
    whole = backup.read_bytes()
    damaged = bytearray(whole)
    damaged[whole.index(bson.encode({"_id": 40, "v": 40})) + 10] ^= 1
    backup.write_bytes(damaged)
    (step,) = [at for at, made in enumerate(plan.steps.commands, start=1) if made.title.startswith("Unpack")]
    ended = scene.run(plan, "--until=verify", "--max-silence=4")
    assert (ended.returncode, f"[step-silent] Step {step}" in ended.stderr) == (1, True), ended.stderr
    assert "oplog  0B" in ended.stderr
    assert sorted(os.listdir(f"{plan.steps.work_dir}/done")) == [str(at) for at in range(1, step - 1)]
    backup.write_bytes(whole)
    assert scene.run(plan, "--until=verify").returncode == 0
    same(record(scene.spare_client), before)


async def test_a_server_that_works_for_a_silent_tool_is_seen(scene: Scene, gateway_to: OpenGateway) -> None:
    gateway = gateway_to(scene.spare.direct_uri())
    with closing(MongoClient(scene.spare.direct_uri(), appname="mongorestore")) as tool:
        tool.shop.orders.insert_one({})
        assert not await works_for(gateway, "mongorestore"), "its heartbeats are no work"
        waits = "while (true) {sleep(10)}"
        asked = asyncio.to_thread(tool.shop.orders.find_one, {"$where": waits}, max_time_ms=20_000)
        task = asyncio.create_task(asked)
        while not await works_for(gateway, "mongorestore"):
            assert not task.done()
        assert not await works_for(gateway, "mongodump")
        for running in scene.spare_client.admin.command("currentOp", **{"command.filter.$where": waits})["inprog"]:
            scene.spare_client.admin.command("killOp", op=running["opid"])
        with pytest.raises(OperationFailure):
            await task


async def test_a_copy_of_the_data_files(scene: Scene, tmp_path: Path) -> None:
    fill(scene, 0, 50)
    scene.client["shop"].orders.create_index("v")
    scene.client["shop"].counters.insert_one({"_id": "orders", "seq": 3})
    copy, last = copy_of_data(scene)
    note = copy / "restoreInfo.txt"
    note.write_text(f"Replica Set Name: tally\nLast Oplog Applied: ({last.t}, {last.i})\n")
    fill(scene, 50, 60)
    issue(scene, "counters", 2)
    before, since = record(scene.client), scene.now()
    scene.client["shop"].orders.drop()
    issue(scene, "counters", 4)
    scene.client["shop"].counters.drop()
    scene.settle()
    limit = scene.first_entry({"o.drop": "orders"}, since)
    plan = await scene.plan(copy, limit, spare="")
    assert "data-files-not-running" in ids(plan)
    files = times(copy)
    with start_copy(copy, tmp_path) as port:
        plan = await scene.plan(copy, limit, spare=f"127.0.0.1:{port}")
        assert plan.level is not Level.BLOCK, blocks(plan)
        assert [(row.ns, row.restored, row.live) for row in plan.proof.reissue] == [("shop.counters", 5, 9)]
        assert "counts-not-computed" in ids(plan, Level.WARN)
        note.write_text(note.read_text().replace(f"{last.i})", f"{last.i + 1})"))
        contradicted = await scene.plan(copy, limit, spare=f"127.0.0.1:{port}")
        assert f"its oplog ends at {last}; by restoreInfo.txt at {last.next}" in " ".join(blocks(contradicted))
        output = scene.must_run(plan, "--until=verify")
        assert "shop.orders: how many documents they must hold was not computed" in output
        assert "counts-not-computed" in (Path(plan.steps.work_dir) / "README.md").read_text()
        with MongoClient[Any]("127.0.0.1", port, directConnection=True) as client:
            same(record(client), before)
    changed = {path for path, at in times(copy).items() if files.get(path) != at}
    assert changed == {note}, "only the copy was changed"


def times(folder: Path) -> dict[Path, int]:
    """When each file in a folder was written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.parametrize("in_set", [False, True])
async def test_a_spare_of_its_own_and_every_line_pasted(
    scene: Scene, in_set: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also as a set of one member, which collections with Queryable Encryption need."""
    monkeypatch.setattr(Replay, "needs_set", property(lambda _: in_set))
    fill(scene, 0, 50)
    backup = scene.backup("--oplog", "--gzip")
    fill(scene, 50, 60)
    before, since = record(scene.client), scene.now()
    scene.client["shop"].orders.drop()
    scene.settle()
    scene.path += f":{Path(find_mongod(None)).parent}"
    limit = scene.first_entry({"o.drop": "orders"}, since)
    plan = await scene.plan(backup, limit, spare="", own_spare_port=free_port())
    assert "spare-not-given" in ids(plan, Level.WARN)
    folder = write_folder(plan, scene.folder / "anywhere")
    try:
        for command in plan.steps.commands:
            if command.phase != "clean":
                done = await asyncio.to_thread(
                    subprocess.run,
                    ["bash", "--norc", "-c", fold_line(command)],
                    env=scene.environment,
                    cwd=folder,
                    capture_output=True,
                    text=True,
                    timeout=120,
                    check=False,
                )
                assert done.returncode == 0, f"{command.shell}\n{done.stdout}{done.stderr}"
        assert record(scene.client)["shop.orders"] == before["shop.orders"]
        with MongoClient(f"mongodb://{plan.from_backup.spare}/", directConnection=True) as stranger:
            assert ("setName" in stranger.admin.command("hello")) is in_set
            for what in ({"listDatabases": 1}, {"createUser": "x", "pwd": "x", "roles": ["root"]}):
                with pytest.raises(OperationFailure):
                    stranger.admin.command(what)
    finally:
        end_spare(folder)


def end_spare(folder: Path) -> None:
    pid = folder / "spare.pid"
    if pid.exists() and pid.read_text():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid.read_text()), 9)


KILLER = """#!/bin/sh
case "$1 $2" in "--version "* | "restore run") exec {real} "$@" ;; esac
{real} "$@" || exit
case "$*" in {where}) ;; *) exit 0 ;; esac
pid=$(cut -d' ' -f1 {work}/lock)
case $(ps -o stat= -p "$pid") in "" | Z*) exit 0 ;; esac
mkdir {marks}/$(printf %s "$*" | cksum | tr -d ' ') 2>/dev/null || exit 0
kill -9 "$pid"
"""


@pytest.mark.parametrize(
    ("archive", "where", "least"),
    [
        pytest.param(True, "*--oplogFile*|*_pitr_*", 2, id="archive"),
        pytest.param(True, "*", 14, id="archive-everywhere", marks=pytest.mark.soak),
        pytest.param(False, "*", 11, id="directory-everywhere", marks=pytest.mark.soak),
    ],
)
async def test_a_script_that_is_killed_goes_on(scene: Scene, archive: bool, where: str, least: int) -> None:
    """A tool has done its work, and the script cannot note it any more: it comes to the same in the end."""
    shop = scene.client["shop"]
    fill(scene, 0, 50)
    shop.orders.create_index("v")
    shop.counters.insert_one({"_id": "orders", "seq": 7})
    shop["mongoengine.counters"].insert_one({"_id": "invoice.number", "next": 7})
    backup = scene.backup("--oplog", "--gzip", archive=archive)
    fill(scene, 50, 60)
    shop.lines.insert_many([{"_id": n, "v": n} for n in range(30)])
    before, since = record(scene.client), scene.now()
    shop.orders.drop()
    shop.lines.delete_many({"_id": {"$lt": 20}})
    issue(scene, "counters", 5)
    shop["mongoengine.counters"].update_one({}, {"$inc": {"next": 2}})
    shop["mongoengine.counters"].drop()
    scene.settle()
    limit = scene.first_entry({"o.drop": "orders"}, since)
    plan = await scene.plan(backup, limit, spare="", own_spare_port=free_port())
    assert {item.ns: item.documents for item in plan.proof.expected} == {ns: len(row[3]) for ns, row in before.items()}
    marks = killers(scene, plan, where)
    work, kills = Path(plan.steps.work_dir), 0
    try:
        while True:
            done = await asyncio.to_thread(scene.run, plan)
            if done.returncode == -9:
                kills += 1
            elif "[still-running]" not in done.stderr:
                break
            if kills == least:
                end_spare(work)  # as when the host went down with it
        assert done.returncode == 0, done.stderr
        # A run that finds a step of the killed one still running may end by itself just before it is killed.
        assert least <= kills <= len(list(marks.iterdir()))
        after = record(scene.client)
        assert after["shop.orders"] == before["shop.orders"]
        assert after["shop.lines"] == before["shop.lines"], "merged, whatever step it was stopped after"
        assert shop.counters.find_one() == {"_id": "orders", "seq": 12}
        assert shop["mongoengine.counters"].find_one() == {"_id": "invoice.number", "next": 9}
        assert sorted(after) == sorted([*before, "settle.settle"])
        assert not (work / "spare.key").exists()
    finally:
        end_spare(work)


def killers(scene: Scene, plan: Plan, where: str) -> Path:
    """Put before each tool one that kills the script after the first call of each kind whose arguments match."""
    tools, marks = scene.folder / "killers", scene.folder / "marks"
    tools.mkdir()
    marks.mkdir()
    path = f"{scene.path}:{Path(sys.executable).parent}:{Path(find_mongod(None)).parent}"
    for name in ("mongodump", "mongorestore", "mongosh", "tallyglass", "mongod"):
        real = shutil.which(name, path=path)
        (tools / name).write_text(KILLER.format(real=real, marks=marks, work=plan.steps.work_dir, where=where))
        (tools / name).chmod(0o755)
    scene.path = f"{tools}:{scene.path}"
    return marks
