"""Heartbeats detect a frozen member, and no read waits until its socket times out."""

from __future__ import annotations

import asyncio

import pytest

from tallyglass.demo.server import ReplicaSet
from tallyglass.errors import ReadError
from tallyglass.mongo.client import DEFAULTS, Driver, open_gateway
from tallyglass.mongo.gateway import OPLOG, Namespace

# The driver leaves the sockets of cancelled reads to the garbage collector.
pytestmark = [
    pytest.mark.live,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


async def test_reads_survive_a_frozen_primary(three_members: ReplicaSet) -> None:
    ns = Namespace("faults", "things")
    limit = 60.0
    assert limit < DEFAULTS["socketTimeoutMS"] / 1000, "otherwise the socket timeout would end the read"
    gateways = [open_gateway(three_members.uri, driver=driver) for driver in Driver]
    # By default a client reads from a secondary until it finds the primary. These clients wait for the primary.
    strict = [open_gateway(three_members.uri, driver=driver, readPreference="primary") for driver in Driver]
    frozen = three_members.await_primary()

    async def follow(number: int) -> str:
        try:
            async for batch in strict[number].tail_raw(OPLOG, {}, await_ms=500):
                if not batch:
                    caught_up[number].set()
        except ReadError as error:
            return error.title
        return "ended"

    caught_up = [asyncio.Event() for _ in strict]
    tails = [asyncio.ensure_future(follow(number)) for number in range(len(strict))]
    async with asyncio.timeout(60):
        await asyncio.gather(*(event.wait() for event in caught_up))
    three_members.freeze(frozen)
    try:
        async with asyncio.timeout(limit):
            reads = [gateway.find_one(ns, {}) for gateway in gateways]
            assert await asyncio.gather(*reads) == [None, None]
            titles = await asyncio.gather(*tails)
        assert set(titles) <= {"The server stopped answering.", "The connection to the server was lost."}
    finally:
        three_members.thaw(frozen)
        for gateway in (*gateways, *strict):
            await gateway.close()
