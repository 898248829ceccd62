"""The numbers of forecasts, whole, for loads that are the same in each run.

Whoever changes the method changes them: measure it first (``python -m bench.band``), then write the new ones here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields

import pytest

from tallyglass.counters.forecast.basis import Basis, read_basis
from tallyglass.counters.forecast.estimate import estimate
from tallyglass.counters.forecast.forecast import forecasts
from tallyglass.counters.forecast.series import DAY, HOUR, WEEK, Series

T0 = 1_795_000_000.0
Load = Callable[[float], float]


def noise(at: float) -> float:
    """A number from -1 to 1 that looks random, by a moment."""
    return 2 * (math.sin(at * 12.9898) * 43758.5453 % 1) - 1


def office(at: float) -> float:
    """Days and nights, five days a week."""
    return (1 + 0.8 * math.sin(at / DAY * 2 * math.pi)) * (0.2 if at % WEEK > 5 * DAY else 1.0)


def series_of(load: Load, span: float, apart: float, hole: tuple[float, float] = (0.0, 0.0)) -> Series:
    """A counter under a load in ids an hour, read every ``apart`` seconds, but not in the hole."""
    found, value = Series(), 1_000.0
    for n in range(round(span / apart) + 1):
        at = n * apart
        if not hole[0] < at < hole[1]:
            found.add(T0 + at, round(value))
        value += max(0.0, load(at)) * apart / HOUR
    return found


def wandering(at: float) -> float:
    return 100 * math.exp(0.5 * sum(noise(7 * n) for n in range(int(at // (2 * DAY)))) / 3) + 5 * noise(at)


LOADS: dict[str, Series] = {
    "six hours": series_of(lambda at: 100 + 40 * noise(at), 6 * HOUR, 300),
    "hours that rise": series_of(lambda at: 20 + 200 * at / (9 * HOUR) + 8 * noise(at), 9 * HOUR, 300),
    "three days": series_of(lambda at: 50 * (1.5 + math.sin(at / DAY * 2 * math.pi)) + 9 * noise(at), 3 * DAY, HOUR),
    "six days that grow": series_of(lambda at: 50 * math.exp(0.15 * at / DAY), 6.2 * DAY, HOUR),
    "a week": series_of(lambda at: 80 * office(at) + 9 * noise(at), 7.5 * DAY, HOUR),
    "a week with a burst": series_of(lambda at: 80 + 900 * (2.2 * DAY < at < 2.6 * DAY) + 9 * noise(at), WEEK, HOUR),
    "two weeks": series_of(lambda at: 80 * office(at) + 30 * noise(at), 2 * WEEK, 2 * HOUR),
    "a step": series_of(lambda at: (80 if at < 17 * DAY else 200) * office(at) + 9 * noise(at), 4 * WEEK, 3 * HOUR),
    "growth": series_of(lambda at: 30 * office(at) * math.exp(0.08 * at / WEEK) + 3 * noise(at), 8 * WEEK, 6 * HOUR),
    "fades": series_of(lambda at: 900 * math.exp(-0.2 * at / WEEK) + 9 * noise(at), 6 * WEEK, 6 * HOUR),
    "another trend": series_of(
        lambda at: 50 * math.exp(0.01 * at / WEEK + 0.15 * max(0.0, at / WEEK - 8)) + 2 * noise(at), 13 * WEEK, 6 * HOUR
    ),
    "a hole": series_of(
        lambda at: 60 * math.exp(0.1 * at / WEEK) + 9 * noise(at), 5 * WEEK, 6 * HOUR, (2 * WEEK, 4 * WEEK)
    ),
    "since a hole": series_of(lambda at: 60 + at / WEEK + 9 * noise(at), 6 * WEEK, 6 * HOUR, (WEEK, 3 * WEEK)),
    "wanders": series_of(wandering, 10 * WEEK, 6 * HOUR),
    "few ids": series_of(lambda at: 0.05 + 0.03 * noise(at), 20 * DAY, 2 * HOUR),
}


def rounded(number: float) -> float:
    return float(f"{number:.5g}")


def of_basis(basis: Basis) -> dict[str, object]:
    """What differs from the usual in a basis, rounded; of the profile its first, middle and last part."""
    parts = basis.profile
    told: dict[str, object] = {
        one.name: getattr(basis, one.name) for one in fields(basis) if getattr(basis, one.name) != one.default
    }
    told["profile"] = (len(parts), parts[0], parts[len(parts) // 2], parts[-1])
    return {
        name: tuple(map(rounded, value)) if isinstance(value, tuple) else rounded(value)  # type: ignore[arg-type]
        for name, value in told.items()
    }


def of_estimates(basis: Basis) -> list[tuple[float, float, float]]:
    """Early, likely and late in hours, for a few and for many ids more than were seen."""
    found = [estimate(basis, share * basis.total) for share in (0.01, 0.7, 4.0)]
    return [(rounded(one.early / HOUR), rounded(one.ahead / HOUR), rounded(one.late / HOUR)) for one in found]


EXPECTED: dict[str, tuple[dict[str, object], list[tuple[float, float, float]]]] = {
    "six hours": (
        {
            "seconds": 21600.0,
            "total": 598.0,
            "cycle": 21600.0,
            "profile": (1.0, 598.0, 598.0, 598.0),
            "block": 1800.0,
            "irregular": 0.1076,
            "span": 21600.0,
            "steps": 72.0,
            "rise": 598.0,
        },
        [(0.015331, 0.06, 0.14901), (1.0825, 4.2, 10.37), (6.1855, 24.0, 59.261)],
    ),
    "hours that rise": (
        {
            "seconds": 32400.0,
            "total": 1071.0,
            "cycle": 32400.0,
            "profile": (1.0, 1071.0, 1071.0, 1071.0),
            "block": 2700.0,
            "irregular": 0.015779,
            "span": 32400.0,
            "steps": 108.0,
            "rise": 1071.0,
            "level": 1.7795,
        },
        [(0.013075, 0.050623, 0.12482), (0.97507, 3.7752, 9.3084), (7.1162, 27.585, 68.07)],
    ),
    "three days": (
        {
            "seconds": 259200.0,
            "total": 5409.0,
            "cycle": 86400.0,
            "profile": (24.0, 68.667, 78.0, 66.0),
            "block": 3600.0,
            "irregular": 0.076486,
            "span": 259200.0,
            "steps": 72.0,
            "rise": 5409.0,
        },
        [(0.45617, 0.78772, 1.1338), (29.26, 50.22, 71.991), (162.85, 288.0, 421.18)],
    ),
    "six days that grow": (
        {
            "seconds": 518400.0,
            "total": 12010.0,
            "cycle": 86400.0,
            "profile": (24.0, 77.5, 83.833, 89.5),
            "block": 3600.0,
            "irregular": 0.005995,
            "span": 536400.0,
            "steps": 149.0,
            "rise": 12263.0,
            "trend": 1.0498,
            "trend_doubt": 0.31493,
        },
        [(0.69173, 0.94718, 1.2944), (41.116, 55.593, 74.101), (135.31, 194.59, 278.2)],
    ),
    "a week": (
        {
            "seconds": 604800.0,
            "total": 10490.0,
            "cycle": 604800.0,
            "profile": (168.0, 82.524, 94.473, 79.02),
            "block": 3600.0,
            "irregular": 0.26685,
            "span": 648000.0,
            "steps": 179.0,
            "rise": 11914.0,
        },
        [(0.98972, 1.3746, 1.9092), (76.583, 92.579, 111.92), (482.01, 672.0, 936.88)],
    ),
    "a week with a burst": (
        {
            "seconds": 604800.0,
            "total": 22468.0,
            "cycle": 604800.0,
            "profile": (168.0, 75.356, 199.3, 76.267),
            "block": 3600.0,
            "irregular": 0.77108,
            "span": 604800.0,
            "steps": 168.0,
            "rise": 22468.0,
            "doubt": 0.91278,
        },
        [(0.80742, 2.9994, 11.142), (33.762, 111.14, 365.84), (198.65, 672.0, 2273.3)],
    ),
    "two weeks": (
        {
            "seconds": 1209600.0,
            "total": 21232.0,
            "cycle": 604800.0,
            "profile": (168.0, 95.357, 89.48, 13.91),
            "block": 10800.0,
            "irregular": 0.22809,
            "span": 1209600.0,
            "steps": 156.0,
            "rise": 21232.0,
        },
        [(1.5883, 2.2074, 3.0677), (181.47, 220.68, 268.37), (963.87, 1344.0, 1874.0)],
    ),
    "a step": (
        {
            "seconds": 2419200.0,
            "total": 105700.0,
            "cycle": 604800.0,
            "profile": (168.0, 225.72, 198.64, 17.336),
            "block": 10800.0,
            "irregular": 0.14724,
            "span": 2419200.0,
            "steps": 223.0,
            "rise": 65681.0,
            "shifted": (950400.0, 2.4753),
        },
        [(3.5275, 4.2492, 5.1184), (387.36, 439.13, 497.81), (2166.6, 2688.0, 3334.8)],
    ),
    "growth": (
        {
            "seconds": 4838400.0,
            "total": 44877.0,
            "cycle": 604800.0,
            "profile": (168.0, 45.063, 40.784, 1.6092),
            "block": 21600.0,
            "irregular": 0.29344,
            "span": 4838400.0,
            "steps": 219.0,
            "rise": 44877.0,
            "trend": 0.077793,
            "trend_doubt": 0.023338,
        },
        [(4.9294, 6.7246, 8.7661), (516.55, 583.88, 687.4), (1693.4, 2265.9, 3152.5)],
    ),
    "fades": (
        {
            "seconds": 3628800.0,
            "total": 530990.0,
            "cycle": 604800.0,
            "profile": (168.0, 579.58, 524.1, 476.66),
            "block": 21600.0,
            "irregular": 0.34711,
            "span": 3628800.0,
            "steps": 168.0,
            "rise": 530990.0,
            "trend": -0.19957,
            "trend_doubt": 0.05987,
        },
        [(15.033, 19.68, 25.793), (142.27, 5101.6, 74856.0), (1049.3, 40065.0, 547660.0)],
    ),
    "another trend": (
        {
            "seconds": 3024000.0,
            "total": 69424.0,
            "cycle": 604800.0,
            "profile": (168.0, 76.672, 83.109, 89.104),
            "block": 21600.0,
            "irregular": 0.23244,
            "span": 7862400.0,
            "steps": 364.0,
            "rise": 139460.0,
            "trend": 0.15864,
            "trend_doubt": 0.14277,
        },
        [(4.213, 5.7685, 7.9018), (243.41, 343.63, 476.68), (477.41, 1228.6, 3234.9)],
    ),
    "a hole": (
        {
            "seconds": 3024000.0,
            "total": 65916.0,
            "cycle": 604800.0,
            "profile": (168.0, 77.19, 79.398, 80.199),
            "block": 28800.0,
            "irregular": 0.14976,
            "span": 3024000.0,
            "steps": 85.0,
            "rise": 65916.0,
            "trend_doubt": 0.087981,
        },
        [(6.9467, 8.5746, 10.584), (388.57, 589.1, 893.12), (348.69, 3360.0, 32377.0)],
    ),
    "since a hole": (
        {
            "seconds": 1814400.0,
            "total": 32930.0,
            "cycle": 604800.0,
            "profile": (168.0, 66.778, 64.774, 65.35),
            "block": 21600.0,
            "irregular": 0.082861,
            "span": 3628800.0,
            "steps": 113.0,
            "rise": 64287.0,
        },
        [(4.2678, 4.9313, 5.698), (310.18, 352.25, 400.02), (1624.7, 2016.0, 2501.5)],
    ),
    "wanders": (
        {
            "seconds": 6048000.0,
            "total": 89057.0,
            "cycle": 604800.0,
            "profile": (168.0, 56.034, 53.054, 49.468),
            "block": 21600.0,
            "irregular": 0.36495,
            "span": 6048000.0,
            "steps": 280.0,
            "rise": 89057.0,
            "trend": -0.10711,
            "wander": 0.002647,
            "trend_doubt": 0.032133,
        },
        [(20.206, 30.043, 44.576), (408.58, 6547.3, 54786.0), (1403.0, 53457.0, 734510.0)],
    ),
    "few ids": (
        {
            "seconds": 1209600.0,
            "total": 17.0,
            "cycle": 604800.0,
            "profile": (168.0, 0.029412, 0.0, 0.088235),
            "block": 28800.0,
            "irregular": 1.3326,
            "span": 1728000.0,
            "steps": 24.0,
            "rise": 24.0,
        },
        [(0.81006, 4.5933, 26.046), (151.09, 238.3, 375.86), (860.18, 1344.0, 2100.0)],
    ),
}


@pytest.mark.parametrize("name", LOADS)
def test_what_is_read_from_a_load_and_how_long_its_ids_last(name: str) -> None:
    basis = read_basis(LOADS[name])
    assert basis is not None
    assert (of_basis(basis), of_estimates(basis)) == EXPECTED[name]


def points(*rows: tuple[float, int]) -> Series:
    """A series of points: hours after T0, and values."""
    found = Series()
    for hours, value in rows:
        found.add(T0 + hours * HOUR, value)
    return found


def hourly(until: int, pause: float) -> Series:
    """One id an hour, and then a pause in hours."""
    return points(*((n, n) for n in range(until + 1)), (until + pause / 2, until), (until + pause, until))


OUTLOOKS: list[tuple[Series, float, str, tuple[float | None, ...]]] = [
    (Series(), 5, "No history yet.", (None, None, None, None)),
    (points((0, 7)), 5, "No history yet.", (None, None, None, None)),
    (points((0, 7), (30, 7)), 5, "No allocation seen in 1 day.", (None, None, None, None)),
    (points((0, 7), (0.5, 7)), 5, "No allocation seen in 30 min.", (None, None, None, None)),
    (hourly(40, 0), 0, "Already there.", (0.0, 0.0, 0.0, None)),
    (hourly(40, 0), 10, "", (3.968, 10.0, 18.519, None)),
    (hourly(40, 0), 1e8, "Too early to say: 1.7 days seen, 570 years needed.", (None, None, None, None)),
    (hourly(40, 0), 6.9e7, "Too early to say: 1.7 days seen, 394 years needed.", (None, None, None, 69000000.0)),
    (hourly(8, 0), 3, "Too early to say: 8 changes seen, 10 needed.", (None, None, None, 3.0)),
    (hourly(9, 0), 3, "Too early to say: 9 changes seen, 10 needed.", (None, None, None, 3.0)),
    (hourly(10, 0), 3, "", (0.76826, 3.0, 7.4392, None)),
    (hourly(40, 0), 599, "", (227.5, 599.0, 1142.2, None)),
    (hourly(40, 0), 801, "Too early to say: 1.7 days seen, 1.7 days needed.", (None, None, None, 801.0)),
    (points(*((n / 60, n) for n in range(31))), 120, "", (0.51618, 2.0, 4.9338, None)),
    (
        points(*((n / 60, n) for n in range(31))),
        121,
        "Too early to say: 30 min seen, 30 min needed.",
        (None, None, None, 2.0167),
    ),
    (hourly(40, 24), 60, "", (61.533, 120.0, 187.31, None)),
    (
        hourly(40, 25),
        60,
        "Stopped since 2026-11-20 03:06Z: no id for 1 day. The early end is as if it resumed now.",
        (23.718, None, None, None),
    ),
    (hourly(9, 25), 60, "No allocation seen in 1 day.", (None, None, None, None)),
    (
        hourly(10, 25),
        60,
        "Stopped since 2026-11-18 21:06Z: no id for 1 day. The early end is as if it resumed now.",
        (15.32, None, None, None),
    ),
    (hourly(40, 25), 0, "Stopped since 2026-11-20 03:06Z: no id for 1 day.", (None, None, None, None)),
    (hourly(40, 25), 5000, "Stopped since 2026-11-20 03:06Z: no id for 1 day.", (None, None, None, None)),
    (
        points(*((9 * n, n) for n in range(20)), (180, 19), (198, 19)),
        50,
        "Stopped since 2026-11-25 14:06Z: no id for 1.1 days. The early end is as if it resumed now.",
        (336.13, None, None, None),
    ),
    (
        points(*((n, n - n // 20) for n in range(60)), (70, 57), (80, 57), (84, 57)),
        50,
        "Stopped since 2026-11-20 22:06Z: no id for 1 day. The early end is as if it resumed now.",
        (26.822, None, None, None),
    ),
    (
        points((0, 0), (9, 0), *((9 + n, n) for n in range(1, 30)), (40, 29), (55.9, 29)),
        50,
        "",
        (41.013, 80.0, 124.89, None),
    ),
    (
        points((0, 0), (9, 0), *((9 + n, n) for n in range(1, 30)), (40, 29), (66, 29)),
        50,
        "Stopped since 2026-11-20 01:06Z: no id for 1.2 days. The early end is as if it resumed now.",
        (19.766, None, None, None),
    ),
    (
        LOADS["a step"],
        900,
        "The load changed 11 days ago, to 2.5 times: older days count at the new level.",
        (3.0708, 3.7328, 4.5376, None),
    ),
    (
        LOADS["a week with a burst"],
        900,
        "The days of the one week seen differ: a habit or a change of load, so the band is wider.",
        (2.2349, 7.6817, 26.403, None),
    ),
    (LOADS["fades"], 200_000, "", (426.37, 1679.7, 6428.7, None)),
]


@pytest.mark.parametrize(("series", "remaining", "note", "ends"), OUTLOOKS)
def test_what_is_said_of_the_end(series: Series, remaining: float, note: str, ends: tuple[float | None, ...]) -> None:
    now = series.times[-1] if len(series) else T0
    (found,) = forecasts(series, [remaining], now)
    moments = (found.early, found.likely, found.late, found.naive)
    told = tuple(one and rounded((one.timestamp() - now) / HOUR) for one in moments)
    assert (found.note, told) == (note, ends)
