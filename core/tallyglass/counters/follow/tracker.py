"""The tracker of one counter: its values so far, its flags, and its frozen view."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from operator import attrgetter

from tallyglass.counters.ceiling import CROSSING, ceiling_of, floor_of, in_blocks, near_limit
from tallyglass.counters.follow.pools import PoolPart, outlook
from tallyglass.counters.follow.restarts import (
    CYCLES_IN_USE,
    DESCENDS_AFTER,
    MOST_FALLS,
    Decrease,
    intended_reset,
    movement_of,
    only_descends,
)
from tallyglass.counters.forecast.forecast import NO_HISTORY, forecasts
from tallyglass.counters.forecast.series import Series
from tallyglass.counters.history.oplog_samples import PastValue
from tallyglass.counters.numbers import Number, is_stalled
from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.identity import Identity
from tallyglass.counters.repair import move_command
from tallyglass.counters.snapshot import Ceiling, CounterView, Flag, Forecast, Grade, NumericType, PoolView, Semantics
from tallyglass.counters.standing import IdSpan, Movement, Standing, moved_to, odd_ids, standing_of
from tallyglass.moment import from_seconds, iso
from tallyglass.text import clean

RECENT = 60
"""How many recent samples are kept for the trend column."""

_LATELY = 30.0
"""Seconds over which the current rate is measured: many readings of a second each, and short enough to be of now."""
_OLDEST, _AGES, _PARTS = 30.0, 10, 500
"""Seconds that a forecast may be old, and what the time to its early end, and its history, are divided by for the same:
near the end a band of seconds would be over before it is renewed."""
_SHORTEST = 0.04
"""Seconds below which no rate is measured: one id in less would be a high rate."""

_EMPTY = Series()
_MARGIN = 60.0
"""Seconds that values of two sources must be apart, since their clocks may differ."""
_INSTANT = 0.001
"""Seconds: what a past value precedes the first reading by, whatever the clocks say."""
_STANDING_FLAGS = {Standing.BEHIND: Flag.BEHIND, Standing.UNCLEAR: Flag.UNCLEAR}
_COMPARISON = attrgetter("drift", "drift_target", "burn", "standing", "standing_note", "odd_ids")
_LEAST_CHANGES = 5
"""So many changes show the step: the common divisor of fewer may be larger by chance."""


@dataclass(slots=True, eq=False)
class Tracker:
    """Follows one counter, or one pool as a whole. Pure: it receives values and times, and produces views.

    ``is_counter`` becomes false for a guess whose value falls. ``first_at``, ``last_at`` and ``changed_at`` are when
    the value was first read, last read, and last seen to change (seconds since 1970). ``high`` is the highest value
    before a decrease that is a fault, ``falls`` the last decreases, ``rose`` whether it was seen to rise. ``window``
    holds the readings since it last changed, ``cells`` the documents of a pool.
    """

    identity: Identity
    value: Number = 0
    kind: NumericType = NumericType.INT64
    direction: int = field(init=False)
    readers_64: bool = field(init=False)
    is_counter: bool = True
    series: Series = _EMPTY
    first_at: float | None = None
    last_at: float = 0.0
    changed_at: float | None = None
    falls: list[Decrease] = field(default_factory=list)
    rose: bool = False
    _mostly_rose: bool = False
    reset_note: str = ""
    high: Number | None = None
    rewound: tuple[Flag, str] | None = None
    rewound_at: float | None = None
    type_note: str = ""
    notes: tuple[str, ...] = ()
    rate: float | None = None
    step_changes: int = 0
    step_divisor: int = 0
    drift: int | None = None
    drift_target: str = ""
    standing: Standing | None = None
    standing_note: str = ""
    odd_ids: int = 0
    burn: float | None = None
    repair: str = ""
    forecasts: tuple[Forecast, ...] = (NO_HISTORY,)
    forecast_at: float = 0.0
    stale_forecast: bool = False
    window: deque[tuple[float, Number]] | None = None
    cells: Sequence[PoolPart] = ()
    _before_fall: Series | None = None
    _view: CounterView | None = None

    def __post_init__(self) -> None:
        self.direction = self.identity.direction
        self.readers_64 = self.identity.int64_ids

    def recognise(self, identity: Identity) -> bool:
        """Go on as a counter with these facts; False if its values mean something else under them."""
        known = self.identity
        if (known.direction, known.text, known.path) != (identity.direction, identity.text, identity.path):
            return False
        if not identity.is_loose:
            self.is_counter = True
        self.identity = identity
        self.readers_64 = self.readers_64 or identity.int64_ids
        if identity.cycles_in_use and self.falls:
            self.reset_note = CYCLES_IN_USE
            self._forget_rewind()
        self._outdate_forecasts()
        return True

    def observe(self, number: Number, kind: NumericType, at: float) -> None:
        """Record the value read at a moment (seconds since 1970)."""
        if self.first_at is None:
            self.first_at = self.last_at = at
            self.value, self.kind = number, kind
            return
        if kind is not self.kind:
            self._type_changed(kind, at)
        if number != self.value:
            self._value_changed(number, at)
        elif self.window is None:
            self.last_at = at
            return
        self.last_at = at
        if isinstance(number, int) and self.series is not _EMPTY:
            self.series.add(at, number * self.direction)
        if self.window is not None:
            self.window.append((at, number))
        self._measure(at)

    def observe_pool(self, cells: Sequence[PoolPart], kind: NumericType, at: float) -> None:
        """Record all documents of a pool; the tracked value is the sum of the ids they issued."""
        if self.cells and [cell.key for cell in cells] != [cell.key for cell in self.cells]:
            # The sum over another set of documents is not comparable with the old one.
            self.series = _EMPTY
            self.first_at, self.window, self.rate = None, None, None
        if cells != self.cells:
            self.cells, self._view = cells, None
        self.observe(sum(cell.issued for cell in cells), kind, at)

    def add_past(self, points: Iterable[PastValue], steps: int | None = None) -> None:
        """Add older values, and detect resets and changes of type among them.

        ``steps`` is the number of changes they represent, if that differs from their own number.
        """
        if self.first_at is None or self.series.broken_at is not None:
            return
        self._begin_series()
        if not len(self.series):
            return
        known = sorted(points, key=lambda past: past.at)
        self._look_for_descent([past.number for past in known])
        first, value = self.series.times[0], self.series.first * self.direction
        if first < self.first_at:
            known = [past for past in known if past.at < first - _MARGIN]
        if not known:
            return
        kept: list[tuple[float, int]] = []
        after = [*known[1:], PastValue(first, value, self.kind)]
        for past, following in zip(known, after, strict=True):
            if isinstance(past.number, int):
                # They precede the first reading, even if the clocks disagree.
                kept.append((min(past.at, first - _INSTANT), past.number * self.direction))
            self._count_change(following.number - past.number)
            if _family(following.kind) != _family(past.kind):
                self.type_note = _turned(past.kind, following.kind, following.at)
                kept.clear()
            elif self._is_before(following.number, past.number) and not self.cells:
                self._went_back(past.number, following.number, following.at)
            elif self.high is not None and not self._is_before(following.number, self.high):
                self._forget_rewind()
        if self.high is None and not self.reset_note:
            kept = _without_dips(kept)
        self.series.extend_back(kept, steps)
        self._measure(self.last_at)
        self._outdate_forecasts()

    def _look_for_descent(self, numbers: Sequence[Number]) -> None:
        """Note which way it mostly went; reverse the direction if it only falls, by the same amount each time."""
        changes = [b - a for a, b in pairwise([*numbers, self.value]) if b != a]
        # A counter that descends rises where its document is made again.
        self._mostly_rose = 2 * sum(change > 0 for change in changes) > len(changes)
        if self._may_descend and len(changes) >= DESCENDS_AFTER and len(set(changes)) == 1:
            self._reverse_direction()

    @property
    def _may_descend(self) -> bool:
        """Whether it was not seen to rise, nor is its step configured: one in its document may be taken off."""
        return self.direction > 0 and not (self.rose or self._mostly_rose or self.identity.is_step_configured)

    def _reverse_direction(self) -> None:
        self.direction = -1
        self.series, self._before_fall = Series(), None
        self._forget_rewind()
        seen = [] if self.first_at is None else [(self.first_at, self.value)]
        if self.falls and self.first_at is not None and self.falls[0].at > self.first_at:
            seen = [(self.first_at, self.falls[0].high), *((fall.at, fall.low) for fall in self.falls)]
        for at, number in seen:
            if isinstance(number, int):
                self.series.add(at, -number)
        self.falls.clear()
        self._outdate_forecasts()

    def _is_before(self, number: Number, other: Number) -> bool:
        """Whether the counter reaches ``number`` before ``other``."""
        return number * self.direction < other * self.direction

    def _forget_rewind(self) -> None:
        self.high, self.rewound, self.rewound_at = None, None, None

    @property
    def stands_for_many(self) -> bool:
        """Whether the row is a pool, or a group of counters."""
        return bool(self.cells)

    @property
    def members(self) -> Collection[Tracker]:
        """Of a group, the counters that are followed individually."""
        return ()

    @property
    def near(self) -> Ceiling | None:
        """The numeric limit, or the bound in its document, that the number has nearly reached."""
        known, issued = self.identity, self.issued()
        if issued is None or self.cells or self.direction < 0:
            return None
        consumers = known.consumers if known.are_consumers_known else ()
        bound = None if known.cycles else known.bound
        return near_limit(issued, bound=bound, bound_name=known.bound_name, consumers=consumers, block=known.block)

    @property
    def is_listed(self) -> bool:
        """Whether it is shown: a number that is hardly a counter is, if it is near a limit."""
        doubtful = not self.is_counter or self.identity.grade in (Grade.OPEN, Grade.UNLIKELY)
        return not doubtful or self.near is not None

    @property
    def step(self) -> int:
        """What is added for each id: as it is known, as it was found by use, or the common divisor of the changes."""
        known = self.identity
        if known.is_step_known:
            return self.direction * abs(known.step)
        if known.step * self.direction > 1:
            # That of most documents: this one may be seen to add less.
            return self.direction * math.gcd(known.step, self.step_divisor)
        return self.direction * (self.step_divisor if self.step_changes >= _LEAST_CHANGES else 1)

    def _count_change(self, change: Number) -> None:
        if isinstance(change, int) and change * self.direction > 0:
            self.step_divisor = math.gcd(self.step_divisor, change)
            self.step_changes += 1

    @property
    def movement(self) -> Movement:
        """How the counter moves, as far as it was seen or is configured."""
        known = self.identity
        if known.starts_again or self.reset_note:
            return Movement.CYCLES
        if self.direction < 0:
            return Movement.DESCENDS
        if known.is_step_configured or (known.is_step_known and (self.rose or not self.falls)):
            return Movement.RISES
        found = movement_of(self.rose or self.series.steps > 0, self.falls)
        return Movement.MIXED if found is Movement.DESCENDS and self._mostly_rose else found

    def compare(self, targets: Iterable[IdField], ids: IdSpan, burn: float | None) -> None:
        """Record the ids in the collections that this counter serves; they were read before the counter.

        ``burn`` is the share of ids without a document, None if unknown.
        """
        known, issued, stored = self.identity, self.issued(), self.value
        if known.block > 1 or not isinstance(issued, int) or not isinstance(stored, int):
            # The largest id cannot be compared with a counter of blocks.
            return
        before = _COMPARISON(self)
        self.standing, self.standing_note = self._stands(issued, ids)
        last = ids.last(self.direction)
        repeats = self.standing is Standing.NOT_COMPARED
        self.drift, self.burn = (None, None) if repeats else ((issued - last) * self.direction, burn)
        self.drift_target = clean(", ".join(f"{target.ns}.{target.field}" for target in targets))
        self.odd_ids = ids.odd
        self.repair = ""
        if self.standing is Standing.BEHIND:
            self._find_repair(stored, issued, ids)
        if before != _COMPARISON(self):
            self._view = None

    def _stands(self, issued: int, ids: IdSpan) -> tuple[Standing, str]:
        return standing_of(self.movement, issued, self.identity.start, ids, self.step, self.high)

    def _find_repair(self, stored: int, issued: int, ids: IdSpan) -> None:
        """The command that moves the counter past all ids, if the same decision then finds that they agree."""
        known = self.identity
        number = moved_to(stored, self.step, ids.last(self.direction) + stored - issued)
        moved = issued + number - stored
        if known.text:
            self.standing_note += " It is a text, which no command of mongosh moves: write the new text yourself."
        elif (moved - self.ceiling.value) * self.direction > 0:
            limit = f"its limit, {self.ceiling.value} ({clean(self.ceiling.reason)})"
            self.standing_note += f" There is no command: {number} would be beyond {limit}."
        elif self._stands(moved, ids)[0] is Standing.AGREES:
            self.repair = move_command(known.ns, known.doc_id, known.path, number, self.direction, self.kind)

    def _outdate_forecasts(self) -> None:
        """Have new forecasts made at once: what they rest on changed."""
        self.stale_forecast, self.forecast_at, self._view = True, 0.0, None

    def set_readers_64(self, known: bool) -> None:
        """Whether the ids are known to be kept in 64 bits: then 2^31 is no limit."""
        known = known or self.identity.int64_ids
        if known != self.readers_64:
            self.readers_64 = known
            self._outdate_forecasts()

    def set_bound(self, bound: int | None) -> None:
        """The ceiling in the document as it is now: applications raise it when it is near."""
        if bound != self.identity.bound:
            self.identity = replace(self.identity, bound=bound)
            self._outdate_forecasts()

    def settle(self, now: float) -> None:
        """Update values that depend on the current time, for an idle counter."""
        if not len(self.series):
            if self.rate is None and self.first_at is not None and now - self.first_at >= _SHORTEST:
                self.rate, self._view = 0.0, None
            return
        self._measure(now)
        if isinstance(self.value, int):
            self.series.add(self.last_at, self.value * self.direction)
        if self._has_old_forecasts(now):
            self.update_forecasts(now)

    def _begin_series(self) -> None:
        """Create the series on the first change: most counters of a large deployment never change."""
        if self.series is _EMPTY:
            self.series = Series()
            if self.first_at is not None and isinstance(self.value, int):
                self.series.add(self.first_at, self.value * self.direction)

    def _type_changed(self, kind: NumericType, at: float) -> None:
        if _family(kind) != _family(self.kind):
            self._begin_series()
            self.type_note = _turned(self.kind, kind, at)
            self.series.break_off(at)
            self.forecast_at = 0.0
        self.kind = kind
        self.stale_forecast, self._view = True, None

    def _value_changed(self, number: Number, at: float) -> None:
        self._begin_series()
        if self.window is None:
            self.window = deque([(self.last_at, self.value)], maxlen=RECENT)
        if isinstance(self.value, int) and (self.series.broken_at is None or self.last_at > self.series.broken_at):
            self.series.add(self.last_at, self.value * self.direction)
        if self._is_before(number, self.value) and self.identity.is_loose:
            self.is_counter = False
        elif self._is_before(number, self.value):
            if self.high is None:
                self._before_fall, self.series = self.series, Series()
                self.series.break_off(at)
            self._went_back(self.value, number, at)
        else:
            self.rose = True
            self._count_change(number - self.value)
            if self.high is not None and not self._is_before(number, self.high):
                self._forget_rewind()
                if self._before_fall is not None:
                    # It is past all that it had reached: what it did before goes on.
                    self.series, self._before_fall = self._before_fall, None
        self.value, self.changed_at = number, at
        self.stale_forecast, self._view = True, None

    def _went_back(self, high: Number, number: Number, at: float) -> None:
        """Record that the value fell from ``high``: below its highest, ids are handed out a second time."""
        known, start = self.identity, self.identity.start
        fall = Decrease(at, high, number)
        high = high if self.high is None or self._is_before(self.high, high) else self.high
        self.falls = [*self.falls[-MOST_FALLS:], fall]
        self.window = deque([(at, number)], maxlen=RECENT)
        self.forecast_at, self._view = 0.0, None
        if known.cycles_in_use:
            # Between two readings it may fall from any of its numbers to any other.
            self.reset_note = CYCLES_IN_USE
        else:
            self.reset_note = intended_reset(self.falls, start, known.cycle, known.resets, known.bound)
        if self.reset_note:
            self._before_fall = None
            self._forget_rewind()
            return
        if self._may_descend and only_descends(self.falls):
            self._reverse_direction()
            return
        flag = Flag.RESET if Decrease(at, high, number).to_start(start) else Flag.REWOUND
        self.high = high
        self.rewound = (flag, f"Went back from {high} to {number} at {iso(from_seconds(round(at)))}.")
        self.rewound_at = at

    def _measure(self, at: float) -> None:
        """Update the current rate: over the last half minute, or the observed part of it."""
        points = self.series
        since = max(points.times[0], at - _LATELY) if len(points) else at
        if self.cells and self.first_at is not None:
            # The history of a pool is estimated from a few documents, too coarse for the current rate; and a pool
            # advances in batches, so that a few seconds without one do not mean that it is idle.
            if self.changed_at is None and at - self.first_at < _LATELY:
                return
            since = max(since, self.first_at)
        if at - since < _SHORTEST:
            return
        rate = max(0.0, points.rise_since(since) / (at - since))
        if rate != self.rate or rate:
            self.rate, self._view = rate, None
        if not rate and self.window is not None and len(self.window) == RECENT:
            # Idle for a whole window: drop the window until the value changes again.
            self.window = None

    @property
    def ceiling(self) -> Ceiling:
        """The largest value that can be reached now, with its reason."""
        if self.cells:
            return Ceiling(sum(cell.capacity for cell in self.cells), f"MAX_VALUE of {len(self.cells):,} documents")
        known = self.identity
        if self.direction < 0:
            if known.step < 0 and known.bound is not None:
                return Ceiling(known.bound, known.bound_name)
            return floor_of(self.value)
        limit = ceiling_of(
            self.kind, bound=known.bound, bound_name=known.bound_name, consumers=known.consumers, digits=known.digits
        )
        if known.block > 1 and limit.value != known.bound:
            return replace(in_blocks(limit, known.block), reason=f"{limit.reason}, {known.block:,} ids a block")
        return limit

    @property
    def crossing(self) -> Ceiling:
        """The last value before an id is beyond 32 bits."""
        return in_blocks(CROSSING, self.identity.block)

    def is_due(self, now: float) -> bool:
        """Whether the value changed since the forecasts were made, and these are old enough for an update."""
        return self.stale_forecast and self._has_old_forecasts(now)

    def _has_old_forecasts(self, now: float) -> bool:
        early = self.forecasts[0].early
        ahead = early.timestamp() - self.forecast_at if early else math.inf
        return now - self.forecast_at >= min(self.series.span / _PARTS, _OLDEST, max(0.0, ahead) / _AGES)

    def update_forecasts(self, now: float) -> None:
        """Update the forecasts: for the ceiling, for 2^31, and for the three events of a pool."""
        issued = self.issued()
        if issued is None:
            made: tuple[Forecast, ...] = (Forecast(note="Not a finite number."),)
        elif self.cells:
            ahead = outlook(self.cells)
            made = forecasts(self.series, (ahead.empty, ahead.first_full, ahead.two_tries), now)
        else:
            limits = (self.ceiling, self.crossing) if self.may_cross(issued) else (self.ceiling,)
            made = forecasts(self.series, [(limit.value - issued) * self.direction for limit in limits], now)
        self.forecasts, self.forecast_at = made, now
        self.stale_forecast, self._view = False, None

    def may_cross(self, issued: Number) -> bool:
        """Whether a reader that keeps ids in 32 bits could still fail: not if the ids are known to be 64-bit."""
        known = self.identity
        return (
            issued < self.crossing.value
            and not (self.cells or self.readers_64 or known.consumers or self.direction < 0)
            and self.ceiling.value > self.crossing.value
        )

    def issued(self) -> Number | None:
        """The last id handed out; for a pool the number of ids. None if it is not finite."""
        if not math.isfinite(self.value):
            return None
        return self.value - (self.direction if self.identity.semantics is Semantics.NEXT and not self.cells else 0)

    def invalidate_view(self) -> None:
        """Discard the cached view."""
        self._view = None

    def view(self) -> CounterView:
        """The frozen view; the same object as long as nothing changed."""
        if self._view is None:
            self._view = _view_of(self)
        return self._view


def _without_dips(points: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """The points in order of time without those from a fall until the number was past all that it had reached."""
    tops = accumulate((value for _, value in points), max)
    return [point for point, top in zip(points, tops, strict=True) if point[1] >= top]


def _family(kind: NumericType) -> NumericType:
    # The server promotes int32 to int64 by itself, which is not a change of type.
    return NumericType.INT64 if kind is NumericType.INT32 else kind


def _turned(before: NumericType, after: NumericType, at: float) -> str:
    return f"Turned from {before} into {after} at {iso(from_seconds(int(at)))}."


def _view_of(tracker: Tracker) -> CounterView:
    """The frozen view of a tracked counter."""
    known, ceiling = tracker.identity, tracker.ceiling
    issued = tracker.issued()
    span = (ceiling.value - known.start) * tracker.direction
    used = None
    if issued is not None and span > 0:
        used = min(1.0, max(0.0, (issued - known.start) * tracker.direction / span))
        if used == 1.0 and (issued - ceiling.value) * tracker.direction < 0:
            # One that is not full is not 100 % used, however few ids of how many are left.
            used = math.nextafter(1.0, 0.0)
    crossing, crossing_used = None, None
    if issued is not None and tracker.may_cross(issued):
        crossing = tracker.forecasts[1] if len(tracker.forecasts) > 1 else NO_HISTORY
        crossing_used = max(0.0, issued / tracker.crossing.value)
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
        crossing=crossing,
        crossing_used=crossing_used,
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
        block=known.block,
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


def _flags(tracker: Tracker, ceiling: Ceiling, issued: Number | None, pool: PoolView | None) -> tuple[Flag, ...]:
    flags: list[Flag] = []
    if not pool and is_stalled(tracker.value, tracker.kind):
        flags.append(Flag.STALLED)
    is_full = issued is not None and (issued - ceiling.value) * tracker.direction >= 0
    if is_full and not tracker.identity.turns_at(ceiling.value):
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
