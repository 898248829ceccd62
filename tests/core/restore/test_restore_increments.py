"""Numbers to which others only add: when that is known, and what becomes of a document then."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Int64

from tallyglass.restore.undo.account import DocumentState, DocumentTrace
from tallyglass.restore.undo.counterfactual import Counterfactual, Verdict
from tallyglass.restore.undo.increments import IncrementSearch


def diff(**fields: Any) -> bytes:
    return bson.encode({"$v": 2, "diff": {"u": fields}})


def found(rows: list[tuple[Any, Any]]) -> dict[Any, int]:
    search = IncrementSearch()
    for id_, (before, after) in enumerate(rows):
        search.feed(bson.encode({"_id": id_, "n": before}), diff(n=after))
    return search.found


@pytest.mark.parametrize(
    ("rows", "known"),
    [
        ([(0, 5), (3, 8), (200, 205), (3, 8)], {(b"n",): 5}),
        ([(Int64(0), Int64(5)), (3, 8), (200, 205), (3, 8)], {(b"n",): 5}),
        ([(0, 5), (3, 8), (200, 205)], {}),
        ([(0, 5), (3, 8), (3, 8), (0, 5)], {}),
        ([(0, 5), (3, 8), (200, 205), (3, 9)], {}),
        ([(0, 5), (3, 8), (200, 205), (3, "8")], {}),
        ([(0.0, 5.0), (3.0, 8.0), (2.0, 7.0), (1.0, 6.0)], {(b"n",): 5}),
        ([(0.0, 0.5), (3, 3.5), (2.0, 2.5), (1.0, 1.5)], {}),
        ([(1, 2), (2, 4), (3, 6), (4, 8)], {}),
    ],
    ids=[
        "always 5",
        "two types",
        "three writes",
        "two numbers",
        "another once",
        "a text once",
        "doubles",
        "halves",
        "doubled",
    ],
)
def test_what_others_only_add(rows: list[tuple[Any, Any]], known: dict[Any, int]) -> None:
    assert found(rows) == known


@pytest.mark.parametrize(
    ("rows", "is_explained"),
    [
        ([(0, 5), (3, 8), (200, 205), (3, 8)], True),
        ([(0.0, 0.5), (3, 3.5), (2.25, 2.75), (1, 1.5)], True),
        ([(1, 2), (2, 4), (3, 6), (4, 8)], True),
        ([(1, 1.1), (2, 2.2), (3, 3.3), (4, 4.4)], False),
        ([(1.0, 1e16 + 2), (2.0, 1e16 + 2), (3.0, 1e16 + 2), (1.0, 1e16 + 2)], False),
        ([(49.0, 1.0), (98.0, 2.0), (196.0, 4.0), (392.0, 8.0)], False),
        ([(1, 2), (2, 4), (3, 6), (4, 9)], False),
        ([(1, 2), (2, 4), (3, 6), (4, "8")], False),
        ([(1, 2), (2, 4), (3, 6), ("4", 8)], False),
        ([(1, 2), (2, 4), (2, 4), (1, 2)], False),
        ([(0, 5), (3, 8), (200, 205)], False),
    ],
    ids=[
        "sum",
        "half",
        "product",
        "not exact",
        "rounded sum",
        "rounded product",
        "one not",
        "a text after",
        "a text before",
        "two numbers",
        "three writes",
    ],
)
def test_what_one_formula_explains(rows: list[tuple[Any, Any]], is_explained: bool) -> None:
    search = IncrementSearch()
    for before, after in rows:
        search.feed(bson.encode({"_id": 1, "n": before}), diff(n=after))
    assert search.explained == ({(b"n",)} if is_explained else set())


def test_an_increment_makes_a_field_that_is_not_there() -> None:
    search = IncrementSearch()
    for before in (1, 2, 3):
        search.feed(bson.encode({"_id": before, "n": before}), diff(n=before + 5))
    search.feed(bson.encode({"_id": 1}), diff(n=5))
    assert (search.found, search.explained) == ({}, {(b"n",)}), "three documents"
    search.feed(bson.encode({"_id": 4}), diff(n=5))
    assert (search.found, search.explained) == ({(b"n",): 5}, {(b"n",)})
    search.feed(bson.encode({"_id": 1}), diff(n=6))
    assert (search.found, search.explained) == ({}, set())


COPY = bson.encode({"_id": 1, "n": 100, "other": 7})
STEP = {(b"n",): 5, (b"other",): 1}


def test_a_later_increment_stays_on_the_value_without_the_accident() -> None:
    """``$mul`` by 2 was the accident, and 5 was added: 105, not 205."""
    document, trace = Counterfactual(COPY, COPY, increments=STEP), DocumentTrace(COPY, increments=STEP)
    document.accident("u", diff(n=200))
    document.others("u", diff(n=205))
    assert document.verdict is Verdict.DAMAGED
    assert document.wanted == bson.encode({"_id": 1, "n": 105, "other": 7})
    trace.accident("u", diff(n=200))
    trace.others("u", diff(n=205))
    assert trace.state is DocumentState.HOLDS
    trace.repair("u", diff(n=105))
    assert trace.state is DocumentState.RIGHT


def test_an_increment_that_may_be_a_product_stays_unclear() -> None:
    """Others add 5 to many numbers; 5 after 10 may be what they doubled."""
    document, trace = Counterfactual(COPY, COPY, increments=STEP), DocumentTrace(COPY, increments=STEP)
    for one in (document, trace):
        one.accident("u", diff(n=5))
        one.others("u", diff(n=10))
    assert document.verdict is Verdict.UNCLEAR
    assert trace.state is DocumentState.COMPUTED


@pytest.mark.parametrize("after", [206, 205.0, Int64(205)])
def test_another_change_or_type_stays_unclear(after: Any) -> None:
    document, trace = Counterfactual(COPY, COPY, increments=STEP), DocumentTrace(COPY, increments=STEP)
    for one in (document, trace):
        one.accident("u", diff(n=200))
        one.others("u", diff(n=after))
    assert document.verdict is Verdict.UNCLEAR
    assert trace.state is DocumentState.COMPUTED


def test_a_number_that_is_counted_up_is_not_computed_from_another_field() -> None:
    for steps, state in ((STEP, DocumentState.HOLDS), ({}, DocumentState.COMPUTED)):
        trace = DocumentTrace(COPY, increments=steps)
        trace.accident("u", diff(n=8))
        trace.others("u", diff(other=8))
        assert trace.state is state
