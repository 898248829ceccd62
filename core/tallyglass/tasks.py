"""Cancelling asyncio tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def cancel_all(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel each task once and wait until all have ended. Their exceptions are discarded.

    Never cancel a task twice: see :mod:`tallyglass.mongo.link`.
    """
    every = set(tasks)
    for task in every:
        task.cancel()
    if every:
        await asyncio.wait(every)
    for task in every:
        if not task.cancelled():
            task.exception()
