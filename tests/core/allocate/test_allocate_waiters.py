"""A caller that stops waiting, a source that fails, a cache that is closed: no id is lost or repeated."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from tallyglass.allocate.cache import cached as cached_module
from tallyglass.allocate.cache.buffer import Buffer
from tallyglass.allocate.cache.cached import Cached, _Waiter
from tallyglass.allocate.cache.cached_async import AsyncCached
from tallyglass.allocate.cache.step_size import Adaptive, Fixed
from tallyglass.allocate.engine.meter import EventKind, Stats
from tallyglass.allocate.errors import (
    AllocationError,
    AllocationTimeout,
    AllocatorClosed,
    CounterRewound,
    WrongEventLoop,
)


class Memory:
    """A source of ids from 0; the ``errors`` are raised first, one per call."""

    def __init__(self, *errors: Exception) -> None:
        self.at = 0
        self.errors = list(errors)

    def take_up_to(self, n: int) -> range:
        if self.errors:
            raise self.errors.pop(0)
        self.at += n
        return range(self.at - n, self.at)

    def stats(self) -> Stats:
        return Stats()


class Slow(Memory):
    """The same, which sets ``asked`` and then waits for ``answer``."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()

    def take_up_to(self, n: int) -> range:
        self.asked.set()
        self.answer.wait()
        return super().take_up_to(n)


class Gate(Memory):
    """The same for tasks; it answers once ``open`` is set."""

    def __init__(self, *errors: Exception) -> None:
        super().__init__(*errors)
        self.open = asyncio.Event()

    async def take_up_to(self, n: int) -> range:  # type: ignore[override]
        await self.open.wait()
        return super().take_up_to(n)


def rewound() -> CounterRewound:
    return CounterRewound("back", "x", seen=9, found=1)


# --- threads -------------------------------------------------------------------------------------------------------


def interrupt_waiting(monkeypatch: pytest.MonkeyPatch, *, until: Any) -> None:
    """Let a caller be interrupted (^C) while it waits, when ``until(waiter)`` returns."""

    def interrupted(self: Cached, waiter: Any, end: float) -> bool:
        self._ensure_fetching()
        until(waiter)
        raise KeyboardInterrupt

    monkeypatch.setattr(Cached, "_await", interrupted)


class Watched(Cached):
    """A cache that says when a fetch was delivered."""

    def reset_after_fork(self) -> None:
        super().reset_after_fork()
        self.delivered = threading.Event()

    def _deliver(self, buffer: Buffer, ids: range | None, error: Any) -> None:
        super()._deliver(buffer, ids, error)
        self.delivered.set()


def test_an_interrupted_caller_passes_its_id_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = Cached(Memory(), step=3, ahead=0)
    with monkeypatch.context() as patch:
        interrupt_waiting(patch, until=lambda waiter: waiter.woken.acquire())
        with pytest.raises(KeyboardInterrupt):
            cached.next()
    assert (cached.stats().issued, cached.stats().waiters) == (0, 0)
    assert cached.take(3) == [0, 1, 2]
    assert (cached.stats().issued, cached.stats().burned) == (3, 0)


def test_an_interrupted_caller_of_a_closed_cache_burns_its_id(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = Cached(Memory(), step=3, ahead=0)
    with monkeypatch.context() as patch:
        interrupt_waiting(patch, until=lambda waiter: (waiter.woken.acquire(), cached.close()))
        with pytest.raises(KeyboardInterrupt):
            cached.next()
    assert (cached.stats().issued, cached.stats().burned) == (0, 3)


def test_a_caller_interrupted_before_its_id_arrives_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    cached = Watched(slow, step=3, ahead=0)
    with monkeypatch.context() as patch:
        interrupt_waiting(patch, until=lambda waiter: None)
        with pytest.raises(KeyboardInterrupt):
            cached.next()
    assert cached.stats().waiters == 0
    slow.answer.set()
    cached.delivered.wait()
    assert cached.take(3) == [0, 1, 2]


def test_a_thread_that_has_yet_to_begin_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a thread begins late, while its caller goes on: it started hundreds more until then."""
    began: list[Any] = []
    threads = SimpleNamespace(start_new_thread=lambda body, args: began.append((body, args)))
    monkeypatch.setattr(cached_module, "_thread", threads)
    cached = Cached(Memory(), step=3, ahead=1, patience=0)
    for late in range(2):
        for _ in range(3):
            with pytest.raises(AllocationTimeout):
                cached.next()
        assert len(began) == 1, "another only where the first one will never begin"
        if late == 0:
            began.clear()
    body, args = began.pop()
    body(*args)
    assert [(cached.next(), len(began)) for _ in range(3)] == [(0, 1), (1, 1), (2, 1)]


def test_at_the_end_of_the_interpreter_no_thread_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    cached = Watched(slow, step=3, ahead=0)
    cached._ensure_fetching()
    slow.asked.wait()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "is_finalizing", lambda: True)
        with pytest.raises(AllocationError, match="No thread can be started to fetch ids") as ended:
            cached.next()
    assert str(ended.value.__cause__) == "the interpreter is shutting down"
    slow.answer.set()
    cached.delivered.wait()
    assert cached.next() == 0


class Told(Fixed):
    """A step that keeps whether it was told of a caller that waited."""

    stalls: ClassVar[list[bool]] = []

    def next_step(self, now: float, *, stalled: bool, used: int | None = None) -> int:
        self.stalls.append(stalled)
        return self.step


def test_a_caller_that_waited_for_a_fetch_under_way_makes_the_next_one_larger() -> None:
    Told.stalls.clear()
    slow = Slow()
    cached = Watched(slow, step=Told(2), ahead=1)
    cached._ensure_fetching()
    slow.asked.wait()
    waiter = threading.Thread(target=cached.next)
    waiter.start()
    while not cached._line:
        time.sleep(0.001)
    slow.answer.set()
    waiter.join()
    while cached._is_fetching():
        time.sleep(0.001)
    cached.delivered.clear()
    assert cached.next() == 1, "while the next range is fetched ahead"
    cached.delivered.wait()
    assert Told.stalls == [False, True]


class Claimed:
    """The lock of a waiter that the other side has claimed: who waits for it would wait for ever."""

    def acquire(self, blocking: bool = True) -> bool:
        assert not blocking
        return False


def test_a_waiter_is_answered_once_or_leaves() -> None:
    answered, left, slow, failed = (_Waiter(Buffer()) for _ in range(4))
    late = AllocationTimeout("late")
    assert (answered.answer(7), failed.answer(None, late)) == (True, True)
    assert answered.woken.acquire(blocking=False), "it wakes up"
    answered.woken = failed.woken = None  # type: ignore[assignment]
    assert (answered.leave(), answered.value, answered.error) == (False, 7, None), "it waits for nothing"
    assert (failed.leave(), failed.error) == (False, late)
    assert left.leave() is True
    left.claim = slow.claim = Claimed()  # type: ignore[assignment]
    assert left.answer(8) is False
    assert (left.value, left.woken.locked()) == (None, True)
    slow.woken.release()
    assert (slow.leave(), slow.woken.locked()) == (False, True), "it waits for the answer that is under way"


def test_a_caller_without_an_answer_gives_up_and_its_id_goes_to_the_next() -> None:
    slow = Slow()
    events: list[Any] = []
    cached = Watched(slow, step=3, ahead=0, patience=0, on_event=events.append)
    for _ in range(2):
        with pytest.raises(AllocationTimeout, match="within 0 s"):
            cached.next()
    slow.asked.wait()
    stats = cached.stats()
    assert (stats.stalls, stats.in_flight, stats.waiters, stats.issued) == (2, 1, 0, 0)
    slow.answer.set()
    cached.delivered.wait()
    assert cached.take(3) == [0, 1, 2]
    assert [(event.kind, 0 <= event.seconds < 5) for event in events] == [(EventKind.STALLED, True)] * 2


@pytest.mark.parametrize("patience", [0, 30])
def test_closing_waits_for_a_fetch_as_long_as_a_caller_would(patience: float) -> None:
    slow = Slow()
    cached = Watched(slow, step=3, ahead=0, patience=patience)
    cached._ensure_fetching()
    slow.asked.wait()
    if patience:
        threading.Timer(0.05, slow.answer.set).start()
    assert cached.close() == (3 if patience else 0)
    assert cached.stats().in_flight == (0 if patience else 1)
    slow.answer.set()
    cached.delivered.wait()
    assert (cached.stats().burned, cached.close()) == (3, 0)


def test_after_a_failure_the_next_caller_fetches_again() -> None:
    cached = Cached(Memory(AllocationTimeout("late")), step=3, ahead=0)
    with pytest.raises(AllocationTimeout):
        cached.next()
    assert cached.stats().in_flight == 0
    assert cached.next() == 0


def test_a_rewound_counter_burns_what_is_in_memory() -> None:
    source = Memory()
    cached = Watched(source, step=4, ahead=1)
    assert cached.next() == 0
    cached.delivered.wait()
    cached.delivered.clear()
    source.errors.append(rewound())
    assert cached.next() == 1, "the next range is fetched meanwhile"
    cached.delivered.wait()
    with pytest.raises(CounterRewound):
        cached.next()
    stats = cached.stats()
    assert (stats.issued, stats.burned, stats.cached) == (2, 2, 0)


def test_a_closed_cache_keeps_nothing_of_the_calls_that_it_refuses() -> None:
    cached, frames = Cached(Memory()), set()
    cached.close()
    for _ in range(3):
        with pytest.raises(AllocatorClosed) as refused:
            cached.next()
        frames.add(len(refused.traceback))
    assert len(frames) == 1


@pytest.mark.parametrize(("seconds", "ranges"), [(1e6, 2), (1e-9, 1)], ids=["too short", "long enough"])
def test_ranges_that_may_not_be_longer_are_fetched_two_ahead(seconds: float, ranges: int) -> None:
    class Busy(Memory):
        def take_up_to(self, n: int) -> range:
            for _ in range(2):
                cached._buffer.take()  # what other callers take meanwhile
            return super().take_up_to(n)

    class Inline(Cached):
        """Each fetch ends within the call that starts it."""

        def _ensure_fetching(self) -> None:
            self._fetch_in_turn([])

    cached = Inline(Busy(), step=Adaptive(seconds=seconds, least=8, most=8))
    cached.next()
    cached.next()
    assert cached.stats().cached // 8 == ranges


def test_a_step_size_is_told_how_many_ids_were_taken_since_the_last_fetch() -> None:
    told: list[int | None] = []

    class Told(Fixed):
        def next_step(self, now: float, *, stalled: bool, used: int | None = None) -> int:
            told.append(used)
            return self.step

    assert Cached(Memory(), step=Told(3), ahead=0).take(7) == list(range(7))
    assert told == [0, 3, 3]


def test_a_failed_take_returns_its_ids() -> None:
    source = Memory()
    cached = Cached(source, step=4, ahead=0)
    assert cached.next() == 0
    source.errors.append(AllocationTimeout("late"))
    with pytest.raises(AllocationTimeout):
        cached.take(9)
    assert (cached.stats().issued, cached.stats().burned, cached.next()) == (1, 0, 1)


def test_closing_burns_ids_in_memory_and_in_flight() -> None:
    cached = Cached(Memory(), step=4, ahead=0)
    assert cached.take(2) == [0, 1]
    assert cached.close() == 2
    assert (cached.stats().issued, cached.stats().burned, cached.stats().in_flight) == (2, 2, 0)
    with pytest.raises(AllocatorClosed):
        cached.next()


def test_a_range_that_arrives_after_the_cache_was_closed_is_burned(caplog: pytest.LogCaptureFixture) -> None:
    class Closing(Memory):
        def take_up_to(self, n: int) -> range:
            cached.close()
            return super().take_up_to(n)

    cached = Watched(Closing(), step=4, ahead=0)
    with pytest.raises(AllocatorClosed):
        cached.next()
    cached.delivered.wait()
    cached.close()
    stats = cached.stats()
    assert (stats.issued, stats.burned, stats.cached, stats.in_flight) == (0, 4, 0, 0)
    assert not caplog.records, "as expected of close(): below a warning"


def test_a_range_that_arrives_while_another_thread_closes_the_cache_is_burned(monkeypatch: pytest.MonkeyPatch) -> None:
    cached = Watched(Memory(), step=4, ahead=0)
    add = Buffer.add

    def close_and_add(self: Buffer, ids: range) -> None:
        cached._stop(AllocatorClosed("x"))
        add(self, ids)

    monkeypatch.setattr(Buffer, "add", close_and_add)
    with pytest.raises(AllocatorClosed):
        cached.next()
    cached.delivered.wait()
    stats = cached.stats()
    assert (stats.issued, stats.burned, stats.cached) == (0, 4, 0)


def test_a_forked_child_starts_without_its_parents_ids() -> None:
    cached = Cached(Memory(), step=10, ahead=0)
    assert cached.take(2) == [0, 1]
    assert cached.stats().cached == 8, "in both places where ids are kept"
    cached.reset_after_fork()
    assert cached.stats() == Stats(step=10)
    assert cached.next() == 10


# --- tasks ---------------------------------------------------------------------------------------------------------


async def waiting(cached: AsyncCached, count: int) -> list[asyncio.Task[int]]:
    callers = [asyncio.create_task(cached.next()) for _ in range(count)]
    await asyncio.sleep(0)
    assert cached.stats().waiters == count
    return callers


async def test_a_task_that_waited_for_a_fetch_under_way_makes_the_next_one_larger() -> None:
    Told.stalls.clear()
    gate = Gate()
    cached = AsyncCached(gate, step=Told(2), ahead=1)
    cached._check_loop()
    cached._ensure_fetching()
    first = cached._fetch
    assert first is not None
    await asyncio.sleep(0)
    (caller,) = await waiting(cached, 1)
    gate.open.set()
    assert await caller == 0
    await asyncio.wait([first])
    assert await cached.next() == 1, "while the next range is fetched ahead"
    second = cached._fetch
    assert second is not None
    await second
    assert Told.stalls == [False, True]


def test_another_event_loop_is_refused_also_for_an_id_in_memory() -> None:
    class Immediate(Memory):
        async def take_up_to(self, n: int) -> range:  # type: ignore[override]
            return super().take_up_to(n)

    cached = AsyncCached(Immediate(), step=10, ahead=0)

    async def call(name: str, *args: int) -> Any:
        return await getattr(cached, name)(*args)

    assert asyncio.run(call("next")) == 0
    for name, args in (("next", ()), ("take", (2,))):
        with pytest.raises(WrongEventLoop, match="belongs to another event loop"):
            asyncio.run(call(name, *args))
    assert cached.stats().cached == 9


async def test_tasks_that_wait_for_a_closed_cache_are_dismissed_at_once() -> None:
    cached = AsyncCached(Gate(), step=4, ahead=0, patience=0.1)
    callers = await waiting(cached, 3)
    callers[1].cancel()
    cached._line[1].cancel()
    await cached.close()
    first, second, third = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(one) for one in (first, third)] == [AllocatorClosed] * 2
    assert isinstance(second, asyncio.CancelledError)


@pytest.mark.parametrize("handed_over", [True, False])
async def test_a_caller_cancelled_as_its_id_arrives_passes_it_to_the_next(handed_over: bool) -> None:
    """Between the cancellation and the turn in which the caller learns of it, the fetch hands over its ids."""

    class Cancelling(AsyncCached):
        def _deliver(self, buffer: Buffer, ids: range | None, error: Any) -> None:
            if not handed_over:
                callers[0].cancel()
            super()._deliver(buffer, ids, error)
            callers[0].cancel()

    gate = Gate()
    cached = Cancelling(gate, step=4, ahead=0)
    callers = await waiting(cached, 5)
    gate.open.set()
    first, *others = await asyncio.gather(*callers, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert others == [1, 2, 3, 4]
    rest = await cached.take(4)
    assert sorted([*others, *rest]) == list(range(8))
    assert cached.stats().issued == 4 + len(rest)


async def test_a_cancelled_caller_leaves_the_queue() -> None:
    gate = Gate()
    cached = AsyncCached(gate, step=4, ahead=0)
    callers = await waiting(cached, 3)
    callers[1].cancel()
    await asyncio.wait(callers[1:2])
    assert cached.stats().waiters == 2
    gate.open.set()
    assert [await callers[0], await callers[2]] == [0, 1]
    assert await cached.take(2) == [2, 3]


async def test_a_caller_that_is_cancelled_while_the_next_fetch_begins_leaves_its_id() -> None:
    gate = Gate()
    gate.open.set()
    cached = AsyncCached(gate, step=4, ahead=1)
    assert await cached.next() == 0
    gate.open.clear()
    caller = asyncio.create_task(cached.next())
    await asyncio.sleep(0)
    assert cached.stats().in_flight == 1
    caller.cancel()
    results = await asyncio.gather(caller, return_exceptions=True)
    assert isinstance(results[0], asyncio.CancelledError)
    gate.open.set()
    assert sorted(await cached.take(3)) == [1, 2, 3]
    assert cached.stats().issued == 4


@pytest.mark.parametrize(("seconds", "ranges"), [(1e6, 2), (1e-9, 1)], ids=["too short", "long enough"])
async def test_ranges_that_may_not_be_longer_are_fetched_two_ahead_for_tasks(seconds: float, ranges: int) -> None:
    class Busy(Gate):
        async def take_up_to(self, n: int) -> range:  # type: ignore[override]
            for _ in range(2):
                cached._buffer.take()  # what other callers take meanwhile
            return await super().take_up_to(n)

    gate = Busy()
    gate.open.set()
    cached = AsyncCached(gate, step=Adaptive(seconds=seconds, least=8, most=8))
    for _ in range(2):
        await cached.next()
        await cached._await_fetch()
    assert cached.stats().cached // 8 == ranges


async def test_a_task_without_patience_leaves_a_fetch_behind() -> None:
    gate, events = Gate(), []
    cached = AsyncCached(gate, step=3, ahead=0, patience=0, on_event=events.append)
    for _ in range(2):
        with pytest.raises(AllocationTimeout, match="within 0 s"):
            await cached.next()
    stats = cached.stats()
    assert (stats.stalls, stats.in_flight, stats.waiters, stats.issued) == (2, 1, 0, 0)
    gate.open.set()
    cached._patience = 30.0
    await cached._await_fetch()
    assert [await cached.next() for _ in range(3)] == [0, 1, 2]
    assert [(event.kind, 0 <= event.seconds < 5) for event in events] == [(EventKind.STALLED, True)] * 2


async def test_a_rewound_counter_burns_what_is_in_memory_for_tasks() -> None:
    gate = Gate()
    gate.open.set()
    cached = AsyncCached(gate, step=4, ahead=1)
    assert await cached.next() == 0
    gate.errors.append(rewound())
    assert await cached.next() == 1
    with pytest.raises(CounterRewound):
        await cached.next()
    stats = cached.stats()
    assert (stats.issued, stats.burned, stats.cached) == (2, 2, 0)


async def test_a_failed_take_returns_its_ids_for_tasks() -> None:
    gate = Gate()
    gate.open.set()
    cached = AsyncCached(gate, step=4, ahead=0)
    assert await cached.next() == 0
    gate.errors.append(AllocationTimeout("late"))
    with pytest.raises(AllocationTimeout):
        await cached.take(9)
    assert (cached.stats().issued, cached.stats().burned, await cached.next()) == (1, 0, 1)


async def test_closing_burns_what_is_in_memory_for_tasks() -> None:
    gate = Gate()
    gate.open.set()
    cached = AsyncCached(gate, step=4, ahead=0)
    assert await cached.take(2) == [0, 1]
    assert await cached.close() == 2
    assert (cached.stats().issued, cached.stats().burned) == (2, 2)


async def test_a_forked_child_starts_without_its_parents_ids_for_tasks() -> None:
    gate = Gate()
    gate.open.set()
    cached = AsyncCached(gate, step=10, ahead=0)
    assert await cached.take(2) == [0, 1]
    assert cached.stats().cached == 8
    cached.reset_after_fork()
    assert cached.stats() == Stats(step=10)
    assert await cached.next() == 10
