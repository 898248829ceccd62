"""Ending asyncio tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

_AGAIN_SECONDS = 0.5


def heed_cancellation() -> None:
    """Raise CancelledError in a task that was told to end and goes on, since an await has lost that.

    ``asyncio.wait_for`` before Python 3.12 does, when it awaits what is done at once: the driver sends so. A task that
    is cancelled while it computes, as by Ctrl-C, would lose it at every read.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def end(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks until every one of them has ended; what they raise is dropped.

    Once is not enough: ``asyncio.wait_for`` before Python 3.12, on which the driver reads, loses a cancellation that
    comes together with the answer, and a task that works in a loop goes on for ever.
    """
    every = set(tasks)
    going = {task for task in every if not task.done()}
    while going:
        for task in going:
            task.cancel()
        _, going = await asyncio.wait(going, timeout=_AGAIN_SECONDS)
    for task in every:
        if not task.cancelled():
            task.exception()
