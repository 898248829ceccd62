"""A real config server and two shards: they are recognised, moved chunks lose nothing, and both oplogs are read as
one."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from gateways import OpenGateway
from oplog_rig import DB, Seen, in_oplog, in_thread, writers
from sharded_rig import Cluster, sharded_cluster

from tallyglass.connection.target import Target
from tallyglass.deployment.cluster import look_at
from tallyglass.deployment.shards import shards_of
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_deployment
from tallyglass.mongo.cluster_gateway import ClusterGateway
from tallyglass.mongo.mongo_gateway import MongoGateway
from tallyglass.oplog.entry.batch import position
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.incidents.across_shards import scan_shards
from tallyglass.oplog.incidents.incident import scan
from tallyglass.oplog.read.export import follow_entries
from tallyglass.oplog.read.merge import ShardEntry, merge
from tallyglass.oplog.read.shard_tail import follow_shards, read_shards
from tallyglass.oplog.snapshot import OplogRow, OplogUpdate, RowKind
from tallyglass_tui.cli.main import main

pytestmark = [
    pytest.mark.live,
    pytest.mark.since(6, 0),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

LOAD = OplogFilter.parse(f"ns:{DB}.* op:iud")
MINE = {"op": {"$in": ["i", "u", "d"]}, "ns": {"$regex": f"^{DB}\\."}}
ALL_ROWS = 1_000_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with sharded_cluster(members=3) as found:
        found.clients[0].shop.orders.insert_many([{"_id": n, "pad": "x" * 40} for n in range(4_000)])
        found.move("shop.orders", "s1", 0, 3_000)
        orders = found.clients[0].shop.orders
        while orders.count_documents({"_id": {"$gte": 0, "$lt": 3_000}}):
            pass
        found.clients[0].shop.invoices.insert_many([{"_id": n} for n in range(40)])
        found.clients[0].shop.invoices.delete_many({"_id": {"$lt": 30}})
        found.transaction("bank.accounts", 60)
        found.shard("shop.stores", "_id")
        found.clients[0].shop.stores.insert_many([{"_id": n, "region": n % 7} for n in range(700)])
        found.reshard("shop.stores", "region")
        yield found


async def test_a_shard_and_a_config_server_say_what_they_are(cluster: Cluster, gateway_to: OpenGateway) -> None:
    shard, config = [await look_at(gateway_to(one.uri)) for one in (cluster.shards[1], cluster.config)]
    identity = cluster.clients[1].admin["system.version"].find_one({"_id": "shardIdentity"})
    assert identity is not None
    assert (shard.sharded, shard.shard_name, shard.cluster_id) == (True, "s1", str(identity["clusterId"]))
    assert shard.config_servers == identity["configsvrConnectionString"]
    assert (config.sharded, config.config_server, config.shard_name) == (True, True, "")


def test_doctor_says_it_before_anyone_plans(cluster: Cluster) -> None:
    identity = cluster.clients[0].admin["system.version"].find_one({"_id": "shardIdentity"})
    assert identity is not None
    output = CliRunner().invoke(main, ["doctor", cluster.shards[0].uri]).stdout
    assert f"shard s0 of cluster {identity['clusterId']}" in output
    assert "Back up and restore all shards" in output


@pytest.mark.parametrize("shard", [0, 1], ids=["donor", "recipient"])
async def test_resharding_loses_nothing(cluster: Cluster, shard: int, gateway_to: OpenGateway) -> None:
    """The server copies a collection, drops the old one and renames the copy."""
    renamed = cluster.clients[shard].local["oplog.rs"].find_one({"o.renameCollection": {"$exists": True}})
    assert renamed is not None
    assert (renamed["o"]["to"], "dropTarget" in renamed["o"]) == ("shop.stores", shard == 0)
    gateway = gateway_to(cluster.shards[shard].uri)
    found = [one async for one in scan(gateway)][-1].incidents
    (row,) = [one for one in found if one.routine and one.ns == "shop.stores"]
    assert (row.kind, row.title) == ("migration", "moved between shards: commands on shop.stores")
    assert not [one for one in found if "reshard" in one.ns]


@pytest.mark.parametrize("shard", [0, 1], ids=["donor", "recipient"])
async def test_moved_chunks_lose_nothing(cluster: Cluster, shard: int, gateway_to: OpenGateway) -> None:
    gateway = gateway_to(cluster.shards[shard].uri)
    found = [one async for one in scan(gateway)][-1].incidents
    moved = [one for one in found if one.ns == "shop.orders"]
    assert all(one.kind == "migration" for one in moved if one.documents), moved
    if shard == 0:
        (row,) = [one for one in moved if one.kind == "migration" and one.title.startswith("moved between shards: del")]
        assert row.documents == cluster.clients[0].local["oplog.rs"].count_documents(
            {"ns": "shop.orders", "op": "d", "fromMigrate": True}
        )
        assert row.documents
    acts = {(one.kind, one.ns) for one in found if not one.routine and one.ns.startswith("shop")}
    on_donor = {("deleteMany", "shop.invoices"), ("sharding", "shop.orders"), ("sharding", "shop.stores")}
    assert acts == (on_donor if shard == 0 else set())


async def test_two_oplogs_are_followed_as_one_in_order_of_cluster_time(
    cluster: Cluster, gateway_to: OpenGateway
) -> None:
    gateways = {shard.set_name or "": gateway_to(shard.uri) for shard in cluster.shards}
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
    assert "s0 is left out: Another URI names it already." in found.stderr
    assert "config server" in found.stderr
    incidents = json.loads(CliRunner().invoke(main, ["incidents", "--json", *words[:2]]).stdout)
    (act,) = [row for row in incidents if row["ns"] == "shop.invoices"]
    assert (act["kind"], act["documents"], act["shards"], act["routine"]) == ("deleteMany", 30, ["s0"], False)
    (transaction,) = [row for row in incidents if row["kind"] == "transaction"]
    assert (transaction["ns"], transaction["documents"]) == ("bank.accounts", 120)
    assert transaction["shards"] == ["s0", "s1"]


def test_a_profile_names_the_shards(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    profiles = tmp_path / "profiles.toml"
    profiles.write_text(f"[both]\nshards = {json.dumps(cluster.uris)}\n")
    monkeypatch.setattr("tallyglass.connection.profiles.default_path", lambda: profiles)
    for number, client in enumerate(cluster.clients):
        client.ids.counters.replace_one({"_id": f"orders{number}"}, {"seq": 7 + number}, upsert=True)
    found = CliRunner().invoke(main, ["counters", "--json", "--no-history", "--profile", "both"])
    assert found.exit_code == 0, found.stderr
    values = {row["id"]: row["value"] for row in json.loads(found.stdout)}
    assert (values["orders0"], values["orders1"]) == (7, 8)


class Router(MongoGateway):
    """The config server, which has the documents that a mongos answers with, in place of one."""

    async def command(self, name: str, value: object = 1, **options: Any) -> Mapping[str, Any]:
        answer = await super().command(name, value, **options)
        return {**answer, "msg": "isdbgrid"} if name == "hello" else answer


async def test_a_mongos_names_its_shards(cluster: Cluster, gateway_to: OpenGateway) -> None:
    opened = gateway_to(f"{cluster.config.uri}&appName=mine")
    router = Router(opened.link, open_sibling=opened.sibling)
    shards = await shards_of(router)
    assert shards is not None
    assert (sorted(shards.gateways), shards.left_out) == (["s0", "s1"], ())
    scans = [one async for one in scan_shards(shards.gateways)]
    assert (scans[-1].done, scans[-1].trouble) == (True, "")
    assert {one.shards for one in scans[-1].incidents if one.ns == "bank.accounts"} == {("s0", "s1")}
    await router.close()


async def test_the_merged_tail_survives_the_death_of_a_primary(cluster: Cluster, gateway_to: OpenGateway) -> None:
    gateways = {shard.set_name or "": gateway_to(shard.uri) for shard in cluster.shards}
    starts = {
        name: client.local["oplog.rs"].find_one(sort=[("$natural", -1)])["ts"]
        for name, client in zip(gateways, cluster.clients, strict=True)
    }
    tail = follow_shards(gateways, LOAD, backlog=0, room=ALL_ROWS)
    seen: dict[str, Seen] = {name: Seen() for name in gateways}
    rows: list[OplogRow] = []

    async def take_until(enough: Callable[[OplogUpdate], bool]) -> OplogUpdate:
        async with asyncio.timeout(120):
            while True:
                update = await anext(tail)
                rows.extend(update.rows)
                for name, part in seen.items():
                    part.take(replace(update, rows=tuple(row for row in update.rows if row.shard == name)))
                if enough(update):
                    return update

    def count(shard: str) -> int:
        return len(seen[shard].rows)

    await take_until(lambda update: all(f"{name} 127" in update.connected_to for name in gateways))
    with writers(cluster.shards[0].uri, 1, pause=0.05), writers(cluster.shards[1].uri, 1, pause=0.05):
        await take_until(lambda update: min(count("s0"), count("s1")) > 300)
        broken = cluster.shards[1]
        primary = broken.await_primary()
        broken.kill(primary)
        so_far = count("s0")
        await take_until(lambda update: count("s0") > so_far + 300)
        await in_thread(broken.await_primary)
        so_far = count("s1")
        await take_until(lambda update: count("s1") > so_far + 300 and "s1" not in update.trouble)
    await in_thread(broken.restart, primary)
    truth = {
        name: in_oplog(client, MINE | {"ts": {"$gt": starts[name]}})
        for name, client in zip(gateways, cluster.clients, strict=True)
    }
    await take_until(lambda update: all(count(name) >= len(truth[name]) for name in truth))
    assert {name: part.entries for name, part in seen.items()} == truth
    stamps = [row.ts for row in rows if row.kind is RowKind.ENTRY]
    late = sum(1 for one, other in itertools.pairwise(stamps) if other < one)
    assert late < len(stamps) / 20, "only what a shard sends after a silence comes late"
    await tail.aclose()


async def test_a_lost_shard_is_named_and_the_others_are_read(cluster: Cluster) -> None:
    nowhere = "mongodb://127.0.0.1:1/?replicaSet=s9&serverSelectionTimeoutMS=2000"
    gateway = open_deployment(Target.of_shards([Target.parse(uri) for uri in (cluster.uris[0], nowhere)]))
    assert isinstance(gateway, ClusterGateway)
    shards = await shards_of(gateway)
    assert shards is not None
    tail = follow_shards(shards.gateways, backlog=10)
    async with asyncio.timeout(60):
        while True:
            update = await anext(tail)
            if update.trouble and update.rows:
                break
    assert "s9: No server listens at that address." in update.trouble
    assert {row.shard for row in update.rows} == {"s0"}
    assert update.older_unread, "it was to look back for ten rows only"
    await tail.aclose()
    rows = await read_shards(shards.gateways, OplogFilter(), limit=3)
    assert [row.kind for row in rows] == [RowKind.NOTE] + [RowKind.ENTRY] * 3
    assert rows[0].what.startswith("s9 is not read: No server listens at that address.")
    assert "shop" in await gateway.list_databases()
    assert [*gateway.lost] == ["s9"]
    await gateway.close()


def test_a_lost_shard_makes_the_answer_unknown(cluster: Cluster) -> None:
    nowhere = "mongodb://127.0.0.1:1/?replicaSet=s9&serverSelectionTimeoutMS=2000"
    words = [f"--shard={uri}" for uri in (cluster.uris[0], nowhere)]
    check = ["check", "--no-history", "--timeout=120"]  # what takes its whole time names no shard
    for command in (["oplog", "--limit=3"], ["incidents"], check, ["counters", "--no-history"]):
        found = CliRunner().invoke(main, [*command, *words])
        assert (found.exit_code, "s9" in found.output) == (3, True), (command, found.output)


def test_a_dropped_database_is_one_incident_on_all_shards(cluster: Cluster) -> None:
    """The last of all: it drops what the others look at."""
    cluster.drop_database("shop")
    words = [f"--shard={uri}" for uri in cluster.uris]
    incidents = json.loads(CliRunner().invoke(main, ["incidents", "--json", *words]).stdout)
    (act,) = [row for row in incidents if row["kind"] == "dropDatabase"]
    assert (act["ns"], act["shards"]) == ("shop", ["s0", "s1"])
