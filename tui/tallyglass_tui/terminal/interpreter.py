"""Interpreter settings that keep keys responsive while the feeds work, and memory small after large reads."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SWITCH_SECONDS = 0.001
"""How long the feed thread may hold the interpreter while a key waits."""
_GC_THRESHOLDS = (5_000, 20, 100_000)
"""Of the generations of the collector: the last is never reached by itself."""
_COLLECT_SECONDS = 60.0
"""Between two full collections."""
_M_MMAP_THRESHOLD = -3
"""The parameter's number in glibc's malloc.h."""
_MAPPED_BYTES = 128 * 1024
"""Size from which memory is mapped: glibc's default, which it raises by itself unless it is set."""


def tune_interpreter() -> None:
    """Apply the settings. A full collection visits every row in memory (30 ms and more), so
    :class:`GarbageCollection` decides when one runs."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


class GarbageCollection:
    """Runs full collections when the app has time, at most once a minute, and returns freed memory to the system."""

    def __init__(self) -> None:
        self._collected = time.monotonic()
        self._maps_batches = False

    def collect_if_due(self) -> None:
        """Collect if the last collection was a minute ago."""
        if not self._maps_batches:
            _map_batches()
            self._maps_batches = True
        if time.monotonic() - self._collected > _COLLECT_SECONDS:
            gc.collect()
            _trim()
            self._collected = time.monotonic()


@contextmanager
def collector_held() -> Iterator[None]:
    """Disable the collector while tens of thousands of long-lived objects are built, which it would visit again and
    again, and have it leave them alone afterwards."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


def _map_batches() -> None:
    """Give a batch of the oplog memory of its own, which returns to the system when freed. By default, glibc takes
    later ones from its heap, once the first was freed."""
    if set_parameter := _c_function("mallopt"):
        set_parameter(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


def _trim() -> None:
    """Return freed memory to the system. Otherwise glibc keeps most of what batches of a large oplog took."""
    if trim := _c_function("malloc_trim"):
        trim(0)


def _c_function(name: str) -> Callable[..., int] | None:
    """A function of the C library; None where it has no such function."""
    import ctypes  # after the first screen, which it would delay

    return getattr(ctypes.CDLL(None), name, None)
