"""Profiles: every deployment of the user side by side, and a key to switch to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from textual import on
from textual.app import ComposeResult
from textual.events import Resize, ScreenSuspend

from tallyglass.connection.profiles import default_path
from tallyglass.counters.snapshot import CountersSnapshot
from tallyglass.errors import TallyglassError
from tallyglass.text import clean
from tallyglass_tui import bound, clock
from tallyglass_tui.profiles import rows
from tallyglass_tui.profiles.overview import (
    NO_END,
    PAUSE_SECONDS,
    NamedProfile,
    Overview,
    ProfileState,
    watch_profiles,
    with_counters,
)
from tallyglass_tui.shell.feed import Feed
from tallyglass_tui.shell.page import Page
from tallyglass_tui.widgets.cells import whole_pieces
from tallyglass_tui.widgets.line_view import Piece
from tallyglass_tui.widgets.live_table import Column, LiveTable
from tallyglass_tui.widgets.row_list import RowList
from tallyglass_tui.widgets.text_line import TextLines


class ProfilesPage(Page):
    """A table of the profiles and the details of one; Enter switches to it."""

    TITLE = "Profiles"

    def __init__(self) -> None:
        super().__init__()
        self._feed: Feed[Overview] | None = None
        self._states: Overview | None = None

    def compose_body(self) -> ComposeResult:
        """The summary, the table, and the details."""
        yield TextLines(id="summary")
        yield LiveTable(rows.COLUMNS, id="profiles")
        yield TextLines(id="facts")

    def start(self) -> None:
        """Reading begins when the page is shown; see :meth:`on_screen_resume`."""
        self.query_one("#facts").styles.height = rows.FACTS if self.shell.profiles else 0
        self._show()
        self.give_keys(self.query_one(LiveTable))

    def on_resize(self, _: Resize) -> None:
        """Fit the lines to the window: the next reading may be half a minute away."""
        self._show()

    def on_screen_resume(self) -> None:
        """Open a connection to each profile."""
        if self.shell.profiles and (self._feed is None or self._feed.stopped):
            self._states = None
            named = [self._named(name) for name in self.shell.profiles]
            feed = self.feeds.follow("profiles", lambda _: watch_profiles(named), silence=NO_END)
            self._feed = self.subscribe(feed, self._take)
        super().on_screen_resume()

    def on_screen_suspend(self, _: ScreenSuspend) -> None:
        """Close the connections if another page is shown; the help and the palette only cover this one."""
        if self._feed and self.app.current_mode != "profiles":
            self._feed.stop()

    def _named(self, name: str) -> NamedProfile:
        try:
            return NamedProfile(name, self.shell.profile_context(name))
        except TallyglassError as error:
            return NamedProfile(name, None, str(error))

    def _take(self, states: Overview) -> None:
        known = self.feeds.latest("counters", CountersSnapshot)
        self._states = tuple(
            replace(with_counters(one, known), searching=one.searching) if known and self._is_young(one) else one
            for one in states
        )
        self._show()

    def _is_young(self, state: ProfileState) -> bool:
        """Whether the counters of the deployment on the other pages were read too shortly for an end, which page 1
        has."""
        read = not state.searching and state.counter is not None and state.counter.forecast.rate is not None
        return state.where == str(self.shell.context.target) and not state.problem and not read

    @property
    def data_age(self) -> float | None:
        """None: each row is read at its own time, and says so if it cannot be read."""
        return None

    def help_notes(self) -> Sequence[str]:
        """What the columns mean."""
        return (
            "Profiles are the sections of profiles.toml. While this page is shown each is read every "
            f"{PAUSE_SECONDS:.0f} s through at most three connections to a member; leaving the page closes them.",
            "Members: one letter each, as at the top right. The end is that of the worst counter. Oplog: how far "
            "back it reaches, or will reach at the recent rate if that is less; yellow if what is written now stays "
            "less than a day. Drill: the age of the last restore "
            "drill that this user made here, and how it ended. !! needs somebody now, ! soon.",
        )

    def to_copy(self) -> tuple[str, str] | None:
        """The row in words."""
        state = self._selected
        return ("the profile", rows.in_words(state, clock.now())) if state else None

    @on(RowList.Chosen)
    def _chosen(self, message: RowList.Chosen) -> None:
        name = str(message.chosen)
        if name == self.shell.context.label:
            self.say("This profile is the one that the other pages show.")
        else:
            self.shell.switch_profile(name)

    @on(RowList.Moved)
    def _moved(self) -> None:
        self._show_facts()

    @property
    def _selected(self) -> ProfileState | None:
        cursor = self.query_one(LiveTable).cursor
        return self._states[cursor] if self._states and cursor < len(self._states) else None

    def _show(self) -> None:
        states, now = self._states, clock.now()

        def cell(index: int, column: Column, width: int) -> Sequence[Piece]:
            return rows.cell(states[index], now, column, width) if states else ()

        keys = [state.name for state in states] if states else []
        self.query_one(LiveTable).show(keys, cell, self._empty_text())
        summary = rows.summary(states, now) if self.shell.profiles else [(" No profiles here", "text--muted")]
        self.query_one("#summary", TextLines).show(whole_pieces(summary, self.size.width))
        self._show_facts()

    def _show_facts(self) -> None:
        self.query_one("#facts", TextLines).show(*rows.facts(self._selected, clock.now(), self.size.width))

    def _empty_text(self) -> tuple[str, ...]:
        if self.shell.profiles:
            return ()
        return (
            f"A profile is a section of {clean(str(default_path()))}:",
            "    [prod]",
            '    uri = "mongodb://monitor@db1.example.com"',
            '    password_file = "~/.secrets/prod"',
            "With some of them, this page shows all side by side, and "
            f"{bound.key('list.open', 'Enter')} switches to one. A demo and a replay show only their own deployment.",
        )
