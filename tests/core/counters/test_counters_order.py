"""What a person must look at first comes first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tallyglass.counters.follow.order import urgency
from tallyglass.counters.snapshot import CounterView, Flag, Forecast, NumericType, Semantics


def _counter(key: str, used: float, days: float | None = None, *flags: Flag) -> CounterView:
    early = None if days is None else datetime.now(UTC) + timedelta(days=days)
    return CounterView(
        key=key,
        ns="a.b",
        id=key,
        field="seq",
        shape="",
        library="",
        value=1,
        type=NumericType.INT64,
        semantics=Semantics.LAST,
        start=0,
        ceiling=None,
        used=used,
        rate=None,
        forecast=Forecast(early=early),
        flags=flags,
    )


def test_critical_before_warning_then_the_earliest_end_then_the_most_used() -> None:
    rows = [
        _counter("calm", 0.1),
        _counter("fuller", 0.2),
        _counter("far", 0.1, 500),
        _counter("double", 0.1, None, Flag.DOUBLE),
        _counter("soon", 0.5, 20),
        _counter("sooner", 0.1, 5, Flag.DOUBLE),
        _counter("full", 1.0, 0, Flag.FULL),
    ]
    ordered = [row.key for row in sorted(rows, key=lambda row: urgency(row, datetime.now(UTC)))]
    assert ordered == ["full", "sooner", "soon", "double", "far", "fuller", "calm"]
