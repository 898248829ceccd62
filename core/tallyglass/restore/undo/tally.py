"""Counts writes: how many, when, on which documents, and in which order of these."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry import walk

PAUSE_MILLIS = 1_000
"""One statement writes without longer pauses: 21 ms was the longest of 60,000 gaps on two busy cores."""

_LEAST_SCAN = 8
"""The fewest documents of which the order is a sign: any five come in order by chance once in 120 times."""
_SHOWN_IDS = 5
"""Samples of a group that a person compares with what was run."""


@dataclass(slots=True)
class Tally:
    """How many entries, from which to which, with the milliseconds of the server's clock, and the first documents, each
    a type byte and the bytes of its ``_id``."""

    entries: int = 0
    first: Ts = ZERO
    last: Ts = ZERO
    begin: int = 0
    end: int = 0
    samples: list[bytes] = field(default_factory=list)

    def add(self, ts: Ts, millis: int, *, key: bytes) -> None:
        """Count an entry at ``ts``."""
        if len(self.samples) < _SHOWN_IDS:
            self.samples.append(key)
        self._count(1, ts, millis, ts, millis)

    def absorb(self, other: Tally) -> None:
        """Count the entries of another one too."""
        if other.entries:
            self._count(other.entries, other.first, other.begin, other.last, other.end)
            self.samples = (self.samples + other.samples)[:_SHOWN_IDS]

    def _count(self, entries: int, first: Ts, begin: int, last: Ts, end: int) -> None:
        if not self.entries or first < self.first:
            self.first, self.begin = first, begin
        if not self.entries or last > self.last:
            self.last, self.end = last, end
        self.entries += entries


def together(tallies: Iterable[Tally]) -> Tally:
    """Count the entries of several as one."""
    whole = Tally()
    for one in tallies:
        whole.absorb(one)
    return whole


def pieces(seconds: Iterable[tuple[int, Tally]]) -> list[Tally]:
    """The stretches without a pause, in order, of what was counted by the second."""
    whole: dict[int, Tally] = {}
    for second, tally in seconds:
        whole.setdefault(second, Tally()).absorb(tally)
    found: list[Tally] = []
    for _, tally in sorted(whole.items()):
        if found and tally.begin - found[-1].end <= PAUSE_MILLIS:
            found[-1].absorb(tally)
        else:
            found.append(tally)
    return found


class DocumentIds:
    """The ``_id``s of documents as 64-bit hashes, in few bytes each."""

    def __init__(self) -> None:
        self._buckets: dict[int, array[int]] = {}

    def add(self, key: bytes) -> None:
        """Note a document, a type byte and the bytes of its ``_id``."""
        number = hash(key)
        bucket = self._buckets.get(number & 255)
        if bucket is None:
            bucket = self._buckets[number & 255] = array("q")
        bucket.append(number)

    @staticmethod
    def repeats(parts: Sequence[DocumentIds]) -> int:
        """How often some groups together hit a document again."""
        found = 0
        for bucket in set[int]().union(*(one._buckets for one in parts)):
            numbers = [number for one in parts for number in one._buckets.get(bucket, ())]
            found += len(numbers) - len(set(numbers))
        return found


class ScanOrder:
    """Whether documents were visited upwards by ``_id``, and then upwards once more from near the beginning."""

    def __init__(self) -> None:
        self._runs = [0]
        self._first_run: list[bytes] = []
        """Every so many of the first run."""
        self._every = 1
        self._last: bytes | None = None
        self._again = False
        self._comparable = True

    def add(self, key: bytes) -> None:
        """Note the next document."""
        at = _sortable(key)
        if at is None or (self._last is not None and at[:1] != self._last[:1]):
            self._comparable = False
        if not self._comparable or at is None:
            return
        if self._last is not None and at <= self._last:
            self._runs.append(0)
            quarter = self._first_run[len(self._first_run) // 4]
            self._again = len(self._runs) == 2 and at <= quarter
        self._last = at
        self._runs[-1] += 1
        if len(self._runs) == 1 and self._runs[0] % self._every == 0:
            self._first_run.append(at)
            if len(self._first_run) > _LEAST_SCAN * 16:
                self._first_run, self._every = self._first_run[1::2], self._every * 2

    @property
    def starts_over(self) -> bool:
        """Whether a second scan is likely."""
        return self._comparable and self._again and min(self._runs) >= _LEAST_SCAN


def _sortable(key: bytes) -> bytes | None:
    """An ``_id``, a type byte and the value's bytes, in a form that sorts as the server sorts it. None for types that
    are not inserted in this order: k9 is inserted before k10, and sorts after it."""
    kind, value = key[0], key[1:]
    if kind in (walk.INT32, walk.INT64):
        return b"n" + (int.from_bytes(value, "little", signed=True) + (1 << 63)).to_bytes(8, "big")
    if kind == walk.OBJECT_ID:
        return b"o" + value
    return None
