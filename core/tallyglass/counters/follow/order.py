"""Orders counters by urgency, and re-sorts only those that changed."""

from __future__ import annotations

from datetime import UTC, datetime
from heapq import merge
from operator import itemgetter

from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.pacer import Pacer
from tallyglass.counters.snapshot import CounterView
from tallyglass.counters.verdict import CRITICAL, UNKNOWN, WARNING, Thresholds, grade

RankedCounter = tuple[tuple[tuple[int, float, float], str], CounterView, Tracker]
"""The urgency, the view, and its tracker."""

_FIRST = itemgetter(0)
_CHUNK = 1_000
_THRESHOLDS = Thresholds()


def urgency(counter: CounterView) -> tuple[int, float, float]:
    """Smaller is more urgent: critical before warning, then the earliest possible end, then the most used."""
    early = counter.forecast.early
    if counter.members is not None and counter.members.worst:
        worst = min(urgency(member) for member in counter.members.worst)
        return min(worst, (-_rank(counter), float("inf"), -(counter.used or 0.0)))
    return (
        -_rank(counter),
        early.timestamp() if early else float("inf"),
        -(counter.used or 0.0),
    )


def _rank(counter: CounterView) -> int:
    # UNKNOWN ranks below a warning.
    return {WARNING: 2, CRITICAL: 3, UNKNOWN: 1}.get(grade(counter, _THRESHOLDS, datetime.now(UTC))[0], 0)


class UrgencyOrder:
    """Keeps the views of all trackers in order of urgency."""

    def __init__(self) -> None:
        self._rows: list[RankedCounter] = []
        self._round = 0

    async def update(self, trackers: list[Tracker], pacer: Pacer) -> list[RankedCounter]:
        """All views with their trackers, the most urgent first, without holding the event loop for long."""
        self._round += 1
        runs, run = list[list[RankedCounter]](), list[RankedCounter]()
        for tracker in trackers:
            view = tracker.view()
            tracker.listed_in = self._round
            if tracker.placed is not view:
                tracker.placed = view
                run.append(((urgency(view), view.key), view, tracker))
                if len(run) == _CHUNK:
                    runs.append(sorted(run, key=_FIRST))
                    run = []
            await pacer.rest()
        runs.append(sorted(run, key=_FIRST))
        kept: list[RankedCounter] = []
        for row in self._rows:
            # A changed view is in a new run; a removed tracker has none.
            if row[2].placed is row[1] and row[2].listed_in == self._round:
                kept.append(row)
            elif row[2].listed_in != self._round:
                row[2].placed = None
            await pacer.rest()
        self._rows = await _merged([kept, *runs], pacer)
        return self._rows


async def _merged(runs: list[list[RankedCounter]], pacer: Pacer) -> list[RankedCounter]:
    runs = [run for run in runs if run]
    if len(runs) < 2:
        return runs[0] if runs else []
    rows: list[RankedCounter] = []
    for row in merge(*runs, key=_FIRST):
        rows.append(row)
        await pacer.rest()
    return rows
