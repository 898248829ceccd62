"""How many requests it takes to date the ids of a collection."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations, pairwise
from typing import Any, cast

import pytest
from bson import ObjectId
from hypothesis import given
from hypothesis import strategies as st

from tallyglass.counters.follow.drift import LargestId
from tallyglass.counters.follow.past_reader import MOST_DATED, PastReader
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.history.objectid_samples import POINTS, _rising, read_dated
from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.identity import Identity
from tallyglass.counters.snapshot import NumericType, Semantics
from tallyglass.counters.standing import IdSpan
from tallyglass.mongo.gateway import Gateway, Namespace

START = 1_795_000_000
LATER = START + 86_400 * 365


class Dated:
    """A collection with a document for each of some seconds, numbered from 1."""

    def __init__(self, seconds: int, every: int) -> None:
        moments = range(START, START + seconds + 1, every)
        made = (ObjectId.from_datetime(datetime.fromtimestamp(at, UTC)) for at in moments)
        self._rows: list[dict[str, Any]] = [{"_id": one, "n": number} for number, one in enumerate(made, start=1)]
        self.asked = 0

    def number(self, *numbers: int | str | None) -> None:
        """Give the first documents these instead of their numbers."""
        for row, number in zip(self._rows, numbers, strict=False):
            row["n"] = number

    def insert(self, key: ObjectId) -> None:
        """A last document, without a number."""
        self._rows.append({"_id": key})

    async def find_one(
        self, ns: Namespace, query: dict[str, Any], *, sort: list[tuple[str, int]], **how: Any
    ) -> dict[str, Any] | None:
        self.asked += 1
        least = query["_id"].get("$gte", ObjectId(bytes(12)))
        end = query["_id"].get("$lt", ObjectId(b"\xff" * 12))
        found = [row for row in self._rows if least <= row["_id"] < end]
        return found[0 if sort[0][1] > 0 else -1] if found else None


@pytest.mark.parametrize(("seconds", "every", "requests"), [(50, 5, 4), (600, 5, 13), (86_400 * 60, 3600, POINTS + 3)])
async def test_a_young_collection_takes_few_requests(seconds: int, every: int, requests: int) -> None:
    gateway, target = Dated(seconds, every), IdField(Namespace("shop", "orders"), "n")
    found = await read_dated(cast("Gateway", gateway), target, 10**6, NumericType.INT64, 0, until=LATER)
    assert gateway.asked == requests
    assert (found[0].number, found[-1].number) == (1, seconds // every + 1)
    assert len(found) == requests - 2


async def test_a_document_from_the_future_does_not_hide_the_past() -> None:
    gateway, target = Dated(86_400 * 60, 86_400), IdField(Namespace("shop", "orders"), "n")
    gateway.insert(ObjectId("fffffff0" + "0" * 16))
    found = await read_dated(cast("Gateway", gateway), target, 10**6, NumericType.INT64, 0, until=LATER)
    assert (found[0].number, found[-1].number) == (1, 61)


async def test_an_old_collection_is_dated_over_the_last_four_months() -> None:
    gateway, target = Dated(86_400 * 200, 86_400), IdField(Namespace("shop", "orders"), "n")
    found = await read_dated(cast("Gateway", gateway), target, 10**6, NumericType.INT64, 0, until=LATER)
    assert [past.number for past in found] == list(range(81, 202))


@pytest.mark.parametrize(
    ("step", "semantics", "ahead"),
    [(1, Semantics.LAST, 0), (1, Semantics.NEXT, 1), (-1, Semantics.LAST, 0), (-1, Semantics.NEXT, -1)],
)
@pytest.mark.parametrize("moves", [False, True])
async def test_the_past_of_a_counter_is_that_of_its_ids_or_one_ahead_of_them_up_and_down(
    step: int, semantics: Semantics, ahead: int, moves: bool
) -> None:
    gateway, target = Dated(600, 60), IdField(Namespace("shop", "orders"), "n")
    ids = [*range(1, 12)][::step]
    gateway.number(*ids)
    ns = Namespace("shop", "counters")
    identity = Identity("key", ns, str(ns), "orders", "orders", "seq", "seq", "manual", "", semantics, step=step)
    tracker = Tracker(identity)
    for n in range(1 + moves):
        tracker.observe(ids[-1] + ahead + n * step, NumericType.INT64, START + 700 + n)
    past = PastReader(cast("Gateway", gateway), None, time.time, oplog=False)
    largest = LargestId((target,), IdSpan(1, 11), documents=11, read_at=0.0, dated=True)
    await past.fill_dated([tracker], {"key": largest}, 60, last=True)
    assert [step * value for value in tracker.series.values[:12]] == [number + ahead for number in [*ids, ids[-1]]]
    assert past.troubles == {}


@pytest.mark.parametrize(("semantics", "ahead"), [(Semantics.LAST, 0), (Semantics.NEXT, 2)])
async def test_ids_of_another_counter_between_two_of_its_own_are_none_of_its_past(
    semantics: Semantics, ahead: int
) -> None:
    gateway, target, ns = Dated(600, 60), IdField(Namespace("shop", "orders"), "n"), Namespace("shop", "counters")
    gateway.number(1, 2, 3, 4, 6, 5, 8, 7, 9, 10, 11)
    identity = Identity("key", ns, str(ns), "odd", "odd", "seq", "seq", "manual", "", semantics, step=2, ids_apart=2)
    tracker = Tracker(identity)
    tracker.observe(11 + ahead, NumericType.INT64, START + 700)
    largest = LargestId((target,), IdSpan(1, 11), documents=11, read_at=0.0, dated=True)
    await PastReader(cast("Gateway", gateway), None, time.time, oplog=False).fill_dated(
        [tracker], {"key": largest}, 60, last=True
    )
    assert tracker.series.values == [*(number + ahead for number in (1, 3, 5, 7, 9, 11)), 11 + ahead]


async def test_as_many_counters_are_dated_as_may_be_whatever_others_have_no_object_ids() -> None:
    gateway, target, ns = Dated(600, 60), IdField(Namespace("shop", "orders"), "n"), Namespace("shop", "counters")
    trackers = []
    for n in range(2 * MOST_DATED + 1):
        tracker = Tracker(Identity(f"{n}", ns, str(ns), f"{n}", f"{n}", "seq", "seq", "manual", "", Semantics.LAST))
        tracker.observe(11, NumericType.INT64, START + 700)
        trackers.append(tracker)
    plain = LargestId((target,), IdSpan(1, 11), documents=11, read_at=0.0, dated=False)
    own = trackers[MOST_DATED:]
    largest = {one.identity.key: replace(plain, dated=one in own) for one in trackers}
    past = PastReader(cast("Gateway", gateway), None, time.time, oplog=False)
    for _ in range(2):
        await past.fill_dated(trackers, largest, 60, last=True)
    assert [one in own[:-1] for one in trackers] == [len(one.series) > 1 for one in trackers]


async def test_documents_without_a_number_or_with_another_counters_date_nothing() -> None:
    gateway, target = Dated(600, 60), IdField(Namespace("shop", "orders"), "n")
    gateway.number(None, "2", 500, 4)
    found = await read_dated(cast("Gateway", gateway), target, 11, NumericType.INT64, 1, until=LATER)
    assert [(past.at - START, past.number) for past in found] == [(60 * n, n + 2) for n in range(3, 11)]
    gateway = Dated(240, 60)
    gateway.number(1, 5, 6, 2, 7)
    found = await read_dated(cast("Gateway", gateway), target, 11, NumericType.INT64, 0, until=LATER)
    assert [past.number for past in found] == [1, 5, 6, 7], "one that was written late"
    for alike_or_none in (Dated(0, 1), Dated(-1, 1)):
        assert await read_dated(cast("Gateway", alike_or_none), target, 11, NumericType.INT64, 0, until=LATER) == []


@given(st.lists(st.integers(0, 9), max_size=8))
def test_the_most_points_that_rise_are_kept(numbers: list[int]) -> None:
    def rises(chosen: Sequence[tuple[float, int]]) -> bool:
        return all(a[1] < b[1] for a, b in pairwise(chosen))

    points = [(float(at), number) for at, number in enumerate(numbers)]
    found = _rising(points[::-1])
    assert rises(found)
    assert found == sorted(set(found) & set(points))
    assert not any(map(rises, combinations(points, len(found) + 1)))
