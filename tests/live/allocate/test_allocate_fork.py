"""A fork: the child begins empty, whatever was in memory and whoever held a lock; by os.fork and by multiprocessing."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from typing import Any

import pytest
from pymongo import MongoClient

from tallyglass.allocate import Cached, Counter, Pool, PoolLayout, Stats, Uuid7, new_object_id, new_uuid
from tallyglass.demo.server import ReplicaSet

# The clients are opened before the fork, on purpose: PyMongo warns of that, and so do newer Pythons with threads.
pytestmark = [
    pytest.mark.live,
    pytest.mark.filterwarnings("ignore:MongoClient opened before fork"),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning"),
]

DB = "allocate_fork"


def in_child(work: Any) -> Any:
    """What ``work`` returns in a forked child."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.write(writer, pickle.dumps(work()))
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return pickle.loads(data)


@pytest.mark.parametrize("source", ["counter", "pool"])
def test_parent_and_children_never_share_an_id(replica_set: ReplicaSet, source: str) -> None:
    with replica_set.client() as client:
        client.drop_database(DB)
        under: Any
        if source == "counter":
            under = Counter(client[DB].counters, "x")
        else:
            under = Pool(client[DB].pool, layout=PoolLayout(4, 10_000))
        under.create()
        cached = Cached(under, step=50)
        before = cached.take(20)

        def child() -> tuple[list[int], Stats, Stats]:
            fresh = cached.stats()
            return cached.take(70), fresh, cached.stats()

        first, fresh, after = in_child(child)
        second, _, _ = in_child(child)
        mine = cached.take(100)
        ids = [*before, *first, *second, *mine]
        assert len(set(ids)) == len(ids) == 260
        assert (fresh.issued, fresh.cached) == (0, 0)
        assert after.issued == 70
        assert mine[0] == before[-1] + 1, "the parent keeps what it holds"
        cached.close()
        client.drop_database(DB)


def test_a_lock_held_at_the_fork_does_not_stop_the_child() -> None:
    """The fetching thread is inside the allocator when the process forks."""

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
        assert in_child(lambda: cached.next()) == 0
    finally:
        go_on.set()
        holder.join()


def test_random_ids_differ_after_a_fork() -> None:
    made = Uuid7()
    made.next()
    parent = {str(made.next()), str(new_uuid()), str(new_object_id())}
    child = in_child(lambda: {str(made.next()), str(new_uuid()), str(new_object_id())})
    assert not parent & child


def _take(uri: str, n: int) -> list[int]:
    with MongoClient(uri) as client:
        cached = Cached(Counter(client[DB].counters, "mp"), step=30)
        ids = cached.take(n)
        cached.close()
        return ids


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(replica_set: ReplicaSet, method: str) -> None:
    with replica_set.client() as client:
        client.drop_database(DB)
        Counter(client[DB].counters, "mp").create()
        with multiprocessing.get_context(method).Pool(2) as pool:
            parts = pool.starmap(_take, [(replica_set.uri, 100)] * 4)
        ids = [one for part in parts for one in part]
        assert len(set(ids)) == 400
        client.drop_database(DB)
