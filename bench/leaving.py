"""Measure how long the dashboard takes to exit after ``q``, signals and a closed terminal, on a live and a hung server.

The time from the action to the exit of the process, against a limit of 3 s.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from tallyglass.demo.server import ReplicaSet

LIMIT_SECONDS = 3.0
RUNS = 3
TIMEOUT_SECONDS = 60.0


class RunningDashboard:
    """The dashboard on its own pseudo-terminal, with all pages visited."""

    def __init__(self, uri: str, home: str) -> None:
        self.master, slave = pty.openpty()
        env = os.environ | {"TERM": "xterm-256color", "HOME": home, "COLUMNS": "80", "LINES": "24"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tallyglass_tui", uri], stdin=slave, stdout=slave, stderr=slave, env=env,
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self._seen = bytearray()
        self._closing = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        for key, text in (("1", b"Quit"), ("3", b"following"), ("4", b"Backup")):
            self._seen.clear()
            self.press(key)
            deadline = time.monotonic() + TIMEOUT_SECONDS
            while text not in self._seen and time.monotonic() < deadline:
                time.sleep(0.05)

    def press(self, key: str) -> None:
        """Send a key."""
        os.write(self.master, key.encode())

    def hang_up(self) -> None:
        """Close the terminal."""
        self._closing.set()
        self._reader.join()
        os.close(self.master)

    def close(self) -> None:
        """Kill the process and close the terminal."""
        self.process.kill()
        self.process.wait()
        if not self._closing.is_set():
            self.hang_up()

    def _read(self) -> None:
        with suppress(OSError):
            os.set_blocking(self.master, False)
            while not self._closing.is_set():
                with suppress(BlockingIOError):
                    self._seen += os.read(self.master, 65536)
                time.sleep(0.002)


EXITS: dict[str, Callable[[RunningDashboard], object]] = {
    "q": lambda opened: opened.press("q"),
    "SIGTERM": lambda opened: opened.process.send_signal(signal.SIGTERM),
    "SIGHUP": lambda opened: opened.process.send_signal(signal.SIGHUP),
    "closed terminal": lambda opened: opened.hang_up(),
}


@dataclass(frozen=True, slots=True)
class Row:
    """The seconds of one kind of exit: median and worst of the runs, and the worst as a share of the limit."""

    exit: str
    server: str
    median: float
    worst: float
    of_limit: float


def seconds_to_leave(uri: str, leave: Callable[[RunningDashboard], object], before: Callable[[], None]) -> float:
    """Start the dashboard, call ``before``, make it exit with ``leave``, and return the seconds it took."""
    with tempfile.TemporaryDirectory() as home:
        opened = RunningDashboard(uri, home)
        try:
            before()
            began = time.monotonic()
            leave(opened)
            opened.process.wait(TIMEOUT_SECONDS)
            return time.monotonic() - began
        finally:
            opened.close()


def measure(runs: int) -> list[Row]:
    """Measure every kind of exit, with a server that answers and with a frozen one."""
    rows: list[Row] = []
    with ReplicaSet(1) as servers:
        for server, before in (("answers", lambda: None), ("hangs", lambda: servers.freeze(0))):
            for name, leave in EXITS.items():
                took = []
                for _ in range(runs):
                    took.append(seconds_to_leave(servers.uri, leave, before))
                    servers.thaw(0)
                worst = max(took)
                row = Row(name, server, sorted(took)[runs // 2], worst, worst / LIMIT_SECONDS)
                rows.append(row)
    return rows


def main(argv: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench leaving", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS, help="runs of each kind")
    rows = measure(parser.parse_args(argv).runs)
    print(f"{'exit':<18}{'server':<10}{'median s':>10}{'worst s':>10}{f'of {LIMIT_SECONDS:g} s':>10}")
    for row in rows:
        print(f"{row.exit:<18}{row.server:<10}{row.median:>10.2f}{row.worst:>10.2f}{row.of_limit:>9.0%}")
    print(json.dumps([asdict(row) for row in rows]))


if __name__ == "__main__":
    main()
