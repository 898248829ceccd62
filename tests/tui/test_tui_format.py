"""Numbers, spans and dates as people read them; unknown is never 0."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from tallyglass.counters.snapshot import Forecast
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import OplogWindow
from tallyglass_tui import format as fmt
from tallyglass_tui.cli.headless import table
from tallyglass_tui.widgets.cells import fit, fit_middle

NOW = datetime(2026, 11, 20, 18, 6, 14, tzinfo=UTC)
HOUR, DAY, YEAR = 3_600, 86_400, 365.25 * 86_400


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
        (fmt.rate(0.0000001), "<0.1/d"),
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
        (fmt.ago(NOW + timedelta(milliseconds=400), NOW), "now"),
        (fmt.ago(NOW - timedelta(milliseconds=600), NOW), "600 ms ago"),
        (fmt.ago(None, NOW), "?"),
        (fmt.count(float("inf")), "inf"),
        (fmt.count(10**23), "100,000,000,000,000,000,000,000"),
        (fmt.count(10**24), "1e+24"),
        (fmt.short(None), "?"),
        (fmt.short(float("nan")), "?"),
        (fmt.short(999), "999"),
        (fmt.short(1000), "1.00k"),
        (fmt.short(9_994), "9.99k"),
        (fmt.short(9_995), "10.0k"),
        (fmt.short(99_949), "99.9k"),
        (fmt.short(99_950), "100k"),
        (fmt.short(999_499), "999k"),
        (fmt.short(999_500), "1.00M"),
        (fmt.short(-12_345), "-12.3k"),
        (fmt.short(1e9), "1.00G"),
        (fmt.short(1e12), "1.00T"),
        (fmt.short(999.5e12), "1.0e15"),
        (fmt.rate(float("nan")), "?"),
        (fmt.rate(1), "1.0/s"),
        (fmt.rate(99.9), "99.9/s"),
        (fmt.rate(100), "100/s"),
        (fmt.rate(999), "999/s"),
        (fmt.rate(1000), "1.00k/s"),
        (fmt.rate(0.5), "30.0/min"),
        (fmt.rate(1 / 60), "1.0/min"),
        (fmt.rate(1 / 3600), "1.0/h"),
        (fmt.rate(1 / 86_400), "1.0/d"),
        (fmt.share(float("nan")), "?"),
        (fmt.share(0.0009), "<0.1%"),
        (fmt.share(0.001), "0.1%"),
        (fmt.share(0.999), "99.9%"),
        (fmt.share(0.9991), ">99.9%"),
        (fmt.share(1.5), "150%"),
        (fmt.size(None), "?"),
        (fmt.size(999), "999 B"),
        (fmt.size(1_000), "1.0 kB"),
        (fmt.size(99_949), "99.9 kB"),
        (fmt.size(99_950), "100 kB"),
        (fmt.size(999_499), "999 kB"),
        (fmt.size(999_500), "1.0 MB"),
        (fmt.size(1e9), "1.0 GB"),
        (fmt.size(1e12), "1.0 TB"),
        (fmt.size(5e15), "5000 TB"),
        (fmt.duration(float("nan")), "?"),
        (fmt.duration(-5), "0 s"),
        (fmt.duration(0.25), "250 ms"),
        (fmt.duration(1), "1 s"),
        (fmt.duration(89.4), "89 s"),
        (fmt.duration(90), "2 min"),
        (fmt.duration(5_399), "90 min"),
        (fmt.duration(5_400), "1 h 30"),
        (fmt.duration(10 * HOUR - 60), "9 h 59"),
        (fmt.duration(10 * HOUR), "10 h"),
        (fmt.duration(2 * DAY - HOUR), "47 h"),
        (fmt.duration(2 * DAY), "2 d"),
        (fmt.duration(2 * DAY + HOUR), "2 d 1 h"),
        (fmt.duration(10 * DAY - HOUR), "9 d 23 h"),
        (fmt.duration(10 * DAY + HOUR), "10 d"),
        (fmt.duration(2 * YEAR - DAY), "730 d"),
        (fmt.duration(2 * YEAR), "2.0 y"),
        (fmt.duration(99.9 * YEAR), "99.9 y"),
        (fmt.duration(100 * YEAR), "100 y"),
        (fmt.duration(999 * YEAR), "999 y"),
        (fmt.duration(1000 * YEAR), ">1,000 y"),
        (fmt.brief(-5), "0s"),
        (fmt.brief(89), "89s"),
        (fmt.brief(90), "2m"),
        (fmt.brief(5_340), "89m"),
        (fmt.brief(5_400), "1.5h"),
        (fmt.brief(9.94 * HOUR), "9.9h"),
        (fmt.brief(9.96 * HOUR), "10h"),
        (fmt.brief(47 * HOUR), "47h"),
        (fmt.brief(48 * HOUR), "2.0d"),
        (fmt.brief(9.96 * DAY), "10d"),
        (fmt.brief(729 * DAY), "729d"),
        (fmt.brief(730 * DAY), "2.0y"),
        (fmt.brief(9.94 * YEAR), "9.9y"),
        (fmt.brief(9.96 * YEAR), "10y"),
        (fmt.brief(999 * YEAR), "999y"),
        (fmt.brief(1000 * YEAR), ">999y"),
        (fmt.bar(0, 4), "    "),
        (fmt.bar(1, 4), "████"),
        (fmt.bar(2, 4), "████"),
        (fmt.bar(None, 4, plain=True), "...."),
        (fmt.bar(1e-9, 4, plain=True), "-   "),
        (fmt.bar(0.55, 4, plain=True), "##- "),
        (fmt.spark([0, 0], 3), " ▁▁"),
        (fmt.spark([0, 4, 8], 5, plain=True), "  .:#"),
        (fmt.spark([float("inf"), 8], 2), "▁█"),
        (fmt.spark([1, 2, 3], 2), "▅█"),
        (fmt.moment(NOW), "2026-11-20 18:06:14Z"),
    ],
)
def test_texts(text: str, wanted: str) -> None:
    assert text == wanted


@pytest.mark.parametrize(
    ("zone", "typed"), [("ZON-5", "9999-12-31T23:59:59Z"), ("ZON+5", "0001-01-01T00:00:00Z")], ids=("last", "first")
)
def test_a_time_that_is_no_date_in_the_zone_of_the_machine_is_unknown_there(
    zone: str, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        assert " = ? local, " in fmt.time_meaning(typed)
    finally:
        monkeypatch.undo()
        time.tzset()


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


@pytest.mark.parametrize(
    ("used", "per_hour", "wanted"),
    [
        (50, None, ""),
        (50, 100 / 30, "about 30 h once it is full"),
        (
            50,
            100 / 12,
            "about 12 h once it is full",
        ),  # half of the present window: readings of the growth differ by that
        (50, 100 / 11.5, "shrinks to about 12 h"),
        (100, 100 / 30, ""),
        (100, 100 / 6, "shrinks to about 6 h 00"),
    ],
)
def test_how_far_back_the_oplog_will_reach(used: int, per_hour: float | None, wanted: str) -> None:
    window = OplogWindow(Ts(0, 1), Ts(24 * HOUR, 1), used, 100, recent_bytes_per_hour=per_hour)
    assert fmt.oplog_ahead(window) == wanted


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
