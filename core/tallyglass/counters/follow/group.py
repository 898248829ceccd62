"""Many counters of one kind in one collection, such as one for each tenant, followed as one row.

For most members only the key and the value are kept, so that 100,000 of them fit in a few megabytes. Members with the
largest values, with changes, and with decreases are followed individually.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import replace
from heapq import heappush, heappushpop

from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.history.oplog_samples import PastValue
from tallyglass.counters.numbers import Number, read_number
from tallyglass.counters.recognise.identity import Identity
from tallyglass.counters.recognise.shapes import dig
from tallyglass.counters.snapshot import CounterView, Flag, Members, NumericType
from tallyglass.mongo.gateway import Document

GROUP_ABOVE = 200
"""The number of counters at one path of a collection above which they become a group."""

MOST_COMPARED = 1_000
"""Counters of a kind that are rows of their own because their ids were seen in a collection, with which they can be
compared: the indexes of so many are read in a few seconds."""

_LEAST_GROUP = 20
"""Fewer counters than fit on a screen stay rows of their own, however many collections there are."""
_MOST_SINGLE = 20_000
"""Counters that may be rows of their own in all collections together: each is a tracker with a history of its own."""
_LARGEST_SHARE, _LEAST_LARGEST = 10, 3
"""One in so many of the members is followed for its value, and at least so many: the first to reach a limit."""
_MOST_FOLLOWED = 100
"""Members that are followed since they changed; one that fell is followed beyond that."""
_SHOWN = 20
"""Members in a view: a screen full."""
_PERCENTS = 101
"""0 to 100."""

Follow = Callable[[Document], Tracker | None]
"""Makes the tracker of one member from its document."""


def group_above(collections: int) -> int:
    """The limit when this many collections hold counters: lower, to keep the total of individual counters small."""
    return min(GROUP_ABOVE, max(_LEAST_GROUP, _MOST_SINGLE // max(1, collections)))


class GroupTracker(Tracker):
    """The row of a group: the sum of all values, and the worst of its members."""

    __slots__ = ("group",)

    def __init__(self, identity: Identity, group: Group) -> None:
        super().__init__(identity)
        self.group = group

    def view(self) -> CounterView:
        """The frozen view: the sum, its rate, and the members that matter."""
        if self._view is None:
            members = self.group.members()
            shares = [view.used for view in members.worst if view.used is not None]
            flags = tuple(
                dict.fromkeys(flag for view in members.worst for flag in view.flags if flag is not Flag.GUESS)
            )
            base = super().view()
            self._view = replace(
                base,
                id=f"{members.count:,} counters",
                used=max(shares, default=None),
                ceiling=None,
                crossing=None,
                crossing_used=None,
                flags=(*flags, *(flag for flag in base.flags if flag is Flag.GUESS)),
                forecast=replace(base.forecast, early=None, likely=None, late=None, naive=None, note=_NOTE),
                members=members,
            )
        return self._view

    @property
    def stands_for_many(self) -> bool:
        """True: the row stands for all members."""
        return True

    @property
    def members(self) -> Collection[Tracker]:
        """The members that are followed individually."""
        return self.group.followed.values()

    @property
    def near(self) -> None:
        """None: the sum is near no limit; a member may be."""
        return None

    @property
    def is_listed(self) -> bool:
        """Whether it is shown: if its members are counters, or one of them is near a limit."""
        return super().is_listed or any(tracker.near for tracker in self.members)

    def update_forecasts(self, now: float) -> None:
        """Compute the total rate, and the forecasts of the members that are followed."""
        for tracker in self.members:
            if tracker.stale_forecast:
                tracker.update_forecasts(now)
        super().update_forecasts(now)

    def settle(self, now: float) -> None:
        """Update values that depend on the current time."""
        for tracker in self.members:
            tracker.settle(now)
        super().settle(now)


_NOTE = "Each member has its own end; see the worst ones."


class Group:
    """The members of one path. Between ``begin`` and ``finish``, call ``observe`` for each document.

    ``follow`` makes the tracker of a member that needs one. ``above`` is the number of members above which they became
    a group; a tenth as many, the largest, are followed.
    """

    def __init__(self, identity: Identity, path: str, follow: Follow, above: int = GROUP_ABOVE) -> None:
        self.path = path
        self._follow = follow
        self._largest_followed = max(_LEAST_LARGEST, above // _LARGEST_SHARE)
        self.tracker = GroupTracker(identity, self)
        self.followed: dict[Hashable, Tracker] = {}
        self.kind = NumericType.INT64
        self._index: dict[Hashable, int] = {}
        self._values = array("q")
        self._rounds = array("L")
        self._round = 0
        self._at = 0.0
        self._total = 0
        self._doubles = 0
        self._largest: list[tuple[int, int, Hashable, Document]] = []
        self._used: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._index

    def begin(self, at: float) -> None:
        """Begin a reading at a moment."""
        self._round += 1
        self._at = at
        self._total = 0
        self._doubles = 0
        self._largest.clear()

    def observe(self, key: Hashable, row: Document, number: Number, kind: NumericType) -> None:
        """Record the current state of one member."""
        if kind is NumericType.DOUBLE:
            self._doubles += 1
        else:
            self.kind = kind
        value = number if type(number) is int and -(2**63) <= number < 2**63 else _bounded(number)
        place = self._index.get(key)
        if place is None:
            place = self._index[key] = len(self._values)
            self._values.append(value)
            self._rounds.append(self._round)
        else:
            before = self._values[place]
            if value != before:
                self._change(key, row, before, value, kind)
                self._values[place] = value
            self._rounds[place] = self._round
        tracker = self.followed.get(key)
        if tracker is not None:
            tracker.observe(number, kind, self._at)
        elif kind is NumericType.DOUBLE and self._doubles <= _SHOWN:
            # Regardless of the value: storing a double is a fault in itself.
            self.add_followed(key, row)
        self._total += value
        largest = self._largest
        if len(largest) < self._largest_followed:
            heappush(largest, (value, -place, key, row))
        elif value > largest[0][0]:
            heappushpop(largest, (value, -place, key, row))

    def _change(self, key: Hashable, row: Document, before: int, value: int, kind: NumericType) -> None:
        if key in self.followed or (value > before and len(self.followed) >= _MOST_FOLLOWED):
            return
        tracker = self._follow(row)
        if tracker is not None:
            # The type that it had was not kept: that of now, so that nothing is said to have turned.
            tracker.observe(before, kind, self.tracker.last_at)
            self.followed[key] = tracker

    def finish(self) -> None:
        """End a reading: drop members that were not read, follow those with the largest values."""
        if any(number != self._round for number in self._rounds):
            self._forget()
        for _, _, key, row in self._largest:
            if key not in self.followed:
                self.add_followed(key, row)
        self._largest.clear()
        if self._doubles == len(self._index):
            self.kind = NumericType.DOUBLE
        before = self.tracker.value
        self.tracker.observe(self._total, self.kind, self._at)
        if self.tracker.value != before or not self._used:
            self._count_used()
        self.tracker.invalidate_view()

    def add_followed(self, key: Hashable, row: Document) -> None:
        """Follow one member individually."""
        tracker = self._follow(row)
        if tracker is not None:
            self.followed[key] = tracker
            read = read_number(dig(row, self.path), text=tracker.identity.text)
            if read is not None:
                tracker.observe(*read, self._at)

    def moved(self, key: Hashable, past: Iterable[PastValue]) -> bool:
        """Whether any of the past values of a member differs from its present one."""
        place = self._index.get(key)
        return place is not None and any(_bounded(value.number) != self._values[place] for value in past)

    def unfollowed(self, keys: Iterable[Hashable]) -> list[Hashable]:
        """The ``keys`` of members that may still be followed individually."""
        room = max(0, _MOST_FOLLOWED - len(self.followed))
        return [key for key in keys if key in self._index and key not in self.followed][:room]

    def members(self) -> Members:
        """The frozen view of the members."""
        views = [tracker.view() for tracker in self.followed.values() if tracker.is_counter or tracker.near]
        views.sort(key=_badness)
        return Members(len(self._index), tuple(views[:_SHOWN]), self._used)

    def _forget(self) -> None:
        kept = [(key, place) for key, place in self._index.items() if self._rounds[place] == self._round]
        self._values = array("q", [self._values[place] for _, place in kept])
        self._rounds = array("L", [self._round] * len(kept))
        self._index = {key: place for place, (key, _) in enumerate(kept)}
        self.followed = {key: tracker for key, tracker in self.followed.items() if key in self._index}
        # The sum over another set of members is not comparable with the old one.
        self.tracker = GroupTracker(self.tracker.identity, self)

    def _count_used(self) -> None:
        alike = (one for one in self.followed.values() if (one.kind is self.kind) or one.kind is not NumericType.DOUBLE)
        sample = next(alike, None)
        if sample is None or sample.direction < 0:
            return
        start, span = sample.identity.start, sample.ceiling.value - sample.identity.start
        counts = [0] * _PERCENTS
        if span > 0:
            scale = 100 / span
            for value in self._values:
                counts[min(100, max(0, int((value - start) * scale)))] += 1
        self._used = tuple(counts)


def _bounded(number: Number) -> int:
    """The number limited to 64 bits."""
    if number != number:
        return 0
    return max(-(2**63), min(2**63 - 1, number if isinstance(number, int) else int(max(-1e300, min(1e300, number)))))


def _badness(view: CounterView) -> tuple[bool, float, float]:
    bad = view.near is not None or any(flag is not Flag.GUESS for flag in view.flags)
    end = view.forecast.early or view.forecast.naive
    return (not bad, end.timestamp() if end else float("inf"), -(view.used or 0.0))
