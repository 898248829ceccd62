"""Let a key wait as little as may be while the feeds work: short turns, and no long search for garbage."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH_SECONDS = 0.001
"""How long the thread of the feeds may keep the interpreter while a key waits."""
_GC_THRESHOLDS = (5_000, 20, 100_000)
_COLLECT_SECONDS = 60.0


def put_keys_first() -> None:
    """Set the interpreter so. A full collection looks through every row that is held, 30 ms and more: it is left to
    :class:`Garbage`."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


class Garbage:
    """Full collections at moments that the app chooses, one a minute.

    Also the :class:`~tallyglass.counters.follow.garbage.GarbagePolicy` of the dashboard's process.
    """

    def __init__(self) -> None:
        self._collected = time.monotonic()

    def collect_if_due(self) -> None:
        """Collect, where the last time is long enough ago."""
        if time.monotonic() - self._collected > _COLLECT_SECONDS:
            gc.collect()
            self._collected = time.monotonic()

    @contextmanager
    def building(self) -> Iterator[None]:
        """The collector rests while tens of thousands of objects are built: it would walk all of them again and again,
        and hold the feeds for longer each time. What there is afterwards is long-lived."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                self.built()
                gc.enable()

    def built(self) -> None:
        """Take all objects there are for long-lived: the collector does not walk them any more."""
        gc.freeze()
