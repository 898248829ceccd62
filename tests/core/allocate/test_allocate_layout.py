"""Requests and replies: for every layout, value, size and ceiling, the ids granted are the ids that were free."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Decimal128, Int64
from hypothesis import given, settings
from hypothesis import strategies as st
from pymongo import MongoClient, WriteConcern

from tallyglass.allocate.counter import Counter
from tallyglass.allocate.errors import CounterTypeError
from tallyglass.allocate.layout import ARTICLE, MANUAL, Layout, granted, increment, number_in
from tallyglass.counters.limits import INT64_MAX

LAYOUTS = st.sampled_from([ARTICLE, MANUAL])


def server(document: dict[str, Any], filter_: dict[str, Any], update: dict[str, Any]) -> dict[str, Any] | None:
    """What mongod does with such a request, for one document; the document before it."""
    ((name, guard),) = ((k, v) for k, v in filter_.items() if k != "_id")
    value = document[name]
    if isinstance(value, float) or value > guard["$lte"]:
        return None
    before = dict(document)
    document[name] = Int64(value + update["$inc"][name])
    assert -(2**63) <= document[name] <= INT64_MAX
    return before


@settings(max_examples=300, deadline=None)
@given(LAYOUTS, st.integers(0, 60), st.lists(st.integers(1, 30), max_size=12), st.sampled_from([0, INT64_MAX - 60]))
def test_ranges_follow_each_other_up_to_the_ceiling(layout: Layout, room: int, sizes: list[int], base: int) -> None:
    highest = min(layout.highest_id(), base + room)
    document: dict[str, Any] = {"_id": 1, layout.field: Int64(layout.stored(base))}
    expected = base
    for n in sizes:
        request = increment(layout, 1, n, highest)
        before = server(document, request.filter, request.update)
        if expected + n - 1 > highest:
            assert before is None
        else:
            assert before is not None
            ids = granted(layout, request, before, "x")
            assert ids == range(expected, expected + n)
            expected += n
    assert number_in(layout, document, "x") == layout.stored(expected)


@pytest.mark.parametrize("value", [1.0, Decimal128("1"), "1", None, True, float("nan"), [1]])
def test_only_integers_are_numbers(value: object) -> None:
    with pytest.raises(CounterTypeError):
        number_in(MANUAL, {"next": value}, "x")
    with pytest.raises(CounterTypeError):
        number_in(Layout("a.b", MANUAL.semantics), {"a": value}, "x")


@pytest.mark.parametrize(
    ("path", "guarded"), [("a.0.n", ["a"]), ("a.b.1", ["a.b"]), ("a.2026-11-25.n", []), ("0.n", [])]
)
def test_an_element_of_an_array_is_not_incremented(path: str, guarded: list[str]) -> None:
    guard = {name: {"$not": {"$type": "array"}} for name in guarded}
    assert increment(Layout(path, MANUAL.semantics), 1, 1, 9).filter.items() >= guard.items()
    assert Layout(path, MANUAL.semantics).outside_arrays() == guard


@pytest.mark.parametrize(
    ("concerns", "level"),
    [
        ({}, "majority"),
        ({"write_concern": WriteConcern("majority", wtimeout=5_000)}, "majority"),
        ({"unsafe_write_concern": WriteConcern(1)}, "local"),
    ],
)
def test_a_majority_write_concern_implies_majority_reads(concerns: dict[str, Any], level: str) -> None:
    with MongoClient[Any](connect=False) as client:
        collection = Counter(client.shop.counters, "orders", **concerns).core.collection
        assert collection.read_concern.level == level
