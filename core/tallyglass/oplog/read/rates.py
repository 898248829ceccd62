"""Operations a second by namespace, over spans of the oplog's own time."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Mapping

from tallyglass.oplog.entry.batch import Envelope
from tallyglass.oplog.snapshot import NamespaceRate
from tallyglass.text import clean_name

BUCKET_SECONDS, LONGEST_SECONDS = 5, 300
"""The shortest span of a rate, and the longest, which the screen shows."""

NAMESPACE_LIMIT = 500
"""Namespaces that are counted one by one in each span of five seconds; the rest go to :data:`OTHERS`."""

OTHERS = "(others)"
_SHOWN = 100
"""Namespaces that an update lists: some screens."""

Counts = Counter[tuple[str, str]]


class Rates:
    """Counts operations in buckets of five seconds, for at most five minutes, and in one total."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[int, Counts]] = deque()
        self._total: Counts = Counter()
        self._first: int | None = None
        self.newest = 0
        """The newest second that was counted."""

    def add(self, seconds: int, counts: Mapping[Envelope, int]) -> None:
        """Count entries whose ``ts`` lies in the five seconds around ``seconds``."""
        number = seconds // BUCKET_SECONDS
        if not self._buckets or self._buckets[-1][0] < number:
            self._buckets.append((number, Counter()))
            while self._buckets[0][0] <= number - LONGEST_SECONDS // BUCKET_SECONDS:
                self._buckets.popleft()
        for holder in (self._buckets[-1][1], self._total):
            for envelope, count in counts.items():
                _count(holder, envelope, count)

    def reach(self, first: int, last: int) -> None:
        """Say which seconds were looked at."""
        self._first = first if self._first is None else min(self._first, first)
        self.newest = max(self.newest, last)

    def over(self, seconds: int, now: int) -> tuple[NamespaceRate, ...]:
        """The rates over the ``seconds`` before ``now``, a time of the oplog; busiest first."""
        first = (now - seconds) // BUCKET_SECONDS + 1
        total: Counts = Counter()
        for number, counts in self._buckets:
            if number >= first:
                total.update(counts)
        return _rates(total, min(seconds, max(now - self._first + 1, 1)) if self._first is not None else seconds)

    def overall(self) -> tuple[NamespaceRate, ...]:
        """The rates over everything that was counted."""
        span = self.newest - self._first + 1 if self._first is not None else 1
        return _rates(self._total, span)


def _count(holder: Counts, envelope: Envelope, count: int) -> None:
    if envelope.op == "n":
        return
    key = (envelope.ns, envelope.op)
    if key not in holder and len(holder) >= NAMESPACE_LIMIT * 4:
        key = (OTHERS, envelope.op)
    holder[key] += count


def _rates(counts: Counts, seconds: int) -> tuple[NamespaceRate, ...]:
    by_ns: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (ns, op), count in counts.items():
        by_ns[ns][op if op in "iud" else "c"] += count
    busiest = sorted(by_ns.items(), key=lambda item: (-item[1].total(), item[0]))[:_SHOWN]
    return tuple(
        NamespaceRate(clean_name(ns, 255), *(ops[letter] / max(seconds, 1) for letter in "iudc")) for ns, ops in busiest
    )
