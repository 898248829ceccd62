"""Tasks are cancelled once, and have ended when ``end`` returns."""

from __future__ import annotations

import asyncio

from tallyglass.tasks import end


async def test_tasks_are_cancelled_once_and_waited_for() -> None:
    cancelled = 0

    async def slow_to_end() -> None:
        nonlocal cancelled
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled += 1
            for _ in range(3):
                await asyncio.sleep(0)
            raise

    async def failing() -> None:
        raise ValueError

    tasks = [asyncio.ensure_future(slow_to_end()), asyncio.ensure_future(failing())]
    await asyncio.sleep(0)
    await end(tasks)
    assert cancelled == 1
    assert all(task.done() for task in tasks)
