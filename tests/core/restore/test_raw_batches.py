"""A batch of many documents does not hold up the event loop: the driver's heartbeats run in it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import bson
from bson import Timestamp

from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.entries import read_all
from tallyglass.restore.timeline.earlier_writes import read_earlier

BATCH = b"".join(
    bson.encode({"ts": Timestamp(100, n + 1), "op": "n", "ns": "", "o": {"msg": "periodic noop"}}) for n in range(2_000)
)


class OneBatch:
    """Gives everything at once, as a server does with entries of up to 16 MB."""

    async def find_raw(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        yield BATCH


async def test_others_run_while_a_batch_is_read() -> None:
    gateway = cast(Gateway, OneBatch())
    turns = 0

    async def heartbeat() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    beating = asyncio.create_task(heartbeat())
    assert (await read_earlier(gateway, Ts(200, 1), ())).oldest == Ts(100, 2_000)
    assert turns >= 9
    turns = 0
    assert len([entry async for entry in read_all(gateway, {})]) == 2_000
    assert turns >= 9
    beating.cancel()
