"""Runs pure work in slices, so that the event loop is never blocked for long."""

from __future__ import annotations

import asyncio
import threading
import time

SLICE_SECONDS = 0.008
"""How long pure work may run between two turns of the event loop: a sixth of the 50 ms from a key to the screen."""


class Pacer(threading.local):
    """Gives the event loop a turn after each slice of pure work, however many tasks of a thread share the work."""

    _since = 0.0

    async def rest(self) -> None:
        """Yield to the loop if the slice is used up. Waiting tasks share the next slice instead of taking one each."""
        while time.perf_counter() - self._since >= SLICE_SECONDS:
            used_up = self._since
            await asyncio.sleep(0)
            if self._since == used_up:
                self._since = time.perf_counter()


rest = Pacer().rest
"""Yields to the running loop if the slice of this thread is used up."""
