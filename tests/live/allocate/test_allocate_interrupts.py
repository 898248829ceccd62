"""Exceptions from signal handlers, calls from signal handlers, the end of the interpreter, dead fetching threads."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tallyglass.allocate import AllocationError, AllocatorClosed, AsyncCached, Cached, Stats
from tallyglass.demo.server import ReplicaSet

pytestmark = pytest.mark.live

PROGRAM = Path(__file__).with_name("interrupted.py")


def interrupted(mode: str, seconds: float, least: float, most: float, *uri: str) -> dict[str, Any]:
    argv = [sys.executable, str(PROGRAM), mode, str(seconds), str(least), str(most), *uri]
    ran = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=seconds + 60)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("mode", ["raise", "reenter"])
def test_a_signal_at_any_moment_wedges_nothing(mode: str) -> None:
    found = interrupted(mode, 2.5, 0.0005, 0.004)
    assert found["interrupts"] > 100, found
    assert (found["wedges"], found["duplicates"], found["waiters"]) == (0, 0, 0), found


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["raise", "reenter"])
def test_a_minute_of_interrupts_on_a_real_counter(replica_set: ReplicaSet, mode: str) -> None:
    with replica_set.client() as client:
        client.drop_database("interrupted")
        found = interrupted(mode, 60, 0.005, 0.02, replica_set.uri)
        print(found)
        assert found["interrupts"] > 1_000, found
        assert (found["wedges"], found["duplicates"]) == (0, 0), found
        client.drop_database("interrupted")


@pytest.mark.parametrize("when", ["atexit", "__del__"])
def test_next_at_interpreter_shutdown_returns_or_fails_immediately(replica_set: ReplicaSet, when: str) -> None:
    code = f"""
import atexit, os

class Last:
    def finish(self):
        try:
            os.write(1, b"id %d" % self.ids.next())
        except Exception as error:
            os.write(1, type(error).__name__.encode())
    if {when!r} == "__del__":
        __del__ = finish

last = Last()
if {when!r} == "atexit":
    atexit.register(last.finish)  # before PyMongo's own handlers, and so after them
from pymongo import MongoClient
from tallyglass.allocate import Cached, Counter
counter = Counter(MongoClient({replica_set.uri!r}).shutdown.counters, "x")
counter.create()
last.ids = Cached(counter, step=1, ahead=0)
last.ids.next()
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert ran.stdout.startswith(("id ", "AllocationError")), (ran.stdout, ran.stderr)
    with replica_set.client() as client:
        client.drop_database("shutdown")


class Memory:
    """A source whose first fetch ends in a way that no source may."""

    def __init__(self, failure: BaseException | None = None) -> None:
        self.failure = failure
        self.at = 0

    def take_up_to(self, n: int) -> range:
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        self.at += n
        return range(self.at - n, self.at)

    def stats(self) -> Stats:
        return Stats()


def test_a_fetching_thread_that_dies_is_reported_and_replaced() -> None:
    cached = Cached(Memory(SystemExit()), step=3, ahead=0)
    with pytest.raises(AllocationError, match="ended unexpectedly"):
        cached.next()
    assert cached.take(4) == [0, 1, 2, 3]
    cached.close()


async def test_a_fetching_task_that_dies_is_reported_and_replaced() -> None:
    class Source(Memory):
        async def take_up_to(self, n: int) -> range:  # type: ignore[override]
            return super().take_up_to(n)

    cached = AsyncCached(Source(RuntimeError("boom")), step=3, ahead=0)
    with pytest.raises(AllocationError, match="ended unexpectedly"):
        await cached.next()
    fetch = cached._fetch
    assert fetch is not None
    with pytest.raises(RuntimeError):
        await fetch
    assert await cached.take(4) == [0, 1, 2, 3]
    await cached.close()


def test_a_thread_that_dies_before_serving_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing says that a fetch is under way but the thread that does it: one that never ran is not waited for."""
    cached = Cached(Memory(), step=3, ahead=0)
    real, started = cached._fetch_in_turn, 0

    def first_dies(starts: Any) -> None:
        nonlocal started
        started += 1
        if started > 1:
            real(starts)

    monkeypatch.setattr(cached, "_fetch_in_turn", first_dies)
    assert cached.next() == 0
    assert started == 2
    cached.close()


def test_waiters_of_a_closed_cache_are_dismissed() -> None:
    entered, release = threading.Event(), threading.Event()

    class Slow(Memory):
        def take_up_to(self, n: int) -> range:
            entered.set()
            release.wait()
            return super().take_up_to(n)

    cached, seen = Cached(Slow(), step=5), []

    def wait() -> None:
        with pytest.raises(AllocatorClosed) as caught:
            cached.next()
        seen.append(caught.type)

    waiter, closing = threading.Thread(target=wait), threading.Thread(target=cached.close)
    waiter.start()
    entered.wait()
    closing.start()
    waiter.join()
    release.set()
    closing.join()
    assert seen == [AllocatorClosed]
    assert cached.stats().burned == 5
