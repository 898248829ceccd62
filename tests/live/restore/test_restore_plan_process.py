"""The plan that the screen gets from a separate process equals the one that is made here."""

from __future__ import annotations

import asyncio
import functools
import json
from dataclasses import replace
from threading import Thread

import pytest
from click.testing import CliRunner
from restore_scene import Scene, ids

from tallyglass.connection.target import Target
from tallyglass.mongo.client import open_gateway
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.document import to_json
from tallyglass.restore.model.way import FROM_IMAGES
from tallyglass.restore.undo.evidence import logged_statement
from tallyglass_tui.cli.incident_scan import scan_all
from tallyglass_tui.cli.main import main
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
    assert (answer.plan.proof.loss, answer.plan.proof.slice, answer.plan.undo.returns) == (
        here.proof.loss,
        here.proof.slice,
        here.undo.returns,
    )
    assert ids(answer.plan, Level.WARN) == ids(here, Level.WARN)


@pytest.mark.since(6, 0)
async def test_page_and_command_ask_the_same_and_plan_the_same_from_the_answer(scene: Scene) -> None:
    """Somebody's right updates and the accident at once: both name what the server's log says was run, and that proves
    the accident alone."""
    shop = scene.client["shop"]
    shop.create_collection("asked", changeStreamPreAndPostImages={"enabled": True})
    shop.asked.insert_many([{"_id": n, "s": "ok", "n": n % 4} for n in range(4_000)])
    scene.client.admin.command({"profile": 0, "slowms": -1})
    try:
        with scene.source.client() as other:
            # It has begun, and takes seconds: one that ended before the other began would be an incident of its own.
            slow = {"n": {"$gt": 0}, "$where": "sleep(1) || true"}
            right = Thread(target=other["shop"].asked.update_many, args=(slow, {"$set": {"s": "shipped"}}))
            with shop.asked.watch() as changes:
                right.start()
                next(changes)
            shop.asked.update_many({"n": 0}, {"$set": {"s": "BAD"}})
            right.join()
        scene.settle()
        target = Target.parse(scene.source.uri)
        run = functools.partial(asyncio.to_thread, CliRunner().invoke, main)
        rows = json.loads((await run(["incidents", scene.source.uri, "--json"])).stdout)
        # Numbers change as the oplog grows: earlier tests' incidents are still being judged.
        (name,) = [one["point"] for one in rows if one["ns"] == "shop.asked" and one["kind"] == "updateMany"]
        words = ["restore", "plan", scene.source.uri, f"--incident={name}", "--from=pre-images", "--json"]
        unclear = await run(words)
        assert unclear.exit_code == 2, unclear.stderr
        assert f"incident {name} is updateMany on shop.asked" in unclear.stderr
        groups = {row["what"]: row for row in json.loads(unclear.stdout)["groups"]}
        assert {what: row["entries"] for what, row in groups.items()} == {'s = "BAD"': 1_000, 's = "shipped"': 3_000}
        assert len(groups['s = "BAD"']["samples"]) == 5

        gateway = open_gateway(scene.source.uri)
        try:
            found = await scan_all(gateway, None, 60)
        finally:
            await gateway.close()
        (incident,) = [one for one in found.incidents if str(one.limit) == name]
        draft = Draft(incident.limit, incident, way=FROM_IMAGES)
        *_, asked = [one async for one in plan_apart(target, draft)]
        assert isinstance(asked, Planned)
        assert asked.plan is not None, asked
        assert json.loads(to_json(asked.plan))["groups"] == list(groups.values())

        for statement, count in (
            (groups['s = "BAD"']["statement"], 1_000),
            ("updateMany({n: 0}, {$set: {s: 'x'}})", 5),
        ):
            answered = await run([*words, f"--statement={statement}", f"--count={count}"])
            by_command = json.loads(answered.stdout)
            *_, answer = [one async for one in plan_apart(target, replace(draft, statement=statement, reported=count))]
            assert isinstance(answer, Planned)
            assert answer.plan is not None, answer
            by_page = json.loads(to_json(answer.plan))
            for name in ("level", "accident", "undone", "left_out", "groups", "operations"):
                assert by_page[name] == by_command[name], (name, by_page["checks"], by_command["checks"])
            assert (by_page["level"] == "block") == (count == 5)
            if count != 5:
                assert [(row["what"], row["entries"], row["documents"]) for row in by_page["undone"]] == [
                    ('s = "BAD"', 1_000, 1_000)
                ]
                assert [(row["what"], row["entries"]) for row in by_page["left_out"]] == [('s = "shipped"', 3_000)]
    finally:
        scene.client.admin.command({"profile": 0, "slowms": 100})


async def test_the_log_answers_what_was_run(scene: Scene) -> None:
    orders = scene.client["shop"].logged
    orders.insert_many([{"_id": n, "s": "ok", "n": n % 4} for n in range(800)])
    scene.client.admin.command({"profile": 0, "slowms": -1})
    try:
        orders.update_many({"n": 0}, {"$set": {"s": "BAD"}})
        scene.settle()
        gateway = open_gateway(scene.source.uri)
        try:
            found = await scan_all(gateway, None, 60)
        finally:
            await gateway.close()
    finally:
        scene.client.admin.command({"profile": 0, "slowms": 100})
    (incident,) = [one for one in found.incidents if one.ns == "shop.logged"]
    assert logged_statement(incident) == ("updateMany({n: 0}, {$set: {s: 'BAD'}})", 200)
