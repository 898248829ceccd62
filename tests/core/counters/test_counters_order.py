"""What a person must look at first comes first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from tallyglass.counters.follow.order import by_urgency, urgency
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


async def test_what_did_not_change_keeps_its_row_and_what_went_has_none() -> None:
    class Shown:
        def __init__(self, view: CounterView) -> None:
            self.shown = view

        def view(self) -> CounterView:
            return self.shown

    now = datetime.now(UTC)
    calm, gone, full = trackers = [
        Shown(_counter("calm", 0.1)),
        Shown(_counter("gone", 0.2)),
        Shown(_counter("full", 1)),
    ]
    before = await by_urgency(cast("Any", trackers), [], now)
    assert [row[1].key for row in before] == ["full", "gone", "calm"]
    new = Shown(_counter("new", 0.5))
    calm.shown = _counter("calm", 0.9)
    after = await by_urgency(cast("Any", [new, calm, full]), before, now)
    assert [row[1:] for row in after] == [(one.shown, one) for one in (full, calm, new)]
    assert after[0] is before[0]
    assert gone not in [row[2] for row in after]
