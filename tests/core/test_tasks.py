"""``cancel_all`` cancels tasks once and waits for their end."""

from __future__ import annotations

import asyncio

from tallyglass.tasks import cancel_all


async def test_cancels_tasks_once_and_waits() -> None:
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
    await cancel_all(tasks)
    assert cancelled == 1
    assert all(task.done() for task in tasks)
