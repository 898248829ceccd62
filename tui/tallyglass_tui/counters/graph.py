"""The graph of one counter as text: its past, the band of its future, and the ceiling. Pure.

Time runs from the first point of the history to the late end of the band, or a few times the history where the
end is further off. The past is drawn in dots two to a cell across and four down (braille), or ``*`` in plain text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise

from tallyglass_tui import format as fmt
from tallyglass_tui.widgets.cells import joined
from tallyglass_tui.widgets.line_view import Piece

_LABEL, _WIDE_LABEL = 7, 20
"""Cells of the axis, at least and at most: the line keeps two thirds of 60 columns."""
_REACH = 8.0
"""How many times the span of the history the graph looks ahead, where the end is further than that."""
_BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bits of the dots of a Braille character (U+2800), by column and row."""
_SMALLEST = (24, 5)
"""Columns and rows below which no graph is drawn: a band would be a few cells."""


@dataclass(frozen=True, slots=True)
class Band:
    """The end as seconds since 1970: early, likely and late."""

    early: float
    likely: float
    late: float


@dataclass(frozen=True, slots=True)
class _Scale:
    t0: float
    t1: float
    v0: float
    v1: float
    width: int
    height: int

    def x(self, t: float) -> float:
        return (t - self.t0) / (self.t1 - self.t0) * self.width

    def y(self, v: float) -> float:
        return (1 - (v - self.v0) / (self.v1 - self.v0)) * self.height

    def time_at(self, column: float) -> float:
        return self.t0 + (self.t1 - self.t0) * column / self.width


def graph(
    history: Sequence[tuple[float, float]],
    ceiling: float | None,
    band: Band | None,
    now: float,
    size: tuple[int, int],
    *,
    whole: bool = False,
    plain: bool = False,
) -> list[list[Piece]]:
    """Lines of pieces, ``size`` cells in all: the graph, and a line of times below it.

    ``history`` is (seconds since 1970, value), oldest first. ``whole`` draws all of it, and up to the late end; else
    neither side of now is drawn much longer than the other. Empty where there is too little history or room.
    """
    if len(history) < 2 or history[-1][0] <= history[0][0]:
        return []
    if band and band.late <= now:
        # It is over: its few seconds would leave no room for the past.
        band = None
    scale = _scale(history, ceiling, band, now, size, whole)
    whole_numbers = _exact_width(scale, ceiling)
    label = whole_numbers or _LABEL
    width, height = size[0] - label, size[1] - 1
    if width < _SMALLEST[0] or height < _SMALLEST[1]:
        return []
    scale = replace(scale, width=width, height=height)
    grid = [[(" ", "")] * width for _ in range(height)]
    if band and ceiling is not None:
        _draw_band(grid, scale, history[-1], band, ceiling, plain)
    _draw_past(grid, scale, history, plain)
    if ceiling is not None and scale.v0 <= ceiling <= scale.v1:
        row = min(height - 1, max(0, int(scale.y(ceiling))))
        grid[row] = [("-" if plain else "─", "graph--ceiling") if cell == (" ", "") else cell for cell in grid[row]]
    column = int(scale.x(now))
    if 0 <= column < width:
        for line in grid:
            if line[column][0] == " ":
                line[column] = ("|" if plain else "┊", "graph--axis")
    labels = _labelled(grid, scale, ceiling, label, exact=bool(whole_numbers))
    return [*labels, _times(scale, now, label)]


def legend(*, band: bool, plain: bool) -> list[Piece]:
    """The legend of the graph, and its time zone."""
    past, line, shade, likely = "*-.o" if plain else "⠤─░▒"
    pieces: list[Piece] = [
        (f" {past} ", "graph--past"),
        ("past  ", ""),
        (f"{line} ", "graph--ceiling"),
        ("ceiling  ", ""),
    ]
    if band:
        pieces += [(f"{likely} ", "graph--likely"), ("likely  ", ""), (f"{shade} ", "graph--band"), ("80% sure  ", "")]
    return [*pieces, ("times are UTC", "graph--axis")]


def _exact_width(scale: _Scale, ceiling: float | None) -> int:
    """The width of whole numbers at the axis, where the short form of two of them would read the same; 0 elsewhere."""
    shown = [scale.v0, (scale.v0 + scale.v1) / 2, scale.v1]
    if ceiling is not None and scale.v0 < ceiling <= scale.v1:
        shown[2] = ceiling
    if len({fmt.short(value) for value in shown}) == len(shown):
        return 0
    return max(_LABEL, min(_WIDE_LABEL, len(fmt.count(int(max(map(abs, shown))))) + 2))


def _scale(
    history: Sequence[tuple[float, float]],
    ceiling: float | None,
    band: Band | None,
    now: float,
    size: tuple[int, int],
    whole: bool,
) -> _Scale:
    begin, last = history[0][0], history[-1]
    if band and not whole:
        begin = max(begin, now - max(band.late - now, 1.0) * _REACH)
    span = max(last[0] - begin, now - begin, 1.0)
    end = now + span / 4
    if band:
        end = band.late if whole else min(band.late, now + span * _REACH)
        end = max(end, now + span / 8)
    values = [value for at, value in history if at >= begin] or [last[1]]
    low, high = min(values), max(values)
    if band and ceiling is not None:
        reached = last[1] + (ceiling - last[1]) * min(1.0, (end - last[0]) / max(1.0, band.early - last[0]))
        low, high = min(low, reached), max(high, reached)
    low = min(low, high - max(1.0, abs(high) * 1e-9))
    return _Scale(begin, end + (end - begin) * 0.02, low, high + (high - low) * 0.06, *size)


def _draw_past(grid: list[list[Piece]], scale: _Scale, history: Sequence[tuple[float, float]], plain: bool) -> None:
    dots: dict[tuple[int, int], int] = {}
    across, down = (1, 1) if plain else (2, 4)
    for (t, v), (next_t, next_v) in pairwise(history):
        x, next_x = scale.x(t) * across, scale.x(next_t) * across
        y, next_y = scale.y(v) * down, scale.y(next_v) * down
        steps = min(2000, max(1, int(max(abs(next_x - x), abs(next_y - y)))))
        for step in range(steps + 1):
            px, py = int(x + (next_x - x) * step / steps), int(y + (next_y - y) * step / steps)
            if 0 <= px < scale.width * across and 0 <= py < scale.height * down:
                cell = (px // across, py // down)
                dots[cell] = dots.get(cell, 0) | (1 if plain else _BRAILLE[px % 2][py % 4])
    for (column, row), bits in dots.items():
        grid[row][column] = ("*" if plain else chr(0x2800 + bits), "graph--past")


def _draw_band(
    grid: list[list[Piece]], scale: _Scale, last: tuple[float, float], band: Band, ceiling: float, plain: bool
) -> None:
    for column in range(max(0, int(scale.x(last[0]))), scale.width):
        t = scale.time_at(column + 0.5)
        rows = [scale.y(_line(t, last, end, ceiling)) for end in (band.early, band.likely, band.late)]
        if t > band.late:
            continue
        # A counter that descends is the lower the earlier it ends.
        for row in range(max(0, int(min(rows))), min(scale.height - 1, int(max(rows))) + 1):
            grid[row][column] = ("." if plain else "░", "graph--band")
        middle = int(rows[1])
        if t <= band.likely and 0 <= middle < scale.height:
            grid[middle][column] = ("o" if plain else "▒", "graph--likely")


def _line(t: float, last: tuple[float, float], end: float, ceiling: float) -> float:
    """The value at ``t`` on the straight line from the last point to the ceiling at ``end``."""
    share = (t - last[0]) / max(1.0, end - last[0])
    return last[1] + (ceiling - last[1]) * min(1.0, max(0.0, share))


def _labelled(
    grid: list[list[Piece]], scale: _Scale, ceiling: float | None, width: int, *, exact: bool
) -> list[list[Piece]]:
    format_value = (lambda value: fmt.count(int(value))) if exact else fmt.short
    labels = {0: scale.v1, len(grid) // 2: (scale.v0 + scale.v1) / 2, len(grid) - 1: scale.v0}
    if ceiling is not None and scale.v0 <= ceiling <= scale.v1:
        row = min(len(grid) - 1, max(0, int(scale.y(ceiling))))
        same = format_value(ceiling)
        labels = {key: value for key, value in labels.items() if abs(key - row) > 1 and format_value(value) != same}
        labels[row] = ceiling
    return [
        [
            (f"{format_value(labels[row]) if row in labels else '':>{width - 1}} "[-width:], "graph--axis"),
            *joined(line),
        ]
        for row, line in enumerate(grid)
    ]


def _times(scale: _Scale, now: float, label: int) -> list[Piece]:
    span = scale.t1 - scale.t0
    pattern = "%H:%M:%S" if span < 3 * 3600 else "%d %b %H:%M" if span < 20 * 86400 else "%Y-%m-%d"
    marks = [(0, _stamp(scale.t0, pattern)), (int(scale.x(now)), "now"), (scale.width, _stamp(scale.t1, pattern))]
    line = [" "] * (scale.width + label)
    for index in (0, 2, 1):
        column, text = marks[index]
        start = max(0, min(column + label - (len(text) // 2 if index == 1 else 0), len(line) - len(text)))
        if all(character == " " for character in line[max(0, start - 1) : start + len(text) + 1]):
            line[start : start + len(text)] = text
    return [("".join(line), "graph--axis")]


def _stamp(t: float, pattern: str) -> str:
    try:
        return f"{datetime.fromtimestamp(t, UTC):{pattern}}"
    except (ValueError, OverflowError, OSError):
        return "far"
