"""Writes in close succession, as a value: an older and a newer burst that follow each other join into one.

Joining looks only at the last entry of the older one and the first of the newer one, so it is associative: however an
oplog is cut into slices, and in whatever direction they are read, the bursts are the same.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from sys import maxsize

from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.entry.json import id_text
from tallyglass.oplog.entry.layout import Stamp
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.incidents.id_order import RAW_BYTES, IdOrder, order_of, scattered, thinned
from tallyglass.oplog.incidents.touched import Touched, joined

MANY = 20
"""The fewest documents of a bulkWrite, of a row whose pieces are all of usual size, of an act of a pool, and of a
transaction."""

SAMPLES = 5
"""The most documents of a row that are named, as fit into the line of an opened one."""

_KEPT_BYTES = 480
"""Samples and marks of up to this size stay entries once a burst is kept: what is read from them takes as much, and is
hardly ever needed."""

_MOST_MARKS = 64
"""So many marks are kept before some are chosen: to choose takes as long as to read a hundred entries."""

Closed = tuple[int, int, int]
"""Of a burst or a command: its documents, and when it began and ended, in milliseconds since 1970."""

Sample = str | bytes
"""The ``_id`` of one document as text, or the entry to read it from on demand."""


def sample_of(batch: bytes, start: int, end: int) -> Sample:
    """The sample of one entry. Reading the ``_id`` costs as much as ten entries, and most samples are never shown."""
    raw = batch[start:end]
    return raw if len(raw) <= RAW_BYTES else sample_text(raw)


@functools.lru_cache(maxsize=2_000)
def sample_text(sample: Sample) -> str:
    """The text of a sample, safe to show; empty if the entry names no document."""
    if isinstance(sample, str):
        return sample
    try:
        entry = read_entry(sample)
        found = entry.id_at
        return id_text(entry.raw, found, 60) if found is not None else ""
    except Malformed:
        return ""


@dataclass(slots=True)
class Burst:
    """Entries of one kind on one namespace.

    ``first`` and ``last`` are timestamps as one number (``t << 32 | i``), the walls milliseconds since 1970. Of a
    session's writes ``low`` and ``high`` bound the transaction numbers, ``batch`` is the most documents under one of
    them, ``head`` and ``tail`` are those under the first and the last.
    ``marks`` are some of the entries, oldest first.
    """

    first: int
    last: int
    first_wall: int
    last_wall: int
    entries: int
    documents: int
    low: int = -1
    high: int = -1
    batch: int = 0
    head: int = 0
    tail: int = 0
    session: bytes = b""
    user: bytes = b""
    find_and_modify: bool = False
    samples: tuple[Sample, ...] = ()
    marks: tuple[bytes, ...] = ()
    touched: Touched = ()
    """A sample of the documents that updates without a session touched."""

    is_small: bool = False
    """Whether :meth:`shrink` was called."""

    _order: IdOrder | None = None

    def join(self, newer: Burst) -> Burst:
        """This burst with a newer one, which stays as it is."""
        seam = self.high == newer.low and self.high >= 0
        if seam:
            across = self.tail + newer.head
            self.batch = max(self.batch, newer.batch, across)
            self.head = across if self.low == self.high else self.head
            self.tail = across if newer.low == newer.high else newer.tail
        else:
            self.batch, self.tail = max(self.batch, newer.batch), newer.tail
        self.low, self.high = self.low if self.low >= 0 else newer.low, max(self.high, newer.high)
        if self.marks and newer.marks:
            together = self.marks + newer.marks
            self.marks, self._order = together if len(together) <= _MOST_MARKS else thinned(together), None
        else:  # only of what can still grow is the order wanted, and that has its marks
            self.marks, self._order = (), None
        self.touched = joined(self.touched, newer.touched)
        self.count(newer)
        self.find_and_modify |= newer.find_and_modify
        if len(self.samples) < SAMPLES and newer.samples:
            self.samples = (self.samples + newer.samples)[:SAMPLES]
        return self

    def count(self, other: Burst) -> None:
        """Count the entries of another one, which may lie anywhere, and no more than that."""
        if other.last > self.last:
            self.last, self.last_wall = other.last, other.last_wall
        if other.first < self.first:
            self.first, self.first_wall = other.first, other.first_wall
        self.entries += other.entries
        self.documents += other.documents

    def copy(self) -> Burst:
        """A copy, which can take in others without changing this one."""
        return copy(self)

    def gap(self, newer: Burst) -> int:
        """Milliseconds to a newer burst; 0 if they overlap."""
        return max(newer.first_wall - self.last_wall, 0)

    def overlaps(self, other: Burst) -> bool:
        """Whether the two have a moment in common."""
        return self.first <= other.last and other.first <= self.last

    def holds(self, other: Burst) -> bool:
        """Whether the other lies within this one."""
        return self.first <= other.first and other.last <= self.last

    @property
    def order(self) -> IdOrder | None:
        """In which order it went through the documents, if it is known."""
        if self.marks and self._order is None:
            self._order = order_of(thinned(self.marks))
        return self._order

    def shrink(self) -> None:
        """Turn entries into what is read from them, unless they are small: then that would not take less memory."""
        if self.is_small:
            return
        self.is_small = True
        self.marks = thinned(self.marks)
        if sum(map(len, self.marks)) > _KEPT_BYTES:
            self._order, self.marks = self.order, ()
        if sum(map(len, self.samples)) > _KEPT_BYTES:
            self.samples = tuple(map(sample_text, self.samples))

    @property
    def closed(self) -> Closed:
        """What counts of it where it recurs."""
        return self.documents, self.first_wall, self.last_wall

    @property
    def millis(self) -> int:
        """From the first entry to the last, by the server's clock."""
        return max(self.last_wall - self.first_wall, 0)

    @property
    def rank(self) -> tuple[int, int]:
        """Orders by size, the largest first; those of one size at random, but always alike."""
        return -self.documents, scattered(self.first)


def nothing() -> Burst:
    """A burst without entries, to count others."""
    return Burst(maxsize, -1, 0, 0, 0, 0)


def together(pieces: Sequence[Burst]) -> Burst:
    """Bursts in order of time as one."""
    if len(pieces) == 1:
        return pieces[0]
    whole = pieces[0].copy()
    for one in pieces[1:]:
        whole.join(one)
    return whole


Ends = list[Burst]
"""The oldest and the newest burst of a chain, which may still grow; one if they are the same."""


def join_ends(older: Ends, newer: Ends, follows: Callable[[Burst, Burst], bool]) -> tuple[Ends, list[Burst]]:
    """Join two chains: the ends of the whole, and what lies between them and cannot grow any more."""
    if not older or not newer:
        return older or newer, []
    row = [*older, *newer]
    if follows(older[-1], newer[0]):
        row[len(older) - 1 : len(older) + 1] = [older[-1].join(newer[0])]
    return (row, []) if len(row) <= 2 else ([row[0], row[-1]], row[1:-1])


def extended(
    ends: Ends, bursts: Iterable[Burst], follows: Callable[[Burst, Burst], bool], close: Callable[[Burst], None]
) -> Ends:
    """The ends of a chain with bursts in order of time that are all older or all newer. ``close`` takes in those that
    cannot grow any more."""
    chain: Ends = []
    for one in bursts:
        chain, closed = join_ends(chain, [one], follows)
        for burst in closed:
            close(burst)
    older = bool(ends) and chain[-1].last < ends[0].first
    ends, closed = join_ends(*((chain, ends) if older else (ends, chain)), follows)
    for burst in closed:
        close(burst)
    return ends


def burst_of(stamps: list[Stamp], session: bytes, user: bytes) -> Burst:
    """Writes of one session, in order of time."""
    first, last, count = stamps[0], stamps[-1], len(stamps)
    burst = Burst(first[0], last[0], first[1], last[1], count, count, session=session, user=user)
    if last[2] >= 0:
        sizes = Counter([number for _, _, number in stamps]) if count > 1 else {last[2]: 1}
        burst.low, burst.high, burst.batch = first[2], last[2], max(sizes.values())
        burst.head, burst.tail = sizes[first[2]], sizes[last[2]]
    return burst
