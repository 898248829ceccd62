"""When a counter runs out: early, likely and late, or the reason why no date can be given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from tallyglass.counters.forecast.basis import Basis, read_basis
from tallyglass.counters.forecast.estimate import Estimate, estimate
from tallyglass.counters.forecast.series import DAY, HOUR, MIN_STEPS, Series
from tallyglass.counters.snapshot import Forecast
from tallyglass.counters.span import format_span
from tallyglass.moment import from_seconds
from tallyglass.text import plural

MIN_SHARE = 0.05
"""A date needs a history of at least this share of the time until it."""

NO_HISTORY = Forecast(note="No history yet.")

_YEAR_9999 = datetime(9999, 12, 31, tzinfo=UTC).timestamp()
_MUCH_DOUBT = 0.2  # of the logarithm: days that differ by a fifth are worth a note
_LEAST_PAUSE, _PAUSES = DAY, 3.0  # seconds; times the longest pause before: a longer one means that it stopped


def forecasts(series: Series, remaining: Sequence[float], now: float) -> tuple[Forecast, ...]:
    """When each number of ``remaining`` ids is used, as of ``now`` (seconds since 1970), all from one basis."""
    stopped = stopped_since(series)
    if stopped is not None:
        return tuple(_stopped(series, stopped, ids, now) for ids in remaining)
    basis = read_basis(series)
    if basis is None:
        return (NO_HISTORY,) * len(remaining)
    return tuple(_forecast(basis, ids, now) for ids in remaining)


def _forecast(basis: Basis, remaining: float, now: float) -> Forecast:
    base = Forecast(rate=basis.rate, basis=format_span(basis.seconds), history_seconds=basis.span, steps=basis.steps)
    if basis.rate <= 0:
        return replace(base, far=True, note=f"No allocation seen in {format_span(min(basis.seconds, basis.span))}.")
    if remaining <= 0:
        moment = from_seconds(now)
        return replace(base, early=moment, likely=moment, late=moment, spread=1.0, note="Already there.")
    found = estimate(basis, remaining)
    base = replace(base, spread=found.spread)
    if now + found.early > _YEAR_9999:
        return replace(base, far=True, note="Beyond the year 9999.")
    too_little = insufficient_history(basis, found)
    if too_little:
        # The mean over the whole history: unbiased, and wrong by a factor of 3 in either direction one time in ten.
        return replace(base, note=too_little, naive=_date(now, remaining / basis.mean_rate))
    early, likely, late = (_date(now, seconds) for seconds in (found.early, found.ahead, found.late))
    note = change_note(basis) if late else "The late end lies beyond the year 9999."
    return replace(base, early=early, likely=likely, late=late, far=likely is None, note=note)


def stopped_since(series: Series) -> float | None:
    """When the last id was handed out, if the pause since is unusually long; else None.

    Unusual is longer than a day and than three times the longest earlier pause.
    """
    times, offsets = series.times, series.offsets
    if series.steps < MIN_STEPS or len(series) < 2 or offsets[-1] != offsets[-2]:
        return None
    last = next((n for n in range(len(offsets) - 2, 0, -1) if offsets[n] != offsets[n - 1]), 0)
    longest = max((times[n + 1] - times[n] for n in range(last) if offsets[n] == offsets[n + 1]), default=0.0)
    pause = times[-1] - times[last]
    return times[last] if pause > max(_LEAST_PAUSE, _PAUSES * longest) else None


def _stopped(series: Series, since: float, remaining: float, now: float) -> Forecast:
    """The forecast of a stopped counter: the early end assumes that it resumes now; there is no late end."""
    active = Series()
    for at, value in zip(series.times, series.values, strict=True):
        if at <= since:
            active.add(at, value)
    basis = read_basis(active)
    pause = format_span(series.times[-1] - since)
    note = f"Stopped since {from_seconds(since):%Y-%m-%d %H:%MZ}: no id for {pause}."
    base = Forecast(rate=0.0, basis=pause, history_seconds=series.span, steps=series.steps, note=note)
    if remaining <= 0 or basis is None or basis.rate <= 0:
        return base
    found = estimate(basis, remaining)
    if insufficient_history(basis, found):
        return base
    return replace(base, early=_date(now, found.early), note=f"{note} The early end is as if it resumed now.")


def insufficient_history(basis: Basis, found: Estimate) -> str:
    """Why no date can be given; empty if there is a date."""
    if basis.steps < MIN_STEPS:
        return f"Too early to say: {plural(basis.steps, 'change')} seen, {MIN_STEPS} needed."
    least = max(MIN_SHARE * found.ahead, min(2 * HOUR, found.ahead / 4))
    if basis.span < least:
        return f"Too early to say: {format_span(basis.span)} seen, {format_span(least)} needed."
    return ""


def change_note(basis: Basis) -> str:
    """A note about a change of the load; empty if there is none."""
    if basis.shifted is not None:
        ago, factor = basis.shifted
        return f"The load changed {format_span(ago)} ago, to {factor:.2g} times: older days count at the new level."
    if basis.doubt >= _MUCH_DOUBT:
        return "The days of the one week seen differ: a habit or a change of load, so the band is wider."
    return ""


def _date(now: float, ahead: float) -> datetime | None:
    return from_seconds(now + ahead) if now + ahead < _YEAR_9999 else None
