"""Requests and replies: for every layout, value, size and ceiling, the ids granted are the ids that were free."""

from __future__ import annotations

from datetime import UTC, datetime
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


CONVERT = 'convert it with updateOne({_id: ...}, [{$set: {"next": {$toLong: "$next"}}}])'
SET = "set it to an integer above every id that was used"


@pytest.mark.parametrize(
    ("value", "kind", "fix"),
    [
        (7.0, "double", CONVERT),
        (2.0**53, "double", CONVERT),
        (2.0**63, "double", SET),
        (float("nan"), "double", SET),
        (float("-inf"), "double", SET),
        (Decimal128("7"), "decimal", CONVERT),
        (Decimal128("9223372036854775808"), "decimal", SET),
        (Decimal128("NaN"), "decimal", SET),
        ("-7", "string", CONVERT),
        ("7.5", "string", SET),
        ("x", "string", SET),
        (True, "boolean", SET),
        ([7], "array", SET),
        ({"a": 7}, "object", SET),
        (datetime(2026, 1, 1, tzinfo=UTC), "datetime", SET),
    ],
)
def test_the_remedy_for_another_type_is_one_that_works(value: object, kind: str, fix: str) -> None:
    why = {
        "double": "A double stalls at 2^53 and then issues the same id to every caller, without an error.",
        "decimal": "A decimal has 34 digits and then stalls, and other libraries cannot read it as an id.",
    }.get(kind, "It cannot be incremented.")
    with pytest.raises(CounterTypeError) as wrong:
        number_in(MANUAL, {"next": value}, "x")
    assert wrong.value.type_name == kind
    assert wrong.value.title == f"x keeps next as a {kind}, not as an integer."
    assert wrong.value.advice == f"{why} Stop its writers, {fix}, and find what writes it as a {kind}."


@pytest.mark.parametrize(
    ("path", "guarded"), [("a.0.n", ["a"]), ("a.b.1", ["a.b"]), ("a.2026-11-25.n", []), ("0.n", [])]
)
def test_an_element_of_an_array_is_not_incremented(path: str, guarded: list[str]) -> None:
    guard = {name: {"$not": {"$type": "array"}} for name in guarded}
    assert increment(Layout(path, MANUAL.semantics), 1, 1, 9).filter.items() >= guard.items()
    assert Layout(path, MANUAL.semantics).outside_arrays() == guard


def test_nothing_matches_where_no_number_of_64_bits_is_below_the_ceiling() -> None:
    lowest = -(2**63)
    for n, operator in ((6, "$lte"), (7, "$lt"), (100, "$lt")):
        request = increment(MANUAL, 1, n, lowest + 6)
        assert request.filter["next"] == {"$type": ["int", "long"], operator: lowest}


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
