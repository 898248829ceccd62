"""Wait until a Textual app is idle, and read what it draws. The tests' use of Textual's private names is all here.

An app is idle when it has no pending work, however busy its threads or the machine are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.app import App
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.strip import Strip

TIMEOUT_SECONDS = 180.0
"""A test fails if the app is not idle by then."""
ROUNDS = 10
"""Consecutive turns of the event loop without work. Messages from one widget to another arrive within them."""


async def wait_until_idle(app: App[Any]) -> None:
    """Wait until every widget of the current screen has handled its messages and is laid out, or the app exits."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    idle_rounds = 0
    while idle_rounds < ROUNDS and not (app._exit or app._exception):
        assert time.monotonic() < deadline, f"never idle: {app.screen}"
        # A worker may run in a thread: yield the processor to it.
        await asyncio.sleep(0.002 if any(not worker.is_finished for worker in app.workers) else 0)
        idle_rounds = idle_rounds + 1 if is_idle(app) else 0
        if idle_rounds == ROUNDS:
            # Do what the screen's timer does. A layout may cause more work, so the last pass must find none.
            work = app.screen._layout_required or bool(app.screen._dirty_widgets)
            app.screen._on_timer_update()
            idle_rounds = ROUNDS if is_idle(app) and not work else 0


def is_idle(app: App[Any]) -> bool:
    """Whether every message pump waits for its next message and no callback, resize or worker is pending."""
    screen = app.screen
    return (
        all(waits_for_message(pump) for pump in (app, *screen.walk_children(with_self=True)))
        and not screen._callbacks
        and app._resize_event is None
        and all(worker.is_finished for worker in app.workers)
    )


def waits_for_message(pump: MessagePump) -> bool:
    """Whether a pump has handled all its messages and its loop waits for the next one."""
    queue = pump._message_queue
    return queue.empty() and bool(queue.ready_event._waiters) and not pump._next_callbacks


def strips_of(app: App[Any]) -> list[Strip]:
    """Return the rows of the screen with their styles."""
    return app.screen._compositor.render_strips()


def shown(app: App[Any]) -> str:
    """Return the screen as text."""
    return "\n".join(strip.text.rstrip() for strip in strips_of(app))


def on_draw(app: App[Any], call: Callable[[Any], object]) -> None:
    """Call ``call`` with the widgets of each update, as a list, instead of drawing them."""
    app.screen._compositor.update_widgets = lambda widgets: call(list(widgets))  # type: ignore[method-assign]


@asynccontextmanager
async def opened(app: App[Any], size: tuple[int, int]) -> AsyncIterator[Pilot[Any]]:
    """Run an app with a pilot whose ``press`` and ``pause`` wait until the app is idle, not until the process is."""

    async def wait(*_: float) -> None:
        await wait_until_idle(app)

    async with app.run_test(size=size) as pilot:
        with pytest.MonkeyPatch.context() as patch:
            for module in ("textual.app", "textual.pilot"):
                patch.setattr(f"{module}.wait_for_idle", wait)
            yield pilot
