"""What ``tallyglass check`` costs on 120,000 counters: processor time and peak memory of the whole process.

Two layouts: few collections of many counters, which are shown as groups, and many collections of a hundred, which are
followed one by one. For comparison, in the same run, a program that only reads the same documents with PyMongo.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bench.counters import fill
from tallyglass.demo.server import ReplicaSet

LAYOUTS = {"60 x 2,000": (60, 2_000), "1,200 x 100": (1_200, 100)}

_PLAIN_READ = """
import sys
from pymongo import MongoClient
db = MongoClient(sys.argv[1]).bench
for name in db.list_collection_names():
    for row in db[name].find():
        pass
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """One process: seconds of processor time and of the clock, and its largest resident memory in MB."""

    layout: str
    title: str
    processor: float
    seconds: float
    megabytes: float


def cost_of(layout: str, title: str, arguments: Sequence[str], home: str) -> Cost:
    """Run a Python process to its end."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], env=os.environ | {"HOME": home}, stdout=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    seconds = time.perf_counter() - began
    return Cost(layout, title, usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / 1024)


def measure(layout: str) -> list[Cost]:
    """A plain read, a first check, and a second one that knows the collections."""
    with ReplicaSet(1) as servers, tempfile.TemporaryDirectory() as home:
        fill(servers, *LAYOUTS[layout])
        check = ["-m", "tallyglass_tui", "check", servers.uri, "--guesses", "--timeout", "120"]
        return [
            cost_of(layout, "plain read", ["-c", _PLAIN_READ, servers.uri], home),
            cost_of(layout, "first check", check, home),
            cost_of(layout, "second check", check, home),
        ]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a table and JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--layout", choices=LAYOUTS, action="append")
    rows = [row for layout in parser.parse_args(argv).layout or LAYOUTS for row in measure(layout)]
    plain = {row.layout: row.processor for row in rows if row.title == "plain read"}
    print("| layout | process | processor, s | times a plain read | memory, MB | clock, s |")
    print("|---|---|---|---|---|---|")
    for row in rows:
        cells = (f"{row.processor:.2f}", f"{row.processor / plain[row.layout]:.1f}", f"{row.megabytes:.0f}")
        print(f"| {row.layout} | {row.title} | {' | '.join(cells)} | {row.seconds:.1f} |")
    print(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main()
