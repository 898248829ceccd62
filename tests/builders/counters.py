"""Counters as the dashboard gets them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tallyglass.counters.snapshot import (
    Ceiling,
    CountersSnapshot,
    CounterView,
    Forecast,
    NumericType,
    Semantics,
)

NOW = datetime.now(UTC)


def counter(n: int, **changes: Any) -> CounterView:
    base = CounterView(
        key=f"k{n}", ns="shop.counters", id=f"orders{n}", field="seq", shape="mongoose", library="mongoose-sequence",
        value=1_000_000 + n, type=NumericType.INT32, semantics=Semantics.LAST, start=0,
        ceiling=Ceiling(2_147_483_647, "int32 consumer"), used=0.0005, rate=7.0,
        forecast=Forecast(NOW + timedelta(days=400), NOW + timedelta(days=500), NOW + timedelta(days=600), rate=7.0),
        recent=(1.0, 2.0, 7.0), history=tuple((NOW.timestamp() - 600 + 10 * i, 900_000.0 + i) for i in range(60)),
    )  # fmt: skip
    return replace(base, **changes)


def snapshot(*counters: CounterView, later: float = 0.0, **more: Any) -> CountersSnapshot:
    return CountersSnapshot(datetime.now(UTC) + timedelta(seconds=later), counters, collections_seen=3, **more)
