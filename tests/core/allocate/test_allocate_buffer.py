"""The ids in memory: whatever happens in whatever order, no id is taken twice or lost; and the size of a range."""

from __future__ import annotations

import math
import sys
import threading

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tallyglass.allocate.cache import buffer
from tallyglass.allocate.cache.buffer import Buffer, SharedIds
from tallyglass.allocate.cache.step_size import Adaptive, Fixed, step_size


class Cache(RuleBasedStateMachine):
    """Ranges come in, ids are taken one by one and many at once, given back, and dropped, in any order."""

    @initialize()
    def begin(self) -> None:
        self.buffer = Buffer()
        self.counter = 0
        self.taken: list[int] = []
        self.dropped = 0

    @rule(n=st.integers(0, 70))
    def add(self, n: int) -> None:
        self.buffer.add(range(self.counter, self.counter + n))
        self.counter += n

    @rule(times=st.integers(1, 20))
    def take(self, times: int) -> None:
        for _ in range(times):
            expected = bool(self.buffer.held())
            value = self.buffer.take()
            assert (value is not None) is expected, "an id that is there is not found"
            if value is not None:
                self.taken.append(value)

    @rule(n=st.integers(1, 50))
    def take_many(self, n: int) -> None:
        found = self.buffer.take_up_to(n)
        assert len(found) <= n
        self.taken += found

    @rule()
    def take_from_the_fast_path(self) -> None:
        for value in self.buffer.fast:
            self.taken.append(value)
            break

    @rule(n=st.integers(1, 3))
    def give_back(self, n: int) -> None:
        self.buffer.give_back(self.taken[-n:])
        del self.taken[-n:]

    @rule()
    def drop(self) -> None:
        held = self.buffer.held()
        assert self.buffer.drop() == held
        self.dropped += held

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "buffer"):
            return
        assert len(set(self.taken)) == len(self.taken), "an id twice"
        assert len(self.taken) + self.buffer.held() + self.dropped == self.counter, "an id lost"
        assert (self.buffer.added, self.buffer.dropped) == (self.counter, self.dropped)
        in_ranges = self.buffer.held() - len(self.buffer._returned)
        assert self.buffer.ahead() >= in_ranges
        if not self.dropped:
            assert self.buffer.ahead() - in_ranges <= math.ceil(70 / 16), "off by more than a piece"


Cache.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestCache = Cache.TestCase


@pytest.mark.parametrize("free_threaded", [False, True])
def test_threads_share_a_buffer_without_a_repeated_or_lost_id(
    free_threaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one place without a lock: 8 threads take while one adds. Also as it is on a build without a global lock."""
    monkeypatch.setattr(buffer, "FREE_THREADED", free_threaded)
    ids, total = Buffer(), 40_000
    assert isinstance(buffer._Piece(range(3), 0).ids, SharedIds) is free_threaded
    taken: list[list[int]] = [[] for _ in range(8)]
    finished = threading.Event()

    def take(mine: list[int]) -> None:
        while True:
            last = finished.is_set()
            value = ids.take()
            if value is not None:
                mine.append(value)
                mine += ids.take_up_to(3)
            elif last:
                return

    threads = [threading.Thread(target=take, args=(mine,)) for mine in taken]
    for thread in threads:
        thread.start()
    for start in range(0, total, 100):
        ids.add(range(start, start + 100))
    finished.set()
    for thread in threads:
        thread.join()
    assert sorted(one for mine in taken for one in mine) == list(range(total))


@pytest.mark.parametrize("start", [0, 2**63 - 1_000])
def test_dropping_ids_does_not_step_over_them(start: int) -> None:
    """It would stop the process, and an event loop, for 0.1 s and more a million."""

    class Many:
        left = 10**12

        def __next__(self) -> int:
            raise AssertionError("stepped over one by one")

        def __iter__(self) -> Many:
            return self

        def __length_hint__(self) -> int:
            return self.left

        def __setstate__(self, at: int) -> None:
            self.left = 0

    ids = Buffer()
    ids.add(range(start, start + 1_000))
    assert (ids.take(), ids.drop(), ids.take(), ids.held()) == (start, 999, None, 0)
    ids._piece.ids = Many()
    assert (ids.drop(), ids.held()) == (10**12, 0)


def test_queues_are_used_only_where_no_global_lock_is() -> None:
    has_lock = sys.version_info < (3, 13) or sys._is_gil_enabled()
    assert buffer.FREE_THREADED is not has_lock


def test_an_adaptive_step_follows_the_rate_within_its_bounds() -> None:
    step = Adaptive(seconds=1.0, least=10, most=5_000)
    now, sizes = 0.0, []
    for _ in range(8):
        size = step.next_step(now, stalled=False)
        sizes.append(size)
        now += size / 2_000
    assert sizes[:3] == [10, 80, 640]
    assert 1_900 <= sizes[-1] <= 2_000
    for _ in range(20):
        now += 3600
        step.next_step(now, stalled=False)
    assert step.current() == 10
    assert [step.next_step(now, stalled=True) for _ in range(12)][-1] == 5_000


def test_a_new_cache_finds_its_step_at_once_and_does_not_overshoot() -> None:
    """500 ids a second, and the next range asked for when one is left: as it was used, not as it was fetched."""
    step, held, now, used = step_size(None), 0, 0.0, 0
    sizes = []
    for _ in range(8):
        held += step.next_step(now, stalled=False, used=used)
        sizes.append(step.current())
        used = max(1, held - step.current())
        held -= used
        now += used / 500
    assert sizes[:4] == [100, 800, 6_400, 10_000]
    assert max(sizes) <= 10_000


def test_a_step_grows_eightfold_shrinks_by_half_and_doubles_for_a_caller_that_waited() -> None:
    step, told = Adaptive(seconds=10.0, least=10, most=1_000), []
    for now, stalled, used in (
        *(
            (0.0, False, 0),
            (10.0, False, 10),
            (20.0, False, 30),
            (30.0, False, 500),
            (30.0, False, 1),
            (40.0, False, 1),
        ),
        *((50.0, True, 1), (60.0, True, 1), (70.0, False, 1_000), (80.0, False, 1_001), (80.0, True, 0)),
    ):
        told.append((step.next_step(now, stalled=stalled, used=used), step.short))
    assert told == [
        *((10, False), (10, False), (30, False), (240, False), (1_000, True), (500, False)),
        *((1_000, False), (1_000, False), (1_000, False), (1_000, True), (1_000, False)),
    ]
    slow = Adaptive(seconds=10.0, least=10, most=1_000)
    assert [slow.next_step(now, stalled=True, used=1) for now in (0.0, 10.0, 20.0, 30.0)] == [10, 20, 40, 80]
    assert [Fixed().step, Fixed(7).current(), Fixed(7).next_step(0.0, stalled=True, used=99)] == [1_000, 7, 7]


def test_the_default_step_lasts_long_enough_for_a_failover_and_spares_small_spaces() -> None:
    step = step_size(None, 2**63)
    now = 0.0
    for _ in range(10):
        now += step.next_step(now, stalled=False) / 1_000
    assert 15_000 <= step.current() <= 20_000, "15 to 20 s at 1,000 ids a second"
    for _ in range(10):
        now += 1e-6
        step.next_step(now, stalled=True)
    assert step.current() == 100_000
    small = {space: step_size(None, space) for space in (2**31, 10**6, 10**4)}
    assert {space: found.current() for space, found in small.items()} == {2**31: 100, 10**6: 10, 10**4: 1}
    assert [found.next_step(now, stalled=True) for found in small.values() for now in range(20)][19] == 2**31 // 100_000
    assert step_size(7) == Fixed(7)
