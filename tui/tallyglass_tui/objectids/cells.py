"""ObjectIds and moments as cells and lines: pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tallyglass.errors import InputError
from tallyglass.moment import parse_time
from tallyglass.objectid import ObjectIdParts, first_of, last_of, range_filter
from tallyglass_tui import clock
from tallyglass_tui import format as fmt
from tallyglass_tui.widgets.cells import fit, whole_pieces
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column

# Widths in cells. `since` and `until`: the widths of the screen that show a column.
COLUMNS = (
    Column("hex", " ObjectId", 25),
    Column("utc", "made (UTC)", 20),
    Column("ago", "", 14, flex=1, until=118),
    Column("ago", "", 14, since=118),
    Column("counter", "counter", 10, right=True),
    Column("random", "process", 11, since=92),
    Column("local", "local", 25, flex=1, since=118),
)

RANGE = ".."
"""The separator of the two moments of a range."""


def cell(parts: ObjectIdParts, now: datetime, column: Column, width: int) -> Sequence[Piece]:
    """One cell of the table."""
    text = {
        "hex": f" {parts.hex}",
        "utc": fmt.moment(parts.time),
        "ago": fmt.ago(parts.time, now),
        "counter": fmt.count(parts.counter),
        "random": parts.random_hex,
        "local": fmt.local(parts.time),
    }[column.key]
    style = {"ago": "table--good" if parts.time <= now else "table--warn", "random": "table--muted"}
    return ((fit(text, width, right=column.right), style.get(column.key, "")),)


def facts(parts: ObjectIdParts, now: datetime, same_process: int, width: int) -> list[list[Piece]]:
    """Three lines about one id; ``same_process`` counts the shown ids with the same random part, itself included."""
    others = f" ({fmt.plural(same_process - 1, 'other')} here)" if same_process > 1 else ""
    time: list[Piece] = [
        (" time     ", "text--muted"),
        (fmt.moment(parts.time), "text--title"),
        (f"  {fmt.local(parts.time)} local", ""),
    ]
    if parts.time > now:
        time.insert(2, ("  ahead of this clock", "text--warn"))
    lines: list[list[Piece]] = [
        time,
        [
            (" process  ", "text--muted"),
            (f"{parts.random_hex}{others}", ""),
            (f" · before 2018: machine {parts.machine:06x}, pid {parts.pid}", "text--muted"),
        ],
        [
            (" counter  ", "text--muted"),
            (f"{parts.counter:,}", ""),
            (" · counts up from a random start", "text--muted"),
            (", one count a process", "text--muted"),
        ],
    ]
    return [whole_pieces(line, width) for line in lines]


@dataclass(frozen=True, slots=True)
class Span:
    """A moment, or the range from one to another, exclusive. ``text`` is what was typed."""

    text: str
    start: datetime
    end: datetime

    @property
    def filter(self) -> str:
        """The mongosh filter for the ids of this range."""
        return range_filter(self.start, self.end)

    @property
    def first(self) -> str:
        """The lowest id of the second in which it starts."""
        return first_of(self.start)

    @property
    def last(self) -> str:
        """The highest id of the second in which it ends."""
        return last_of(self.end - timedelta(microseconds=1))


def parse_span(text: str, now: datetime | None = None) -> Span:
    """Read ``moment`` or ``moment .. moment``. A single moment reaches until now, or over its own second.

    Raises InputError, also for what no ObjectId has.
    """
    now = (now or clock.now()).replace(microsecond=0)
    left, divided, right = text.partition(RANGE)
    start = parse_time(left, now)
    first_of(start)
    alone = now if start < now else start + timedelta(seconds=1)
    end = parse_time(right or "now", now) if divided else alone
    first_of(end)
    span = Span(text.strip(), start, end)
    if end <= start:
        raise InputError("That range is empty: its end is not after its start.", "Write the earlier moment first.")
    _ = span.filter, span.last
    return span


def span_lines(span: Span, width: int) -> list[list[Piece]]:
    """The range in two lines: in UTC with its length, and local, with one offset where there is no room for two."""
    start, end = fmt.local(span.start), fmt.local(span.end)
    if len(start) + len(end) + 14 > width and start[-6:] == end[-6:]:
        start = start[:-6]
    return [
        whole_pieces(
            [
                (" moment   ", "text--muted"),
                (f"{fmt.moment(span.start)} .. {fmt.moment(span.end)}", "text--title"),
                (f"  {fmt.duration((span.end - span.start).total_seconds())}", ""),
            ],
            width,
        ),
        [(" local    ", "text--muted"), (f"{start} .. {end}", "")],
    ]
