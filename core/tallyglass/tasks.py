"""Ending asyncio tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any


async def end(tasks: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel tasks, once each, and wait until every one of them has ended; what they raise is dropped.

    Once is enough, and more is harmful: see :mod:`tallyglass.mongo.link`, through which all calls of the driver go.
    """
    every = set(tasks)
    for task in every:
        task.cancel()
    if every:
        await asyncio.wait(every)
    for task in every:
        if not task.cancelled():
            task.exception()
