"""The counters as metrics: names, labels and values, independent of the output format. docs/metrics.md has the table.

All metrics are gauges, since values may decrease. Attributes that may change during the life of a counter (grade,
target, step) are labels of the info metric only, so that no other series ends when they change. Unknown values are
absent, never 0 or infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from tallyglass.counters.check_line import incomplete, told_apart
from tallyglass.counters.limits import INT32_MAX
from tallyglass.counters.snapshot import Absence, Ceiling, CountersSnapshot, CounterView, Flag, Forecast

PREFIX = "tallyglass_"
DEFAULT_MOST = 1_000
"""Default limit of exported sequences, most urgent first."""

_FAULTS = {
    "behind": (Flag.BEHIND,),
    "unclear": (Flag.UNCLEAR,),
    "rewound": (Flag.REWOUND, Flag.RESET),
    "stalled": (Flag.STALLED,),
    "double": (Flag.DOUBLE,),
    "full": (Flag.FULL, Flag.EMPTY),
}
_LABELS = ("database", "collection", "sequence")


@dataclass(frozen=True, slots=True)
class MetricFamily:
    """One metric: its name, help text, label names, and ``(label values, value)`` rows."""

    name: str
    help: str
    labels: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], float], ...]


def known_families(
    prefix: str, values: Mapping[str, tuple[str, float | None]], labels: Mapping[str, str] | None = None
) -> list[MetricFamily]:
    """One metric for each value that is known: its name after ``prefix``, with its help text; all have the labels."""
    names, texts = tuple(labels or ()), tuple((labels or {}).values())
    return [
        MetricFamily(f"{PREFIX}{prefix}_{name}", text, names, ((texts, float(value)),))
        for name, (text, value) in values.items()
        if value is not None
    ]


@dataclass(frozen=True, slots=True)
class SequenceSelection:
    """Which sequences are exported: at most ``most`` whose "namespace id" matches a pattern, most urgent first.

    Without patterns every sequence matches.
    """

    patterns: tuple[str, ...] = ()
    most: int = DEFAULT_MOST

    def select(self, snapshot: CountersSnapshot) -> tuple[list[CounterView], int]:
        """The selected sequences, and how many were left out by ``most``. Guesses are never selected; the worst members
        of a group are."""
        rows: list[CounterView] = []
        for counter in snapshot.counters:
            if counter.may_alarm:
                rows += [counter] if counter.members is None else [counter, *counter.members.worst]
        if self.patterns:
            rows = [one for one in rows if any(fnmatchcase(f"{one.ns} {one.id}", text) for text in self.patterns)]
        return rows[: self.most], max(0, len(rows) - self.most)


def families(snapshot: CountersSnapshot, selection: SequenceSelection = SequenceSelection()) -> list[MetricFamily]:
    """All metrics of one snapshot."""
    counters, omitted = selection.select(snapshot)
    named = list(zip(_names(counters), counters, strict=True))
    found = [
        _family("sequence_last_value", "The stored number; inexact above 2^53.", (), named, _values),
        _family("sequence_remaining", "Ids left until the ceiling.", ("ceiling",), named, _remaining),
        _family("sequence_used_ratio", "Used share of the range, 0 to 1.", ("ceiling",), named, _used),
        _family("sequence_rate_per_second", "Ids per second, over whole cycles.", (), named, _rates),
        _family(
            "sequence_exhaustion_timestamp_seconds", "When the ceiling is reached: 10th, 50th and 90th percentile.",
            ("ceiling", "bound"), named, _ends,
        ),
        _family(
            "sequence_naive_exhaustion_timestamp_seconds", "The same at the mean rate, while too early for a band.",
            ("ceiling",), named, _naive,
        ),
        _family("sequence_fault", "1 if the fault is present and not acknowledged.", ("fault",), named, _faults),
        _family(
            "sequence_info", "Attributes of a sequence that may change.",
            ("grade", "target", "type", "semantics", "step", "library"), named, _info,
        ),
    ]  # fmt: skip
    return [*found, *_search_metrics(snapshot, omitted)]


def _search_metrics(snapshot: CountersSnapshot, omitted: int) -> Iterator[MetricFamily]:
    pending = snapshot.collections_seen - snapshot.collections_looked - snapshot.collections_unread
    states = {
        "looked": snapshot.collections_looked,
        "unread": snapshot.collections_unread,
        "pending": max(0, pending) if snapshot.discovering else 0,
    }
    rows = tuple(((state,), float(count)) for state, count in states.items())
    yield MetricFamily(f"{PREFIX}collections", "Collections by search state.", ("state",), rows)
    missing = tuple(
        ((absence.value,), float(sum(one.absence is absence for one in snapshot.missing))) for absence in Absence
    )
    yield MetricFamily(f"{PREFIX}sequences_missing", "Sequences known and not listed, by reason.", ("reason",), missing)
    yield _single("sequences_omitted", "Sequences left out by --top.", omitted)
    yield _single("search_complete", "1 if every collection and shard was read.", not incomplete(snapshot))
    yield _single("last_success_timestamp_seconds", "When the counters were last read.", snapshot.read_at.timestamp())
    if snapshot.oplog_seconds is not None:
        yield _single("oplog_window_seconds", "Time covered by the oplog.", snapshot.oplog_seconds)


def _single(name: str, text: str, value: float) -> MetricFamily:
    return MetricFamily(PREFIX + name, text, (), (((), float(value)),))


def _names(counters: Sequence[CounterView]) -> list[tuple[str, str, str]]:
    """Database, collection and sequence of each counter; the field is added to a row that stands for many."""
    names = [counter.id if counter.members is None else f"*#{counter.field}" for counter in counters]
    places = [counter.ns.partition(".") for counter in counters]
    suffixes = told_apart(counters, [*zip(places, names, strict=True)])
    return [
        (db, collection, name + suffix)
        for (db, _, collection), name, suffix in zip(places, names, suffixes, strict=True)
    ]


Rows = Iterator[tuple[tuple[str, ...], float]]


def _family(
    name: str,
    text: str,
    more: tuple[str, ...],
    named: Sequence[tuple[tuple[str, ...], CounterView]],
    rows: Callable[[CounterView], Rows],
) -> MetricFamily:
    found = tuple(((*names, *labels), value) for names, counter in named for labels, value in rows(counter))
    return MetricFamily(PREFIX + name, text, (*_LABELS, *more), found)


def ceiling_label(ceiling: Ceiling) -> str:
    """``storage`` for the limit of the stored type, ``configured`` for any other bound."""
    return "storage" if ceiling.is_storage else "configured"


def _values(counter: CounterView) -> Rows:
    if math.isfinite(counter.value):
        yield (), float(counter.value)


def _remaining(counter: CounterView) -> Rows:
    if counter.ceiling is not None and counter.left is not None:
        yield (ceiling_label(counter.ceiling),), float(counter.left)
    if counter.crossing is not None and counter.issued is not None:
        yield ("int32",), float(INT32_MAX // counter.block - counter.issued)


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
