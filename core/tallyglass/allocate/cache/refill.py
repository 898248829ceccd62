"""Which ids are in memory, who waits for one, when to fetch and how much: everything about a cache but I/O. Pure.

Not thread-safe: the synchronous shell holds a lock around each call, the asynchronous one is alone on its loop.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Generic, TypeVar

from tallyglass.allocate.cache.span import Span
from tallyglass.allocate.cache.step_size import StepSize

W = TypeVar("W")


class Refill(Generic[W]):
    """Spans in memory and waiters in order. ``W`` is whatever a shell wakes: it is compared by identity.

    Ids leave in three ways: leased to the shell's fast path, handed to a waiter, or dropped (and counted).
    A fetch is due when what is left is at most ``ahead`` steps; at most one is under way.
    With a fixed step never more than ``1 + ahead`` steps are held, a lease included.
    """

    def __init__(self, steps: StepSize, ahead: float = 0.5) -> None:
        if not 0 <= ahead <= 1:
            raise ValueError("ahead is a share of one step, from 0 to 1")
        self._steps = steps
        self._ahead = ahead
        self._ready: deque[Span] = deque()
        self._waiting: deque[W] = deque()
        self._due = False
        self._stalled = False
        self._fetched = steps.current()
        self.fetching = False

    @property
    def held(self) -> int:
        """Ids in memory that are not leased."""
        return sum(len(span) for span in self._ready)

    @property
    def waiting(self) -> int:
        """Waiters in line."""
        return len(self._waiting)

    def lease(self) -> Span | None:
        """Ids for the fast path, up to where a fetch becomes due; None when waiters come first or none is left.

        To be called when the lease before is used up.
        """
        spare = self.held - self._low()
        self._due = spare <= 0
        if self._waiting or not self._ready:
            return None
        front = self._ready.popleft()
        if 0 < spare < len(front):
            front, rest = front.take(spare)
            self._ready.appendleft(rest)
        return front

    def fetch_due(self, now: float) -> int:
        """How many ids to fetch now; 0 when none, or when a fetch is under way. The caller must then do it."""
        if self.fetching or not (self._due or self._waiting):
            return 0
        self.fetching = True
        self._due = False
        self._fetched = self._steps.next_step(now, stalled=self._stalled)
        self._stalled = False
        return self._fetched

    def wait(self, waiter: W) -> None:
        """Put a waiter at the end of the line."""
        self._stalled = True
        self._waiting.append(waiter)

    def filled(self, span: Span) -> list[tuple[W, int]]:
        """A fetch brought ``span``: the waiters that get an id, in order, each with it."""
        self.fetching = self._due = False
        self._ready.append(span)
        return self._serve()

    def failed(self) -> list[W]:
        """A fetch failed: everyone who waits for it, in order."""
        self.fetching = False
        return self.dismiss()

    def dismiss(self) -> list[W]:
        """Send everyone away, in order; a fetch that is under way stays so."""
        losers = list(self._waiting)
        self._waiting.clear()
        return losers

    def withdraw(self, waiter: W) -> bool:
        """Take a waiter out of the line; False when it is not in it any more."""
        for index, other in enumerate(self._waiting):
            if other is waiter:
                del self._waiting[index]
                return True
        return False

    def give_back(self, span: Span) -> list[tuple[W, int]]:
        """Ids that were handed to someone who left before taking them; they are the next to go."""
        if len(span):
            self._ready.appendleft(span)
        return self._serve()

    def drop(self) -> int:
        """Forget all ids; how many there were."""
        held = self.held
        self._ready.clear()
        return held

    def _serve(self) -> list[tuple[W, int]]:
        served: list[tuple[W, int]] = []
        while self._waiting and self._ready:
            first, rest = self._ready.popleft().take(1)
            if len(rest):
                self._ready.appendleft(rest)
            if len(first):
                served.append((self._waiting.popleft(), first.start))
        return served

    def _low(self) -> int:
        return math.ceil(self._fetched * self._ahead)
