"""The frozen view of a tracked counter: used share, flags, notes."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from tallyglass.counters.forecast.forecast import NO_HISTORY
from tallyglass.counters.limits import INT32_MAX
from tallyglass.counters.numbers import Number, is_stalled
from tallyglass.counters.snapshot import Ceiling, CounterView, Flag, Forecast, Grade, NumericType, PoolView
from tallyglass.counters.standing import Standing, odd_ids
from tallyglass.moment import from_seconds

if TYPE_CHECKING:
    from tallyglass.counters.follow.tracker import Tracker

_STANDING_FLAGS = {Standing.BEHIND: Flag.BEHIND, Standing.UNCLEAR: Flag.UNCLEAR}


def view_of(tracker: Tracker) -> CounterView:
    """The frozen view of a tracked counter."""
    known, ceiling = tracker.identity, tracker.ceiling
    issued = tracker.issued()
    span = (ceiling.value - known.start) * tracker.direction
    used = None
    if issued is not None and span > 0:
        used = min(1.0, max(0.0, (issued - known.start) * tracker.direction / span))
    crosses = issued is not None and tracker.may_cross(issued)
    pool = _pool(tracker) if tracker.cells else None
    return CounterView(
        key=known.key,
        ns=known.ns_text,
        id=known.id,
        field=known.field,
        shape=known.shape,
        library=known.library,
        value=tracker.value,
        type=tracker.kind,
        semantics=known.semantics,
        start=known.start,
        ceiling=ceiling,
        used=used,
        rate=tracker.rate,
        forecast=tracker.forecasts[0],
        crossing=_crossing(tracker) if crosses else None,
        crossing_used=max(0.0, issued / INT32_MAX) if crosses and issued is not None else None,
        drift=tracker.drift,
        target=tracker.drift_target,
        repair=tracker.repair,
        odd_ids=tracker.odd_ids,
        near=tracker.near,
        burn=tracker.burn,
        flags=_flags(tracker, ceiling, issued, pool),
        notes=_notes(tracker),
        recent=_recent(tracker),
        history=_history(tracker),
        grade=known.grade,
        evidence=known.evidence,
        step=tracker.step,
        cycles=bool(tracker.reset_note or known.starts_again),
        rewound_at=None if tracker.rewound_at is None else from_seconds(tracker.rewound_at),
        confidence=known.confidence,
        pool=pool,
        at=None if tracker.changed_at is None else from_seconds(tracker.changed_at),
    )


def _history(tracker: Tracker) -> tuple[tuple[float, float], ...]:
    if len(tracker.series) < 2:
        return ()
    points = tracker.series.for_graph()
    return points if tracker.direction > 0 else tuple((at, -value) for at, value in points)


def _crossing(tracker: Tracker) -> Forecast:
    return tracker.forecasts[1] if len(tracker.forecasts) > 1 else NO_HISTORY


def _flags(tracker: Tracker, ceiling: Ceiling, issued: Number | None, pool: PoolView | None) -> tuple[Flag, ...]:
    flags: list[Flag] = []
    if not pool and is_stalled(tracker.value, tracker.kind):
        flags.append(Flag.STALLED)
    if issued is not None and (issued - ceiling.value) * tracker.direction >= 0:
        flags.append(Flag.EMPTY if pool else Flag.FULL)
    if tracker.standing in _STANDING_FLAGS:
        flags.append(_STANDING_FLAGS[tracker.standing])
    if tracker.rewound:
        flags.append(tracker.rewound[0])
    if tracker.kind is NumericType.DOUBLE:
        flags.append(Flag.DOUBLE)
    if pool and 0 < pool.full < pool.documents:
        flags.append(Flag.FIRST_FULL)
    if tracker.identity.grade not in (Grade.CERTAIN, Grade.LIKELY):
        flags.append(Flag.GUESS)
    return tuple(flags)


def _notes(tracker: Tracker) -> tuple[str, ...]:
    notes = [tracker.type_note, tracker.rewound[1] if tracker.rewound else tracker.reset_note, *tracker.notes]
    notes.append(tracker.standing_note)
    if tracker.odd_ids:
        notes.append(f"{odd_ids(tracker.odd_ids)} in {tracker.drift_target}.")
    if isinstance(tracker.value, float) and not tracker.cells:
        notes.append("Not a whole number." if math.isfinite(tracker.value) else "Not a finite number.")
    return tuple(note for note in notes if note)


def _recent(tracker: Tracker) -> tuple[float, ...]:
    if tracker.window is None:
        return ()
    points = list(tracker.window)
    return tuple(
        max(0.0, (b[1] - a[1]) * tracker.direction / (b[0] - a[0])) for a, b in pairwise(points) if b[0] > a[0]
    )


def _pool(tracker: Tracker) -> PoolView:
    cells = tracker.cells
    events = tracker.forecasts if len(tracker.forecasts) == 3 else (NO_HISTORY,) * 3
    return PoolView(
        documents=len(cells),
        full=sum(cell.issued >= cell.capacity for cell in cells),
        used=tuple(cell.used for cell in cells),
        ids=tuple(cell.id for cell in cells),
        values=tuple(cell.value for cell in cells),
        maxima=tuple(cell.bound for cell in cells),
        first_full=events[1],
        two_tries=events[2],
        empty=events[0],
    )
