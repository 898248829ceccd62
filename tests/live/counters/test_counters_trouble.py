"""Counters on a server that refuses or is gone: the others are shown with a note, and it is no failure."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from tallyglass.counters.follow.watch import WatchSettings, look, watch
from tallyglass.demo.server import ReplicaSet, Standalone
from tallyglass.mongo.client import open_gateway

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
    assert [trouble.ns for trouble in snapshot.troubles] == ["hidden.counters"]


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
