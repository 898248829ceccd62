"""Commands that print until Ctrl-C end when nobody reads what they print any more."""

from __future__ import annotations

import asyncio
import select
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Coroutine

_READER_CHECK_SECONDS = 1.0
"""Seconds between checks whether the reader of the output has left."""


async def while_read(printing: Coroutine[Any, Any, None]) -> None:
    """Run ``printing`` until it ends, or until the reader of a pipe has left: while there is nothing to print, nothing
    would notice that. Raises BrokenPipeError then."""
    from tallyglass.tasks import cancel_all

    task = asyncio.ensure_future(printing)
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=_READER_CHECK_SECONDS)
            if not task.done() and _reader_has_left():
                raise BrokenPipeError
        task.result()
    finally:
        await cancel_all([task])


def _reader_has_left() -> bool:
    poll = select.poll()
    try:
        poll.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # not a file of the operating system
        return False
    return any(event & select.POLLERR for _, event in poll.poll(0))
