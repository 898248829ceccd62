"""The bases of all public allocators: how the steps of an operation are executed, and what they have in common.

An operation is a generator of steps, written once for both kinds of driver. A public class is a thin shell over it: a
synchronous one of a :class:`SyncAllocator`, an asynchronous one of an :class:`AsyncAllocator`.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, TypeVar

from tallyglass.allocate.engine.attempts import Deadlines, RetryBudget
from tallyglass.allocate.engine.forking import Uncopyable
from tallyglass.allocate.engine.handles import Documents
from tallyglass.allocate.engine.meter import Hook, Meter, Stats
from tallyglass.allocate.engine.steps import Steps, run, run_async
from tallyglass.allocate.errors import WrongEventLoop

C = TypeVar("C")
"""The collections that a class accepts: of a synchronous client, or of an asynchronous one."""

T = TypeVar("T")


class Core(Uncopyable):
    """What the steps of an allocator have in common; ``where`` names it in events and errors."""

    def __init__(self, collection: Documents, where: str, deadlines: Deadlines | None, on_event: Hook | None) -> None:
        self.collection = collection
        self.where = where
        self.meter = Meter(on_event, where)
        self.deadlines = deadlines or Deadlines()

    def budget(self) -> RetryBudget:
        """The time budget of one operation."""
        return RetryBudget(self.deadlines, self.collection.database.client)

    def stats(self) -> Stats:
        """Statistics of this allocator in this process."""
        return self.meter.stats()


class Reporting(Uncopyable):
    """An allocator over a core that counts what it does."""

    _core: Core

    def stats(self) -> Stats:
        """Statistics of this allocator in this process."""
        return self._core.stats()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.where}>"


class SyncAllocator(Uncopyable):
    """An allocator for the collections of a MongoClient."""

    _asynchronous: ClassVar = False

    def _run(self, steps: Steps[T]) -> T:
        return run(steps)


class AsyncAllocator(Uncopyable):
    """An allocator for an AsyncMongoClient or Motor. It belongs to the event loop on which it is first used."""

    _asynchronous: ClassVar = True
    _loop: asyncio.AbstractEventLoop | None = None

    async def _run(self, steps: Steps[T]) -> T:
        self._check_loop()
        return await run_async(steps)

    def _check_loop(self) -> None:
        """Raise WrongEventLoop if the running loop is not the first one."""
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        elif self._loop is not running:
            raise WrongEventLoop(
                "This allocator belongs to another event loop.",
                "Create one for each loop, with a client of that loop; they may share the counter.",
            )
