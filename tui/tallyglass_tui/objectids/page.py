"""ObjectIds: what an id says, and which ids belong to a time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Paste, Resize

from tallyglass.errors import InputError
from tallyglass.moment import FORMS, iso
from tallyglass.objectid import ObjectIdParts, decode, find_all
from tallyglass_tui import bound, clock
from tallyglass_tui import format as fmt
from tallyglass_tui.objectids import cells as id_cells
from tallyglass_tui.shell.messages import ObjectIdsRequested, Tick, Visit
from tallyglass_tui.shell.page import Page
from tallyglass_tui.widgets.cells import hanging, wrap_words
from tallyglass_tui.widgets.input_line import InputLine
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column, LiveTable
from tallyglass_tui.widgets.pick_list import Item, PickList
from tallyglass_tui.widgets.row_list import RowList
from tallyglass_tui.widgets.text_line import TextLines

_MOST_IDS = 1_000
"""More rows than anyone reads; the rest is counted."""
_START_MOMENT = "now-1d .. now"


class PasteLine(InputLine):
    """An input line that submits a pasted text of several lines at once."""

    def on_paste(self, event: Paste) -> None:
        """Submit several lines; one line is inserted."""
        if len(event.text.splitlines()) > 1:
            event.prevent_default()
            event.stop()
            self.submit(event.text)


class ObjectIdsPage(Page):
    """A table of the ids that were pasted, the parts of one, and a moment with its ids."""

    TITLE = "ObjectIds"
    DEFAULT_CSS = """
    ObjectIdsPage LiveTable:blur > .table--here { background: $background; text-style: none; }
    ObjectIdsPage LiveTable:ansi:blur > .table--here { background: ansi_default; text-style: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("i", "type_ids", "Type ids", id="objectids.type", tooltip="Type or paste ids"),
        Binding("m", "type_moment", "Moment", id="objectids.moment", tooltip="Type a moment, or two with .. between"),
        Binding("o", "oplog", "Oplog", id="objectids.oplog", tooltip="See the oplog when this id was made"),
        Binding("c", "clear", "Clear", show=False, id="objectids.clear", tooltip="Clear the ids"),
        Binding(
            "tab",
            "other",
            "Other list",
            show=False,
            id="objectids.other",
            tooltip="Switch between the ids and the moment",
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._ids: tuple[ObjectIdParts, ...] = ()
        self._left_out = 0
        self._span: id_cells.Span | None = None

    def compose_body(self) -> ComposeResult:
        """The table, the facts of one id, and the moment."""
        yield TextLines(id="summary")
        yield LiveTable(id_cells.COLUMNS, id="ids")
        yield TextLines(id="facts")
        yield TextLines(id="moment-title")
        yield PickList(id="moment")
        yield PasteLine(id="input")

    def start(self) -> None:
        """Nothing is read from the server here."""
        self._show()
        self._show_moment()
        self.give_keys(self.query_one(LiveTable))

    def visit(self, message: Visit) -> None:
        """Show the ids or the time that the palette found."""
        if isinstance(message, ObjectIdsRequested):
            self._take(message.text)

    def help_notes(self) -> Sequence[str]:
        """What the parts mean, and the forms of a moment."""
        return (
            "An ObjectId is 4 bytes of seconds since 1970, 5 random bytes of the process that made it, and a 3-byte "
            "counter. Drivers before 2018 put a machine hash and a process id into the middle instead.",
            f"A moment is {FORMS}. Two moments with .. between them make a range.",
        )

    def on_resize(self, _: Resize) -> None:
        """Make room for the lines of the filter, which wraps on a narrow screen."""
        self._show()
        self._show_moment()

    def on_tick(self, _: Tick) -> None:
        """Keep the ages up to date."""
        self._show()

    def to_copy(self) -> tuple[str, str] | None:
        """The item of the moment, or the line of the id."""
        moment = self.query_one("#moment", PickList)
        if moment.has_focus and moment.selected:
            return moment.selected.key, moment.selected.copy
        parts = self._selected
        return ("the id and its time", f"{parts.hex} {iso(parts.time)}") if parts else None

    def on_paste(self, event: Paste) -> None:
        """Take a text that was pasted anywhere on the page."""
        try:
            self._take(event.text)
        except InputError as error:
            self.say(str(error))

    def action_type_ids(self) -> None:
        """Open the line for ids."""
        self._input.open("Ids: any text that contains ObjectIds", self._submit_ids)

    def action_type_moment(self) -> None:
        """Open the line for a moment."""
        self._input.open(
            f"Time: {FORMS}; a range has .. between two",
            self._submit_time,
            self._span.text if self._span else _START_MOMENT,
            describe=_meaning,
        )

    def action_oplog(self) -> None:
        """Open the oplog when the id was made."""
        if self._selected:
            self.shell.open_oplog(self._selected.time)
        else:
            self.say("No ids yet.")

    def action_clear(self) -> None:
        """Remove all ids from the page."""
        self._ids, self._left_out = (), 0
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While text is being typed, Tab stays in its line."""
        if action == "other":
            return not self.query_one(PasteLine).has_focus
        return super().check_action(action, parameters)

    def action_other(self) -> None:
        """To the other list."""
        table, moment = self.query_one(LiveTable), self.query_one("#moment", PickList)
        if self._span is not None:
            self.give_keys(moment if table.has_focus else table)

    def _submit_ids(self, text: str) -> None:
        if text.strip():
            self._take(text)
            self.give_keys(self.query_one(LiveTable))

    def _submit_time(self, text: str) -> None:
        if text.strip():
            self._ask_span(text)

    @on(RowList.Moved)
    def _moved(self) -> None:
        self._show_facts(clock.now())

    @on(RowList.Chosen)
    def _chosen(self) -> None:
        if self._selected:
            self._set_span(iso(self._selected.time))

    @property
    def _selected(self) -> ObjectIdParts | None:
        cursor = self.query_one(LiveTable).cursor
        return self._ids[cursor] if cursor < len(self._ids) else None

    @property
    def _input(self) -> PasteLine:
        return self.query_one(PasteLine)

    def _take(self, text: str) -> None:
        """Add the ids of a text above the existing ones. A text without ids may be a time.

        Raises InputError if it is neither.
        """
        found = find_all(text)
        if not found:
            try:
                self._ask_span(text[:200])
            except InputError:
                raise InputError("That text contains no ObjectId: 24 hexadecimal digits.") from None
            return
        self.say("")
        known = [parts.hex for parts in self._ids]
        every = [*found, *(digits for digits in known if digits not in set(found))]
        self._left_out = max(0, len(every) - _MOST_IDS)
        self._ids = tuple(decode(digits) for digits in every[:_MOST_IDS])
        self._show()
        self.query_one(LiveTable).action_go(0)
        self.give_keys(self.query_one(LiveTable))

    def _ask_span(self, text: str) -> None:
        """Show a moment that was asked for; the keys go to its ids, the first of which ``y`` then copies."""
        self._set_span(text)
        self.give_keys(self.query_one("#moment", PickList))

    def _set_span(self, text: str) -> None:
        self._span = id_cells.parse_span(text)
        self._show_moment()

    def _show(self) -> None:
        ids, now = self._ids, clock.now()

        def cell(index: int, column: Column, width: int) -> Sequence[Piece]:
            return id_cells.cell(ids[index], now, column, width)

        type_ids, type_moment = bound.key("objectids.type", "i"), bound.key("objectids.moment", "m")
        how = (
            "Paste any text with ObjectIds in it, anywhere on this page: a log line, a document, a list.",
            f"{type_ids} types ids. {type_moment} types a moment, for the ids that it begins with.",
        )
        self.query_one(LiveTable).show([parts.hex for parts in ids], cell, how)
        self.query_one("#summary", TextLines).show(self._summary())
        self._show_facts(now)

    def _summary(self) -> list[Piece]:
        if not self._ids:
            return [(" What an ObjectId says, and which ids belong to a time", "text--muted")]
        times = [parts.time for parts in self._ids]
        processes = len({parts.random_hex for parts in self._ids})
        pieces: list[Piece] = [(f" {fmt.plural(len(self._ids), 'ObjectId')}", "")]
        if len(self._ids) > 1:
            span = fmt.duration((max(times) - min(times)).total_seconds())
            pieces.append((f" over {span}, of {fmt.plural(processes, 'process', 'processes')}", "text--muted"))
        if self._left_out:
            pieces.append((f" · {self._left_out:,} more left out", "text--warn"))
        return pieces

    def _show_facts(self, now: datetime) -> None:
        parts = self._selected
        same = sum(other.random_hex == parts.random_hex for other in self._ids) if parts else 0
        lines = self.query_one("#facts", TextLines)
        lines.styles.height = 3 if parts else 0
        lines.show(*(id_cells.facts(parts, now, same, self.app.size.width) if parts else []))

    def _show_moment(self) -> None:
        """The ids of the moment, once one was asked for."""
        span, title = self._span, self.query_one("#moment-title", TextLines)
        moment = self.query_one("#moment", PickList)
        title.display = moment.display = span is not None
        if span is None:
            return
        title.show(*id_cells.span_lines(span, self.app.size.width), grow=True)
        moment.show(
            [
                _item("the first id", "first id", f'ObjectId("{span.first}")'),
                _item("the last id", "last id", f'ObjectId("{span.last}")'),
                _item("the filter", "filter", span.filter),
            ]
        )
        moment.styles.height = moment.lines_at(self.app.size.width)


def _meaning(text: str) -> str:
    """Both ends of a range, or one time, while they are typed."""
    return " .. ".join(filter(None, map(fmt.time_meaning, text.split(id_cells.RANGE))))


def _item(key: str, title: str, text: str) -> Item:
    label = f"{title:<8} "

    def lines(width: int) -> list[list[Piece]]:
        return hanging((label, "text--muted"), [(line, "") for line in wrap_words(text, max(1, width - len(label)))])

    return Item(key, lines, text)
