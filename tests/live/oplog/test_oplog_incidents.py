"""Each kind of incident, amid other writers: the first timestamp is exactly the one that the test works out itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from bson import Timestamp
from gateways import OpenGateway
from incident_acts import ACTS, DB, PAIRS, Client, Done, command_entry, entry, set_fcv
from incident_noise import APP, LOGS, PASSES, TTL, TTL_OPTIONS, TTL_SECONDS, noise, ttl_collections
from oplog_rig import writers

from tallyglass.demo.server import ReplicaSet
from tallyglass.moment import Ts
from tallyglass.oplog.entry.batch import entries
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.entry.row import chain_name, row
from tallyglass.oplog.filter.compile import CompiledFilter
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.incidents import commands, compaction, families, grouper, incident, verdict
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.incidents.incident import scan, watch
from tallyglass.oplog.read.entries import earlier_parts
from tallyglass.oplog.read.stream import OplogStream
from tallyglass.oplog.read.tail import read
from tallyglass.oplog.snapshot import Harm, Incident, RowKind

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def what_was_done() -> Iterator[tuple[ReplicaSet, list[Done]]]:
    """Every kind, one after the other, while two other processes write some thousand documents a second, the TTL
    monitor runs, and an application deletes."""
    with ReplicaSet(1, cache_gb=0.5, options=TTL_OPTIONS) as servers, servers.client(w="majority") as client:
        done = [set_fcv(client)]  # not possible once there is a clustered collection
        with servers.client(w="majority") as other, noise(other) as beside, writers(servers.uri, pause=0.05):
            done += [act(client) for act in ACTS]
            done += [one for pair in PAIRS for one in pair(client)]
        done += beside
        client.admin.command("appendOplogNote", 1, data={"msg": "the end"})
        yield servers, done


def _ts(client: Client, mark: dict[str, Any], order: int) -> Ts:
    found = client.local["oplog.rs"].find_one(mark, sort=[("$natural", order)])
    assert found is not None, mark
    return Ts(found["ts"].time, found["ts"].inc)


def _check(client: Client, done: Done, incidents: tuple[Incident, ...]) -> None:
    first, last = _ts(client, done.first, 1), _ts(client, done.last, -1)
    matching = [one for one in incidents if (one.kind, one.ns, one.first) == (done.kind, done.ns, first)]
    assert len(matching) == 1, (done, [one for one in incidents if one.kind == done.kind])
    (found,) = matching
    assert (found.last, found.documents, found.harm) == (last, done.documents, done.harm)
    assert found.point == (_ts(client, done.point, -1) if done.point else first)
    assert found.first_wall is not None
    assert abs(found.first_wall.timestamp() - found.first.t) < 60
    assert done.note in found.note


async def test_each_kind_is_found_by_a_scan_of_the_past(
    what_was_done: tuple[ReplicaSet, list[Done]], gateway_to: OpenGateway
) -> None:
    servers, done = what_was_done
    gateway = gateway_to(servers.uri)
    scans = [one async for one in scan(gateway)]
    assert [one.done for one in scans] == [False] * (len(scans) - 1) + [True]
    incidents = scans[-1].incidents
    with servers.client() as client:
        for one in done:
            _check(client, one, incidents)
    assert sorted(one.number for one in incidents) == list(range(1, len(incidents) + 1))
    by_time = sorted(incidents, key=lambda one: one.number)
    assert [one.first for one in by_time] == sorted(one.first for one in by_time)
    harms = [list(Harm).index(one.harm) for one in incidents if not one.routine]
    assert harms == sorted(harms)


@pytest.fixture
def ttl_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what the TTL monitor does in one pass for one."""
    monkeypatch.setattr(families, "EPISODE_MILLIS", 4_500)


async def test_what_expires_is_routine_and_displaces_no_act(
    what_was_done: tuple[ReplicaSet, list[Done]],
    ttl_pace: None,
    monkeypatch: pytest.MonkeyPatch,
    gateway_to: OpenGateway,
) -> None:
    servers, done = what_was_done
    for module, name, limit in (
        (commands, "FINISHED_LIMIT", len(done) + len(LOGS) + 10),
        (grouper, "ROUTINE_LIMIT", len(ttl_collections()) + 10),
        (families, "KEPT", 32),
        (compaction, "TOTAL_BURST_LIMIT", len(ttl_collections())),
    ):
        monkeypatch.setattr(module, name, limit)
    gateway = gateway_to(servers.uri)
    incidents = [one async for one in scan(gateway)][-1].incidents
    rows = {one.ns: one for one in incidents if one.routine and one.ns.startswith(f"{TTL}.")}
    with servers.client() as client:
        for one in done:
            _check(client, one, incidents)
        for name in ttl_collections():
            deleted = client.local["oplog.rs"].count_documents({"ns": f"{TTL}.{name}", "op": "d"})
            by_person = 300 if name == LOGS[0] else 0
            assert deleted >= 10 * PASSES + by_person
            assert (rows[f"{TTL}.{name}"].kind, rows[f"{TTL}.{name}"].documents) == ("ttl", deleted - by_person)
    acts = [one for one in incidents if one.ns.startswith(f"{TTL}.") and one.op and not one.routine]
    assert [one.ns for one in acts] == [f"{TTL}.{LOGS[0]}"], "updates of buckets are the server's own"


async def test_what_an_application_deletes_does_not_swallow_a_persons_delete(
    what_was_done: tuple[ReplicaSet, list[Done]], monkeypatch: pytest.MonkeyPatch, gateway_to: OpenGateway
) -> None:
    monkeypatch.setattr(verdict, "FULL", 10 / 300)
    servers, _ = what_was_done
    gateway = gateway_to(servers.uri)
    incidents = [one async for one in scan(gateway)][-1].incidents
    ns = f"{APP}.queue"
    (act,) = [one for one in incidents if one.ns == ns and one.op == "d" and not one.routine]
    (usual,) = [one for one in incidents if one.ns == ns and one.op == "d" and one.routine]
    assert (act.kind, act.documents_exact) == ("deleteMany", False)
    with servers.client() as client:
        first, last = (_ts(client, entry(ns, op="d", o___id={"$gte": 1_000_000}), order) for order in (1, -1))
        others = client.local["oplog.rs"].count_documents({"ns": ns, "op": "d", "o._id": {"$lt": 1_000_000}})
        early, late = (
            client.local["oplog.rs"].count_documents({"ns": ns, "op": "d", "ts": {"$gte": low, "$lt": high}})
            for low, high in ((Timestamp(*act.limit), Timestamp(*first)), (Timestamp(*first), Timestamp(*act.limit)))
        )
    # What the application deleted shortly before the statement cannot be told from its beginning: the point is early.
    assert early <= others // 5
    assert late <= 1
    assert act.last >= last
    assert act.documents is not None
    assert usual.documents is not None
    assert 3_000 - late <= act.documents <= 3_000 + others // 10
    assert act.documents + usual.documents == 3_000 + others


async def test_the_same_are_found_forwards_and_from_all_entries(
    what_was_done: tuple[ReplicaSet, list[Done]], gateway_to: OpenGateway
) -> None:
    servers, done = what_was_done
    forward = Grouper()
    forward.known.ttl_millis = TTL_SECONDS * 1_000
    gateway = gateway_to(servers.uri)
    with servers.client() as client:
        # The server goes on to write entries, and how long the oplog is decides what is routine.
        newest = _ts(client, {}, -1)
        scanned = [one async for one in scan(gateway, until=newest.next)][-1].incidents
        for batch in client.local["oplog.rs"].find_raw_batches({"ts": {"$lte": Timestamp(*newest)}}, batch_size=500):
            forward.feed_batch(batch)
        forwards = forward.incidents()
        for one in done:
            _check(client, one, forwards)

    def shape(incidents: tuple[Incident, ...]) -> list[tuple[Any, ...]]:
        return [(i.kind, i.ns, i.first, i.last, i.ops, i.documents, i.point) for i in incidents]

    assert shape(forwards) == shape(scanned)


async def test_a_scan_keeps_within_its_bounds(
    what_was_done: tuple[ReplicaSet, list[Done]], gateway_to: OpenGateway
) -> None:
    servers, _ = what_was_done
    gateway = gateway_to(servers.uri)
    with servers.client() as client:
        since = _ts(client, command_entry(DB, "to", f"{DB}.report"), 1)
        until = _ts(client, command_entry(DB, "dropIndexes", "indexed"), 1)
    incidents = [one async for one in scan(gateway, since, until=until)][-1].incidents
    assert {one.kind for one in incidents if one.ns.startswith(DB)} == {"out", "rename", "collMod"}


async def test_a_transaction_is_one_row_and_unfolds(
    what_was_done: tuple[ReplicaSet, list[Done]], gateway_to: OpenGateway
) -> None:
    servers, _ = what_was_done
    gateway = gateway_to(servers.uri)
    (shown,) = [row async for row in read(gateway, OplogFilter.parse(f"ns:{DB}.large op:i")) if row.op == "c"]
    last = read_entry(shown.raw)
    parts = [*await earlier_parts(gateway, last), last]
    assert parts[0].previous is None
    assert shown.what == f"transaction of 124 in {len(parts)} entries"
    operations = [operation for part in parts for operation in operations_of(part)]
    assert [one.o["_id"] for one in operations if one.op == "i"] == [0, 1, 2, *range(100, 220)]
    assert [one.op for one in operations[123:]] == ["u"]
    same = [row async for row in read(gateway, OplogFilter(transaction=chain_name(shown.raw)))]
    assert [row.raw for row in same] == [shown.raw]


@pytest.fixture(scope="module")
def stored(what_was_done: tuple[ReplicaSet, list[Done]]) -> list[bytes]:
    """The whole oplog, read by the driver alone."""
    with what_was_done[0].client() as client:
        batches = client.local["oplog.rs"].find_raw_batches(batch_size=500)
        return [raw for batch in batches for raw in entries(batch)]


@pytest.mark.parametrize(
    "text",
    [
        f"ns:{DB}.orders", f"ns:{DB}* !ns:*.orders", "op:d", "!op:iu", "op:c destructive", "id:3", "id:100",
        f"ns:{DB}.large", "ns:admin.*", "op:n", "since:now-1h id:5", "targetVersion",
    ],
)  # fmt: skip
async def test_the_servers_part_of_a_filter_leaves_nothing_out(
    what_was_done: tuple[ReplicaSet, list[Done]], stored: list[bytes], text: str, gateway_to: OpenGateway
) -> None:
    servers, _ = what_was_done
    wanted = OplogFilter.parse(text)
    matcher = CompiledFilter(wanted)
    gateway = gateway_to(servers.uri)
    found = {row.ts async for row in read(gateway, wanted) if row.kind is RowKind.ENTRY}
    every = {row(raw).ts for raw in stored if matcher.wants(raw) and not _partial(raw)}
    newest = row(stored[-1]).ts
    assert every
    assert {ts for ts in found if ts <= newest} == every


def _partial(raw: bytes) -> bool:
    """One of the first entries of a transaction: it is shown with the last."""
    return read_entry(raw).flag(b"partialTxn")


async def test_an_incident_that_continues_is_open(replica_set: ReplicaSet, gateway_to: OpenGateway) -> None:
    gateway = gateway_to(replica_set.uri)
    with replica_set.client(w="majority") as client:
        since = Timestamp(client.admin.command("hello")["lastWrite"]["opTime"]["ts"].time, 0)
        client[DB].going.insert_many([{"_id": n} for n in range(20)])
        client[DB].going.delete_many({})
        incidents = [one async for one in scan(gateway, Ts(since.time, 0))][-1].incidents
        (found,) = [one for one in incidents if one.ns == f"{DB}.going"]
        assert (found.open, found.documents) == (True, 20)
        assert set(found.samples) & {str(n) for n in range(20)} == set(found.samples) != set()
        client.drop_database(DB)


async def test_new_incidents_are_followed_after_the_past(replica_set: ReplicaSet, gateway_to: OpenGateway) -> None:
    gateway = gateway_to(replica_set.uri)
    with replica_set.client(w="majority") as client:
        since = client.admin.command("hello")["lastWrite"]["opTime"]["ts"]
        client[DB].watched.insert_many([{"_id": n} for n in range(40)])
        client[DB].watched.delete_many({"_id": {"$lt": 20}})
        watching = watch(gateway, Ts(since.time, since.inc))
        async with asyncio.timeout(120):
            found = await anext(watching)
            while not found.done:
                found = await anext(watching)
            client[DB].watched.drop()
            while "drop" not in {one.kind for one in found.incidents}:
                found = await anext(watching)
        kinds = {one.kind: one for one in found.incidents if one.ns == f"{DB}.watched"}
        assert kinds["deleteMany"].first == _ts(client, entry(f"{DB}.watched", op="d"), 1)
        assert kinds["drop"].first == _ts(client, command_entry(DB, "drop", "watched"), -1)
        assert (kinds["deleteMany"].documents, kinds["drop"].documents) == (20, 20)
        await watching.aclose()
        client.drop_database(DB)


async def test_entries_that_a_majority_holds_are_released(
    replica_set: ReplicaSet, monkeypatch: pytest.MonkeyPatch, gateway_to: OpenGateway
) -> None:
    streams: list[OplogStream] = []

    def followed(*how: Any, **more: Any) -> OplogStream:
        streams.append(OplogStream(*how, **more))
        return streams[-1]

    monkeypatch.setattr(incident, "OplogStream", followed)
    monkeypatch.setattr(incident, "KEPT_BYTES", 0)
    gateway = gateway_to(replica_set.uri)
    with replica_set.client(w="majority") as client:
        watching = watch(gateway, _now(client))
        async with asyncio.timeout(120):
            while not (await anext(watching)).done:
                pass
            coming = asyncio.ensure_future(anext(watching))
            client[DB].settled.insert_one({})
            client[DB].settled.drop()
            await coming
            coming = asyncio.ensure_future(anext(watching))
            while streams[-1].kept_bytes:  # noqa: ASYNC110 - there is no event for its end
                await asyncio.sleep(0.05)
            coming.cancel()
            await asyncio.wait([coming])
        await watching.aclose()
        client.drop_database(DB)


def _now(client: Client) -> Ts:
    ts = client.admin.command("hello")["lastWrite"]["opTime"]["ts"]
    return Ts(ts.time, ts.inc)
