"""Allocators in a process that forks, for :mod:`test_allocate_fork`: a separate program.

``python forking.py NAME [URI]`` runs the function of that name and prints what it returns as JSON.
"""

from __future__ import annotations

import fcntl
import json
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from tallyglass.allocate import (
    AllocationError,
    Cached,
    Counter,
    Pool,
    PoolLayout,
    Stats,
    Uuid7,
    Version,
    new_object_id,
    new_uuid,
)

DB = "allocate_fork"


def in_child(work: Callable[[], Any]) -> Any:
    """What ``work`` returns in a forked child."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.write(writer, json.dumps(work()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return json.loads(data)


def counter(uri: str) -> dict[str, Any]:
    """Ids of a parent and of two children from one cached counter."""
    with MongoClient[dict[str, Any]](uri) as client:
        return _share(Counter(client[DB].counters, "x"))


def pool(uri: str) -> dict[str, Any]:
    """The same from a pool."""
    with MongoClient[dict[str, Any]](uri) as client:
        return _share(Pool(client[DB].pool, layout=PoolLayout(4, 10_000)))


def _share(source: Counter | Pool) -> dict[str, Any]:
    source.create()
    cached = Cached(source, step=50)
    before = cached.take(20)

    def child() -> tuple[list[int], list[int], int]:
        fresh = cached.stats()
        return cached.take(70), [fresh.issued, fresh.cached], cached.stats().issued

    first, fresh, issued = in_child(child)
    second, _, _ = in_child(child)
    mine = cached.take(100)
    cached.close()
    return {"parent": [before, mine], "children": [first, second], "fresh": fresh, "issued": issued}


def lock_held() -> int:
    """An id from a child of a process that forked while the fetching thread was inside the allocator."""

    class Memory:
        def take_up_to(self, n: int) -> range:
            return range(n)

        def stats(self) -> Stats:
            return Stats()

    cached, held, go_on = Cached(Memory(), step=10), threading.Event(), threading.Event()

    def hold() -> None:
        with cached._claim:
            held.set()
            go_on.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        return int(in_child(lambda: cached.next()))
    finally:
        go_on.set()
        holder.join()


def random_ids() -> list[list[str]]:
    """Random ids of a parent and of its child."""
    made = Uuid7()
    made.next()

    def some() -> list[str]:
        return [str(made.next()), str(new_uuid()), str(new_object_id())]

    return [some(), in_child(some)]


class SharedFile:
    """Ids from a counter in a file, which all processes share."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("0")

    def take_up_to(self, n: int) -> range:
        with self.path.open("r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            at = int(file.read())
            file.seek(0)
            file.write(str(at + n))
        return range(at, at + n)

    def stats(self) -> Stats:
        return Stats()


def signals(folder: str, what: str) -> list[list[str]]:
    """The ids of a process, and of the children that a signal handler forks within its calls and that return there."""
    cached = Cached(SharedFile(Path(folder, "counter")), step=20, patience=5)
    calls: dict[str, Callable[[], list[Any]]] = {
        "next": lambda: [cached.next()],
        "take": lambda: cached.take(7),
        "new_uuid": lambda: [new_uuid(Version.V1)],
        "new_object_id": lambda: [new_object_id()],
    }
    parent, end, call = os.getpid(), time.monotonic() + 1.5, calls[what]
    taken: list[Any] = []
    got: list[Any] = []
    inside, left = False, 0

    def rearm() -> None:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, 0.02))

    def fork(*_: object) -> None:
        nonlocal left
        if os.fork():
            rearm()
            return
        left = 10
        taken.clear()
        if not inside:
            got.clear()

    signal.signal(signal.SIGALRM, fork)
    rearm()
    while time.monotonic() < end:
        try:
            inside = True
            got = call()
            inside = False
        except AllocationError:
            inside, got = False, []
            if os.getpid() == parent:
                raise
        taken += got
        if left and (left := left - 1) == 0:
            break
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    Path(folder, f"{os.getpid()}.json").write_text(json.dumps([str(one) for one in taken]))
    if os.getpid() != parent:
        os._exit(0)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]


def take(uri: str, n: int) -> list[int]:
    with MongoClient[dict[str, Any]](uri) as client:
        cached = Cached(Counter(client[DB].counters, "mp"), step=30)
        ids = cached.take(n)
        cached.close()
        return ids


def fork(uri: str) -> list[list[int]]:
    """Ids of two processes that multiprocessing forked."""
    return _multiprocessing("fork", uri)


def spawn(uri: str) -> list[list[int]]:
    """Ids of two processes that multiprocessing spawned."""
    return _multiprocessing("spawn", uri)


def _multiprocessing(method: str, uri: str) -> list[list[int]]:
    with MongoClient[dict[str, Any]](uri) as client:
        Counter(client[DB].counters, "mp").create()
        with multiprocessing.get_context(method).Pool(2) as workers:
            return workers.starmap(take, [(uri, 100)] * 4)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*sys.argv[2:])))
