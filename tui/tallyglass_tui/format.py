"""Numbers, durations and dates as text for people. Pure; imports only the standard library and core.

Unknown is ``?`` everywhere, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tallyglass import text
from tallyglass.counters.snapshot import CounterView, Forecast
from tallyglass.counters.verdict import Thresholds, crossing_warnings
from tallyglass.errors import InputError
from tallyglass.moment import parse_time
from tallyglass.text import plural as plural
from tallyglass_tui.clock import now as present

if TYPE_CHECKING:
    from tallyglass.oplog.snapshot import OplogWindow

UNKNOWN = "?"
ENDS = "ends (80%)"
"""The title of :func:`time_left` in every list of counters."""
IDLE = "idle"
"""For the time left of a counter from which nothing was taken while it was watched."""
TOO_EARLY = "too early"
"""There is a rate, but not yet enough history for a date."""

_MINUTE, _HOUR, _DAY, _YEAR = 60.0, 3600.0, 86400.0, 365.25 * 86400.0
"""Seconds."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = " ▁▂▃▄▅▆▇█"
_PLAIN_LEVELS = " ..::-=+#"
_FAR_YEARS = 1000
"""Years beyond which a number of them says no more than "never"."""


def count(number: float | None) -> str:
    """A whole number with thousands separators: ``5,000,123``. Beyond 24 digits in powers of ten."""
    if number is None or number != number:
        return UNKNOWN
    if number in (float("inf"), float("-inf")) or abs(number) >= 1e24:
        return f"{number:.3g}"
    return f"{int(number):,}" if number == int(number) else f"{number:,.2f}"


def short(number: float | None) -> str:
    """A number in at most five characters: ``999``, ``12.3k``, ``4.56M``, ``7.8e20``."""
    if number is None or number != number:
        return UNKNOWN
    size = abs(number)
    if size < 1000:
        return f"{number:.0f}"
    for unit, scale in (("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)):
        if size < 999.5 * scale:
            value = number / scale
            digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
            return f"{value:.{digits}f}{unit}"
    return f"{number:.1e}".replace("e+", "e")


def rate(per_second: float | None) -> str:
    """Ids or operations a second, in the unit that reads best: ``12.3/s``, ``4.1/min``, ``2.0/h``, ``3/d``,
    ``<0.1/d``, ``0/s``."""
    if per_second is None or per_second != per_second:
        return UNKNOWN
    if per_second == 0:
        return "0/s"
    if 0 < per_second * _DAY < 0.05:
        return "<0.1/d"
    for unit, seconds in (("s", 1.0), ("min", _MINUTE), ("h", _HOUR), ("d", _DAY)):
        value = per_second * seconds
        if abs(value) >= 1 or unit == "d":
            if abs(value) >= 1000:
                return f"{short(value)}/{unit}"
            return f"{value:.0f}/{unit}" if abs(value) >= 100 else f"{value:.1f}/{unit}"
    return UNKNOWN


def share(part: float | None) -> str:
    """A share of 0..1 in percent, never rounded up to full or down to nothing."""
    if part is None or part != part:
        return UNKNOWN
    percent = part * 100
    if 0 < percent < 0.1:
        return "<0.1%"
    if 99.9 < percent < 100:
        return ">99.9%"
    return f"{percent:.1f}%" if percent < 99.95 else f"{percent:.0f}%"


def bar(part: float | None, width: int, plain: bool = False) -> str:
    """A horizontal bar of ``width`` cells, in eighths; a dotted one where the share is unknown.

    ``plain`` keeps to ASCII, for a terminal without such characters.
    """
    if part is None or part != part:
        return ("." if plain else "·") * width
    eighths = round(min(1.0, max(0.0, part)) * width * 8)
    if part > 0:
        eighths = max(1, eighths)
    if part < 1:
        eighths = min(eighths, width * 8 - 1)
    full, rest = divmod(eighths, 8)
    if plain:
        return ("#" * full + ("-" if rest else "")).ljust(width)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def spark(values: Sequence[float], width: int, plain: bool = False) -> str:
    """The last ``width`` values as bars on a scale from zero, right-aligned."""
    levels = _PLAIN_LEVELS if plain else _LEVELS
    shown = [max(0.0, value) if math.isfinite(value) else 0.0 for value in values[-width:]]
    top = max(shown, default=0.0)
    if top <= 0:
        return (levels[1] * len(shown)).rjust(width)
    return "".join(levels[max(1, round(value / top * 8))] for value in shown).rjust(width)


def size(number: float | None) -> str:
    """Bytes: ``512 B``, ``1.5 MB`` (powers of 1,000)."""
    if number is None:
        return UNKNOWN
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if abs(number) < 999.5 or unit == "TB":
            return f"{number:.0f} {unit}" if unit == "B" or abs(number) >= 99.95 else f"{number:.1f} {unit}"
        number /= 1000
    return UNKNOWN


def duration(seconds: float | None) -> str:
    """About how long, as :func:`tallyglass.text.duration` words it; ``?`` where it is unknown."""
    return UNKNOWN if seconds is None or seconds != seconds else text.duration(seconds)


def brief(seconds: float) -> str:
    """A span in one unit: ``45s``, ``12m``, ``5h``, ``3.2d``, ``86d``, ``4.2y``, ``>999y``."""
    seconds = max(0.0, seconds)
    for unit, scale, until in (("s", 1.0, 90), ("m", _MINUTE, 90), ("h", _HOUR, 48), ("d", _DAY, 730)):
        value = seconds / scale
        if value < until:
            return f"{value:.1f}{unit}" if unit in "hd" and value < 9.95 else f"{value:.0f}{unit}"
    years = seconds / _YEAR
    return f"{years:.1f}y" if years < 9.95 else f"{years:.0f}y" if years < _FAR_YEARS else ">999y"


def time_left(forecast: Forecast, now: datetime) -> str:
    """Early..late until the end, such as ``12d..19d``; in words where no date can be given."""
    if forecast.far:
        return ">999y" if forecast.rate else IDLE
    if forecast.early is None and forecast.late is None:
        return TOO_EARLY if forecast.rate else UNKNOWN
    early = brief((forecast.early - now).total_seconds()) if forecast.early else UNKNOWN
    late = brief((forecast.late - now).total_seconds()) if forecast.late else ">999y"
    return early if early == late else f"{early}..{late}"


def flags(counter: CounterView, now: datetime) -> list[str]:
    """The flags of a counter, the worst first, and ``int32`` if 2^31 is near: a column of its own says how near."""
    words = [flag.value for flag in counter.flags]
    if any(crossing_warnings(counter, Thresholds(), now)):
        words.append("int32")
    return words


def moment(when: datetime | None) -> str:
    """A date in UTC to the second: ``2026-11-20 18:06:14Z``."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z" if when else UNKNOWN


def day(when: datetime | None) -> str:
    """A date in UTC to the minute: ``2026-11-20 18:06Z``."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M}Z" if when else UNKNOWN


def clock(when: datetime | None) -> str:
    """A time of day in UTC: ``18:06:14Z``."""
    return f"{when.astimezone(UTC):%H:%M:%S}Z" if when else UNKNOWN


def since(when: datetime) -> str:
    """When something began that lasts: ``Since 18:06:14Z``, with the date where that is a day ago or more."""
    return f"Since {clock(when) if present() - when < timedelta(days=1) else moment(when)}"


def local(when: datetime | None) -> str:
    """A date in this machine's zone, with its offset: ``2026-11-20 19:06:14 +0100``."""
    try:
        return f"{when.astimezone():%Y-%m-%d %H:%M:%S %z}" if when else UNKNOWN
    except (OverflowError, ValueError):  # in this zone it is outside the years 1 to 9999
        return UNKNOWN


def ago(when: datetime | None, now: datetime) -> str:
    """How long before ``now``: ``3 d 4 h ago``, ``in 5 min``, or ``now``."""
    if when is None:
        return UNKNOWN
    seconds = (now - when).total_seconds()
    if abs(seconds) < 0.5:
        return "now"
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def oplog_ahead(window: OplogWindow) -> str:
    """How far back the oplog will reach at its recent growth, the one wording of every page; empty where that is
    unknown, or about what it is now."""
    hours = window.forecast_hours
    if hours is None:
        return ""
    if window.hours is not None and hours < window.hours / 2:  # less would come and go with each reading of the growth
        return f"shrinks to about {duration(hours * 3600)}"
    return "" if window.is_full else f"about {duration(hours * 3600)} once it is full"


def typed_time(when: datetime) -> str:
    """What a typed time means: in UTC, local, and its age."""
    return f"{moment(when)} = {local(when)} local, {ago(when, present())}"


def time_meaning(text: str) -> str:
    """What a text means as a time, or why it cannot be read yet."""
    try:
        return typed_time(parse_time(text, present()))
    except InputError as error:
        return str(error)
