"""An incident whose entries may be several statements is refused, on both ways; one statement is undone whole, though
its entries differ."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp
from pymongo import DeleteOne, InsertOne, MongoClient, ReplaceOne, UpdateOne
from restore_scene import Scene, blocks, ids

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.undo.evidence import KnownStatement, read_evidence

pytestmark = [pytest.mark.live, pytest.mark.tools, pytest.mark.since(6, 0)]

IMAGES = {"changeStreamPreAndPostImages": {"enabled": True}}
Documents = list[dict[str, Any]]


@pytest.fixture(params=[pytest.param("backup", marks=pytest.mark.soak), "pre-images"])
def way(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


class Case:
    """One collection, its backup, and its documents before the accident."""

    def __init__(self, scene: Scene, name: str, documents: Documents) -> None:
        self.scene, self.ns = scene, f"shop.{name}"
        scene.client["shop"].create_collection(name, **IMAGES)
        self.items = scene.client["shop"][name]
        with scene.source.client() as other:  # in a session of its own
            other["shop"][name].insert_many(documents)
        self.backup: Path = scene.backup("--oplog")
        self.before, self.since = self.contents(), scene.now()

    def contents(self) -> dict[Any, dict[str, Any]]:
        return {row["_id"]: row for row in self.items.find()}

    def first_entry(self, **query: Any) -> Ts:
        return self.scene.first_entry({"ns": self.ns} | query, self.since)

    async def plan(self, way: str, kind: str) -> Plan:
        """The plan for the newest incident of a kind."""
        self.scene.settle()
        incident = await self.scene.incident(kind, self.ns)
        assert incident.last > self.since
        return await self.plan_for(way, incident)

    async def plan_for(self, way: str, incident: Incident, known: KnownStatement | None = None) -> Plan:
        if way == "backup":
            return await self.scene.plan(self.backup, incident.limit, incident=incident, evidence=known)
        return await self.scene.undo(incident, evidence=known)

    async def is_undone(self, plan: Plan) -> None:
        """The script brings back every document as it was, to the last field, and says so."""
        assert plan.level is not Level.BLOCK, blocks(plan)
        assert "NOT COMPLETE" not in self.scene.must_run(plan)
        assert self.contents() == self.before


def at_once(*actions: Callable[[], Any]) -> None:
    """Run actions of several clients at the same time."""
    threads = [threading.Thread(target=action) for action in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def test_documents_that_had_some_of_the_values(scene: Scene, way: str) -> None:
    """Each entry lacks what its document had; they are one statement, and all of it is undone."""
    had: list[dict[str, Any]] = [{"s": "BAD", "flag": False}, {"s": "ok", "flag": True}, {"s": "ok"}]
    case = Case(scene, f"had_{way[:3]}", [{"_id": n, "old": n} | had[n % 3] for n in range(600)])
    case.items.update_many({}, {"$set": {"s": "BAD", "flag": True}})
    plan = await case.plan(way, "updateMany")
    (row,) = plan.undo.undone
    assert (row.ns, row.what, row.documents) == (case.ns, 'flag = true, s = "BAD"', 600)
    assert (row.first, row.last) == (case.first_entry(op="u"), scene.newest_of({"ns": case.ns, "op": "u"}))
    await case.is_undone(plan)
    repairs = await scene.incident("return", case.ns)
    assert (repairs.documents, repairs.routine) == (600, True), "no act of a person"
    readme = (Path(plan.steps.work_dir) / "README.md").read_text()
    review = (Path(plan.steps.work_dir) / "review.js").read_text()
    for text in (readme, review):
        assert "600 documents" in " ".join(text.split())
        assert str(row.first) in text


async def test_a_field_that_half_of_them_had_is_removed(scene: Scene) -> None:
    case = Case(scene, "unset", [{"_id": n, "s": n} | ({"name": f"n{n}"} if n % 2 else {}) for n in range(400)])
    case.items.update_many({}, {"$unset": {"name": ""}, "$set": {"s": -1}})
    plan = await case.plan("pre-images", "updateMany")
    assert plan.undo.undone[0].what == "name removed, s = -1"
    await case.is_undone(plan)


async def test_two_updates_at_once(scene: Scene, way: str) -> None:
    """Somebody's many right ones, and the accident: the incident is refused; --before, or the statement with its count,
    undoes the accident alone."""
    case = Case(scene, f"twice_{way[:3]}", [{"_id": n, "s": "ok", "n": n % 8} for n in range(2_000)])
    other: MongoClient[Any] = MongoClient(scene.source.uri)
    right = other["shop"][case.items.name]
    slow = {"n": {"$gt": 0}, "$where": "sleep(1) || true"}
    shipping = threading.Thread(target=right.update_many, args=(slow, {"$set": {"s": "shipped"}}))
    with case.items.watch() as changes:
        shipping.start()
        next(changes)  # it has begun, and takes seconds
        case.items.update_many({"n": 0}, {"$set": {"s": "BAD"}})
    shipping.join()
    other.close()
    plan = await case.plan(way, "updateMany")
    assert "incident-unclear" in ids(plan)
    assert plan.steps.commands == ()
    (said,) = [one for one in blocks(plan) if one.startswith("incident-unclear")]
    assert '250 entries: s = "BAD" (' in said
    assert '1,750 entries: s = "shipped" (' in said
    assert "--before" in next(check.advice for check in plan.checks if check.id == "incident-unclear")
    scene.settle()
    incident = await scene.incident("updateMany", case.ns)
    text = 'updateMany({n: 0}, {$set: {s: "BAD"}})'
    wrong = await case.plan_for(way, incident, read_evidence(text, 249))
    assert [one.level for one in wrong.checks if one.id == "incident-compared"] == [Level.WARN]
    if way == "pre-images":
        stopped = scene.run(wrong)
        assert stopped.returncode == 1
        assert "249 were reported" in stopped.stderr
        shutil.rmtree(wrong.steps.work_dir)
    proven = await case.plan_for(way, incident, read_evidence(text, 250))
    chosen = await scene.plan(case.backup, case.first_entry(op="u", **{"o.diff.u.s": "BAD"}))
    for found in (proven, chosen):
        assert found.level is not Level.BLOCK, blocks(found)
        assert [(row.what, row.documents) for row in found.undo.undone] == [('s = "BAD"', 250)]
        counts = [line for step in found.steps.commands for line in step.counts]
        # Some of the right ones come before the point, and are no later writes then.
        shipped = {
            "ns": case.ns,
            "o.diff.u.s": "shipped",
            "ts": {"$gte": Timestamp(found.facts.limit.t, found.facts.limit.i)},
        }
        later = scene.client.local["oplog.rs"].count_documents(shipped)
        assert f"{case.ns}: 250 operations undone; {later:,} later writes of others left alone" in counts, counts
    scene.must_run(proven if way == "pre-images" else chosen)
    assert case.contents() == {n: row | {"s": "shipped" if n % 8 else "ok"} for n, row in case.before.items()}


async def test_two_deletes_seconds_apart(scene: Scene, way: str) -> None:
    case = Case(scene, f"apart_{way[:3]}", [{"_id": n} for n in range(300)])
    case.items.delete_many({"_id": {"$lt": 100}})
    await asyncio.sleep(1.5)  # the pause is the case
    case.items.delete_many({"_id": {"$gte": 200}})
    scene.settle()
    incident = await scene.incident("deleteMany", case.ns)
    if incident.documents == 200:
        plan = await case.plan_for(way, incident)
        assert ids(plan) == {"incident-unclear"}
        (said,) = blocks(plan)
        assert said.count("100 entries (") == 2, said
        assert "pauses of more than 1 s" in said
        assert ids(await case.plan_for(way, incident, read_evidence("", 100))) == {"incident-unclear"}
        assert ids(await case.plan_for(way, incident, read_evidence("", 200))) == set(), "one statement that paused"
    begun = case.first_entry(op="d", **{"o._id": 200})
    chosen = await scene.plan(case.backup, begun)
    assert [(row.ns, row.entries) for row in chosen.undo.undone] == [(case.ns, 100)]
    scene.must_run(chosen)
    assert sorted(case.contents()) == list(range(100, 300))


async def test_deletes_are_told_apart_by_their_filter(scene: Scene) -> None:
    """Another client deletes without a session in the same moment: filter and count leave its deletes alone."""
    case = Case(scene, "filter", [{"_id": n, "s": "new" if n % 4 else "old"} for n in range(400)])
    with MongoClient[Any](scene.source.uri) as other:
        # It takes seconds, and the other one comes after it has begun: else they would be two incidents.
        slow = threading.Thread(target=case.items.delete_many, args=({"s": "new", "$where": "sleep(10) || true"},))
        with case.items.watch() as changes:
            slow.start()
            next(changes)
        other["shop"][case.items.name].delete_many({"s": "old", "_id": {"$lt": 100}})
        slow.join()
    scene.settle()
    incident = await scene.incident("deleteMany", case.ns, case.first_entry(op="d", **{"o._id": 1}))
    elsewhere = await case.plan_for("pre-images", incident, read_evidence('db.carts.deleteMany({s: "new"})', 300))
    assert f"The statement is on carts, the incident on {case.ns}." in blocks(elsewhere)[0]
    plan = await case.plan_for("pre-images", incident, read_evidence('deleteMany({s: "new"})', 300))
    assert plan.level is not Level.BLOCK, blocks(plan)
    scene.must_run(plan)
    assert case.contents() == {n: row for n, row in case.before.items() if n % 4 or n >= 100}


async def test_a_bulk_write_of_several_kinds(scene: Scene, way: str) -> None:
    case = Case(scene, f"mixed_{way[:3]}", [{"_id": n, "s": "ok"} for n in range(400)])
    case.items.bulk_write(
        [
            *(UpdateOne({"_id": n}, {"$set": {"s": "BAD"}}) for n in range(100)),
            *(ReplaceOne({"_id": n}, {"gone": n}) for n in range(100, 200)),
            *(DeleteOne({"_id": n}) for n in range(200, 300)),
            *(InsertOne({"_id": n, "s": "new"}) for n in range(1_000, 1_100)),
        ]
    )
    plan = await case.plan(way, "batch")
    assert ids(plan) == {"incident-unclear"}
    assert "several kinds" in blocks(plan)[0]


async def test_one_command_of_a_session_is_known_whatever_it_writes(scene: Scene, way: str) -> None:
    """Updates and replacements under one transaction number, among the same writes by others."""
    case = Case(scene, f"command_{way[:3]}", [{"_id": n, "s": "ok", "n": 0} for n in range(200)])
    with scene.source.client() as other:
        other["shop"][case.items.name].update_one({"_id": 150}, {"$set": {"s": "v1"}})
    case.before = case.contents()
    case.items.bulk_write(
        [UpdateOne({"_id": n}, {"$set": {"s": f"v{n % 3}"}}) if n % 2 else ReplaceOne({"_id": n}, {"s": 1})
         for n in range(100)]
    )  # fmt: skip
    plan = await case.plan(way, "batch")
    assert [(row.documents, "one command" in row.what) for row in plan.undo.undone] == [(100, True)]
    await case.is_undone(plan)


async def test_a_transaction_amid_deletes_without_a_session_is_anothers(scene: Scene) -> None:
    """A client's transaction within the span of a deleteMany keeps what it deleted."""
    case = Case(scene, "amid", [{"_id": n} for n in range(30_000)])
    other, done, theirs = scene.source.client(), threading.Event(), list[int]()

    def remove_some() -> None:
        for n in range(29_000, 30_000):
            if not done.is_set():
                with other.start_session() as session, session.start_transaction():
                    other["shop"].amid.delete_one({"_id": n}, session=session)
                theirs.append(n)

    def remove_most() -> None:
        case.items.delete_many({"_id": {"$lt": 29_000}})
        done.set()

    at_once(remove_most, remove_some)
    other.close()
    scene.settle()
    incident = await scene.incident("deleteMany", case.ns)
    kinds = {"op": "c", "ts": {"$gte": Timestamp(*incident.first), "$lte": Timestamp(*incident.last)}}
    assert scene.client.local["oplog.rs"].count_documents(kinds), "some lie within the span"
    plan = await case.plan_for("pre-images", incident)
    assert plan.level is not Level.BLOCK, blocks(plan)
    scene.must_run(plan)
    assert sorted(case.contents()) == sorted({*range(30_000)} - {*theirs})


def is_dense(scene: Scene, ns: str) -> bool:
    """Whether 100 deletes lie close together in the oplog: less is no sign of a pool."""
    walls = [entry["wall"] for entry in scene.client.local["oplog.rs"].find({"op": "d", "ns": ns})]
    breaks = [n for n, (one, next_) in enumerate(pairwise(walls), 1) if next_ - one > timedelta(milliseconds=20)]
    return max(after - before for before, after in pairwise([0, *breaks, len(walls)])) > 100


@pytest.mark.soak  # on a machine that is busy with other tests the deletes are never dense enough
async def test_deletes_of_a_pool_are_one_row_that_is_refused(scene: Scene, way: str) -> None:
    """Sixteen clients at once, with pauses as a busy server makes them: nobody knows which deletes are others' until a
    person says how many were one's own."""
    for attempt in range(10):  # a slow machine needs several until they are dense enough
        case = Case(scene, f"pool_{way[:3]}_{attempt}", [{"_id": n} for n in range(500)])
        with scene.source.client() as pool, ThreadPoolExecutor(16) as clients:
            remove = pool["shop"][case.items.name].delete_one
            for first, count in ((0, 60), (60, 60), (120, 180), (300, 60), (360, 40)):
                list(clients.map(lambda n, remove=remove: remove({"_id": n}), range(first, first + count)))
                await asyncio.sleep(0.05)  # the pause is the case
        if is_dense(scene, case.ns):
            break
    scene.settle()
    incident = await scene.incident("fan_out", case.ns)
    assert incident.documents == 400
    assert (incident.limit, incident.last) == (case.first_entry(op="d"), scene.newest_of({"ns": case.ns, "op": "d"}))
    assert "without a session" not in incident.who
    plan = await case.plan_for(way, incident)
    (said,) = [one for one in blocks(plan) if one.startswith("incident-unclear")]
    assert said.endswith("Several clients delete here, and a delete does not say whose it is."), said
    await case.is_undone(await case.plan_for("pre-images", incident, read_evidence("", 400)))
