"""An index that was dropped, and nothing else: a person is asked whether it is built again, and the run is complete."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from restore_scene import Scene

from pseudo_terminal import Terminal, say_yes

pytestmark = [pytest.mark.live, pytest.mark.tools]


@pytest.mark.parametrize("named", [True, pytest.param(False, marks=pytest.mark.soak)], ids=["incident", "point"])
async def test_an_index_that_was_dropped_is_built_again_and_the_run_is_complete(scene: Scene, named: bool) -> None:
    orders = scene.client["shop"].orders
    orders.insert_many([{"_id": n, "a": n} for n in range(200)])
    orders.create_index("a", unique=True)
    backup, before = scene.backup("--oplog"), orders.index_information()
    orders.drop_index("a_1")
    scene.settle()
    incident = await scene.incident("dropIndexes", "shop.orders")
    plan = await scene.plan(backup, incident.limit, incident=incident if named else None)
    undecided = scene.run(plan)
    assert undecided.returncode == 3, undecided.stderr
    assert '"name": "a_1", "unique": true} is missing' in undecided.stderr
    with Terminal([str(scene.save(plan))], dict(scene.environment), cwd=scene.folder) as person:
        say_yes(person)
        assert person.wait_for_exit() == 0, person.text
    assert orders.index_information() == before


@pytest.mark.parametrize(
    ("now", "code", "said"),
    [
        ({"unique": True}, 0, "Nothing to decide"),
        ({}, 3, 'its name is that of {"key": {"a": 1}, "name": "a_1"}.'),
        (None, 3, "The collection is not there."),
    ],
    ids=["the same", "another of its name", "collection dropped"],
)
async def test_what_others_did_to_an_index_meanwhile_tells_whether_something_is_left_to_decide(
    scene: Scene, now: dict[str, bool] | None, code: int, said: str
) -> None:
    orders = scene.client["shop"].orders
    orders.insert_one({"_id": 1, "a": 1})
    orders.create_index("a", unique=True)
    backup = scene.backup("--oplog")
    orders.drop_index("a_1")
    scene.settle()
    incident = await scene.incident("dropIndexes", "shop.orders")
    plan = await scene.plan(backup, incident.limit, incident=incident)
    if now is None:
        orders.drop()
    else:
        orders.create_index("a", **now)
    done = scene.run(plan)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert ("Not decided" in done.stderr, "All is as it" in done.stderr) == (code == 3, code == 0), done.stderr
    if now is None:
        with Terminal([str(scene.save(plan))], dict(scene.environment), cwd=scene.folder) as person:
            person.wait("run it? [y/N]")
            person.press("y\n")
            assert person.wait_for_exit() == 1, person.text
        assert "orders" not in scene.client["shop"].list_collection_names()


async def test_what_expired_by_a_change_of_its_index_is_listed_until_it_is_back(expiring: Scene) -> None:
    scene, sessions = expiring, expiring.client["shop"].sessions
    sessions.insert_many([{"_id": n, "at": datetime.now(UTC) - timedelta(days=n % 4)} for n in range(200)])
    sessions.create_index("at", expireAfterSeconds=86_400 * 30)
    backup, held = scene.backup("--oplog"), {row["_id"]: row for row in sessions.find()}
    scene.client["shop"].command("collMod", "sessions", index={"name": "at_1", "expireAfterSeconds": 86_000})
    while sessions.count_documents({}) > 50:  # each asks the server, which looks every second
        scene.settle()
    scene.settle()
    incident = await scene.incident("collMod", "shop.sessions")
    plan = await scene.plan(backup, incident.limit, incident=incident)
    (check,) = [one for one in plan.checks if one.id == "expired-by-accident"]
    assert "150 documents were deleted there since" in check.title
    scene.client["shop"].command("collMod", "sessions", index={"name": "at_1", "expireAfterSeconds": 86_400 * 30})
    done = scene.run(plan)
    assert (done.returncode, "Still damaged or unclear: 150." in done.stderr) == (3, True), done.stderr
    sessions.insert_many([row for key, row in held.items() if key % 4])
    done = scene.run(plan)
    assert (done.returncode, "All is as it" in done.stderr) == (0, True), done.stderr


async def test_an_index_that_cannot_be_built_keeps_no_other_from_being_built(scene: Scene) -> None:
    orders = scene.client["shop"].orders
    orders.insert_many([{"_id": n, "a": n, "b": n} for n in range(20)])
    orders.create_index("a", unique=True)
    orders.create_index("b")
    backup, before = scene.backup("--oplog"), orders.index_information()
    scene.settle()
    orders.drop_indexes()
    orders.insert_one({"_id": 20, "a": 1})
    scene.settle()
    incident = await scene.incident("dropIndexes", "shop.orders")
    first = scene.first_entry({"o.dropIndexes": "orders"}, scene.begun)
    plan = await scene.plan(backup, first, incident=incident)
    with Terminal([str(scene.save(plan))], dict(scene.environment), cwd=scene.folder) as person:
        with pytest.raises(AssertionError, match="ended: 1"):
            say_yes(person)
        assert "1 of 2 could not be done" in person.text
    assert set(orders.index_information()) == {"_id_", "b_1"}
    orders.delete_one({"_id": 20})
    with Terminal([str(scene.save(plan))], dict(scene.environment), cwd=scene.folder) as person:
        say_yes(person)
        assert person.wait_for_exit() == 0, person.text
    assert orders.index_information() == before
