"""What a process knows about a pool: full documents are skipped, overlaps are refused, and no id is lost."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bson import Int64
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tallyglass.allocate.errors import CounterTypeError, PoolOverlap
from tallyglass.allocate.pool_map import PoolLayout, PoolMap


def documents(layout: PoolLayout) -> list[dict[str, Any]]:
    return [{"_id": layout.key(n), **layout.new_document(n)} for n in range(layout.documents)]


class Map(RuleBasedStateMachine):
    """Rows fill up by this process and by others, the pool is read again, documents vanish."""

    @initialize(count=st.integers(1, 6), span=st.integers(1, 20))
    def begin(self, count: int, span: int) -> None:
        self.layout = PoolLayout(count, span, first=7)
        self.stored = {row["_id"]: row for row in documents(self.layout)}
        self.map = PoolMap()
        self.read()

    @rule()
    def read(self) -> None:
        self.map.load(self.layout, self.stored.values(), "x")

    @rule(least=st.integers(1, 8))
    def take(self, least: int) -> None:
        row = self.map.choose(least)
        if row is None:
            assert all(known.room < least for known in self.map.rows.values())
            return
        stored = self.stored.get(row.key)
        if stored is None:
            self.map.remove(row)
            return
        left = row.end - stored["COUNT"]
        if least <= left:
            stored["COUNT"] += least
        self.map.update(row, next_id=stored["COUNT"])

    @rule(n=st.integers(1, 5))
    def another_process_takes(self, n: int) -> None:
        if self.stored:
            row = random.choice(list(self.stored.values()))
            row["COUNT"] = min(row["MAX_VALUE"], row["COUNT"] + n)

    @rule()
    def one_vanishes(self) -> None:
        if len(self.stored) > 1:
            self.stored.popitem()

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "map"):
            rows = self.map.rows.values()
            assert self.map.full == sum(row.room == 0 for row in rows)
            assert self.map.room() == sum(row.room for row in rows)
            for row in rows:
                if row.key in self.stored:
                    assert row.room >= row.end - self.stored[row.key]["COUNT"], "room that is there is not seen"


Map.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestMap = Map.TestCase


def test_pool_documents_match_the_article_and_are_adjacent() -> None:
    layout = PoolLayout(3, 10, first=100)
    rows = documents(layout)
    assert [(row["COUNT"], row["MAX_VALUE"]) for row in rows] == [(100, 110), (110, 120), (120, 130)]
    assert all(isinstance(row["COUNT"], Int64) and isinstance(row["MAX_VALUE"], Int64) for row in rows)
    assert PoolLayout().start(999) + PoolLayout().span == 10**12


def test_a_maximum_equal_to_the_last_id_of_a_span_is_not_an_overlap() -> None:
    rows = [{"_id": n, "COUNT": n * 10, "MAX_VALUE": n * 10 + 9} for n in range(3)]
    PoolMap().load(PoolLayout(), rows, "x")


def test_overlapping_documents_are_refused() -> None:
    rows = [{"_id": 1, "COUNT": 0, "MAX_VALUE": 10}, {"_id": 2, "COUNT": 9, "MAX_VALUE": 20}]
    with pytest.raises(PoolOverlap):
        PoolMap().load(PoolLayout(), rows, "x")
    same_end = [{"_id": 1, "COUNT": 5, "MAX_VALUE": 10}, {"_id": 2, "COUNT": 10, "MAX_VALUE": 10}]
    with pytest.raises(PoolOverlap):
        PoolMap().load(PoolLayout(), same_end, "x")
    with pytest.raises(CounterTypeError):
        PoolMap().load(PoolLayout(), [{"_id": 1, "COUNT": 1.0, "MAX_VALUE": 10}], "x")


def test_invalid_pools_are_refused() -> None:
    for wrong in ({"documents": 0}, {"span": 0}, {"first": -1}, {"documents": 10**10, "span": 10**10}):
        with pytest.raises(ValueError, match="pool"):
            PoolLayout(**wrong)


def test_a_late_reply_does_not_lower_what_was_seen() -> None:
    known = PoolMap()
    known.load(PoolLayout(1, 10), documents(PoolLayout(1, 10)), "x")
    row = known.choose(1)
    assert row is not None
    assert not known.update(row, next_id=8)
    assert not known.update(row, next_id=5)
    assert (row.seen, row.room) == (8, 2)
    assert known.update(row, next_id=10)
    assert known.choose(1) is None


def test_a_document_is_full_once_and_only_as_it_was_read_last() -> None:
    layout, known = PoolLayout(2, 10), PoolMap()
    known.load(layout, documents(layout), "x")
    old = known.rows[layout.key(0)]
    known.load(layout, documents(layout), "x")
    new = known.rows[layout.key(0)]
    assert not known.update(old, next_id=10), "another row has taken its place"
    assert (known.full, known.room(), old.room, new.room) == (0, 20, 0, 10)
    assert [known.update(new, next_id=10) for _ in range(2)] == [True, False]
    assert (known.full, known.room()) == (1, 10)
    assert all(known.choose(10) is known.rows[layout.key(1)] for _ in range(9))
    assert known.choose(11) is None
    known.remove(old)
    assert set(known.rows) == {layout.key(0), layout.key(1)}
    known.remove(new)
    assert (set(known.rows), known.full) == ({layout.key(1)}, 0)
    known.load(layout, documents(layout), "x")
    assert (known.rows[layout.key(0)].seen, known.rows[layout.key(0)].room) == (10, 10), "what was seen is kept"
