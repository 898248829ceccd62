"""The plan that the screen gets from a separate process equals the one that is made here."""

from __future__ import annotations

import pytest
from restore_scene import Scene, ids

from tallyglass.connection.target import Target
from tallyglass.restore.model.plan import Level
from tallyglass_tui.restore.draft import Draft, First, Planned, Reading
from tallyglass_tui.restore.plan_process import plan_apart

pytestmark = [pytest.mark.live, pytest.mark.tools]


async def test_the_process_makes_the_same_plan_and_says_how_far_it_is(scene: Scene) -> None:
    scene.client["shop"].orders.insert_many([{"_id": n} for n in range(20)])
    backup = scene.backup("--oplog")
    since = scene.now()
    scene.client["shop"].orders.drop()
    scene.settle()
    limit = scene.first_entry({"o.drop": "orders"}, since)
    draft = Draft(limit, backup=str(backup), spare=scene.spare.members[0].address)
    first, *readings, answer = [one async for one in plan_apart(Target.parse(scene.source.uri), draft)]
    assert isinstance(first, First)
    assert first.save.startswith("umask 077; mongodump")
    assert all(isinstance(one, Reading) and 0 <= one.share <= 1 and one.first == first for one in readings)
    assert readings
    assert isinstance(answer, Planned)
    assert answer.plan is not None, answer
    here = await scene.plan(backup, limit)
    assert (answer.plan.loss, answer.plan.slice, answer.plan.returns) == (here.loss, here.slice, here.returns)
    assert ids(answer.plan, Level.WARN) == ids(here, Level.WARN)
