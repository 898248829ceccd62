"""Measure watching 100,000 counters in 50 collections: time to the first data, cost, and blocking of the event loop.

Uses the same interpreter settings as the dashboard.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import time
from collections import Counter as Tally
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from bson import Int64
from pymongo import monitoring

from tallyglass.connection.target import Target
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import look, watch
from tallyglass.demo.server import ReplicaSet
from tallyglass.demo.session import Demo
from tallyglass.demo.workload import Schedule
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import closing
from tallyglass_tui.counters.cells import SORTS
from tallyglass_tui.counters.page import CountersPage
from tallyglass_tui.pages import PAGES
from tallyglass_tui.shell.app import Dashboard
from tallyglass_tui.shell.context import Context
from tallyglass_tui.shell.feed import Feeds
from tallyglass_tui.terminal.interpreter import collector_held, tune_interpreter

DB = "bench"
_TICK = 0.001


@dataclass(frozen=True, slots=True)
class Refresh:
    """One refresh: seconds until its snapshot, its counters, the longest block of the event loop, and its queries."""

    seconds: float
    counters: int
    longest_block_ms: float
    finds: int
    most_finds_on_one: int


@dataclass(frozen=True, slots=True)
class Key:
    """One key on the page: seconds until the rows are in their new order, and the longest block of its event loop.

    ``longest_wait_ms`` is wall-clock time, which includes other threads and other load on the machine.
    """

    title: str
    seconds: float
    longest_block_ms: float
    longest_wait_ms: float
    rows: int


class Commands(monitoring.CommandListener):
    """Counts the finds on each collection."""

    def __init__(self) -> None:
        self.finds: Tally[str] = Tally()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name == "find" and event.database_name == DB:
            self.finds[event.command["find"]] += 1

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Ignore the event."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Ignore the event."""


class LoopBlocks:
    """Measures how long the event loop is blocked.

    It uses the CPU time of the loop's thread, which excludes other load on the machine, or wall-clock time with
    ``waiting``, which includes waiting for other threads.
    """

    def __init__(self, *, waiting: bool = False) -> None:
        self.longest = 0.0
        self._clock = time.perf_counter if waiting else time.thread_time
        self._task = asyncio.ensure_future(self._tick())

    async def _tick(self) -> None:
        while True:
            before = self._clock()
            await asyncio.sleep(_TICK)
            self.longest = max(self.longest, self._clock() - before)

    def take(self) -> float:
        """Return the longest block since the last call, in milliseconds."""
        longest, self.longest = self.longest, 0.0
        return longest * 1000

    def stop(self) -> None:
        """Stop measuring."""
        self._task.cancel()


def fill(servers: ReplicaSet, collections: int, documents: int) -> None:
    """Write the counters. The collections have different names, none of which is a known name for counters."""
    with servers.client() as client:
        for number in range(collections):
            rows = [{"_id": f"sequence {n}", "seq": Int64(n * 10)} for n in range(documents)]
            client[DB][f"tenant_{number}_counters"].insert_many(rows)


async def measure(uri: str, refreshes: int, touch: Any) -> list[Refresh]:
    """Watch for some refreshes, and call ``touch`` between them."""
    commands = Commands()
    gateway = open_gateway(uri, event_listeners=[commands])
    blocks = LoopBlocks()
    rows: list[Refresh] = []
    began = time.perf_counter()
    async with closing(watch(gateway, WatchSettings(refresh_seconds=1.0, building=collector_held))) as snapshots:
        async for snapshot in snapshots:
            seconds = time.perf_counter() - began
            finds = commands.finds.values()
            rows.append(Refresh(seconds, len(snapshot.counters), blocks.take(), sum(finds), max(finds, default=0)))
            commands.finds.clear()
            if len(rows) == refreshes:
                break
            await asyncio.to_thread(touch)
            blocks.take()
            began = time.perf_counter()
    blocks.stop()
    await gateway.close()
    return rows


async def press_keys(uri: str, total: int) -> list[Key]:
    """Sort the counters page by every column, reverse it and filter it, while its feed is running."""
    target = Target.parse(uri)
    feeds = Feeds(lambda: open_gateway(target))
    app = Dashboard(Context(target, building=collector_held), feeds, PAGES)
    rows: list[Key] = []
    async with app.run_test(size=(120, 40)) as pilot:
        page = app.screen
        assert isinstance(page, CountersPage)
        while len(page._arranged.rows) < total:
            await pilot.pause(0.1)
        blocks, waits = LoopBlocks(), LoopBlocks(waiting=True)

        acts: list[tuple[str, Callable[[], None]]] = [
            *((f"sort by {by}", page.action_sort) for by in [*SORTS[1:], SORTS[0]]),
            ("reverse", page.action_reverse),
            *((f"filter {text!r}", partial(page._set_filter, text)) for text in ("tenant_7_ 99", "!tenant_7_")),
        ]
        for title, act in acts:
            await asyncio.sleep(1.5)
            blocks.take(), waits.take()
            began = time.perf_counter()
            act()
            while page._arranged.order != page._order:
                await pilot.pause(_TICK)
            seconds = time.perf_counter() - began
            rows.append(Key(title, seconds, blocks.take(), waits.take(), len(page._arranged.rows)))
        blocks.stop()
        waits.stop()
    feeds.close()
    return rows


FIRST_BAND_SECONDS = 2.0
"""The limit for the first snapshot with bands, on an oplog of several hours."""


async def first_bands(uri: str) -> tuple[float, int]:
    """Return the seconds to the first snapshot and the number of its counters with a band."""
    gateway = open_gateway(uri)
    try:
        began = time.perf_counter()
        snapshot = await look(gateway)
        return time.perf_counter() - began, sum(one.forecast.spread is not None for one in snapshot.counters)
    finally:
        await gateway.close()


def main(argv: Sequence[str] | None = None) -> None:
    """Fill a server with counters, watch them, print a table and JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--collections", type=int, default=50)
    parser.add_argument("--documents", type=int, default=2_000, help="in each collection")
    parser.add_argument("--refreshes", type=int, default=6)
    options = parser.parse_args(argv)
    tune_interpreter()
    with ReplicaSet(1) as servers:
        fill(servers, options.collections, options.documents)

        def touch() -> None:
            with servers.client() as client:
                for number in range(options.collections):
                    client[DB][f"tenant_{number}_counters"].update_many({"seq": {"$lt": 200}}, {"$inc": {"seq": 1}})

        rows = asyncio.run(measure(servers.uri, options.refreshes, touch))
        keys = asyncio.run(press_keys(servers.uri, options.collections * options.documents))
    with Demo(schedule=Schedule(first=10_000, speed=1e-9), seed=1) as demo:
        seconds, bands = asyncio.run(first_bands(demo.uri))
    print(f"a day of oplog: {bands} bands in {seconds:.2f} s, {seconds / FIRST_BAND_SECONDS:.0%} of the limit")
    print(
        "| refresh | seconds (including the pause) | counters | longest block of the loop, ms | finds | most on one |"
    )
    print("|---|---|---|---|---|---|")
    for number, row in enumerate(rows, 1):
        print(
            f"| {number} | {row.seconds:.2f} | {row.counters:,} | {row.longest_block_ms:.1f} | {row.finds} "
            f"| {row.most_finds_on_one} |"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    print("\n| key on the counters page | seconds | longest block of its loop, ms | by the clock, ms | rows |")
    print("|---|---|---|---|---|")
    for key in keys:
        print(
            f"| {key.title} | {key.seconds:.2f} | {key.longest_block_ms:.1f} | {key.longest_wait_ms:.1f} "
            f"| {key.rows:,} |"
        )
    print(json.dumps({"refreshes": [asdict(row) for row in rows], "keys": [asdict(key) for key in keys]}))


if __name__ == "__main__":
    main()
