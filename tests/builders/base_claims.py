"""Backups whose claims are true or false, and plans that must be refused for them."""

from __future__ import annotations

from typing import Any

import pytest
from restore_scene import Scene, blocks, ids

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.self_extracting import script


def fill(scene: Scene, **more: Any) -> None:
    scene.client["shop"].orders.insert_many([{"_id": n, "v": 0, "in": {"n": 0}} | more for n in range(30)])


async def sidecar(scene: Scene, *names: str) -> None:
    """Record the position right before the backup: nothing written until now is replayed."""
    scene.settle()
    scene.client.admin.command({"appendOplogNote": 1, "data": {}, "writeConcern": {"w": "majority"}})
    for name in names or ("backup",):
        await scene.prepare(name)


def drop(scene: Scene, name: str = "orders") -> Ts:
    """The accident: the timestamp of its entry."""
    since = scene.now()
    scene.client["shop"][name].drop()
    scene.settle()
    return scene.first_entry({"o.drop": name}, since)


def refused(plan: Plan, check: str) -> None:
    assert check in ids(plan), (check, blocks(plan))
    assert plan.level is Level.BLOCK
    assert plan.steps.commands == ()
    with pytest.raises(InputError, match="blocked"):
        script(plan)
