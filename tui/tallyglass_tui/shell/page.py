"""The base of every page: the line of pages, the banner, a body, the line of keys, and the ticks.

How a page is written::

    class ThingsPage(Page):
        TITLE = "Things"                                  # as in its PageSpec
        BINDINGS = [Binding("e", "explain", "Explain", id="things.explain", tooltip="Say why")]

        def compose_body(self) -> ComposeResult:          # the widgets between banner and keys
            yield LiveTable(COLUMNS)

        def start(self) -> None:                          # once, when first shown
            self.subscribe(self.feeds.follow("things", watch_things), self.show_things)

        def show_things(self, things: Things) -> None:    # at each tick that has something new
            ...

        def visit(self, message: Visit) -> None: ...      # another page sent the user here

- A feed runs in the background thread (:mod:`tallyglass_tui.shell.feed`); its data are taken at the rate that the badge
shows, and only while the page is shown. ``show_things`` does no I/O. One-off reads: ``await self.feeds.ask(read)`` in a
worker. - Data is shown by :class:`~tallyglass_tui.widgets.line_view.LineView` widgets, or as ``Content``/``Text`` with
``markup=False``; never as a plain ``str`` that Textual would read as markup. - ``Escape`` goes back one step: override
:attr:`Page.can_go_back` and :meth:`Page.back` for steps within the page, and call ``refresh_bindings()`` when that
changes, so that the line of keys follows. - ``y`` copies :meth:`Page.to_copy`; ``/`` calls :meth:`Page.action_filter`,
hidden unless overridden.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key, Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Input, Static

from tallyglass_tui import bound, clock
from tallyglass_tui.shell.bars import Banner, KeysLine, NavLine
from tallyglass_tui.shell.feed import Feed, Feeds
from tallyglass_tui.shell.messages import Tick, Visit
from tallyglass_tui.shell.protocol import Shell
from tallyglass_tui.widgets.input_line import InputLine

T = TypeVar("T")

NOTHING_SELECTED = "Nothing is selected here."
"""What a key says that needs a row, where the cursor is on none."""

SMALLEST = (60, 15)
"""Columns and rows below which a page shows one sentence instead."""


@dataclass(slots=True)
class _Subscription(Generic[T]):
    feed: Feed[T]
    show: Callable[[T], None]

    def flush(self) -> None:
        value = self.feed.take()
        if value is not None:
            self.show(value)


_ALWAYS = ("app.quit", "app.suspend", "app.help")
"""The bindings that act in every window."""


class TooSmall(Static, can_focus=True):
    """What a window that is too small shows of a page. It has the keys meanwhile: those of the page would act unseen,
    and what is typed into a line that is hidden would act as keys."""

    def on_key(self, event: Key) -> None:
        """Let only the keys of the app pass, and of these, while a line is open, only those that always act."""
        if event.key == "ctrl+c":
            return  # a screen of Textual has it, too, and lets the app have it
        active = self.screen.active_bindings.get(event.key)
        passes = active is not None and (
            active.binding.id in _ALWAYS or (active.node is self.app and not cast("Page", self.screen).hides_line)
        )
        if not passes:
            event.stop()


class Page(Screen[None]):
    """A numbered page of the dashboard."""

    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 - as Textual declares it
        (0, "-narrow"),
        (SMALLEST[0], "-normal"),
        (100, "-wide"),
        (140, "-very-wide"),
    ]
    VERTICAL_BREAKPOINTS = [(0, "-low"), (SMALLEST[1], "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", key_display="/", id="page.filter", tooltip="Show only what matches"),
        Binding("y", "copy", "Copy", id="page.copy", tooltip="Copy what is selected (OSC 52, also over SSH)"),
        Binding("escape", "back", "Back", key_display="Esc", id="page.back", tooltip="Go back one step"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._subscriptions: list[_Subscription[Any]] = []
        self._is_covered = False
        self._had_keys: Widget | None = None

    @property
    def shell(self) -> Shell:
        """The app as pages see it."""
        return cast("Shell", self.app)

    @property
    def feeds(self) -> Feeds:
        """The runner of the feeds."""
        return self.shell.feeds

    def compose(self) -> ComposeResult:
        """The shell around :meth:`compose_body`."""
        yield NavLine([(spec.key, spec.title) for spec in self.shell.pages], self.TITLE or "")
        yield Banner()
        with Vertical(id="body"):
            yield from self.compose_body()
        yield from self.shell.bars()
        yield KeysLine()
        columns, rows = SMALLEST
        least = f"Tallyglass needs at least {columns}x{rows} cells; 80x24 shows all."
        text = Content(f"{least} Enlarge the window, or {bound.key('app.quit', 'q')}.")
        yield TooSmall(text, id="too-small", markup=False)

    def compose_body(self) -> ComposeResult:
        """The widgets of the page."""
        yield from ()

    def start(self) -> None:
        """Start feeds; called once, when the page is first shown."""

    def visit(self, message: Visit) -> None:
        """Show what another page asked for with ``message``."""

    @property
    def lost_seconds(self) -> float | None:
        """For how long the server has not answered; None while it does."""
        since = min((trouble.since for trouble in self.feeds.troubles if trouble.lost), default=None)
        return None if since is None else (clock.now() - since).total_seconds()

    @property
    def is_lost(self) -> bool:
        """Whether the server does not answer: then it is not known what still goes on."""
        return self.lost_seconds is not None

    @property
    def trouble(self) -> str:
        """One sentence for the banner about what this page cannot show; empty for none."""
        return ""

    def help_notes(self) -> Sequence[str]:
        """Paragraphs that the help of this page ends with."""
        return ()

    def say(self, text: str) -> None:
        """Show a short message on the line of keys, once the page has one."""
        for line in self.query(KeysLine):
            line.say(text)

    def to_copy(self) -> tuple[str, str] | None:
        """What ``y`` copies: a word or two that name it, and the text; or None."""
        return None

    @property
    def can_go_back(self) -> bool:
        """Whether there is a step back within the page: override together with :meth:`back`."""
        return False

    def back(self) -> None:
        """Go back one step within the page."""

    def subscribe(self, feed: Feed[T], show: Callable[[T], None]) -> Feed[T]:
        """Call ``show`` with the new data of ``feed`` at each tick while this page is shown. Ends a pause: a user who
        asks for something new wants to see it arrive."""
        self.shell.end_pause()
        self._subscriptions = [one for one in self._subscriptions if one.feed.name != feed.name]
        self._subscriptions.append(_Subscription(feed, show))
        return feed

    def unsubscribe(self, feed: Feed[Any]) -> None:
        """Stop a feed, and show nothing more of it, nor what is on its way."""
        feed.stop()
        self._subscriptions = [one for one in self._subscriptions if one.feed is not feed]

    def on_mount(self) -> None:
        """Call :meth:`start` when the page is first shown."""
        self.start()

    def on_screen_resume(self) -> None:
        """Show the data that arrived while another page was shown."""
        self.shell.flush_now()

    def on_resize(self, event: Resize) -> None:
        """Fit the status to the window, also in a pause. Textual calls the method of a subclass as well."""
        self.show_state()
        columns, rows = SMALLEST
        if event.size.width < columns or event.size.height < rows:
            if not self._is_covered:
                self._is_covered, self._had_keys = True, self.focused
            self.set_focus(self.query_one(TooSmall))
        elif self._is_covered:
            self._is_covered = False
            # What had the keys is shown again by then.
            self.call_after_refresh(self._return_keys)

    @property
    def hides_line(self) -> bool:
        """Whether a line is open that the window is too small to show."""
        return self._is_covered and isinstance(self._had_keys, InputLine) and self._had_keys.is_open

    def _return_keys(self) -> None:
        had = self._had_keys
        if had is not None and had.is_attached and not self._is_covered:
            self.set_focus(had)
            self.refresh_bindings()

    def on_tick(self, message: Tick) -> None:
        """Take the new data of the feeds, then update the status."""
        message.stop()
        for subscription in tuple(self._subscriptions):
            subscription.flush()
        self.show_state()

    def show_state(self) -> None:
        """Update the status and the banner: a lost server first, then the problems of this page."""
        deployment = self.shell.deployment
        lost = [trouble for trouble in self.feeds.troubles if trouble.lost]
        own = [one.feed.trouble for one in self._subscriptions if one.feed.trouble]
        worst = next(iter([*lost, *own]), None)
        line = self.query_one(NavLine)
        line.show(self.shell.status(self.data_age, line.room))
        old = deployment.old_data if deployment else ""
        others = (self.trouble, old, self.feeds.record_ended, self.shell.alarm_trouble)
        said = worst.line if worst else next(filter(None, others), "")
        self.query_one(Banner).show(said, lost=worst.lost if worst else False)

    @property
    def data_age(self) -> float | None:
        """Seconds since the slowest feed of this page delivered; None before the first time."""
        ages = [one.feed.silent_seconds for one in self._subscriptions if not one.feed.ended]
        known = [age for age in ages if age is not None]
        return max(known) if known else None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide the filter key on pages that have none, and Esc where there is nothing to go back to."""
        if action == "filter":
            return type(self).action_filter is not Page.action_filter and not isinstance(self.focused, Input)
        if action == "back":
            return self.can_go_back or self.shell.can_go_back
        return super().check_action(action, parameters)

    def give_keys(self, widget: Widget) -> None:
        """Let a widget take the keys, unless a line is being typed.

        This happens at once: ``Widget.focus`` acts only after all queued events, and would take the keys from a line
        that was opened meanwhile.
        """
        line = self._had_keys if self._is_covered else self.focused
        if isinstance(line, InputLine) and line.is_open:
            return
        self._had_keys = widget
        if not self._is_covered:
            self.set_focus(widget)

    def action_filter(self) -> None:
        """Open the filter of the page."""

    def action_copy(self) -> None:
        """Copy what the page offers."""
        offered = self.to_copy()
        if offered is None:
            self.say(NOTHING_SELECTED)
        else:
            self.shell.copy(*offered)

    def action_back(self) -> None:
        """One step back within the page, else to the page that sent the user here."""
        if self.can_go_back:
            self.back()
            self.refresh_bindings()
        else:
            self.shell.go_back()
