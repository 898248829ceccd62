"""One pure core, two thin shells: what an allocator wants done is a generator of steps; a shell carries them out.

A core yields :class:`Call` (one method of a collection or database) and :class:`Pause`; it is sent the reply, or the
driver's error is thrown into it. :func:`run` and :func:`run_async` are all that differs between the drivers.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pymongo
from pymongo.errors import PyMongoError

from tallyglass.allocate.errors import TransactionRefused

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """Call ``method`` of ``on`` within ``seconds``. With ``listing`` the cursor is read to its end."""

    on: Any
    method: str
    args: tuple[Any, ...] = ()
    seconds: float = 10.0
    options: Mapping[str, Any] = field(default_factory=dict)
    listing: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before going on: the back-off of a retry."""

    seconds: float


Steps = Generator[Call | Pause, Any, T]
"""A core: yields steps, is sent replies, returns a T."""


def run(steps: Steps[T]) -> T:
    """Carry the steps out with a synchronous driver. A step that is cut short closes the core."""
    refuse_bound_transaction()
    try:
        step = next(steps)
        while True:
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                step = next(steps)
                continue
            try:
                with pymongo.timeout(step.seconds):
                    reply = getattr(step.on, step.method)(*step.args, **step.options)
                    if step.listing:
                        reply = list(reply)
            except PyMongoError as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def run_async(steps: Steps[T]) -> T:
    """Carry the steps out with an asynchronous driver. A cancelled step closes the core."""
    refuse_bound_transaction()
    try:
        step = next(steps)
        while True:
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                step = next(steps)
                continue
            try:
                with pymongo.timeout(step.seconds):
                    reply = getattr(step.on, step.method)(*step.args, **step.options)
                    if inspect.isawaitable(reply):
                        reply = await reply
                    if step.listing:
                        reply = [document async for document in reply]
            except PyMongoError as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    finally:
        steps.close()


def refuse_transaction(session: Any) -> None:
    """Raise TransactionRefused for a session that is in a transaction."""
    if session is not None and session.in_transaction:
        raise TransactionRefused(
            "This session is in a transaction, and ids are never taken inside one.",
            "An abort would take the increment back after its ids were used. Take the ids before the transaction.",
        )


def refuse_bound_transaction() -> None:
    """The same for the session that PyMongo binds to a context (``with session.bind():``), if there is one.

    PyMongo would use it without being told to. Its context variable is found by its name, since it is not public.
    """
    for variable, value in contextvars.copy_context().items():
        if variable.name == "SESSION" and hasattr(value, "in_transaction"):
            refuse_transaction(value)
