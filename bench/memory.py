"""Measure the memory of the commands that run for days, over as many entries as a busy hour writes.

``oplog --follow --json`` and ``watch`` run at once beside one writer, which writes as fast as the server takes it.
Their resident memory (``VmRSS``) is read once a second: after the first tenth of the entries, at the end, the largest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from tallyglass.demo.server import ReplicaSet

HOUR = 3_600
COMMANDS = {"oplog --json": ("oplog", "--follow", "--json"), "watch": ("watch", "--json")}
BUDGET_MB = 60
_BATCH = 1_000


@contextmanager
def running(words: Sequence[str], uri: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of Tallyglass whose output is thrown away."""
    with tempfile.TemporaryDirectory() as home:
        process = subprocess.Popen(
            [sys.executable, "-m", "tallyglass_tui", *words, uri],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | {"HOME": home},
        )  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()
            process.wait(30)


def resident_mb(process: subprocess.Popen[bytes]) -> float:
    """The resident memory of a process in megabytes."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024 / 1e6


def write(client: MongoClient[dict[str, Any]], count: int) -> Iterator[int]:
    """Write ``count`` entries: inserts, updates and deletes of orders; yields how many so far."""
    orders, written = client.shop.orders, 0
    while written < count:
        places = range(written, written + _BATCH)
        orders.insert_many([{"_id": n, "customer": f"c{n % 977}", "total": n * 7, "lines": ["x" * 40]} for n in places])
        orders.update_many({"_id": {"$gte": written}}, {"$inc": {"total": 1}})
        orders.delete_many({"_id": {"$gte": written}})
        written += 3 * _BATCH
        yield written


def measure(entries: int) -> dict[str, tuple[float, float, float]]:
    """For each command: megabytes after a tenth of the entries, at the end, and the most."""
    with ReplicaSet(1, options=("--oplogSize", "4000")) as servers, servers.client() as client, ExitStack() as stack:
        processes = {name: stack.enter_context(running(words, servers.uri)) for name, words in COMMANDS.items()}
        time.sleep(5)
        seen: dict[str, list[tuple[int, float]]] = {name: [] for name in processes}
        looked = time.monotonic()
        for written in write(client, entries):
            if time.monotonic() - looked >= 1:
                looked = time.monotonic()
                for name, process in processes.items():
                    seen[name].append((written, resident_mb(process)))
        return {
            name: (
                next(mb for written, mb in rows if written >= entries / 10), rows[-1][1], max(mb for _, mb in rows)
            )
            for name, rows in seen.items()
        }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench memory", description=__doc__)
    parser.add_argument("--entries", type=int, default=HOUR * 200, help="how many entries to write")
    entries = parser.parse_args(argv).entries
    print(f"{'command':<14} {'after a tenth':>14} {'at the end':>12} {'the most':>10}   MB, {entries:,} entries")
    for name, (early, late, most) in measure(entries).items():
        print(f"{name:<14} {early:>14.0f} {late:>12.0f} {most:>10.0f}   budget {BUDGET_MB}")


if __name__ == "__main__":
    main()
