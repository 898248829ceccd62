"""Measure what a plan costs: processor, time and memory of plan, incidents and verify against walking the raw entries.

Each case runs in a process of its own over the same window of the oplog, which grows from size to size. Walking is the
lower bound: every entry is read from the server and stepped over. ``early`` is a plan whose point lies before the
newest part of the entries, at the size before. A window of nothing tells what a plan costs whatever its window: the
backup, the entries before it, and imports. Prints a table, the extrapolation to 24 hours at 5,000 operations a second,
and one line of JSON. Needs mongodump.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bson import Timestamp
from pymongo import MongoClient

from bench._oplog_mix import write_mix
from tallyglass.demo.server import ReplicaSet, Standalone
from tallyglass.moment import Ts
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.gateway import OPLOG
from tallyglass.oplog.entry import walk
from tallyglass.oplog.incidents.incident import scan
from tallyglass.oplog.read.entries import stamp
from tallyglass.restore.model.check import Level
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.spare.verify import verify
from tallyglass.restore.tools import toolset

SIZES = (0, 500_000, 1_000_000, 2_000_000, 4_000_000)
DAY = 432_000_000
"""Entries of 24 hours at 5,000 operations a second."""

BASE = 100_000
CASES = ("raw", "plan", "early", "incidents", "verify")


def grow(client: MongoClient[Any], entries: int, since: int) -> None:
    """Write as many entries: inserts, updates by sessions, and updates and deletes of many."""
    for k in range(since // 2_000, (since + entries) // 2_000):
        write_mix(client, k)


def drop(client: MongoClient[Any]) -> Ts:
    """The accident: the timestamp of its entry."""
    client.bench.victim.insert_one({})
    client.bench.victim.drop()
    client.bench.settle.with_options(write_concern=None).insert_one({})
    row = client.local["oplog.rs"].find_one({"o.drop": "victim"}, sort=[("$natural", -1)])
    assert row is not None
    return Ts(row["ts"].time, row["ts"].inc)


async def run_case(case: str, uri: str, backup: str, spare: str, start: Ts, limit: Ts) -> dict[str, Any]:
    """Run one case in this process, and say what it cost."""
    toolset.NEEDED = (100, 0)  # with older tools nothing would be emitted or verified
    gateway, other = open_gateway(uri), open_gateway(f"mongodb://{spare}/?directConnection=true")
    request = RestoreRequest(Path(backup), uri, before=limit, spare=spare, work_dir=tempfile.gettempdir())
    plan = await plan_restore(gateway, request) if case == "verify" else None
    cpu, wall, found = time.process_time(), time.monotonic(), ""
    if case == "raw":
        bounds = {"ts": {"$gte": stamp(start)}}
        count = 0
        async for batch in gateway.find_raw(OPLOG, bounds, batch_size=10_000, time_ms=3_600_000):
            count += sum(1 for _ in walk.split(batch))
        found = f"{count:,} entries"
    elif case in ("plan", "early"):
        made = await plan_restore(gateway, request)
        blocking = [check.id for check in made.checks if check.level is Level.BLOCK]
        found = f"{made.proof.operations or 0:,} entries, blocked by {', '.join(blocking) or 'nothing'}"
    elif case == "incidents":
        async for progress in scan(gateway, start):
            found = f"{progress.scanned:,} entries"
    elif plan is not None:
        found = f"{len((await verify(plan, gateway)).checks)} checks of the live data"
    cost = {"cpu": time.process_time() - cpu, "wall": time.monotonic() - wall, "found": found}
    await gateway.close()
    await other.close()
    return cost | {"peak_mb": peak_mb()}


def peak_mb() -> float:
    """The most memory that this process had: unlike getrusage without that of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measure(case: str, *arguments: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "bench.restore", "--case", case, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _text(ts: Timestamp | Ts) -> str:
    seconds, number = (ts.time, ts.inc) if isinstance(ts, Timestamp) else ts
    return f"{seconds}:{number}"


def show(size: int, case: str, row: dict[str, Any], raw: float, fixed: float | None) -> None:
    """Print what a case costs, also as a multiple of ``raw``, the seconds of walking. ``fixed`` are those of a plan of
    nothing, where they were measured."""
    ratio = f"({row['cpu'] / raw:4.1f} x raw)" if size else ""
    if case in ("plan", "early") and size and fixed is not None:
        ratio += f" ({(row['cpu'] - fixed) / raw:4.1f} without the fixed part)"
    cost = f"{row['cpu']:>7.1f} s processor {ratio}  {row['wall']:>7.1f} s  {row['peak_mb']:>6.0f} MB"
    print(f"{size:>10,}  {case:<10} {cost}   {row['found']}", flush=True)


def main(arguments: list[str]) -> None:
    """Measure and print; numbers are sizes in entries."""
    if arguments[:1] == ["--case"]:
        case, uri, backup, address, *places = arguments[1:]
        start, limit = (Ts(*map(int, place.split(":"))) for place in places)
        print(json.dumps(asyncio.run(run_case(case, uri, backup, address, start, limit))))
        return
    if shutil.which("mongodump") is None:
        print("mongodump is not on PATH: nothing was measured.")
        return
    sizes = tuple(map(int, arguments)) or SIZES
    results: dict[int, dict[str, dict[str, Any]]] = {}
    with (
        ReplicaSet(1, cache_gb=1.0, options=["--oplogSize", "16000"]) as source,
        Standalone() as spare,
        source.client() as client,
        tempfile.TemporaryDirectory() as folder,
    ):
        client.bench.c0.insert_many([{"_id": n, "v": n, "name": "x" * 40} for n in range(BASE)])
        backup = f"{folder}/backup"
        subprocess.run(
            ["mongodump", f"--uri={source.uri}", "--oplog", f"--out={backup}"], check=True, capture_output=True
        )
        newest = client.local["oplog.rs"].find_one({}, sort=[("$natural", -1)])
        assert newest is not None
        begun: Timestamp = newest["ts"]
        written, before = 0, None
        for size in sizes:
            grow(client, size - written, written)
            written, point = size, drop(client)
            given = (source.uri, backup, spare.members[0].address, _text(begun))
            found = results[size] = {}
            for case in CASES if before is not None else [case for case in CASES if case != "early"]:
                found[case] = measure(case, *given, _text(before if case == "early" and before else point))
                fixed = results[0]["plan"]["cpu"] if 0 in results and size else None
                show(size, case, found[case], found["raw"]["cpu"], fixed)
            before = point
    few, many = results[min(sizes)], results[max(sizes)]
    for case in ("raw", "plan", "incidents"):
        span = max(sizes) - min(sizes)
        per_entry = (many[case]["cpu"] - few[case]["cpu"]) / span if span else many[case]["cpu"] / max(sizes)
        print(f"{DAY:,} entries: {case} about {per_entry * DAY / 3600:.1f} h of processor")
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1:])
