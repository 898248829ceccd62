"""A look at what a plan restores: read-only, on loopback, for a user of its own, and gone at the end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, ServerSelectionTimeoutError
from restore_scene import Scene, record, same

from tallyglass.demo.server import free_port
from tallyglass.restore.plan.folder import write_folder
from tallyglass.restore.tools.find_mongod import find_mongod

pytestmark = [pytest.mark.live, pytest.mark.tools]


def look(scene: Scene, folder: Path, *words: str) -> subprocess.Popen[str]:
    program = "from tallyglass.restore.tools import toolset; toolset.NEEDED = (100, 0); "
    program += "from tallyglass_tui.cli.main import main; main()"
    env = dict(scene.environment) | {"PATH": f"{scene.environment['PATH']}:{Path(find_mongod(None)).parent}"}
    return subprocess.Popen(
        [sys.executable, "-c", program, "restore", "look", str(folder), *words],
        env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def connect(password: str, port: int) -> MongoClient[Any]:
    return MongoClient(
        "127.0.0.1", port, directConnection=True, username="tallyglass_look", password=password,
        serverSelectionTimeoutMS=3_000,
    )  # fmt: skip


async def test_a_look_shows_the_point_to_one_who_may_only_read(scene: Scene) -> None:
    shop = scene.client["shop"]
    shop.orders.insert_many([{"_id": n} for n in range(30)])
    shop.staff.insert_one({"_id": 1})
    backup = scene.backup("--oplog")
    shop.orders.insert_one({"_id": 30})
    before, since = record(scene.client), scene.now()
    shop.orders.drop()
    scene.settle()
    limit, port = scene.first_entry({"o.drop": "orders"}, since), free_port()
    plan = await scene.plan(backup, limit, spare="", own_spare_port=port)
    folder = write_folder(plan, scene.folder / "plan")
    for only in ("", "shop.orders"):
        with look(scene, folder, *([f"--only={only}"] if only else [])) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            shown = process.stdout.readline()
            assert f"({limit})" in shown, shown + process.stderr.read()
            lines = [process.stdout.readline() for _ in range(2)]
            password = (folder / "look.password").read_text().strip()
            assert password not in "".join(lines)
            with connect(password, port) as client:
                if only:
                    assert client["shop"].orders.count_documents({}) == 31
                    with pytest.raises(OperationFailure, match="not authorized"):
                        client["shop"].staff.find_one()
                else:
                    same(record(client), before)
                with pytest.raises(OperationFailure, match="not authorized"):
                    client["shop"].orders.insert_one({})
            process.send_signal(signal.SIGTERM if only else signal.SIGINT)
            said = process.stderr.read()
            assert (process.wait(), "until Ctrl-C, for 4 h at most" in said) == (0, True), said
        assert not list(folder.glob("look*"))
    with look(scene, folder) as process:
        assert process.stdout is not None
        assert f"({limit})" in process.stdout.readline()
        process.stdout.readline()
        process.stdout.readline()
        process.kill()
        assert process.stderr is not None
        process.stderr.read()  # until the guard, which stops the spare, has ended
        with connect("unknown", port) as client, pytest.raises(ServerSelectionTimeoutError):
            client.admin.command("ping")
    with look(scene, folder, "--only=shop.nothing") as process:
        assert process.stderr is not None
        assert "restores no shop.nothing" in process.stderr.read()
    assert process.returncode == 2
