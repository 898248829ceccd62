"""The whole demo in one object: a server, its data, a first backup, and a workload in a background thread."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from tallyglass.demo import backup
from tallyglass.demo.server import ReplicaSet
from tallyglass.demo.workload import Pace, Workload


class Demo:
    """An embedded one-member replica set under a lively workload, with a backup from just before it started.

    A context manager. :meth:`close` ends and removes everything; where the process dies without it, the
    server's guard process does the same. ``seed`` makes the data repeatable. Raises EmbeddedServerError.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        mongod: str | None = None,
        pace: Pace | None = None,
        seed: int | None = None,
    ) -> None:
        self.failure: Exception | None = None
        """What ended the workload before its time, if anything did."""
        self._pace = pace or Pace()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        self._server = ReplicaSet(1, set_name="demo", mongod=mongod, ports=[port] if port else ())
        try:
            self._workload = Workload(random.Random(seed))
            self._workload.seed(self.uri)
            self.backup: Path = backup.take(self.uri, self._server.folder / "backup")
            self._thread = threading.Thread(target=self._work, name="demo-workload", daemon=True)
            self._thread.start()
            self._started.wait()
        except BaseException:
            self._server.stop()
            raise

    @property
    def uri(self) -> str:
        """Where the replica set listens."""
        return self._server.uri

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the workload and the server, and remove everything. May be called twice."""
        if self._loop and self._stop and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(timeout=5)
        self._server.stop()

    def _work(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception as error:  # noqa: BLE001 - the outermost guard of the thread: a trace would land on the screen
            self.failure = error

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        await self._workload.run(self.uri, self._stop, self._pace)
