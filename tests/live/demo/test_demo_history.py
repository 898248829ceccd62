"""The past of the demo: dates at the first look, acts that can be undone, and data that the replay gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import bson
import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tallyglass.counters.follow.watch import look
from tallyglass.counters.snapshot import Flag
from tallyglass.demo import history
from tallyglass.demo.server import Standalone
from tallyglass.demo.session import Demo
from tallyglass.demo.workload import Schedule
from tallyglass.mongo.client import open_gateway
from tallyglass.oplog.incidents.incident import scan
from tallyglass.restore.model.check import Level
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.proof.request import RestoreRequest

pytestmark = pytest.mark.live

STILL = Schedule(first=10_000, speed=1e-9)
"""Nothing is written after the past."""


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    with Demo(schedule=STILL, seed=1) as running:
        yield running


@pytest.mark.since(5, 0)
async def test_the_first_look_has_rates_dates_and_bands(demo: Demo) -> None:
    gateway = open_gateway(demo.uri)
    try:
        found = {counter.id: counter for counter in (await look(gateway)).counters}
    finally:
        await gateway.close()
    assert len(found) == 9
    for counter in found.values():
        assert counter.forecast.rate
        assert counter.forecast.history_seconds > 0.9 * history.HOURS * 3600
        assert set(counter.flags) <= {Flag.DOUBLE, Flag.GUESS}
    for name in ("vouchers", "people", "orders", "messages", "UNIQUE COUNT DOCUMENT IDENTIFIER"):
        forecast = found[name].forecast
        assert forecast.early is not None, name
        assert forecast.likely is not None, name
        assert forecast.early < forecast.likely, name
    assert found["people"].forecast.rate == pytest.approx(0.8, rel=0.1)
    assert found["pool"].forecast.rate == pytest.approx(30, rel=0.35)
    assert found["people"].drift == 0


@pytest.mark.since(5, 0)
async def test_what_people_did_before_can_be_undone(demo: Demo) -> None:
    gateway = open_gateway(demo.uri)
    try:
        scans = [scanned async for scanned in scan(gateway)]
        acts = {(one.kind, one.ns): one for one in scans[-1].incidents if not one.routine}
        assert set(acts) == {
            ("drop", "crm.people_2019"),
            ("updateMany", "support.tickets"),
            ("deleteMany", "blog.comments"),
        }
        for incident in acts.values():
            plan = await plan_restore(gateway, RestoreRequest(demo.backup, demo.uri, incident=incident))
            assert plan.level is not Level.BLOCK, plan.checks
    finally:
        await gateway.close()


@pytest.mark.since(5, 0)
def test_the_backup_and_a_replay_give_the_data(demo: Demo) -> None:
    with MongoClient[dict[str, Any]](demo.uri) as client, Standalone() as spare, spare.client() as copy:
        names = sorted(set(client.list_database_names()) - {"admin", "config", "local"})
        assert names == ["blog", "chat", "crm", "plant", "shop", "staging", "support"]
        for file in (file for name in names for file in (demo.backup / name).glob("*.bson")):
            documents = bson.decode_all(file.read_bytes())
            if documents:
                copy[file.parent.name][file.stem].insert_many(documents)
        end = bson.decode_all((demo.backup / "oplog.bson").read_bytes())[-1]["ts"]
        since = {"ts": {"$gt": end}, "ns": {"$regex": f"^({'|'.join(names)})\\."}}
        entries = [
            {key: entry[key] for key in ("op", "ns", "o", "o2") if key in entry}
            for entry in client.local["oplog.rs"].find(since)
        ]
        assert len(entries) > 2_000
        for start in range(0, len(entries), 1_000):
            copy.admin.command("applyOps", entries[start : start + 1_000])
        for name in names:
            assert copy[name].command("dbHash")["collections"] == client[name].command("dbHash")["collections"]


async def test_without_a_past_the_demo_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OperationFailure("cannot write to the oplog")

    monkeypatch.setattr(history.HistoryWriter, "write", refuse)
    with Demo(schedule=STILL, seed=1) as demo:
        gateway = open_gateway(demo.uri)
        try:
            snapshot = await look(gateway)
        finally:
            await gateway.close()
        assert len(snapshot.counters) == 9
        assert (demo.backup / "shop" / "orders.bson").exists()
