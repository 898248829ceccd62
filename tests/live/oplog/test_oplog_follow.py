"""The tail sees everything once and in order, on a loaded server and through every fault; what it misses it names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from bson import Timestamp
from gateways import OpenGateway
from oplog_rig import DB, Seen, in_oplog, in_thread, opened, until, writers
from proxy import Proxy
from pymongo import MongoClient

from tallyglass.demo.server import ReplicaSet, free_port
from tallyglass.moment import Ts
from tallyglass.mongo.client import Driver, open_gateway
from tallyglass.mongo.link import Link
from tallyglass.mongo.mongo_gateway import MongoGateway
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read.tail import follow, read
from tallyglass.oplog.snapshot import RowKind

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

LOAD = OplogFilter(namespaces=(f"{DB}.*",))
MINE = {"ns": {"$regex": f"^{DB}\\."}, "op": {"$in": ["i", "u", "d"]}}
ALL_ROWS = 10**9


@pytest.mark.parametrize(
    ("driver", "wanted", "rows"),
    [
        pytest.param(Driver.PYMONGO, OplogFilter(), 2_000, marks=pytest.mark.smoke, id="everything"),
        pytest.param(Driver.MOTOR, LOAD, 2_000, id="filtered by the server, with Motor"),
        pytest.param(Driver.PYMONGO, LOAD, 60_000, marks=pytest.mark.soak, id="long, filtered by the server"),
        pytest.param(Driver.MOTOR, OplogFilter(), 60_000, marks=pytest.mark.soak, id="long, everything, with Motor"),
    ],
)
async def test_everything_is_seen_once_and_in_order_under_full_load(
    replica_set: ReplicaSet, driver: Driver, wanted: OplogFilter, rows: int, gateway_to: OpenGateway
) -> None:
    gateway = gateway_to(replica_set.uri, driver=driver)
    tail = follow(gateway, wanted, backlog=0, room=ALL_ROWS)
    seen = Seen()
    with replica_set.client(w="majority") as client:
        await opened(tail, seen)
        first = client.local["oplog.rs"].find_one(sort=[("$natural", -1)])["ts"]
        with writers(replica_set.uri, w="1"):
            await until(tail, seen, lambda: len(seen.rows) > rows, 600)
        marker = client[DB].marker.insert_one({}).inserted_id
        await until(tail, seen, lambda: any(row.id == str(marker) for row in seen.rows[-50:]), 600)
        mine = [row.ts for row in seen.rows if row.ns.startswith(f"{DB}.") and row.op in "iud"]
        assert mine == in_oplog(client, MINE | {"ts": {"$gt": first}})
        assert seen.special == []
        assert seen.last is not None
        assert seen.last.matched == len(seen.rows)
        assert seen.last.rates_all[0].ns.startswith(DB)
        client.drop_database(DB)
    await tail.aclose()


@pytest.mark.parametrize("driver", list(Driver))
async def test_a_killed_cursor_is_opened_again_without_a_hole(
    replica_set: ReplicaSet, driver: Driver, gateway_to: OpenGateway
) -> None:
    gateway = gateway_to(replica_set.uri, driver=driver)
    tail = follow(gateway, backlog=0, room=ALL_ROWS)
    seen = Seen()
    with replica_set.client() as client:
        await opened(tail, seen)
        first = client.local["oplog.rs"].find_one(sort=[("$natural", -1)])["ts"]
        for n in range(4):
            client[DB].killed.insert_one({"_id": n})
            mine = client.admin.aggregate([{"$currentOp": {"idleCursors": True, "allUsers": True}}])
            open_now = [op["cursor"]["cursorId"] for op in mine if op.get("ns") == "local.oplog.rs" and "cursor" in op]
            if open_now:  # else one is on its way; a server before 5.0 does not show that
                client.local.command("killCursors", "oplog.rs", cursors=open_now)
        await until(tail, seen, lambda: sum(row.ns == f"{DB}.killed" and row.op == "i" for row in seen.rows) >= 4)
        shown = [row.ts for row in seen.rows if row.ns == f"{DB}.killed" and row.op == "i"]
        assert shown == in_oplog(client, {"ns": f"{DB}.killed", "op": "i", "ts": {"$gt": first}})
        assert seen.special == []
        client.drop_database(DB)
    await tail.aclose()


def _step_down(servers: ReplicaSet) -> None:
    servers.step_down(60)
    servers.await_primary()


def _crash(servers: ReplicaSet) -> None:
    servers.kill(servers.await_primary())
    servers.await_primary()


def _freeze(servers: ReplicaSet) -> None:
    servers.freeze(servers.await_primary())
    servers.await_primary()


def _crash_secondary(servers: ReplicaSet) -> None:
    servers.kill((servers.await_primary() + 1) % 3)


def _recover(servers: ReplicaSet) -> None:
    for index in range(3):
        servers.thaw(index)
        servers.restart(index)


@pytest.mark.parametrize(
    ("faults", "secondary"),
    [
        ((_crash,), False),
        pytest.param((_step_down, _crash, _freeze, _crash, _step_down, _freeze), False, marks=pytest.mark.soak),
        pytest.param((_crash_secondary, _freeze, _crash, _crash_secondary), True, marks=pytest.mark.soak),
    ],
)
async def test_three_members_through_faults(
    three_members: ReplicaSet,
    faults: tuple[Callable[[ReplicaSet], None], ...],
    secondary: bool,
    gateway_to: OpenGateway,
) -> None:
    gateway = gateway_to(three_members.uri)
    tail = follow(gateway, LOAD, backlog=0, room=ALL_ROWS, prefer_secondary=secondary)
    seen = Seen()
    await opened(tail, seen)
    with writers(three_members.uri):
        await until(tail, seen, lambda: len(seen.rows) > 1_000)
        for fault in faults:
            await in_thread(fault, three_members)
            so_far = len(seen.rows)
            await until(tail, seen, lambda so_far=so_far: len(seen.rows) > so_far + 500)
            await in_thread(_recover, three_members)
    with three_members.client(w="majority") as client:
        marker = client[DB].marker.insert_one({}).inserted_id
        await until(tail, seen, lambda: any(row.id == str(marker) for row in seen.rows[-50:]))
        mine = [row.ts for row in seen.rows if row.op in "iud"]
        assert mine == in_oplog(client, MINE)
        assert seen.of(RowKind.GAP) == []
    await tail.aclose()


@pytest.mark.soak
async def test_three_members_through_a_partition() -> None:
    """The primary is cut off from all members and clients; the tail continues on the side that can still elect a
    primary."""
    ports = [free_port() for _ in range(6)]
    with contextlib.ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(ports[n], ports[n + 3])) for n in range(3)]
        servers = stack.enter_context(ReplicaSet(3, ports=ports[:3], advertised=ports[3:]))
        gateway = open_gateway(servers.uri)
        tail = follow(gateway, LOAD, backlog=0, room=ALL_ROWS, prefer_secondary=False)
        seen = Seen()
        await opened(tail, seen)
        with writers(servers.uri):
            await until(tail, seen, lambda: len(seen.rows) > 500)
            for _ in range(2):
                index = await in_thread(servers.await_primary)
                proxies[index].cut()
                await in_thread(_another_primary, servers, index)
                so_far = len(seen.rows)
                await until(tail, seen, lambda so_far=so_far: len(seen.rows) > so_far + 200)
                proxies[index].heal()
        with servers.client(w="majority") as client:
            marker = client[DB].marker.insert_one({}).inserted_id
            await until(tail, seen, lambda: any(row.id == str(marker) for row in seen.rows[-50:]))
            assert [row.ts for row in seen.rows if row.op in "iud"] == in_oplog(client, MINE)
            assert seen.of(RowKind.GAP) == []
        await tail.aclose()
        await gateway.close()


def _another_primary(servers: ReplicaSet, cut_off: int) -> None:
    """Wait until a member that is not cut off takes over."""
    while True:
        for index in {0, 1, 2} - {cut_off}:
            with servers.client(index) as client:
                if client.admin.command("hello").get("isWritablePrimary"):
                    return


class Stalling(MongoGateway):
    """A gateway whose tail can be held back, as a stopped process or a dead link would hold it."""

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def tail_raw(self, *arguments: Any, **options: Any) -> AsyncIterator[bytes]:
        async for batch in super().tail_raw(*arguments, **options):
            yield batch
            await self.go_on.wait()


async def test_a_roll_over_is_reported_with_what_is_missing() -> None:
    with ReplicaSet(1, options=["--oplogSize", "16", "--syncdelay", "1"]) as servers, servers.client() as client:
        plain = open_gateway(servers.uri)
        gateway = Stalling(plain.link)
        tail = follow(gateway, OplogFilter(noops=True), backlog=0, room=ALL_ROWS)
        seen = Seen()
        await opened(tail, seen)
        client[DB].before.insert_one({"_id": 1})
        await until(tail, seen, lambda: any(row.ns == f"{DB}.before" and row.op == "i" for row in seen.rows))
        gateway.go_on.clear()
        await in_thread(_roll_over, client, seen.entries[-1])
        gateway.go_on.set()
        client[DB].after.insert_one({"_id": 2})
        await until(tail, seen, lambda: any(row.ns == f"{DB}.after" and row.op == "i" for row in seen.rows))
        gaps = seen.of(RowKind.GAP)
        assert gaps
        for gap in gaps:
            assert f"rolled past {max(ts for ts in seen.entries if ts < gap.ts)};" in gap.what
            assert gap.ts in seen.entries
        last = gaps[-1].ts
        after = [ts for ts in seen.entries if ts >= last]
        assert after == in_oplog(client, {"ts": {"$gte": Timestamp(*last)}})[: len(after)]
        assert seen.last is not None
        assert seen.last.gaps == len(gaps)
        await tail.aclose()
        await gateway.close()


def _roll_over(client: MongoClient[Any], last: Ts) -> None:
    """Write until the oplog no longer holds ``last``; it is trimmed after each checkpoint, every second here."""
    while client.local["oplog.rs"].find_one({"ts": {"$lte": Timestamp(*last)}}):
        client[DB].filler.insert_many([{"pad": "x" * 200_000} for _ in range(40)])
    client[DB].filler.drop()


async def test_a_true_rollback_is_taken_back(three_members: ReplicaSet, gateway_to: OpenGateway) -> None:
    first = three_members.await_primary()
    others = [index for index in range(3) if index != first]
    gateway = gateway_to(three_members.uri)
    tail = follow(gateway, LOAD, backlog=0, room=ALL_ROWS, prefer_secondary=False)
    seen = Seen()
    with three_members.client(w="majority") as client:
        await opened(tail, seen)
        client[DB].things.insert_one({"_id": "kept"})
        await until(tail, seen, lambda: any(row.id == "kept" for row in seen.rows))
    for index in others:
        three_members.kill(index)
    with three_members.client(first, w=1) as alone:
        for n in range(26):
            alone[DB].things.insert_one({"_id": f"ghost-{n}"})
        await until(tail, seen, lambda: sum(row.id.startswith("ghost") for row in seen.rows) == 26)
        assert [row.majority for row in seen.rows if row.id.startswith("ghost")] != [True] * 26
    three_members.kill(first)
    for index in others:
        three_members.restart(index)
    await in_thread(three_members.await_primary)
    await in_thread(three_members.restart, first)
    with three_members.client(w="majority") as client:
        client[DB].things.insert_one({"_id": "after"})
        await until(tail, seen, lambda: any(row.id == "after" for row in seen.rows))
        (back,) = seen.of(RowKind.ROLLBACK)
        assert (back.documents, [row.id for row in seen.rows if row.op == "i"]) == (26, ["kept", "after"])
        assert [row.ts for row in seen.rows if row.op == "i"] == in_oplog(client, MINE)
        assert seen.of(RowKind.GAP) == []
    await tail.aclose()


async def test_the_past_is_read_within_its_bounds(replica_set: ReplicaSet, gateway_to: OpenGateway) -> None:
    gateway = gateway_to(replica_set.uri)
    with replica_set.client(w="majority") as client:
        client[DB].past.insert_many([{"_id": n, "text": f"word{n}"} for n in range(50)])
        client[DB].past.delete_many({"_id": {"$lt": 5}})
        stamps = in_oplog(client, {"ns": f"{DB}.past", "op": "i"})

        async def found(text: str, limit: int = 0) -> list[str]:
            rows = read(gateway, OplogFilter.parse(f"ns:{DB}.past {text}"), limit=limit)
            return [f"{row.op}{row.id}" async for row in rows]

        assert await found("op:d") == [f"d{n}" for n in range(5)]
        assert await found("op:i", 3) == ["i47", "i48", "i49"]
        assert await found(f"op:i since:{stamps[10]}", 2) == ["i10", "i11"]
        assert await found(f"op:i since:{stamps[10]} until:{stamps[12]}") == ["i10", "i11"]
        assert await found("id:4") == ["i4", "d4"]
        assert await found("WORD33") == ["i33"]
        assert await found("/word1[0-2]/") == ["i10", "i11", "i12"]
        assert await found("destructive", 1) == ["d4"]
        client.drop_database(DB)
