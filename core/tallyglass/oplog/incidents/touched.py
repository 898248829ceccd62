"""Which documents a stretch of updates touched, by a sample: one statement never touches an ``_id`` twice.

The sample is chosen by the ``_id`` alone, so it is the same however an oplog is cut into slices: the eight documents
whose ``_id`` has the smallest number made of a checksum, each with how many updates it got.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest

SAMPLED_IDS = 8
"""Documents of a stretch whose updates are counted. If a third of all are updated again, one of eight is in 96 %."""

Touched = tuple[int, ...]
"""Of each sampled document its number, and in the lower 32 bits how many updates it got; in ascending order."""

_COUNT = (1 << 32) - 1
"""The bits of a count."""


def touched_by(sums: Sequence[int]) -> Touched:
    """The sample of updates of the documents with these numbers, in any order."""
    distinct = set(sums)
    if len(distinct) == len(sums):
        return tuple([number << 32 | 1 for number in nsmallest(SAMPLED_IDS, distinct)])
    return _smallest(Counter(sums))


def joined(one: Touched, other: Touched) -> Touched:
    """The sample of two stretches together."""
    both = (*one, *other)
    if len({number >> 32 for number in both}) == len(both):
        return tuple(sorted(both)[:SAMPLED_IDS])
    counts = Counter({number >> 32: number & _COUNT for number in one})
    for number in other:
        counts[number >> 32] += number & _COUNT
    return _smallest(counts)


def is_repeated(sample: Touched) -> bool:
    """Whether a document was updated twice."""
    return any(number & _COUNT > 1 for number in sample)


def documents_in(sample: Touched, updates: int) -> int | None:
    """How many documents so many updates touched; None where there are more than the sample holds."""
    whole = sum(number & _COUNT for number in sample) == updates
    return len(sample) if whole else None


def _smallest(counts: Counter[int]) -> Touched:
    return tuple([number << 32 | counts[number] for number in nsmallest(SAMPLED_IDS, counts)])
