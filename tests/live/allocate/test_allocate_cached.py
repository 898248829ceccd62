"""Ids from memory, over each driver: one fetch in flight, order, deadlines, cancellation, rewinds, closing."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from allocate_kit import Kit, done
from bson import Int64

from tallyglass.allocate import (
    Adaptive,
    AllocationTimeout,
    AllocatorClosed,
    AsyncCached,
    Cached,
    CounterMissing,
    CounterRewound,
    Event,
    EventKind,
    Exhausted,
    PoolLayout,
    Stats,
    WrongEventLoop,
)

pytestmark = [pytest.mark.live, pytest.mark.smoke, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


async def made(kit: Kit, **how: Any) -> Any:
    counter = kit.Counter(kit.db.counters, "orders", highest=how.pop("highest", None))
    await done(counter.create())
    return kit.Cached(counter, **how)


async def test_every_id_once_in_order_for_one_caller(kit: Kit) -> None:
    cached = await made(kit, step=50)
    ids = [await done(cached.next()) for _ in range(120)] + await done(cached.take(333))
    assert ids == list(range(1, 454))
    stats = cached.stats()
    assert (stats.issued, stats.burned) == (453, 0)
    assert stats.fetches >= 9
    burned = await done(cached.close())
    after = cached.stats()
    stored = kit.plain.counters.find_one()["next"]
    assert after.issued + after.burned == stored
    assert burned == after.burned <= 2 * 50
    with pytest.raises(AllocatorClosed):
        await done(cached.next())


async def test_many_waiters_share_one_fetch_and_are_served_in_turn(kit: Kit) -> None:
    """64 callers on an empty cache, a step of 100: one fetch under way at any time, ids in the order of the calls."""
    cached = await made(kit, step=100, ahead=0)
    in_flight: list[int] = []
    order: list[int] = []
    if kit.sync:
        taken: dict[int, int] = {}
        began = threading.Semaphore(0)

        def call(n: int) -> None:
            began.release()
            taken[n] = cached.next()
            in_flight.append(cached.stats().in_flight)

        threads = [threading.Thread(target=call, args=(n,)) for n in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(taken.values()) == list(range(1, 65))
    else:
        order = await asyncio.gather(*(cached.next() for _ in range(64)))
        in_flight.append(cached.stats().in_flight)
        assert order == list(range(1, 65))
    assert max(in_flight) <= 1
    assert cached.stats().fetches == 1
    await done(cached.close())


async def test_more_waiters_than_a_range_all_get_one(kit: Kit) -> None:
    cached = await made(kit, step=7)
    if kit.sync:
        with ThreadPoolExecutor(50) as pool:
            ids = list(pool.map(lambda _: cached.next(), range(200)))
    else:
        ids = await asyncio.gather(*(cached.next() for _ in range(200)))
    assert sorted(ids) == list(range(1, 201))
    assert cached.stats().waiters == 0
    await done(cached.close())


async def test_the_last_ids_before_the_ceiling_are_served_then_exhausted(kit: Kit) -> None:
    cached = await made(kit, step=100, highest=130)
    assert await done(cached.take(130)) == list(range(1, 131))
    with pytest.raises(Exhausted):
        await done(cached.next())
    await done(cached.close())


async def test_a_missing_counter_raises_until_it_is_created(kit: Kit) -> None:
    counter = kit.Counter(kit.db.counters, "later")
    cached = kit.Cached(counter)
    with pytest.raises(CounterMissing):
        await done(cached.next())
    await done(counter.create(500))
    assert await done(cached.next()) == 500
    await done(cached.close())


async def test_a_rewound_counter_drops_the_cache(kit: Kit) -> None:
    cached = await made(kit, step=10)
    await done(cached.take(10))
    kit.plain.counters.update_one({}, {"$set": {"next": Int64(3)}})
    with pytest.raises(CounterRewound):
        await done(cached.take(1000))
    with pytest.raises(CounterRewound):
        await done(cached.next())
    assert cached.stats().cached == 0


async def test_over_a_pool_with_an_adaptive_step(kit: Kit) -> None:
    seen: list[Event] = []
    pool = kit.Pool(kit.db.pool, layout=PoolLayout(20, 400))
    await done(pool.create())
    cached = kit.Cached(pool, step=Adaptive(seconds=60, least=10, most=200), on_event=seen.append)
    ids = await done(cached.take(8000))
    assert sorted(ids) == list(range(8000))
    with pytest.raises(Exhausted):
        await done(cached.next())
    assert max(event.n for event in seen if event.kind is EventKind.STEP) > 10
    await done(cached.close())


class Gate:
    """A source that answers when the test lets it."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.calls = 0

    async def take_up_to(self, n: int) -> range:
        self.calls += 1
        start = (self.calls - 1) * n
        await self.open.wait()
        return range(start, start + n)

    def stats(self) -> Stats:
        return Stats()


async def test_a_cancelled_waiter_loses_no_id() -> None:
    """The first caller, on whose behalf the fetch began, is cancelled: the others get their ids, from that fetch."""
    gate = Gate()
    cached = AsyncCached(gate, step=10)
    callers = [asyncio.create_task(cached.next()) for _ in range(5)]
    await asyncio.sleep(0)
    callers[0].cancel()
    callers[3].cancel()
    await asyncio.wait(callers[:1])
    gate.open.set()
    results = await asyncio.gather(*callers, return_exceptions=True)
    assert [r for r in results if isinstance(r, int)] == [0, 1, 2], results
    assert gate.calls == 1
    assert await cached.take(7) == [3, 4, 5, 6, 7, 8, 9]
    await cached.close()


async def test_an_id_handed_to_a_caller_cancelled_in_the_same_moment_goes_to_the_next() -> None:
    gate = Gate()
    cached = AsyncCached(gate, step=4, ahead=0)
    callers = [asyncio.create_task(cached.next()) for _ in range(2)]
    await asyncio.sleep(0)
    fetch = cached._fetch
    assert fetch is not None
    fetch.add_done_callback(lambda _: callers[0].cancel())
    gate.open.set()
    results = await asyncio.gather(*callers, return_exceptions=True)
    first = results[0] if isinstance(results[0], int) else None
    rest = await cached.take(4 - len([r for r in results if isinstance(r, int)]))
    assert sorted([*rest, *(r for r in results if isinstance(r, int))]) == [0, 1, 2, 3]
    assert first is None or first == 0
    await cached.close()


async def test_a_deadline_is_a_typed_error_and_the_fetch_goes_on() -> None:
    gate = Gate()
    cached = AsyncCached(gate, step=3, patience=0.01)
    with pytest.raises(AllocationTimeout):
        await cached.next()
    assert cached.stats().in_flight == 1
    gate.open.set()
    assert cached._fetch is not None
    await cached._fetch
    assert await cached.take(3) == [0, 1, 2]
    await cached.close()


def test_a_deadline_in_threads_is_a_typed_error_and_the_fetch_goes_on() -> None:
    release, delivered = threading.Event(), threading.Event()

    class Slow:
        def take_up_to(self, n: int) -> range:
            release.wait()
            return range(n)

        def stats(self) -> Stats:
            return Stats()

    class Told(Cached):
        def _deliver(self, *fetched: Any) -> None:
            super()._deliver(*fetched)
            delivered.set()

    cached = Told(Slow(), step=3, ahead=0, patience=0.01)
    with pytest.raises(AllocationTimeout):
        cached.next()
    release.set()
    delivered.wait()
    assert cached.take(2) == [0, 1]
    assert cached.close() == 1


def test_another_event_loop_is_refused() -> None:
    gate = Gate()
    cached = AsyncCached(gate, step=3)

    async def use() -> int:
        gate.open.set()
        return await cached.next()

    assert asyncio.run(use()) == 0
    with pytest.raises(WrongEventLoop):
        asyncio.run(use())


def test_threads_share_the_fast_path_without_a_repeated_id() -> None:
    """The one place without a lock: 8 threads on one iterator, a million ids."""

    class Memory:
        def __init__(self) -> None:
            self.at = 0

        def take_up_to(self, n: int) -> range:
            self.at += n
            return range(self.at - n, self.at)

        def stats(self) -> Stats:
            return Stats()

    cached = Cached(Memory(), step=5000)
    taken: list[list[int]] = []

    def work() -> None:
        own = [cached.next() for _ in range(60_000)] + cached.take(65_000)
        taken.append(own)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ids = [one for own in taken for one in own]
    assert len(ids) == len(set(ids)) == 1_000_000
    stats = cached.stats()
    assert stats.issued == 1_000_000
    assert stats.cached <= 2 * 5000
