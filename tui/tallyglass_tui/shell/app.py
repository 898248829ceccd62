"""The dashboard: its pages, keys, theme, rate and feeds. Each page decides what it shows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import App, ScreenStackError, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import Provider
from textual.events import AppBlur, AppFocus, Event, Key, Paste
from textual.filter import LineFilter, Monochrome, NoColor
from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget

from tallyglass.counters.snapshot import CountersSnapshot
from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.text import clean
from tallyglass_tui import bound
from tallyglass_tui import format as fmt
from tallyglass_tui.shell.alarm import Alarm, AlarmKind
from tallyglass_tui.shell.context import Context, OpenProfile
from tallyglass_tui.shell.deployment import watch_deployment
from tallyglass_tui.shell.feed import Feed, Feeds
from tallyglass_tui.shell.key_order import KeyOrder
from tallyglass_tui.shell.messages import OplogRequested, Tick, Visit
from tallyglass_tui.shell.page import Page
from tallyglass_tui.shell.page_spec import PageSpec
from tallyglass_tui.shell.protocol import Shell
from tallyglass_tui.shell.refresh_rate import RefreshRate, over_ssh
from tallyglass_tui.shell.status_line import status_pieces
from tallyglass_tui.terminal.app import TerminalApp
from tallyglass_tui.terminal.interpreter import GarbageCollection
from tallyglass_tui.terminal.theme import ANSI_LIGHT, TALLYGLASS, choose_theme, needs_plain_glyphs
from tallyglass_tui.widgets.line_view import Piece

if TYPE_CHECKING:
    from tallyglass.deployment.cluster import Deployment
    from tallyglass.oplog.snapshot import IncidentScan

_ALARM_SECONDS = 2.0
"""How often it is decided whether something became red: nobody answers a bell faster."""

_LOOK_DEADLINE = 12.0
"""Seconds after which the deployment is said not to answer: two readings, one of which was lost."""
_NO_COLOR = NoColor()
_MOST_COPIED = 150_000
"""The most bytes sent to a terminal's clipboard: in base64 they still fit the output buffer."""


def _finder() -> type[Provider]:
    """Imported when the palette is first opened."""
    from tallyglass_tui.shell.finder import Finder

    return Finder


class Dashboard(TerminalApp):
    """The app. Each page is a mode; number keys switch modes, and each keeps its state."""

    DEFAULT_MODE = "counters"
    """The first page is there at once: Textual's own first screen would be styled, and then all styles read again."""

    CSS_PATH = "app.tcss"
    COMMANDS = App.COMMANDS | {_finder}
    TITLE = "Tallyglass"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "pause", "Pause", id="app.pause", tooltip="Hold the screen still; nothing is lost meanwhile"),
        Binding(
            "colon", "command_palette", "Palette", key_display=":", show=False, id="app.palette", tooltip="Find by name"
        ),
        Binding("question_mark", "help", "Help", key_display="?", id="app.help", tooltip="Keys and where to look"),
        Binding("q", "quit", "Quit", id="app.quit", tooltip="Leave"),
        Binding("ctrl+c", "quit", "Quit", show=False, id="app.interrupt"),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, id="app.suspend", tooltip="Suspend; fg resumes"),
    ]

    def __init__(
        self,
        context: Context,
        feeds: Feeds,
        pages: Sequence[PageSpec],
        *,
        environ: Mapping[str, str] | None = None,
        keymap: Mapping[str, str] | None = None,
        profiles: Sequence[str] = (),
        open_profile: OpenProfile | None = None,
        alarm: AlarmKind = AlarmKind.OFF,
        notice: str = "",
    ) -> None:
        environ = os.environ if environ is None else environ
        super().__init__()
        self._keys = KeyOrder(self, super().on_event)
        self._keymap_file = dict(keymap or {})
        self.alt_keys = frozenset(key.strip() for chosen in self._keymap_file.values() for key in chosen.split(","))
        firsts = {name: chosen.split(",")[0].strip() for name, chosen in self._keymap_file.items()}
        bound.choose({name: self.get_key_display(Binding(first, "")) for name, first in firsts.items()})
        self.profiles = profiles
        self._open_profile = open_profile
        self.next_profile: str | None = None
        """The profile to continue with after this app has ended; None to end."""
        self.notice = notice
        """What is said once the first page is there; empty for nothing."""
        self._alarm_kind, self._alarm = alarm, Alarm()
        self._unsaid = ""
        """What the alarm sounded for while something covered the page."""
        self._heard: Feed[IncidentScan] | None = None
        self.context = context
        self.feeds = feeds
        self.pages = pages
        self.rate = RefreshRate(ssh=over_ssh(environ))
        self.plain_glyphs = needs_plain_glyphs(environ)
        self.deployment: Deployment | None = None
        self.animation_level = "none"
        self.register_theme(TALLYGLASS)
        self.register_theme(ANSI_LIGHT)
        theme = choose_theme(environ, self.rate.ssh)
        self.theme = theme if theme in self.available_themes else "ansi-dark"
        if self.theme != theme:
            named = clean(theme, 40)
            self.notice = (
                notice or f"No theme is called {named!r} (TALLYGLASS_THEME). Theme, in the palette, lists all."
            )
        for spec in pages:
            self.add_mode(spec.mode, spec.make)
            self.bind(spec.key, f"page('{spec.mode}')", description=spec.title, show=False)
        self._deployments: Feed[Deployment] | None = None
        self._timer: Timer | None = None
        self._due = 0.0
        self._garbage = GarbageCollection()
        self._back: list[str] = []

    def get_key_display(self, binding: Binding) -> str:
        """Textual's names for keys, except for Enter, which is spelled out: not every font has the symbol."""
        return "Enter" if binding.key == "enter" and not binding.key_display else super().get_key_display(binding)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """No filters with NO_COLOR and a theme of the terminal's own colours, which Textual would map to grey."""
        filters = super().get_line_filters()
        if self.no_color and self.native_ansi_color:
            return [_NO_COLOR if isinstance(one, Monochrome) else one for one in filters]
        return filters

    def on_mount(self) -> None:
        """Start the feeds and show the first page."""
        # The driver is imported in the background thread: not before the first screen, which it would delay.
        self.call_after_refresh(self.feeds.start)
        self.app_resume_signal.subscribe(self, self._resumed)
        if self._keymap_file:
            self.set_keymap(self._keymap_file)
        self.follow_deployment()
        self.switch_mode(self.pages[0].mode)
        self.flush_now()
        self._arm()
        if self._alarm_kind is not AlarmKind.OFF:
            from tallyglass_tui.shell.incidents import share_incidents

            self._heard = share_incidents(self.feeds)
            self.set_interval(_ALARM_SECONDS, self._on_alarm_due)
        if self.notice:
            self.call_after_refresh(self.say, self.notice)

    def follow_deployment(self) -> None:
        """Look what kind of deployment it is and which members it has; until that is known, nothing is."""
        self.deployment = None
        self._deployments = self.feeds.follow("deployment", watch_deployment, silence=_LOOK_DEADLINE)

    def _resumed(self, _: object) -> None:
        """Redraw everything: the shell has used the terminal meanwhile."""
        self.refresh(layout=True)
        self.flush_now()

    @property
    def page(self) -> Page | None:
        """The page that is shown; None while something else covers it, and while the app ends."""
        try:
            shown = self.screen
        except ScreenStackError:
            return None
        return shown if isinstance(shown, Page) else None

    def flush_now(self) -> None:
        """Take the new data of the feeds now."""
        page = self.page
        if self.feeds.fatal:
            self.exit(return_code=2)
            return
        if page is None or not page.is_mounted:
            return
        if self._deployments and (found := self._deployments.take()):
            self._say_what_is_unusual(found)
            self.deployment = found
        page.post_message(Tick())

    def _say_what_is_unusual(self, found: Deployment) -> None:
        """Say once what is unusual about this deployment."""
        before = self.deployment
        if found.alone and not (before and before.alone):
            self.say(str(found.alone))
        elif found.untested and not (before and before.untested == found.untested):
            self.say(found.untested)

    def visit(self, message: Visit) -> None:
        """Switch to another page and hand it ``message``; Esc comes back."""
        if message.mode != self.current_mode:
            self._back.append(self.current_mode)
        self.switch_mode(message.mode)
        page = self.page
        if page:
            page.call_after_refresh(page.visit, message)

    def bars(self) -> Iterable[Widget]:
        """No lines above the keys: the live dashboard has none."""
        return ()

    @property
    def can_go_back(self) -> bool:
        """Whether the user came here from another page."""
        return bool(self._back)

    def go_back(self) -> None:
        """Return to the page that the user came from."""
        if self._back:
            self.switch_mode(self._back.pop())

    def copy(self, what: str, text: str) -> None:
        """Copy through the terminal, and say so. A text longer than terminals accept is not copied."""
        if len(text.encode("utf-8", "replace")) > _MOST_COPIED:
            self.say(f"Too long to copy ({fmt.plural(len(text), 'character')}): save it to a file.")
            return
        self.copy_to_clipboard(text)
        self.say(f"Copied {what}: {fmt.plural(len(text), 'character')}.")

    def profile_context(self, name: str) -> Context:
        """The context of a profile, as far as it is known without a prompt. Raises TallyglassError."""
        if name == self.context.label:
            return self.context
        if self._open_profile is None:
            raise InputError("Profiles cannot be opened here.")
        return self._open_profile(name, ask=False)

    def switch_profile(self, name: str) -> None:
        """Continue with another profile."""
        self.next_profile = name
        self.exit()

    def say(self, text: str) -> None:
        """Show a short message on the line of keys."""
        if self.page:
            self.page.say(text)

    def open_oplog(self, moment: datetime) -> None:
        """Open the oplog page at a moment."""
        self.visit(OplogRequested(Ts(int(moment.timestamp()), 0)))

    def _on_alarm_due(self) -> None:
        """Sound the alarm for what became red, also in a pause and while another window has the focus."""
        if self._alarm_kind is AlarmKind.OFF:
            return
        from tallyglass.oplog.snapshot import IncidentScan

        news = self._alarm.news(
            self.feeds.latest("counters", CountersSnapshot), self.feeds.latest("incidents", IncidentScan)
        )
        self._unsaid = f"{self._unsaid} {news}".strip()
        if self._unsaid and self.page:
            self.say(self._unsaid)
            self._unsaid = ""
        if not news:
            return
        if self._alarm_kind is AlarmKind.NOTIFY:
            self.send_notification(f"Tallyglass {self.context.label or self.context.target.label}: {news}")
        else:
            self.bell()

    @property
    def alarm_trouble(self) -> str:
        """Why the alarm cannot sound for an incident; empty where it can, or is off."""
        trouble = self._heard.trouble if self._heard else None
        return f"No alarm for incidents: {trouble.line}" if trouble else ""

    def action_page(self, mode: str) -> None:
        """Show the page with this name."""
        self._back.clear()
        if self.page:
            self.switch_mode(mode)

    def action_pause(self) -> None:
        """Pause or resume updates."""
        self.rate.paused = not self.rate.paused
        self._arm()
        if self.page:
            self.page.show_state()
        if not self.rate.paused:
            self.flush_now()

    @property
    def is_paused(self) -> bool:
        """Whether the screen is held still."""
        return self.rate.paused

    def end_pause(self) -> None:
        """Resume the feeds after a pause."""
        if self.rate.paused:
            self.rate.paused = False
            self._arm()

    def action_help(self) -> None:
        """Open the help for the page that is shown."""
        from tallyglass_tui.shell.help import HelpScreen

        page = self.page
        if page:
            bindings = [(self.get_key_display(one.binding), one) for one in page.active_bindings.values()]
            self.push_screen(
                HelpScreen(page.TITLE or "", self.pages, bindings, page.help_notes(), plain=self.plain_glyphs)
            )

    def action_command_palette(self) -> None:
        """Open the command palette."""
        from tallyglass_tui.shell.palette import Palette

        if self.page:
            self.push_screen(Palette())

    def search_themes(self) -> None:
        """Open the palette of the themes."""
        from textual.theme import ThemeProvider

        from tallyglass_tui.shell.palette import Palette

        if self.page:
            self.push_screen(Palette(ThemeProvider, finds="A theme"))

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """The pages, then every key of this page, then the themes."""
        from tallyglass_tui.shell.palette import commands

        return commands(self, screen, self.pages)

    async def on_event(self, event: Event) -> None:
        """Keys and pasted texts are handled one at a time, in order; see :mod:`tallyglass_tui.shell.key_order`."""
        if isinstance(event, (Key, Paste)) and not event.is_forwarded:
            await self._keys.add(event)
        else:
            await super().on_event(event)

    def on_app_blur(self, _: AppBlur) -> None:
        """Slow down while the terminal has no focus."""
        self.rate.focused = False
        self._arm()

    def on_app_focus(self, _: AppFocus) -> None:
        """Back to full rate."""
        self.rate.focused = True
        self._arm()
        self.flush_now()

    def _arm(self) -> None:
        """Set the timer for the next tick, in place of any other."""
        if self._timer:
            self._timer.stop()
        interval = self.rate.interval
        if interval is None:
            self._timer = None
            return
        self._due = time.monotonic() + interval
        self._timer = self.set_timer(interval, self._on_time)

    def _on_time(self) -> None:
        # The driver never waits for a slow terminal, so its backlog is the sign of one, not a late tick.
        congested = self.congested
        self.rate.lag(time.monotonic() - self._due, backlog=congested)
        if not congested:
            self.flush_now()
        self._garbage.collect_if_due()
        self._arm()

    def status(self, age: float | None, room: int) -> tuple[Piece, ...]:
        """The text at the right of the line of pages, in ``room`` cells. The data is ``age`` seconds old."""
        return status_pieces(self.context.label, self.deployment, age, self.rate, room, lost=self._is_lost)

    @property
    def _is_lost(self) -> bool:
        """Whether the deployment does not answer now: what is known about its members is then outdated."""
        feed = self._deployments
        return feed is not None and (feed.trouble is not None or (feed.silent_seconds or 0.0) > _LOOK_DEADLINE)


if TYPE_CHECKING:
    _IS_A_SHELL: type[Shell] = Dashboard
