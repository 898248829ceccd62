"""A tail that keeps up asks a few times a second; one that is behind reads on at once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo import mongo_gateway
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import GET_MORE_SECONDS, OPLOG, closing
from tallyglass.oplog.read.stream import SELDOM_SECONDS

pytestmark = pytest.mark.live


@pytest.mark.parametrize("least_seconds", [GET_MORE_SECONDS, SELDOM_SECONDS])
async def test_only_a_batch_that_is_not_full_is_followed_by_a_pause(
    least_seconds: float, replica_set: ReplicaSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    with replica_set.client() as client:
        before = client.local["oplog.rs"].find_one(sort=[("$natural", -1)])
        assert before is not None
        client.pace.things.insert_many([{"_id": n} for n in range(20)])
        client.drop_database("pace")
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(mongo_gateway, "asyncio", _with_sleep(pause))
    gateway = open_gateway(replica_set.uri)
    full = 0
    try:
        tail = gateway.tail_raw(
            OPLOG, {"ts": {"$gt": before["ts"]}}, batch_size=2, await_ms=1, least_seconds=least_seconds
        )
        async with closing(tail) as batches:
            async for batch in batches:
                if pauses:
                    break
                full += mongo_gateway._holds(batch, 2)
    finally:
        await gateway.close()
    assert full >= 10
    assert least_seconds - GET_MORE_SECONDS < pauses[0] <= least_seconds


def _with_sleep(pause: Any) -> Any:
    class Asyncio:
        sleep = staticmethod(pause)
        gather = staticmethod(asyncio.gather)

    return Asyncio
