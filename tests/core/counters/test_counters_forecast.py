"""Forecasts are as right as they claim, on a small fixed set of loads; and they refuse where nobody can say."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from bench._backtest import tallyglass
from bench._loads import SCENARIOS
from bench.forecast import HORIZONS, ForecastScore, backtest, cases_of

from tallyglass.counters.forecast.basis import read_basis
from tallyglass.counters.forecast.cycle import irregularity, level_now, swing, unexplained
from tallyglass.counters.forecast.estimate import estimate
from tallyglass.counters.forecast.forecast import forecasts
from tallyglass.counters.forecast.series import DAY, HOLE_SECONDS, HOUR, WEEK, Series
from tallyglass.counters.forecast.shift import day_irregularity, find_shift
from tallyglass.counters.forecast.trend import chance_in_trend, clear_trend, log_trend, wander_of
from tallyglass.counters.snapshot import Forecast

NOW = datetime(2026, 11, 20, tzinfo=UTC).timestamp()


SEEDS = (1, 2, 3)
SHORT, MONTH = 6 * HOUR, 28 * DAY

Rows = dict[tuple[str, float, str], ForecastScore]


def forecast(series: Series, remaining: float, now: float) -> Forecast:
    return forecasts(series, [remaining], now)[0]


@pytest.fixture(scope="module")
def rows() -> Rows:
    """The backtest by load, seconds of history and method: 60 series a row, of fewer samples than in the bench."""
    scores = backtest(20, SEEDS, ("tallyglass", "predict_linear"), most=500)
    return {(row.scenario, row.seen, row.method): row for row in scores}


@pytest.mark.long
@pytest.mark.parametrize("seen", [seen for seen, _ in HORIZONS])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_band_covers_what_it_says_on_every_load(rows: Rows, scenario: str, seen: float) -> None:
    row = rows[scenario, seen, "tallyglass"]
    # Half of the shifts lie ahead, and no history tells of them.
    future_unseen = scenario == "shift" and seen >= WEEK
    assert row.covered >= (35 if future_unseen else 70)
    # A single day does not show that weekends are quieter or busier.
    assert row.too_early <= (45 if future_unseen else 25 if seen == DAY else 20)


@pytest.mark.parametrize(("seen", "most"), [(3 * HOUR, 10.0), (DAY, 4.8), (WEEK, 1.8), (MONTH, 1.5), (120 * DAY, 1.4)])
def test_the_band_is_narrow_enough_to_act_on(seen: float, most: float) -> None:
    widths: list[float] = []
    for name in ("steady", "diurnal", "batches"):
        for case in cases_of(name, SCENARIOS[name], seen, seen, 6, 1, 400):
            band = tallyglass(case)
            assert band is not None
            widths.append(band[2] / band[0])
    assert statistics.median(widths) <= most


@pytest.mark.long
@pytest.mark.parametrize(
    ("scenario", "seen", "most"),
    [
        # A single day does not show by how much weekends differ.
        *((scenario, DAY, 30) for scenario in ("steady", "diurnal", "batches", "growth", "shift")),
        *((scenario, WEEK, 10) for scenario in ("steady", "diurnal", "batches")),
        # One shift of four lies in the week ahead.
        ("shift", WEEK, 15),
        # What was seen since a restart is 0.2 to 0.6 of the history: more than a day here, and about a week.
        ("restart", WEEK, 25),
        ("restart", MONTH, 10),
        # One week does not show by how much the next is busier: here 4 to 12 %.
        ("growth", WEEK, 12),
        # Three jobs a day, of any size: one who knew all but the dice would be wrong by 13 % in the median.
        ("heavy", DAY, 45),
        ("heavy", WEEK, 25),
    ],
)
def test_median_error(rows: Rows, scenario: str, seen: float, most: float) -> None:
    assert rows[scenario, seen, "tallyglass"].median_error <= most


@pytest.mark.long
@pytest.mark.parametrize("seen", [seen for seen, _ in HORIZONS])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_better_than_least_squares_on_every_load(rows: Rows, scenario: str, seen: float) -> None:
    ours, theirs = (rows[scenario, seen, method].mean_error for method in ("tallyglass", "predict_linear"))
    # Where every bucket has the same mean, the two ends and a line through all differ by a twentieth of little.
    assert ours < theirs * (1.05 if scenario == "steady" else 1.0)


def loaded(hours: list[float], end: float = NOW) -> Series:
    """A counter that hands out so many ids in each hour, seen every quarter of one."""
    series, value = Series(), 0.0
    for n in range(len(hours) * 4 + 1):
        series.add(end - (len(hours) - n / 4) * HOUR, round(value))
        value += hours[n // 4] / 4 if n < len(hours) * 4 else 0
    return series


def week_of(level: float = 1.0) -> list[float]:
    """A week of hours: five working days, two at 0.4, quiet nights."""
    return [
        level * 4000 * (1 if day < 5 else 0.4) * (1 + 0.8 * math.sin(hour * math.pi / 12))
        for day in range(7)
        for hour in range(24)
    ]


def test_a_load_that_doubled_counts_at_its_new_level() -> None:
    hours = week_of() * 3 + week_of(2.0)
    basis = read_basis(loaded(hours))
    assert basis is not None
    assert basis.rate * WEEK == pytest.approx(sum(week_of(2.0)), rel=0.03)
    assert (basis.trend, basis.doubt) == (0.0, 0.0)
    assert basis.shifted == pytest.approx((WEEK, 2.0), rel=0.06)
    found = forecast(loaded(hours), 1e7, NOW)
    assert found.note == "The load changed 7 days ago, to 2 times: older days count at the new level."
    assert forecast(loaded(week_of() * 4), 1e7, NOW).note == ""


def test_a_load_that_grows_did_not_change_its_level() -> None:
    hours = [rise * math.exp(0.1 * n / 168) for n, rise in enumerate(week_of() * 4)]
    basis = read_basis(loaded(hours))
    assert basis is not None
    assert basis.shifted is None
    assert basis.trend == pytest.approx(0.1, rel=0.1)


def growing(moments: Sequence[float], left: float, daily: float = 0.15) -> tuple[Series, float]:
    """A counter that grows by a share each day, sampled some days ago, and the ids that last ``left`` days."""
    series = Series()
    for ago in sorted(moments, reverse=True):
        series.add(NOW - ago * DAY, round(1e8 * (1 + daily) ** -ago))
    return series, 1e8 * ((1 + daily) ** left - 1)


@pytest.mark.parametrize("days", [5, 10, 15, 28, 60, 120])
def test_a_steep_growth_is_seen_in_any_length_of_history(days: int) -> None:
    series, remaining = growing([days * n / 120 for n in range(121)], 14)
    basis = read_basis(series)
    assert basis is not None
    found = estimate(basis, remaining)
    # It is followed for half as long again as it was seen.
    assert found.early < 14 * DAY < found.late
    assert days < 14 or found.ahead == pytest.approx(14 * DAY, rel=0.05)


def test_where_holes_hide_the_growth_the_weeks_after_them_show_it_or_the_band_is_wide() -> None:
    late = [60.0, 40, 30, 25, 20, *(n / 4 for n in range(64))]
    shown = read_basis(growing(late, 14)[0])
    assert shown is not None
    assert shown.seconds == 2 * WEEK
    assert estimate(shown, growing(late, 14)[1]).ahead == pytest.approx(14 * DAY, rel=0.05)
    early = [21.0, 17, 12, 8, 4, 0]
    hidden = read_basis(growing(early, 14)[0])
    assert hidden is not None
    assert (hidden.trend, hidden.seconds) == (0.0, 3 * WEEK)
    found = estimate(hidden, growing(early, 14)[1])
    assert found.early < 14 * DAY < found.late


@pytest.mark.parametrize("weeks", [2, 3])
def test_the_band_of_a_few_weeks_allows_for_a_trend(weeks: int) -> None:
    """A load that grows by 6 % a week: two weeks do not show that it does, three do."""
    hours = [rise * math.exp(0.06 * n / 168) for n, rise in enumerate(week_of() * (weeks + 6))]
    basis = read_basis(loaded(hours[: weeks * 168]))
    assert basis is not None
    assert (basis.trend > 0) is (weeks > 2)
    found = estimate(basis, sum(hours[weeks * 168 :]))
    assert found.early < 6 * WEEK < found.late


def test_a_new_trend_counts_and_not_that_of_the_months_before() -> None:
    hours = week_of() * 8 + [rise * math.exp(-0.2 * n / 168) for n, rise in enumerate(week_of() * 5)]
    basis = read_basis(loaded(hours))
    assert basis is not None
    assert basis.trend == pytest.approx(-0.2, rel=0.1)
    assert basis.seconds == 5 * WEEK
    recent, short = (read_basis(loaded(hours[-168 * weeks :])) for weeks in (5, 9))
    assert recent is not None
    assert short is not None
    assert basis.trend_doubt > recent.trend_doubt + 0.05, "it may change again"
    assert short.seconds == 9 * WEEK, "the months before are as long at least"


@pytest.mark.parametrize(("days", "changed"), [(1, False), (2, False), (3, True)])
def test_three_days_make_a_change_of_level_and_fewer_do_not(days: int, changed: bool) -> None:
    end = 28 * 24 - 48 - days * 24
    hours = week_of() * 4
    # Working days, since a weekend at three times its level looks like one of them.
    hours = hours[:end] + [3 * rise for rise in hours[end : end + days * 24]]
    basis = read_basis(loaded(hours))
    assert basis is not None
    assert (basis.shifted is not None) is changed


@pytest.mark.parametrize(("opened", "changed"), [((0, 3), False), ((0, 2, 4), True), (range(5), True)])
def test_an_office_that_opens_on_three_days_shows_a_change_of_level(opened: Sequence[int], changed: bool) -> None:
    hours = [rise * (n // 24 % 7 in opened) * (1 + 2 * (n >= 504)) for n, rise in enumerate(week_of() * 6)]
    basis = read_basis(loaded(hours))
    assert basis is not None
    assert (basis.shifted is not None) is changed


def test_few_steps_make_no_change_of_level() -> None:
    rng = random.Random(1)
    for steps in (12, 20) * 40:
        series, at = Series(), NOW - MONTH
        # An id now and then: in some of these, chance puts many more of them in the last weeks.
        while at <= NOW:
            series.add(at, len(series))
            at += rng.expovariate(steps / MONTH)
        series.add(NOW, series.last)
        basis = read_basis(series)
        assert basis is None or basis.shifted is None


def test_uneven_days_in_a_single_week_widen_the_band_and_are_reported() -> None:
    plain = week_of()[96:] + week_of()[:96]
    # The last two days run at twice the level: a habit, or a change? One week cannot tell.
    odd = plain[:120] + [2 * rise for rise in plain[120:]]
    assert forecast(loaded(plain), 1e6, NOW).note == ""
    found = forecast(loaded(odd), 1e6, NOW)
    assert "differ" in found.note
    assert (found.spread or 0) > 1.3 * (forecast(loaded(plain), 1e6, NOW).spread or 0)


def test_a_drifting_level_is_distinguished_from_erratic_days() -> None:
    def walk(rng: random.Random) -> list[float]:
        level, days = 0.0, list[float]()
        for _ in range(84):
            level += rng.gauss(0, 0.08)
            days.append(4000 * math.exp(level))
        return days

    seeds = range(15)
    jumps = [wander_of([4000 * math.exp(rng.gauss(0, 0.2)) for _ in range(84)]) for rng in map(random.Random, seeds)]
    # The variance of a step is 0.0064.
    assert statistics.median(wander_of(walk(random.Random(seed))) for seed in seeds) == pytest.approx(0.0064, rel=0.3)
    assert statistics.median(jumps) == 0.0
    assert wander_of([4000.0] * 27) == 0.0


def test_a_burst_in_the_only_week_is_no_weekly_pattern() -> None:
    days = [6.0, 6.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    hours = [1_000 * days[n // 24] for n in range(168)]
    found, quiet = forecast(loaded(hours), 24_000, NOW), forecast(loaded(hours[48:] + hours[:48]), 24_000, NOW)
    # A day of the mean is 58,286 ids. Of the week as it was, the first day would have 144,000 or 24,000.
    for one in (found, quiet):
        assert one.likely is not None
        assert one.likely.timestamp() - NOW == pytest.approx(24_000 / 58_286 * DAY, rel=0.25)


def test_a_counter_that_stopped_has_no_late_end() -> None:
    found = forecast(loaded(week_of() * 2 + [0.0] * 24 * 14), 1e7, NOW)
    assert "Stopped since 2026-11-0" in found.note
    assert found.early is not None
    assert (found.likely, found.late, found.rate) == (None, None, 0.0)
    # A weekend without an id, as every week, is no stop.
    office = [rise * (n % 168 < 120) for n, rise in enumerate(week_of() * 4)]
    assert "Stopped" not in forecast(loaded(office), 1e7, NOW).note


def test_the_weeks_of_a_hole_make_no_step() -> None:
    series = Series()
    for at, value in zip(loaded(week_of() * 8).times, loaded(week_of() * 8).values, strict=True):
        if not NOW - 5 * WEEK < at < NOW - 2 * WEEK:
            series.add(at, value)
    basis = read_basis(series)
    assert basis is not None
    assert (basis.shifted, basis.trend, basis.wander) == (None, 0.0, 0.0)
    assert basis.rate * WEEK == pytest.approx(sum(week_of()), rel=0.02)


def test_with_less_than_a_day_the_next_hours_go_on_from_the_level_of_now() -> None:
    falling = read_basis(loaded([8000, 6800, 5600, 4400, 3200, 2000]))
    assert falling is not None
    soon, later = (estimate(falling, ids).ahead / (ids / falling.rate) for ids in (2000, 1_000_000))
    assert soon > 2
    assert 1 < later < 1.2
    rng = random.Random(4)
    # Blocks that differ by turns, at two levels: their steps are chance, so that the mean is the better guide.
    assert level_now([8, 12] * 3 + [17, 21] * 3) == 1.0
    jumping = read_basis(loaded([rng.choice((1000, 9000)) for _ in range(6)]))
    assert jumping is not None
    assert jumping.level == 1.0


def test_of_a_part_of_a_week_the_early_end_is_further_from_the_likely_one() -> None:
    part, days, weeks = (read_basis(loaded(week_of()[:hours])) for hours in (3, 24, 168))
    assert part is not None
    assert days is not None
    assert weeks is not None
    assert [basis.trend_doubt for basis in (part, days, weeks)] == [0, 0, 0], "no trend, none that may be wrong"
    for basis in (part, days):
        found = estimate(basis, 1e5)
        assert found.sooner > found.later > 1
    assert (found := estimate(weeks, 1e5)).sooner == found.later


def test_ids_more_or_less_move_the_end_of_a_fading_load_most() -> None:
    fading, growing = (
        read_basis(loaded([rise * math.exp(weekly * n / 168) for n, rise in enumerate(week_of() * 4)]))
        for weekly in (-0.1, 0.1)
    )
    assert fading is not None
    assert growing is not None
    slow, fast = estimate(fading, 1.5e6), estimate(growing, 5.35e6)
    assert slow.ahead == pytest.approx(fast.ahead, rel=0.05)
    assert slow.spread > 1.2 * fast.spread


def test_a_rise_beyond_64_bits_breaks_the_series() -> None:
    series = Series()
    for n in range(20):
        series.add(NOW + n * HOUR, n * 10**33)
    assert (len(series), series.last, series.broken_at) == (1, 19 * 10**33, NOW + 19 * HOUR)


@pytest.mark.parametrize("start", [2**53 + 1, 10**18 + 20, 10**33])
def test_values_above_what_a_double_holds_are_exact(start: int) -> None:
    series = Series()
    for n in range(41):
        series.add(NOW + n, start + n)
    assert (series.values, series.broken_at) == ([start + n for n in range(41)], None)
    series.extend_back([(NOW - 2, start - 2), (NOW - 1, start - 1)])
    assert (series.first, series.last, series.steps, series.rise_since(NOW - 1)) == (start - 2, start + 40, 42, 41)


def steady(span: float, rate: float = 1.0, step: float = 300.0, end: float = NOW) -> Series:
    series = Series()
    count = int(span / step)
    for n in range(count + 1):
        series.add(end - span + n * step, round(n * step * rate))
    return series


def idle_since(at: float) -> Series:
    series = Series()
    for moment, value in ((at - DAY / 2, 0), (at, 5), (NOW, 5)):
        series.add(moment, value)
    return series


def test_a_forecast_has_dates_and_their_basis() -> None:
    found = forecast(steady(2 * WEEK), 1_000_000, NOW)
    assert (found.basis, found.history_seconds, found.steps) == ("14 days", 2 * WEEK, 4032)
    assert found.rate == pytest.approx(1.0)
    assert found.early is not None
    assert found.likely is not None
    assert found.late is not None
    assert found.early < found.likely < found.late
    assert not found.far
    assert abs(found.likely - datetime.fromtimestamp(NOW + 1_000_000, UTC)) < timedelta(minutes=5)
    assert found.spread == pytest.approx((found.late.timestamp() - NOW) / (found.early.timestamp() - NOW), rel=1e-3)


def test_never_over_part_of_a_cycle() -> None:
    series = Series()
    for n in range(13 * 24 + 1):
        at = NOW - 13 * DAY + n * HOUR
        # Nothing in the older part: a whole week ends now, and only it counts.
        series.add(at, max(0, round(at - (NOW - WEEK))))
    assert forecast(series, 10_000, NOW).rate == pytest.approx(1.0)
    assert forecast(series, 10_000, NOW).basis == "7 days"


@pytest.mark.parametrize(
    ("series", "remaining", "words"),
    [
        (Series(), 10, "No history"),
        (steady(HOUR), 100 * DAY, "Too early to say: 1 h seen, 5 days needed."),
        (steady(1.5 * HOUR), 20 * HOUR, "Too early to say: 1.5 h seen, 2 h needed."),
        (steady(50 * 60, step=60), 4 * HOUR, "Too early to say: 50 min seen, 1 h needed."),
        (steady(WEEK, step=2 * DAY), 10 * DAY, "changes seen, 10 needed"),
        (steady(WEEK, rate=0), 10, "No allocation seen in 7 days"),
        (idle_since(NOW - 8 * DAY), 10, "No allocation seen in 7 days"),
        (steady(WEEK), 1e15, "Beyond the year 9999"),
        (steady(WEEK), 2.6e11, "Too early to say: 7 days seen"),
        (steady(WEEK), 0, "Already there"),
    ],
)
def test_a_missing_date_is_explained_in_the_note(series: Series, remaining: float, words: str) -> None:
    found = forecast(series, remaining, NOW)
    assert words in found.note
    assert (found.late is None) == (words != "Already there")


def test_a_short_horizon_needs_no_hours() -> None:
    found = forecast(steady(300, step=5), 600, NOW)
    assert found.likely is not None
    assert abs(found.likely.timestamp() - NOW - 600) < 5


def test_a_lower_value_breaks_the_series_and_a_hole_does_not() -> None:
    series = steady(WEEK)
    series.add(NOW + 300, 5)
    assert (len(series), series.steps, series.broken_at) == (1, 0, NOW + 300)
    series = steady(WEEK)
    series.add(NOW + HOLE_SECONDS + 1, 10**9)
    assert (series.broken_at, series.holes()) == (None, [(NOW, NOW + HOLE_SECONDS + 1)])


def test_a_clock_that_jumps_ahead_ends_no_history() -> None:
    series, ahead = steady(100 * DAY, step=DAY), 200 * DAY
    for second in range(4_000):
        series.add(NOW + ahead + second, series.last + 1)
    assert (series.times[0], series.first) == (NOW - 100 * DAY, 0)
    assert (len(series) < 1_501, [at for at in series.times if NOW - DAY <= at < NOW + 1]) == (True, [NOW - DAY, NOW])


def test_older_points_are_put_before_and_never_across_a_break() -> None:
    series = steady(HOUR)
    start = NOW - HOUR
    series.extend_back([(start - n * 60, -n) for n in range(1, 61)])
    assert (series.span, series.steps) == (2 * HOUR, 72)
    assert series.last - series.rise_since(start - 90) == pytest.approx(-1.5)
    broken = steady(HOUR)
    broken.extend_back([(start - 60, 9999), (start - 120, 1)])
    assert (broken.span, broken.broken_at) == (HOUR, start)


def test_memory_is_bounded_and_the_rate_survives_thinning() -> None:
    series = Series()
    for n in range(400_000):
        series.add(NOW + n, n)
    assert len(series) <= 1_500
    assert steady(200 * DAY, step=HOUR / 4).span < 150 * DAY, "four months, and what came since they were last thinned"
    found = forecast(series, 1e6, NOW + 400_000)
    assert found.rate == pytest.approx(1.0, rel=0.01)
    assert found.basis == "4 days"


def test_the_slope_of_a_logarithm_has_the_error_of_least_squares() -> None:
    # By hand: the line through 0, 1, 1, 1 rises by 0.3; its residuals have the squares 0.09, 0.16, 0.01 and 0.04.
    assert log_trend([1, math.e, math.e, math.e]) == pytest.approx((0.3, math.sqrt(0.3 / 2 / 5)))


def test_how_irregular_blocks_are_is_told_by_their_second_differences() -> None:
    # The bends of 1, 3, 1, 3 are 4; six times the variance of independent blocks is their mean square.
    assert irregularity([1, 3, 1, 3]) == pytest.approx(math.sqrt(16 / 6) / 2)
    assert irregularity([1, 2, 3, 4, 5]) == irregularity([0, 0, 0]) == 0


@pytest.mark.parametrize(("apart", "block"), [(HOUR / 4, HOUR), (3 * HOUR, 3 * HOUR), (12 * HOUR, 8 * HOUR)])
@pytest.mark.parametrize("span", [3 * DAY, 2 * WEEK])
def test_chance_is_measured_over_blocks_as_long_as_samples_are_apart(apart: float, block: float, span: float) -> None:
    basis = read_basis(steady(span, step=apart))
    assert basis is not None
    assert (basis.block, basis.seconds) == (block, span)


def test_a_slow_counter_is_as_irregular_as_a_fast_one_of_its_shape() -> None:
    hours = [rise * (1 + n % 5 / 10) for n, rise in enumerate(week_of() * 2)]
    for scale in (1e-6, 1.0):
        some = [rise * scale for rise in hours]
        assert swing([3 * scale, scale]) == pytest.approx(0.5)
        assert irregularity(some) == pytest.approx(irregularity(hours))
        assert unexplained(some, some[:168]) == pytest.approx(unexplained(hours, hours[:168]))
        assert level_now(some) == pytest.approx(level_now(hours)) != 1
    shift = find_shift([1.0] * 21 + [3.0] * 21)
    assert shift is not None
    assert (shift.day, shift.size) == (21, pytest.approx(math.log(3)))


def test_four_weeks_show_that_a_level_wanders_and_fewer_do_not() -> None:
    rising = [math.exp(0.05 * day) for day in range(28)]
    assert wander_of(rising) > 0
    assert wander_of(rising[1:]) == 0


def test_days_before_the_first_id_hide_no_trend() -> None:
    grown = [1000 * math.exp(0.1 * day / 7) for day in range(28)]
    assert clear_trend([0.0] * 9 + grown) == clear_trend(grown) == pytest.approx(0.1)
    assert clear_trend([*grown[:14], *[0.0] * 7, *grown[14:]]) == 0


def test_two_days_of_rest_make_no_week_irregular_and_three_do() -> None:
    def week(*resting: int) -> list[float]:
        return [10.0 if n // 24 in resting else 1000.0 for n in range(168)]

    assert [day_irregularity(week(*days)) for days in ((), (2,), (5, 6), (6, 0))] == pytest.approx(
        [0, 0, 0, 0], abs=1e-9
    )
    for days in ((2, 4), (4, 5, 6)):
        assert day_irregularity(week(*days)) > 0.2


def test_a_graph_has_both_ends_and_a_bounded_number_of_points() -> None:
    series = steady(WEEK)
    points = series.for_graph()
    assert (len(points), points[0], points[-1]) == (240, (NOW - WEEK, 0.0), (NOW, WEEK))
    assert len(steady(3_000).for_graph()) == 11


def test_the_chance_in_a_trend_is_what_the_same_weekdays_differ_after_the_slope() -> None:
    level, grown = [10.0] * 7 + [12.0] * 7, math.log(1.2)
    # Seven variances of 2, over the squares of the distances from the middle (2 times 1/4), by the mean of a week.
    assert chance_in_trend(level, 0.0) == pytest.approx(math.sqrt(7 * 2 / 0.5) / 77)
    assert chance_in_trend(level, grown) == pytest.approx(0, abs=1e-9)
    assert chance_in_trend([*level, *level], 0.0) == pytest.approx(math.sqrt(7 * (4 / 3) / 5) / 77)
