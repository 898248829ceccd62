"""Tasks end, also those that lose a cancellation."""

from __future__ import annotations

import asyncio

from tallyglass.tasks import end


async def test_a_task_that_loses_a_cancellation_is_cancelled_again() -> None:
    lost = 0

    async def stubborn() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost == 2:
                    raise

    async def failing() -> None:
        raise ValueError

    tasks = [asyncio.ensure_future(stubborn()), asyncio.ensure_future(failing())]
    await asyncio.sleep(0)
    await end(tasks)
    assert lost == 2
    assert all(task.done() for task in tasks)
