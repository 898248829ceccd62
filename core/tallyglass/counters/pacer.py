"""Runs pure work in slices, so that the event loop is never blocked for long."""

from __future__ import annotations

import asyncio
import time

SLICE_SECONDS = 0.008
"""How long pure work may run between two turns of the event loop: a sixth of the 50 ms from a key to the screen."""


class Pacer:
    """Gives the event loop a turn after each slice of pure work, however many tasks share the work."""

    def __init__(self) -> None:
        self._since = time.perf_counter()
        self._turn = asyncio.Event()
        self._waiting = False

    async def rest(self) -> None:
        """Yield to the loop if the slice is used up. Waiting tasks share the next slice instead of taking one each."""
        while time.perf_counter() - self._since >= SLICE_SECONDS:
            if not self._waiting:
                self._waiting = True
                self._turn.clear()
                asyncio.get_running_loop().call_soon(self._renew)
            await self._turn.wait()

    def _renew(self) -> None:
        self._since = time.perf_counter()
        self._waiting = False
        self._turn.set()
