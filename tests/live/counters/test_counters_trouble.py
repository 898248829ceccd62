"""Counters on a server that refuses or is gone: the others are shown with a note, and it is no failure."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any, cast

import pytest
from gateways import OpenGateway

from tallyglass.counters.check_line import check_counters
from tallyglass.counters.follow import drift
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import Watcher, look, watch
from tallyglass.counters.verdict import CRITICAL, OK, UNKNOWN
from tallyglass.demo.server import ReplicaSet, Standalone
from tallyglass.errors import RefusedError
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import OPLOG, Gateway, Namespace

pytestmark = pytest.mark.live


async def test_least_privilege_is_a_trouble_and_never_a_failure() -> None:
    with Standalone(options=("--auth",)) as server:
        with server.client() as client:
            client.admin.command("createUser", "root", pwd="r", roles=["root"])
        with server.client(username="root", password="r") as client:
            client.shop.counters.insert_one({"_id": "orders", "seq": 4})
            client.hidden.counters.insert_one({"_id": "orders", "seq": 4})
            reads = {"resource": {"db": "shop", "collection": "counters"}, "actions": ["find"]}
            lists = {"resource": {"db": "hidden", "collection": ""}, "actions": ["listCollections"]}
            client.admin.command("createRole", "narrow", privileges=[reads, lists], roles=[])
            client.admin.command("createUser", "watcher", pwd="w", roles=["narrow"])
        gateway = open_gateway(server.uri, username="watcher", password="w")
        snapshot = await look(gateway)
        await gateway.close()
    assert [(counter.ns, counter.value) for counter in snapshot.counters] == [("shop.counters", 4)]
    assert [trouble.ns for trouble in snapshot.troubles] == ["hidden.counters", str(OPLOG)]


async def test_a_lost_server_is_a_trouble_and_the_watch_goes_on() -> None:
    with ReplicaSet(1) as servers:
        with servers.client() as client:
            client.shop.counters.insert_one({"_id": "orders", "seq": 4})
        gateway = open_gateway(servers.uri, serverSelectionTimeoutMS=500)
        states: list[bool] = []
        async with aclosing(watch(gateway, WatchSettings(refresh_seconds=0.05))) as snapshots:
            async for snapshot in snapshots:
                assert [counter.value for counter in snapshot.counters] == [4]
                states.append(bool(snapshot.troubles))
                if states == [False]:
                    servers.kill(0)
                elif states[-1] and len(states) > 1 and not states[-2]:
                    servers.restart(0)
                elif len(states) > 2 and not states[-1]:
                    break
        await gateway.close()
    assert any(states)


async def test_a_server_without_an_oplog_is_noted(one_member: ReplicaSet) -> None:
    noted = []
    with Standalone() as server:
        for one in (server, one_member):
            with one.client() as client:
                client.shop.counters.insert_one({"_id": "orders", "seq": 4})
            gateway = open_gateway(one.uri)
            result = check_counters(await look(gateway))
            await gateway.close()
            assert result.level == OK
            noted.append("There is no oplog without a replica set" in result.line)
    assert noted == [True, False]


class CutGateway:
    """A gateway whose server cuts off all that is read of the past of counters from the oplog."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def __getattr__(self, name: str) -> Any:
        return getattr(self._gateway, name)

    async def find_raw(self, ns: Namespace, query: dict[str, Any], **how: Any) -> AsyncIterator[bytes]:
        if ns == OPLOG and "$or" in query:
            raise RefusedError("It took too long.", code=50)
        async for batch in self._gateway.find_raw(ns, query, **how):
            yield batch


async def test_a_past_that_the_server_cut_off_is_said(one_member: ReplicaSet, gateway_to: OpenGateway) -> None:
    with one_member.client() as client:
        client.shop.counters.insert_one({"_id": "orders", "seq": 4})
    gateway = gateway_to(one_member.uri)
    for reader, expected in ((gateway, 0), (CutGateway(gateway), 1)):
        snapshot = await look(cast("Gateway", reader))
        said = [one for one in snapshot.troubles if re.search(r"cut off \d+ requests? for the oplog", one.title)]
        assert len(said) == expected, snapshot.troubles


async def test_a_counter_that_could_not_be_compared_in_time_is_not_called_ok(
    one_member: ReplicaSet, monkeypatch: pytest.MonkeyPatch, gateway_to: OpenGateway
) -> None:
    with one_member.client() as client:
        client.shop["mongoengine.counters"].insert_one({"_id": "orders.number", "next": 4})
        client.shop.orders.create_index("number")
        client.shop.orders.insert_many([{"number": n} for n in range(1, 10)])
    gateway = gateway_to(one_member.uri)
    result = check_counters(await look(gateway))
    assert (result.level, "BEHIND" in result.line) == (CRITICAL, True)
    monkeypatch.setattr(drift, "time", SimpleNamespace(monotonic=lambda: math.inf))
    result = check_counters(await look(gateway))
    assert result.level == UNKNOWN
    assert "before 1 counter could be compared with the ids" in result.line


async def test_a_secondary_that_lags_is_neither_behind_nor_back() -> None:
    with ReplicaSet(3) as servers, servers.client() as client:
        counters, orders = client.shop["mongoengine.counters"], client.shop.orders
        counters.insert_one({"_id": "orders._id", "next": 500})
        orders.insert_many([{"_id": n} for n in range(1, 501)])
        lagging = next(n for n, one in enumerate(servers.members) if one.port != (client.primary or ("", 0))[1])
        gateway = open_gateway(servers.uri.replace("?", "?readPreference=secondary&"))
        watcher = Watcher(gateway, WatchSettings())
        results = [check_counters(await watcher.look(60.0))]
        with servers.client(lagging) as member:
            member.admin.command("fsync", lock=True)
            orders.insert_many([{"_id": n} for n in range(501, 601)])
            counters.update_one({}, {"$set": {"next": 600}})
            results += [check_counters(await watcher.look(1.0)) for _ in range(4)]
            member.admin.command("fsyncUnlock")
        results.append(check_counters(await watcher.look(60.0)))
        await watcher.close()
        await gateway.close()
    assert {result.level for result in results} <= {OK, UNKNOWN}, results
    assert (results[0].level, results[-1].level) == (OK, OK), [r.line for r in results]
