"""What the live tests of the oplog share: writers in processes of their own, and the oplog as the server has it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pymongo import MongoClient

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import OplogRow, OplogUpdate, RowKind

DB = "oplog_load"

# Inserts, updates and deletes of every form, until the pipe closes; failures of a failover are tried again.
_WRITER = """
import sys, threading
from pymongo import MongoClient, UpdateOne
from pymongo.errors import PyMongoError
uri, db, name, w, pause = sys.argv[1:6]
stop = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
client = MongoClient(uri, w=int(w) if w.isdigit() else w, serverSelectionTimeoutMS=60000, wTimeoutMS=2000)
things, k = client[db][name], 0
print("ready", flush=True)
while not stop.wait(float(pause)):
    try:
        things.insert_many([{"_id": f"{name}-{k}-{i}", "v": i, "pad": "x" * 60} for i in range(100)])
        things.bulk_write([UpdateOne({"_id": f"{name}-{k}-{i}"}, {"$inc": {"v": 1}}) for i in range(20)])
        things.delete_many({"_id": {"$in": [f"{name}-{k}-{i}" for i in range(10)]}})
    except PyMongoError:
        pass
    k += 1
client.close()
"""


@contextmanager
def writers(uri: str, count: int = 2, *, db: str = DB, w: str = "majority", pause: float = 0.0) -> Iterator[None]:
    """Have ``count`` processes write rounds of 130 operations, ``pause`` seconds apart; all stop at the end."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITER, uri, db, f"w{n}", w, str(pause)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for n in range(count)
    ]  # fmt: skip
    try:
        for process in processes:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in processes:
            process.wait(timeout=120)
            assert process.stdout is not None
            process.stdout.close()


def in_oplog(client: MongoClient[Any], query: dict[str, Any]) -> list[Ts]:
    """The ``ts`` of every entry that matches, as the server has them."""
    found = client.local["oplog.rs"].find(query, projection={"ts": 1})
    return [Ts(row["ts"].time, row["ts"].inc) for row in found]


class Seen:
    """Everything that a tail showed: what a person would hold to be true after each update."""

    def __init__(self) -> None:
        self.rows: list[OplogRow] = []
        self.special: list[OplogRow] = []
        self.troubles: list[str] = []
        self.last: OplogUpdate | None = None

    def take(self, update: OplogUpdate) -> None:
        assert update.dropped == 0
        for row in update.rows:
            if row.kind is RowKind.ROLLBACK:
                self.rows = [kept for kept in self.rows if kept.ts <= row.ts]
            if row.kind is RowKind.ENTRY:
                self.rows.append(row)
            else:
                self.special.append(row)
        if update.trouble and update.trouble not in self.troubles:
            self.troubles.append(update.trouble)
        self.last = update

    @property
    def entries(self) -> list[Ts]:
        return [row.ts for row in self.rows]

    def of(self, kind: RowKind) -> list[OplogRow]:
        return [row for row in self.special if row.kind is kind]


async def until(
    tail: AsyncIterator[OplogUpdate], seen: Seen, enough: Callable[[], bool], seconds: float = 120.0
) -> None:
    """Take updates until ``enough``. Fails after a generous time."""
    async with asyncio.timeout(seconds):
        while True:
            seen.take(await anext(tail))
            if enough():
                return


async def opened(tail: AsyncIterator[OplogUpdate], seen: Seen) -> None:
    """Wait until the tail reads: it does not show what was written before that."""
    await until(tail, seen, lambda: seen.last is not None and bool(seen.last.connected_to))


async def in_thread(call: Callable[..., Any], *arguments: Any) -> Any:
    """Run a blocking call of the rig while the tail runs."""
    return await asyncio.get_running_loop().run_in_executor(None, lambda: call(*arguments))
