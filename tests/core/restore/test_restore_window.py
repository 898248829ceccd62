"""The walk through the oplog leaves the event loop free: the driver's heartbeats must not be late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import bson
from bson import Timestamp

from tallyglass.moment import Ts
from tallyglass.restore import coverage


class OneBatch:
    """A gateway whose whole oplog comes in one batch."""

    async def find_raw(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        yield b"".join(
            bson.encode({"ts": Timestamp(n + 1, 1), "t": 1, "op": "n", "ns": "", "o": {}}) for n in range(2_000)
        )


async def test_others_have_their_turn_within_a_batch() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    seen = [entry.ts async for entry in coverage.window(OneBatch(), Ts(1, 1))]  # type: ignore[arg-type]
    task.cancel()
    assert len(seen) == 2_000
    assert turns >= 10
