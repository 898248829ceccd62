"""Keys and pasted texts in the order in which they were typed, one at a time.

Textual sends a key to the widget that has the focus when the key arrives. Over a slow link many keys arrive together:
those after a key that opens a line, filters a table or changes the page would reach the previous widget. Here each
key is handled completely, up to the app and with the messages that it caused, before the next one is sent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable

from textual.app import App
from textual.dom import DOMNode
from textual.events import Event
from textual.timer import Timer

_ROUNDS = 3
"""Trips through the queues up to the app: after the key, after the messages that it caused, and through a screen that
it opened."""
_LONGEST_SECONDS = 0.5
"""After this time the next key is sent anyway: a widget that was removed does not answer."""


class KeyOrder:
    """The keys of one app. ``send`` gives an event to Textual."""

    def __init__(self, app: App[None], send: Callable[[Event], Awaitable[None]]) -> None:
        self._app = app
        self._send = send
        self._waiting: deque[Event] = deque()
        self._ticket = 0
        self._busy = False
        self._timer: Timer | None = None

    async def add(self, event: Event) -> None:
        """Send a key or a pasted text as soon as those before it have been handled."""
        self._waiting.append(event)
        if not self._busy:
            await self._next()

    async def _next(self) -> None:
        if self._timer:
            self._timer.stop()
            self._timer = None
        self._busy = bool(self._waiting)
        if not self._waiting:
            return
        self._ticket += 1
        ticket, event = self._ticket, self._waiting.popleft()
        target = self._top
        self._timer = self._app.set_timer(_LONGEST_SECONDS, lambda: self._done(ticket))
        await self._send(event)
        await self._climb(target, ticket, _ROUNDS)

    @property
    def _top(self) -> DOMNode:
        return self._app.focused or self._app.screen

    async def _climb(self, node: DOMNode, ticket: int, rounds: int) -> None:
        """Follow the key through the queue of each widget from ``node`` up to the app."""

        async def passed() -> None:
            above = node.parent
            if above is not None:
                await self._climb(above, ticket, rounds)
            elif rounds > 1:
                await self._climb(self._top, ticket, rounds - 1)
            else:
                await self._done(ticket)

        if not node.call_later(passed):
            await self._done(ticket)

    async def _done(self, ticket: int) -> None:
        if ticket == self._ticket and self._busy:
            await self._next()
