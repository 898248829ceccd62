"""One counter in words, line by line, as its detail view shows them: pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from tallyglass.counters.snapshot import FLAG_HELP, CounterView, Flag, Forecast, Semantics
from tallyglass.counters.verdict import CRITICAL, WARNING, grade
from tallyglass_tui import bound
from tallyglass_tui import format as fmt
from tallyglass_tui.counters.cells import LIMITS, level, name
from tallyglass_tui.widgets.cells import fit_middle, wrap
from tallyglass_tui.widgets.line_view import Piece

_LABEL = 11
"""Cells of the longest label, ``first full``, and a space."""
_SHOWN_MEMBERS = 10
"""Documents of a pool that are named, the fullest first: the map shows the rest."""
_ALL_BURNED = 0.99
"""Where nearly all ids have no document, its documents are elsewhere, or removed after use: that is no news."""
_DATED = timedelta(days=3_650)
"""A rate says no more than the year of an end beyond this time."""
_SOON = timedelta(hours=1)
"""Dates to the minute say little about an end within this time."""

Line = list[Piece]

_LEVEL_WORDS = {CRITICAL: (" urgent ", "text--bad"), WARNING: (" warning ", "text--warn")}


def facts(counter: CounterView, now: datetime, width: int, plain: bool = False) -> Iterator[Line]:
    """What is asked first: when the counter runs out, what is wrong with it, and how far it is."""
    word, style = _LEVEL_WORDS.get(level(counter, now), ("", ""))
    title = fit_middle(name(counter), max(8, width - 12)).rstrip()
    yield [(f" {title}", "text--title"), ("  ", ""), (word, style)]
    if counter.pool is None:
        yield from _fact("runs out", ends(counter.forecast, now), width)
    else:
        yield from _pool(counter, now, width)
    for flag in counter.flags:
        yield from _fact(flag.value.lower(), FLAG_HELP.get(flag, ""), width, "text--warn")
    yield from _fact("value", _value(counter), width)
    ceiling = f"{fmt.count(counter.ceiling.value)}: {counter.ceiling.reason}" if counter.ceiling else "none is known"
    yield from _fact("ceiling", ceiling, width)
    used = f"{fmt.bar(counter.used, 16, plain)} {fmt.share(counter.used)}"
    yield from _fact("used", f"{used}   {fmt.count(counter.left)} ids left", width)
    yield from _fact("rate", _rate(counter), width)
    if counter.crossing is not None:
        yield from _fact("2^31", ends(counter.crossing, now), width)
    if counter.members is not None:
        yield from _fact("members", f"{fmt.count(counter.members.count)} counters; those that end first:", width)
        for member in counter.members.worst[:_SHOWN_MEMBERS]:
            flags = "".join(f" {flag.value}" for flag in member.flags)
            text = (
                f"{member.id}: {fmt.count(member.value)}, {fmt.share(member.used)} used, {ends(member.forecast, now)}"
            )
            yield from _fact("", text + flags, width)
    if counter.repair:
        yield from _fact("repair", counter.repair, width, "text--warn")
        hint = f"(press {bound.key('page.copy', 'y')} to copy it; Tallyglass does not run it)"
        yield from _fact("", hint, width, "text--muted")


def background(counter: CounterView, width: int) -> Iterator[Line]:
    """What the facts rest on."""
    yield from _fact("history", _stands_on(counter.forecast), width)
    if counter.drift is not None:
        yield from _fact("drift", _drift(counter), width)
    for note in counter.notes:
        yield from _fact("note", note, width)
    yield from _fact("kind", _kind(counter), width)
    if counter.evidence:
        yield from _fact("evidence", f"{counter.grade.value}: {counter.evidence}", width)


def _fact(label: str, text: str, width: int, style: str = "") -> Iterator[Line]:
    lines = wrap(text[:2000], max(10, width - _LABEL - 2), indent="")
    for index, line in enumerate(lines):
        yield [(f" {label if index == 0 else '':<{_LABEL}}", "text--muted"), (line.rstrip(), style)]


def _kind(counter: CounterView) -> str:
    meaning = "the last id handed out" if counter.semantics is Semantics.LAST else "the next id to hand out"
    sure = "" if counter.confidence >= 1 else f", {counter.confidence:.0%} sure"
    return f"{counter.library or counter.shape}{sure}; field {counter.field} is {meaning}"


def _value(counter: CounterView) -> str:
    return f"{fmt.count(counter.value)} ({counter.type.value}), from {fmt.count(counter.start)}"


def ends(forecast: Forecast, now: datetime) -> str:
    """The early, likely and late date, or why there is none."""
    if forecast.naive is not None:
        far = forecast.naive - now > _DATED
        when = f"in {forecast.naive:%Y}" if far else fmt.day(forecast.naive)
        return f"{_lower(forecast.note)} At this rate {when} (no band)"
    if forecast.likely is None:
        note = forecast.note or ("not within this age" if forecast.far else "too early to say")
        return _lower(note).rstrip(".")
    if _is_there(forecast, now):
        return "already there"
    if forecast.early and forecast.late and forecast.late - now < _SOON:
        early, likely, late = (
            fmt.duration((moment - now).total_seconds()) for moment in (forecast.early, forecast.likely, forecast.late)
        )
        return (
            f"in about {likely}, {early} to {late} (80%): likely {fmt.clock(forecast.likely)}. {forecast.note}".rstrip()
        )
    return (
        f"in {fmt.time_left(forecast, now)}: likely {fmt.day(forecast.likely)}, "
        f"from {fmt.day(forecast.early)} to {fmt.day(forecast.late)} (80%). {forecast.note}"
    ).rstrip()


def _lower(note: str) -> str:
    return f"{note[:1].lower()}{note[1:]}"


def _is_there(forecast: Forecast, now: datetime) -> bool:
    return forecast.late is not None and forecast.late <= now


def outcome(counter: CounterView, now: datetime) -> str:
    """What becomes of a counter and when, as the words that follow its name: the first line of the page."""
    reason = grade(counter, LIMITS, now)[1]
    flags = [flag for flag in counter.flags if flag.value in reason]
    forecast, unsure = counter.forecast, "" if counter.may_alarm else ", if it is a counter"
    if flags and counter.may_alarm:
        return f"{flags[0].value}: {_lower(FLAG_HELP[flags[0]])}"
    if _is_there(forecast, now):
        return f"is at its end{unsure}"
    if forecast.early and forecast.likely:
        likely = fmt.duration((forecast.likely - now).total_seconds())
        band = fmt.time_left(forecast, now)
        return f"ends in about {likely}{f' ({band})' * ('..' in band)}{unsure}"
    return reason or f"is not dated: {fmt.time_left(forecast, now)}"


def _pool(counter: CounterView, now: datetime, width: int) -> Iterator[Line]:
    pool = counter.pool
    assert pool is not None
    yield from _fact("documents", f"{fmt.count(pool.documents)}, {fmt.count(pool.full)} full", width)
    for label, forecast in (("first full", pool.first_full), ("half full", pool.two_tries), ("empty", pool.empty)):
        yield from _fact(label, ends(forecast, now), width)


def _rate(counter: CounterView) -> str:
    parts = [f"{fmt.rate(counter.rate)} now"]
    if counter.forecast.rate is not None:
        parts.append(f"{fmt.rate(counter.forecast.rate)} over {counter.forecast.basis or 'all history'}")
    if counter.burn is not None and counter.burn < _ALL_BURNED:
        parts.append(f"{fmt.share(counter.burn)} without a document (never used, or deleted)")
    return " · ".join(parts)


def _stands_on(forecast: Forecast) -> str:
    return f"{fmt.duration(forecast.history_seconds)}, {fmt.plural(forecast.steps, 'step')} seen"


def _drift(counter: CounterView) -> str:
    drift = counter.drift or 0
    where = f" in {counter.target}" if counter.target else ""
    last = "largest" if counter.step > 0 else "smallest"
    if drift < 0:
        behind = ": the next insert collides" if Flag.BEHIND in counter.flags else ""
        return f"{fmt.count(-drift)} behind the {last} id{where}{behind}"
    return f"{fmt.count(drift)} ahead of the {last} id{where}"
