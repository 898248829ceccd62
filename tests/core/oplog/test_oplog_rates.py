"""Rates count by the oplog's own time, and a collector keeps the newest wanted rows."""

from __future__ import annotations

from datetime import UTC, datetime

import bson
import pytest
from bson import Binary, Int64, Timestamp

from tallyglass.moment import Ts
from tallyglass.oplog.entry.batch import Envelope
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read import rates as rates_module
from tallyglass.oplog.read.collect import Collector
from tallyglass.oplog.read.rates import NAMESPACE_LIMIT, OTHERS, Rates
from tallyglass.oplog.snapshot import NamespaceRate, RowKind


def of(ns: str, **counts: int) -> dict[Envelope, int]:
    """So many entries of each operation; with ``s`` after its letter those of a session."""
    return {Envelope(op[0], ns, len(op) > 1, 1): count for op, count in counts.items()}


def entry(seconds: int, op: str = "i", ns: str = "a.b") -> bytes:
    return bson.encode({"op": op, "ns": ns, "o": {"_id": 1}, "ts": Timestamp(seconds, 1), "v": 2})


def usual(seconds: int) -> bytes:
    """An insert whose fields stand where servers since 5.0 write them."""
    late = {"t": Int64(1), "v": Int64(2), "wall": datetime(2026, 1, 1, tzinfo=UTC)}
    body = {"op": "i", "ns": "a.b", "ui": Binary(b"u" * 16, 4), "o": {"_id": 1}, "ts": Timestamp(seconds, 1)}
    return bson.encode(body | late)


def test_operations_are_counted_by_kind_over_the_seconds_before_a_moment() -> None:
    rates = Rates()
    assert (rates.over(60, 1_000), rates.overall(), rates.newest) == ((), (), 0)
    rates.reach(1_000, 1_059)
    rates.add(1_000, of("a.b", i=60, iss=60, u=30, n=999, xi=30) | of("a.c", d=300))
    rates.add(1_059, of("a.b", c=30) | of("b\n", d=1))
    assert rates.newest == 1_059
    a, c = NamespaceRate("a.b", 2.0, 0.5, 0.0, 1.0), NamespaceRate("a.c", 0.0, 0.0, 5.0, 0.0)
    odd = NamespaceRate("b\\u{a}", 0.0, 0.0, 1 / 60, 0.0)
    assert rates.over(60, 1_059) == rates.overall() == (c, a, odd)
    assert rates.over(60, 1_060) == (NamespaceRate("a.b", 0, 0, 0, 0.5), odd), "the first five seconds are over"
    assert rates.over(5, 1_059) == (NamespaceRate("a.b", 0, 0, 0, 6.0), NamespaceRate("b\\u{a}", 0, 0, 0.2, 0))
    assert rates.over(300, 1_299)[0] == NamespaceRate("a.c", 0, 0, 1.0, 0), "as many seconds as were looked at"
    assert rates.over(300, 1_300)[0] == NamespaceRate("a.b", 0, 0, 0, 0.1)
    rates.add(1_050, of("a.b", i=5))
    assert rates.over(5, 1_059)[0] == NamespaceRate("a.b", 1.0, 0, 0, 6.0), "a late one counts as of the newest"
    rates.reach(940, 2_000)
    assert (rates.newest, rates.overall()[0].deletes) == (2_000, 300 / 1_061)
    rates.add(1_354, of("a.d", i=5))
    assert [rate.ns for rate in rates.over(1_000, 1_354)] == ["a.b", "a.d", "b\\u{a}"]
    rates.add(1_355, of("a.d", i=5))
    assert [rate.ns for rate in rates.over(1_000, 1_355)] == ["a.d"], "five minutes are kept"
    assert [rate.ns for rate in rates.overall()] == ["a.c", "a.b", "a.d", "b\\u{a}"]


def test_the_rates_of_a_young_tail_are_over_what_it_has_seen() -> None:
    rates = Rates()
    rates.add(1_000, of("a.b", i=12))
    rates.reach(1_000, 1_000)
    assert rates.over(60, 1_000) == rates.overall() == (NamespaceRate("a.b", 12.0, 0, 0, 0),)
    assert rates.over(60, 1_002) == (NamespaceRate("a.b", 4.0, 0, 0, 0),)
    assert rates.over(60, 900)[0].inserts == 12.0, "a clock that was set back divides by nothing less than a second"


def test_namespaces_beyond_a_number_are_counted_together_and_the_busiest_listed() -> None:
    rates = Rates()
    for n in range(NAMESPACE_LIMIT * 4):
        rates.add(1_000, of(f"a.{n:04}", i=2 + (n < 3)))
    rates.reach(1_000, 1_000)
    rates.add(1_000, of("a.x", i=7) | of("a.y", i=8) | of("a.0000", i=1))
    shown = rates.over(5, 1_000)
    assert [(rate.ns, rate.inserts) for rate in shown[:4]] == [
        (OTHERS, 15),
        ("a.0000", 4),
        ("a.0001", 3),
        ("a.0002", 3),
    ]
    assert (len(shown), shown[-1].ns) == (rates_module._SHOWN, "a.0098")


@pytest.mark.parametrize(
    ("batches", "last", "minute"),
    [
        ([[1_000, 1_004]], 1_004, {1_004: 2 / 5, 1_059: 2 / 60, 1_060: 0}),
        ([[1_003, 1_012]], 1_012, {1_012: 2 / 10, 1_059: 2 / 57, 1_060: 1 / 58, 1_069: 1 / 60, 1_070: 0}),
        ([[1_003], [1_012]], 1_012, {1_012: 2 / 10, 1_059: 2 / 57, 1_060: 1 / 58, 1_070: 0}),
        ([[1_000, 4_000, 4_003]], 4_003, {4_003: 2 / 60, 4_059: 2 / 60, 4_060: 0}),
        ([[1_000, 1_004, 1_005, 1_006, 1_010, 1_010]], 1_010, {1_010: 6 / 11, 1_060: 4 / 60, 1_065: 2 / 60, 1_070: 0}),
        ([[0, 1_004]], 1_004, {1_004: 2.0}), ([[]], None, {}), ([[1_000], [0]], 1_000, {}),
    ],
)  # fmt: skip
def test_a_batch_of_a_quiet_time_is_counted_in_the_seconds_of_its_entries(
    batches: list[list[int]], last: int | None, minute: dict[int, float]
) -> None:
    """``minute`` are the inserts a second over the minute before a moment."""
    collector = Collector(OplogFilter(), 10)
    for batch in batches:
        collector.add(b"".join(usual(t) if t else bson.encode({"op": "i", "ns": "a.b", "o": {}}) for t in batch))
    assert collector.last == (Ts(last, 1) if last else None)
    assert (collector.seen, collector.matched) == (sum(map(len, batches)),) * 2
    found = {now: sum(rate.inserts for rate in collector.rates.over(60, now)) for now in minute}
    assert found == minute


def test_of_a_long_past_five_minutes_are_counted_by_their_seconds_and_all_of_it_together() -> None:
    collector = Collector(OplogFilter(), 10)
    collector.add(b"".join(usual(t) for t in range(10_000, 14_001)))
    assert collector.rates.overall() == (NamespaceRate("a.b", 1.0, 0, 0, 0),)
    found = {now: round(collector.rates.over(300, now)[0].inserts * 300) for now in (14_000, 14_004, 14_005, 14_250)}
    assert found == {14_000: 296, 14_004: 296, 14_005: 291, 14_250: 46}


def test_as_many_rows_wait_as_there_is_room_for_and_at_first_those_of_the_past_besides() -> None:
    collector = Collector(OplogFilter(), 3, 2)
    collector.add(b"".join(map(entry, range(1_000, 1_006))))
    rows, dropped = collector.rows(Ts(1_003, 1))
    assert ([row.ts.t for row in rows], dropped) == ([1_001, 1_002, 1_003, 1_004, 1_005], 1)
    assert [row.majority for row in rows] == [True, True, True, False, False]
    collector.add(b"".join(map(entry, range(2_000, 2_006))))
    rows, dropped = collector.rows(None)
    assert ([row.ts.t for row in rows], dropped, rows[0].majority) == ([2_003, 2_004, 2_005], 3, None)
    assert collector.rows(None) == ((), 0)
    collector.add(entry(3_000)[:-2])
    ((broken,), _) = collector.rows(None)
    assert (broken.kind, broken.op, broken.what) == (RowKind.ENTRY, "?", "not readable: a batch ends within an entry")
    assert (collector.seen, collector.matched) == (12, 12)
