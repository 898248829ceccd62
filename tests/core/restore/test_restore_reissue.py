"""Which counters are moved forward, where, and what happens where one is not there."""

from __future__ import annotations

import pytest
from bson import ObjectId

from tallyglass.moment import Ts
from tallyglass.restore.proof.counter_fix import Fix
from tallyglass.restore.proof.counter_search import (
    CounterSearch,
    SeenNumber,
    _is_reachable,
    _row,
    greater,
    result_of,
    smaller,
)


def test_only_what_was_there_at_the_point_or_is_gone_is_moved() -> None:
    unknown: list[str] = []
    assert _row(SeenNumber("s.counters", "orders", "seq", issued=7, now=7, live=True), unknown) is None, "made later"
    made = _row(SeenNumber("s.counters", "orders", "seq", issued=7), unknown)
    assert made is not None
    assert "upsert" in made.fix
    moved = _row(SeenNumber("s.counters", "orders", "seq", restored=5, issued=7, now=7, live=True), unknown)
    assert moved is not None
    assert '{"$max": {"seq": NumberInt(7)}}' in moved.fix
    assert "upsert" not in moved.fix


@pytest.mark.parametrize(
    ("restored", "now", "comes_back", "spare_stops", "source"),
    [
        (5, 7, True, True, "stops"),
        (5, 7, False, True, "nothing"),
        (5, 6, False, True, "stops"),
        (5, None, True, True, "stops"),
        (5, None, False, True, "nothing"),
        (None, None, False, False, "nothing"),
        (None, None, True, False, "stops"),
    ],
)
def test_a_counter_that_must_be_there_and_is_not_stops_the_script(
    restored: int | None, now: int | None, comes_back: bool, spare_stops: bool, source: str
) -> None:
    seen = SeenNumber("s.counters", "orders", "seq", restored=restored, issued=7, now=now, live=now is not None)
    row = _row(seen, [])
    assert row is not None
    fix = Fix(seen.ns, row, restored is not None, seen.live, lowered=seen.was_lowered)
    assert fix.on_spare().startswith("mustMatch(") is spare_stops
    assert fix.makes is (restored is None and now is None)
    on_source = fix.on_source(comes_back=comes_back)
    assert (on_source == "") is (source == "nothing")
    assert ("Set it to 7 or past it" in on_source) is (source == "stops")


@pytest.mark.parametrize(
    ("restored", "issued", "now", "least"),
    [
        (1005, 3, 3, 1005),
        (1005, 1010, 3, 1010),
        (1005, None, None, 1005),
        (None, 50, 3, 50),
        (1005, 1010, 1010, 1010),
        (1005, 1005, 1005, None),
    ],
)
def test_a_counter_goes_to_the_greatest_of_restored_issued_and_live(
    restored: int | None, issued: int | None, now: int | None, least: int | None
) -> None:
    seen = SeenNumber("s.counters", "orders", "seq", restored, issued, now, live=now is not None)
    row = _row(seen, [])
    assert (row.live if row else None) == least


def test_a_counter_without_a_name_is_not_created_again() -> None:
    unknown: list[str] = []
    assert _row(SeenNumber("s.counters", ObjectId(), "seq", issued=7), unknown) is None
    assert "start it above 7" in unknown[0]


@pytest.mark.parametrize(
    ("one", "other", "less", "more"),
    [(1, 2, 1, 2), (2, 1, 1, 2), (2, 2, 2, 2), (None, 1, 1, 1), (1, None, 1, 1), (None, None, None, None)],
)
def test_no_number_is_neither_the_smaller_nor_the_greater(
    one: int | None, other: int | None, less: int | None, more: int | None
) -> None:
    assert (smaller(one, other), greater(one, other)) == (less, more)


@pytest.mark.parametrize(("restored", "live", "said"), [(5, False, True), (5, True, False), (None, False, False)])
def test_a_counter_that_was_made_again_under_another_id_is_named(restored: int | None, live: bool, said: bool) -> None:
    search = CounterSearch(Ts(20, 1))
    for number, (at_point, is_live) in enumerate(((restored, live), (None, True))):
        one = SeenNumber("s.c", ObjectId(), "seq", restored=at_point, issued=9, live=is_live, label="orders")
        search.seen["s.c", bytes([number]), "seq"] = one
    assert any("has another document for orders now" in word for word in result_of(search, []).unknown) is said


def test_a_path_that_would_mean_something_else_is_not_emitted() -> None:
    assert list(filter(_is_reachable, ["seq", "a.b", "$seq", "a.$b", "a..b", ""])) == ["seq", "a.b"]
