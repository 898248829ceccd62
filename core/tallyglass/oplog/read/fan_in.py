"""Several streams read at once, one for each shard: one that fails does not stop the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, TypeVar

from tallyglass.errors import TallyglassError
from tallyglass.mongo.gateway import closing
from tallyglass.tasks import cancel_all

Item = TypeVar("Item")


class FanIn(Generic[Item]):
    """Reads all streams while it is entered. A stream waits while ``room`` of its items were not taken, 0 for no limit.

    ``errors`` are those that ended a stream, and ``ended`` names the streams that are at their end, both as far as
    their items were taken.
    """

    def __init__(self, streams: Mapping[str, AsyncIterator[Item]], room: int = 0) -> None:
        self.errors: dict[str, TallyglassError] = {}
        self.ended: set[str] = set()
        self._streams = dict(streams)
        self._queues: dict[str, asyncio.Queue[tuple[Item] | TallyglassError | None]] = {
            name: asyncio.Queue(room) for name in streams
        }
        self._arrived = asyncio.Event()
        self._tasks: list[asyncio.Future[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.ensure_future(self._pump(name)) for name in self._streams]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await cancel_all(self._tasks)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until something arrives or ends, at most this long. Raises what a stream should not have raised."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._arrived.wait()
        self._arrived.clear()
        for task in self._tasks:
            if task.done():
                task.result()

    def arrived(self, name: str) -> Iterator[Item]:
        """The items of one stream that have arrived, in order. Ends early where the caller stops."""
        queue = self._queues[name]
        while not queue.empty():
            found = queue.get_nowait()
            if isinstance(found, tuple):
                yield found[0]
                continue
            self.ended.add(name)
            if found is not None:
                self.errors[name] = found

    def all_arrived(self) -> Iterator[tuple[str, Item]]:
        """The items of all streams that have arrived, each with the name of its stream."""
        for name in self._queues:
            for item in self.arrived(name):
                yield name, item

    @property
    def done(self) -> bool:
        """Whether all streams have ended."""
        return len(self.ended) == len(self._queues)

    def raise_if_none_is_left(self) -> None:
        """Raise the first error if each stream was ended by one."""
        if self.errors and len(self.errors) == len(self._queues):
            raise next(iter(self.errors.values()))

    async def _pump(self, name: str) -> None:
        queue, last = self._queues[name], None
        try:
            async with closing(self._streams[name]) as items:
                async for item in items:
                    await queue.put((item,))
                    self._arrived.set()
        except TallyglassError as error:
            last = error
        finally:
            self._arrived.set()
        await queue.put(last)
        self._arrived.set()
