"""Pools: counter documents that divide one id space, how full they are, and how much is left until each event.

The arithmetic: batches go to documents at random, so that after ``k`` batches a document on average, the fills
differ by about ``sqrt(k)`` batches. The larger the batch, the earlier the first document is full.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

_LEAST_DOCUMENTS = 3
"""Two documents with a bound each may be two counters; of three the widths can be compared."""

_NEGLIGIBLE = 1e-12
"""A chance that changes no figure of a mean over 1,000 documents."""


@dataclass(frozen=True, slots=True)
class PoolPart:
    """One document of a pool: its key, its id as text, the number of ids it issued, and its capacity."""

    key: Hashable
    id: str
    value: int
    bound: int
    issued: int
    capacity: int

    @property
    def used(self) -> float:
        """The used share of its range."""
        return self.issued / self.capacity if self.capacity > 0 else 1.0


@dataclass(frozen=True, slots=True)
class PoolSpan:
    """The range in one document: the next id (not yet issued), the last id, and the first if it is stored."""

    key: Hashable
    id: str
    value: int
    next: int
    last: int
    first: int | None = None


def as_pool(spans: Sequence[PoolSpan]) -> list[PoolPart] | None:
    """The documents of a pool in the order of their ranges; None if they do not divide one id space.

    They do when there are at least three, their bounds all differ and no span reaches into the one before; and,
    where the documents do not name their first id, when the bounds are equally spaced.
    """
    if len(spans) < _LEAST_DOCUMENTS:
        return None
    ordered = sorted(spans, key=lambda span: span.last)
    widths = [b.last - a.last for a, b in pairwise(ordered)]
    if min(widths) <= 0:
        return None
    if any(span.first is None for span in ordered) and max(widths) != min(widths):
        return None
    cells: list[PoolPart] = []
    below = ordered[0].last - widths[0]
    bounds = [below, *(span.last for span in ordered)]
    # The bound is either the last id or the first beyond it; in the second case a new document starts at the
    # bound below.
    beyond = 1 if any(span.next == bound for span, bound in zip(ordered, bounds, strict=False)) else 0
    for span, bound in zip(ordered, bounds, strict=False):
        first = span.first if span.first is not None else bound + 1 - beyond
        last = span.last - beyond
        if span.next < first or first > last:
            return None
        capacity = last - first + 1
        cells.append(PoolPart(span.key, span.id, span.value, span.last, min(span.next - first, capacity), capacity))
    return cells


@dataclass(frozen=True, slots=True)
class PoolOutlook:
    """Ids that can still be handed out until the first document is full, until half are, and until all are."""

    first_full: int
    two_tries: int
    empty: int


def outlook(cells: Sequence[PoolPart]) -> PoolOutlook:
    """How many more ids can be handed out until each event of a pool.

    Half of the documents full means two tries for a batch on average: a random choice meets a full one every second
    time.
    """
    left = sorted(cell.capacity - cell.issued for cell in cells)
    batch = max(1, math.gcd(*(cell.issued for cell in cells)))
    # Only one with no id left is full: what divides the issued ids may be no batch.
    room = [-(-free // batch) for free in left]
    empty = sum(left)
    first = 0 if room[0] == 0 else _expected_ids(room, _mean_until(room, 0.5)) * batch
    half = room[(len(room) - 1) // 2]
    tries = 0 if half == 0 else _expected_ids(room, float(half)) * batch
    return PoolOutlook(min(int(first), empty), min(int(tries), empty), empty)


def _mean_until(room: Sequence[int], chance: float) -> float:
    """The mean batches per document at which, with this probability, none is full yet. ``room`` is ascending."""
    low, high = 0.0, float(room[len(room) // 2]) + 1.0
    for _ in range(40):
        mean = (low + high) / 2
        log_none = 0.0
        for free in room:
            full = _chance_full(mean, free)
            # The remaining documents have more room.
            if full < _NEGLIGIBLE:
                break
            log_none += math.log(max(1e-300, 1.0 - full))
        low, high = (mean, high) if log_none > math.log(chance) else (low, mean)
    return (low + high) / 2


def _chance_full(mean: float, free: int) -> float:
    """The probability that a Poisson variable with this mean reaches ``free`` (Wilson-Hilferty)."""
    # P(Poisson(mean) >= free) = P(Gamma(free) <= mean).
    z = ((mean / free) ** (1 / 3) - (1 - 1 / (9 * free))) * 3 * math.sqrt(free)
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _expected_ids(room: Sequence[int], mean: float) -> float:
    """Batches handed out by all documents when each was offered ``mean`` of them: a full one accepts no more."""
    spread = math.sqrt(mean)
    # E[min(free, X)] of a normal X.
    return sum(mean - spread * _loss((free - mean) / spread) for free in room)


def _loss(z: float) -> float:
    """The unit normal loss function: the expected overshoot above ``z``."""
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * 0.5 * math.erfc(z / math.sqrt(2))
