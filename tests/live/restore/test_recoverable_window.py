"""The recoverable window of a live set: it reaches up to now, and says so when it shrinks or tears."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from gateways import OpenGateway
from restore_scene import Scene

from tallyglass.mongo.client import open_gateway
from tallyglass.restore.catalogue.window import RecoverableWindow, Status, Stretch, families, find_window, judge
from tallyglass.restore.saved_oplog.save import save_slice

pytestmark = [pytest.mark.live, pytest.mark.tools]


async def seen(scene: Scene, *slices: Path) -> RecoverableWindow:
    gateway = open_gateway(scene.source.uri)
    try:
        return await find_window([scene.folder / "backups"], slices, gateway)
    finally:
        await gateway.close()


def state(window: RecoverableWindow, **limits: Any) -> tuple[Status, str]:
    status, reasons = judge(window, **{"least_hours": 0, "head_room_hours": 0} | limits)
    return status, "; ".join(reasons)


async def test_the_window_of_a_live_set(scene: Scene, monkeypatch: pytest.MonkeyPatch, gateway_to: OpenGateway) -> None:
    # The set is new, and growth is not stated over a few seconds: here one is enough, and the oplog spans one.
    monkeypatch.setattr("tallyglass.oplog.read.window._LEAST_SECONDS", 1)
    first = scene.client["local"]["oplog.rs"].find_one(sort=[("$natural", 1)])
    assert first is not None
    while scene.client.admin.command("hello")["lastWrite"]["majorityOpTime"]["ts"].time <= first["ts"].time:
        scene.settle()
    (scene.folder / "backups").mkdir()
    scene.client["shop"].orders.insert_many([{"_id": n, "x": "x" * 50} for n in range(20)])
    scene.settle()
    await scene.prepare("backups/one")
    backup = scene.backup("--oplog", name="backups/one")
    scene.settle()
    gateway = gateway_to(scene.source.uri)
    slices = scene.folder / "slices"
    await save_slice(gateway, slices, 3600)
    scene.settle()
    for window in (await seen(scene), await seen(scene, slices)):
        (base,) = window.bases
        assert base.end is not None
        assert window.restorable == (Stretch(base.end, window.newest or base.end),)
        assert state(window) == (Status.OK, "")
        assert state(window, least_hours=10**6)[0] is Status.WARNING
    assert window.hours_left is not None
    assert state(window, head_room_hours=10**9)[0] is Status.WARNING
    assert {one.name.rpartition("window_")[2] for one in families(window, 0)} >= {
        "seconds",
        "holes",
        "head_room_seconds",
    }
    data = backup / "shop" / "orders.bson"
    whole = data.read_bytes()
    data.write_bytes(whole[:-5])
    status, why = state(await seen(scene))
    assert (status, "orders.bson is damaged or incomplete" in why) == (Status.CRITICAL, True)
    data.write_bytes(whole)
    oplog = backup / "oplog.bson"
    oplog.write_bytes(oplog.read_bytes()[:-3])
    assert state(await seen(scene))[0] is Status.CRITICAL


def test_the_command_and_check_agree(scene: Scene) -> None:
    scene.client["shop"].orders.insert_one({"_id": 1})
    scene.settle()
    (scene.folder / "backups").mkdir()
    backup = scene.backup("--oplog", name="backups/one")

    def run(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            ("tallyglass", *words, scene.source.uri), env=scene.environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout

    code, output = run("restore", "window", "--head-room=0", f"--backups={backup.parent}")
    assert (code, output.startswith("WINDOW OK - every second from ")) == (0, True), output
    assert "restorable" in output
    (backup / "oplog.bson").write_bytes(b"")
    code, output = run("restore", "window", "--json", f"--backups={backup.parent}")
    assert (code, json.loads(output)["restorable"]) == (2, [])
    code, output = run("check", f"--restore={backup.parent}")
    assert (code, "COUNTERS CRITICAL - restore: nothing can be restored" in output) == (2, True), output
