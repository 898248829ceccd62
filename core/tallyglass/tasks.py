"""Asyncio tasks: asking several places at once, and cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, TypeVar

from tallyglass.errors import TallyglassError

Answer = TypeVar("Answer")
Default = TypeVar("Default")


async def answer_or(default: Default, answer: Awaitable[Answer]) -> Answer | Default:
    """The answer, or ``default`` where an error of this package comes instead of it."""
    try:
        return await answer
    except TallyglassError:
        return default


async def answers_by_name(
    asked: Mapping[str, Awaitable[Answer]],
) -> tuple[dict[str, Answer], dict[str, TallyglassError]]:
    """The answers, and the errors of those that gave none, both by name and in order.

    Raises the first error if all failed.
    """

    async def one(answer: Awaitable[Answer]) -> Answer | TallyglassError:
        try:
            return await answer
        except TallyglassError as error:
            return error

    results = dict(zip(asked, await asyncio.gather(*map(one, asked.values())), strict=True))
    errors = {name: result for name, result in results.items() if isinstance(result, TallyglassError)}
    if errors and len(errors) == len(asked):
        raise next(iter(errors.values()))
    return {name: result for name, result in results.items() if not isinstance(result, TallyglassError)}, errors


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
