"""A real config server and two shards: what they are, that moved chunks lose nothing, and both oplogs as one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner
from sharded_rig import Cluster, sharded_cluster

from tallyglass.deployment.cluster import look_at
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.oplog.decode.envelope import position
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.incidents.incident import scan
from tallyglass.oplog.read.export import follow_entries
from tallyglass.oplog.read.merge import ShardEntry, merge
from tallyglass_tui.cli.main import main

pytestmark = [pytest.mark.live, pytest.mark.since(6, 0), pytest.mark.filterwarnings("ignore::DeprecationWarning")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with sharded_cluster() as found:
        found.clients[0].shop.orders.insert_many([{"_id": n, "pad": "x" * 40} for n in range(4_000)])
        found.move("shop.orders", "s1", 0, 3_000)
        orders = found.clients[0].shop.orders
        while orders.count_documents({"_id": {"$gte": 0, "$lt": 3_000}}):
            pass
        found.clients[0].shop.invoices.insert_many([{"_id": n} for n in range(40)])
        found.clients[0].shop.invoices.delete_many({"_id": {"$lt": 30}})
        yield found


async def test_a_shard_and_a_config_server_say_what_they_are(cluster: Cluster) -> None:
    gateway = open_gateway(cluster.shards[1].uri)
    shard = await look_at(gateway)
    await gateway.close()
    gateway = open_gateway(cluster.config.uri)
    config = await look_at(gateway)
    await gateway.close()
    identity = cluster.clients[1].admin["system.version"].find_one({"_id": "shardIdentity"})
    assert identity is not None
    assert (shard.sharded, shard.shard_name, shard.cluster_id) == (True, "s1", str(identity["clusterId"]))
    assert shard.config_servers == identity["configsvrConnectionString"]
    assert (config.sharded, config.config_server, config.shard_name) == (True, True, "")


def test_doctor_says_it_before_anyone_plans(cluster: Cluster) -> None:
    identity = cluster.clients[0].admin["system.version"].find_one({"_id": "shardIdentity"})
    assert identity is not None
    said = CliRunner().invoke(main, ["doctor", cluster.shards[0].uri]).stdout
    assert f"shard s0 of cluster {identity['clusterId']}" in said
    assert "Back up and restore all shards" in said


@pytest.mark.parametrize("shard", [0, 1], ids=["donor", "recipient"])
async def test_moved_chunks_lose_nothing(cluster: Cluster, shard: int) -> None:
    gateway = open_gateway(cluster.shards[shard].uri)
    found = [one async for one in scan(gateway)][-1].incidents
    await gateway.close()
    moved = [one for one in found if one.ns == "shop.orders"]
    assert all(one.kind == "migration" for one in moved if one.documents), moved
    if shard == 0:
        (row,) = [one for one in moved if one.kind == "migration" and one.title.startswith("moved between shards: del")]
        assert row.documents == cluster.clients[0].local["oplog.rs"].count_documents(
            {"ns": "shop.orders", "op": "d", "fromMigrate": True}
        )
        assert row.documents
    acts = {(one.kind, one.ns) for one in found if not one.routine and one.ns.startswith("shop")}
    on_donor = {("deleteMany", "shop.invoices"), ("sharding", "shop.orders")}
    assert acts == (on_donor if shard == 0 else set())


async def test_two_oplogs_are_followed_as_one_in_order_of_cluster_time(cluster: Cluster) -> None:
    gateways = {shard.set_name or "": open_gateway(shard.uri) for shard in cluster.shards}
    last = [client.local["oplog.rs"].find_one(sort=[("$natural", -1)])["ts"] for client in cluster.clients]
    since = min(Ts(ts.time, ts.inc) for ts in last)
    wanted = replace(OplogFilter.parse("ns:shop.mixed op:i"), since=since)
    merged = merge({name: follow_entries(one, wanted) for name, one in gateways.items()})
    waiting: asyncio.Task[Any] = asyncio.ensure_future(anext(merged))
    await asyncio.sleep(0)
    for n in range(60):
        cluster.clients[n % 2].shop.mixed.insert_one({"_id": n})
    seen: list[ShardEntry] = []
    async with asyncio.timeout(120):
        while True:
            item = await waiting
            seen += item if isinstance(item, tuple) else ()
            if len(seen) >= 60:
                break
            waiting = asyncio.ensure_future(anext(merged))
    await merged.aclose()  # type: ignore[attr-defined]
    for gateway in gateways.values():
        await gateway.close()
    truth = [
        Ts(entry["ts"].time, entry["ts"].inc)
        for client in cluster.clients
        for entry in client.local["oplog.rs"].find({"ns": "shop.mixed", "op": "i"})
    ]
    assert sorted(position(entry.raw, 0, len(entry.raw))[0] for entry in seen) == sorted(truth)
    assert {entry.shard for entry in seen} == {"s0", "s1"}
    assert min(entry.ts for entry in seen) >= since


def test_the_command_line_merges_and_says_what_it_leaves_out(cluster: Cluster) -> None:
    words = [f"--shard={part.uri}" for part in (*cluster.shards, cluster.shards[0], cluster.config)]
    found = CliRunner().invoke(main, ["oplog", "--json", "--ns", "shop.orders", "--op", "i", *words])
    assert found.exit_code == 0, found.stderr
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    stamps = [tuple(row["ts"]["$timestamp"].values()) for row in rows]
    assert stamps == sorted(stamps)
    assert {row["shard"] for row in rows} == {"s0", "s1"}
    assert "s0 is left out: Another --shard names it already." in found.stderr
    assert "config server" in found.stderr
    incidents = json.loads(CliRunner().invoke(main, ["incidents", "--json", *words[:2]]).stdout)
    (act,) = [row for row in incidents if row["ns"] == "shop.invoices"]
    assert (act["kind"], act["documents"], act["shards"], act["routine"]) == ("deleteMany", 30, ["s0"], False)
