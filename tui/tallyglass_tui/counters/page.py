"""Counters: what runs out first, and when. A live table, and everything about one counter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Resize

from tallyglass.counters.check_line import GONE, vanished
from tallyglass.counters.snapshot import FLAG_HELP, CountersSnapshot, CounterView, MissingCounter
from tallyglass.counters.verdict import name_of
from tallyglass.mongo.gateway import Gateway
from tallyglass.text import clean
from tallyglass_tui import bound, clock
from tallyglass_tui import format as fmt
from tallyglass_tui.counters.cells import COLUMNS, LARGEST_FIRST, SORTS, cells, level, name, short_name
from tallyglass_tui.counters.detail import CounterDetail
from tallyglass_tui.counters.facts import ends, outcome
from tallyglass_tui.counters.glance import LEAST_HEIGHT, CounterGlance
from tallyglass_tui.counters.order import ArrangedRows, Listing, RowOrder, arrange, fold, words_of
from tallyglass_tui.counters.pool_map import shades
from tallyglass_tui.counters.table import CounterTable
from tallyglass_tui.shell.messages import CounterRequested, Visit
from tallyglass_tui.shell.page import NOTHING_SELECTED, Page
from tallyglass_tui.widgets.cells import fit_middle, whole_pieces
from tallyglass_tui.widgets.cursor_list import CursorList
from tallyglass_tui.widgets.input_line import InputLine
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column
from tallyglass_tui.widgets.row_list import RowList
from tallyglass_tui.widgets.text_line import TextLines

if TYPE_CHECKING:
    from tallyglass_tui.shell.context import Context

_AT_ONCE = 1_000
"""How many counters are filtered and sorted synchronously: it takes some milliseconds."""
_LOOKED_AT = 1_000
"""How many counters, most urgent first, are considered for the first line."""
_LEAST_NAME = 20
"""Cells that a name keeps beside what is said of it."""
_VERDICTS = {2: ("NOW  ", "text--bad"), 1: ("WARN ", "text--warn"), 0: ("FINE ", "text--good")}
"""The word before the counter that ends first, by its level."""
_BETWEEN = " ·"
_FILTER_PROMPT = "Filter: words that name, library or flags contain; !word excludes one."
_NONE_YET = "Looking for counters in the databases that this user may read."
_NONE = (
    "No counter was found in the collections that this user may read.",
    "A counter is a document whose number hands out ids, such as {_id: 'orders', seq: 41}. One that is not "
    "recognised can be named in counters.toml; tallyglass doctor lists what this user may not see.",
)


def _watch(gateway: Gateway, context: Context) -> AsyncIterator[CountersSnapshot]:
    """The feed; imported in the background thread, since the driver comes with it."""
    from tallyglass.counters.follow.settings import WatchSettings
    from tallyglass.counters.follow.watch import watch

    return watch(gateway, replace(context.watch or WatchSettings(), building=context.building))


class CountersPage(Page):
    """The table of all counters, most urgent first, and the detail of one."""

    TITLE = "Counters"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "sort", "Sort", id="counters.sort", tooltip="Sort by the next column"),
        Binding("S", "reverse", "Reverse sort", show=False, id="counters.reverse", tooltip="Reverse sort"),
        Binding("N", "sort_by('name')", "Sort by name", show=False, id="counters.by_name"),
        Binding("V", "sort_by('value')", "Sort by value", show=False, id="counters.by_value"),
        Binding("U", "sort_by('used')", "Sort by used", show=False, id="counters.by_used"),
        Binding("R", "sort_by('rate')", "Sort by rate", show=False, id="counters.by_rate"),
        Binding("T", "sort_by('left')", "Sort by end", show=False, id="counters.by_left"),
        Binding("o", "oplog", "Oplog", show=False, id="counters.oplog", tooltip="See the oplog when it last changed"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._snapshot: CountersSnapshot | None = None
        self._order = RowOrder()
        self._arranged = ArrangedRows()
        self._listing = Listing()
        self._unfolded: frozenset[str] = frozenset()
        self._arranging = False
        self._filter = ""
        self._opened = ""

    def compose_body(self) -> ComposeResult:
        """A summary, the table or the detail, and the filter line."""
        plain = self.shell.plain_glyphs
        yield TextLines(id="summary")
        yield CounterTable(COLUMNS, id="counters")
        yield CounterGlance(plain)
        yield CounterDetail(plain)
        yield InputLine(id="filter")

    def start(self) -> None:
        """Start the feed of the counters."""
        context = self.shell.context
        self.subscribe(self.feeds.follow("counters", lambda gateway: _watch(gateway, context)), self.show_snapshot)
        self._show_table()

    def visit(self, message: Visit) -> None:
        """Open the counter that the palette found."""
        if isinstance(message, CounterRequested):
            self._open(message.key)

    def on_resize(self, _: Resize) -> None:
        """Show or hide the lower half."""
        self._show_table()

    @on(CursorList.Moved)
    def _moved(self) -> None:
        self._show_glance()

    def show_snapshot(self, snapshot: CountersSnapshot) -> None:
        """Show a new snapshot."""
        before = self._opened_counter
        self._snapshot = snapshot
        if before is not None and self._opened_counter is None:
            gone = (one.absence for one in snapshot.missing if (one.ns, one.id) == (before.ns, before.id))
            self._open("")
            self.say(f"{name(before)} is {next(gone, 'not among the counters any more')}.")
        self._arrange()
        self._show_detail()

    @property
    def data_age(self) -> float | None:
        """Seconds since the counters were last read."""
        return (clock.now() - self._snapshot.read_at).total_seconds() if self._snapshot else None

    @property
    def trouble(self) -> str:
        """What could not be read."""
        if self._snapshot is None:
            return ""
        lines = [trouble.text for trouble in self._snapshot.troubles]
        lines += [f"In your file: {sentence}" for sentence in self._snapshot.unmatched]
        lines += [f"{one.ns} {one.id}: known, and now {one.absence}." for one in self._snapshot.missing]
        more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
        return lines[0] + more if lines else ""

    def help_notes(self) -> Sequence[str]:
        """What the columns and flags mean."""
        return (
            "The first line is the counter to look at now. ends (80%) is a band: with 80% certainty the counter ends "
            "between the early and the late date. Too early: the history cannot carry a date yet; ~ is then the date "
            "at the rate so far. Idle: no id was handed out in it. !! is urgent (a flag such as BEHIND, 90% used, or "
            "under 30 days to the early date), ! is a warning (75%, 90 days, other flags). Fine is the rest; not "
            "sure is what may be no counter. "
            f"{bound.key('list.open', 'Enter')} unfolds a line that stands for many.",
            f"The map of a pool has a cell for each document, by its used share: {shades(self.shell.plain_glyphs)}.",
            *(f"{flag.value}: {text}" for flag, text in FLAG_HELP.items()),
        )

    def to_copy(self) -> tuple[str, str] | None:
        """The repair where the opened counter has one, else its line in words."""
        counter = self._opened_counter or self._selected
        if counter is None:
            return None
        if self._opened and counter.repair:
            return "the repair", counter.repair
        now = clock.now()
        left = ends(counter.forecast, now)
        return "the counter", f"{name(counter)}: {fmt.count(counter.value)}, {fmt.share(counter.used)} used, {left}"

    @property
    def can_go_back(self) -> bool:
        """From the detail, and from a filter."""
        return bool(self._opened or self._filter)

    def back(self) -> None:
        """From the detail to the table, then clear the filter."""
        if self._opened:
            self._open("")
        else:
            self._set_filter("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Sorting is for the table."""
        if action in ("sort", "sort_by", "reverse"):
            return not self._opened
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        """Open the filter line."""
        self._open("")
        self.query_one(InputLine).open(_FILTER_PROMPT, self._set_filter, self._filter, live=True)

    def action_sort(self) -> None:
        """Sort by the next column."""
        self.action_sort_by(SORTS[(SORTS.index(self._order.by) + 1) % len(SORTS)])

    def action_sort_by(self, by: str) -> None:
        """Sort by a column, the most interesting first; by the same column again, the other way round."""
        descending = not self._order.descending if by == self._order.by else by in LARGEST_FIRST
        self._order = replace(self._order, by=by, descending=descending)
        self._arrange()

    def action_reverse(self) -> None:
        """Reverse the order of the rows."""
        self._order = replace(self._order, descending=not self._order.descending)
        self._arrange()

    def action_oplog(self) -> None:
        """Open the oplog at the moment when the value last changed."""
        counter = self._opened_counter or self._selected
        if counter is None:
            self.say(NOTHING_SELECTED)
        elif counter.at is not None:
            self.shell.open_oplog(counter.at)
        else:
            self.say("Its value has not changed since it was first read.")

    @on(RowList.Chosen)
    def _chosen(self, message: RowList.Chosen) -> None:
        if message.chosen in self._listing.folded:
            self._unfolded ^= {str(message.chosen)}
            self._show_table()
        else:
            self._open(str(message.chosen))

    @property
    def _selected(self) -> CounterView | None:
        cursor, counters = self.query_one(CounterTable).cursor, self._listing.counters
        return counters[cursor] if cursor < len(counters) else None

    @property
    def _opened_counter(self) -> CounterView | None:
        counters = self._snapshot.counters if self._snapshot and self._opened else ()
        return next((counter for counter in counters if counter.key == self._opened), None)

    def _set_filter(self, text: str) -> None:
        self._filter = text
        self._order = replace(self._order, words=words_of(text))
        self._arrange()
        self.give_keys(self.query_one(CounterTable))
        self.refresh_bindings()

    def _arrange(self) -> None:
        """Filter and sort: few counters at once, many in the background while the old rows stay on the screen."""
        snapshot = self._snapshot
        if snapshot is None or len(snapshot.counters) <= _AT_ONCE:
            counters, now = (snapshot.counters, snapshot.at) if snapshot else ((), clock.now())
            self._arranged = arrange(counters, self._order, self._arranged, now)
        elif not self._arranging:
            self._arranging = True
            self._arrange_in_background()
        self._show_table()

    @work(group="counters-order")
    async def _arrange_in_background(self) -> None:
        """Repeat as long as a key or a snapshot arrived meanwhile."""
        done: CountersSnapshot | None = None
        try:
            while self._snapshot and (done is not self._snapshot or self._arranged.order != self._order):
                done, order, before = self._snapshot, self._order, self._arranged
                self._arranged = await asyncio.to_thread(arrange, done.counters, order, before, done.at)
                self._show_table()
        finally:
            self._arranging = False

    def _open(self, key: str) -> None:
        self._opened = key
        opened = self._opened_counter
        self.query_one(CounterDetail).display = opened is not None
        self.query_one(CounterTable).display = opened is None
        self.query_one("#summary").display = opened is None
        self._show_glance()
        if opened is None:
            self._opened = ""
            self.give_keys(self.query_one(CounterTable))
            self._show_table()
        else:
            self._show_detail()
            self.give_keys(self.query_one(CounterDetail).keys_for(opened))
        self.refresh_bindings()

    def _show_detail(self) -> None:
        opened = self._opened_counter
        if opened is not None and self._snapshot:
            self.query_one(CounterDetail).show(opened, self._snapshot.at)

    def _show_table(self) -> None:
        table = self.query_one(CounterTable)
        if not table.display:
            return
        self._listing = listing = fold(self._arranged, self._unfolded)
        plain = self.shell.plain_glyphs
        now = self._snapshot.at if self._snapshot else clock.now()

        def cell(index: int, column: Column, width: int) -> Sequence[Piece]:
            counter = listing.counters[index]
            return cells(counter, now, column, width, plain) if counter is not None else ()

        table.sorted_by, table.descending = self._arranged.order.by, self._arranged.order.descending
        table.show_listing(listing, self._unfolded, cell, self._empty_text())
        self.query_one("#summary", TextLines).show(*self._summary(now), grow=True)
        self._show_glance()

    def _show_glance(self) -> None:
        """The selected counter in the lower half, where the page is high enough for both."""
        glance, selected = self.query_one(CounterGlance), self._selected
        # On the line of a group the last counter stays: a lower half that comes and goes would move the table.
        shown = bool(self._listing.keys) and not self._opened and self.size.height >= LEAST_HEIGHT
        if glance.display != shown:
            glance.display = shown
        if shown and selected is not None and self._snapshot:
            glance.show(selected, self._snapshot.at)

    def _empty_text(self) -> tuple[str, ...]:
        snapshot, deployment = self._snapshot, self.shell.deployment
        if deployment and deployment.no_data_because():
            return (deployment.no_data_because(),)
        if snapshot is None or (snapshot.discovering and not snapshot.counters):
            return (_NONE_YET,)
        if self._filter and snapshot.counters:
            more = self._arranged.groups.more
            none = f"None of {fmt.plural(len(snapshot.counters), 'row')} matches the filter."
            none += f" {more:,} counters of a group have no row of their own." * bool(more)
            return (f"{none} {bound.key('page.back', 'Esc')} clears it.",)
        return _NONE

    def _summary(self, now: datetime) -> Iterator[list[Piece]]:
        """What ends first and when, then how many of each group there are, and what is shown of them."""
        snapshot, order, shown = self._snapshot, self._order, self._arranged
        if snapshot is None:
            yield [(" Looking for counters ...", "text--muted")]
            return
        gone = vanished(snapshot)
        if snapshot.counters or gone:
            yield _outlook(snapshot.counters[:_LOOKED_AT], gone, now, self.size.width)
        groups = shown.groups
        counted = fmt.plural(len(snapshot.counters) + groups.more, "counter")
        pieces: list[Piece] = [(f" {counted}:" if snapshot.counters or gone else f" {counted}", "")]
        if self._filter:
            rows = f"{len(shown.rows):,}" if shown.order == order else "..."
            pieces.append((f" {rows} with '{clean(self._filter, 30)}' ·", "text--warn"))
        counts = (
            (groups.urgent, "urgent", "text--bad"),
            (len(gone), "gone", "text--warn"),
            (groups.warned, "warning" if groups.warned == 1 else "warnings", "text--warn"),
            (groups.fine + groups.more_fine, "fine", ""),
            (groups.unsure, "not sure", "text--muted"),
        )
        named = [(f" {count:,} {word}", style) for count, word, style in counts if count]
        pieces += [piece for one in named for piece in (one, (_BETWEEN, "text--muted"))][:-1]
        sorting = "sorting " * (shown.order != order) + order.in_words
        if sorting:
            pieces.append((f" · {sorting}", "text--muted"))
        if snapshot.discovering:
            looked = f"{snapshot.collections_looked:,} of {fmt.plural(snapshot.collections_seen, 'collection')}"
            pieces.append((f" · searched {looked} so far", "text--muted"))
        fitting = whole_pieces(pieces, self.size.width)
        yield fitting[:-1] if fitting[-1][0] == _BETWEEN else fitting


def _outlook(counters: Sequence[CounterView], gone: Sequence[MissingCounter], now: datetime, width: int) -> list[Piece]:
    """Which counter ends first and when, or which is gone, or why none is named."""
    first = _first(counters, now)
    if gone and (first is None or level(first, now) == 0):
        word, style = _VERDICTS[1]
        called = fit_middle(name_of(gone[0]), max(_LEAST_NAME, width - len(GONE) - 9)).rstrip()
        return [(f" {word} ", style), (called, "text--title"), (f": {GONE}", "")]
    if first is not None:
        word, style = _VERDICTS[level(first, now)]
        what = outcome(first, now)
        room = max(_LEAST_NAME, width - len(what) - 8)
        called = short_name(first, min(len(name(first)), room))
        return [(f" {word} ", style), (called.strip(), "text--title"), (f" {what}", "")]
    if any(not one.forecast.far and (one.forecast.rate or one.rate is None) for one in counters):
        return [(" too early to say what runs out first", "text--muted")]
    word, style = _VERDICTS[0]
    return [(f" {word} ", style), ("no end in sight", "")]


def _first(counters: Sequence[CounterView], now: datetime) -> CounterView | None:
    """The counter to name first: the most urgent, else the one that ends first. Of guesses only one near a limit."""
    known = [counter for counter in counters if counter.may_warn]
    worst = next((one for wanted in (2, 1) for one in known if level(one, now) == wanted), None)
    dated = [counter for counter in known if counter.forecast.early]
    return worst or min(dated, key=lambda one: one.forecast.early or now, default=None)
