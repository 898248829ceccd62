"""Everything about one counter: the facts in words, its graph, and what they rest on; for a pool its map."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widget import Widget

from tallyglass.counters.snapshot import CounterView
from tallyglass_tui import bound
from tallyglass_tui.counters.facts import Line, background, facts
from tallyglass_tui.counters.glance import CounterLines, graph_of
from tallyglass_tui.counters.pool_map import PoolMapWidget
from tallyglass_tui.shell.page import Page

_LEAST_GRAPH = 7
"""Rows of the graph at least: legend, axis and five for the line."""


class CounterText(CounterLines, can_focus=True):
    """The facts, the graph in the room that is left, and what they rest on. Scrolls where it does not fit."""

    DEFAULT_CSS = """
    CounterText { height: 1fr; }
    CounterText.-pool { height: auto; max-height: 60%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "scroll_by(1)", "Down", show=False, id="counter.down", tooltip="Scroll down"),
        Binding("up,k", "scroll_by(-1)", "Up", show=False, id="counter.up", tooltip="Scroll up"),
        Binding("pagedown,space", "scroll_by(8)", "Page down", show=False, id="counter.pagedown", tooltip="Page down"),
        Binding("pageup", "scroll_by(-8)", "Page up", show=False, id="counter.pageup", tooltip="Page up"),
        Binding("home,g", "scroll_by(-1000)", "First", show=False, id="counter.first", tooltip="To the beginning"),
        Binding("end,G", "scroll_by(1000)", "Last", show=False, id="counter.last", tooltip="To the end"),
        Binding("z", "zoom", "Zoom", id="counter.zoom", tooltip="Show the whole history, or the part near now"),
    ]

    def __init__(self, plain: bool) -> None:
        super().__init__(plain)
        self._whole = False

    def show(self, counter: CounterView, now: datetime) -> None:
        """Show this counter as it is at ``now``."""
        if self._shown is None or self._shown[0].key != counter.key:
            self._first = 0
        self.set_class(counter.pool is not None, "-pool")
        if counter.pool is not None:
            width = max(20, self.size.width or self.app.size.width)
            lines = len(self.lines(counter, now, (width, 0)))
            if self.styles.height is None or self.styles.height.value != lines:
                self.styles.height = lines
        else:
            self.styles.height = None
        super().show(counter, now)

    def action_scroll_by(self, lines: int) -> None:
        """Scroll the text by a number of lines."""
        most = max(0, len(self._built) - self.content_size.height)
        self._first = max(0, min(self._first + lines, most))
        self.show_changes()

    def action_zoom(self) -> None:
        """Draw the whole past up to the late end, or only the part near now."""
        self._whole = not self._whole
        self._rebuild()
        self.show_changes()

    def lines(self, counter: CounterView, now: datetime, size: tuple[int, int]) -> list[Line]:
        """The facts, the graph unless it is a pool, and what they rest on: all of it if it fits, else only its first
        line, which shows that there is more."""
        width, height = size
        first, rest = [*facts(counter, now, width, self._plain)], [*background(counter, width)]
        if counter.pool is None:
            room = height - len(first)
            beside = room - len(rest)
            room = beside if beside > _LEAST_GRAPH else max(room - 1, _LEAST_GRAPH + 1)
            drawn = graph_of(counter, now, (width, room), whole=self._whole, plain=self._plain)
            first += drawn or [[], [(" A graph needs two samples of the value.", "text--muted")], []]
        return [*first, *rest]


class CounterDetail(Vertical):
    """The text and, for a pool, the map."""

    DEFAULT_CSS = """
    CounterDetail { height: 1fr; display: none; }
    CounterDetail PoolMapWidget { display: none; }
    CounterDetail.-pool PoolMapWidget { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("s,S,N,V,U,R,T", "sort", show=False)]

    def __init__(self, plain: bool = False) -> None:
        super().__init__()
        self._plain = plain

    def compose(self) -> ComposeResult:
        """Text above, map below."""
        yield CounterText(self._plain)
        yield PoolMapWidget(plain=self._plain)

    def show(self, counter: CounterView, now: datetime) -> None:
        """Show this counter as it is at ``now``."""
        self.set_class(counter.pool is not None, "-pool")
        self.query_one(CounterText).show(counter, now)
        self.query_one(PoolMapWidget).show(counter.pool)

    def action_sort(self) -> None:
        """Say where the keys that sort work."""
        cast("Page", self.screen).say(f"Sorting works on the list: {bound.key('page.back', 'Esc')} goes back to it.")

    def keys_for(self, counter: CounterView) -> Widget:
        """The widget that takes the keys: the map, if there is one."""
        return self.query_one(PoolMapWidget if counter.pool is not None else CounterText)
