"""The dashboard without a server: feeds that a test fills by hand, and the screen as lines of text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from idle import opened
from tallyglass.connection.target import Target
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass_tui.pages import PAGES
from tallyglass_tui.shell.alarm import AlarmKind
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.feed import Feed, Feeds

DEPLOYMENT = Deployment(Kind.REPLICA_SET, "6.0.5", set_name="rs0", primary="db1:27017", me="db1:27017")


class HandFeeds(Feeds):
    """Feeds without a runner: a test puts values into :attr:`named`; reads return ``answer``."""

    def __init__(self) -> None:
        super().__init__(lambda: pytest.fail("no gateway in these tests"))
        self.named: dict[str, Feed[Any]] = {}
        self.answer: Any = None

    def start(self) -> None:
        self._loop.close()

    def follow(
        self, name: str, make: Any, *, merge: Any = None, silence: float = 60.0, once: bool = False, subject: str = ""
    ) -> Feed[Any]:
        feed: Feed[Any] = Feed(name, merge, silence)
        self.named[name] = self._feeds[name] = feed
        if name == "deployment":
            feed.put(DEPLOYMENT)
        return feed

    async def ask(self, make: Any, seconds: float = 30.0) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Screen:
    """The running app, its feeds, and what a person would see."""

    def __init__(self, app: Dashboard, feeds: HandFeeds, pilot: Pilot[None]) -> None:
        self.app = app
        self.feeds = feeds
        self.pilot = pilot

    @property
    def lines(self) -> list[str]:
        """The screen as text, a string a row."""
        return self.app.lines

    @property
    def text(self) -> str:
        """The screen as one text."""
        return "\n".join(self.lines)

    async def put(self, name: str, value: Any) -> None:
        """Let a feed deliver, and the screen take it."""
        self.feeds.named[name].put(value)
        self.app.flush_now()
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        """Press keys."""
        await self.pilot.press(*keys)
        await self.pilot.pause()


@asynccontextmanager
async def open_screen(
    size: tuple[int, int] = (80, 24),
    environ: dict[str, str] | None = None,
    backup: Path | None = None,
    uri: str = "mongodb://db1/",
    alarm: AlarmKind = AlarmKind.OFF,
    keymap: Mapping[str, str] | None = None,
) -> AsyncIterator[Screen]:
    """The dashboard at a size."""
    feeds = HandFeeds()
    context = Context(Target.parse(uri), backup)
    app = Dashboard(context, feeds, PAGES, environ=environ or {"COLORTERM": "truecolor"}, alarm=alarm, keymap=keymap)
    async with opened(app, size) as pilot:
        await pilot.pause()
        yield Screen(app, feeds, pilot)


@pytest.fixture
def screen_at() -> Callable[..., Any]:
    """:func:`open_screen`."""
    return open_screen
