"""The dashboard on a recording: the same pages, fed from a file, with a time bar."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, ClassVar, NoReturn, TypeVar

from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget

from tallyglass.errors import InputError, TallyglassError
from tallyglass.mongo.gateway import Gateway
from tallyglass_tui import bound, clock
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import NOT_FROM_A_RECORDING, Context
from tallyglass_tui.shell.feed import Feed, Feeds, FeedTrouble, trouble_of
from tallyglass_tui.shell.page_spec import PageSpec
from tallyglass_tui.shell.recording import Recording
from tallyglass_tui.widgets.line_view import LineView, Piece

T = TypeVar("T")

_SKIPPED = 15_000
"""Milliseconds of the beginning in which a dashboard waits for its first answers: a replay begins after them."""

_MERGED = 50
"""Values of a merged feed that a jump shows: more rows than a screen has."""

_PLAY_SECONDS = 0.25
"""Between two steps of a replay: the rate of a local dashboard."""
_SPEEDS = (1, 2, 5, 15, 60)
"""Recorded seconds a second: at the last, an hour passes in a minute."""
_MINUTE = 60_000
"""Milliseconds."""
_BETWEEN = "between"
"""The mode that is shown while all pages are made again."""
_MOVES = (
    ("step", "back", "[", "on", "]"),
    ("minute", "minute_back", "{", "minute_on", "}"),
    ("speed", "slower", "<", "faster", ">"),
)
"""What the keys of the time bar move, and each key by the name in its id."""


class RecordedFeed(Feed[T]):
    """A feed of a recording: its problems are recorded, its silence is none."""

    @property
    def silent_seconds(self) -> float | None:
        """0 once it has delivered."""
        return None if self._heard is None else 0.0


class RecordedFeeds(Feeds):
    """The feeds at a moment of a recording, ``at`` milliseconds after its begin. Nothing is read from a server."""

    def __init__(self, recording: Recording) -> None:
        super().__init__(_no_server)
        self.recording = recording
        self.at = min(_SKIPPED, recording.milliseconds)
        clock.show(self.now)

    def start(self) -> None:
        """Start nothing: there is no server."""

    def close(self, seconds: float = 0.0) -> None:
        """End the replay: the time is the present again."""
        super().close()
        clock.show(None)

    @property
    def now(self) -> datetime:
        """The moment that is shown."""
        return self.recording.time(self.at)

    def follow(
        self,
        name: str,
        make: Callable[[Gateway], AsyncIterator[T]],
        *,
        merge: Callable[[T, T], T] | None = None,
        silence: float = 60.0,
        once: bool = False,
        subject: str = "",
    ) -> Feed[T]:
        """The recorded feed of that name and subject."""
        feed = self._feeds[name] = RecordedFeed[T](name, merge, silence, subject)
        self._fill(feed, -1)
        return feed

    async def ask(self, make: Callable[[Gateway], Awaitable[T]], seconds: float = 30.0) -> T:
        """Raise InputError: what nobody looked at is not in a recording."""
        raise InputError("A recording holds only what was on the screen: this was not read.")

    def go(self, at: int) -> bool:
        """Show the moment ``at``, in milliseconds. Returns whether something that was delivered came only later."""
        before, self.at = self.at, min(max(at, 0), self.recording.milliseconds)
        clock.show(self.now)
        feeds = tuple(self._feeds.values())
        for feed in feeds:
            self._fill(feed, before if self.at >= before else -1)
        heard = (feed for feed in feeds if feed.silent_seconds is not None)
        return any(not self.recording.places(feed.name, feed.subject, -1, self.at) for feed in heard)

    def forget(self) -> None:
        """Hold nothing of what was delivered, for pages that begin again."""
        self._feeds.clear()

    def step(self, by: int) -> bool:
        """Like :meth:`go`, to the next moment at which something was recorded, or with -1 to the one before."""
        moments = self.recording.moments()
        beyond = [one for one in moments if (one > self.at if by > 0 else one < self.at)]
        return bool(beyond) and self.go(beyond[0] if by > 0 else beyond[-1])

    def _fill(self, feed: Feed[Any], after: int) -> None:
        """Deliver what was recorded after ``after``, as far as the moment that is shown."""
        recording, name, subject = self.recording, feed.name, feed.subject
        if not self._has(feed):
            missing = [one for one in self._feeds.values() if not self._has(one)]
            for one in missing:
                self._warn(one, f"Not in this recording: {', '.join(found.name for found in missing)}.")
            return
        places = recording.places(name, subject, after, self.at)
        if after < 0:
            feed.take()  # of a later moment, or part of what is delivered again now
        try:
            for place in places[-_MERGED:] if feed.merges else places[-1:]:
                feed.put(recording.value(name, subject, place)[1])
            self._show_trouble(feed)
        except TallyglassError as error:
            self._warn(feed, str(error))

    def _has(self, feed: Feed[Any]) -> bool:
        """Whether something that the feed delivered was recorded, or why it delivered nothing."""
        return any(self.recording.has(name, feed.subject) for name in (feed.name, trouble_of(feed.name)))

    def _show_trouble(self, feed: Feed[Any]) -> None:
        """The problem that the feed had then: it lasts until the feed delivers again."""
        recording, key = self.recording, (feed.name, feed.subject)
        said = (trouble_of(feed.name), feed.subject)
        places = recording.places(*said, -1, self.at)
        if places:
            since, trouble = recording.value(*said, places[-1])
            if isinstance(trouble, FeedTrouble) and not recording.places(*key, since, self.at):
                feed.show_trouble(trouble)
        elif not recording.places(*key, -1, self.at):
            first = recording.time(min(recording.first(*one) for one in (key, said) if recording.has(*one)))
            self._warn(feed, f"Not recorded before {first:%H:%M:%S}Z: {feed.name}.")

    def _warn(self, feed: Feed[Any], title: str) -> None:
        feed.show_trouble(FeedTrouble(title, "", self.now, lost=False))


def _no_server() -> NoReturn:
    raise InputError("A recording has no server.")


class TimeBar(LineView):
    """Where in the recording the screen is, and the keys that move it."""

    DEFAULT_CSS = "TimeBar { height: 1; background: $panel; color: $foreground; }"

    def __init__(self, feeds: RecordedFeeds, state: Callable[[], str], *, plain: bool) -> None:
        super().__init__()
        self._feeds, self._state = feeds, state
        self._glyphs = "#-" if plain else "━─"

    def pieces(self, y: int, width: int) -> Iterable[Piece]:
        """The moment, the bar, the length, and the keys."""
        feeds = self._feeds
        length = feeds.recording.milliseconds
        head = f" {feeds.now:%H:%M:%S}Z "
        tail = f" {_span(feeds.at)} of {_span(length)} · {self._state()} "
        moves = "  ".join(
            f"{bound.key(f'replay.{back}', left)} {bound.key(f'replay.{on}', right)} {what}"
            for what, back, left, on, right in _MOVES
        )
        keys = f" {moves}  {bound.key('app.pause', 'p')} plays "
        room = width - len(head) - len(tail)
        shown = keys if room >= len(keys) + 10 else ""
        cells = max(room - len(shown), 0)
        done = round(cells * feeds.at / length) if length else cells
        yield head, ""
        yield self._glyphs[0] * done, ""
        yield self._glyphs[1] * (cells - done), "text--muted"
        yield tail, ""
        yield shown, "text--muted"


def _span(milliseconds: int) -> str:
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


class ReplayDashboard(Dashboard):
    """The dashboard on a recording. It copies and writes nothing: a recording may come from anybody."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, action, words, show=False, id=f"replay.{name}", tooltip=tooltip)
        for key, action, words, name, tooltip in (
            ("left_square_bracket", "step(-1)", "Step back", "back", "To what was recorded before"),
            ("right_square_bracket", "step(1)", "Step on", "on", "To what was recorded next"),
            ("left_curly_bracket", "minute(-1)", "Minute back", "minute_back", "A minute back"),
            ("right_curly_bracket", "minute(1)", "Minute on", "minute_on", "A minute on"),
            ("less_than_sign", "speed(-1)", "Slower", "slower", "Play slower"),
            ("greater_than_sign", "speed(1)", "Faster", "faster", "Play faster"),
        )
    ]

    def __init__(self, recording: Recording, pages: Sequence[PageSpec], context: Context, **options: Any) -> None:
        self.recorded = RecordedFeeds(recording)
        super().__init__(context, self.recorded, pages, notice=recording.note, **options)
        self._speed = 1
        self._beginning = asyncio.Lock()
        self._played = time.monotonic()

    def on_mount(self) -> None:
        """Begin to play the recording."""
        self.set_interval(_PLAY_SECONDS, self._play)

    def bars(self) -> Iterable[Widget]:
        """The time bar of the recording."""
        yield TimeBar(self.recorded, self._state, plain=self.plain_glyphs)

    def end_pause(self) -> None:
        """Stay in the pause: what was recorded is there at once."""
        self.call_after_refresh(self.flush_now)

    def copy(self, what: str, text: str) -> None:
        """Say that nothing is copied."""
        self.say(NOT_FROM_A_RECORDING)

    def action_step(self, by: int) -> None:
        """Pause, and show what was recorded next or before."""
        self._pause()
        self._show_moment(self.recorded.step(by))

    def action_minute(self, by: int) -> None:
        """Go on or back by a minute."""
        self.go(self.recorded.at + by * _MINUTE)

    def go(self, at: int) -> None:
        """Show the moment ``at``, in milliseconds, on page and bar."""
        self._show_moment(self.recorded.go(at))

    def _show_moment(self, is_before: bool) -> None:
        """Show the present moment, on empty pages where it ``is_before`` the first value of what they show."""
        if is_before:
            self.run_worker(self._begin_again())
        else:
            self._show()

    async def _begin_again(self) -> None:
        """Make all pages again: what they took from a later moment would be shown as of this one."""
        async with self._beginning:
            shown = self.current_mode
            self.add_mode(_BETWEEN, Screen)
            await self.switch_mode(_BETWEEN)
            self.recorded.forget()
            for spec in self.pages:
                await self.remove_mode(spec.mode)
                self.add_mode(spec.mode, spec.make)
            self.follow_deployment()
            await self.switch_mode(shown)
            await self.remove_mode(_BETWEEN)
            self._show()

    def action_speed(self, by: int) -> None:
        """Play slower or faster."""
        self._speed = _SPEEDS[min(max(_SPEEDS.index(self._speed) + by, 0), len(_SPEEDS) - 1)]
        self._show()

    def _play(self) -> None:
        """Go on by the time that has passed."""
        now = time.monotonic()
        passed, self._played = now - self._played, now
        if self.rate.paused:
            return
        self.recorded.go(self.recorded.at + round(passed * self._speed * 1000))
        if self.recorded.at >= self.recorded.recording.milliseconds:
            self._pause()
        self._show_bar()

    def _pause(self) -> None:
        if not self.rate.paused:
            self.action_pause()

    def _show(self) -> None:
        self.flush_now()
        self._show_bar()

    def _show_bar(self) -> None:
        if self.page:
            self.page.query_one(TimeBar).show_changes()

    def _state(self) -> str:
        return "paused" if self.rate.paused else f"{self._speed}x"
