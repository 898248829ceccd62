"""Allocators in a process that forks, for :mod:`test_allocate_fork`: a separate program.

``python forking.py NAME [URI]`` runs the function of that name and prints what it returns as JSON.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from pymongo import MongoClient

from tallyglass.allocate import Cached, Counter, Pool, PoolLayout, Stats, Uuid7, new_object_id, new_uuid

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
