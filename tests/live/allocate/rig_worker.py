"""One allocating process of the fault rig: threads and tasks take ids and record each one, until stdin ends.

Usage: rig_worker.py URI FOLDER ranges|inserts. ``ranges`` takes ids from counters, directly and from memory;
``inserts`` inserts documents with each of the classes that do, and with keys that are made in the process. Ids go as
integers of ``width(space)`` bytes to ``FOLDER/<space>.<pid>``, burned ranges as lines ``space n`` to
``FOLDER/burned.<pid>``, calls that took longer than ``USUAL`` as lines ``class began ended`` to ``FOLDER/waits.<pid>``.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import DuplicateKeyError, PyMongoError

from tallyglass.allocate import (
    ARTICLE,
    AllocationTimeout,
    AllocationUnknown,
    AsyncCached,
    AsyncCounter,
    AsyncCounters,
    AsyncGaplessInsert,
    AsyncMaxPlusOne,
    AsyncPool,
    AsyncProxiedInsert,
    AsyncRandomIds,
    Cached,
    CollisionLimit,
    Counter,
    Counters,
    Deadlines,
    Event,
    EventKind,
    GaplessInsert,
    MaxPlusOne,
    NumberSpace,
    Pool,
    ProxiedInsert,
    RandomIds,
    new_object_id,
    new_uuid,
)

DB, KEY, STEP, CHUNK, MOST = "rig", "ids", 1000, 100, 50
SCOPE, PERIOD = ("acme", "ticket"), "2026"
RANGES = ("counter", "pool", "scoped")
"""Spaces whose ids come from counters, in ranges."""
INSERTS = ("gapless", "random", "max_plus_one", "proxied")
"""Spaces whose ids are in the field ``number`` of the collection of that name."""
KEYS: dict[str, Callable[[], Any]] = {"object_ids": new_object_id, "uuids": new_uuid}
"""Spaces whose ids are made without a server and are the ``_id`` of the collection of that name."""
PAUSE = 0.01
USUAL = 0.25
"""Seconds that a call may take beside all the other processes of the rig; more is time lost."""
OPTIONS: dict[str, Any] = {
    "heartbeatFrequencyMS": 500,
    "connectTimeoutMS": 1500,
    "uuidRepresentation": "standard",
    "serverSelectionTimeoutMS": 20_000,
    "appName": "rig",
}
PASSING = (AllocationTimeout, AllocationUnknown, CollisionLimit)


def width(space: str) -> int:
    """Bytes of a recorded id."""
    return 16 if space in KEYS else 8


def number(key: Any) -> int:
    """A key that was made without a server, as an integer."""
    return int.from_bytes(getattr(key, "binary", None) or key.bytes)


class Book:
    """The files in which a process records the ids it got and lost."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = {space: self._open(space) for space in (*RANGES, *INSERTS, *KEYS, "burned", "waits")}

    def _open(self, name: str) -> int:
        return os.open(self._folder / f"{name}.{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def ids(self, space: str, ids: Iterable[int]) -> None:
        os.write(self._files[space], array("q", ids).tobytes())

    def key(self, space: str, key: Any) -> None:
        os.write(self._files[space], number(key).to_bytes(width(space)))

    @contextmanager
    def call(self, name: str) -> Iterator[None]:
        """Around each call of the class ``name``, whether it succeeds or not."""
        began = time.monotonic()
        try:
            yield
        finally:
            ended = time.monotonic()
            if ended - began > USUAL:
                os.write(self._files["waits"], f"{name} {began} {ended}\n".encode())

    def hook(self, space: str) -> Any:
        def note(event: Event) -> None:
            if event.kind is EventKind.BURNED:
                os.write(self._files["burned"], f"{space} {event.n}\n".encode())

        return note


def run_threads(*targets: Callable[[], None]) -> None:
    """Run each in a thread of its own; an error in one of them is raised here."""
    with ThreadPoolExecutor(len(targets)) as pool:
        for result in [pool.submit(target) for target in targets]:
            result.result()


def take_ranges(uri: str, book: Book, stop: threading.Event, how: dict[str, Any]) -> None:
    """Five threads: two on a cache over the counter, one on a cache over a scope, one each on a counter and a pool."""
    client: MongoClient[Any] = MongoClient(uri, **OPTIONS)
    db, limits = client[DB], {"deadlines": how["deadlines"]}
    note, note_scoped = book.hook("counter"), book.hook("scoped")
    cached = Cached(Counter(db.counters, KEY, **how, on_event=note), step=STEP, patience=60, on_event=note)
    scopes = Counters(db.scopes, **limits, on_event=note_scoped)
    scoped = Cached(scopes.of(*SCOPE, period=PERIOD), step=STEP, patience=60, on_event=note_scoped)

    def from_cache(space: str, name: str, ids: Cached) -> None:
        while not stop.is_set():
            try:
                with book.call(name):
                    taken = [*ids.take(CHUNK - 1), ids.next()]
                book.ids(space, taken)
            except PASSING:
                continue

    def ranges(space: str, name: str, ids: Counter | Pool) -> None:
        while not stop.is_set():
            try:
                with book.call(name):
                    taken = ids.take(random.randint(1, MOST))
                book.ids(space, taken)
            except PASSING:
                continue

    both = partial(from_cache, "counter", "Cached", cached)
    run_threads(
        both,
        both,
        partial(from_cache, "scoped", "Cached/Counters", scoped),
        partial(ranges, "counter", "Counter", Counter(db.counters, KEY, **how, on_event=note)),
        partial(ranges, "pool", "Pool", Pool(db.pool, **limits, on_event=book.hook("pool"))),
    )
    cached.close()
    scoped.close()
    client.close()


async def take_ranges_async(uri: str, book: Book, stop: threading.Event, how: dict[str, Any]) -> None:
    """Six tasks: four on one cache over the pool, and one each on a counter and a scope."""
    client: AsyncMongoClient[Any] = AsyncMongoClient(uri, **OPTIONS)
    db, limits = client[DB], {"deadlines": how["deadlines"]}
    note = book.hook("pool")
    cached = AsyncCached(AsyncPool(db.pool, **limits, on_event=note), step=STEP, patience=60, on_event=note)
    direct = AsyncCounter(db.counters, KEY, **how, on_event=book.hook("counter"))
    scopes = AsyncCounters(db.scopes, **limits, on_event=book.hook("scoped"))

    async def from_cache() -> None:
        while not stop.is_set():
            try:
                with book.call("AsyncCached/AsyncPool"):
                    taken = [*await cached.take(CHUNK - 1), await cached.next()]
                book.ids("pool", taken)
            except PASSING:
                continue
            await asyncio.sleep(0)

    async def ranges(space: str, name: str, ids: Any) -> None:
        while not stop.is_set():
            try:
                with book.call(name):
                    taken = await ids.take(random.randint(1, MOST))
                book.ids(space, taken)
            except PASSING:
                continue

    await asyncio.gather(
        *(from_cache() for _ in range(4)),
        ranges("counter", "AsyncCounter", direct),
        ranges("scoped", "AsyncCounters", scopes.of(*SCOPE, period=PERIOD)),
    )
    await cached.close()
    await client.close()


def insert(uri: str, book: Book, stop: threading.Event, how: dict[str, Any]) -> None:
    """A thread for each class that inserts documents."""
    client: MongoClient[Any] = MongoClient(uri, **OPTIONS)
    db, limits = client[DB], {"deadlines": how["deadlines"]}
    numbers = Cached(Counter(db.counters, "proxied", **limits), step=100, patience=60)
    numbers_of = {
        "gapless": GaplessInsert(db.gapless_counters, db.gapless, **limits).insert,
        "random": RandomIds(db.random, "number", NumberSpace.digits(12), **limits).insert,
        "max_plus_one": MaxPlusOne(db.max_plus_one, "number", **limits).insert,
        "proxied": partial(insert_reserved, ProxiedInsert(db.proxies, db.proxied, "number", **limits), numbers),
    }

    def repeat(space: str, insert_one: Callable[[dict[str, Any]], int]) -> None:
        while not stop.wait(PAUSE):
            try:
                with book.call(space):
                    given = insert_one({})
                book.ids(space, [given])
            except PASSING:
                continue

    def repeat_key(space: str, make: Callable[[], Any]) -> None:
        while not stop.wait(PAUSE):
            try:
                book.key(space, db[space].insert_one({"_id": make()}).inserted_id)
            except DuplicateKeyError:
                raise
            except PyMongoError:
                continue

    by_class = (partial(repeat, *pair) for pair in numbers_of.items())
    run_threads(*by_class, *(partial(repeat_key, *pair) for pair in KEYS.items()))
    numbers.close()
    client.close()


def insert_reserved(inserts: ProxiedInsert, numbers: Cached, document: dict[str, Any]) -> int:
    number = numbers.next()
    inserts.insert({**document, "number": number})
    return number


async def insert_async(uri: str, book: Book, stop: threading.Event, how: dict[str, Any]) -> None:
    """A task for each class that inserts documents."""
    client: AsyncMongoClient[Any] = AsyncMongoClient(uri, **OPTIONS)
    db, limits = client[DB], {"deadlines": how["deadlines"]}
    numbers = AsyncCached(AsyncCounter(db.counters, "proxied", **limits), step=100, patience=60)
    inserts = AsyncProxiedInsert(db.proxies, db.proxied, "number", **limits)

    async def reserved(document: dict[str, Any]) -> int:
        number = await numbers.next()
        await inserts.insert({**document, "number": number})
        return number

    async def repeat(space: str, insert_one: Callable[[dict[str, Any]], Awaitable[int]]) -> None:
        while not stop.is_set():
            await asyncio.sleep(PAUSE)
            try:
                with book.call(f"async_{space}"):
                    given = await insert_one({})
                book.ids(space, [given])
            except PASSING:
                continue

    async def repeat_key(space: str, make: Callable[[], Any]) -> None:
        while not stop.is_set():
            await asyncio.sleep(PAUSE)
            try:
                book.key(space, (await db[space].insert_one({"_id": make()})).inserted_id)
            except DuplicateKeyError:
                raise
            except PyMongoError:
                continue

    await asyncio.gather(
        *(repeat_key(*pair) for pair in KEYS.items()),
        repeat("gapless", AsyncGaplessInsert(db.gapless_counters, db.gapless, **limits).insert),
        repeat("random", AsyncRandomIds(db.random, "number", NumberSpace.digits(12), **limits).insert),
        repeat("max_plus_one", AsyncMaxPlusOne(db.max_plus_one, "number", **limits).insert),
        repeat("proxied", reserved),
    )
    await numbers.close()
    await client.close()


WORK = {"ranges": (take_ranges, take_ranges_async), "inserts": (insert, insert_async)}


def main() -> None:
    uri, folder = sys.argv[1], Path(sys.argv[2])
    threads, tasks = WORK[sys.argv[3]]
    stop, book = threading.Event(), Book(folder)
    how: dict[str, Any] = {"layout": ARTICLE, "deadlines": Deadlines(60, 5)}

    def wait_for_end_of_input() -> None:
        sys.stdin.buffer.read()
        stop.set()

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()
    with ThreadPoolExecutor(1) as executor:
        synchronous = executor.submit(threads, uri, book, stop, how)
        asyncio.run(tasks(uri, book, stop, how))
        synchronous.result()


if __name__ == "__main__":
    main()
