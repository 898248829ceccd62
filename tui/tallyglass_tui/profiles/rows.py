"""The rows of the overview, and the lines about one profile. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from tallyglass.counters.verdict import CRITICAL
from tallyglass.deployment.members import SetMember
from tallyglass.text import clean, clean_name
from tallyglass_tui import format as fmt
from tallyglass_tui.profiles.overview import Overview, ProfileState, hours_left
from tallyglass_tui.shell.status_line import is_unwell, member_letters
from tallyglass_tui.widgets.cells import at_most, fit, fit_middle, whole_pieces, wrap_words
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column

# Widths in cells.
COLUMNS = (
    Column("mark", "", 2),
    Column("name", "profile", 12, flex=2),
    Column("members", "members", 9, rank=1),
    Column("counter", "worst counter", 14, flex=3, rank=3),
    Column("left", fmt.ENDS, 13, right=True),
    Column("oplog", "oplog", 7, right=True),
    Column("drill", "drill", 9, right=True, rank=2),
)
FACTS = 7
"""Lines about the profile under the cursor: a name, five facts, and what this user may not read."""
_SHORT_OPLOG_HOURS = 24.0
"""Hours of oplog below which it is marked: a mistake of last evening may be out of reach in the morning."""
_STYLES = ("", "table--warn", "table--bad")


def severity(state: ProfileState, now: datetime) -> int:
    """0 is healthy or not known yet, 1 needs a look, 2 needs action."""
    if state.problem:
        return 2
    unwell = state.deployment is not None and is_unwell(state.deployment)
    failed = state.drill is not None and state.drill.made is not None and not state.drill.proved
    holes = state.drill is not None and state.drill.window is not None and state.drill.window.status != 0
    old = state.drill is not None and state.drill.is_old(now)
    some = unwell or failed or holes or old or state.gone or _is_short(state)
    return max(state.level, 1 if some else 0)


def cell(state: ProfileState, now: datetime, column: Column, width: int) -> Sequence[Piece]:
    """One cell. A profile that does not answer says so across the columns, which are then unknown."""
    text, style = _cell(state, now, column.key, width)
    return ((fit(text, width, right=column.right), style),)


def _cell(state: ProfileState, now: datetime, key: str, width: int) -> tuple[str, str]:
    if key == "mark":
        level = severity(state, now)
        return ("", " !", "!!")[level], _STYLES[level]
    if key == "name":
        return f"{clean_name(state.name, 60)}", "table--bad" if state.problem else ""
    if state.problem:
        return (clean(state.problem, 200), "table--bad") if key == "counter" else (fmt.UNKNOWN, "table--muted")
    return _known_cell(state, now, key, width)


def _known_cell(state: ProfileState, now: datetime, key: str, width: int) -> tuple[str, str]:
    deployment = state.deployment
    if deployment is None:
        return ("...", "table--muted")
    if key == "members":
        letters = member_letters(deployment.members) if deployment.members else str(deployment.kind)
        return letters, "table--warn" if is_unwell(deployment) else ""
    if key == "oplog":
        return _oplog(state), "table--warn" if _is_short(state) else ""
    if key == "drill":
        return _drill(state, now)
    counter = state.counter
    if _gone_first(state):
        return (fit_middle(state.gone[0], width).rstrip() if key == "counter" else "gone"), "table--warn"
    if counter is None:
        searching = "searching" if state.searching else "none" if state.counters == 0 else fmt.UNKNOWN
        return (searching if key == "counter" else "", "table--muted")
    if key == "left":
        return fmt.time_left(counter.forecast, now), _STYLES[state.level]
    return fit_middle(f"{counter.ns} {counter.id}", width).rstrip(), _STYLES[state.level]


_ATTENTION = (
    ("cannot be read", "text--bad"),
    ("urgent", "text--bad"),
    ("look at", "text--warn"),
    ("unknown in part", "text--warn"),
)


def _attention(state: ProfileState, now: datetime) -> tuple[str, str] | None:
    """The words of the summary for a profile, with their style; None for one that is well or not known yet."""
    if state.problem:
        return _ATTENTION[0]
    level = severity(state, now)
    return _ATTENTION[3 - level] if level or state.lacking else None


def summary(states: Overview | None, now: datetime) -> list[Piece]:
    """The summary in one line: which profile needs attention."""
    if states is None:
        return [(" Reading all profiles ...", "text--muted")]
    pieces: list[Piece] = [(f" {fmt.plural(len(states), 'profile')}", "")]
    found = [(_attention(state, now), clean_name(state.name, 20)) for state in states]
    for words in _ATTENTION:
        if names := [name for attention, name in found if attention == words]:
            pieces.append((f" · {words[0]}: {', '.join(names)}", words[1]))
    reading = sum(not state.problem and (state.deployment is None or state.searching) for state in states)
    if reading:
        pieces.append((f" · {reading} still being read", "text--muted"))
    elif len(pieces) == 1:
        pieces.append((" · all well", "text--good"))
    return pieces


def facts(state: ProfileState | None, now: datetime, width: int) -> list[list[Piece]]:
    """At most :data:`FACTS` lines about the profile under the cursor."""
    if state is None:
        return []
    lines: list[list[Piece]] = [
        [(f" {clean_name(state.name, 40)}", "text--title"), (f"  {state.where}", "text--muted")]
    ]
    room = max(20, width - 11)
    if state.problem:
        shown = at_most(wrap_words(_problem(state), room), FACTS - 1, room)
        return [*lines, *([(" " * 10, ""), (text, "text--bad")] for text in shown)]
    return [*lines, *(_fact(label, text, room, style) for label, text, style in _known_facts(state, now))]


def _problem(state: ProfileState) -> str:
    """Why it cannot be read, since when, and when it last could."""
    since = f"{fmt.since(state.since)}. " if state.since else ""
    last = f" It last answered at {fmt.moment(state.at)}." if state.at else ""
    return f"{since}{clean(state.problem, 400)}{last}"


def _known_facts(state: ProfileState, now: datetime) -> Iterator[tuple[str, str, str]]:
    """The label, the text and the style of each fact that is known."""
    deployment, counter, window, drill = state.deployment, state.counter, state.window, state.drill
    if deployment:
        members = ", ".join(map(_member, deployment.members))
        yield "server", f"{deployment.title} {deployment.version}{': ' if members else ''}{members}", ""
    if _gone_first(state):
        text = f"{state.gone[0]}{_more(state.gone)} is gone: the next use repeats ids"
        yield "counter", text, "text--warn"
    elif counter:
        # Short enough that the end of a counter with a usual name fits on 80 columns.
        name, left = f"{counter.ns} {counter.id}".rstrip(), fmt.time_left(counter.forecast, now)
        gone = f" ({len(state.gone):,} gone)" if state.gone else ""
        text = f"first of {state.counters or 0:,}{gone}: {name}, {fmt.share(counter.used)} used, {fmt.ENDS}: {left}"
        yield "counter", text, _STYLES[state.level].replace("table", "text")
    if window:
        text = ", ".join(filter(None, (f"reaches {_hours(window.hours)} back", fmt.oplog_ahead(window))))
        yield "oplog", text, "text--warn" if _is_short(state) else ""
    elif deployment:
        unread = "not readable" if state.lacking or not state.searching else "not read yet"
        yield "oplog", deployment.no_oplog_because() or unread, ""
    if drill:
        none = "none from this machine and user"
        yield "drill", f"{fmt.ago(drill.made, now)}: {drill.title}" if drill.made else none, ""
        if recoverable := drill.window:
            text = f"{fmt.ago(recoverable.made, now)}: {recoverable.line}"
            yield "window", text, "" if recoverable.status == 0 else "text--warn"
    if state.lacking:
        yield "unknown", f"{clean(state.lacking[0], 300)}{_more(state.lacking)}", "text--warn"


def _more(texts: Sequence[str]) -> str:
    return f" (and {len(texts) - 1:,} more)" if len(texts) > 1 else ""


def _gone_first(state: ProfileState) -> bool:
    """Whether a counter that is gone is worse than those that are there."""
    return bool(state.gone) and state.level < CRITICAL


def _member(member: SetMember) -> str:
    lag = member.lag_seconds or 0.0
    behind = f" {fmt.brief(lag)} behind" if lag >= 1 else ""
    return f"{member.address} {member.state.lower() or 'unknown'}{behind}"


def in_words(state: ProfileState, now: datetime) -> str:
    """One line for the clipboard."""
    if state.problem:
        return f"{state.name}: {state.problem}"
    keys = [column for column in COLUMNS if column.key not in ("mark", "name")]
    return f"{state.name}: " + ", ".join(
        f"{one.title} {_cell(state, now, one.key, 120)[0] or fmt.UNKNOWN}" for one in keys
    )


def _fact(label: str, text: str, room: int, style: str) -> list[Piece]:
    """A line that is cut between its parts, not within a number."""
    first, *more = text.split(", ")
    parts = [(first, style), *((f", {part}", style) for part in more)]
    return [
        (f" {label:<9}", "text--muted"),
        *((fit(part, room).rstrip(), look) for part, look in whole_pieces(parts, room)),
    ]


def _oplog(state: ProfileState) -> str:
    if state.window is None:
        has_none = state.deployment is not None and not state.deployment.has_oplog and not state.lacking
        return "none" if has_none and not state.searching else fmt.UNKNOWN
    return _hours(
        min((hours for hours in (state.window.hours, state.window.reach_hours) if hours is not None), default=None)
    )


def _hours(hours: float | None) -> str:
    return fmt.duration(hours * 3600) if hours is not None else fmt.UNKNOWN


def _is_short(state: ProfileState) -> bool:
    return state.window is not None and hours_left(state.window) < _SHORT_OPLOG_HOURS


def _drill(state: ProfileState, now: datetime) -> tuple[str, str]:
    drill = state.drill
    if drill is None:
        return fmt.UNKNOWN, "table--muted"
    if drill.made is None:
        return "none", "table--muted"
    age = fmt.brief((now - drill.made).total_seconds())
    if not drill.proved:
        return f"{age} bad", "table--bad"
    return f"{age} ok", "table--warn" if drill.is_old(now) else ""
