"""One allocating process of the fault rig: threads and tasks take ids and write each one down, until stdin ends.

Usage: rig_worker.py URI FOLDER. Ids go as 8-byte integers to ``FOLDER/<space>.<pid>``, burned ranges as
lines ``space n`` to ``FOLDER/burned.<pid>``.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient, MongoClient

from tallyglass.allocate import (
    ARTICLE,
    AllocationTimeout,
    AllocationUnknown,
    AsyncCached,
    AsyncCounter,
    AsyncPool,
    Cached,
    Counter,
    Deadlines,
    Event,
    EventKind,
)

DB, KEY, STEP, CHUNK, MOST = "rig", "ids", 1000, 100, 50
OPTIONS: dict[str, Any] = {
    "heartbeatFrequencyMS": 500,
    "connectTimeoutMS": 1500,
    "serverSelectionTimeoutMS": 20_000,
    "appName": "rig",
}
PASSING = (AllocationTimeout, AllocationUnknown)


class Book:
    """Where a process writes down what it got and what it lost."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = {space: self._open(space) for space in ("counter", "pool", "burned")}

    def _open(self, name: str) -> int:
        return os.open(self._folder / f"{name}.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def ids(self, space: str, ids: Iterable[int]) -> None:
        os.write(self._files[space], array("q", ids).tobytes())

    def hook(self, space: str) -> Any:
        def note(event: Event) -> None:
            if event.kind is EventKind.BURNED:
                os.write(self._files["burned"], f"{space} {event.n}\n".encode())

        return note


def work(uri: str, book: Book, stop: threading.Event, how: dict[str, Any]) -> None:
    """Four threads: three on one cache over the counter, one taking ranges from it directly."""
    client: MongoClient[Any] = MongoClient(uri, **OPTIONS)
    counters = client[DB].counters
    note = book.hook("counter")
    cached = Cached(Counter(counters, KEY, **how, on_event=note), step=STEP, patience=60, on_event=note)
    direct = Counter(counters, KEY, **how, on_event=note)

    def from_cache() -> None:
        while not stop.is_set():
            try:
                book.ids("counter", [*cached.take(CHUNK - 1), cached.next()])
            except PASSING:
                continue

    def ranges() -> None:
        while not stop.is_set():
            try:
                book.ids("counter", direct.take(random.randint(1, MOST)))
            except PASSING:
                continue

    threads = [threading.Thread(target=target) for target in (from_cache, from_cache, from_cache, ranges)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cached.close()
    client.close()


async def work_async(uri: str, book: Book, stop: threading.Event, how: dict[str, Any]) -> None:
    """Five tasks: four on one cache over the pool, one taking ranges from the counter."""
    client: AsyncMongoClient[Any] = AsyncMongoClient(uri, **OPTIONS)
    deadlines = {key: value for key, value in how.items() if key != "layout"}
    note = book.hook("pool")
    cached = AsyncCached(AsyncPool(client[DB].pool, **deadlines, on_event=note), step=STEP, patience=60, on_event=note)
    direct = AsyncCounter(client[DB].counters, KEY, **how, on_event=book.hook("counter"))

    async def from_cache() -> None:
        while not stop.is_set():
            try:
                book.ids("pool", [*await cached.take(CHUNK - 1), await cached.next()])
            except PASSING:
                continue
            await asyncio.sleep(0)

    async def ranges() -> None:
        while not stop.is_set():
            try:
                book.ids("counter", await direct.take(random.randint(1, MOST)))
            except PASSING:
                continue

    await asyncio.gather(*(from_cache() for _ in range(4)), ranges())
    await cached.close()
    await client.close()


def main() -> None:
    uri, folder = sys.argv[1], Path(sys.argv[2])
    stop, book = threading.Event(), Book(folder)
    how: dict[str, Any] = {"layout": ARTICLE, "deadlines": Deadlines(60, 5)}

    def wait_for_the_end() -> None:
        sys.stdin.buffer.read()
        stop.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            work(uri, book, stop, how)
        except BaseException as error:
            failed.append(error)
            raise

    threads = threading.Thread(target=guarded)
    threads.start()
    asyncio.run(work_async(uri, book, stop, how))
    threads.join()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
