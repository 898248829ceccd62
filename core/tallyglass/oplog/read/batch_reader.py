"""The batches of one cursor, each awaited for a bounded time, whatever the driver does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, cast

from tallyglass.errors import ReadError

ANSWER_SECONDS = 12.0
"""A server that does not answer for this long is given up."""

_CLOSE_SECONDS = 2.0
"""How long a command waits at its end for a cursor to be closed; the server closes it by itself later."""


class BatchReader:
    """The batches of one cursor, each awaited for a bounded time. A call that hangs is abandoned."""

    def __init__(self, batches: AsyncIterator[bytes]) -> None:
        self._batches = cast("AsyncGenerator[bytes, None]", batches)
        self._call: asyncio.Task[bytes | None] | None = None

    async def next(self, member: str) -> bytes | None:
        """The next batch; None where the cursor has ended. Raises ReadError where the server stays silent."""
        self._call = asyncio.ensure_future(_next(self._batches))
        done, _ = await asyncio.wait({self._call}, timeout=ANSWER_SECONDS)
        if not done:
            where = f"{member} does not answer" if member else "No server answers"
            raise ReadError(f"{where} since {ANSWER_SECONDS:.0f} s.")
        call, self._call = self._call, None
        return call.result()

    async def close(self) -> None:
        """Close the cursor on the server; a call that still hangs is cancelled, and waited for only a moment."""
        task: asyncio.Task[Any]
        if self._call is not None:
            task = self._call
            task.cancel()
        else:
            task = asyncio.ensure_future(self._batches.aclose())
        _ABANDONED.add(task)
        task.add_done_callback(_ended)
        await asyncio.wait({task}, timeout=_CLOSE_SECONDS)


# Calls that hang on a dead link end when the driver gives up; until then something must hold them.
_ABANDONED: set[asyncio.Task[Any]] = set()


def _ended(task: asyncio.Task[Any]) -> None:
    _ABANDONED.discard(task)
    if not task.cancelled():
        task.exception()


async def _next(batches: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(batches, None)
