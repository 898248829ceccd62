"""Measure the load of each page on the server: commands and bytes per second, as the server counts them.

This is the difference of two ``serverStatus`` on each page, less that of the same time with no dashboard connected.
Nothing is written meanwhile. A write adds its own size once where the tail is followed. ``watch`` is measured idle, and
beside a client that deletes all the time while every statement is logged.
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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
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


def totals(client: MongoClient[dict[str, Any]]) -> dict[str, float]:
    """Return the server's command counters by name, with bytes received and sent under ``<in`` and ``<out``."""
    status = client.admin.command("serverStatus")
    counted: dict[str, float] = {}
    for name, row in status["metrics"]["commands"].items():
        if isinstance(row, Mapping) and "total" in row:
            counted[name] = float(row["total"])
    network = status["network"]
    return counted | {"<in": float(network["bytesIn"]), "<out": float(network["bytesOut"])}


def during(client: MongoClient[dict[str, Any]], seconds: float) -> dict[str, float]:
    """Return the increase per second of each counter over ``seconds``."""
    before, began = totals(client), time.monotonic()
    time.sleep(seconds)
    after, took = totals(client), time.monotonic() - began
    return {name: (after[name] - before.get(name, 0.0)) / took for name in after}


@contextmanager
def dashboard(uri: str) -> Iterator[int]:
    """Run the dashboard on an 80x24 pseudo-terminal and discard its output. Yields the file descriptor for keys."""
    master, slave = pty.openpty()
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with tempfile.TemporaryDirectory() as home:
        env = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "HOME": home}
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
def watching(uri: str) -> Iterator[None]:
    """Run ``tallyglass watch`` and discard its output."""
    words = [sys.executable, "-m", "tallyglass_tui", "watch", uri]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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


def measure_watch(client: MongoClient[dict[str, Any]], uri: str, seconds: float, settle: float) -> Iterator[Load]:
    """Measure ``watch`` on an idle server, and beside a client that deletes, whose own commands are left out."""
    own = ("insert", "delete")
    quiet = during(client, seconds)
    with watching(uri):
        time.sleep(settle)
        yield _load("watch", during(client, seconds), quiet)
        with deleting(client):
            time.sleep(settle)
            busy = during(client, seconds)
            yield _load("watch, busy", {name: rate for name, rate in busy.items() if name not in own}, quiet)


def measure(seconds: float, settle: float = SETTLE) -> list[Load]:
    """Measure each page for ``seconds``."""
    with ReplicaSet(1) as servers, servers.client() as client:
        client.shop.counters.insert_many([{"_id": f"c{n}", "seq": Int64(n)} for n in range(COUNTERS)])
        client.shop.orders.insert_many([{"number": n} for n in range(DOCUMENTS)])
        client.shop.orders.delete_many({})
        quiet = during(client, seconds)
        loads = []
        with dashboard(servers.uri) as terminal:
            for page, key in PAGES:
                os.write(terminal, key.encode())
                time.sleep(settle)
                loads.append(_load(page, during(client, seconds), quiet))
        return [*loads, *measure_watch(client, servers.uri, seconds, settle)]


def _load(page: str, busy: Mapping[str, float], quiet: Mapping[str, float]) -> Load:
    more = {name: busy[name] - quiet.get(name, 0.0) for name in busy}
    names = {name: round(value, 2) for name, value in more.items() if name[0] != "<" and value >= 0.005}
    return Load(page, sum(names.values()), max(0.0, more["<in"]), max(0.0, more["<out"]), names)


def table(loads: Sequence[Load]) -> str:
    """Return the loads as a text table."""
    lines = [f"{'page':<12} {'commands/s':>10} {'to server B/s':>14} {'from server B/s':>16}  by name, per second"]
    for load in loads:
        names = ", ".join(f"{name} {rate:g}" for name, rate in sorted(load.names.items(), key=lambda one: -one[1]))
        lines.append(
            f"{load.page:<12} {load.commands:>10.1f} {load.bytes_in:>14,.0f} {load.bytes_out:>16,.0f}  {names}"
        )
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench footprint", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds on each page")
    loads = measure(parser.parse_args(argv).seconds)
    print(table(loads))
    print(f"Feeds keep running while another page is shown, the oplog's from its first visit. {COUNTERS} counters.")
    print(json.dumps([asdict(load) for load in loads]))


if __name__ == "__main__":
    main()
