"""Tasks that share the work share its slices: the event loop gets its turn after each."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from tallyglass.counters import pacer as module
from tallyglass.counters.pacer import SLICE_SECONDS, Pacer


async def test_one_slice_a_turn_however_many_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 0.0
    monkeypatch.setattr(module.time, "perf_counter", lambda: clock)
    pacer, turn, worked = Pacer(), 0, Counter[int]()

    async def work() -> None:
        nonlocal clock
        for _ in range(5):
            await pacer.rest()
            clock += SLICE_SECONDS
            worked[turn] += 1

    async def turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    ticker = asyncio.ensure_future(turns())
    await asyncio.gather(*(work() for _ in range(8)))
    ticker.cancel()
    assert worked.total() == 40
    assert max(worked.values()) == 1
