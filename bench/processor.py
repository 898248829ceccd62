"""Measure what following the oplog costs the server's processor, at several rates of writes, in one run.

mongod's own processor time is read at each rate without a dashboard, with one on its oplog page, and without it again.
The ratio is that of the second to the mean of the others, per write: a busy machine slows the writer down as well.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from bench.footprint import SETTLE, dashboard, totals
from tallyglass.demo.server import ReplicaSet

RATES = (0, 200, 2_000, 20_000)
_TICK = 0.05
_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one span: processor seconds of mongod a second, writes a second, and getMore a second."""

    processor: float
    writes: float
    get_mores: float

    @property
    def per_write(self) -> float:
        """Processor microseconds of one write; of a second, in parts of a million, if nothing is written."""
        return self.processor * 1e6 / max(self.writes, 1.0)


class Writer:
    """Inserts orders at a steady rate, in lots of a twentieth of a second."""

    def __init__(self, client: MongoClient[dict[str, Any]], rate: int) -> None:
        self.written = 0
        self._orders, self._lot = client.shop.orders, round(rate * _TICK)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write until the end of the block."""
        self._thread.start()
        try:
            yield
        finally:
            self._stop.set()
            self._thread.join()

    def _write(self) -> None:
        due = time.monotonic()
        while not self._stop.is_set():
            if self._lot:
                self._orders.insert_many([{"total": n, "customer": "c" * 60} for n in range(self._lot)])
                self.written += self._lot
            due = max(due + _TICK, time.monotonic() - 1.0)
            self._stop.wait(max(0.0, due - time.monotonic()))


def processor_seconds(pid: int) -> float:
    """The processor time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _PER_SECOND


def measure(rates: Sequence[int], seconds: float) -> Iterator[tuple[int, Cost, Cost]]:
    """For each rate, what the server spends without a dashboard, and with one."""
    with ReplicaSet(1, options=("--oplogSize", "4000")) as servers, servers.client() as client:
        process = servers.members[0].process
        assert process is not None

        def span() -> Cost:
            began, used, wrote = time.monotonic(), processor_seconds(process.pid), writer.written
            asked = totals(client).get("getMore", 0.0)
            time.sleep(seconds)
            took = time.monotonic() - began
            used, wrote = processor_seconds(process.pid) - used, writer.written - wrote
            return Cost(used / took, wrote / took, (totals(client).get("getMore", 0.0) - asked) / took)

        for rate in rates:
            writer = Writer(client, rate)
            with writer.running():
                time.sleep(2)
                before = span()
                with dashboard(servers.uri) as terminal:
                    os.write(terminal, b"3")
                    time.sleep(SETTLE)
                    watched = span()
                time.sleep(2)
                after = span()
            client.shop.drop_collection("orders")
            alone = Cost(*((getattr(before, one) + getattr(after, one)) / 2 for one in Cost.__slots__))
            yield rate, alone, watched


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench processor", description=__doc__)
    parser.add_argument("--seconds", type=float, default=15.0, help="length of each span")
    seconds = parser.parse_args(argv).seconds
    print(f"{'wanted/s':>9} {'writes/s':>16} {'processor %':>14} {'us a write':>14} {'ratio':>6} {'getMore/s':>10}")
    for rate, alone, watched in measure(RATES, seconds):
        ratio = watched.per_write / alone.per_write if alone.processor else float("nan")
        print(
            f"{rate:>9,} {alone.writes:>7,.0f} {watched.writes:>8,.0f} {100 * alone.processor:>6.1f} "
            f"{100 * watched.processor:>7.1f} {alone.per_write:>6,.0f} {watched.per_write:>7,.0f} {ratio:>6.2f} "
            f"{watched.get_mores:>10.1f}",
            flush=True,
        )
    print("Each pair: without a dashboard, with one. At 0 writes the time of a whole second stands for a write.")


if __name__ == "__main__":
    main()
