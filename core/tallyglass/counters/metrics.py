"""The counters as metrics: names, labels and values, without a format. docs/metrics.md has the table.

All are gauges: a value may go back. What may change while a counter lives (grade, target, step) is in the info metric
alone, so that no series ends when it does. Unknown is absent, never 0 or infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from tallyglass.counters.snapshot import Ceiling, CountersSnapshot, CounterView, Flag, Forecast

PREFIX = "tallyglass_"
DEFAULT_MOST = 1_000
"""Sequences that have series unless told otherwise: those that end first."""

_INT32_MAX = 2**31 - 1
_FAULTS = {
    "behind": (Flag.BEHIND,),
    "rewound": (Flag.REWOUND, Flag.RESET),
    "stalled": (Flag.STALLED,),
    "double": (Flag.DOUBLE,),
    "full": (Flag.FULL, Flag.EMPTY),
}
_LABELS = ("database", "collection", "sequence")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name, what it means, its label names, and ``(label values, value)`` rows."""

    name: str
    help: str
    labels: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], float], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """Which sequences have series: those whose "namespace id" fits a pattern (any, where there is none), ``most`` of
    them, the most urgent first."""

    patterns: tuple[str, ...] = ()
    most: int = DEFAULT_MOST

    def of(self, snapshot: CountersSnapshot) -> tuple[list[CounterView], int]:
        """The sequences, and how many ``most`` left out. Guesses are none; of a group the worst members count."""
        rows: list[CounterView] = []
        for counter in snapshot.counters:
            if counter.may_alarm:
                rows += [counter] if counter.members is None else [counter, *counter.members.worst]
        if self.patterns:
            rows = [one for one in rows if any(fnmatchcase(f"{one.ns} {one.id}", text) for text in self.patterns)]
        return rows[: self.most], max(0, len(rows) - self.most)


def families(snapshot: CountersSnapshot, choice: Choice = Choice()) -> list[Family]:
    """All metrics of one look."""
    counters, omitted = choice.of(snapshot)
    named = list(zip(_names(counters), counters, strict=True))
    found = [
        _family("sequence_last_value", "The stored number; inexact above 2^53.", (), named, _values),
        _family("sequence_remaining", "Ids left until the ceiling.", ("ceiling",), named, _remaining),
        _family("sequence_used_ratio", "Share of the range used, 0 to 1.", ("ceiling",), named, _used),
        _family("sequence_rate_per_second", "Ids a second, over whole cycles.", (), named, _rates),
        _family(
            "sequence_exhaustion_timestamp_seconds", "When the ceiling is reached: 10th, 50th, 90th percentile.",
            ("ceiling", "bound"), named, _ends,
        ),
        _family(
            "sequence_naive_exhaustion_timestamp_seconds", "The same by the mean rate: too early for a band.",
            ("ceiling",), named, _naive,
        ),
        _family("sequence_fault", "1 where the fault is there and not acknowledged.", ("fault",), named, _faults),
        _family(
            "sequence_info", "What may change about a sequence.",
            ("grade", "target", "type", "semantics", "step", "library"), named, _info,
        ),
    ]  # fmt: skip
    return [*found, *_of_the_look(snapshot, omitted)]


def _of_the_look(snapshot: CountersSnapshot, omitted: int) -> Iterator[Family]:
    pending = snapshot.collections_seen - snapshot.collections_looked - snapshot.collections_unread
    states = {
        "looked": snapshot.collections_looked,
        "unread": snapshot.collections_unread,
        "pending": max(0, pending) if snapshot.discovering else 0,
    }
    rows = tuple(((state,), float(count)) for state, count in states.items())
    yield Family(f"{PREFIX}collections", "Collections by what is known of them.", ("state",), rows)
    yield _single("sequences_omitted", "Sequences without series of their own.", omitted)
    complete = not snapshot.discovering and not snapshot.collections_unread
    yield _single("search_complete", "1 when every collection was looked at.", complete)
    yield _single("last_success_timestamp_seconds", "When the counters were last read.", snapshot.at.timestamp())
    if snapshot.oplog_seconds is not None:
        yield _single("oplog_window_seconds", "How far back the oplog reaches.", snapshot.oplog_seconds)


def _single(name: str, text: str, value: float) -> Family:
    return Family(PREFIX + name, text, (), (((), float(value)),))


def _names(counters: Sequence[CounterView]) -> list[tuple[str, str, str]]:
    """Database, collection and sequence of each; a path is added where a document has several numbers."""
    names: list[tuple[str, str, str]] = []
    taken: set[tuple[str, str, str]] = set()
    for counter in counters:
        db, _, collection = counter.ns.partition(".")
        sequence = "*" if counter.members is not None else counter.id
        name = (db, collection, sequence)
        if name in taken or counter.members is not None:
            name = (db, collection, f"{sequence}#{counter.field}")
        # Two names that were cut alike: the key tells them apart.
        if name in taken:
            name = (db, collection, counter.key)
        taken.add(name)
        names.append(name)
    return names


Rows = Iterator[tuple[tuple[str, ...], float]]


def _family(
    name: str,
    text: str,
    more: tuple[str, ...],
    named: Sequence[tuple[tuple[str, ...], CounterView]],
    rows: Callable[[CounterView], Rows],
) -> Family:
    found = tuple(((*names, *labels), value) for names, counter in named for labels, value in rows(counter))
    return Family(PREFIX + name, text, (*_LABELS, *more), found)


def ceiling_label(ceiling: Ceiling) -> str:
    """``storage`` for what the type can hold, ``configured`` for a bound that somebody set."""
    return "storage" if ceiling.reason.startswith(("int64", "double", "Decimal128", "text")) else "configured"


def _values(counter: CounterView) -> Rows:
    if math.isfinite(counter.value):
        yield (), float(counter.value)


def _remaining(counter: CounterView) -> Rows:
    if counter.ceiling is not None and counter.left is not None:
        yield (ceiling_label(counter.ceiling),), float(counter.left)
    if counter.crossing is not None and math.isfinite(counter.value):
        yield ("int32",), float(max(0, _INT32_MAX - int(counter.value)))


def _used(counter: CounterView) -> Rows:
    if counter.ceiling is not None and counter.used is not None:
        yield (ceiling_label(counter.ceiling),), counter.used
    if counter.crossing_used is not None:
        yield ("int32",), counter.crossing_used


def _rates(counter: CounterView) -> Rows:
    rate = counter.forecast.rate if counter.forecast.rate is not None else counter.rate
    if rate is not None:
        yield (), rate


def _forecasts(counter: CounterView) -> Iterator[tuple[str, Forecast]]:
    if counter.ceiling is not None:
        yield ceiling_label(counter.ceiling), counter.forecast
    if counter.crossing is not None:
        yield "int32", counter.crossing


def _ends(counter: CounterView) -> Rows:
    for ceiling, forecast in _forecasts(counter):
        bounds: tuple[tuple[str, datetime | None], ...]
        bounds = (("early", forecast.early), ("likely", forecast.likely), ("late", forecast.late))
        for bound, moment in bounds:
            if moment is not None:
                yield (ceiling, bound), moment.timestamp()


def _naive(counter: CounterView) -> Rows:
    for ceiling, forecast in _forecasts(counter):
        if forecast.naive is not None:
            yield (ceiling,), forecast.naive.timestamp()


def _faults(counter: CounterView) -> Rows:
    flags = set(counter.flags) - set(counter.acknowledged)
    for fault, names in _FAULTS.items():
        yield (fault,), float(any(flag in flags for flag in names))


def _info(counter: CounterView) -> Rows:
    facts = (counter.grade.value, counter.target, counter.type.value, counter.semantics.value, str(counter.step))
    yield (*facts, counter.library), 1.0
