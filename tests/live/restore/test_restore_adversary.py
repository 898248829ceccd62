"""Worlds of tests/adversary on a real server: undone from pre-images by the emitted script, while a client writes."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson import Timestamp, json_util
from pymongo import DeleteOne, MongoClient, UpdateOne
from pymongo.client_session import ClientSession
from pymongo.errors import PyMongoError
from restore_scene import OtherClient, Scene, blocks, kill_at, resume

from adversary.attack import Result, Session, alike, described, evidence
from adversary.scenario import KNOWLEDGE, Scenario, Undo, dense
from adversary.statements import Document, Statement, StatementError, Write, apply, each_effect, operators
from adversary.world import Step, World
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.oplog.incidents.incident import scan
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.model.check import Level

pytestmark = [pytest.mark.live, pytest.mark.tools, pytest.mark.soak, pytest.mark.since(6, 0)]

_CASES = int(os.environ.get("ADVERSARY_CASES", "300"))
_FIRST = int(os.environ.get("ADVERSARY_SEED", "0"))
_PART = min(_CASES, 30)
_DATE = Timestamp(1_700_000_000, 1)
_WRITTEN = "w"
"""The field that the client beside the undo counts up."""


def in_turn(scenario: Scenario) -> Scenario:
    """The statements one after the other: a real server does not repeat how they interleave. Of most accidents all is
    known that a person may know: of the others few are written, and how each is refused needs no server."""
    found = sorted(scenario.statements, key=lambda one: one.start)
    statements = tuple(
        replace(one, start=2_000 + at * 1_000, step=0, pause=0, order=1, writes=tuple(map(_dated, one.writes)))
        for at, one in enumerate(found)
    )
    known = [replace(one, knowledge=KNOWLEDGE[-1]) for one in scenario.undos]
    undos = tuple(known if len(found) % 4 else scenario.undos)
    return replace(scenario, statements=statements, undos=undos)


def _dated(write: Write) -> Write:
    """With a date of its own: the server's clock is not the model's."""
    effects = tuple(
        tuple(("$set", path, _DATE) if name == "$currentDate" else (name, path, how) for name, path, how in some)
        for some in write.effects
    )
    return replace(write, effects=effects)


class Server:
    """Runs statements as a driver sends them."""

    def __init__(self, scene: Scene, name: str) -> None:
        self._linked, self._plain = scene.client, MongoClient[Any](scene.source.uri, retryWrites=False)
        self._name = name
        self._sessions: dict[int, ClientSession] = {}

    def close(self) -> None:
        for session in self._sessions.values():
            session.end_session()
        self._plain.close()

    def run(self, statement: Statement) -> None:
        """Run one statement to its end, or to the document at which the server ends it."""
        number = statement.session
        client = self._plain if number is None else self._linked
        session = None if number is None else self._sessions.setdefault(number, client.start_session())
        items = client["shop"][self._name]
        with suppress(PyMongoError, StatementError):
            if not statement.transaction:
                for write in statement.writes:
                    _send(items, write, session)
                return
            assert session is not None
            with session.start_transaction():
                for write in statement.writes:
                    _send(items, write, session)


def _send(items: Any, write: Write, session: ClientSession | None) -> None:
    effects = each_effect(write)
    if write.kind == "insert":
        items.insert_one({"_id": write.ids[0]} | (write.document or {}), session=session)
    elif write.kind == "replace":
        items.replace_one({"_id": write.ids[0]}, write.document or {}, session=session)
    elif write.kind == "rewrite":
        held = items.find_one({"_id": write.ids[0]})
        if held is not None:
            items.replace_one({"_id": write.ids[0]}, apply(held, write.effects[0]), session=session)
    elif write.query is not None and write.kind == "delete":
        items.delete_many(write.query, session=session)
    elif write.query is not None:
        # In the order of the _ids, as in the model: it ends at the first document to which it cannot be applied.
        items.update_many(write.query, operators(write.effects[0]), hint=[("_id", 1)], session=session)
    elif write.kind == "delete":
        items.bulk_write([DeleteOne({"_id": id_}) for id_ in write.ids], session=session)
    else:
        updates = [UpdateOne({"_id": id_}, operators(next(effects)), upsert=write.upsert) for id_ in write.ids]
        items.bulk_write(updates, session=session)


class Writer(OtherClient):
    """Counts a field of its own up while the undo runs."""

    def __init__(self, scene: Scene, name: str, ids: list[Any]) -> None:
        super().__init__(scene)
        self._name, self._ids, self.written = name, ids, Counter[Any]()

    def work(self, client: MongoClient[Any]) -> None:
        rng = random.Random(0)
        while not self.stop.wait(0.05):
            id_ = rng.choice(self._ids)
            found = client["shop"][self._name].update_one({"_id": id_}, {"$inc": {_WRITTEN: 1}})
            self.written[id_] += found.matched_count


def _incident(ns: str, entries: list[Document]) -> Incident:
    """The entries of one statement as an incident."""
    op, session, number = entries[0]["op"], entries[0].get("lsid"), entries[0].get("txnNumber")
    kind = "transaction" if op == "c" else "batch" if session else {"u": "updateMany", "d": "deleteMany"}[op]
    same = [one for one in entries if one["op"] == op]
    first, last = (Ts(one["ts"].time, one["ts"].inc) for one in (same[0], same[-1]))
    return Incident(
        1, kind, kind, ns, Harm.CHANGE, first, last, None, None, len(same), len(same), op=op.replace("c", ""),
        session=session["id"].hex() if session and op != "c" else "", sessions=int(session is not None), txn=number,
    )  # fmt: skip


class Case:
    """One scenario on the server."""

    def __init__(self, scene: Scene, seed: int, folder: Path) -> None:
        self.scene, self.scenario, self.name = scene, in_turn(dense(seed)), f"adversary_{seed}"
        scene.folder, self.begun = folder, scene.now().next
        folder.mkdir()
        options = {"changeStreamPreAndPostImages": {"enabled": True}}
        self.items = scene.client["shop"].create_collection(self.name, **options)
        with scene.source.client() as other:  # in a session of its own
            other["shop"][self.name].insert_many([dict(row) for row in self.scenario.documents])
        self.world = World({row["_id"]: row for row in self.scenario.documents})
        self.world.add(self.scenario.statements)
        self.world.run()
        self.session = Session(self.scenario, self.world)
        self.written = Counter[Any]()

    def live(self) -> dict[Any, Document]:
        """The documents on the server."""
        return {row["_id"]: row for row in self.items.find()}

    def happen(self) -> dict[str, tuple[Ts, Ts]]:
        """Run all statements; for each, the newest entry before it, and the newest of it."""
        server, around = Server(self.scene, self.name), dict[str, tuple[Ts, Ts]]()
        for statement in self.scenario.statements:
            self.scene.settle()
            before = self.scene.now()
            server.run(statement)
            self.scene.settle()
            around[statement.name] = before, self.scene.now()
        server.close()
        return around

    async def row(self, after: Ts, until: Ts) -> Incident | None:
        """The row of the list in which the accident is, or one of its entries where they are too few for the list; None
        where it wrote nothing that is undone."""
        gateway, ns = open_gateway(self.scene.source.uri), f"shop.{self.name}"
        about = {
            "ts": {"$gt": Timestamp(*after), "$lte": Timestamp(*until)},
            "$or": [{"ns": ns}, {"o.applyOps.ns": ns}],
        }
        entries = list(self.scene.client.local["oplog.rs"].find(about))
        hits = [one for one in entries if one["op"] in "udc"]
        if not hits:
            return None
        at = Ts(hits[0]["ts"].time, hits[0]["ts"].inc)
        try:
            async for progress in scan(gateway, self.begun):
                if progress.done:
                    rows = [one for one in progress.incidents if one.ns == ns or one.kind == "transaction"]
                    about_it = [one for one in rows if one.op in ("", hits[0]["op"])]  # another's row may span its time
                    sent = [one for one in about_it if bool(one.sessions) is ("lsid" in hits[0]) or not one.op]
                    fits = [one for one in sent if one.first <= at <= one.last and not one.routine]
                    return min(fits, key=lambda one: one.ops, default=None) or _incident(ns, hits)
        finally:
            await gateway.close()
        return None

    async def attack(self) -> AsyncIterator[Result]:
        """Undo the accidents one after the other; without those of which the list shows no incident."""
        around = self.happen()
        if not alike(self.live(), self.world.live):
            raise AssertionError(f"{self.name}: the model differs from the server\n{self.live()}\n{self.world.live}")
        folder = self.scene.folder
        for at, undo in enumerate(self.scenario.undos):
            row = await self.row(*around[undo.accident])
            own = [step for step in self.world.steps if step.who == undo.accident]
            if row is not None and own:
                self.scene.folder = folder / f"{at}-{undo.accident}"
                self.scene.folder.mkdir()
                yield await self.undo(undo, row, own)

    async def undo(self, undo: Undo, row: Incident, own: list[Step]) -> Result:
        """One undo, by the emitted script, while a client writes, killed on the way where the scenario says so."""
        statement = next(one for one in self.scenario.statements if one.name == undo.accident)
        known = evidence(undo, statement, len(own), row.op)
        plan = await self.scene.undo(row, evidence=known)
        if plan.level is Level.BLOCK:
            return Result(undo, "refused", blocks(plan)[0])
        with Writer(self.scene, self.name, list(self.world.initial)) as writer:
            if undo.cut is not None:
                with suppress(AssertionError):  # it stopped before that step
                    kill_at(self.scene, plan, 3 + undo.cut, with_step=bool(undo.wait))
            done = resume(self.scene, plan)
        self.written += writer.written
        live = self.live()
        for id_, row_ in live.items():
            assert row_.pop(_WRITTEN, 0) <= self.written[id_], "others' work is kept, and never doubled"
        listed = Path(plan.steps.work_dir) / "still-damaged.jsonl"
        if done.returncode not in (0, 3) or not listed.exists():
            assert alike(live, self.world.live), f"{self.name}: {done.stderr}"
            return Result(undo, "refused", done.stderr[-300:])
        damaged = {json_util.loads(json.dumps(json.loads(line)["_id"])) for line in listed.read_text().splitlines()}
        self.world.live = live
        return self.session.judge(undo, own, damaged, code=done.returncode, known=known)


@pytest.mark.parametrize("first", range(_FIRST, _FIRST + _CASES, _PART))
async def test_no_undo_on_a_server_is_wrong_in_silence(scene: Scene, tmp_path: Path, first: int) -> None:
    found: list[Result] = []
    for seed in range(first, first + _PART):
        case = Case(scene, seed, tmp_path / str(seed))
        results = [result async for result in case.attack()]
        found += results
        print(seed, *[result.verdict for result in results] or ["no such row"], flush=True)
        case.items.drop()
    print(Counter(one.verdict for one in found), Counter(one.reason[:90] for one in found if one.verdict == "refused"))
    assert [described(one) for one in found if one.verdict == "wrong"] == []
