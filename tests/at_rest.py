"""What tests need of Textual that is private there: whether an app is at rest, and what it draws.

An app is at rest when it has nothing left to do, however busy its threads or the machine are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from textual.app import App
from textual.events import Event
from textual.message_pump import MessagePump
from textual.pilot import Pilot
from textual.strip import Strip

PATIENCE = 60.0
"""Seconds that an app may take to come to rest; none of them needs them."""
ROUNDS = 10
"""Turns of the loop in a row without anything to do: what one part hands to another arrives within them."""


async def at_rest(app: App[Any]) -> None:
    """Wait until every part of the current screen has done all that it was told and it is laid out, or the app ends."""
    deadline = time.monotonic() + PATIENCE
    calm = 0
    while calm < ROUNDS and not (app._exit or app._exception):
        assert time.monotonic() < deadline, f"never at rest: {app.screen}"
        # A worker may be in a thread: it gets the processor.
        await asyncio.sleep(0.002 if any(not worker.is_finished for worker in app.workers) else 0)
        calm = calm + 1 if is_calm(app) else 0
        if calm == ROUNDS:
            # What the timer of the screen does. What it lays out may ask for more: a look without work is the last.
            work = app.screen._layout_required or bool(app.screen._dirty_widgets)
            app.screen._on_timer_update()
            calm = ROUNDS if is_calm(app) and not work else 0


def is_calm(app: App[Any]) -> bool:
    """Whether every part waits for its next message, and nothing else is under way."""
    screen = app.screen
    return (
        all(waits(part) for part in (app, *screen.walk_children(with_self=True)))
        and not screen._callbacks
        and app._resize_event is None
        and all(worker.is_finished for worker in app.workers)
    )


def waits(part: MessagePump) -> bool:
    """Whether a part has done all that it was told, and its loop is back where it takes the next message."""
    queue = part._message_queue
    return queue.empty() and bool(queue.ready_event._waiters) and not part._next_callbacks


def strips_of(app: App[Any]) -> list[Strip]:
    """The rows of the screen with their styles."""
    return app.screen._compositor.render_strips()


def shown(app: App[Any]) -> str:
    """The screen as text."""
    return "\n".join(strip.text.rstrip() for strip in strips_of(app))


def on_draw(app: App[Any], call: Callable[[Any], object]) -> None:
    """Have ``call`` called with the widgets of each drawing, in place of the drawing."""
    app.screen._compositor.update_widgets = call  # type: ignore[assignment,method-assign]


def set_forwarded(event: Event) -> None:
    """Mark an event as one that the app has already handed to a widget."""
    event._set_forwarded()


@asynccontextmanager
async def opened(app: App[Any], size: tuple[int, int]) -> AsyncIterator[Pilot[Any]]:
    """A running app. Its pilot's ``press`` and ``pause`` wait for rest, not until the process uses no processor."""

    async def wait(*_: float) -> None:
        await at_rest(app)

    async with app.run_test(size=size) as pilot:
        with pytest.MonkeyPatch.context() as patch:
            for module in ("textual.app", "textual.pilot"):
                patch.setattr(f"{module}.wait_for_idle", wait)
            yield pilot
