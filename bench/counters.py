"""100,000 counter documents in 50 collections: how soon they are seen, what it costs, whether the loop stays free.

With the interpreter's settings that the dashboard runs with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import time
from collections import Counter as Tally
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Any

from bson import Int64
from pymongo import monitoring

from tallyglass.connect import open_gateway
from tallyglass.counters.watch import WatchSettings, watch
from tallyglass.demo.server import ReplicaSet
from tallyglass_tui.keys_first import put_keys_first

DB = "bench"
_TICK = 0.001


@dataclass(frozen=True, slots=True)
class Refresh:
    """One refresh: seconds until its snapshot, counters in it, the longest hold of the event loop, queries it sent."""

    seconds: float
    counters: int
    longest_hold_ms: float
    finds: int
    most_finds_on_one: int


class Commands(monitoring.CommandListener):
    """Counts the finds on each collection."""

    def __init__(self) -> None:
        self.finds: Tally[str] = Tally()

    def started(self, event: monitoring.CommandStartedEvent) -> None:
        if event.command_name == "find" and event.database_name == DB:
            self.finds[event.command["find"]] += 1

    def succeeded(self, event: monitoring.CommandSucceededEvent) -> None:
        """Nothing to count."""

    def failed(self, event: monitoring.CommandFailedEvent) -> None:
        """Nothing to count."""


class Holds:
    """Measures how long the event loop does not come round.

    In processor time of its own thread: a machine that is busy with something else does not count.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.ensure_future(self._tick())

    async def _tick(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(_TICK)
            self.longest = max(self.longest, time.thread_time() - before)

    def take(self) -> float:
        """The longest hold since the last call, in milliseconds."""
        longest, self.longest = self.longest, 0.0
        return longest * 1000

    def stop(self) -> None:
        """Stop measuring."""
        self._task.cancel()


def fill(servers: ReplicaSet, collections: int, documents: int) -> None:
    """Write the counters: every collection of another name, none of a known one."""
    with servers.client() as client:
        for number in range(collections):
            rows = [{"_id": f"sequence {n}", "seq": Int64(n * 10)} for n in range(documents)]
            client[DB][f"tenant_{number}_counters"].insert_many(rows)


async def measure(uri: str, refreshes: int, touch: Any) -> list[Refresh]:
    """Watch for some refreshes; ``touch`` is called between them."""
    commands = Commands()
    gateway = open_gateway(uri, event_listeners=[commands])
    holds = Holds()
    rows: list[Refresh] = []
    began = time.perf_counter()
    async with aclosing(watch(gateway, WatchSettings(refresh_seconds=1.0))) as snapshots:
        async for snapshot in snapshots:
            seconds = time.perf_counter() - began
            finds = commands.finds.values()
            rows.append(Refresh(seconds, len(snapshot.counters), holds.take(), sum(finds), max(finds, default=0)))
            commands.finds.clear()
            if len(rows) == refreshes:
                break
            await asyncio.to_thread(touch)
            holds.take()
            began = time.perf_counter()
    holds.stop()
    await gateway.close()
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Fill a server with counters, watch them, print a table and JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--collections", type=int, default=50)
    parser.add_argument("--documents", type=int, default=2_000, help="in each collection")
    parser.add_argument("--refreshes", type=int, default=6)
    options = parser.parse_args(argv)
    put_keys_first()
    with ReplicaSet(1) as servers:
        fill(servers, options.collections, options.documents)

        def touch() -> None:
            with servers.client() as client:
                for number in range(options.collections):
                    client[DB][f"tenant_{number}_counters"].update_many({"seq": {"$lt": 200}}, {"$inc": {"seq": 1}})

        rows = asyncio.run(measure(servers.uri, options.refreshes, touch))
    print("| refresh | seconds (with its pause) | counters | longest hold of the loop, ms | finds | most on one |")
    print("|---|---|---|---|---|---|")
    for number, row in enumerate(rows, 1):
        print(
            f"| {number} | {row.seconds:.2f} | {row.counters:,} | {row.longest_hold_ms:.1f} | {row.finds} "
            f"| {row.most_finds_on_one} |"
        )
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    print(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main()
