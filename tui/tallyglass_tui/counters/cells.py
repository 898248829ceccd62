"""One counter as the cells of the table: pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from rich.cells import cell_len

from tallyglass.counters.snapshot import CounterView
from tallyglass.counters.verdict import CRITICAL, WARNING, Thresholds, grade, nearest_limit
from tallyglass_tui import format as fmt
from tallyglass_tui.widgets.cells import fit, fit_middle
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column

_VERY_WIDE = 180
"""Above this width columns stay close together and the rest is left empty at the right, so that rows stay readable."""

# Widths in cells. `since` and `until`: the widths of the screen that show a column.
COLUMNS = (
    Column("mark", "", 2),
    Column("name", "counter", 17, flex=1, until=100),
    Column("ns", "namespace", 16, flex=2, since=100, until=_VERY_WIDE),
    Column("ns", "namespace", 40, since=_VERY_WIDE),
    Column("id", "id", 12, flex=2, since=100, until=_VERY_WIDE),
    Column("id", "id", 36, since=_VERY_WIDE),
    Column("value", "value", 13, flex=1, right=True, since=100, until=_VERY_WIDE, rank=2),
    Column("value", "value", 16, right=True, since=_VERY_WIDE, rank=2),
    Column("limit", "ids left until", 15, right=True, until=_VERY_WIDE, rank=1),
    Column("limit", "ids left until", 24, right=True, since=_VERY_WIDE, rank=1),
    Column("used", "used", 14, since=100, rank=4),
    Column("rate", "rate", 8, right=True, since=78, rank=3),
    Column("spark", "trend", 12, since=100, until=150, rank=5),
    Column("spark", "trend, from 0 to", 21, since=150, rank=5),
    Column("ends", "ends in", 7, right=True, since=78, rank=2),
    Column("likely", "likely end (UTC)", 16, since=150, rank=5),
    Column("left", fmt.ENDS, 11, right=True, until=78),
    Column("left", fmt.ENDS, 12, right=True, since=78),
    Column("why", "why", 10, until=100),
    Column("why", "why", 11, flex=1, since=100),
)
SORTS = ("urgency", "name", "value", "used", "rate", "left")
"""What rows can be sorted by: urgency is the order of the snapshot."""

LARGEST_FIRST = frozenset({"value", "used", "rate"})
"""Columns of which the largest is looked for; names begin with the first, times left with the shortest."""

_MARKS = {CRITICAL: ("!!", "table--bad"), WARNING: ("! ", "table--warn")}
_BAR_STYLES = {CRITICAL: "table--bad", WARNING: "table--warn"}
LIMITS = Thresholds()
"""What counts as urgent and as a warning."""

_PERCENT = 7
"""Cells of a share, with a space before it: `` >99.9%``."""
_LEAST_NAMESPACE = 4
"""Cells below which a namespace says nothing: then only the id is named."""
_WITH_SCALE = 20
"""Cells from which a trend has room for the rate of its highest bar: less would leave no bars."""
_POWERS = {"JavaScript": "2^53", "double": "2^53", "Decimal128": "10^34", "text": "digits"}


def level(counter: CounterView, now: datetime) -> int:
    """0 ok, 1 warning, 2 critical; what is unknown has no mark."""
    found = grade(counter, LIMITS, now)[0]
    return found if found in (WARNING, CRITICAL) else 0


def name(counter: CounterView) -> str:
    """Namespace and id in one."""
    return f"{counter.ns} {counter.id}" if counter.id else counter.ns


def short_name(counter: CounterView, width: int) -> str:
    """Namespace and id in one; if they do not fit, the namespace is shortened first, since ids distinguish counters."""
    whole = name(counter)
    room = width - cell_len(counter.id[:width]) - 1
    if cell_len(whole[: width + 1]) <= width or not counter.id or room < _LEAST_NAMESPACE:
        return fit_middle(whole, width)
    return f"{fit(counter.ns, room)} {counter.id}"


def cells(counter: CounterView, now: datetime, column: Column, width: int, plain: bool = False) -> Sequence[Piece]:
    """The pieces of one cell, ``width`` cells in all. ``plain`` keeps to ASCII."""
    if column.key == "mark":
        text, style = _MARKS.get(level(counter, now), ("  ", ""))
        return ((text, style),)
    if column.key == "used":
        bar = fmt.bar(counter.used, width - _PERCENT, plain) if width > _PERCENT else ""
        return (
            (bar, f"{_BAR_STYLES.get(level(counter, now), 'table--good')} table--bar"),
            (fit(fmt.share(counter.used), _PERCENT, right=True), ""),
        )
    text, style = _TEXTS[column.key](counter, now, width, plain)
    return ((fit(text, width, right=column.right), style),)


def _value(counter: CounterView, _: datetime, width: int, __: bool) -> tuple[str, str]:
    text = fmt.count(counter.value)
    return (text if len(text) <= width else fmt.short(counter.value)), ""


def _trend(counter: CounterView, width: int, plain: bool) -> str:
    """The last rates as bars; with the highest of them, which is the scale, where the column is wide."""
    most = max(counter.recent, default=0.0)
    scale = f" {fmt.rate(most):<8}" if width >= _WITH_SCALE and most else ""
    return fmt.spark(counter.recent, width - len(scale), plain) + scale


def _left(counter: CounterView, now: datetime, _: int, __: bool) -> tuple[str, str]:
    text = fmt.time_left(counter.forecast, now)
    return text, "" if counter.forecast.early else "table--muted"


def _ends(counter: CounterView, now: datetime, _: int, __: bool) -> tuple[str, str]:
    """The likely time until the end; with ~ the one at the rate so far, where it is too early for a band."""
    forecast = counter.forecast
    when = forecast.likely or forecast.naive
    if when is None:
        return "", ""
    return f"{'' if forecast.likely else '~'}{fmt.brief((when - now).total_seconds())}", ""


def _why(counter: CounterView, now: datetime, width: int, __: bool) -> tuple[str, str]:
    """Why it has a mark, in words that are never cut: its flags, the worst first; without any the share used, or that
    the end is near."""
    words = fmt.flags(counter, now)
    if not words and level(counter, now):
        words = [_reason(counter, now)]
    shown = words[:1]
    for word in words[1:]:
        if len(" ".join([*shown, word])) <= width:
            shown.append(word)
    return " ".join(shown), "table--warn"


def _reason(counter: CounterView, now: datetime) -> str:
    """Why a counter without a flag has a mark, in at most ten cells."""
    if counter.members is not None:
        near = next((n for share in (LIMITS.crit_used, LIMITS.warn_used) if (n := counter.members.above(share))), 0)
        return f"{fmt.short(near)} near" if near else "ends soon"
    if counter.near is not None:
        return "near limit"
    if counter.used is not None and level(replace(counter, used=None), now) < level(counter, now):
        return f"{fmt.share(counter.used)}"
    return "ends soon"


def _limit(counter: CounterView, now: datetime, width: int, __: bool) -> tuple[str, str]:
    nearest = nearest_limit(counter, now)
    if nearest is None:
        return "", ""
    word, left = nearest
    word = "max" if word.lower().startswith("max") else _POWERS.get(word, word)
    number = fmt.count(left)
    return f"{number if len(number) + 1 + len(word) <= width else fmt.short(left)} {word}", ""


_TEXTS: dict[str, Callable[[CounterView, datetime, int, bool], tuple[str, str]]] = {
    "name": lambda counter, _, width, __: (short_name(counter, width), ""),
    "ns": lambda counter, _, width, __: (fit_middle(counter.ns, width), ""),
    "id": lambda counter, _, width, __: (fit_middle(counter.id, width), ""),
    "value": _value,
    "limit": _limit,
    "rate": lambda counter, _, __, ___: (fmt.rate(counter.rate), ""),
    "spark": lambda counter, _, width, plain: (_trend(counter, width, plain), "table--muted table--bar"),
    "left": _left,
    "likely": lambda counter, *_: (fmt.day(counter.forecast.likely)[:-1] if counter.forecast.likely else "", ""),
    "ends": _ends,
    "why": _why,
}


def sort_key(by: str, now: datetime, *, descending: bool) -> Callable[[CounterView], tuple[bool, float | str]]:
    """The key that sorts counters by a column in this direction; what is unknown comes last in both."""

    def number(value: float | None) -> tuple[bool, float | str]:
        known = value is not None and value == value
        return (known == descending, value if value is not None and known else 0.0)

    def left(counter: CounterView) -> tuple[bool, float | str]:
        early = counter.forecast.early
        return number((early - now).total_seconds() if early else None)

    return {
        "name": lambda counter: (False, name(counter)),
        "value": lambda counter: number(float(counter.value)),
        "used": lambda counter: number(counter.used),
        "rate": lambda counter: number(counter.rate),
        "left": left,
    }[by]
