"""The values of one counter over time: exact, thinned with age, broken where they cannot be compared.

A reset, a rewind and a change of type break a series: no rate is taken across a break. A hole in the samples does not
break a series if the value only rose: both of its ends still give the mean.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable
from itertools import pairwise

HOUR, DAY, WEEK = 3_600.0, 86_400.0, 604_800.0
"""Their seconds."""

MIN_STEPS = 10
"""Changes of the value that a date needs: of fewer the rate is off by a third and more (1 / sqrt(10))."""

HOLE_SECONDS = 3 * DAY
"""If samples are further apart than this, the shape of the load between them is unknown."""

# Four months: a trend of weeks and the seasons of a quarter are in them.
_KEPT_SECONDS = 120 * DAY
# Least distance between points, as a share of their age: about 1,000 of them over four months, 24 kB a counter at most.
_CLOSENESS = 1 / 90
_THIN_ABOVE = 1_500  # points: half as many again as are left after a thinning, so that few are needed


class Series:
    """Points ``(seconds since 1970, value)`` since the last break, oldest first, not decreasing.

    Values are integers of any size, kept as 64-bit differences to ``base``: a double would lose ones above 2^53.
    ``steps`` counts the observed changes of value. ``broken_at`` is the last break.
    """

    __slots__ = ("base", "broken_at", "offsets", "steps", "times")

    def __init__(self) -> None:
        self.times = array("d")
        self.offsets = array("q")
        self.base = 0
        self.steps = 0
        self.broken_at: float | None = None

    def __len__(self) -> int:
        return len(self.times)

    @property
    def span(self) -> float:
        """Seconds from the first to the last point."""
        return self.times[-1] - self.times[0] if self.times else 0.0

    @property
    def values(self) -> list[int]:
        """The exact values, in order of time."""
        return [self.base + offset for offset in self.offsets]

    @property
    def first(self) -> int:
        """The oldest value. Needs a point."""
        return self.base + self.offsets[0]

    @property
    def last(self) -> int:
        """The newest value. Needs a point."""
        return self.base + self.offsets[-1]

    def holes(self) -> list[tuple[float, float]]:
        """The periods without samples in which ids were handed out."""
        times, offsets = self.times, self.offsets
        return [
            (times[n], times[n + 1])
            for n in range(len(times) - 1)
            if times[n + 1] - times[n] > HOLE_SECONDS and offsets[n + 1] != offsets[n]
        ]

    def add(self, at: float, value: int) -> None:
        """Append a point; an older time is ignored. A lower value breaks the series, or one too far for 64 bits."""
        if self.times:
            if at <= self.times[-1]:
                return
            if value < self.last or not _fits(value - self.base):
                self.break_off(at)
        if not self.times:
            self.base = value
        offset = value - self.base
        if self.offsets and offset != self.offsets[-1]:
            self.steps += 1
        if len(self.offsets) >= 2 and self.offsets[-2] == self.offsets[-1] == offset:
            self.times[-1] = at
            return
        self.times.append(at)
        self.offsets.append(offset)
        if len(self.times) > _THIN_ABOVE:
            self._thin()

    def break_off(self, at: float) -> None:
        """Drop everything before ``at``, which is not comparable with what follows."""
        del self.times[:], self.offsets[:]
        self.steps = 0
        self.broken_at = at

    def extend_back(self, points: Iterable[tuple[float, int]], steps: int | None = None) -> None:
        """Put older points before the present ones.

        They may come unsorted; what lies after the first present point, before the last break, or across a break
        that the points themselves show, is left out. ``steps`` is how many changes they represent, if that is
        known more exactly than by counting them.
        """
        older = Series()
        first = self.times[0] if self.times else float("inf")
        floor = self.broken_at if self.broken_at is not None else float("-inf")
        for at, value in sorted(points):
            if floor < at < first:
                older.add(at, value)
        if not older.times:
            return
        if not self.times:
            self.base = older.base
        elif older.last > self.first or not _fits(older.first - self.base):
            self.broken_at = self.broken_at or first
            return
        elif older.last < self.first:
            older.steps += 1
        if older.broken_at is not None and self.broken_at is None:
            self.broken_at = older.broken_at
        shift = older.base - self.base
        self.times[:0] = older.times
        self.offsets[:0] = array("q", [offset + shift for offset in older.offsets])
        self.steps += older.steps if steps is None or older.broken_at is not None else max(steps, older.steps)
        if len(self.times) > _THIN_ABOVE:
            self._thin()

    def levels_at(self, moments: Iterable[float]) -> list[float]:
        """The values at ascending moments, over ``base``; interpolated linearly between points. Needs a point."""
        times, offsets, index, found = self.times, self.offsets, 0, list[float]()
        for at in moments:
            index = bisect_left(times, at, index)
            if index in (0, len(times)):
                found.append(offsets[0 if index == 0 else -1])
            else:
                before, begun = offsets[index - 1], times[index - 1]
                found.append(before + (offsets[index] - before) * (at - begun) / (times[index] - begun))
        return found

    def rise_since(self, at: float) -> float:
        """Ids handed out since a moment. Needs a point."""
        return self.offsets[-1] - self.levels_at((at,))[0]

    def for_graph(self, most: int = 240) -> tuple[tuple[float, float], ...]:
        """At most ``most`` points, evenly chosen, first and last among them."""
        count = len(self.times)
        if count <= most:
            chosen = list(range(count))
        else:
            chosen = sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})
        return tuple((self.times[n], float(self.base + self.offsets[n])) for n in chosen)

    def _thin(self) -> None:
        times, offsets, age = [self.times[-1]], [self.offsets[-1]], 0.0
        for (following, at), offset in zip(pairwise(self.times[::-1]), self.offsets[-2::-1], strict=True):
            # A longer hole may be a clock that was set: what was seen before it is no older for that.
            age += min(following - at, HOLE_SECONDS)
            if age > _KEPT_SECONDS:
                break
            if times[-1] - at >= age * _CLOSENESS:
                times.append(at)
                offsets.append(offset)
        # Keep the oldest: without it a span of whole weeks would fall short.
        if times[-1] != self.times[0] and age <= _KEPT_SECONDS:
            times.append(self.times[0])
            offsets.append(self.offsets[0])
        self.times, self.offsets = array("d", reversed(times)), array("q", reversed(offsets))


def _fits(offset: int) -> bool:
    return -(2**63) <= offset < 2**63
