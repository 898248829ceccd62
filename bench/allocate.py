"""Measure how fast ids are allocated, with all methods in one run on an embedded one-member replica set.

Each row is one method, called as its users call it. ``ids/s`` comes from a pass without per-call timing, the
percentiles from a second pass with it. ``commands`` is the server's own count per 1,000 ids. Peers are MongoEngine's
SequenceField; python-ulid and snowflake-id if installed; and, with node and npm, mongoose-sequence and the cached
pattern for Node.js.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import uuid
from array import array
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bson import ObjectId

from bench._rates import DB, Bench, RateRow, stalls_between, table
from tallyglass.allocate import (
    Adaptive,
    AsyncCached,
    AsyncCounter,
    AsyncPool,
    Cached,
    GaplessInsert,
    Pool,
    new_uuid,
)
from tallyglass.demo.server import ReplicaSet

_NODE_PACKAGES = ("mongodb@6", "mongoose@8", "mongoose-sequence@6")


def one_a_call(bench: Bench) -> None:
    """Measure one command per id, on a single document and on a pool."""
    counter, pool = bench.counter(), Pool(bench.db.pool)
    pool.create()

    async def single(db: Any) -> Any:
        made = AsyncCounter(db.counters, "async")
        await made.create()
        return made.next, None

    async def pooled(db: Any) -> Any:
        return AsyncPool(db.pool).next, None

    bench.threads("one id a call", counter.next)
    bench.threads("one id a call, 32 threads", counter.next, count=32)
    bench.tasks("one id a call, async", single)
    bench.tasks("one id a call, async, 32 tasks", single, count=32)
    bench.threads("pool of 1,000, one id a call", pool.next)
    bench.threads("pool of 1,000, 32 threads", pool.next, count=32)
    bench.tasks("pool of 1,000, async, 32 tasks", pooled, count=32)


def ranges(bench: Bench) -> None:
    """Measure one command per range of ids."""
    for size in (10, 100, 1_000, 10_000):
        counter = bench.counter()
        bench.threads(f"range of {size:,} a call", partial(counter.take, size), each=size)


def cached(bench: Bench) -> None:
    """Measure ids from memory."""
    for name, step, count in (
        ("cached, default step", None, 1),
        ("cached, default step, 8 threads", None, 8),
        ("cached, step 1,000", 1_000, 1),
        ("cached, adaptive to 4,000,000", Adaptive(1.0, 1_000, 4_000_000), 1),
    ):
        ids = Cached(bench.counter(), step=step)
        ids.take(step if isinstance(step, int) else 2_000_000)
        earlier = ids.stats()
        row = bench.threads(name, ids.next, count=count, burst=1_000)
        row.stalls = stalls_between(earlier, ids.stats())
        ids.close()
    at_a_pace(bench)

    async def over_counter(db: Any) -> Any:
        made = AsyncCounter(db.counters, f"async-{uuid.uuid4()}")
        await made.create()
        ids = AsyncCached(made)
        for _ in range(20):
            await ids.take(100_000)
            await asyncio.sleep(0)
        return ids.next, ids

    bench.tasks("cached, default step, async", over_counter)


def at_a_pace(bench: Bench, rate: int = 2_000_000, slice_seconds: float = 0.002) -> None:
    """Measure whether a thread that takes at most 2 million ids per second ever waits."""
    ids = Cached(bench.counter(), step=100_000)
    ids.take(100_000)
    earlier, began, done, times = ids.stats(), time.perf_counter(), 0, array("q")
    clock, take = time.perf_counter_ns, ids.next
    while (elapsed := time.perf_counter() - began) < bench.seconds:
        for _ in range(int(elapsed * rate) - done):
            start = clock()
            take()
            times.append(clock() - start)
        done = len(times)
        time.sleep(slice_seconds)
    row = bench.add("cached, step 100,000, 2 M/s asked", done, time.perf_counter() - began, times, None)
    row.stalls = stalls_between(earlier, ids.stats())
    ids.close()


def in_process(bench: Bench) -> None:
    """Measure ids that need no database."""
    bench.threads("ObjectId()", ObjectId, burst=100)
    bench.threads("uuid4()", uuid.uuid4, burst=100)
    bench.threads("new_uuid(), version 7", new_uuid, burst=100)
    bench.threads("itertools.count", itertools.count().__next__, burst=1_000)
    makers: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "ULID (python-ulid)": ("ulid", lambda found: found.ULID),
        "snowflake (snowflake-id)": ("snowflake", lambda found: found.SnowflakeGenerator(1).__next__),
    }
    for name, (module, make) in makers.items():
        try:
            found = importlib.import_module(module)
        except ImportError:
            bench.rows.append(RateRow(name, 0, note=f"not measured: {module} is not installed"))
        else:
            bench.threads(name, make(found), burst=100)


def inserts(bench: Bench) -> None:
    """Measure gapless numbers, each in the transaction of its insert, against an insert alone."""
    numbers = GaplessInsert(bench.db.gapless_counters, bench.db.gapless, within=("tenant",))
    numbers.create()
    tenant = itertools.count()
    bench.threads("insert_one", lambda: bench.db.plain.insert_one({}))
    bench.threads("gapless insert", lambda: numbers.insert({"tenant": 0}))
    bench.threads("gapless insert, 8 threads, one scope", lambda: numbers.insert({"tenant": 0}), count=8)
    bench.threads("gapless insert, 8 threads, 8 scopes", lambda: numbers.insert({"tenant": next(tenant) % 8}), count=8)


def mongoengine_peer(bench: Bench) -> None:
    """Measure MongoEngine's SequenceField through the constructor of a document."""
    try:
        import mongoengine
    except ImportError:
        bench.rows.append(RateRow("MongoEngine SequenceField", 0, note="not measured: mongoengine is not installed"))
        return
    mongoengine.connect(DB, host=bench.uri)

    class Order(mongoengine.Document):  # type: ignore[misc]
        number = mongoengine.SequenceField()

    bench.threads("MongoEngine SequenceField", lambda: Order().number)
    mongoengine.disconnect()


def node_peers(bench: Bench) -> None:
    """Measure mongoose-sequence and the cached pattern in node, installed into a temporary folder."""
    names = ("mongoose-sequence", "Node.js, one id a call", "Node.js, cached pattern, 1,000")
    if not (shutil.which("node") and shutil.which("npm")):
        bench.rows.extend(RateRow(name, 0, note="not measured: node and npm are not installed") for name in names)
        return
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "peers.js"
        shutil.copy(Path(__file__).parent / "peers.js", script)
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, *_NODE_PACKAGES]
        if subprocess.run(install, capture_output=True, check=False).returncode:
            bench.rows.extend(
                RateRow(name, 0, note="not measured: the packages could not be installed") for name in names
            )
            return
        for which, name in enumerate(names):
            before = bench.commands()
            argv = ["node", str(script), bench.uri, str(which), str(bench.seconds)]
            found = json.loads(subprocess.run(argv, capture_output=True, check=True, text=True).stdout)
            commands = bench.commands() - before
            row = bench.add(name, found["ids"], found["seconds"], array("q"), None)
            row.commands = 1000 * commands / found["all"]
            row.p50, row.p99, row.p999 = found["p50"], found["p99"], found["p999"]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure everything, and print a table and one JSON document."""
    parser = argparse.ArgumentParser(prog="bench.allocate", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each pass in seconds (default 2)")
    parser.add_argument("--no-node", action="store_true", help="skip the peers in node")
    wanted = parser.parse_args(argv)
    with ReplicaSet(1) as servers:
        bench = Bench(servers, wanted.seconds)
        for part in (one_a_call, ranges, cached, in_process, inserts, mongoengine_peer):
            part(bench)
        if not wanted.no_node:
            node_peers(bench)
        bench.client.close()
    base = bench.rows[0].rate
    for row in bench.rows:
        row.ratio = row.rate / base
    print(table(bench.rows))
    print("ratio: relative to one id a call, one thread. stalls: calls that waited / fetches.")
    print(json.dumps([asdict(row) for row in bench.rows]))


if __name__ == "__main__":
    main()
