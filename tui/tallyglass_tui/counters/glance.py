"""The selected counter below the table, where the terminal is high enough: its end, the last hour, and its graph."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from tallyglass.counters.snapshot import CounterView, Forecast
from tallyglass_tui import format as fmt
from tallyglass_tui.counters.cells import name
from tallyglass_tui.counters.facts import Line, background, ends, facts
from tallyglass_tui.counters.graph import Band, graph, legend
from tallyglass_tui.widgets.cells import fit, fit_middle
from tallyglass_tui.widgets.line_view import LineView, Piece

LEAST_HEIGHT = 34
"""The least height of the page at which the lower half is given to the selected counter."""

_HOUR = 3600.0
"""Seconds."""
_COARSE = 600.0
"""Seconds between two readings from which the growth within an hour is only about right."""
_TREND = 40
"""Bars of the trend at most: half of 80 columns leaves room for its scale."""
_MOST_NAME = 60
"""Cells of a name in the title of the lower half."""


def band_of(forecast: Forecast) -> Band | None:
    """The band for a graph, None where the forecast has no dates. Without a late date it ends some way after likely."""
    if not (forecast.early and forecast.likely):
        return None
    early, likely = forecast.early.timestamp(), forecast.likely.timestamp()
    return Band(early, likely, forecast.late.timestamp() if forecast.late else likely + 2 * (likely - early))


def glance(counter: CounterView, now: datetime, size: tuple[int, int], plain: bool = False) -> list[Line]:
    """At most ``size`` cells about one counter, the answer first."""
    width, height = size
    title = f" {fit_middle(name(counter), _MOST_NAME).rstrip()} "
    rule = "-" if plain else "─"
    lines: list[Line] = [[(rule * 2, "text--muted"), (title, "text--title"), (rule * width, "text--muted")]]
    if counter.pool is not None or counter.members is not None:
        _, *answers = facts(counter, now, width, plain)  # without the title
        return [*lines, *answers, *background(counter, width)][:height]
    lines.append([(fit(f" runs out   {ends(counter.forecast, now)}", width), "")])
    lines += date_bar(counter.forecast, now, width, plain)
    lines.append([(fit(f" lately     {lately(counter, now)}", width), "")])
    if counter.recent:
        most = max(counter.recent)
        trend = fmt.spark(counter.recent, min(_TREND, len(counter.recent)), plain)
        lines.append([(f" trend      {trend}  bars from 0 to {fmt.rate(most)}", "")])
    lines += graph_of(counter, now, (width, height - len(lines)), plain=plain)
    return lines[:height]


def graph_of(
    counter: CounterView, now: datetime, size: tuple[int, int], *, whole: bool = False, plain: bool = False
) -> list[Line]:
    """The legend and the graph, ``size`` cells in all; empty where there is too little history or room."""
    band = band_of(counter.forecast)
    ceiling = float(counter.ceiling.value) if counter.ceiling else None
    width, height = size
    drawn = graph(counter.history, ceiling, band, now.timestamp(), (width, height - 1), whole=whole, plain=plain)
    return [legend(band=band is not None, plain=plain), *drawn] if drawn else []


def date_bar(forecast: Forecast, now: datetime, width: int, plain: bool) -> Iterator[Line]:
    """The time from now to the late end as a bar, and the dates below it; nothing without a band."""
    if not (forecast.early and forecast.likely and forecast.late) or forecast.late <= now:
        return
    room = width - 2
    span = (forecast.late - now).total_seconds()
    marks = [("now", now), *_dates(forecast)]
    places = [round((max(when, now) - now).total_seconds() / span * (room - 1)) for _, when in marks]
    line, shade, likely = "-.o" if plain else "─░▒"
    bar = line * places[1] + shade * (room - places[1])
    yield [
        (f" {bar[: places[1]]}", "graph--axis"),
        (bar[places[1] : places[2]], "graph--band"),
        (likely, "graph--likely"),
        (bar[places[2] + 1 :], "graph--band"),
    ]
    yield [(f" {_under(places, [text for text, _ in marks], room)}", "graph--axis")]


def _dates(forecast: Forecast) -> Iterator[tuple[str, datetime]]:
    for word, when in (("early", forecast.early), ("likely", forecast.likely), ("late", forecast.late)):
        if when is not None:
            yield f"{word} {fmt.day(when)}", when


def _under(places: Sequence[int], texts: Sequence[str], width: int) -> str:
    """The texts in one line, each as near to its place as the others allow; the first goes where there is no room."""
    while len(texts) > 1 and sum(map(len, texts)) + 2 * (len(texts) - 1) > width:
        places, texts = places[1:], texts[1:]
    starts: list[int] = []
    for place, text in zip(places, texts, strict=True):
        least = starts[-1] + len(texts[len(starts) - 1]) + 2 if starts else 0
        starts.append(max(least, place - len(text) // 2))
    end = width
    for number in range(len(texts) - 1, -1, -1):
        starts[number] = max(0, min(starts[number], end - len(texts[number])))
        end = starts[number] - 2
    line = ""
    for start, text in zip(starts, texts, strict=True):
        line = f"{line:<{start}}{text}"
    return line[:width]


def lately(counter: CounterView, now: datetime) -> str:
    """How far the value moved in the last hour and in the one before, and when it moved last."""
    at, history = now.timestamp(), counter.history
    if len(history) < 2:
        return "no change seen yet" if counter.at is None else f"last change {fmt.ago(counter.at, now)}"
    parts: list[str] = []
    last, hour = history[-1][1], _value_at(history, at - _HOUR)
    if hour is None:
        since = fmt.clock(datetime.fromtimestamp(history[0][0], UTC))
        parts.append(f"{_change(last - history[0][1])} since {since}")
    else:
        about = "about " if _is_coarse(history, at - _HOUR) else ""
        parts.append(f"{about}{_change(last - hour)} in the last hour")
        before = _value_at(history, at - 2 * _HOUR)
        if before is not None:
            parts.append(f"{about}{_change(hour - before)} in the hour before")
    if counter.at is not None:
        parts.append(f"last change {fmt.ago(counter.at, now)}")
    return " · ".join(parts)


def _change(number: float) -> str:
    return "no change" if round(number) == 0 else f"{round(number):+,}"


def _value_at(history: Sequence[tuple[float, float]], at: float) -> float | None:
    """The value on the line between two points; None before the first."""
    if at < history[0][0]:
        return None
    index = min(max(1, bisect_left(history, (at, float("-inf")))), len(history) - 1)
    (t0, v0), (t1, v1) = history[index - 1], history[index]
    return v0 + (v1 - v0) * min(1.0, max(0.0, (at - t0) / (t1 - t0))) if t1 > t0 else v1


def _is_coarse(history: Sequence[tuple[float, float]], at: float) -> bool:
    index = min(max(1, bisect_left(history, (at, float("-inf")))), len(history) - 1)
    return history[index][0] - history[index - 1][0] > _COARSE


class CounterLines(LineView):
    """Lines about one counter, with its graph; ``_first`` is the first that is shown."""

    DEFAULT_CSS = """
    CounterLines > .graph--axis { color: $text-muted; }
    CounterLines > .graph--past { color: $accent; }
    CounterLines > .graph--band { color: $warning; }
    CounterLines > .graph--likely { color: $warning; text-style: bold; }
    CounterLines > .graph--ceiling { color: $error; }
    CounterLines:ansi > .graph--axis { color: ansi_default; text-style: dim; }
    """
    COMPONENT_CLASSES = {"graph--axis", "graph--past", "graph--band", "graph--likely", "graph--ceiling"}  # noqa: RUF012

    def __init__(self, plain: bool) -> None:
        super().__init__()
        self._plain = plain
        self._shown: tuple[CounterView, datetime] | None = None
        self._built: list[Line] = []
        self._first = 0

    def show(self, counter: CounterView, now: datetime) -> None:
        """Show this counter as it is at ``now``."""
        self._shown = counter, now
        self._rebuild()
        self.show_changes()

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """One line of what :meth:`show` built."""
        if y == 0:
            self._rebuild()
        index = self._first + y
        return self._built[index] if index < len(self._built) else ()

    def lines(self, counter: CounterView, now: datetime, size: tuple[int, int]) -> list[Line]:
        """The lines for a width and a height."""
        return glance(counter, now, size, self._plain)

    def _rebuild(self) -> None:
        width, height = self.content_size
        if self._shown is not None and width:
            self._built = self.lines(*self._shown, (width, height))
            self._first = max(0, min(self._first, len(self._built) - height))


class CounterGlance(CounterLines):
    """The lower half of the page. It takes no keys: Enter on the row opens all of it."""

    DEFAULT_CSS = "CounterGlance { height: 50%; display: none; }"
