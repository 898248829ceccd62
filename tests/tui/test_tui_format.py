"""Numbers, spans and dates as people read them; unknown is never 0."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tallyglass.counters.snapshot import Forecast
from tallyglass_tui import format as fmt
from tallyglass_tui.cli.headless import table
from tallyglass_tui.widgets.cells import fit, fit_middle

NOW = datetime(2026, 11, 20, 18, 6, 14, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (fmt.count(None), "?"),
        (fmt.count(float("nan")), "?"),
        (fmt.count(5_000_123), "5,000,123"),
        (fmt.count(2**63 - 1), "9,223,372,036,854,775,807"),
        (fmt.count(1.5), "1.50"),
        (fmt.short(999_999), "1.00M"),
        (fmt.short(12_345), "12.3k"),
        (fmt.short(2**63), "9.2e18"),
        (fmt.rate(None), "?"),
        (fmt.rate(0), "0/s"),
        (fmt.rate(0.02), "1.2/min"),
        (fmt.rate(0.0000001), "0.0/d"),
        (fmt.rate(12_345.6), "12.3k/s"),
        (fmt.share(None), "?"),
        (fmt.share(0), "0.0%"),
        (fmt.share(0.00001), "<0.1%"),
        (fmt.share(0.99999), ">99.9%"),
        (fmt.share(1), "100%"),
        (fmt.size(1_500_000), "1.5 MB"),
        (fmt.duration(0), "0 s"),
        (fmt.duration(5 * 3600 + 1200), "5 h 20"),
        (fmt.duration(3 * 86400 + 4 * 3600), "3 d 4 h"),
        (fmt.duration(None), "?"),
        (fmt.bar(None, 4), "····"),
        (fmt.bar(0.5, 4), "██  "),
        (fmt.bar(1e-9, 4), "▏   "),
        (fmt.bar(1 - 1e-9, 4), "███▉"),
        (fmt.bar(0.5, 4, plain=True), "##  "),
        (fmt.spark([0, 4, 8], 5), "  ▁▄█"),
        (fmt.spark([5_000_001, 5_000_009], 2), "██"),
        (fmt.ago(NOW - timedelta(minutes=3), NOW), "3 min ago"),
        (fmt.ago(NOW + timedelta(minutes=3), NOW), "in 3 min"),
        (fmt.moment(NOW), "2026-11-20 18:06:14Z"),
    ],
)
def test_texts(text: str, wanted: str) -> None:
    assert text == wanted


def test_time_left_is_a_band_and_says_what_it_is_not() -> None:
    def days(early: float, late: float | None) -> Forecast:
        end = NOW + timedelta(days=late) if late else None
        return Forecast(NOW + timedelta(days=early), NOW + timedelta(days=early), end, rate=1.0)

    assert fmt.time_left(days(12, 19), NOW) == "12d..19d"
    assert fmt.time_left(days(1.2, None), NOW) == "29h..>999y"
    assert fmt.time_left(Forecast(), NOW) == "?"
    assert fmt.time_left(Forecast(rate=1.0, note="Too early to say."), NOW) == "too early"
    assert fmt.time_left(Forecast(far=True, rate=1.0), NOW) == ">999y"
    assert fmt.time_left(Forecast(far=True, rate=0.0), NOW) == "idle"


@settings(max_examples=300, deadline=None)
@given(st.floats(), st.integers(1, 30))
def test_no_number_breaks_a_column(number: float, width: int) -> None:
    assert len(fmt.short(number)) <= 8
    assert len(fmt.rate(number)) <= 14
    assert cell_len(fmt.bar(number, width)) == width
    assert cell_len(fmt.spark([number, 1.0], width)) == width
    fmt.count(number)
    fmt.share(number)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80), st.integers(0, 40))
def test_a_cell_is_as_wide_as_it_should_be(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) == width
    assert cell_len(fit(text, width, right=True)) == width
    assert cell_len(fit_middle(text, width)) == width


def test_columns_of_a_table_are_aligned_after_wide_characters_and_accents() -> None:
    rows = [("注文", "1", "x"), ("e\u0301te\u0301", "22", "x"), ("orders", "333", "x")]
    assert [cell_len(line) for line in table(rows, right=frozenset({1})).splitlines()] == [14] * 3
