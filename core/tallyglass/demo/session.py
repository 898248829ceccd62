"""The demo as one object: a server, its data, a first backup, and a workload in a background thread."""

from __future__ import annotations

import asyncio
import random
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pymongo.errors import PyMongoError

from tallyglass.demo import backup, history
from tallyglass.demo.server import ReplicaSet, Servers
from tallyglass.demo.workload import Schedule, Workload
from tallyglass.errors import EmbeddedServerError

SLOWMS = 3
"""From how many milliseconds up the demo's server logs a statement."""


class Demo:
    """An embedded one-member replica set under a mixed workload, with a day of history and a backup from its start.

    If this version of mongod does not allow history to be written, the set is new and the backup is taken just before
    the workload starts.

    A context manager. :meth:`close` stops and removes everything; if the process dies first, the guard process of the
    server does it. ``seed`` makes the data repeatable. Raises EmbeddedServerError.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        mongod: str | None = None,
        schedule: Schedule | None = None,
        seed: int | None = None,
    ) -> None:
        self.failure: Exception | None = None
        """The error that stopped the workload, or None."""
        self.backup: Path
        """The folder of the backup."""
        self._schedule = schedule or Schedule()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._started = threading.Event()
        try:
            self._begin(random.Random(seed), with_past=True, mongod=mongod, ports=[port] if port else ())
        except (EmbeddedServerError, PyMongoError):
            self._begin(random.Random(seed), with_past=False, mongod=mongod, ports=[port] if port else ())
        try:
            self._thread = threading.Thread(target=self._work, name="demo-workload", daemon=True)
            self._thread.start()
            self._started.wait()
        except BaseException:
            self._server.stop()
            raise

    def _begin(self, rng: random.Random, *, with_past: bool, **how: Any) -> None:
        self._workload = Workload(rng)

        def write_past(servers: Servers) -> None:
            self.backup = history.begin(servers, self._workload.streams, rng)

        # With it the log names who made an accident, and is silent about the usual writes.
        options = [f"--slowms={SLOWMS}"]
        self._server = ReplicaSet(1, set_name="demo", before=write_past if with_past else None, options=options, **how)
        if not with_past:
            try:
                self._workload.seed(self.uri)
                self.backup = backup.take(self.uri, self._server.folder / "backup")
            except BaseException:
                self._server.stop()
                raise

    @property
    def uri(self) -> str:
        """Connection string of the replica set."""
        return self._server.uri

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workload and the server, and remove all files. May be called twice."""
        if self._loop and self._stop and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(timeout=5)
        self._server.stop()

    def _work(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception as error:  # noqa: BLE001 - a traceback from the thread would be printed over the screen
            self.failure = error

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._started.set()
        await self._workload.run(self.uri, self._stop, self._schedule)
