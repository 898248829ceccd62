"""Measure the load of each page on the server: commands and bytes per second, as the server counts them.

This is the difference of two ``serverStatus`` of each member on each page, less that of the same time with no
dashboard connected. Nothing is written meanwhile. A write adds its own size once where the tail is followed. ``watch``
is measured idle, and, on one member, beside a client that deletes all the time while every statement is logged: of
several members the secondaries would be counted, which follow the oplog too.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bson import Int64
from pymongo import MongoClient

from tallyglass.demo.server import ReplicaSet

COUNTERS = 20
DOCUMENTS = 1_000
SETTLE = 12.0
"""Seconds until the initial reads of a page are over: first snapshot, history, incidents."""

PAGES = (("counters", "1"), ("objectids", "2"), ("oplog", "3"), ("restore", "4"))


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one page per second: commands, bytes received and sent by the server, and commands by name."""

    page: str
    commands: float
    bytes_in: float
    bytes_out: float
    names: dict[str, float]


def totals(*members: MongoClient[dict[str, Any]]) -> Counter[str]:
    """Return the servers' command counters by name, with bytes received and sent under ``<in`` and ``<out``."""
    counted: Counter[str] = Counter()
    for client in members:
        status = client.admin.command("serverStatus")
        for name, row in status["metrics"]["commands"].items():
            if isinstance(row, Mapping) and "total" in row:
                counted[name] += int(row["total"])
        counted["<in"] += int(status["network"]["bytesIn"])
        counted["<out"] += int(status["network"]["bytesOut"])
    return counted


def during(members: Sequence[MongoClient[dict[str, Any]]], seconds: float) -> dict[str, float]:
    """Return the increase per second of each counter over ``seconds``."""
    before, began = totals(*members), time.monotonic()
    time.sleep(seconds)
    after, took = totals(*members), time.monotonic() - began
    return {name: (after[name] - before[name]) / took for name in after}


def _code_of(tree: Path | None) -> dict[str, str]:
    """The environment in which the program of another checkout runs; that of this one without ``tree``."""
    return {"PYTHONPATH": os.pathsep.join([str(tree / "core"), str(tree / "tui")])} if tree else {}


@contextmanager
def dashboard(uri: str, tree: Path | None = None) -> Iterator[int]:
    """Run the dashboard on an 80x24 pseudo-terminal and discard its output. Yields the file descriptor for keys.

    ``tree`` is another checkout, whose program runs instead.
    """
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with tempfile.TemporaryDirectory() as home:
        env = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "HOME": home} | _code_of(tree)
        process = subprocess.Popen(
            [sys.executable, "-m", "tallyglass_tui", uri], stdin=slave, stdout=slave, stderr=slave, env=env,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)

        def take() -> None:
            with suppress(OSError):
                while os.read(master, 65536):
                    pass

        reader = threading.Thread(target=take, daemon=True)
        reader.start()
        try:
            yield master
        finally:
            process.terminate()
            process.wait(30)
            reader.join(5)
            os.close(master)


@contextmanager
def watching(uri: str, tree: Path | None = None) -> Iterator[None]:
    """Run ``tallyglass watch`` and discard its output."""
    words = [sys.executable, "-m", "tallyglass_tui", "watch", uri]
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | _code_of(tree)
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def deleting(client: MongoClient[dict[str, Any]]) -> Iterator[None]:
    """Insert and delete as fast as one client can, with a log line for each statement."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            client.shop.carts.insert_one({})
            client.shop.carts.delete_many({})

    client.admin.command("profile", 0, slowms=0)
    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield
    finally:
        ended.set()
        worker.join()
        client.admin.command("profile", 0, slowms=100)


@dataclass(frozen=True, slots=True)
class Bench:
    """A set that nobody else uses: a client of its primary, one of each member, and its rates with nobody connected."""

    uri: str
    client: MongoClient[dict[str, Any]]
    members: tuple[MongoClient[dict[str, Any]], ...]
    quiet: Mapping[str, float]
    seconds: float
    settle: float

    def load(self, what: str, without: Collection[str] = ()) -> Load:
        """Wait until what was started has settled, and measure it, without commands of some names."""
        time.sleep(self.settle)
        busy = during(self.members, self.seconds)
        return _load(what, {name: rate for name, rate in busy.items() if name not in without}, self.quiet)


def measure_pages(bench: Bench, tree: Path | None) -> Iterator[Load]:
    """Measure each page of the dashboard of this checkout, or of another."""
    with dashboard(bench.uri, tree) as terminal:
        for page, key in PAGES:
            os.write(terminal, key.encode())
            yield bench.load(_named(tree, page))


def measure_watch(bench: Bench, tree: Path | None) -> Iterator[Load]:
    """Measure ``watch``, if that checkout has it, without other clients."""
    if _has_watch(tree):
        with watching(bench.uri, tree):
            yield bench.load(_named(tree, "watch"))


def measure_busy_watch(bench: Bench, tree: Path | None) -> Iterator[Load]:
    """Measure ``watch`` beside a client that deletes. The server's memory of its log is full of long lines then."""
    if len(bench.members) == 1 and _has_watch(tree):
        with watching(bench.uri, tree), deleting(bench.client):
            yield bench.load(_named(tree, "watch, busy"), ("insert", "delete"))


def _has_watch(tree: Path | None) -> bool:
    return tree is None or (tree / "tui/tallyglass_tui/cli/watch.py").exists()


def _named(tree: Path | None, what: str) -> str:
    return f"{tree.name}: {what}" if tree else what


def measure(seconds: float, settle: float = SETTLE, members: int = 1, trees: Sequence[Path] = ()) -> list[Load]:
    """Measure each page for ``seconds``, of the other checkouts ``trees`` first."""
    with ReplicaSet(members) as servers, servers.client() as client, ExitStack() as opened:
        client.shop.counters.insert_many([{"_id": f"c{n}", "seq": Int64(n)} for n in range(COUNTERS)])
        client.shop.orders.insert_many([{"number": n} for n in range(DOCUMENTS)])
        client.shop.orders.delete_many({})
        each = tuple(opened.enter_context(servers.client(n)) for n in range(members))
        bench = Bench(servers.uri, client, each, during(each, seconds), seconds, settle)
        kinds = (measure_pages, measure_watch, measure_busy_watch)
        return [load for kind in kinds for tree in (*trees, None) for load in kind(bench, tree)]


def _load(page: str, busy: Mapping[str, float], quiet: Mapping[str, float]) -> Load:
    more = {name: busy[name] - quiet.get(name, 0.0) for name in busy}
    names = {name: round(value, 2) for name, value in more.items() if name[0] != "<" and value >= 0.005}
    return Load(page, sum(names.values()), max(0.0, more["<in"]), max(0.0, more["<out"]), names)


def table(loads: Sequence[Load]) -> str:
    """Return the loads as a text table."""
    lines = [f"{'page':<22} {'commands/s':>10} {'to server B/s':>14} {'from server B/s':>16}  by name, per second"]
    for load in loads:
        names = ", ".join(f"{name} {rate:g}" for name, rate in sorted(load.names.items(), key=lambda one: -one[1]))
        lines.append(
            f"{load.page:<22} {load.commands:>10.1f} {load.bytes_in:>14,.0f} {load.bytes_out:>16,.0f}  {names}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench footprint", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds on each page")
    parser.add_argument("--members", type=int, default=1, help="members of the replica set; all are counted")
    parser.add_argument(
        "--tree", type=Path, action="append", default=[], metavar="DIR", help="measure another checkout first; repeat"
    )
    given = parser.parse_args(argv)
    loads = measure(given.seconds, members=given.members, trees=given.tree)
    print(table(loads))
    print(f"Feeds keep running while another page is shown, the oplog's from its first visit. {COUNTERS} counters.")
    print(json.dumps([asdict(load) for load in loads]))


if __name__ == "__main__":
    main()
