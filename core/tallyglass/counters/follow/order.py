"""Orders counters by urgency."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from operator import itemgetter

from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.pacer import rest
from tallyglass.counters.snapshot import CounterView
from tallyglass.counters.verdict import BY_SEVERITY, Thresholds, grade

RankedCounter = tuple[tuple[tuple[int, float, float], str], CounterView, Tracker]
"""The urgency, the view, and its tracker."""

_THRESHOLDS = Thresholds()


def urgency(counter: CounterView, now: datetime) -> tuple[int, float, float]:
    """Smaller is more urgent: critical before warning, then the earliest possible end, then the most used."""
    early = counter.forecast.early
    rank = -BY_SEVERITY.index(grade(counter, _THRESHOLDS, now)[0])
    own = (rank, early.timestamp() if early else float("inf"), -(counter.used or 0.0))
    return min([own, *(urgency(member, now) for member in counter.members.worst)]) if counter.members else own


async def by_urgency(
    trackers: Iterable[Tracker], before: Iterable[RankedCounter], now: datetime
) -> list[RankedCounter]:
    """The views of all trackers, the most urgent first. ``before`` is the last result: only what changed is graded."""
    known = {row[2]: row for row in before}
    fresh: dict[Tracker, RankedCounter] = {}
    for tracker in trackers:
        view, row = tracker.view(), known.get(tracker)
        unchanged = row is not None and row[1] is view
        fresh[tracker] = row if row and unchanged else ((urgency(view, now), view.key), view, tracker)
        await rest()
    # In the last order, which is nearly that of now, a sort compares each row with its neighbour only.
    rows = [fresh.pop(row[2]) for row in known.values() if row[2] in fresh]
    return sorted([*rows, *fresh.values()], key=itemgetter(0))
