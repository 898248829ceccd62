"""Measure the rate, latency and server commands of a method of allocating ids, with threads or tasks."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import time
from array import array
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pymongo import AsyncMongoClient, MongoClient

from tallyglass.allocate import Counter
from tallyglass.demo.server import ReplicaSet

DB = "bench"
COMMANDS = ("findAndModify", "find", "insert", "update", "aggregate")

Take = Callable[[], Any]


@dataclass
class RateRow:
    """One measured method. Rates in ids per second, times in microseconds; None where not measured."""

    name: str
    rate: float
    p50: float | None = None
    p99: float | None = None
    p999: float | None = None
    commands: float | None = None
    ratio: float = 0.0
    stalls: str = ""
    note: str = ""


class Bench:
    """The server, a client, and the rows measured so far. ``seconds`` is the length of each pass."""

    def __init__(self, servers: ReplicaSet, seconds: float) -> None:
        self.uri = servers.uri
        self.seconds = seconds
        self.client: MongoClient[Any] = MongoClient(self.uri, maxPoolSize=64)
        self.db = self.client[DB]
        self.rows: list[RateRow] = []
        self._keys = itertools.count()

    def counter(self) -> Counter:
        """Create a new counter document."""
        made = Counter(self.db.counters, f"bench-{next(self._keys)}")
        made.create()
        return made

    def commands(self) -> int:
        """Return the number of commands that the server has run, of the kinds that allocation uses."""
        totals = self.client.admin.command("serverStatus")["metrics"]["commands"]
        return sum(int(totals[name]["total"]) for name in COMMANDS)

    def add(self, name: str, ids: int, elapsed: float, times: array[int], commands: int | None, **more: Any) -> RateRow:
        """Add a row. ``times`` are the durations of single calls in nanoseconds."""
        ordered = sorted(times)

        def percentile_us(part: float) -> float | None:
            return ordered[min(len(ordered) - 1, int(len(ordered) * part))] / 1000 if ordered else None

        per_thousand = None if commands is None else 1000 * commands / ids
        row = RateRow(
            name, ids / elapsed, percentile_us(0.5), percentile_us(0.99), percentile_us(0.999), per_thousand, **more
        )
        self.rows.append(row)
        print(f"  {name}: {row.rate:,.0f}/s", file=sys.stderr, flush=True)
        return row

    def threads(self, name: str, take: Take, *, count: int = 1, each: int = 1, burst: int = 1, **more: Any) -> RateRow:
        """Measure ``count`` threads that call ``take``, which returns ``each`` ids, ``burst`` times per clock check."""
        before, began = self.commands(), time.perf_counter()
        end = began + self.seconds
        done = _in_threads(count, lambda: _until(end, take, burst))
        elapsed, commands = time.perf_counter() - began, self.commands() - before
        end = time.perf_counter() + self.seconds / 2
        times = _joined(_in_threads(count, lambda: _timed(end, take)))
        return self.add(name, sum(done) * each, elapsed, times, commands, **more)

    def tasks(
        self, name: str, make: Callable[[Any], Awaitable[tuple[Callable[[], Awaitable[Any]], Any]]], **how: Any
    ) -> RateRow:
        """Measure tasks on one event loop. ``make`` gets a database and returns the call and the object to close."""
        return asyncio.run(self._tasks(name, make, **how))

    async def _tasks(self, name: str, make: Any, *, count: int = 1, each: int = 1) -> RateRow:
        client: AsyncMongoClient[Any] = AsyncMongoClient(self.uri, maxPoolSize=64)
        take, closing = await make(client[DB])
        earlier = closing.stats() if closing is not None else None
        before, began = self.commands(), time.perf_counter()
        end = began + self.seconds
        done = await asyncio.gather(*(_until_async(end, take) for _ in range(count)))
        elapsed, commands = time.perf_counter() - began, self.commands() - before
        end = time.perf_counter() + self.seconds / 2
        times = _joined(await asyncio.gather(*(_timed_async(end, take) for _ in range(count))))
        stalls = stalls_between(earlier, closing.stats()) if closing is not None else ""
        if closing is not None:
            await closing.close()
        await client.close()
        return self.add(name, sum(done) * each, elapsed, times, commands, stalls=stalls)


def _in_threads(count: int, work: Callable[[], Any]) -> list[Any]:
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def _until(end: float, take: Take, burst: int) -> int:
    calls = 0
    while time.perf_counter() < end:
        for _ in range(burst):
            take()
        calls += burst
    return calls


async def _until_async(end: float, take: Callable[[], Awaitable[Any]]) -> int:
    calls = 0
    while time.perf_counter() < end:
        for _ in range(200):
            await take()
        calls += 200
        # Yield as a service does all the time. Otherwise nothing else on the loop runs, including the prefetch.
        await asyncio.sleep(0)
    return calls


def _timed(end: float, take: Take, most: int = 500_000) -> array[int]:
    times, clock = array("q"), time.perf_counter_ns
    while len(times) < most and time.perf_counter() < end:
        began = clock()
        take()
        times.append(clock() - began)
    return times


async def _timed_async(end: float, take: Callable[[], Awaitable[Any]], most: int = 500_000) -> array[int]:
    times, clock = array("q"), time.perf_counter_ns
    while len(times) < most and time.perf_counter() < end:
        began = clock()
        await take()
        times.append(clock() - began)
        if len(times) % 200 == 0:
            await asyncio.sleep(0)
    return times


def _joined(parts: Sequence[array[int]]) -> array[int]:
    whole = array("q")
    for part in parts:
        whole.extend(part)
    return whole


def stalls_between(before: Any, after: Any) -> str:
    """Return the stalled calls and the fetches between two ``stats()``, as text."""
    return f"{after.stalls - before.stalls}/{after.fetches - before.fetches}"


def table(rows: Sequence[RateRow]) -> str:
    """Return the rows as a text table."""
    lines = [f"{'':34}{'ids/s':>13}{'ratio':>11}{'p50 us':>10}{'p99 us':>10}{'p999 us':>10}{'cmd/1000':>10}  stalls"]
    for row in rows:
        if row.note:
            lines.append(f"{row.name:34}  {row.note}")
            continue
        times = "".join("         -" if value is None else f"{value:10.2f}" for value in (row.p50, row.p99, row.p999))
        commands = "         -" if row.commands is None else f"{row.commands:10.3f}"
        lines.append(f"{row.name:34}{row.rate:13,.0f}{row.ratio:10,.1f}x{times}{commands}  {row.stalls}")
    return "\n".join(lines)
