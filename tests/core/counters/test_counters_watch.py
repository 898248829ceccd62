"""The pace of a watch, and what its refreshes may take."""

from __future__ import annotations

from contextlib import aclosing
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from tallyglass.counters.follow import watch as module
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.snapshot import CountersSnapshot
from tallyglass.errors import ConnectError, ReadError

NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("takes", "every", "pauses", "searches"),
    [
        ([0.25, 0.75, 0.5], 1.0, [0.75, 0.75, 0.5], [3.0, 0.5, 0.5]),
        ([1.0, 4.0, 10.0, 30.0], 1.0, [1.0, 4.0, 10.0, 10.0], [3.0, 0.5, 0.5, 0.5]),
        ([30.0], 60.0, [30.0], [3.0]),
        ([ConnectError("none"), 0.25, ReadError("gone"), 0.25], 1.0, [1.0, 0.75, 1.0, 0.75], [3.0, 3.0, 0.5, 0.5]),
    ],
    ids=["fast", "slow", "seldom", "without a server"],
)
async def test_a_slow_refresh_is_followed_by_a_pause_as_long(
    monkeypatch: pytest.MonkeyPatch, takes: list[float | Exception], every: float, pauses: list[float],
    searches: list[float],
) -> None:  # fmt: skip
    clock, slept, searched, ended = [100.0], list[float](), list[float](), list[bool]()

    class Watcher:
        def __init__(self, gateway: object, settings: WatchSettings) -> None:
            self.left = [*takes]

        async def refresh(self, seconds: float) -> CountersSnapshot:
            searched.append(seconds)
            took = self.left.pop(0)
            if isinstance(took, Exception):
                raise took
            clock[0] += took
            return CountersSnapshot(NOW, (), known=1)

        def stale(self, error: Exception) -> CountersSnapshot:
            return CountersSnapshot(NOW, (), known=2)

        async def close(self) -> None:
            ended.append(True)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(module, "Watcher", Watcher)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=sleep))
    watched: Any = module.watch(None, WatchSettings(refresh_seconds=every))  # type: ignore[arg-type]
    async with aclosing(watched) as snapshots:
        found = [(await anext(snapshots)).known for _ in takes]
        # The last pause is taken before the next snapshot, for which nothing is left.
        with pytest.raises(IndexError):
            await anext(snapshots)
    assert found == [2 if isinstance(one, Exception) else 1 for one in takes]
    assert (slept, searched[:-1], ended) == (pauses, searches, [True])
