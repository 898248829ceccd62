"""The cache's bookkeeping: whatever happens in whatever order, no id is served twice, lost, or out of turn."""

from __future__ import annotations

import math

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from tallyglass.allocate.cache.refill import Refill
from tallyglass.allocate.cache.span import Span
from tallyglass.allocate.cache.step_size import Adaptive, Fixed


class Waiter:
    def __init__(self) -> None:
        self.value: int | None = None


class Cache(RuleBasedStateMachine):
    """A shell without threads: it leases, waits, fetches, fails, leaves and drops in any order."""

    waiters = Bundle("waiters")

    @initialize(step=st.integers(1, 40), ahead=st.sampled_from([0, 0.1, 0.5, 1]))
    def begin(self, step: int, ahead: float) -> None:
        self.step, self.ahead = step, ahead
        self.refill: Refill[Waiter] = Refill(Fixed(step), ahead)
        self.counter = 0
        self.pending = 0
        self.line: list[Waiter] = []
        self.hot: list[int] = []
        self.served: list[int] = []
        self.returned = 0
        self.dropped = 0

    def serve(self, served: list[tuple[Waiter, int]]) -> None:
        for waiter, value in served:
            assert waiter is self.line.pop(0), "out of turn"
            waiter.value = value
            self.served.append(value)

    def ask_for_fetch(self) -> None:
        size = self.refill.fetch_due(0)
        if size:
            assert self.pending == 0, "two fetches"
            self.pending = size

    @rule(target=waiters)
    def next(self) -> Waiter:
        waiter = Waiter()
        if not self.hot:
            span = self.refill.lease()
            if span is None:
                self.refill.wait(waiter)
                self.line.append(waiter)
            else:
                self.hot = list(span.ids())
            self.ask_for_fetch()
        if self.hot:
            assert not self.line or waiter not in self.line
            waiter.value = self.hot.pop(0)
            self.served.append(waiter.value)
        return waiter

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def fetched(self, data: st.DataObject) -> None:
        size = data.draw(st.integers(1, self.pending))
        span = Span(self.counter, self.counter + size)
        self.counter += size
        self.pending = 0
        self.serve(self.refill.filled(span))
        self.ask_for_fetch()

    @precondition(lambda self: self.pending)
    @rule()
    def fetch_failed(self) -> None:
        self.pending = 0
        assert self.refill.failed() == self.line
        self.line = []

    @rule(waiter=consumes(waiters))
    def leaves(self, waiter: Waiter) -> None:
        in_line = waiter in self.line
        assert self.refill.withdraw(waiter) is in_line
        if in_line:
            self.line.remove(waiter)
        elif waiter.value is not None and waiter.value == (self.served or [None])[-1]:
            self.served.pop()
            self.returned += 1
            self.serve(self.refill.give_back(Span(waiter.value, waiter.value + 1)))

    @rule()
    def drop(self) -> None:
        self.dropped += self.refill.drop() + len(self.hot)
        self.hot = []

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "refill"):
            return
        assert len(set(self.served)) == len(self.served), "an id twice"
        held = self.refill.held + len(self.hot)
        assert len(self.served) + held + self.dropped == self.counter, "an id lost"
        assert held <= self.step + math.ceil(self.step * self.ahead) + self.returned
        assert self.refill.waiting == len(self.line)
        assert self.refill.fetching is bool(self.pending)
        assert not (self.line and (self.refill.held or not self.pending)), "someone waits for nothing"


Cache.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestCache = Cache.TestCase


def test_the_next_range_is_asked_for_while_there_are_ids_left() -> None:
    refill: Refill[Waiter] = Refill(Fixed(100), 0.5)
    assert refill.lease() is None
    assert (refill.fetch_due(0), refill.fetch_due(0)) == (100, 0)
    refill.filled(Span(0, 100))
    assert (refill.lease(), refill.fetch_due(1)) == (Span(0, 50), 0)
    assert (refill.lease(), refill.fetch_due(2)) == (Span(50, 100), 100)


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
