"""Measure how fast the oplog is read, filtered, counted and grouped, and how far the tail falls behind a burst.

Everything but the burst is measured on one core, over the same entries in memory, in alternating rounds, so that other
load on the machine affects all cases alike. Prints a table and one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from bson import decode_all, json_util
from pymongo import MongoClient

from bench._oplog_mix import write_mix
from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import OPLOG
from tallyglass.oplog.entry.batch import Walker, counted, entries
from tallyglass.oplog.entry.json import to_json
from tallyglass.oplog.entry.row import row
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.read.collect import Collector
from tallyglass.oplog.read.tail import follow

ENTRIES = 300_000
BURST = 500_000
ROUNDS = 5

_BURST_WRITER = """
import sys
from pymongo import MongoClient
with MongoClient(sys.argv[1], w=1) as client:
    for k in range(int(sys.argv[2]) // 1000):
        client.bench.burst.insert_many([{"_id": k * 1000 + n, "v": n} for n in range(1000)])
"""


def fill(client: MongoClient[Any]) -> None:
    """Write a realistic mix: inserts, updates and deletes with a session, mass deletes and updates without."""
    for k in range(ENTRIES // 2_000):
        write_mix(client, k)


def drain_raw(batches: list[bytes]) -> int:
    """Step from entry to entry by length only: the lower bound."""
    count = 0
    for batch in batches:
        at, end = 0, len(batch)
        while at < end:
            at += int.from_bytes(batch[at : at + 4], "little")
            count += 1
    return count


def drain_dicts(batches: list[bytes]) -> int:
    """Decode every entry to a dict, as a driver does by default."""
    return sum(len(decode_all(batch)) for batch in batches)


def drain_collected(text: str) -> Callable[[list[bytes]], int]:
    """Return the tail's path: count by namespace and operation, filter, keep the newest rows."""

    def run(batches: list[bytes]) -> int:
        collector = Collector(OplogFilter.parse(text), 500)
        for batch in batches:
            collector.add(batch)
        collector.rows(None)
        return collector.seen

    return run


def drain_grouped(batches: list[bytes]) -> int:
    """EntryGroup entries into incidents."""
    grouper = Grouper()
    for batch in batches:
        grouper.feed_batch(batch)
    grouper.incidents()
    return grouper.fed


def drain_both(batches: list[bytes]) -> int:
    """Filter, count and group entries into incidents."""
    drain_grouped(batches)
    return drain_collected("ns:bench.c7")(batches)


def make_rows(batches: list[bytes]) -> int:
    """Convert every entry to a finished row."""
    count = 0
    for batch in batches[:8]:
        for raw in entries(batch):
            row(raw)
            count += 1
    return count


def write_json(batches: list[bytes]) -> int:
    """Convert every entry to JSON as ``oplog --json`` prints it."""
    return sum(len(to_json(raw, kind="entry", relaxed=True)) > 0 for raw in entries(batches[0]))


def write_json_by_driver(batches: list[bytes]) -> int:
    """Convert every entry to JSON with the driver's own converter."""
    options = json_util.RELAXED_JSON_OPTIONS
    return sum(len(json_util.dumps(document, json_options=options)) > 0 for document in decode_all(batches[0]))


def tally(batches: list[bytes]) -> int:
    """Walk the raw batches and count each entry by operation and namespace."""
    walker = Walker(lambda op, ns, session: 1)
    return sum(sum(counted(walker.gather(batch)).values()) for batch in batches)


CASES: dict[str, Callable[[list[bytes]], int]] = {
    "raw batches, stepped through": drain_raw,
    "raw batches, walked": tally,
    "drained + counted, no filter": drain_collected(""),
    "drained + counted + filtered by namespace": drain_collected("ns:bench.c7"),
    "drained + counted + filtered by glob and operation": drain_collected("ns:bench.c1* op:d"),
    "drained + counted + filtered by _id": drain_collected("id:7-300"),
    "drained + counted + filtered by text": drain_collected("needle"),
    "drained + incidents": drain_grouped,
    "drained + counted + filtered + incidents": drain_both,
    "decoded to dicts": drain_dicts,
    "every entry made a row": make_rows,
    "every entry as Extended JSON": write_json,
    "every entry as Extended JSON by json_util": write_json_by_driver,
}


def measure(batches: list[bytes]) -> dict[str, dict[str, float]]:
    """Return entries per second of CPU time for each case: median and range of alternating rounds."""
    rates: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, run in CASES.items():
            began = time.process_time()
            count = run(batches)
            rates[name].append(count / (time.process_time() - began))
    return {
        name: {"median": statistics.median(found), "low": min(found), "high": max(found)}
        for name, found in rates.items()
    }


async def read_batches(uri: str) -> list[bytes]:
    """Return the whole oplog in batches as the gateway yields them."""
    gateway = open_gateway(uri)
    found = [batch async for batch in gateway.find_raw(OPLOG, {}, batch_size=4_000, time_ms=120_000)]
    await gateway.close()
    return found


async def lag_after_burst(servers: ReplicaSet) -> dict[str, float]:
    """Measure the seconds from the last acknowledged write of a burst until the tail has counted it."""
    gateway = open_gateway(servers.uri)
    tail: AsyncIterator[Any] = follow(gateway, OplogFilter.parse("ns:bench.burst"), backlog=0)
    update = await anext(tail)
    while not update.connected_to:
        update = await anext(tail)
    before = time.process_time()
    writer = await asyncio.create_subprocess_exec(sys.executable, "-c", _BURST_WRITER, servers.uri, str(BURST))
    began = time.monotonic()
    written = asyncio.ensure_future(writer.wait())
    wrote = 0.0
    while update.matched < BURST:
        update = await anext(tail)
        if written.done() and not wrote:
            wrote = time.monotonic()
    ended = time.monotonic()
    await written
    await tail.aclose()  # type: ignore[attr-defined]
    await gateway.close()
    return {
        "writes": BURST,
        "counted": update.matched,
        "seconds_writing": (wrote or ended) - began,
        "lag_seconds": max(ended - (wrote or ended), 0.0),
        "tail_cpu_seconds": time.process_time() - before,
        "gaps": update.gaps,
    }


def main(arguments: list[str]) -> None:
    """Measure and print."""
    with ReplicaSet(1, cache_gb=1.0) as servers:
        with servers.client() as client:
            fill(client)
        batches = asyncio.run(read_batches(servers.uri))
        total, size = drain_raw(batches), sum(map(len, batches))
        print(f"{total:,} entries, {size / total:.0f} bytes each on average, in {len(batches)} batches")
        rates = measure(batches)
        for name, found in rates.items():
            print(f"{name:52} {found['median']:>10,.0f}/s   ({found['low']:,.0f} to {found['high']:,.0f})")
        burst = asyncio.run(lag_after_burst(servers))
    wrote, lag, cpu = burst["seconds_writing"], burst["lag_seconds"], burst["tail_cpu_seconds"]
    print(f"burst: {BURST:,} writes in {wrote:.1f} s, all counted {lag:.2f} s after the last one was acknowledged")
    print(f"       {cpu:.1f} s of CPU time for the tail, {burst['gaps']:.0f} gaps")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"entries": total, "rates": rates, "burst": burst, "peak_memory_mb": memory}))


if __name__ == "__main__":
    main(sys.argv[1:])
