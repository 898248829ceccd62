"""The values of one counter over time, thinned with age, broken where they cannot be compared.

A reset, a rewind, a change of type and a long hole break a series: no rate is ever taken across a break.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

HOUR = 3600.0
DAY = 86_400.0
WEEK = 7 * DAY

GAP_SECONDS = 3 * DAY
"""A longer hole between two samples breaks the series: in it, data may have been restored unseen."""

_KEPT_SECONDS = 120 * DAY
# Points may lie as close as this share of their age: about 1,000 of them over four months, 24 kB a counter at most.
_CLOSENESS = 1 / 90
_THIN_ABOVE = 1_500


class Series:
    """Points ``(seconds since 1970, value)`` since the last break, oldest first, not decreasing.

    ``steps`` counts the changes of value that were seen. ``broken_at`` and ``broken_by`` tell of the last break.
    """

    __slots__ = ("broken_at", "broken_by", "steps", "times", "values")

    def __init__(self) -> None:
        self.times = array("d")
        self.values = array("d")
        self.steps = 0
        self.broken_at: float | None = None
        self.broken_by = ""

    def __len__(self) -> int:
        return len(self.times)

    @property
    def span(self) -> float:
        """Seconds from the first to the last point."""
        return self.times[-1] - self.times[0] if self.times else 0.0

    def add(self, at: float, value: float, *, holes_break: bool = True) -> None:
        """Append a point. A lower value, or a hole over :data:`GAP_SECONDS`, breaks off; an older time is ignored."""
        if self.times:
            if at <= self.times[-1]:
                return
            if value < self.values[-1]:
                self.break_off(at, "the value went back")
            elif holes_break and at - self.times[-1] > GAP_SECONDS:
                self.break_off(at, f"nothing was seen for {(at - self.times[-1]) / DAY:.0f} days")
        if self.values and value != self.values[-1]:
            self.steps += 1
        if len(self.values) >= 2 and self.values[-2] == self.values[-1] == value:
            self.times[-1] = at
            return
        self.times.append(at)
        self.values.append(value)
        if len(self.times) > _THIN_ABOVE:
            self._thin()

    def break_off(self, at: float, why: str) -> None:
        """Forget everything before ``at``, which lies in another life of the counter."""
        del self.times[:], self.values[:]
        self.steps = 0
        self.broken_at, self.broken_by = at, why

    def extend_back(
        self, points: Iterable[tuple[float, float]], steps: int | None = None, *, holes_break: bool = True
    ) -> None:
        """Put older points before the present ones.

        They may come unsorted; what lies after the first present point, before the last break, or across a break
        that the points themselves show, is left out. ``steps`` is how many changes they stand for, where that is known
        better than by counting them. Without ``holes_break`` a hole is one in which nothing can have happened unseen.
        """
        older = Series()
        first = self.times[0] if self.times else float("inf")
        floor = self.broken_at if self.broken_at is not None else float("-inf")
        for at, value in sorted(points):
            if floor < at < first:
                older.add(at, value, holes_break=holes_break)
        if not older.times:
            return
        if self.times:
            if older.values[-1] > self.values[0] or (holes_break and first - older.times[-1] > GAP_SECONDS):
                self.broken_at = self.broken_at or first
                self.broken_by = self.broken_by or "the value went back"
                return
            if older.values[-1] < self.values[0]:
                older.steps += 1
        if older.broken_at is not None and self.broken_at is None:
            self.broken_at, self.broken_by = older.broken_at, older.broken_by
        self.times[:0] = older.times
        self.values[:0] = older.values
        self.steps += older.steps if steps is None or older.broken_at is not None else max(steps, older.steps)
        if len(self.times) > _THIN_ABOVE:
            self._thin()

    def value_at(self, at: float) -> float:
        """The value at a moment, between two points on the line from one to the other. Needs a point."""
        index = bisect_left(self.times, at)
        if index == 0:
            return self.values[0]
        if index == len(self.times):
            return self.values[-1]
        before, after = self.times[index - 1], self.times[index]
        share = (at - before) / (after - before)
        return self.values[index - 1] + share * (self.values[index] - self.values[index - 1])

    def for_graph(self, most: int = 240) -> tuple[tuple[float, float], ...]:
        """At most ``most`` points, evenly chosen, first and last among them."""
        count = len(self.times)
        if count <= most:
            return tuple(zip(self.times, self.values, strict=True))
        chosen = sorted({round(n * (count - 1) / (most - 1)) for n in range(most)})
        return tuple((self.times[n], self.values[n]) for n in chosen)

    def _thin(self) -> None:
        now = self.times[-1]
        times, values = [self.times[-1]], [self.values[-1]]
        for at, value in zip(reversed(self.times[:-1]), reversed(self.values[:-1]), strict=True):
            age = now - at
            if age > _KEPT_SECONDS:
                break
            if times[-1] - at >= age * _CLOSENESS:
                times.append(at)
                values.append(value)
        # The oldest stays: without it a span of whole weeks would not be one any more.
        if times[-1] != self.times[0] and now - self.times[0] <= _KEPT_SECONDS:
            times.append(self.times[0])
            values.append(self.values[0])
        self.times, self.values = array("d", reversed(times)), array("d", reversed(values))
