"""Bursts of a batch, against the entries one by one; samples of documents, and the order of their ``_id``s."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import bson
import pytest
from bson import Binary, Int64, ObjectId

from corpus.oplog_build import BEGIN
from corpus.oplog_entries import OplogWriter
from tallyglass.oplog.entry.batch import Walker
from tallyglass.oplog.incidents.batch_entries import BatchEntries
from tallyglass.oplog.incidents.burst import Burst, burst_of
from tallyglass.oplog.incidents.families import follows_in_session, goes_on
from tallyglass.oplog.incidents.id_order import IdOrder, marked, order_of
from tallyglass.oplog.incidents.touched import documents_in, is_repeated, joined, touched_by


def of_batch(entries: Sequence[bytes]) -> BatchEntries:
    batch = b"".join(entries)
    (group,) = Walker(lambda *_: 1).gather(batch)
    return BatchEntries(batch, group.starts, group.ends, group)


def moments(entries: Sequence[bytes]) -> list[tuple[int, int]]:
    read = [bson.decode(one) for one in entries]
    return [(one["ts"].time << 32 | one["ts"].inc, round(one["wall"].timestamp() * 1_000)) for one in read]


@pytest.mark.parametrize("op", ["d", "u"])
@pytest.mark.parametrize("size", [1, 2, 6, 7, 24, 25, 40, 255, 256, 600])
@pytest.mark.parametrize(
    "paces", [[0.02], [0.2, 0.2, 51], [50], [51], [0.1] * 30 + [1_001], [20, 999, 1_001], [0.1] * 120 + [51]]
)
def test_bursts_are_what_lies_between_two_pauses(op: str, size: int, paces: list[float]) -> None:
    rng, writer, at = random.Random(size), OplogWriter(BEGIN), 0.0
    for n in range(size):
        writer.write(at, op, "shop.orders", rng.randrange(size) if op == "u" else n)
        at += paces[n % len(paces)]
    entries = writer.stream()[0]
    times = moments(entries)
    whole = of_batch(entries)
    assert (whole.whole.entries, whole.whole.first, whole.whole.last_wall) == (size, times[0][0], times[-1][1])
    for millis in (50, 1_000):
        breaks = [n for n in range(1, size) if times[n][1] - times[n - 1][1] > millis]
        wanted = []
        for low, high in pairwise([0, *breaks, size]):
            first, last, count = times[low], times[high - 1], high - low
            few = [times[n][0] for n in range(low, high)]
            places = range(count) if count <= 6 else marked(count, few.__getitem__)
            found = Burst(first[0], last[0], first[1], last[1], count, count)
            found.marks, found.samples = tuple(entries[low + one] for one in places), (entries[low],)
            if op == "u":
                pieces = [of_batch(entries[n : min(n + 90, high)]) for n in range(low, high, 90)]
                found.touched = reduce(joined, [one.touched for piece in pieces for one in piece.bursts(10**6)])
            wanted.append(found)
        assert whole.bursts(millis, marked=True) == wanted
    whole.read_all()
    assert [whole.time(n) for n in range(size)] == times


def test_a_burst_of_a_session_counts_the_documents_under_each_transaction_number() -> None:
    rng = random.Random(4)
    for _ in range(300):
        numbers = sorted(rng.choices(range(rng.choice((1, 3, 9))), k=rng.randrange(1, 8)))
        stamps = [(n + 1 << 32, 1_000 + 10 * n, number) for n, number in enumerate(numbers)]
        sizes = Counter(numbers)
        found = burst_of(stamps, b"s", b"u")
        assert (found.low, found.high, found.batch) == (numbers[0], numbers[-1], max(sizes.values()))
        assert (found.head, found.tail) == (sizes[numbers[0]], sizes[numbers[-1]])
        assert (found.entries, found.documents, found.first_wall, found.last_wall) == (
            len(numbers), len(numbers), 1_000, 990 + 10 * len(numbers),
        )  # fmt: skip
        at = rng.randrange(len(numbers))
        if at:
            assert burst_of(stamps[:at], b"s", b"u").join(burst_of(stamps[at:], b"s", b"u")) == found
    assert burst_of([(1, 1, -1), (2, 2, -1)], b"s", b"u") == Burst(1, 2, 1, 2, 2, 2, session=b"s", user=b"u")


@pytest.mark.parametrize(
    ("step", "goes", "stops"),
    [(0, 60_000, 60_001), (1, 60_000, 60_001), (2, 10_000, 10_001), (4, 10_000, 10_001), (5, 50, 51), (-1, -1, 0)],
)
def test_a_session_goes_on_with_nearly_the_next_number_soon_or_the_very_next_later(
    step: int, goes: int, stops: int
) -> None:
    older = Burst(1, 2, 0, 0, 1, 1, low=1, high=7)
    for gap, wanted in ((goes, True), (stops, False)):
        if gap >= 0:
            assert goes_on(step, gap) is wanted
            assert follows_in_session(older, Burst(3, 4, gap, gap, 1, 1, low=7 + step, high=99)) is wanted


def test_touched_documents_are_those_with_the_smallest_numbers_whatever_the_parts() -> None:
    rng = random.Random(5)
    for _ in range(300):
        sums = rng.choices(range(rng.choice((3, 8, 9, 500))), k=rng.randrange(1, 30))
        counts = Counter(sums)
        wanted = tuple(number << 32 | counts[number] for number in sorted(counts)[:8])
        at = rng.randrange(len(sums))
        assert touched_by(sums) == wanted == joined(touched_by(sums[:at]), touched_by(sums[at:]))
        assert is_repeated(wanted) == any(counts[number] > 1 for number in sorted(counts)[:8])
        assert documents_in(wanted, len(sums)) == (len(counts) if len(counts) <= 8 else None)


def order(op: str, ids: Sequence[Any], change: dict[str, Any] | None = None) -> IdOrder | None:
    head: dict[str, Any] = {"op": op, "ns": "shop.orders", "ui": Binary(b"u" * 16, 4)}
    o = {"$v": 2, "diff": change or {"u": {"n": 1}}}
    bodies = [{"o": o, "o2": {"_id": one}} if op == "u" else {"o": {"_id": one}} for one in ids]
    return order_of([bson.encode(head | body | {"ts": bson.Timestamp(9, 1), "v": Int64(2)}) for body in bodies])


def object_id(process: int, counter: int) -> ObjectId:
    return ObjectId(b"time" + bytes([process]) * 5 + counter.to_bytes(3, "big"))


@pytest.mark.parametrize("op", ["d", "u"])
def test_the_order_of_a_stretch_is_that_of_its_ids(op: str) -> None:
    def told(*ids: Any) -> tuple[int, int] | None:
        found = order(op, ids)
        return found and (found.direction, found.neighbours)

    assert told(1, 2, 3, 4, 7) == (1, 3)
    assert told(9, 8, 7, 5, 3) == (-1, 0)
    assert told(1, 2, 3, 4) == (0, 3)
    assert told(1, 2, 3, 5, 4) == (0, 2)
    assert told(1, 2, 2, 3, 4) == (0, 3)
    assert told(-3, -2, -1, 0, Int64(5)) == (1, 3)
    assert told("a", "b", "ba", "c", "d") == (1, 0)
    assert told(1, 2, "3", "4", "5") == (0, 1)
    assert told(*(object_id(1, n) for n in (1, 2, 3, 5, 6))) == (1, 3)
    assert told(object_id(1, 1), object_id(2, 2), object_id(2, 3)) == (0, 1)
    assert told(1, 2, {"a": 1}) is None
    assert told(1, 2, 3.5) is None
    fields = frozenset() if op == "d" else frozenset({b"a", b"n"})
    found = order(op, [1, 2], {"u": {"n": 1}, "sa": {"i": {"b": 2}}})
    assert found == IdOrder(("number", 1), ("number", 2), 0, 1, fields)


def test_two_stretches_are_one_where_the_second_goes_on_and_two_where_it_begins_again() -> None:
    def stretch(first: Any, last: Any, direction: int, fields: str = "") -> IdOrder:
        kind = "text" if isinstance(first, str) else "number"
        return IdOrder((kind, first), (kind, last), direction, 0, frozenset(one.encode() for one in fields))

    up, down = stretch(1, 9, 1), stretch(9, 1, -1)
    for one, other, goes in (
        (up, stretch(10, 20, 1), True),
        (up, stretch(9, 20, 1), False),
        (up, stretch(5, 20, 1), False),
        (up, stretch(10, 5, -1), False),
        (up, stretch(10, 20, 0), None),
        (up, stretch("a", "b", 1), None),
        (down, stretch(0, -5, -1), True),
        (down, stretch(2, 0, -1), False),
        (stretch(1, 9, 0), stretch(1, 9, 0), None),
        (stretch(1, 9, 1, "ab"), stretch(10, 20, 1, "bc"), True),
        (stretch(1, 9, 1, "ab"), stretch(10, 20, 1, "c"), False),
        (stretch(1, 9, 1, "ab"), stretch(10, 20, 1), True),
    ):
        assert one.goes_on_in(other) is goes, (one, other)
