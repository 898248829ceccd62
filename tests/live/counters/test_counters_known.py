"""What was recognised once is never missing in silence."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest
from bson import ObjectId

from tallyglass.counters.check_line import CheckResult, check_counters
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import look
from tallyglass.counters.recognise.config import CountersConfig, parse_config
from tallyglass.counters.verdict import OK, UNKNOWN, WARNING
from tallyglass.demo.server import ReplicaSet, Standalone
from tallyglass.mongo.client import open_gateway

pytestmark = pytest.mark.live

DB = "known_check"
ONLY = {"include": [f"{DB}.*"]}


async def check(uri: str, state: Path, config: CountersConfig | None = None, **options: object) -> CheckResult:
    gateway = open_gateway(uri, **options)
    try:
        return check_counters(
            await look(gateway, WatchSettings(history_path=state, config=config or parse_config(ONLY)))
        )
    finally:
        await gateway.close()


async def test_a_counter_document_that_vanished_warns_until_it_is_acknowledged(
    replica_set: ReplicaSet, tmp_path: Path
) -> None:
    state = tmp_path / "state.sqlite"
    with replica_set.client() as client:
        client.drop_database(DB)
        db = client[DB]
        db.counters.insert_many([{"_id": "orders", "seq": 5_000}, {"_id": "bills", "seq": 7}])
        db.identitycounters.insert_one({"_id": ObjectId(), "model": "Pen", "field": "n", "count": 4, "__v": 0})
        db.doctrine_increment_ids.insert_one({"_id": "tokens", "current_id": 3})
        first = await check(replica_set.uri, state)
        assert (first.level, " known, " in first.line) == (OK, False), first
        db.counters.delete_one({"_id": "orders"})
        db.identitycounters.delete_many({})
        # Gone with its collection: a note, as that is done on purpose.
        db.doctrine_increment_ids.drop()
        for _ in range(2):
            found = await check(replica_set.uri, state)
            assert found.level == WARNING
            assert f"{DB}.counters orders: its number is gone" in found.line
            assert f"{DB}.identitycounters Pen.n: its number is gone" in found.line
            assert "4 known, 1 read" in found.line
            assert f"note: {DB}.doctrine_increment_ids tokens is gone" in found.details
        entry = {"counter": f"{DB}.*", "flags": ["GONE"], "until": date(2999, 1, 1)}
        assert (await check(replica_set.uri, state, parse_config({**ONLY, "acknowledge": [entry]}))).level == OK
        db.counters.insert_one({"_id": "orders", "seq": 5_001})
        db.identitycounters.insert_one({"_id": ObjectId(), "model": "Pen", "field": "n", "count": 4, "__v": 0})
        assert "orders" not in (await check(replica_set.uri, state)).line.split("|")[0]
        client.drop_database(DB)


async def test_a_known_counter_that_may_not_be_read_is_unknown(tmp_path: Path) -> None:
    state = tmp_path / "state.sqlite"
    with Standalone(options=("--auth",)) as server:
        with server.client() as client:
            client.admin.command("createUser", "root", pwd="r", roles=["root"])
        with server.client(username="root", password="r") as client:
            client[DB].numbering.insert_one({"_id": "orders", "seq_no": 4, "max_value": 10_000})
            client[DB].counters.insert_one({"_id": "bills", "seq": 4})
            reads = {"resource": {"db": DB, "collection": "counters"}, "actions": ["find"]}
            client.admin.command("createRole", "narrow", privileges=[reads], roles=[])
            client.admin.command("createUser", "watcher", pwd="w", roles=["narrow", "clusterMonitor"])
        assert (await check(server.uri, state, username="root", password="r")).level == OK
        found = await check(server.uri, state, username="watcher", password="w")
    assert found.level == UNKNOWN
    assert f"{DB}.numbering orders not read" in found.line
    assert "2 known, 1 read" in found.line
