"""An event loop whose clock jumps to the next timer instead of waiting for it: hours pass in an instant."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.DefaultSelector):
    """A selector that does not wait: the time that it should have waited is added to :attr:`passed`."""

    passed = 1_000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.passed += max(timeout, 0.0)
        return ready


class _VirtualTime(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._selected = _Jumping()
        super().__init__(self._selected)

    def time(self) -> float:
        return self._selected.passed


async def _within(work: Awaitable[T], seconds: float) -> T:
    async with asyncio.timeout(seconds):
        return await work


def run(work: Awaitable[T], seconds: float = 3_600.0) -> T:
    """Run ``work``. Raises TimeoutError if it takes more than so many seconds of virtual time."""
    with asyncio.Runner(loop_factory=_VirtualTime) as runner:
        return runner.run(_within(work, seconds))
