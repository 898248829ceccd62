"""More kinds of load for the backtest of forecasts: what applications do besides days and nights.

Those whose future is not in their past (a launch that fades, a step to come) are named in :data:`UNFORESEEABLE`.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right

from bench._loads import BUCKET, SCENARIOS, Ids, Load, by_hours, daily, poisson, shaped
from tallyglass.counters.forecast.series import DAY, HOUR, WEEK


def office(rng: random.Random, origin: float, phase: float) -> Ids:
    """Working hours of working days, nothing else."""
    mean = rng.uniform(20, 90)

    def ids(at: float, buckets: int) -> float:
        return poisson(
            rng,
            sum(
                mean * width
                for moment, width in by_hours(at + phase, buckets)
                if int(moment // DAY) % 7 < 5 and 8 <= moment % DAY / HOUR < 18
            ),
        )

    return ids


def fade(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days and nights, shrinking by 3 to 8 % a week."""
    mean, weekly = rng.uniform(20, 90), rng.uniform(0.03, 0.08)
    return shaped(rng, phase, mean, lambda t: math.exp(-weekly * (t - origin) / WEEK))


def wander(rng: random.Random, origin: float, phase: float) -> Ids:
    """A level that wanders: 6 % a day, as a random walk."""
    mean, levels = rng.uniform(20, 90), {0: 0.0}

    def level(day: int) -> float:
        while day not in levels:
            newest = max(levels)
            levels[newest + 1] = levels[newest] + rng.gauss(0, 0.06)
        return levels[day]

    first: list[float] = []

    def ids(at: float, buckets: int) -> float:
        first.append(at) if not first else None
        day = max(0, int((at - first[0]) // DAY))
        return poisson(rng, mean * math.exp(level(day)) * sum(w * daily(t + phase) for t, w in by_hours(at, buckets)))

    return ids


def imports(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days and nights, and about every ten days an import as large as two usual days."""
    mean = rng.uniform(5, 60)

    def ids(at: float, buckets: int) -> float:
        chance = buckets * BUCKET / (10 * DAY)
        bulk = sum(2 * mean * DAY / BUCKET for _ in range(max(1, round(chance))) if rng.random() < min(1.0, chance))
        return poisson(rng, mean * sum(w * daily(t + phase) for t, w in by_hours(at, buckets))) + round(bulk)

    return ids


def month_end(rng: random.Random, origin: float, phase: float) -> Ids:
    """Days and nights, six times as much on the last two days of each thirty."""
    mean = rng.uniform(5, 60)

    def rate(moment: float) -> float:
        return 6.0 if (moment // DAY) % 30 >= 28 else 1.0

    return lambda at, buckets: poisson(
        rng, mean * sum(w * daily(t + phase) * rate(t + phase) for t, w in by_hours(at, buckets))
    )


def cron(rng: random.Random, origin: float, phase: float) -> Ids:
    """One job at three in the morning takes nearly all ids."""
    size = rng.randint(2_000, 90_000)

    def ids(at: float, buckets: int) -> float:
        start, end = at + phase, at + phase + buckets * BUCKET
        runs = math.floor((end - 3 * HOUR) / DAY) - math.floor((start - 3 * HOUR) / DAY)
        return runs * round(size * rng.uniform(0.9, 1.1)) + poisson(rng, 0.2 * buckets)

    return ids


def stop_and_go(rng: random.Random, origin: float, phase: float) -> Ids:
    """Half of the hours nothing, at random."""
    mean = rng.uniform(20, 90)
    busy: dict[int, bool] = {}

    def ids(at: float, buckets: int) -> float:
        total = 0.0
        for moment, width in by_hours(at, buckets):
            hour = int(moment // HOUR)
            if hour not in busy:
                busy[hour] = rng.random() < 0.5
            total += mean * width * busy[hour]
        return poisson(rng, total)

    return ids


def noisy_days(rng: random.Random, origin: float, phase: float) -> Ids:
    """Each day has a level of its own, by 30 %."""
    mean = rng.uniform(20, 90)
    levels: dict[int, float] = {}

    def ids(at: float, buckets: int) -> float:
        total = 0.0
        for moment, width in by_hours(at + phase, buckets):
            level = levels.setdefault(int(moment // DAY), rng.gauss(0, 0.3))
            total += mean * width * daily(moment) * math.exp(level)
        return poisson(rng, total)

    return ids


def launch(rng: random.Random, origin: float, phase: float) -> Ids:
    """A launch that fades: the rate halves each two weeks, from three weeks before the origin on."""
    mean = rng.uniform(100, 400)

    def ids(at: float, buckets: int) -> float:
        since = max(0.0, at - (origin - 3 * WEEK))
        return poisson(rng, mean * buckets * (0.02 + 0.5 ** (since / (2 * WEEK))))

    return ids


def step_ahead(rng: random.Random, origin: float, phase: float) -> Ids:
    """The load changes to 0.5 to 2 times soon after the origin."""
    mean, when, factor = rng.uniform(20, 90), origin + rng.uniform(0.05, 0.4) * WEEK, math.exp(rng.uniform(-0.7, 0.7))
    return shaped(rng, phase, mean, lambda t: factor if t > when else 1.0)


def tenants(rng: random.Random, origin: float, phase: float) -> Ids:
    """Some twelve tenants of very different sizes; each comes, and goes after two months in the mean."""
    start, spans = origin - 60 * WEEK, []
    for _ in range(12):
        at, size = start - rng.expovariate(1 / (60 * DAY)), rng.paretovariate(1.5)
        while at < origin + 60 * WEEK:
            stay, gap = rng.expovariate(1 / (60 * DAY)), rng.expovariate(1 / (20 * DAY))
            spans.append((at, at + stay, size))
            at += stay + gap
    mean = rng.uniform(2, 8)
    return shaped(rng, phase, mean, lambda t: sum(size for begin, end, size in spans if begin <= t < end) + 0.01)


def s_curve(rng: random.Random, origin: float, phase: float) -> Ids:
    """A product that is adopted: from a twentieth to full, half of it within seven weeks of the origin."""
    middle, width = origin + rng.uniform(-7, 7) * WEEK, rng.uniform(1, 4) * WEEK
    mean = rng.uniform(40, 200)
    return shaped(
        rng, phase, mean, lambda t: 0.05 + 0.95 / (1 + math.exp(-max(-50.0, min(50.0, (t - middle) / width))))
    )


def match_days(rng: random.Random, origin: float, phase: float) -> Ids:
    """One or two days a week at eight times the load, which ones differs."""
    mean = rng.uniform(5, 40)
    chosen: dict[int, frozenset[int]] = {}

    def level(at: float) -> float:
        week, day = divmod(int((at + phase) // DAY), 7)
        if week not in chosen:
            chosen[week] = frozenset(rng.sample(range(7), rng.choice((1, 2))))
        return 8.0 if day in chosen[week] else 1.0

    return shaped(rng, phase, mean, level)


def night_shift(rng: random.Random, origin: float, phase: float) -> Ids:
    """Ten at night to six in the morning, Sunday to Thursday; a tenth of the nights is left out."""
    mean = rng.uniform(20, 90)
    off: dict[int, bool] = {}

    def ids(at: float, buckets: int) -> float:
        total = 0.0
        for moment, width in by_hours(at + phase + 2 * HOUR, buckets):
            day = int(moment // DAY)
            if day not in off:
                off[day] = rng.random() < 0.1
            total += mean * width * (day % 7 < 5 and moment % DAY < 8 * HOUR and not off[day])
        return poisson(rng, total)

    return ids


def vacation(rng: random.Random, origin: float, phase: float) -> Ids:
    """Two to three weeks at a quarter of the load, every eight to sixteen weeks."""
    at, breaks = origin - 60 * WEEK, []
    while at < origin + 60 * WEEK:
        at += rng.uniform(8, 16) * WEEK
        breaks.append((at, at + rng.uniform(2, 3) * WEEK))
    return shaped(rng, phase, rng.uniform(20, 90), lambda t: 0.25 if any(a <= t < b for a, b in breaks) else 1.0)


def monday_run(rng: random.Random, origin: float, phase: float) -> Ids:
    """Half of a week's ids in one run on Monday morning."""
    mean = rng.uniform(5, 60)

    def level(at: float) -> float:
        moment = (at + phase) % WEEK
        return 0.5 + 28.0 * (6 * HOUR <= moment < 9 * HOUR)

    return lambda at, buckets: poisson(rng, mean * sum(w * level(t) for t, w in by_hours(at, buckets)))


def two_zones(rng: random.Random, origin: float, phase: float) -> Ids:
    """Users on two sides of the world."""
    mean, share = rng.uniform(5, 60), rng.uniform(0.2, 0.8)
    return lambda at, buckets: poisson(
        rng,
        mean
        * sum(
            w * (share * daily(t + phase) + (1 - share) * daily(t + phase + 10 * HOUR))
            for t, w in by_hours(at, buckets)
        ),
    )


def promotions(rng: random.Random, origin: float, phase: float) -> Ids:
    """Two to four days at three times the load, about every three weeks."""
    at, times = origin - 60 * WEEK, []
    while at < origin + 60 * WEEK:
        at += rng.uniform(1, 5) * WEEK
        times.append((at, at + rng.uniform(2, 4) * DAY))
    return shaped(rng, phase, rng.uniform(5, 60), lambda t: 3.0 if any(a <= t < b for a, b in times) else 1.0)


def campaigns(rng: random.Random, origin: float, phase: float) -> Ids:
    """A mail about every nine days: five times the load, which halves every six hours."""
    at, times = origin - 60 * WEEK, []
    while at < origin + 60 * WEEK:
        at += rng.expovariate(1 / (9 * DAY))
        times.append(at)
    return shaped(
        rng,
        phase,
        rng.uniform(5, 60),
        lambda t: 1 + sum(4 * 0.5 ** ((t - a) / (6 * HOUR)) for a in times if 0 <= t - a < 2 * DAY),
    )


def season(rng: random.Random, origin: float, phase: float) -> Ids:
    """A year: summer at 1.5, winter at 0.5 times the mean."""
    turn = rng.uniform(0, 2 * math.pi)
    return shaped(rng, phase, rng.uniform(5, 60), lambda t: 1 + 0.5 * math.sin(turn + 2 * math.pi * t / (365 * DAY)))


def ramp(rng: random.Random, origin: float, phase: float) -> Ids:
    """The same number of users more each week, as many as at the origin within 20 to 60 weeks."""
    weeks = rng.uniform(20, 60)
    return shaped(rng, phase, rng.uniform(5, 60), lambda t: max(0.05, 1 + (t - origin) / WEEK / weeks))


def levels(rng: random.Random, origin: float, phase: float) -> Ids:
    """A level of its own every one to four weeks, by 25 %."""
    at, steps = origin - 60 * WEEK, []
    while at < origin + 60 * WEEK:
        at += rng.uniform(1, 4) * WEEK
        steps.append((at, math.exp(rng.gauss(0, 0.25))))
    starts = [row[0] for row in steps]
    return shaped(rng, phase, rng.uniform(5, 60), lambda t: steps[max(0, bisect_right(starts, t) - 1)][1])


def outages(rng: random.Random, origin: float, phase: float) -> Ids:
    """An hour to a day without ids, about every two weeks."""
    at, times = origin - 60 * WEEK, []
    while at < origin + 60 * WEEK:
        at += rng.expovariate(1 / (2 * WEEK))
        times.append((at, at + rng.uniform(1, 24) * HOUR))
    return shaped(rng, phase, rng.uniform(5, 60), lambda t: 0.0 if any(a <= t < b for a, b in times) else 1.0)


def retries(rng: random.Random, origin: float, phase: float) -> Ids:
    """A client that loops: ten times the load for one to six hours, about every week."""
    at, times = origin - 60 * WEEK, []
    while at < origin + 60 * WEEK:
        at += rng.expovariate(1 / WEEK)
        times.append((at, at + rng.uniform(1, 6) * HOUR))
    return shaped(rng, phase, rng.uniform(5, 60), lambda t: 10.0 if any(a <= t < b for a, b in times) else 1.0)


def weekend_shop(rng: random.Random, origin: float, phase: float) -> Ids:
    """Evenings and weekends, three times as much as on working days."""
    mean = rng.uniform(5, 60)

    def level(at: float) -> float:
        moment = at + phase
        return (1 + 0.8 * math.sin((moment % DAY / HOUR - 14) * math.pi / 12)) * (
            2.0 if moment // DAY % 7 >= 5 else 0.6
        )

    return lambda at, buckets: poisson(rng, mean * sum(w * level(t) for t, w in by_hours(at, buckets)))


KINDS: dict[str, Load] = {
    **{name: load for name, load in SCENARIOS.items() if name != "restart"},
    **{
        load.__name__: load
        for load in (
            office, fade, wander, imports, month_end, cron, stop_and_go, noisy_days, launch, step_ahead,
            tenants, s_curve, match_days, night_shift, vacation, monday_run, two_zones, promotions, campaigns, season,
            ramp, levels, outages, retries, weekend_shop,
        )
    },
}  # fmt: skip

UNFORESEEABLE = frozenset({"launch", "step_ahead", "shift"})
"""Their future is not in their past: a launch fades, a step lies ahead."""
