"""The parts of ``tallyglass check`` about the oplog: does it reach far enough back, and what can be restored?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tallyglass.counters.check_line import LEVEL_NAMES
from tallyglass.counters.verdict import CRITICAL, OK, UNKNOWN, WARNING, worst_of
from tallyglass.errors import InputError, TallyglassError
from tallyglass.text import clean
from tallyglass_tui.cli.headless import ask
from tallyglass_tui.cli.options import ConnectionOptions
from tallyglass_tui.cli.restore.window import WindowOptions, answer

if TYPE_CHECKING:
    from tallyglass.oplog.snapshot import OplogWindow


@dataclass(frozen=True, slots=True)
class OplogHours:
    """Below ``warn`` hours of reach is a warning, below ``crit`` critical; None asks for neither."""

    warn: float | None = None
    crit: float | None = None

    def __post_init__(self) -> None:
        if self.warn is not None and self.crit is not None and self.warn < self.crit:
            raise InputError(
                "A warning has to come before the critical state.",
                "Give an --oplog-hours-warn above --oplog-hours-crit.",
            )


def grade_window(window: OplogWindow, limits: OplogHours) -> tuple[int, str, str]:
    """The level, a sentence, and perfdata."""
    hours = window.reach_hours
    if hours is None:
        hours = window.hours
    if hours is None:
        return UNKNOWN, "oplog window not readable", ""
    level = OK
    if limits.warn is not None and hours < limits.warn:
        level = WARNING
    if limits.crit is not None and hours < limits.crit:
        level = CRITICAL
    words = f"oplog reaches {hours:,.1f} h back"
    forecast, now = window.forecast_hours, window.hours
    if forecast is not None and now is not None and forecast < now:
        words = f"oplog reaches {now:,.1f} h back, {forecast:,.1f} h at the recent rate"
    elif forecast is not None and now is not None and not window.is_full:
        words = f"oplog reaches {now:,.1f} h back, {forecast:,.1f} h once it is full"
    warn, crit = (f"{limit:g}:" if limit is not None else "" for limit in (limits.warn, limits.crit))
    return level, words, f"oplog_hours={hours:.2f};{warn};{crit};0"


def with_oplog(line: str, level: int, given: ConnectionOptions, limits: OplogHours, seconds: float) -> tuple[str, int]:
    """The line and level of the counters together with those of the oplog: the worse level counts."""
    from tallyglass.oplog.read.window import window

    try:
        own, words, perfdata = grade_window(ask(given, lambda gateway: window(gateway, recent=True), seconds), limits)
    except TallyglassError as error:
        own, words, perfdata = UNKNOWN, f"oplog: {clean(str(error), 200)}".replace("|", "/"), ""
    return worse_of(line, level, own, words, perfdata)


def with_restore(
    line: str, level: int, given: ConnectionOptions, options: WindowOptions, seconds: float
) -> tuple[str, int]:
    """The line and level so far together with those of the recoverable window: the worse level counts."""
    try:
        found = answer(given, options, seconds)
    except TimeoutError:
        late = "The backups and slices were not read in time. Raise --timeout, or run restore window."
        return worse_of(line, level, UNKNOWN, f"restore: {late}", "")
    except TallyglassError as error:
        return worse_of(line, level, UNKNOWN, f"restore: {clean(str(error), 200)}".replace("|", "/"), "")
    return worse_of(line, level, found.status, f"restore: {found.words}", found.perfdata)


def worse_of(line: str, level: int, own: int, words: str, perfdata: str) -> tuple[str, int]:
    """A line and its level with a part added: the worse level counts."""
    worse = worst_of((level, own))
    title, _, rest = line.partition(" - ")
    text, bar, data = rest.partition("|")
    service = title.split()[0] if title else "COUNTERS"
    first = f"{service} {LEVEL_NAMES[worse]} - {words}; {text.strip()}"
    return f"{first} |{f' {data.strip()}' if bar else ''} {perfdata}".rstrip(" |"), worse
