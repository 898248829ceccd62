"""A camera on a running dashboard: it presses keys, waits for what they show, and takes pictures."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot

from screenshots.svg import tidy
from tallyglass.connection.target import Target
from tallyglass.demo.session import Demo
from tallyglass.mongo.client import open_gateway
from tallyglass_tui.incidents.table import IncidentTable
from tallyglass_tui.pages import PAGES
from tallyglass_tui.recorded import KINDS
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.feed import Feeds
from tallyglass_tui.shell.recording import Recorder, Recording
from tallyglass_tui.shell.replay import ReplayDashboard

_TIMEOUT_SECONDS = 120.0
_NOBODY = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=2000"
"""A server that is down."""


class Camera:
    """A running dashboard and the folder for its screenshots."""

    def __init__(self, app: Dashboard, pilot: Pilot[None], folder: Path, uri: str) -> None:
        self.app = app
        self.pilot = pilot
        self.folder = folder
        self.uri = uri
        self.size = f"{app.size.width}x{app.size.height}"

    async def press(self, *keys: str, until: str = "") -> None:
        """Press keys, and wait until the screen contains ``until``."""
        await self.pilot.press(*keys)
        deadline = time.monotonic() + _TIMEOUT_SECONDS
        self.app.flush_now()
        while until not in self.text():
            if time.monotonic() > deadline:
                raise SystemExit(f"{until!r} never appeared on the screen:\n{self.text()}")
            await self.pilot.pause(0.1)
        await self.pilot.pause(0.4)

    async def pick(self, text: str) -> None:
        """Put the cursor on the first incident with this text in its title."""
        table = self.app.screen.query_one(IncidentTable)
        for _ in range(len(table.incidents)):
            if table.selected and text in table.selected.title:
                return
            await self.press("j")

    def text(self) -> str:
        """Return the text of the screen."""
        return "\n".join(self.app.lines)

    def svg(self) -> str:
        """Return the screen as SVG."""
        return tidy(self.app.export_screenshot(title="tallyglass", simplify=True))

    def shoot(self, name: str) -> None:
        """Save a screenshot."""
        (self.folder / f"{name}-{self.size}.svg").write_text(self.svg(), encoding="utf-8")


@asynccontextmanager
async def on_demo(
    demo: Demo, folder: Path, size: tuple[int, int], recorder: Recorder | None = None
) -> AsyncIterator[Camera]:
    """A dashboard on the demo, with a camera. ``recorder`` keeps what it shows."""
    target = Target.parse(demo.uri)
    feeds = Feeds(lambda: open_gateway(target), recorder)
    contexts = {"demo": Context(target, demo.backup, "demo"), "west": Context(Target.parse(_NOBODY), label="west")}

    def open_profile(name: str, *, ask: bool = True) -> Context:
        return contexts[name]

    app = Dashboard(
        contexts["demo"],
        feeds,
        PAGES,
        environ={"COLORTERM": "truecolor"},
        profiles=tuple(contexts),
        open_profile=open_profile,
    )
    try:
        async with app.run_test(size=size) as pilot:
            yield Camera(app, pilot, folder, demo.uri)
    finally:
        feeds.close()


@asynccontextmanager
async def on_recording(file: Path, folder: Path, size: tuple[int, int]) -> AsyncIterator[Camera]:
    """The replay of a recording, paused, with a camera."""
    recording = Recording(file, KINDS)
    context = Context(Target("mongodb://recorded/"), label=recording.label, recorded=True)
    app = ReplayDashboard(recording, PAGES, context, environ={"COLORTERM": "truecolor"})
    try:
        async with app.run_test(size=size) as pilot:
            await pilot.press("p")
            yield Camera(app, pilot, folder, "")
    finally:
        app.feeds.close()
