"""The small rules that the rest rests on, each compared whole: why a counter went back, how a cycle is taken out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bson import Decimal128, Int64, ObjectId

from builders.counters import counter, snapshot
from tallyglass.counters.check_line import check_counters
from tallyglass.counters.follow import known
from tallyglass.counters.follow.collection import CounterCollection
from tallyglass.counters.follow.collections import FollowedCollections
from tallyglass.counters.follow.drift import with_neighbours
from tallyglass.counters.follow.known import KnownCounters
from tallyglass.counters.follow.pools import PoolOutlook, PoolPart, outlook
from tallyglass.counters.follow.restarts import Decrease, intended_reset, movement_of, only_descends
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.follow.watch import Watcher
from tallyglass.counters.forecast.cycle import joined, level_days, smooth_week, without_chance, without_weekdays
from tallyglass.counters.forecast.series import DAY, HOUR, Series
from tallyglass.counters.history.store import KnownCounter
from tallyglass.counters.numbers import read_number
from tallyglass.counters.recognise.config import IdField, Resets, parse_config
from tallyglass.counters.recognise.discovery import Discovery
from tallyglass.counters.recognise.identity import Identity
from tallyglass.counters.recognise.recogniser import bound_of
from tallyglass.counters.recognise.usage_reader import leaves
from tallyglass.counters.snapshot import Absence, CounterTrouble, Flag, Members, NumericType, Semantics
from tallyglass.counters.span import format_span
from tallyglass.counters.standing import IdSpan, Movement
from tallyglass.counters.verdict import CRITICAL, OK, Thresholds, grade
from tallyglass.mongo.gateway import Namespace

JUNE = datetime(2026, 6, 10, 12, tzinfo=UTC).timestamp()
JULY = datetime(2026, 7, 1, tzinfo=UTC).timestamp()
YEAR = datetime(2027, 1, 1, tzinfo=UTC).timestamp()

Falls = Sequence[tuple[float, int, int]]


@pytest.mark.parametrize(
    ("falls", "settings", "why"),
    [
        ([(JUNE, 500, 6)], {"cycle": True}, ""),
        ([(JUNE, 500, 5)], {"cycle": True}, "It cycles, as configured; last at 2026-06-10 12:00Z."),
        ([(JUNE, 98, 0)], {"cycle": True, "top": 99}, "It cycles, as configured; last at 2026-06-10 12:00Z."),
        ([(JUNE, 97, 0)], {"cycle": True, "top": 99}, ""),
        ([(JUNE, 10_900, 1_000)], {"cycle": True, "top": 11_000, "start": 1_000},
         "It cycles, as configured; last at 2026-06-10 12:00Z."),
        ([(JUNE, 10_899, 1_000)], {"cycle": True, "top": 11_000, "start": 1_000}, ""),
        ([(YEAR + 2 * DAY, 500, 1)], {"resets": Resets.YEARLY},
         "It starts again yearly, as configured; last at 2027-01-03 00:00Z."),
        ([(YEAR + 2 * DAY + 1, 500, 1)], {"resets": Resets.YEARLY}, ""),
        ([(JULY, 500, 1)], {"resets": Resets.MONTHLY},
         "It starts again monthly, as configured; last at 2026-07-01 00:00Z."),
        ([(JUNE, 500, 1)], {"resets": Resets.MONTHLY}, ""),
        ([(YEAR + 14 * HOUR, 500, 1)], {}, "It is reset each year; last at 2027-01-01 14:00Z."),
        ([(YEAR + 14 * HOUR + 1, 500, 1)], {}, ""),
        ([(JULY, 500, 1)], {}, ""),
        ([(JULY - 30 * DAY, 400, 1), (JULY, 500, 1)], {}, "It is reset each month; last at 2026-07-01 00:00Z."),
        ([(JULY - 30 * DAY, 400, 50), (JULY, 500, 1)], {}, ""),
        ([(JUNE, 300, 1), (JULY - 30 * DAY, 400, 1), (JULY, 500, 1)], {}, ""),
        ([(JUNE, 200, 1), (JULY - 30 * DAY, 400, 1), (JULY, 500, 1), (JULY + 31 * DAY, 600, 1)], {},
         "It is reset each month; last at 2026-08-01 00:00Z."),
        ([(JUNE, 300, 1), (JUNE + DAY, 400, 1), (JUNE + 2 * DAY + HOUR, 500, 1)], {},
         "It is reset each day; last at 2026-06-12 13:00Z."),
        ([(JUNE, 300, 1), (JUNE + DAY / 2, 9, 1)], {"resets": Resets.DAILY},
         "It starts again daily, as configured; last at 2026-06-11 00:00Z."),
        ([(JUNE, 300, 1), (JUNE + DAY / 2 - 1, 9, 1)], {"resets": Resets.DAILY}, ""),
        ([(JUNE, 300, 9), (JUNE + DAY / 2 - 1, 9, 1)], {"resets": Resets.DAILY},
         "It starts again daily, as configured; last at 2026-06-10 23:59Z."),
        ([(JULY, 300, 1), (JULY + DAY, 9, 1)], {"resets": Resets.MONTHLY}, ""),
        ([(JULY - 14 * DAY, 300, 1), (JULY, 9, 1)], {"resets": Resets.MONTHLY},
         "It starts again monthly, as configured; last at 2026-07-01 00:00Z."),
        ([(YEAR, 300, 1), (YEAR + DAY, 9, 1)], {"resets": Resets.YEARLY}, ""),
        ([(JUNE, 300, 1), (JUNE + DAY, 400, 1), (JUNE + 2 * DAY + HOUR + 1, 500, 1)], {}, ""),
        ([(JUNE, 300, 1), (JUNE + DAY - HOUR, 400, 1), (JUNE + 3 * DAY, 500, 1)], {},
         "It is reset each day; last at 2026-06-13 12:00Z."),
        ([(JUNE, 300, 1), (JUNE + 60, 400, 1), (JUNE + DAY, 500, 1)], {}, ""),
        ([(JUNE, 300, 1), (JUNE + DAY - HOUR, 400, 1), (JUNE + DAY + HOUR, 500, 1)], {}, ""),
        ([(JUNE + DAY, 400, 1), (JUNE + 2 * DAY, 500, 1)], {}, ""),
        ([(JUNE, 499, 1), (JUNE + 3_000, 500, 0)], {},
         "It cycles: it went back to its start from 500 twice; last at 2026-06-10 12:50Z."),
        ([(JUNE, 498, 1), (JUNE + 3_000, 500, 0)], {}, ""),
        ([(JUNE, 12_010, 2_000), (JUNE + 3_000, 12_000, 2_000)], {"start": 2_000},
         "It cycles: it went back to its start from 12000 twice; last at 2026-06-10 12:50Z."),
        ([(JUNE, 12_011, 2_000), (JUNE + 3_000, 12_000, 2_000)], {"start": 2_000}, ""),
        ([(JUNE, 500, 100), (JUNE + 3_000, 500, 0)], {}, ""),
    ],
)  # fmt: skip
def test_a_fall_to_the_start_is_intended_where_it_is_configured_or_regular(
    falls: Falls, settings: dict[str, Any], why: str
) -> None:
    known = {"start": 0, "cycle": False, "resets": None, "top": None} | settings
    assert intended_reset([Decrease(*fall) for fall in falls], **known) == why


@pytest.mark.parametrize(
    ("values", "descends", "movements"),
    [
        ((), False, (Movement.UNSEEN, Movement.RISES)),
        ((9, 8), False, (Movement.UNSEEN, Movement.RISES)),
        ((9, 8, 7), False, (Movement.UNSEEN, Movement.MIXED)),
        ((9, 8, 7, 6), True, (Movement.DESCENDS, Movement.MIXED)),
        ((9, 8, 7, 5), False, (Movement.UNSEEN, Movement.MIXED)),
    ],
)
def test_a_counter_descends_that_fell_three_times_by_the_same(
    values: tuple[int, ...], descends: bool, movements: tuple[Movement, Movement]
) -> None:
    falls = [Decrease(JUNE, high, low) for high, low in pairwise(values)]
    assert only_descends(falls) is descends
    assert (movement_of(False, falls), movement_of(True, falls)) == movements


def test_a_length_of_time_is_told_in_one_unit() -> None:
    told = {
        0: "0 s", 59.69: "60 s", 59.7: "1 min", 62: "1 min", 64: "1.1 min", 90: "1.5 min", 597: "9.9 min",
        630: "10 min", 3_581: "60 min", 3_582: "1 h", 5_400: "1.5 h", 85_967: "24 h", 85_968: "1 day",
        1.5 * DAY: "1.5 days", 10.4 * DAY: "10 days", 729.9 * DAY: "730 days", 730 * DAY: "2 years",
        3_652.5 * DAY: "10 years",
    }  # fmt: skip
    assert {seconds: format_span(seconds) for seconds in told} == told


def test_weekdays_and_chance_are_taken_out_of_days() -> None:
    assert joined([1, 2, 3, 4, 5, 6], 3) == [6, 15]
    assert joined([1, 2], 1) == [1, 2]
    days = [*range(7), *range(10, 17), *(n * n for n in range(7))]
    means = [(n + 10 + n + n * n) / 3 for n in range(7)]
    assert without_weekdays(days) == [day - means[n % 7] for n, day in enumerate(days)]
    week = [1.0, 3.0] * 5 + [0.0, 0.0, 2.0, 4.0]
    assert smooth_week(week) == [day * share / 26 for day in (4, 4, 4, 4, 4, 0, 6) for share in (7, 19)]
    assert smooth_week([0.0] * 14) == [0.0] * 14
    assert without_chance([1.0, 3.0], 0.25) == pytest.approx([1.25, 2.75])
    assert without_chance([1.0, 3.0], 9.0) == without_chance([2.0, 2.0], 0.0) == [2.0, 2.0]
    assert level_days(week, 0.0) == pytest.approx(week)
    assert level_days(week, 9.0) == pytest.approx([*[26 / 28, 78 / 28] * 5, 0, 0, 52 / 42, 104 / 42])


def test_the_oldest_point_of_a_series_is_kept_for_four_months() -> None:
    spans = []
    for days in (118, 121):
        series = Series()
        for day in range(-days, 0, 3):
            series.add(JUNE + day * DAY, day)
        for n in range(1_500):
            series.add(JUNE + 60 * n, 3 * n)
        spans.append(round(series.span / DAY))
    assert spans == [119, 119]


@pytest.mark.parametrize("hole", [3, 200])
def test_a_hole_makes_what_is_before_it_three_days_older_at_most(hole: int) -> None:
    series = Series()
    for day in range(-117, 0, 3):
        series.add(JUNE + day * DAY, day)
    for n in range(1_500):
        series.add(JUNE + (hole - 3) * DAY + 60 * n, 3 * n)
    assert (series.first, len(series) < 1_500) == (-117, True)
    assert list(series.times) == sorted(set(series.times))


@pytest.mark.parametrize(("apart", "oldest"), [(60.0, 1_500 * 60.0), (DAY / 10, 120 * DAY)])
def test_a_long_series_is_thinned_with_age_and_keeps_its_ends(apart: float, oldest: float) -> None:
    series = Series()
    for n in range(1_501):
        series.add(JUNE + apart * n, 3 * n)
    end = JUNE + 1_500 * apart
    assert (series.times[-1], series.last) == (end, 4_500)
    assert end - oldest <= series.times[0] < end - oldest + 2 * DAY
    assert series.values == [round(3 * (at - JUNE) / apart) for at in series.times]
    for before, at in pairwise(series.times[1:]):
        least = max(apart, (end - before) / 90)
        assert least <= at - before < least + apart


def test_the_numbers_of_a_document_are_found_to_some_depth_and_at_the_end_of_short_texts() -> None:
    document = {
        "n": 1, "long": Int64(2), "half": 0.5, "whole": 3.0, "exact": Decimal128("4"), "yes": True, "none": None,
        "at": ObjectId(), "invoice": "INV-2026/000123 b", "short": "a12", "more": f"{'x' * 45}789",
        "much": "x" * 46 + "789", "hash": "0123456789abcdef", "uuid": "6f9b2c00-0000-4000-8000-000000000123",
        "near": "0123456789abcde",
        "a": {"b": {"c": {"d": 5}}}, "deep": {"b": {"c": {"d": {"e": 6}}}}, "rows": [{"id": 7}, [8], *[9] * 20],
    }  # fmt: skip
    assert list(leaves(document)) == [
        ("n", 1, NumericType.INT32), ("long", 2, NumericType.INT64), ("half", 0.5, NumericType.DOUBLE),
        ("whole", 3, NumericType.DOUBLE), ("exact", 4, NumericType.DECIMAL), ("invoice", 123, NumericType.STRING),
        ("more", 789, NumericType.STRING), ("near", 123456789, NumericType.STRING), ("a.b.c.d", 5, NumericType.INT32),
        ("rows.0.id", 7, NumericType.INT32), ("rows.1.0", 8, NumericType.INT32),
        *((f"rows.{n}", 9, NumericType.INT32) for n in range(2, 20)),
    ]  # fmt: skip


def test_how_many_ids_of_a_pool_are_left_until_each_event() -> None:
    def parts(*left: int) -> list[PoolPart]:
        return [PoolPart(n, str(n), 0, 0, 100 - free, 100) for n, free in enumerate(left)]

    found = [
        outlook(parts(*left)) for left in ((100, 100, 100), (40, 60, 80, 100), (0, 50, 100), (0, 0, 40), (30,) * 6)
    ]
    assert found == [
        PoolOutlook(first_full=272, two_tries=288, empty=300),
        PoolOutlook(first_full=101, two_tries=191, empty=280),
        PoolOutlook(first_full=0, two_tries=71, empty=150),
        PoolOutlook(first_full=0, two_tries=0, empty=40),
        PoolOutlook(first_full=45, two_tries=180, empty=180),
    ]


NOW = JULY
SHOP = Namespace("shop", "counters")
KNOWN = KnownCounter("k", SHOP, "orders", "seq", "orders", many=False, at=NOW - 90 * DAY)
HELD: dict[str, Any] = {"truncated": False, "trackers": [1], "has_many": lambda _: False, "holds": lambda _: False}


@pytest.mark.parametrize(
    ("known", "world", "absence", "since"),
    [
        ({}, {}, Absence.GONE, NOW),
        ({"gone_at": NOW - 30 * DAY}, {}, Absence.GONE, NOW - 30 * DAY),
        ({"gone_at": NOW - 30 * DAY - 1}, {}, None, None),
        ({}, {"holds": lambda key: key == "orders"}, Absence.DOUBTED, None),
        ({"configured": True}, {"holds": lambda key: key == "orders"}, None, None),
        ({"configured": True}, {}, Absence.GONE, NOW),
        ({"document": 7}, {"holds": lambda key: key == "orders"}, Absence.GONE, NOW),
        ({}, {"has_many": lambda path: path == "seq"}, None, None),
        ({"many": True}, {"has_many": lambda path: path == "seq"}, None, None),
        ({"many": True}, {"trackers": []}, Absence.GONE, NOW),
        ({}, {"truncated": True}, Absence.NOT_READ, None),
        ({}, {"unread": True}, Absence.NOT_READ, None),
        ({}, {"followed": False}, Absence.NOT_READ, None),
        ({}, {"seen": False}, Absence.NOT_READ, None),
        ({"gone_at": NOW - DAY}, {"seen": False}, Absence.GONE, NOW - DAY),
        ({}, {"file": {"exclude": ["shop.*"]}}, "left out", None),
        ({}, {"file": {"counter": [{"collection": "shop.counters", "hide": True}]}}, "left out", None),
        ({}, {"file": {"counter": [{"collection": "shop.counters", "hide": True, "id": "x"}]}}, Absence.GONE, NOW),
        ({}, {"file": {"counter": [{"collection": "shop.others", "hide": True}]}}, Absence.GONE, NOW),
        ({}, {"acknowledged": "GONE"}, "left out", NOW),
        ({}, {"acknowledged": "RESET"}, Absence.GONE, NOW),
        ({}, {"present": {"k"}}, "left out", None),
    ],
)  # fmt: skip
def test_a_known_counter_that_is_not_there_is_missed_and_why(
    known: dict[str, Any], world: dict[str, Any], absence: Absence | str | None, since: float | None
) -> None:
    counters, one = KnownCounters(), replace(KNOWN, **known)
    counters.recall([one])
    file = dict(world.get("file", {}))
    if "acknowledged" in world:
        until = datetime(2999, 1, 1, tzinfo=UTC)
        file["acknowledge"] = [{"counter": "shop.counters orders", "flags": [world["acknowledged"]], "until": until}]
    held = {SHOP: SimpleNamespace(**{name: world.get(name, value) for name, value in HELD.items()})}
    followed = SimpleNamespace(
        by_ns=held if world.get("followed", True) else {}, unread={SHOP} if world.get("unread") else set()
    )
    found = counters.missing(
        world.get("present", ()),
        parse_config(file),
        {SHOP} if world.get("seen", True) else set(),
        cast("FollowedCollections", followed),
        NOW,
    )
    assert [(row.absence, row.since and row.since.timestamp()) for row in found] == (
        [(absence, since)] if isinstance(absence, Absence) else []
    )
    if absence is None:
        assert counters.changed == {"k": None}
    elif since == NOW:
        assert counters.changed == {"k": replace(one, gone_at=NOW)}
    else:
        assert counters.changed == {}


@pytest.mark.parametrize(
    ("document", "path", "known", "absence"),
    [
        ({"seq": 5}, "seq", {}, Absence.DOUBTED),
        ({"seq": "5"}, "seq", {}, Absence.DOUBTED),
        ({"n": 5}, "seq", {}, Absence.GONE),
        ({"a": {"seq": 5}}, "a.seq", {}, Absence.DOUBTED),
        ({"a": {}}, "a.seq", {}, Absence.GONE),
        ({"n": 5}, "seq", {"configured": True}, None),
        (None, "seq", {}, Absence.DOUBTED),
    ],
)
async def test_a_known_counter_whose_document_lost_its_number_is_gone_until_it_is_back(
    document: dict[str, Any] | None, path: str, known: dict[str, Any], absence: Absence | None
) -> None:
    class Server:
        asked = 0

        async def find_one(self, ns: Namespace, query: object, *, projection: dict[str, int]) -> dict[str, Any] | None:
            assert (ns, query, [*projection]) == (SHOP, {"_id": "orders"}, [path.partition(".")[0]])
            self.asked += 1
            return document

    counters, server = KnownCounters(), Server()
    held = SimpleNamespace(**HELD | {"holds": lambda _: True})
    followed = cast("FollowedCollections", SimpleNamespace(by_ns={SHOP: held}, unread=set()))
    one = replace(KNOWN, path=path, **known)
    for present, expected in (((), [absence]), ({"k"}, []), ((), [absence])):
        counters.recall([one])
        tracker = Tracker(Identity("k", SHOP, "shop.counters", "orders", "orders", path, path, "", "", Semantics.LAST))
        tracker.observe(5, NumericType.INT64, NOW)
        counters.learn([(replace(tracker.view(), key=key), tracker) for key in present], NOW)
        for _ in range(2):
            await counters.find_gone(cast("Any", server), {SHOP}, present, followed)
        found = counters.missing(present, parse_config({}), {SHOP}, followed, NOW)
        assert [row.absence for row in found] == [one for one in expected if one]
    assert server.asked == (0 if known else 2)


@pytest.mark.parametrize(
    ("name", "members", "row", "level", "unmatched"),
    [
        ("shop.counters t1", [(Flag.RESET,), ()], (), CRITICAL, ()),
        ("shop.counters t?", [(Flag.RESET,), (Flag.RESET,)], (), OK, ()),
        ("shop.counters *", [(Flag.RESET,), (Flag.RESET,)], (Flag.RESET,), OK, ()),
        ("shop.counters t3", [(), ()], (), CRITICAL, ("acknowledge shop.counters t3 matches no counter.",)),
        ("shop.counters * counters", [(), ()], (Flag.RESET,), CRITICAL, ()),
    ],
)
def test_a_flag_is_acknowledged_of_one_member_of_many(
    name: str, members: list[tuple[Flag, ...]], row: tuple[Flag, ...], level: int, unmatched: tuple[str, ...]
) -> None:
    notes = [{"counter": name, "flags": ["RESET"], "until": date(2100, 1, 1)}]
    worst = tuple(replace(counter(n), id=f"t{n}", flags=(Flag.RESET, Flag.GUESS)) for n in (1, 2))
    shown = replace(counter(0), id="9 counters", flags=(Flag.RESET,), members=Members(9, worst))
    watcher = Watcher(object(), WatchSettings(config=parse_config({"acknowledge": notes})))  # type: ignore[arg-type]
    found = watcher._acknowledged(shown)
    assert found.members
    assert [one.acknowledged for one in found.members.worst] == members
    assert (found.acknowledged, found is shown) == (row, not any((*members, row)))
    assert check_counters(snapshot(found)).level == level
    watcher._discovery._listed_at, watcher._rows = 0.0, [(((0, 0.0, 0.0), ""), shown, None)]  # type: ignore[list-item]
    assert watcher._unmatched() == unmatched
    assert Watcher(object(), WatchSettings())._acknowledged(shown) is shown  # type: ignore[arg-type]


def test_the_counters_at_a_path_are_one_row_where_they_are_a_group_or_a_pool() -> None:
    collection = CounterCollection(SHOP)
    collection.groups["next"] = collection.pools["COUNT", "MAX_VALUE"] = cast("Any", None)
    assert [collection.has_many(path) for path in ("next", "COUNT", "MAX_VALUE", "seq")] == [True, True, False, False]


async def test_what_is_still_to_be_compared_leaves_what_was_read_whole() -> None:
    gateway, config = cast("Any", None), parse_config({})
    followed = FollowedCollections(gateway, config, Discovery(gateway, config))
    assert list(followed.troubles()) == []
    followed._idle["shop"] = cast("Any", None)
    title = "Not all guesses are compared yet with the largest ids of their databases."
    assert list(followed.troubles()) == [CounterTrouble("", title, partial=True)]


def test_a_counter_is_recorded_once_and_again_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST_KNOWN", 2)
    counters, identity = KnownCounters(), Identity("", SHOP, "", "", "", "seq", "", "", "", Semantics.LAST)
    counters.recall([replace(KNOWN, key="back", gone_at=NOW - DAY)])
    rows = []
    for key in ("back", "a", "beyond"):
        tracker = Tracker(replace(identity, key=key))
        tracker.observe(5, NumericType.INT64, NOW)
        rows.append((tracker.view(), tracker))
    assert counters.learn(rows, NOW) == {"back", "a", "beyond"}
    told = {key: one and (one.at, one.gone_at) for key, one in counters.changed.items()}
    assert told == {"back": (KNOWN.at, None), "a": (NOW, None)}
    counters.changed = {}
    assert counters.learn(rows, NOW + DAY) == {"back", "a", "beyond"}
    assert counters.changed == {}


ORDERS = Namespace("shop", "orders")


@pytest.mark.parametrize(
    ("targets", "seen", "others", "routine"),
    [
        ((ORDERS,), {ORDERS}, (), False),
        ((ORDERS,), {ORDERS}, (Namespace("shop", "users"),), False),
        ((ORDERS,), {ORDERS}, (ORDERS,), True),
        ((ORDERS,), {Namespace("shop", "users")}, (), True),
        ((), {ORDERS}, (), True),
    ],
)
def test_a_dropped_collection_of_counters_is_no_routine_while_their_ids_are_there(
    targets: tuple[Namespace, ...], seen: set[Namespace], others: tuple[Namespace, ...], routine: bool
) -> None:
    counters = KnownCounters()
    dropped = replace(KNOWN, targets=targets, gone_at=NOW - DAY)
    counters.recall([dropped, replace(KNOWN, key="other", targets=others)])
    followed = cast("FollowedCollections", SimpleNamespace(by_ns={}, unread=set()))
    (found,) = counters.missing({"other"}, parse_config({}), seen, followed, NOW)
    assert (found.absence, found.routine) == (Absence.GONE, routine)


def test_the_collection_with_whose_ids_a_counter_was_compared_is_remembered() -> None:
    counters, target = KnownCounters(), IdField(ORDERS, "number")
    identity = Identity("k", SHOP, "", "", "", "seq", "", "", "", Semantics.LAST, targets=(target,))
    tracker = Tracker(identity)
    tracker.observe(5, NumericType.INT64, NOW)
    for drift, targets in ((None, ()), (0, (ORDERS,)), (None, (ORDERS,))):
        counters.learn([(replace(tracker.view(), drift=drift), tracker)], NOW)
        assert counters._known["k"].targets == targets


async def test_collections_that_are_not_read_in_time_are_counted_and_named() -> None:
    followed = FollowedCollections(cast("Any", None), parse_config({}), Discovery(cast("Any", None), parse_config({})))
    names = {Namespace("shop", f"counters{n}") for n in range(3)}
    followed.by_ns = {ns: CounterCollection(ns) for ns in names}
    await followed.read(time.monotonic() - 1)
    title = "The time was up before 3 of 3 collections with counters were read."
    assert list(followed.troubles()) == [CounterTrouble("*", title, "Try a longer --timeout.")]
    assert (followed.unread, followed.is_late) == (names, True)


@pytest.mark.parametrize(("there", "absence"), [(None, Absence.GONE), ({"_id": 1}, Absence.NOT_READ)])
async def test_a_collection_that_this_user_does_not_see_is_asked_for_once(
    there: dict[str, Any] | None, absence: Absence
) -> None:
    class Server:
        asked = 0

        async def find_one(self, ns: Namespace, query: object, *, projection: dict[str, int]) -> dict[str, Any] | None:
            assert (ns, query, projection) == (SHOP, {}, {"_id": 1})
            self.asked += 1
            return there

    counters, server = KnownCounters(), Server()
    counters.recall([KNOWN])
    followed = cast("FollowedCollections", SimpleNamespace(by_ns={}, unread=set()))
    for _ in range(2):
        await counters.find_gone(cast("Any", server), (), (), followed)
    assert [row.absence for row in counters.missing((), parse_config({}), set(), followed, NOW)] == [absence]
    assert server.asked == 1


class Ids:
    """The numbers 1 to 9 and 20 to 30 in a field of ids, and ``more``."""

    def __init__(self, *more: int) -> None:
        self.numbers = (*range(1, 10), *range(20, 31), *more)

    async def end(self, direction: int, within: dict[str, Any]) -> SimpleNamespace | None:
        found = [n for n in self.numbers if within["$gte"] <= n <= within["$lte"]]
        return SimpleNamespace(number=(max if direction < 0 else min)(found)) if found else None

    async def count(self, low: int, high: int) -> int:
        return sum(low <= n <= high for n in self.numbers)


@pytest.mark.parametrize(
    ("movement", "issued", "found"),
    [
        (Movement.UNSEEN, 20, {"below": 9, "above": 21}),
        (Movement.UNSEEN, 2, {"below": 1, "above": 3}),
        (Movement.UNSEEN, 29, {"below": 28, "above": 30}),
        (Movement.UNSEEN, 1, {}),
        (Movement.UNSEEN, 30, {}),
        (Movement.DESCENDS, 9, {"until_smallest": 8}),
        (Movement.DESCENDS, 15, {"until_smallest": 9}),
        (Movement.DESCENDS, 1, {}),
        (Movement.RISES, 20, {}),
        (Movement.UNSEEN, 20.5, {}),
        (Movement.UNSEEN, None, {}),
    ],
)
async def test_the_ids_beside_a_counter_are_read_where_its_direction_depends_on_them(
    movement: Movement, issued: float | None, found: dict[str, int]
) -> None:
    tracker = cast("Any", SimpleNamespace(issued=lambda: issued, movement=movement, step=1))
    assert await with_neighbours(cast("Any", Ids()), IdSpan(1, 30), tracker) == IdSpan(1, 30, **found)


@pytest.mark.parametrize(
    ("movement", "issued", "step", "more", "found"),
    [
        (Movement.RISES, 30, 1, [1_030], {}),
        (Movement.RISES, 30, 1, [1_031], {"later": 1_031}),
        (Movement.RISES, 30, 1, [1_030, 1_031, 5_000], {"soon": 1_030, "later": 1_031}),
        (Movement.RISES, 28, 1, [5_000], {"soon": 30, "later": 5_000}),
        (Movement.RISES, 30, 10, [10_030], {}),
        (Movement.RISES, 30, 10, [10_030, 10_031], {"soon": 10_030, "later": 10_031}),
        (Movement.RISES, 30, 1, range(5_000, 6_000), {"later": 5_000}),
        (Movement.UNSEEN, 30, 1, [5_000], {"below": 29, "above": 5_000, "later": 5_000}),
        (Movement.UNSEEN, 1, 1, [5_000], {"soon": 30, "later": 5_000}),
        # It has passed none of them.
        (Movement.RISES, 0, 1, [5_000], {}),
        (Movement.RISES, 1, 1, [5_000], {"soon": 30, "later": 5_000}),
        *((movement, 30, 1, [5_000], {}) for movement in (Movement.CYCLES, Movement.MIXED)),
        (Movement.DESCENDS, 30, 1, [5_000], {"until_smallest": 19}),
    ],
)
async def test_the_ids_far_beyond_a_counter_are_read_where_they_may_be_strays(
    movement: Movement, issued: int, step: int, more: Sequence[int], found: dict[str, int]
) -> None:
    tracker = cast("Any", SimpleNamespace(issued=lambda: issued, movement=movement, step=step))
    ids = IdSpan(1, more[-1])
    assert await with_neighbours(cast("Any", Ids(*more)), ids, tracker) == replace(ids, **found)


@pytest.mark.parametrize(("issued", "flags"), [((0, 0, 0), ()), ((9, 10, 0), (Flag.FIRST_FULL,)),
    ((10, 10, 9), (Flag.FIRST_FULL,)), ((10, 10, 10), (Flag.EMPTY,))])  # fmt: skip
def test_a_pool_says_when_its_first_and_its_last_document_are_full(
    issued: tuple[int, ...], flags: tuple[Flag, ...]
) -> None:
    tracker = Tracker(Identity("k", SHOP, "shop.counters", None, "", "n", "n", "pool", "", Semantics.NEXT))
    tracker.observe_pool([PoolPart(n, str(n), 0, 0, ids, 10) for n, ids in enumerate(issued)], NumericType.INT64, JUNE)
    assert tracker.view().flags == flags


@pytest.mark.parametrize(
    ("exclude", "target", "may"),
    [((), "", True), (("shop.*",), "", False), (("shop.*",), "shop.orders._id", False),
     (("shop.*",), "shop.counters._id", True), (("x.*",), "", True)],
)  # fmt: skip
def test_ids_of_an_excluded_collection_are_read_where_a_rule_names_them(
    exclude: tuple[str, ...], target: str, may: bool
) -> None:
    rules = [{"collection": "app.numbers"}, {"collection": "app.numbers", **({"target": target} if target else {})}]
    assert parse_config({"exclude": list(exclude), "counter": rules}).may_compare(SHOP) is may


@pytest.mark.parametrize(
    ("row", "match", "bound"),
    [
        ({"n": 5, "limit": 5}, {"rule_number": 1}, 5),
        ({"n": 6, "limit": 5}, {"rule_number": 1}, None),
        ({"limit": 5}, {"rule_number": 1}, None),
        ({"n": 6, "limit": 5}, {}, 5),
        ({"n": 6, "MAX_VALUE": 5}, {"rule_number": 1, "bound_key": "MAX_VALUE"}, 5),
        ({"n": 6, "at": {"MAX_VALUE": 5}}, {"rule_number": 1, "bound_key": "at.MAX_VALUE"}, 5),
        ({"n": "A-6", "limit": 5}, {"rule_number": 1, "text": True}, None),
        ({"n": 5, "limit": 5}, {"bound_key": ""}, None),
        ({"n": 5}, {"rule_number": 1}, None),
    ],
)
def test_a_limit_that_a_configured_number_is_beyond_is_not_its_own(
    row: dict[str, Any], match: dict[str, Any], bound: int | None
) -> None:
    facts = {"bound_key": "limit", "path": "n", "text": False, "rule_number": 0}
    assert bound_of(row, cast("Any", SimpleNamespace(**(facts | match)))) == bound


@pytest.mark.parametrize("is_int64", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_2_31_is_no_limit_where_the_ids_are_known_to_have_64_bits(is_int64: bool, known: bool) -> None:
    facts = ("k", SHOP, "shop.counters", None, "", "n", "n", "seq", "", Semantics.LAST)
    tracker = Tracker(Identity(*facts, int64_ids=is_int64), stale_forecast=False, forecast_at=JUNE)
    tracker.set_readers_64(known)
    changed = known and not is_int64
    assert (tracker.readers_64, tracker.stale_forecast, tracker.forecast_at) == (
        known or is_int64,
        changed,
        0.0 if changed else JUNE,
    )


@pytest.mark.parametrize(
    ("value", "used"),
    [
        (Int64(2**63 - 1), 1.0),
        (Int64(2**63 - 2), math.nextafter(1.0, 0.0)),
        (Decimal128("9999999999999999999999999999999990"), math.nextafter(1.0, 0.0)),
        (Int64(2**62), 0.5),
    ],
)
def test_a_counter_that_is_not_full_is_not_all_used(value: Any, used: float) -> None:
    tracker = Tracker(Identity("k", SHOP, "shop.counters", "a", "a", "seq", "seq", "", "", Semantics.LAST))
    tracker.observe(*(read_number(value) or (0, NumericType.INT64)), NOW)
    view = tracker.view()
    assert (view.used, Flag.FULL in view.flags) == (used, used == 1)
    assert (" 100.0% used" in grade(view, Thresholds(), datetime.now(UTC))[1]) == (used == 1)
