"""What recurs: an act is what the rest of the window does not contain.

For one burst of writes, or one command, the others of similar size in its family decide. Where they are spread over the
window it is routine; where there are none, or only close by, it is an act; in between it is an act of which nobody can
be sure yet. Nothing here depends on the order in which the oplog is read, and all of it is bounded by time, not by the
number of entries.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from sys import maxsize

from tallyglass.oplog.incidents.burst import Burst, Closed

SIMILAR = 4
"""Others of at least a quarter of the size are similar: jobs vary by two or three. 3 to 5 give the same lists."""

OTHERS = 3
"""So many others, at other times, make four runs: a job."""

SHARE = 0.25
"""The share of the window that the others must span; five acts of one afternoon do not."""

YOUNG = 15
"""So many other slots are an application, even if it was started a moment ago."""

EPISODE_MILLIS = 1_000
"""A shorter pause is the server's: writes without a session are judged as a whole too, with pauses of up to that."""

YOUNG_WINDOW_MILLIS = 300_000
"""Of 218 rows of a recording 134 went again while it grew, and all of those that were not low within five minutes."""

NEAR_MILLIS = 10_000
"""What lies less than ten seconds apart is one time: when something recurs is known to that, for a bit each; a run of a
session goes on over such a pause, and so does a row without sessions if its documents show it or nothing else writes
there."""

EXCEPTIONS = 10
"""One in so many may differ from what all else keeps: of the gaps of an interval at either end, of the runs that keep
it, and of those whose documents are neighbours; a gap may be longer or shorter by that part."""

_SLOTS = 3_600_000 // NEAR_MILLIS
"""The slots of an hour, which are the bits of one number."""

_LONGEST = 366 * 24 * _SLOTS
"""The slots of a year: nothing in an oplog lasts for longer, unless a clock is wrong or an entry damaged."""

_CLASSES = 4 * (SIMILAR.bit_length() - 1)
"""How many classes of sizes are similar, of four for each power of two."""


@dataclass(frozen=True, slots=True)
class Window:
    """The span of the oplog that was read, in milliseconds since 1970. ``millis`` is its length, at least a minute."""

    begin: int
    end: int
    millis: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "millis", max(self.end - self.begin, 60_000))

    @property
    def is_young(self) -> bool:
        """Whether it is too short to know what is usual: everything in it is new."""
        return self.millis < YOUNG_WINDOW_MILLIS


class Reason(StrEnum):
    """Why something is routine."""

    RECURS = "recurs"
    STEADY = "steady"
    TTL = "ttl"
    CAPPED = "capped"
    MIGRATION = "migration"
    RETURN = "return"


@dataclass(frozen=True, slots=True)
class Judgment:
    """What the others say of a burst: ``others`` slots of ten seconds with one of similar size, ``apart`` of them at
    other times than the burst's own.

    ``reason`` is why it is routine; None for an act.
    """

    others: int
    reason: Reason | None = None
    apart: int = 0


_RECURS = Judgment(OTHERS, Reason.RECURS, OTHERS)


class Slots:
    """A set of slots of ten seconds, as a bitmap for each hour."""

    __slots__ = ("hours",)

    def __init__(self, hours: dict[int, int] | None = None) -> None:
        self.hours = hours if hours is not None else {}

    def add(self, first: int, last: int) -> None:
        """Note that something happened from one slot of time to another, within :data:`_LONGEST`."""
        for hour in range(first // _SLOTS, min(last, first + _LONGEST) // _SLOTS + 1):
            self.hours[hour] = self.hours.get(hour, 0) | _between(hour, first, last)

    def unite(self, other: Slots) -> None:
        """Add all slots of another set."""
        for hour, bits in other.hours.items():
            self.hours[hour] = self.hours.get(hour, 0) | bits

    def without(self, first: int, last: int) -> Slots:
        """The slots before ``first`` and after ``last``."""
        kept = ((hour, bits & ~_between(hour, first, last)) for hour, bits in self.hours.items())
        return Slots({hour: bits for hour, bits in kept if bits})

    @property
    def stretches(self) -> Iterator[tuple[int, int]]:
        """The first and the last slot of each run of them without a gap, oldest first."""
        first = last = -2
        for hour in sorted(self.hours):
            bits, place = self.hours[hour], hour * _SLOTS
            while bits:
                gap = (bits & -bits).bit_length() - 1
                bits, place = bits >> gap, place + gap
                length = (~bits & bits + 1).bit_length() - 1
                if place > last + 1:
                    if last >= 0:
                        yield first, last
                    first = place
                bits, place = bits >> length, place + length
                last = place - 1
        if last >= 0:
            yield first, last

    def __len__(self) -> int:
        return sum(bits.bit_count() for bits in self.hours.values())

    @property
    def ends(self) -> tuple[int, int]:
        """The first slot and the last; 0 and 0 if there are none."""
        if not self.hours:
            return 0, 0
        oldest, newest = min(self.hours), max(self.hours)
        low = self.hours[oldest] & -self.hours[oldest]
        return oldest * _SLOTS + low.bit_length() - 1, newest * _SLOTS + self.hours[newest].bit_length() - 1

    @property
    def span_millis(self) -> int:
        """From the first slot to the last."""
        first, last = self.ends
        return (last - first) * NEAR_MILLIS


def _between(hour: int, first: int, last: int) -> int:
    """The slots of an hour that lie between two slots or are one of them."""
    low, high = max(first - hour * _SLOTS, 0), min(last - hour * _SLOTS, _SLOTS - 1)
    return ((1 << high - low + 1) - 1) << low if low <= high else 0


@dataclass(frozen=True, slots=True)
class _Seen:
    """The slots of some size classes together, their number, the first and the last."""

    slots: Slots
    count: int
    first: int
    last: int
    stretches: tuple[tuple[int, int], ...]

    def only_stretch(self, slot: int, window: Window) -> tuple[int, int] | None:
        """The slots without a gap around one, if they are short and over, and hardly any others lie elsewhere.

        They may go on after a pause of a quarter of their time.
        """
        place = bisect_right(self.stretches, (slot, maxsize)) - 1
        first, last = self.stretches[place] if place >= 0 else (0, -1)
        length = (last - first) * NEAR_MILLIS
        short = length < SHARE * window.millis
        over = (last + 1) * NEAR_MILLIS < window.end - max(NEAR_MILLIS, length // SIMILAR)
        only = slot <= last and short and over and self.count - (last - first + 1) < OTHERS
        return (first, last) if only else None


class Recurrence:
    """When bursts of a family were seen, by size class. Adding is commutative."""

    __slots__ = ("_at_least", "seen")

    def __init__(self) -> None:
        self.seen: dict[int, Slots] = {}
        self._at_least: dict[int, _Seen] = {}

    def add(self, *bursts: Closed) -> None:
        """Note bursts in every slot that they touch, each with what it wrote in ten seconds: a slow loop does not count
        as many statements of its whole size."""
        self._add({
            (size_class(_in_slot(size, first, last)), first // NEAR_MILLIS, last // NEAR_MILLIS)
            for size, first, last in bursts
        })  # fmt: skip

    def add_throughout(self, *bursts: Closed) -> None:
        """Note bursts with their whole size in every slot that they touch."""
        self._add({(size_class(size), first // NEAR_MILLIS, last // NEAR_MILLIS) for size, first, last in bursts})

    def _add(self, alike: Iterable[tuple[int, int, int]]) -> None:
        """Note a size class from a slot to another: most bursts share these three, so each is noted once."""
        self._at_least.clear()
        for kind, first, last in alike:
            seen = self.seen.get(kind)
            if seen is None:
                seen = self.seen[kind] = Slots()
            seen.add(first, max(first, last))

    def unite(self, other: Recurrence) -> None:
        """Add all that another one has seen."""
        self._at_least.clear()
        for kind, slots in other.seen.items():
            self.seen.setdefault(kind, Slots()).unite(slots)

    def remove(self, bursts: Iterable[Burst]) -> None:
        """Forget the slots in which bursts lie that something else explains."""
        self._at_least.clear()
        for kind in self.seen:
            for burst in bursts:
                first, last = burst.first_wall // NEAR_MILLIS, burst.last_wall // NEAR_MILLIS
                self.seen[kind] = self.seen[kind].without(first, last)

    def judge(self, burst: Closed, window: Window) -> Judgment:
        """Whether others of similar size in ten seconds recur: not where it is part of their only stretch."""
        size, first_wall, last_wall = burst
        size = _in_slot(size, first_wall, last_wall)
        first, last = first_wall // NEAR_MILLIS, last_wall // NEAR_MILLIS
        seen = self._of(size)
        stretch = seen.only_stretch(first, window)
        spans = stretch is None and (seen.last - seen.first) * NEAR_MILLIS >= SHARE * window.millis
        if spans and seen.first < first and last < seen.last and seen.count - (last - first + 1) >= OTHERS:
            return _RECURS
        others = seen.slots.without(first, last)
        found = len(others)
        if stretch is not None:
            return Judgment(found, apart=len(seen.slots.without(*stretch)))
        spread = found >= OTHERS and others.span_millis >= SHARE * window.millis
        return Judgment(found, Reason.RECURS if spread or found >= YOUNG else None, found)

    def _of(self, size: int) -> _Seen:
        """What was seen of that size or larger, or of a similar size."""
        least = size_class(size) - _CLASSES
        known = self._at_least.get(least)
        if known is None:
            together = Slots()
            for kind, slots in self.seen.items():
                if kind >= least:
                    together.unite(slots)
            known = self._at_least[least] = _Seen(together, len(together), *together.ends, tuple(together.stretches))
        return known


def _in_slot(size: int, first_wall: int, last_wall: int) -> int:
    """How many of so many documents were written within ten seconds, on average."""
    millis = last_wall - first_wall
    return size * NEAR_MILLIS // millis if millis > NEAR_MILLIS else size


def size_class(size: int) -> int:
    """The class of a size: four for each power of two."""
    return (size * size * size * size).bit_length()


def interval(starts: Iterable[int]) -> int:
    """The milliseconds at which something recurs where the gaps are alike; 0 where they are not, or few. Only for the
    reader."""
    gaps = sorted(later - earlier for earlier, later in pairwise(sorted(starts)))
    few = len(gaps) // EXCEPTIONS
    alike = len(gaps) >= OTHERS and gaps[few] * (EXCEPTIONS + 1) >= gaps[-1 - few] * (EXCEPTIONS - 1)
    return gaps[len(gaps) // 2] if alike else 0


def often(times: int, millis: int) -> str:
    """How often something recurs, in words, with its interval where there is one."""
    parts = [f"{times:,} times"] if times > 1 else []
    return ", ".join([*parts, f"about every {millis / 1_000:,.0f} s"] if millis else parts)
