"""The demo on a real server: its counters, its accident, its backup, and its end."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import bson
import pytest
from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import OperationFailure

from tallyglass.demo.accidents import all_accidents
from tallyglass.demo.server import ReplicaSet
from tallyglass.demo.session import Demo
from tallyglass.demo.workload import PERSON, Schedule, Workload
from tallyglass.errors import EmbeddedServerError
from tallyglass.evidence.facts import RunningOperation
from tallyglass.evidence.running import running_of
from tallyglass.mongo.client import open_gateway
from tallyglass.oplog.incidents.incident import scan
from tallyglass.restore.backup.file_names import file_stem
from tallyglass.restore.model.check import Level
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.proof.request import RestoreRequest

pytestmark = pytest.mark.live

Client = MongoClient[dict[str, Any]]


@pytest.fixture(scope="module")
def demo() -> Iterator[Demo]:
    # Each accident once: the same within a minute may be one statement or two.
    with Demo(schedule=Schedule(first=0.5, between=1.5, repair_after=0.5, accidents=6), seed=1) as running:
        yield running


@pytest.fixture(scope="module")
def client(demo: Demo) -> Iterator[Client]:
    with MongoClient(demo.uri) as opened:
        yield opened


def until(true: Callable[[], object], seconds: float = 180.0) -> None:
    """Wait for what the workload will do in its own time."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "the workload never did it"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("counter", "query", "field", "target", "number"),
    [
        ("shop.counters", {"_id": "orders"}, "next", "shop.orders", "number"),
        ("shop.counters", {"_id": "customers"}, "next", "shop.customers", "number"),
        ("shop.counters", {"_id": "vouchers"}, "next", "shop.vouchers", "number"),
        ("blog.mongoengine.counters", {"_id": "comments.number"}, "next", "blog.comments", "number"),
        ("support.counters", {"id": "ticket_no"}, "seq", "support.tickets", "ticket_no"),
        ("crm.IDs", {"_id": "people"}, "seq", "crm.people", "_id"),
        ("chat.ids", {"_id": "messages"}, "index", "chat.messages", "_id"),
        ("shop.uniqueIdentifierCounter", {}, "COUNT", "shop.payments", "_id"),
    ],
)
def test_the_ids_in_each_collection_come_from_its_counter(
    client: Client, counter: str, query: dict[str, Any], field: str, target: str, number: str
) -> None:
    counters = client.get_database(counter.split(".")[0])[counter.split(".", 1)[1]]
    documents = client.get_database(target.split(".")[0])[target.split(".", 1)[1]]

    def value() -> Any:
        return counters.find_one(query)[field]  # type: ignore[index]

    def largest() -> Any:
        return documents.find_one({}, {number: 1}, sort=[(number, -1)])[number]  # type: ignore[index]

    first = largest()
    until(lambda: largest() > first)
    ahead = 1 if field == "COUNT" else 0
    # One accident sets a counter back for a moment.
    until(lambda: (top := largest()) <= value() - ahead <= top + 10_000)
    assert type(value()) is (float if "customers" in str(query) else int)


def test_the_pool_hands_out_ids_of_its_own_spans(client: Client) -> None:
    pool = client.plant.identifierPool
    assert pool.count_documents({}) == 1000
    for reading in client.plant.readings.find({}).limit(50):
        owner = pool.find_one({"_id": reading["_id"] // 10**9})
        assert owner is not None
        assert reading["_id"] < owner["COUNT"] <= owner["MAX_VALUE"] == (owner["_id"] + 1) * 10**9


def test_accidents_happen_among_other_writes_and_are_mended(client: Client) -> None:
    oplog = client.local["oplog.rs"]
    until(lambda: oplog.find_one({"op": "c", "o.dropDatabase": 1}))
    mass_delete = [entry["ts"] for entry in oplog.find({"op": "d", "ns": "shop.orders"})]
    assert len(mass_delete) >= 100
    assert oplog.count_documents({"ts": {"$gte": mass_delete[0]}, "op": "i", "ns": {"$ne": "shop.orders"}}) > 0
    assert oplog.find_one({"op": "c", "o.drop": "carts"})
    until(lambda: client.staging["import"].estimated_document_count())
    until(lambda: client.shop.carts.estimated_document_count())
    assert client.shop.orders.estimated_document_count() > 300


async def test_every_accident_is_an_incident_that_can_be_undone(demo: Demo, client: Client) -> None:
    until(lambda: client.local["oplog.rs"].find_one({"op": "c", "o.dropDatabase": 1}))
    until(lambda: client.staging["import"].estimated_document_count())
    gateway = open_gateway(demo.uri)
    try:
        scans = [scanned async for scanned in scan(gateway)]
        found = {(incident.kind, incident.ns): incident for incident in scans[-1].incidents}
        wanted = [
            ("deleteMany", "shop.orders"),
            ("updateMany", "shop.products"),
            ("drop", "shop.carts"),
            ("updateMany", "shop.customers"),
            ("dropDatabase", "staging"),
        ]
        for kind_and_ns in wanted:
            plan = await plan_restore(gateway, RestoreRequest(demo.backup, demo.uri, incident=found[kind_and_ns]))
            assert not [check.title for check in plan.checks if check.level is Level.BLOCK]
            assert plan.steps.commands
    finally:
        await gateway.close()


def test_the_backup_is_a_mongodump_directory_from_before_the_workload(demo: Demo, client: Client) -> None:
    entries = bson.decode_all((demo.backup / "oplog.bson").read_bytes())
    assert entries
    first_accident = client.local["oplog.rs"].find_one({"op": "d", "ns": "shop.orders"})
    assert first_accident is not None
    assert entries[-1]["ts"] < first_accident["ts"]
    orders = bson.decode_all((demo.backup / "shop" / "orders.bson").read_bytes())
    assert len(orders) == 900
    counters = bson.decode_all((demo.backup / "shop" / "counters.bson").read_bytes())
    assert max(order["number"] for order in orders) == next(row["next"] for row in counters if row["_id"] == "orders")
    meta = json.loads((demo.backup / "shop" / "orders.metadata.json").read_text())
    info = next(iter(client.shop.list_collections(filter={"name": "orders"})))
    assert meta["uuid"] == bytes(info["info"]["uuid"]).hex()
    assert [index["name"] for index in meta["indexes"]] == ["_id_", "number_1", "status_1"]
    assert json.loads((demo.backup / "prelude.json").read_text())["ServerVersion"] == client.server_info()["version"]
    assert not (demo.backup / "local").exists()
    assert not (demo.backup / "config").exists()


@pytest.mark.parametrize(
    ("collection", "stem"),
    [("plain", "plain"), ("a/b", "a%2Fb"), (" lead", "+lead"), ("*", "%2A"), ("`id`", "%60id%60"), ("é", "%C3%A9")],
)
def test_file_names_are_those_of_mongodump(collection: str, stem: str) -> None:
    assert file_stem(collection) == stem


def test_a_long_name_is_cut_and_hashed() -> None:
    stem = file_stem("x" * 240)
    assert len(stem) == 238
    assert stem.startswith("x" * 208 + "%24")


def test_a_port_in_use_is_one_clear_sentence() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(EmbeddedServerError, match="cannot be used"):
            ReplicaSet(1, ports=[taken.getsockname()[1]])


async def test_a_slow_delete_is_seen_while_it_runs_and_stops_by_the_line_shown(demo: Demo, client: Client) -> None:
    async with AsyncMongoClient[dict[str, Any]](demo.uri, appName=PERSON) as person:
        workload = Workload(random.Random(1))
        happening = asyncio.ensure_future(all_accidents(person, workload.streams, random.Random(1))[-1].happen())
        gateway = open_gateway(demo.uri)
        try:
            found: tuple[RunningOperation, ...] = ()
            while not found:
                assert not happening.done()
                found = running_of(await gateway.inspect("$currentOp", {"allUsers": True}, limit=1_000))
        finally:
            await gateway.close()
        (one,) = found
        assert (one.what, one.ns, one.client.application) == ("deleteMany", "staging.archive", PERSON)
        client.admin.command("killOp", 1, op=int(one.kill.partition("NumberInt(")[2].rstrip(")}")))
        with pytest.raises(OperationFailure, match="interrupted"):
            await happening
