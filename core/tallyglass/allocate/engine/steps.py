"""Allocators are generators of steps; two short functions execute the steps, one per kind of driver.

A generator yields :class:`Call` (one driver call) and :class:`Pause`; it is sent the reply, or the driver's error is
thrown into it. The operation of a call is a closure over a collection, written against the synchronous driver, so that
its arguments and its reply are type-checked there. With an asynchronous driver the same closure returns an awaitable,
which :func:`run_async` awaits.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Generator, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import pymongo
from pymongo.errors import PyMongoError

from tallyglass.allocate.engine import forking
from tallyglass.allocate.engine.sessions import refuse_bound_transaction

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """Run ``operation`` within ``seconds``. With ``listing`` the cursor that it returns is read to its end."""

    operation: Callable[[], T]
    seconds: float
    listing: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next try."""

    seconds: float


Steps = Generator[Call[Any] | Pause, Any, T]
"""A generator that yields steps, is sent replies, and returns a T."""


def call(operation: Callable[[], T], seconds: float) -> Steps[T]:
    """One driver call; its reply has the type that the operation returns."""
    reply: T = yield Call(operation, seconds)
    return reply


def read_all(operation: Callable[[], Iterable[T]], seconds: float) -> Steps[list[T]]:
    """One driver call that returns a cursor; all its documents."""
    rows: list[T] = yield Call(operation, seconds, listing=True)
    return rows


def run(steps: Steps[T]) -> T:
    """Execute the steps with a synchronous driver. An exception from outside closes the generator."""
    refuse_bound_transaction()
    began = forking.process
    try:
        step = next(steps)
        while True:
            forking.refuse_forked(began)
            if isinstance(step, Pause):
                time.sleep(step.seconds)
                step = next(steps)
                continue
            try:
                with pymongo.timeout(step.seconds):
                    reply = step.operation()
                    if step.listing:
                        reply = list(reply)
            except PyMongoError as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as stop:
        forking.refuse_forked(began)
        return stop.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def run_async(steps: Steps[T]) -> T:
    """Execute the steps with an asynchronous driver. A cancelled caller closes the generator.

    The driver call itself is never cancelled: it continues in the background up to its own time limit. On CPython
    3.11 a second cancellation during server selection leaves an AsyncMongoClient unusable.
    """
    refuse_bound_transaction()
    began = forking.process
    try:
        step = next(steps)
        while True:
            forking.refuse_forked(began)
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                step = next(steps)
                continue
            try:
                with pymongo.timeout(step.seconds):
                    running = asyncio.ensure_future(_reply(step))
                reply = await _shielded(running)
            except PyMongoError as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as stop:
        forking.refuse_forked(began)
        return stop.value  # type: ignore[no-any-return]
    finally:
        steps.close()


async def to_its_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to completion even when the caller is cancelled: for work that must not stop half-way."""
    return await _shielded(asyncio.ensure_future(coroutine))


_abandoned: set[asyncio.Future[Any]] = set()


async def _shielded(running: asyncio.Future[T]) -> T:
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if not running.done():
            # The loop holds its tasks by weak references only.
            _abandoned.add(running)
            running.add_done_callback(_forget)
        raise


def _forget(running: asyncio.Future[Any]) -> None:
    _abandoned.discard(running)
    if not running.cancelled():
        running.exception()


async def _reply(step: Call[Any]) -> Any:
    reply = step.operation()
    if inspect.isawaitable(reply):
        reply = await reply
    if step.listing:
        return [document async for document in reply]
    return reply
