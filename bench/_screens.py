"""The processes that ``bench.terminal`` measures: the dashboard, and simple Textual apps, on synthetic data.

Run as ``python -m bench._screens KIND [RATE]`` on a terminal. The data takes the whole path through core: raw BSON
batches into :func:`tallyglass.oplog.read.tail.follow`, documents into
:func:`tallyglass.counters.follow.watch.watch`.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import shutil
import struct
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bson
from bson import Int64, ObjectId, Timestamp

from tallyglass.errors import PrivilegeError
from tallyglass.mongo.gateway import CollectionInfo, Namespace

if TYPE_CHECKING:
    from textual.pilot import Pilot

COUNTERS = Namespace("shop", "counters")
ROWS = 20

SETTLES = 70.0
"""Seconds that the dashboard gets to read the incidents, or to return memory: it collects garbage once a minute."""

PLANNED = re.compile(r"blocked by| can come back")
"""What a planned restore shows."""


class SyntheticGateway:
    """A one-member replica set with 20 counters and ``rate`` new oplog entries per second."""

    def __init__(self, rate: float, step: int) -> None:
        self._rate = rate
        self._step = step
        self._started = time.monotonic()
        self._newest = Timestamp(int(time.time()), 1)
        self._entries = [_split(n) for n in range(64)]
        self._written = 0

    async def command(self, name: str, *_: object, **__: object) -> dict[str, Any]:
        """Return the reply of a primary to ``hello`` or ``buildInfo``. Raises PrivilegeError for other commands."""
        if name == "hello":
            optime = {"ts": self._newest, "t": Int64(1)}
            return {
                "setName": "bench", "me": "bench:27017", "primary": "bench:27017", "hosts": ["bench:27017"],
                "lastWrite": {"opTime": optime, "majorityOpTime": optime},
            }  # fmt: skip
        if name == "buildInfo":
            return {"version": "6.0.5"}
        raise PrivilegeError(f"The synthetic server does not support {name}.")

    async def catch_up(self) -> None:
        """Do nothing: there is one member."""

    async def list_databases(self) -> list[str]:
        """Return the name of the only database."""
        return [COUNTERS.db]

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        """Return the only collection."""
        return [CollectionInfo(COUNTERS)]

    async def list_indexes(self, ns: Namespace) -> list[dict[str, Any]]:
        """Return no indexes."""
        return []

    async def estimate(self, ns: Namespace) -> int:
        """Return the number of counters."""
        return ROWS

    async def find_one(self, ns: Namespace, query: Any, **_: object) -> dict[str, Any] | None:
        """Return the newest oplog entry, or the first counter."""
        return {"ts": self._newest} if ns.db == "local" else self._counters()[0]

    async def find(self, ns: Namespace, query: Any, **_: object) -> AsyncIterator[dict[str, Any]]:
        """Yield the counters."""
        for document in self._counters() if ns == COUNTERS else ():
            yield document

    async def find_raw(self, ns: Namespace, query: Any, **_: object) -> AsyncIterator[bytes]:
        """Yield the counters as one batch, and nothing from the oplog."""
        if ns == COUNTERS:
            yield b"".join(bson.encode(document) for document in self._counters())

    async def tail_raw(
        self, ns: Namespace, query: Any, *, on_open: Callable[[str], None] | None = None, **_: object
    ) -> AsyncIterator[bytes]:
        """Yield the newest entry, then twenty batches per second at the configured rate."""
        if on_open:
            on_open("bench:27017")
        yield self._batch(self._newest.time, [self._newest.inc])
        seconds, ordinal, owed = int(time.time()), 1, 0.0
        while True:
            await asyncio.sleep(0.05 if self._rate else 1.0)
            owed += self._rate * 0.05
            if time.time() >= seconds + 1:
                seconds, ordinal = int(time.time()), 1
            batch = range(ordinal + 1, ordinal + 1 + int(owed))
            ordinal, owed = ordinal + int(owed), owed - int(owed)
            if batch:
                self._newest = Timestamp(seconds, batch[-1])
            yield self._batch(seconds, batch) if batch else b""

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    def _counters(self) -> list[dict[str, Any]]:
        value = 1_000_000 + int(time.monotonic() - self._started) * self._step
        return [{"_id": f"sequence{n:02}", "seq": Int64(value + n * 1000)} for n in range(ROWS)]

    def _batch(self, seconds: int, ordinals: Iterable[int]) -> bytes:
        parts: list[bytes] = []
        for ordinal in ordinals:
            self._written += 1
            head, middle, tail = self._entries[self._written * 37 % 64]
            parts += [
                head,
                struct.pack("<II", ordinal, seconds),
                middle,
                struct.pack(">Q", self._written * 2654435761),
                tail,
            ]
        return b"".join(parts)


def _split(number: int) -> tuple[bytes, bytes, bytes]:
    """Return the parts of an encoded entry before its ts, between ts and the last 8 bytes of its _id, and after."""
    op = "iiiuud"[number % 6]
    ns = ("shop.orders", "shop.payments", "chat.messages", "plant.readings.raw", "blog.comments")[number % 5]
    _id = ObjectId(b"tallyglass__")
    o = {"_id": _id, "customer": number * 7919, "status": "new", "total": number * 1.25}
    entry = {"ts": Timestamp(1, 1), "t": Int64(1), "v": Int64(2), "op": op, "ns": ns, "wall": datetime.now(UTC)}
    if op == "u":
        entry |= {"o": {"$v": 2, "diff": {"u": {"status": f"state-{number}"}}}, "o2": {"_id": _id}}
    else:
        entry["o"] = o if op == "i" else {"_id": _id}
    raw = bson.encode(entry)
    at, id_at = raw.index(b"\x11ts\0") + 4, raw.index(_id.binary) + 4
    return raw[:at], raw[at + 8 : id_at], raw[id_at + 8 :]


def dashboard(page: str, rate: float = 0.0, step: int = 0, uri: str = "", backup: Path | None = None) -> int:
    """Run the dashboard on the synthetic server, or on a real one if ``uri`` is given. Returns the exit code."""
    from tallyglass.connection.target import Target
    from tallyglass_tui.pages import PAGES
    from tallyglass_tui.shell.app import Dashboard
    from tallyglass_tui.shell.context import Context
    from tallyglass_tui.shell.feed import Feeds, open_target
    from tallyglass_tui.terminal.driver import BastionDriver
    from tallyglass_tui.terminal.interpreter import collector_held, tune_interpreter

    target = Target.parse(uri or "mongodb://bench/")
    context = Context(target, backup, building=collector_held)
    app = Dashboard(context, Feeds(lambda: open_target(target) if uri else SyntheticGateway(rate, step)), PAGES)  # type: ignore[arg-type,return-value]
    app.driver_class = BastionDriver
    tune_interpreter()
    if page != "counters":
        app.call_later(app.action_page, page)
    app.run(mouse=False)
    app.feeds.close()
    return app.return_code or 0


def memory(ticks: int, uri: str = "", backup: Path | None = None, limit: str = "") -> int:
    """Show ``ticks`` updates 10 s apart as fast as possible; print resident MB after a tenth of them and at the end.

    With a server, the dashboard is on that one, and then plans a restore to ``limit``: the MB after it come third.
    """
    from tallyglass.connection.target import Target
    from tallyglass.oplog.entry.row import row
    from tallyglass.oplog.snapshot import OplogUpdate
    from tallyglass_tui.counters.page import CountersPage
    from tallyglass_tui.oplog.page import OplogPage
    from tallyglass_tui.pages import PAGES
    from tallyglass_tui.shell.app import Dashboard
    from tallyglass_tui.shell.context import Context
    from tallyglass_tui.shell.feed import Feeds, open_target
    from tallyglass_tui.terminal.interpreter import collector_held, tune_interpreter

    gateway = SyntheticGateway(0.0, 7)
    tune_interpreter()

    async def day() -> list[float]:
        target = Target.parse(uri or "mongodb://bench/")
        context = Context(target, backup, building=collector_held)
        app = Dashboard(context, Feeds(lambda: open_target(target) if uri else gateway), PAGES)  # type: ignore[arg-type,return-value]
        sizes: list[float] = []
        async with app.run_test(size=(80, 24)) as pilot:
            while not (isinstance(app.screen, CountersPage) and app.screen.data_age is not None):
                await pilot.pause(0.2)
            counters, snapshot = app.screen, app.screen._snapshot
            await pilot.press("3")
            await pilot.pause()
            oplog = app.screen
            assert isinstance(oplog, OplogPage)
            assert snapshot is not None
            for tick in range(ticks):
                at = snapshot.at + timedelta(seconds=10 * tick)
                rows = tuple(row(gateway._batch(int(at.timestamp()), [n])) for n in range(1, 21))
                oplog.following.show_update(OplogUpdate(at, rows, 20 * tick, 20 * tick, 0, rows[-1].ts))
                changed = tuple(replace(one, value=int(one.value) + tick) for one in snapshot.counters)
                counters.show_snapshot(replace(snapshot, at=at, counters=changed))
                if tick % 50 == 0:
                    await pilot.pause()
                if tick in (ticks // 10, ticks - 1):
                    sizes.append(_resident_mb())
            if uri:
                await _plan(pilot, limit)
                sizes.append(_resident_mb())
        app.feeds.close()
        return sizes

    print(*(f"{size:.1f}" for size in asyncio.run(day())))
    return 0


async def _plan(pilot: Pilot[None], limit: str) -> None:
    """Plan a restore on the page, and wait until memory was returned to the system, which happens once a minute."""

    async def until(holds: Callable[[str], object]) -> None:
        while not holds("\n".join(pilot.app.lines)):  # type: ignore[attr-defined]
            await pilot.pause(0.5)

    await pilot.press("4")
    await until(lambda text: "drop bench" in text)
    await pilot.press("t", *("colon" if char == ":" else char for char in limit), "enter")
    await until(lambda text: "Save the oplog" in text)
    await until(PLANNED.search)
    await pilot.pause(SETTLES)


def _resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


def naive_table() -> int:
    """Run a Textual DataTable that updates twenty cells once per second with ``update_cell``."""
    from textual.app import App, ComposeResult
    from textual.widgets import DataTable

    class Naive(App[None]):
        def compose(self) -> ComposeResult:
            yield DataTable()

        def on_mount(self) -> None:
            table = self.query_one(DataTable)
            self.keys = table.add_columns("namespace", "id", "value", "used", "rate", "left")
            self.rows = [
                table.add_row("shop.counters", f"sequence{n:02}", "1000000", "0.0%", "7/s", "?") for n in range(ROWS)
            ]
            self.value = 1_000_000
            self.set_interval(1.0, self.change)

        def change(self) -> None:
            self.value += 7
            table = self.query_one(DataTable)
            for n, row in enumerate(self.rows):
                table.update_cell(row, self.keys[2], f"{self.value + n * 1000:,}")

    Naive().run(mouse=False)
    return 0


def naive_log(rate: float) -> int:
    """Run a Textual RichLog that writes lines twenty times per second."""
    from textual.app import App, ComposeResult
    from textual.widgets import Footer, RichLog

    class Naive(App[None]):
        BINDINGS = [("k", "stop", "stop"), ("G", "go", "go")]  # noqa: RUF012

        def compose(self) -> ComposeResult:
            yield RichLog(max_lines=10_000)
            yield Footer()

        def on_mount(self) -> None:
            self.number = 0
            self.set_interval(0.05, self.add)

        def add(self) -> None:
            log = self.query_one(RichLog)
            for _ in range(int(rate * 0.05)):
                self.number += 1
                log.write(f"20:10:00 ins shop.orders insert 6b00a918ad269{self.number:011}")

        def action_stop(self) -> None:
            self.sub_title = "stopped"
            self.query_one(RichLog).write("stopped")

        def action_go(self) -> None:
            self.query_one(RichLog).write("following")

    Naive().run(mouse=False)
    return 0


def hide_tools() -> None:
    """Take the database tools off the path: a plan that the ones here are too old for ends early."""
    while (found := shutil.which("mongodump")) is not None:
        folders = os.environ["PATH"].split(os.pathsep)
        os.environ["PATH"] = os.pathsep.join(one for one in folders if one != os.path.dirname(found))


def main(argv: list[str]) -> int:
    """Run one of the screens."""
    hide_tools()
    if argv[0] == "real":
        return dashboard("oplog", uri=argv[1])
    if argv[0] == "restore":
        return dashboard("restore", uri=argv[1], backup=Path(argv[2]))
    kind, rate = argv[0], float(argv[1]) if len(argv) > 1 else 0.0
    if kind == "idle":
        return dashboard("counters", 0.0)
    if kind == "counters":
        return dashboard("counters", 0.0, step=7)
    if kind == "tail":
        return dashboard("oplog", rate)
    if kind == "memory":
        return memory(int(rate), argv[2], Path(argv[3]), argv[4]) if argv[2:] else memory(int(rate))
    return naive_table() if kind == "naive-table" else naive_log(rate)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
