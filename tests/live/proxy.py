"""A TCP proxy that simulates network faults between clients and a server.

If replica set members know each other by the ports of their proxies, a fault separates them from clients and from each
other. Each proxy runs an event loop in its own thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

HOST = "127.0.0.1"
_CHUNK = 1 << 16
_RESEND_SECONDS = 0.2
_TRIES = 3


class Proxy:
    """Forwards bytes between a listening ``port`` and ``target``.

    :meth:`cut` and :meth:`heal` simulate a network partition: meanwhile open connections stay open and silent, and new
    ones are accepted but never answered. :meth:`reset` breaks all connections at once.

    ``delay`` is the latency in seconds, each way. ``loss`` is the share of chunks that are lost and sent again after
    increasing waits; a chunk that is lost too often resets the connection. ``rewritten`` holds pairs of bytes that the
    target sends and their replacements of the same length; open connections keep what they received before.
    """

    def __init__(self, target: int, port: int) -> None:
        self.target = target
        self.port = port
        self.delay = 0.0
        self.loss = 0.0
        self.rewritten: Sequence[tuple[bytes, bytes]] = ()
        self._chance = random.Random(7)
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._server = self._do(asyncio.start_server(self._serve, HOST, port))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def cut(self) -> None:
        """Hold back all bytes in both directions."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def heal(self) -> None:
        """Forward bytes again, including those held back, as after a real partition."""
        self._loop.call_soon_threadsafe(self._open.set)

    def reset(self) -> None:
        """Break all connections."""
        self._do(self._break())

    def close(self) -> None:
        """Close all connections and stop listening."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, coroutine: object) -> object:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()  # type: ignore[arg-type]

    async def _break(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _end(self) -> None:
        self._server.close()  # type: ignore[attr-defined]
        await self._break()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await self._open.wait()
                far_reader, far_writer = await asyncio.open_connection(HOST, self.target)
                self._writers.add(far_writer)
                try:
                    async with asyncio.TaskGroup() as group:
                        group.create_task(self._pass(reader, far_writer))
                        group.create_task(self._pass(far_reader, writer, answers=True))
                finally:
                    self._writers.discard(far_writer)
                    far_writer.close()
        finally:
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                for sent, replacement in self.rewritten if answers else ():
                    data = data.replace(sent, replacement)
                if self.delay:
                    await asyncio.sleep(self.delay)
                await self._simulate_loss(writer)
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        writer.close()

    async def _simulate_loss(self, writer: asyncio.StreamWriter) -> None:
        wait = _RESEND_SECONDS
        while self._chance.random() < self.loss:
            if wait > _RESEND_SECONDS * 2**_TRIES:
                writer.transport.abort()
                raise ConnectionResetError
            await asyncio.sleep(wait)
            wait *= 2
