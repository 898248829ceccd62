"""Forecasts are as right as they claim, on a small fixed set of loads; and they refuse where nobody can say."""

from __future__ import annotations

import statistics
from datetime import UTC, datetime, timedelta

import pytest
from bench.forecast import HORIZONS, METHODS, SCENARIOS, Score, backtest

from tallyglass.counters.forecast import forecast
from tallyglass.counters.series import DAY, GAP_SECONDS, HOUR, WEEK, Series

NOW = datetime(2026, 11, 20, tzinfo=UTC).timestamp()


@pytest.fixture(scope="module")
def scores() -> list[Score]:
    return backtest(14, 3)


def of(scores: list[Score], seen: float, *, heavy: bool = False, method: str = "tallyglass") -> list[Score]:
    return [row for row in scores if row.method == method and row.seen == seen and (row.scenario == "heavy") == heavy]


@pytest.mark.parametrize("seen", [seen for seen, _ in HORIZONS])
def test_the_band_covers_what_it_says(scores: list[Score], seen: float) -> None:
    rows = of(scores, seen)
    assert 70 <= statistics.fmean(row.covered for row in rows) <= 95
    assert statistics.fmean(row.too_early for row in rows) <= 20
    (heavy,) = of(scores, seen, heavy=True)
    assert heavy.covered >= 60
    # A load that doubles just after the origin cannot be foreseen; the others are covered.
    assert min(row.covered for row in rows if row.scenario != "shift") >= 50


@pytest.mark.parametrize(("seen", "most"), [(DAY, 25), (WEEK, 10)])
def test_median_error(scores: list[Score], seen: float, most: float) -> None:
    # After a restart less has been seen than the row says.
    rows = [row for row in of(scores, seen) if row.scenario != "restart"]
    assert statistics.fmean(row.median_error for row in rows) <= most


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_better_than_least_squares_on_every_load(scores: list[Score], scenario: str) -> None:
    mean = {
        method: statistics.fmean(row.mean_error for row in scores if (row.method, row.scenario) == (method, scenario))
        for method in METHODS
    }
    assert mean["tallyglass"] < mean["predict_linear"]


def steady(span: float, rate: float = 1.0, step: float = 300.0, end: float = NOW) -> Series:
    series = Series()
    count = int(span / step)
    for n in range(count + 1):
        series.add(end - span + n * step, n * step * rate)
    return series


def test_dates_and_what_they_stand_on() -> None:
    found = forecast(steady(2 * WEEK), 1_000_000, NOW)
    assert (found.basis, found.history_seconds, found.steps) == ("14 days", 2 * WEEK, 4032)
    assert found.rate == pytest.approx(1.0)
    assert found.early is not None
    assert found.likely is not None
    assert found.late is not None
    assert found.early < found.likely < found.late
    assert abs(found.likely - datetime.fromtimestamp(NOW + 1_000_000, UTC)) < timedelta(minutes=5)
    assert found.spread == pytest.approx((found.late.timestamp() - NOW) / (found.early.timestamp() - NOW), rel=1e-3)


def test_never_over_part_of_a_cycle() -> None:
    series = Series()
    for n in range(13 * 24 + 1):
        at = NOW - 13 * DAY + n * HOUR
        # Nothing in the older part: a whole week ends now, and only it counts.
        series.add(at, max(0.0, at - (NOW - WEEK)))
    assert forecast(series, 10_000, NOW).rate == pytest.approx(1.0)
    assert forecast(series, 10_000, NOW).basis == "7 days"


@pytest.mark.parametrize(
    ("series", "remaining", "words"),
    [
        (Series(), 10, "No history"),
        (steady(HOUR), 100 * DAY, "Too early to say: 1 h seen"),
        (steady(WEEK, step=2 * DAY), 10 * DAY, "changes seen, 10 needed"),
        (steady(WEEK, rate=0), 10, "No allocation seen in 7 days"),
        (steady(WEEK), 1e15, "Beyond the year 9999"),
        (steady(WEEK), 0, "Already there"),
    ],
)
def test_no_date_without_a_reason_and_no_reason_without_a_word(series: Series, remaining: float, words: str) -> None:
    found = forecast(series, remaining, NOW)
    assert words in found.note
    assert (found.late is None) == (words != "Already there")
    if "Too early" in words or "needed" in words:
        assert found.spread is not None
        assert f"{found.spread:.1f}x" in found.note or f"{found.spread:.0f}x" in found.note


def test_a_short_horizon_needs_no_hours() -> None:
    found = forecast(steady(300, step=5), 600, NOW)
    assert found.likely is not None
    assert abs(found.likely.timestamp() - NOW - 600) < 5


def test_reset_rewind_and_gap_break_the_series() -> None:
    series = steady(WEEK)
    series.add(NOW + 300, 5.0)
    assert (len(series), series.steps, series.broken_by) == (1, 0, "the value went back")
    series = steady(WEEK)
    series.add(NOW + GAP_SECONDS + 1, 1e9)
    assert (len(series), series.broken_by) == (1, "nothing was seen for 3 days")


def test_older_points_are_put_before_and_never_across_a_break() -> None:
    series = steady(HOUR)
    start = NOW - HOUR
    series.extend_back([(start - n * 60, -n) for n in range(1, 61)])
    assert (series.span, series.steps) == (2 * HOUR, 72)
    assert series.value_at(start - 90) == pytest.approx(-1.5)
    broken = steady(HOUR)
    broken.extend_back([(start - 60, 99.0), (start - 120, 1.0)])
    assert (broken.span, broken.broken_at) == (HOUR, start)


def test_memory_is_bounded_and_the_rate_survives_thinning() -> None:
    series = Series()
    for n in range(400_000):
        series.add(NOW + n, float(n))
    assert len(series) <= 1_500
    found = forecast(series, 1e6, NOW + 400_000)
    assert found.rate == pytest.approx(1.0, rel=0.01)
    assert found.basis == "4 days"
