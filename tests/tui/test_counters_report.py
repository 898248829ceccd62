"""The page of ``counters --report``: the levels of ``check``, every counter, and what was not read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tallyglass.counters.snapshot import (
    FLAG_HELP,
    Absence,
    Ceiling,
    CountersSnapshot,
    CounterTrouble,
    CounterView,
    Flag,
    Forecast,
    Members,
    MissingCounter,
    NumericType,
    Semantics,
)
from tallyglass.report.markdown import to_markdown
from tallyglass_tui.cli.counters_report import document_of

NOW = datetime(2026, 11, 23, 17, 0, tzinfo=UTC)
FORECAST = Forecast(NOW + timedelta(days=3), NOW + timedelta(days=5), NOW + timedelta(days=9), rate=1.0)
FINE = CounterView(
    "a", "shop.counters", "orders", "seq", "f:1", "", 1_000, NumericType.INT32, Semantics.LAST, 0,
    Ceiling(2**31 - 1, "int32"), 0.0, 1.0, Forecast(far=True),
)  # fmt: skip


def test_it_begins_with_what_needs_somebody() -> None:
    urgent = replace(FINE, key="b", id="people<b>", used=0.95, forecast=FORECAST, repair="db.x.updateOne({})")
    snapshot = CountersSnapshot(
        NOW,
        (FINE, urgent),
        (CounterTrouble("hr.ids", "may not be read."), CounterTrouble("", "The time was up.")),
        known=2,
    )
    text = to_markdown(document_of(snapshot, "rs0"))
    assert "**1 of 2 counters needs somebody.**" in text
    assert text.index("| urgent | shop.counters people&lt;b>") < text.index("| shop.counters orders |")
    assert "| 2,147,482,647 to int32 |" in text
    assert "| 3.0d..9.0d |" in text
    assert "    db.x.updateOne({})" in text
    assert "hr.ids: may not be read." in text
    assert ": The time was up." not in text
    fine = to_markdown(document_of(CountersSnapshot(NOW, (FINE,), known=1), "rs0"))
    assert "Needs somebody" not in fine
    assert "Flags" not in fine
    assert "Repairs" not in fine


def test_what_vanished_and_a_member_of_a_group_need_somebody_as_in_check() -> None:
    worst = replace(FINE, key="m", id="tenant 7", used=0.95, forecast=FORECAST)
    group = replace(FINE, key="g", id="1,000 tenants", members=Members(1_000, (worst,)))
    gone = MissingCounter("shop.counters", "users", Absence.GONE, since=NOW - timedelta(hours=1))
    snapshot = CountersSnapshot(NOW, (group,), known=1_001, missing=(gone,))
    text = to_markdown(document_of(snapshot, "rs0"))
    assert "**2 of 1,001 counters need somebody.**" in text
    assert "| urgent | shop.counters tenant 7 |" in text
    assert "| warning | shop.counters users | its number is gone" in text


def test_a_flag_is_explained_and_is_a_warning_where_no_end_is_near() -> None:
    text = to_markdown(document_of(CountersSnapshot(NOW, (replace(FINE, flags=(Flag.DOUBLE,)),), known=1), "rs0"))
    assert "| warning | shop.counters orders | DOUBLE |" in text
    assert FLAG_HELP[Flag.DOUBLE].replace("^", "\\^") in text or FLAG_HELP[Flag.DOUBLE] in text
