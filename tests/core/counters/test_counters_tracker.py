"""What is followed about one counter, and where its past comes from: without a server."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import sqlite3
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, ObjectId, Timestamp
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyglass.counters.ceiling import Consumer
from tallyglass.counters.follow import collection
from tallyglass.counters.follow.collection import CounterCollection
from tallyglass.counters.follow.group import group_above
from tallyglass.counters.follow.past_reader import PastReader
from tallyglass.counters.follow.restarts import Decrease, begins_period
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.history import store as store_module
from tallyglass.counters.history.oplog_samples import OplogPast, PastValue, pool_levels, scattered, value_after
from tallyglass.counters.history.store import KnownCounter, SampleStore
from tallyglass.counters.recognise.config import IdField, Resets, Rule
from tallyglass.counters.recognise.finding import UsageFinding
from tallyglass.counters.snapshot import Ceiling, CounterView, Flag, Grade, NumericType, Semantics
from tallyglass.counters.standing import IdSpan, Movement, Standing
from tallyglass.counters.verdict import nearest_limit
from tallyglass.errors import InputError
from tallyglass.mongo.gateway import Namespace
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.text import clean

INT32, INT64, DOUBLE = NumericType.INT32, NumericType.INT64, NumericType.DOUBLE
T0 = 1_795_000_000.0


class Shop:
    """A collection fed with documents by hand."""

    def __init__(self, name: str = "counters", *rules: Rule) -> None:
        self.collection = CounterCollection(Namespace("shop", name), (), rules)

    def look(self, at: float, *documents: dict[str, Any]) -> list[CounterView]:
        async def rows() -> AsyncIterator[dict[str, Any]]:
            for document in documents:
                yield document

        asyncio.run(self.collection.observe(rows(), at))
        return [tracker.view() for tracker in self.collection.trackers]

    def tracker(self) -> Tracker:
        (tracker,) = self.collection.trackers
        return tracker


@pytest.mark.parametrize(("count", "followed", "truncated"), [(2, 2, False), (3, 3, False), (4, 3, True)])
def test_only_more_documents_than_are_read_are_cut_off(
    monkeypatch: pytest.MonkeyPatch, count: int, followed: int, truncated: bool
) -> None:
    monkeypatch.setattr(collection, "MOST_READ", 3)
    rows = [{"_id": f"c{n}", "seq": n} for n in range(count)]

    class Server:
        async def find(self, *_: object, limit: int, batch_size: int) -> AsyncIterator[dict[str, Any]]:
            for row in rows[:limit]:
                yield row

    shop = Shop()
    for _ in range(2):
        asyncio.run(shop.collection.read(Server(), T0))  # type: ignore[arg-type]
        assert (len(shop.collection.trackers), shop.collection.truncated) == (followed, truncated)
    shop.look(T0 + 60, rows[0])
    assert not shop.collection.truncated


def test_a_number_that_is_recognised_again_keeps_what_was_seen_of_it() -> None:
    shop = Shop()
    for hour in range(48):
        shop.look(T0 + 3600 * hour, {"_id": "a", "seq": 100 * hour})
    before = shop.tracker()
    shop.collection.learn({"seq": UsageFinding(Namespace("shop", "counters"), "seq", Grade.CERTAIN, evidence="used")})
    (view,) = shop.look(T0 + 3600 * 48, {"_id": "a", "seq": 4_800})
    assert shop.tracker() is before
    assert (view.grade, view.evidence, len(view.history)) == (Grade.CERTAIN, "used", 49)
    down = UsageFinding(
        Namespace("shop", "counters"), "seq", Grade.CERTAIN, step=-1, targets=(IdField(Namespace("shop", "o"), "_id"),)
    )
    shop.collection.learn({"seq": down})
    shop.look(T0 + 3600 * 49, {"_id": "a", "seq": 4_900})
    assert shop.tracker() is not before


def test_ids_that_were_seen_in_64_bits_have_no_end_at_2_31() -> None:
    shop = Shop()
    target = IdField(Namespace("shop", "orders"), "_id")
    crossings = [shop.look(T0, ORDERS)[0].crossing]
    for n, int64_ids in enumerate((False, True, False), start=1):
        finding = UsageFinding(
            shop.collection.ns, "seq", Grade.CERTAIN, (target,), step=n, int64_ids=int64_ids, evidence="used"
        )
        shop.collection.learn({"seq": finding})
        crossings.append(shop.look(T0 + n, ORDERS)[0].crossing)
    assert [crossing is None for crossing in crossings] == [False, False, True, True]


@pytest.mark.parametrize(("used", "stored"), [(False, False), (False, True), (True, False), (True, True)])
def test_ids_are_of_64_bits_where_their_use_or_the_largest_shows_it(used: bool, stored: bool) -> None:
    shop = Shop()
    shop.look(T0, ORDERS)
    tracker = shop.tracker()
    tracker.identity = replace(tracker.identity, int64_ids=used)
    for known in (True, stored):
        tracker.set_readers_64(known)
        assert tracker.readers_64 == (known or used)
        assert (tracker.view().crossing is None) == (known or used)


def test_a_pool_whose_collection_is_recognised_again_keeps_its_past() -> None:
    shop = Shop("pool")
    rows = [{"_id": n, "COUNT": 1000 * n + 100, "MAX_VALUE": 1000 * n + 999} for n in range(6)]
    for hour in range(3):
        shop.look(T0 + 3600 * hour, *({**row, "COUNT": row["COUNT"] + hour} for row in rows))
    before = shop.tracker()
    shop.collection.learn({"other": UsageFinding(Namespace("shop", "pool"), "other", Grade.OPEN)})
    (view,) = shop.look(T0 + 3600 * 3, *({**row, "COUNT": row["COUNT"] + 3} for row in rows))
    assert shop.tracker() is before
    assert (view.value, before.series.span) == (618, 3 * 3600)
    assert shop.collection.paths() == ("COUNT",)


@pytest.mark.parametrize(("block", "standing"), [(1, Standing.AGREES), (2, None)])
def test_a_counter_of_blocks_is_compared_with_no_id(block: int, standing: Standing | None) -> None:
    shop = Shop("counters", Rule(Namespace("shop", "counters"), block=block))
    shop.look(T0, ORDERS)
    shop.tracker().compare((), IdSpan(1, 90), None)
    assert shop.tracker().standing is standing


def test_the_view_of_an_idle_counter_stays_once_its_rate_is_known() -> None:
    shop, rates, views = Shop(), [], []
    shop.look(T0, ORDERS)
    for at in (0.0, 0.03, 0.05, 9.0, 99.0):
        shop.tracker().settle(T0 + at)
        views.append(shop.tracker().view())
        rates.append(views[-1].rate)
    assert rates == [None, None, 0.0, 0.0, 0.0]
    assert [one is views[0] for one in views] == [True, True, False, False, False]
    assert [one is views[2] for one in views[2:]] == [True] * 3


ORDERS = {"_id": "orders", "seq": 100}
NEAR = 2**31 - 300


@pytest.mark.parametrize("identity", [17, ObjectId(), 1.5, True, None])
def test_beside_a_counter_of_a_library_one_that_has_no_name_is_a_guess(identity: object) -> None:
    shop, alone = Shop(), {"_id": identity, "seq": NEAR}
    assert shop.look(T0, alone) == []
    others = {"_id": 18, "next": NEAR}, {"_id": 19, "seq": NEAR, "text": ""}
    guess, orders = shop.look(T0, alone, *others, ORDERS)
    assert (guess.value, guess.grade, orders.grade) == (NEAR, Grade.POSSIBLE, Grade.LIKELY)
    assert guess.near is not None
    assert guess.near.reason == "int32"


def test_two_long_ids_with_one_beginning_are_told_apart_and_keep_their_keys() -> None:
    long = "y" * 300
    one, other = Shop().look(T0, {"_id": f"{long}1", "seq": 5}, {"_id": f"{long}2", "seq": 6})
    assert one.id != other.id
    assert len({one.id[:120], other.id[:120], long[:120]}) == 1
    digest = sha256(bson.encode({"": f"{long}1"})).hexdigest()[:12]
    assert one.key == f"shop.counters/{long[:120]}…+181#{digest}/seq", "the samples of earlier runs have this key"


def test_an_id_that_is_no_name_is_told_from_a_name_that_reads_alike() -> None:
    oid = ObjectId()
    rows = [{"_id": identity, "seq": 5} for identity in (17, "17", oid, str(oid), None, "null", 18)]
    views = Shop().look(T0, *rows)
    assert {view.id for view in views} == {
        "17 (int)", "17", f"{oid} (ObjectId)", str(oid), "null (NoneType)", "null", "18",
    }  # fmt: skip
    assert len({view.key for view in views}) == 7


def test_those_that_have_no_name_join_no_group_of_the_named() -> None:
    shop = Shop()
    rows = [{"_id": n if n < 150 else f"t{n}", "seq": n} for n in range(250)]
    assert len(shop.look(T0, *rows)) == len(shop.look(T0 + 1, *rows)) == 250


def test_of_many_that_have_no_name_those_near_a_limit_are_guesses() -> None:
    shop = Shop()
    rows = [{"_id": n, "seq": NEAR if n == 250 else n} for n in range(300)]
    views = shop.look(T0, *rows, ORDERS)
    assert [(view.value, view.grade) for view in views] == [(NEAR, Grade.POSSIBLE), (100, Grade.LIKELY)]


def test_rate_and_recent() -> None:
    shop = Shop()
    for second in range(5):
        (view,) = shop.look(T0 + second, {"_id": "a", "seq": 10 * second})
    assert view.rate == pytest.approx(10)
    assert view.recent == (10.0, 10.0, 10.0, 10.0)
    (view,) = shop.look(T0 + 60, {"_id": "a", "seq": 40})
    assert view.rate == 0.0
    for second in range(61, 131):
        (view,) = shop.look(T0 + second, {"_id": "a", "seq": second})
    assert view.recent == (1.0,) * 59
    for second in range(131, 200):
        (view,) = shop.look(T0 + second, {"_id": "a", "seq": 130})
    assert (view.rate, view.recent) == (0.0, ())


def test_near_the_end_the_forecast_is_new_and_a_raised_ceiling_counts_at_once() -> None:
    shop = Shop()
    for at in range(0, 35_401, 600):
        shop.look(T0 + at, {"_id": "a", "next": at, "MAX_VALUE": 35_700})
    tracker = shop.tracker()
    tracker.update_forecasts(T0 + at)
    before = tracker.forecasts[0].late
    assert before is not None
    shop.look(T0 + at + 5, {"_id": "a", "next": at + 5, "MAX_VALUE": 35_700})
    assert not tracker.is_due(T0 + at + 5)
    shop.look(T0 + at + 20, {"_id": "a", "next": at + 20, "MAX_VALUE": 35_700})
    assert tracker.is_due(T0 + at + 20)

    tracker.update_forecasts(T0 + at + 20)
    (view,) = shop.look(T0 + at + 21, {"_id": "a", "next": at + 20, "MAX_VALUE": 75_700})
    assert view.left == 75_700 - at - 20
    assert tracker.is_due(T0 + at + 21)
    tracker.update_forecasts(T0 + at + 21)
    early = tracker.forecasts[0].early
    assert early is not None
    assert early > before


@pytest.mark.parametrize("stall", [0, pytest.param(1_200, marks=pytest.mark.long)])
def test_a_dashboard_that_ran_for_a_day_agrees_with_a_fresh_one(stall: int) -> None:
    """``stall``: for how many seconds of each hour a busy machine reads nothing."""
    day, every, left = 86_400, 60, 400_000
    start = 2**31 - 1 - left - 3 * day

    def value(at: float) -> int:
        # Three hours at a load, one at three times as much.
        hours, rest = divmod(at, 3_600)
        busy = sum(3 if n % 4 == 0 else 1 for n in range(int(hours)))
        return round(start + busy * 3_600 + rest * (3 if hours % 4 == 0 else 1))

    def oplog(until: float) -> list[PastValue]:
        """What 64 places of the oplog tell, a minute at each."""
        places = [until * n / 64 for n in range(64)]
        return [PastValue(T0 + at + second, value(at + second), INT32) for at in places for second in (0, 30, 60)]

    running, fresh = Shop(), Shop()
    for at in range(day, 2 * day + 1, every):
        if at == day or at == 2 * day or at % 3_600 >= stall:
            running.look(T0 + at, {"_id": "a", "seq": value(at)})
        if at == day:
            running.tracker().add_past(oplog(day))
        if at % 3_600 == 0:
            # As on the screen: a forecast every hour or more often.
            running.tracker().update_forecasts(T0 + at)
    fresh.look(T0 + 2 * day, {"_id": "a", "seq": value(2 * day)})
    fresh.tracker().add_past(oplog(2 * day))
    fresh.tracker().update_forecasts(T0 + 2 * day)
    one, other = running.tracker().forecasts[1], fresh.tracker().forecasts[1]
    assert one.rate == pytest.approx(1.5, rel=0.05)
    assert (one.rate, one.spread) == pytest.approx((other.rate, other.spread), rel=0.05)
    for end, same in zip((one.early, one.likely, one.late), (other.early, other.likely, other.late), strict=True):
        assert end is not None
        assert same is not None
        assert end.timestamp() - T0 - 2 * day == pytest.approx(same.timestamp() - T0 - 2 * day, rel=0.05)


def test_an_unchanged_counter_keeps_its_view() -> None:
    shop = Shop()
    first = shop.look(T0, {"_id": "a", "seq": 1})
    assert shop.look(T0 + 1, {"_id": "a", "seq": 1})[0] is first[0]
    assert first[0].rate is None
    shop.tracker().settle(T0 + 1)
    assert shop.tracker().view().rate == 0.0


def test_a_deleted_counter_disappears_and_a_new_one_appears() -> None:
    shop = Shop()
    shop.look(T0, {"_id": "a", "seq": 1}, {"_id": "b", "seq": 1})
    assert [view.id for view in shop.look(T0 + 1, {"_id": "b", "seq": 1}, {"_id": "c", "seq": 1})] == ["b", "c"]


def test_a_document_whose_fields_change_is_recognised_again() -> None:
    shop = Shop()
    assert shop.look(T0, {"_id": "orders"}) == []
    for n in range(3):
        shop.look(T0 + 10 * n, {"_id": "orders", "next": 5 + n})
    before = shop.tracker()
    (view,) = shop.look(T0 + 30, {"_id": "orders", "next": Int64(8), "max": 8})
    assert (view.ceiling, view.flags, len(view.history)) == (Ceiling(8, "max"), (Flag.FULL,), 4)
    assert shop.tracker() is before
    for gone in ({}, {"next": "none"}):
        assert shop.look(T0 + 40, {"_id": "orders", **gone}) == []
    parts = Shop("settings", Rule(Namespace("shop", "settings"), field="items.*.next"))
    found = [parts.look(T0 + n, {"_id": "ids", "items": [{"next": 5}, {"next": 7}][:n]}) for n in (1, 2, 1)]
    assert [[view.value for view in views] for views in found] == [[5], [5, 7], [5]]
    assert parts.look(T0 + 3, {"_id": "ids", "items": [{"next": 5}]}) == found[-1]
    assert parts.tracker().view() is found[-1][0]


def test_promotion_to_int64_is_no_break_but_a_double_is() -> None:
    shop = Shop()
    shop.look(T0, {"_id": "a", "seq": 2**31 - 2})
    shop.look(T0 + 1, {"_id": "a", "seq": 2**31 - 1})
    (view,) = shop.look(T0 + 2, {"_id": "a", "seq": Int64(2**31)})
    assert (view.type, view.notes, shop.tracker().series.steps) == (INT64, (), 2)
    (view,) = shop.look(T0 + 3, {"_id": "a", "seq": float(2**31 + 1)})
    assert view.notes == ("Turned from int64 into double at 2026-11-18T11:06:43Z.",)
    assert (view.flags, shop.tracker().series.steps) == ((Flag.DOUBLE,), 0)


def test_a_guess_that_falls_is_no_counter() -> None:
    shop = Shop("page_counters")
    assert len(shop.look(T0, {"_id": "home", "n": 9}, {"_id": "sure", "seq": 9})) == 2
    views = shop.look(T0 + 1, {"_id": "home", "n": 8}, {"_id": "sure", "seq": 8})
    assert [(view.id, view.flags) for view in views] == [("sure", (Flag.REWOUND, Flag.GUESS))]


@pytest.mark.parametrize("fell", [False, True], ids=["as seen", "fell before"])
def test_a_guess_whose_ids_were_seen_in_use_is_a_counter_that_can_be_rewound(fell: bool) -> None:
    shop = Shop("page_counters")
    for n, number in enumerate((900, 500 if fell else 901)):
        views = shop.look(T0 + n, {"_id": "home", "n": number})
    assert bool(views) is not fell
    shop.collection.learn({"n": UsageFinding(shop.collection.ns, "n", Grade.CERTAIN, evidence="used")})
    for n, (number, flags) in enumerate([(902, ()), (903, ()), (400, (Flag.REWOUND,))], start=2):
        assert [view.flags for view in shop.look(T0 + n, {"_id": "home", "n": number})] == [flags]


def test_the_next_id_is_not_used_yet_and_a_pool_counts_what_its_documents_issued() -> None:
    used = [Shop("pool").look(T0, {"_id": "a", "COUNT": number, "MAX_VALUE": 99})[0] for number in (50, 99, 100)]
    assert [(view.left, view.flags) for view in used] == [(50, ()), (1, ()), (0, (Flag.FULL,))]
    (view,) = Shop("pool").look(T0, *({"_id": n, "COUNT": 10 * n + 10, "MAX_VALUE": 10 * n + 9} for n in range(3)))
    assert (view.value, view.flags) == (30, (Flag.EMPTY,))
    (view,) = Shop("pool").look(T0, *({"_id": n, "COUNT": 10 * n + 4, "MAX_VALUE": 10 * n + 9} for n in range(3)))
    assert (view.value, view.start, view.used, view.left) == (12, 0, 0.4, 18)


def test_of_a_pool_the_first_document_is_full_before_half_are_and_these_before_all() -> None:
    shop = Shop("pool")
    for hour in range(30):
        rows = ({"_id": n, "COUNT": 10_000 * n + 100 * hour, "MAX_VALUE": 10_000 * n + 9_999} for n in range(6))
        shop.look(T0 + 3600 * hour, *rows)
    shop.tracker().update_forecasts(T0 + 3600 * hour)
    pool = shop.tracker().view().pool
    assert pool is not None
    first, half, every = (one.likely for one in (pool.first_full, pool.two_tries, pool.empty))
    assert first is not None
    assert half is not None
    assert every is not None
    assert first < half < every


def test_the_step_of_a_counter_is_what_divides_five_changes() -> None:
    shop = Shop()
    steps = [shop.look(T0 + n, {"_id": "a", "seq": 7 + 3 * n * n})[0].step for n in range(7)]
    assert steps == [1, 1, 1, 1, 1, 3, 3]
    fresh = Shop()
    fresh.look(T0, {"_id": "a", "seq": 115})
    fresh.tracker().add_past([PastValue(T0 - 100 + n, 7 + 3 * n * n, INT32) for n in range(6)])
    assert fresh.tracker().view().step == 3
    fresh = Shop()
    fresh.look(T0, {"_id": "a", "seq": 55})
    fresh.tracker().add_past([PastValue(T0 - 100 + n, 7 + 3 * (n // 2) ** 2, INT32) for n in range(8)])
    assert fresh.tracker().view().step == 1, "four changes, seen twice each"
    fresh = Shop()
    for n, value in enumerate((0, 4, 8, 12, 16, 20, 21)):
        (view,) = fresh.look(T0 + n, {"_id": "a", "seq": value})
    assert view.step == 1, "one by one, once"
    rows = {"_id": "a", "next_id": 5, "increment_by": 0, "step": 5, "max_value": 99}, {"_id": "a", "seq": 7, "step": 2}
    assert [Shop("spans").look(T0, row)[0].step for row in rows] == [5, 2]


@pytest.mark.parametrize(
    ("moment", "resets"),
    [
        ("2026-06-30T09", ()), ("2026-06-30T11", (Resets.MONTHLY,)), ("2026-07-01T13", (Resets.MONTHLY,)),
        ("2026-07-01T15", ()), ("2026-12-31T11", (Resets.MONTHLY, Resets.YEARLY)), ("2026-12-31T09", ()),
        ("2027-01-01T13", (Resets.MONTHLY, Resets.YEARLY)), ("2026-12-01T01", (Resets.MONTHLY,)),
    ],
)  # fmt: skip
def test_a_month_and_a_year_begin_earlier_or_later_elsewhere(moment: str, resets: tuple[Resets, ...]) -> None:
    at = datetime.fromisoformat(f"{moment}:00:00+00:00").timestamp()
    found = [one for one in (Resets.MONTHLY, Resets.YEARLY) if begins_period(at, one)]
    assert tuple(found) == resets
    assert begins_period(at, Resets.DAILY)


def test_a_configured_step_is_not_doubted_and_its_sign_is_the_direction() -> None:
    shop = Shop("counters", Rule(Namespace("shop", "counters"), step=1))
    assert [shop.look(T0 + n, {"_id": "a", "seq": 7 + 3 * n * n})[0].step for n in range(7)] == [1] * 7
    shop = Shop("counters", Rule(Namespace("shop", "counters"), step=1))
    falls = [shop.look(T0 + n, {"_id": "a", "seq": 500 - n})[0] for n in range(5)]
    assert [view.flags for view in falls] == [(), *[(Flag.REWOUND,)] * 4]
    fresh = Shop("counters", Rule(Namespace("shop", "counters"), step=1))
    fresh.look(T0, {"_id": "a", "seq": 496})
    fresh.tracker().add_past([PastValue(T0 - 100 + n, 500 - n, INT32) for n in range(4)])
    assert fresh.tracker().view().flags == (Flag.REWOUND,)
    down = Rule(Namespace("shop", "counters"), step=-2, start=100, min=10)
    (view,) = Shop("counters", down).look(T0, {"_id": "a", "seq": 40})
    assert (view.step, view.left, view.used, view.ceiling) == (-2, 30, 60 / 90, Ceiling(10, "min (configured)"))


def test_a_configured_cycle_starts_again_from_its_end_only() -> None:
    for value, flags in ((99, ()), (98, ()), (50, (Flag.RESET,))):
        shop = Shop("counters", Rule(Namespace("shop", "counters"), cycle=True, max=99))
        (view,) = shop.look(T0, {"_id": "a", "seq": value})
        assert (view.flags, view.near) == ((), None), "it does not end there"
        assert shop.look(T0 + 1, {"_id": "a", "seq": 1})[0].flags == flags


@pytest.mark.parametrize(("step", "values"), [(1, (1_500, 1_999, 1_000)), (-1, (1_500, 1_000, 1_999))])
def test_a_configured_cycle_starts_again_at_the_other_end_of_its_range(step: int, values: tuple[int, ...]) -> None:
    shop = Shop("counters", Rule(Namespace("shop", "counters"), step=step, cycle=True, min=1_000, max=1_999))
    views = [shop.look(T0 + n, {"_id": "a", "seq": value})[0] for n, value in enumerate(values)]
    assert [(view.start, view.flags, round(view.used or 0, 1)) for view in views] == [
        (values[-1], (), 0.5), (values[-1], (), 1.0), (values[-1], (), 0.0),
    ]  # fmt: skip


def test_a_cycle_that_its_type_does_not_hold_ends_there() -> None:
    shop = Shop("counters", Rule(Namespace("shop", "counters"), cycle=True, max=2**40, consumer=Consumer.INT32))
    (view,) = shop.look(T0, {"_id": "a", "seq": 2**31 - 1})
    assert view.flags == (Flag.FULL,)
    for text, n in (("end", 10**6 - 1), ("before it", 10**6 - 2)):
        shop = Shop("counters", Rule(Namespace("shop", "counters"), cycle=True, digits=6))
        (view,) = shop.look(T0, {"_id": "a", "seq": n})
        assert view.flags == (), text


def test_a_configured_field_may_hold_the_number_at_the_end_of_a_text() -> None:
    (view,) = Shop("invoices", Rule(Namespace("shop", "invoices"), field="nr")).look(T0, {"_id": 1, "nr": "INV-000123"})
    assert (view.value, view.type, view.ceiling) == (123, NumericType.STRING, Ceiling(10**6 - 1, "6 digits"))


def test_a_bound_of_any_name_counts_where_the_shape_is_known() -> None:
    (view,) = Shop("ids").look(T0, {"_id": "orders", "index": 5, "max": 99})
    assert view.ceiling == Ceiling(99, "max")
    (view,) = Shop("ids").look(T0, {"_id": "orders", "index": 5, "min": 3})
    assert (view.start, view.ceiling) == (3, Ceiling(2**53 - 1, "JavaScript consumer (2^53-1)"))
    inner = Shop("settings", Rule(Namespace("shop", "settings"), field="ids.n"))
    (view,) = inner.look(T0, {"_id": "orders", "max": 7, "ids": {"n": 30, "first": 20, "limit": 40}})
    assert (view.start, view.ceiling, view.used) == (20, Ceiling(40, "ids.limit"), 0.5)


@pytest.mark.parametrize("name", ["max", "limit", "max_value", "first", "step"])
def test_a_number_whose_name_is_that_of_a_bound_or_a_step_is_not_its_own(name: str) -> None:
    ns = Namespace("shop", "numbers")
    used = Shop("numbers")
    used.collection.learn(
        {name: UsageFinding(ns, name, Grade.CERTAIN, targets=(IdField(Namespace("shop", "o"), "_id"),))}
    )
    for shop in (used, Shop("numbers", Rule(ns, field=name))):
        (view,) = shop.look(T0, {"_id": "orders", name: 5})
        assert (view.value, view.start, view.step, view.flags) == (5, 0, 1, ())
        assert view.ceiling == Ceiling(2**63 - 1, "int64", is_storage=True)


@pytest.mark.parametrize(
    ("consumer", "reason"),
    [(None, "int32"), (Consumer.INT32, "int32"), (Consumer.UINT32, None), (Consumer.INT64, None)],
)
def test_a_configured_consumer_says_which_limits_are_none(consumer: Consumer | None, reason: str | None) -> None:
    (view,) = Shop("counters", Rule(Namespace("shop", "counters"), consumer=consumer)).look(T0, ORDERS | {"seq": NEAR})
    assert (view.near.reason if view.near else None) == reason


def test_a_pool_with_other_documents_is_another_pool() -> None:
    shop = Shop("pool")
    rows = [{"_id": n, "COUNT": 1000 * n + 900, "MAX_VALUE": 1000 * n + 999} for n in range(6)]
    (before,) = shop.look(T0, *rows)
    (after,) = shop.look(T0 + 1, *rows[:5])
    assert (before.value, after.value, after.flags, after.rate) == (5400, 4500, (), None)
    fresh = {"_id": 5, "COUNT": 5000, "MAX_VALUE": 5999}
    (after,) = shop.look(T0 + 2, *rows[1:5], fresh)
    assert (after.value, after.flags, after.rate) == (3600, (), None)


@pytest.mark.parametrize(("rule", "name"), [({"field": "n"}, "pool"), ({"id": 3}, "pool"), ({}, "tickets")])
def test_a_rule_on_another_number_or_one_document_says_nothing_of_a_pool(rule: dict[str, Any], name: str) -> None:
    shop = Shop("pool", Rule(Namespace("shop", "pool"), name="tickets", number=1, **rule))
    rows = [{"_id": n, "COUNT": 1000 * n + 900, "MAX_VALUE": 1000 * n + 999} for n in range(250)]
    assert [view.id for view in shop.look(T0, *rows)] == [name]
    assert shop.collection.recogniser.matched == (set() if rule else {1})


def test_the_rate_of_a_pool_is_not_taken_from_an_estimate() -> None:
    shop = Shop("pool")
    rows = [{"_id": f"d{n}", "COUNT": 1000 * n + 500, "MAX_VALUE": 1000 * n + 999} for n in range(6)]
    shop.look(T0, *rows)
    seen = {f"d{n}": {"COUNT": [PastValue(T0 - 90 + m, 1000 * n + 500, INT32) for m in range(9)]} for n in range(5)}
    shop.collection.add_past(seen)
    assert len(shop.tracker().series) > 1
    assert shop.tracker().view().rate is None, "none of the documents seen took part in what went on"
    shop.tracker().settle(T0 + 5)
    assert shop.tracker().view().rate is None, "a batch lasts longer than that"
    (view,) = shop.look(T0 + 10, *rows[1:], {"_id": "d0", "COUNT": 700, "MAX_VALUE": 999})
    assert view.rate == pytest.approx(20)


def test_crossing_is_reported_until_it_is_passed() -> None:
    shop = Shop()
    (before,) = shop.look(T0, {"_id": "a", "seq": 5})
    assert before.crossing is not None
    (after,) = shop.look(T0 + 1, {"_id": "a", "seq": Int64(2**31 - 1)})
    assert after.crossing is None
    for last, crosses in ((2**31 - 1, False), (2**31, True)):
        (view,) = Shop("counters", Rule(Namespace("shop", "counters"), max=last)).look(T0, {"_id": "a", "seq": 5})
        assert (view.crossing is not None) is crosses


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1.5])
def test_a_strange_double_is_shown_and_never_fails(value: float) -> None:
    shop = Shop()
    shop.look(T0, {"_id": "a", "seq": value})
    shop.tracker().update_forecasts(T0)
    (view,) = shop.look(T0 + 1, {"_id": "a", "seq": value})
    assert Flag.DOUBLE in view.flags
    assert view.notes[0].startswith("Not a ")
    assert (view.left is None) == (value != 1.5)


@given(st.text(max_size=30), st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_every_text_of_a_view_is_safe(identity: str, scope: str) -> None:
    shop = Shop("c\x1bou\u202ents")
    document = {"_id": identity, "seq": 1}
    scoped = {"_id": {"s": scope, "i": identity}, "seq_value": 2}
    for view in shop.look(T0, document, scoped):
        for text in (view.key, view.ns, view.id, view.field, view.shape, view.library, view.target, *view.notes):
            assert clean(text) == text


def test_keys_of_ids_that_look_the_same_differ() -> None:
    long = "x" * 500
    ids: list[Any] = ["a", "a\u200b", "a\\u{200b}", 5, Int64(5), "5", {"n": 5}, long + "1", long + "2"]
    views = Shop("ids").look(T0, *({"_id": identity, "index": 1, "max": 10**9} for identity in ids))
    assert len({view.key for view in views}) == len(ids)


def test_past_from_the_oplog_continues_the_series() -> None:
    shop = Shop()
    shop.look(T0, {"_id": "a", "seq": 100})
    past = [PastValue(T0 - 50 + n, 50 + n, INT32) for n in range(50)]
    shop.collection.add_past({"a": {"seq": past}})
    tracker = shop.tracker()
    assert (tracker.series.span, tracker.series.steps) == (50, 50)
    assert tracker.view().rate == pytest.approx(1.0)
    tracker.add_past([PastValue(T0 - 3600, 10, INT32)])
    assert tracker.series.span == 3600


def test_a_set_back_that_was_repaired_ends_no_history_whether_it_was_watched_or_read_from_the_oplog() -> None:
    numbers = [*range(1_000, 1_300), 800, 801, *range(1_303, 1_600)]
    watched, fresh = Shop(), Shop()
    for n, number in enumerate(numbers):
        watched.look(T0 + n, {"_id": "a", "seq": number})
    fresh.look(T0 + len(numbers), {"_id": "a", "seq": numbers[-1] + 1})
    watched.look(T0 + len(numbers), {"_id": "a", "seq": numbers[-1] + 1})
    past = [PastValue(T0 + n, number, INT32) for n, number in enumerate(numbers)]
    fresh.collection.add_past({"a": {"seq": past}})
    trackers = [watched.tracker(), fresh.tracker()]
    for tracker in trackers:
        tracker.update_forecasts(T0 + len(numbers))
        assert (tracker.rewound, tracker.series.broken_at, tracker.series.span) == (None, None, len(numbers))
        assert tracker.series.last - tracker.series.first == 600
    rates = [tracker.forecasts[0].rate or 0.0 for tracker in trackers]
    assert rates[0] == pytest.approx(rates[1], rel=0.05)
    # While it is set back, the past is not comparable.
    watched.look(T0 + 1_000, {"_id": "a", "seq": 700})
    assert watched.tracker().series.broken_at == T0 + 1_000


def test_past_says_when_it_was_rewound_and_when_it_turned() -> None:
    shop = Shop()
    shop.look(T0, {"_id": "a", "seq": 100.0})
    values = [(9_000, INT32), (9_500, INT32), (80, INT32), (81.0, DOUBLE)]
    shop.collection.add_past({"a": {"seq": [PastValue(T0 - 50 + n, v, kind) for n, (v, kind) in enumerate(values)]}})
    view = shop.tracker().view()
    assert view.notes[0] == "Turned from int32 into double at 2026-11-18T11:05:53Z."
    assert view.notes[1].startswith("Went back from 9500 to 80")
    assert view.flags == (Flag.RESET, Flag.DOUBLE)


@pytest.mark.parametrize(
    ("operation", "path", "value"),
    [
        ({"op": "i", "o": {"_id": 1, "seq": 4}}, "seq", 4),
        ({"op": "u", "o": {"$v": 2, "diff": {"u": {"seq": 5}}}}, "seq", 5),
        ({"op": "u", "o": {"$v": 2, "diff": {"i": {"seq": 5}}}}, "seq", 5),
        ({"op": "u", "o": {"$v": 2, "diff": {"sauto": {"u": {"seq": 8}}}}}, "auto.seq", 8),
        ({"op": "u", "o": {"$v": 2, "diff": {"u": {"auto": {"seq": 8}}}}}, "auto.seq", 8),
        ({"op": "u", "o": {"$v": 1, "$set": {"auto.seq": 9}}}, "auto.seq", 9),
        ({"op": "u", "o": {"_id": 1, "seq": 7}}, "seq", 7),
        ({"op": "u", "o": {"$v": 2, "diff": {"d": {"seq": False}}}}, "seq", None),
        ({"op": "d", "o": {"_id": 1}}, "seq", None),
        ({"op": "u", "o": {"$v": 2, "diff": {"u": "odd"}}}, "seq", None),
        ({"op": "n", "o": None, "ts": Timestamp(1, 1)}, "seq", None),
    ],
)
def test_value_after_an_operation(operation: dict[str, Any], path: str, value: Any) -> None:
    assert value_after(read_entry(bson.encode(operation)), path) == value


def test_slices_are_spread_from_the_first_on() -> None:
    order = scattered(64)
    assert sorted(order) == list(range(64))
    assert sorted(order[:5]) == [0, 16, 32, 48, 63]


@pytest.mark.parametrize(
    ("window", "entries", "apart", "seconds"),
    [(64_000, 100, 1_000, 1_000), (64_000, 4_000_000, 1_000, 250), (64_000, 10**12, 1_000, 1), (40, 100, 1, 1)],
)
async def test_the_server_examines_a_bounded_number_of_entries_for_the_past_and_each_once(
    window: int, entries: int, apart: int, seconds: int
) -> None:
    spans: list[tuple[int, int]] = []

    class Oplog:
        async def estimate(self, _: Namespace) -> int:
            return entries

        async def find_one(self, *_: object, **__: object) -> dict[str, Any]:
            return {"ts": Timestamp(1_000_000, 1)}

        async def find_raw(self, _: Namespace, query: dict[str, Any], **__: object) -> AsyncIterator[bytes]:
            spans.append((query["ts"]["$gte"].time, query["ts"]["$lt"].time))
            yield b""

    until = Timestamp(1_000_000 + window - 1, 1)
    past = OplogPast(Oplog(), {Namespace("shop", "counters"): ["seq"]}, until)  # type: ignore[arg-type]
    assert await past.advance(math.inf)
    assert sorted(spans) == [(at, at + seconds) for at in range(1_000_000, 1_000_000 + window, apart)]


async def test_values_of_one_second_are_in_the_order_of_the_oplog_up_to_the_first_reading() -> None:
    """An entry that cannot be decoded is left out."""

    def entry(ordinal: int, number: int) -> bytes:
        change = {"$v": 2, "diff": {"u": {"seq": number}}}
        facts = {"ns": "shop.counters", "op": "u", "o2": {"_id": "a"}, "o": change, "t": 1, "v": 2}
        return bson.encode({**facts, "ts": Timestamp(1_000_500, ordinal)})

    damaged = entry(2, 0).replace(b"\x02op\x00", b"\x7dop\x00")

    class Oplog:
        async def estimate(self, _: Namespace) -> int:
            return 100

        async def find_one(self, *_: object, **__: object) -> dict[str, Any]:
            return {"ts": Timestamp(1_000_000, 1)}

        async def find_raw(self, _: Namespace, query: dict[str, Any], **__: object) -> AsyncIterator[bytes]:
            if query["ts"]["$gte"].time <= 1_000_500 < query["ts"]["$lt"].time:
                yield entry(1, 5) + entry(2, 6) + damaged + entry(3, 7) + entry(4, 8)

    ns = Namespace("shop", "counters")
    past = OplogPast(Oplog(), {ns: ["seq"]}, Timestamp(1_000_500, 3))  # type: ignore[arg-type]
    assert await past.advance(math.inf)
    found = sorted(past.values[ns]["a"]["seq"], key=lambda one: one.at)
    assert [(int(one.at), one.number) for one in found] == [(1_000_500, 5), (1_000_500, 6), (1_000_500, 7)]


def test_levels_of_a_pool_that_seem_to_fall_are_averaged() -> None:
    now = dict.fromkeys(range(16), 100)
    # The first eight documents, which were read earlier, had happened to issue more by then than the others.
    points = {n: [PastValue(T0 + (100 if n < 8 else 200), 90 if n < 8 else 70, INT64)] for n in now}
    assert pool_levels(points, now, 1_600) == [(T0 + 100, 1_280), (T0 + 200, 1_280)]


def test_levels_of_a_pool_from_the_documents_seen() -> None:
    documents, batch = 100, 10
    # Every document went up by one batch a minute for an hour; a few were seen each minute.
    points = {
        n: [PastValue(T0 - 60 * minute, (60 - minute) * batch, INT64) for minute in range(n % 7, 60, 7)]
        for n in range(40)
    }
    now = dict.fromkeys(range(documents), 60 * batch)
    levels = pool_levels(points, now, documents * 60 * batch)
    assert len(levels) > 20
    for at, level in levels:
        assert level == pytest.approx(documents * batch * (60 - (T0 - at) / 60), rel=0.1, abs=2_000)
    assert [level for _, level in levels] == sorted(level for _, level in levels)


def test_store_keeps_thins_and_is_private(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "counters.sqlite"
    store = SampleStore(path)
    day = 86_400
    old = [("a", PastValue(T0 - n * 300, 10**18 - n, INT64)) for n in range(20 * day // 300)]
    store.save("here", [*old, ("a", PastValue(T0 - 200 * day, 1, INT64)), ("b", PastValue(T0, 1.5, DOUBLE))], T0)
    store.close()
    assert path.stat().st_mode & 0o077 == 0
    store = SampleStore(path)
    found = store.load("here", ["a", "b"], T0)
    assert found["a"][-1] == PastValue(T0, 10**18, INT64)
    assert found["b"] == [PastValue(T0, 1.5, DOUBLE)]
    assert 2 * day / 300 + 12 * 24 <= len(found["a"]) <= 2 * day / 300 + 12 * 24 + 6 * 4 + 4
    assert found["a"][0].at >= T0 - 20 * day
    assert store.load("elsewhere", ["a"], T0) == {}
    store.close()


def test_no_sample_is_removed_on_the_word_of_a_clock(tmp_path: Path) -> None:
    day = 86_400
    with contextlib.closing(SampleStore(tmp_path / "counters.sqlite")) as store:

        def offsets(now: float) -> list[int]:
            return [round(past.at - T0) for past in store.load("here", ["a"], now)["a"]]

        def saved(at: float, number: int) -> None:
            store.save("here", [("a", PastValue(at, number, INT64))], at)

        store.save("here", [("a", PastValue(T0 + n * 300, n, INT64)) for n in range(-24, 0)], T0)
        before = offsets(T0)
        for later in (180 * day, 180 * day + 300):
            saved(T0 + later, 9)
        # What is of another time than now is not loaded, but it is there.
        assert offsets(T0) == before == [n * 300 for n in range(-24, 0)]
        assert offsets(T0 + 180 * day + 300) == [180 * day, 180 * day + 300]
        assert offsets(T0 + 120 * day - 300) == [-300]
        for _ in range(20):
            saved(T0 + 180 * day + 300, 9)
        assert offsets(T0) == before
        for _ in range(3):
            saved(T0 + 180 * day + 300, 9)
        # Where the clock stays there, it is right: what is two days old by it is thinned.
        assert offsets(T0) == [-4200, -600, -300]
        saved(T0 - 400 * day, 9)
        assert (offsets(T0), offsets(T0 - 400 * day)) == ([-4200, -600, -300], [-400 * day])


def test_store_forgets_the_oldest_samples_beyond_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MOST_ROWS", 10)
    with contextlib.closing(SampleStore(tmp_path / "counters.sqlite")) as store:
        for hour in range(3):
            store.save(
                "here", [("a", PastValue(T0 + 3600 * hour + n, n, INT64)) for n in range(6)], T0 + 3600 * hour + 5
            )
        assert [past.at - T0 for past in store.load("here", ["a"], T0 + 7205)["a"]] == [
            3602,
            *range(3603, 3606),
            *range(7200, 7206),
        ]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """All connections that the store makes."""
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def recorded(*args: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*args, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", recorded)
    return made


def assert_closed(connections: list[sqlite3.Connection]) -> None:
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


def test_the_store_keeps_findings_whole(tmp_path: Path) -> None:
    target = IdField(Namespace("shop", "orders"), "n")
    finding = UsageFinding(
        Namespace("shop", "counters"), "seq", Grade.CERTAIN, (target,), semantics=Semantics.NEXT,
        step=-5, ids_apart=5, block=20, text=True, issues=7, evidence="used", by_document=((Int64(3), target),),
        equal=((Int64(4), target),),
        others=frozenset({"a"}), restless=frozenset({"b"}), int64_ids=True, cycling=frozenset({"c"}),
    )  # fmt: skip
    with contextlib.closing(SampleStore(tmp_path / "counters.sqlite")) as store:
        store.save_findings("here", [finding], T0)
        assert store.load_findings("here") == [finding]
        assert store.load_findings("there") == []


def test_the_store_keeps_known_counters_whole_until_they_are_forgotten(tmp_path: Path) -> None:
    ns = Namespace("shop", "counters")
    one = KnownCounter("a", ns, "orders", "seq", {"n": Int64(3)}, many=False, at=T0)
    other = KnownCounter("b", ns, "*", "seq", None, many=True, at=T0, gone_at=T0 + 5, configured=True, targets=(ns,))
    with contextlib.closing(SampleStore(tmp_path / "counters.sqlite")) as store:
        store.save_known("here", {"a": one, "b": other})
        assert store.load_known("here") == [one, other]
        store.save_known("here", {"a": None})
        assert store.load_known("here") == [other]


def test_store_says_what_is_wrong_with_a_file(tmp_path: Path, connections: list[sqlite3.Connection]) -> None:
    path = tmp_path / "counters.sqlite"
    path.write_bytes(b"not a database" * 100)
    store = SampleStore(path)
    with pytest.raises(InputError, match="cannot be used") as caught:
        store.load("here", ["a", "b"], T0)
    assert len(connections) == 1
    assert_closed(connections)
    assert "--no-history" in caught.value.advice
    assert isinstance(caught.value.__cause__, sqlite3.Error)
    with pytest.raises(InputError) as caught:
        SampleStore(path / "below" / "counters.sqlite").load("here", ["a"], T0)
    said = f"The history file {path}/below/counters.sqlite cannot be used: Not a directory."
    assert str(caught.value) == f"{said} Check its folder, or run with --no-history."


class ReplicaSetGateway:
    """A gateway on a replica set that is known by its name."""

    async def command(self, name: str, value: object = 1, **_: object) -> dict[str, Any]:
        return {"setName": "rs0", "hosts": ["db1:27017"]}


def test_history_that_fails_is_closed_and_reported(tmp_path: Path, connections: list[sqlite3.Connection]) -> None:
    path = tmp_path / "counters.sqlite"
    past = PastReader(ReplicaSetGateway(), path, time.time, oplog=False)  # type: ignore[arg-type]
    asyncio.run(past.mark([Shop().collection]))
    assert not past.troubles
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute("DROP TABLE sample")
    shop = Shop()
    shop.look(T0, {"_id": "a", "seq": 1})
    asyncio.run(past.save([shop.tracker()], T0))
    (trouble,) = past.troubles.values()
    assert "cannot be used" in trouble.title
    assert_closed(connections)
    asyncio.run(past.close())


def test_a_value_of_the_past_that_a_clock_dates_later_is_before_the_first_reading() -> None:
    shop = Shop()
    shop.look(T0, ORDERS)
    shop.tracker().add_past([PastValue(T0 + 5, 90, INT64), PastValue(T0 - 5, 80, INT64)])
    series = shop.tracker().series
    assert [(round(at - T0, 3), value) for at, value in zip(series.times, series.values, strict=True)] == [
        (-5, 80), (-0.001, 90), (0, 100),
    ]  # fmt: skip


def test_what_a_counter_was_when_it_was_idle_is_in_its_history() -> None:
    shop = Shop()
    for at, value in ((0, 5), (100, 5), (101, 6), (200, 6), (201, 8)):
        shop.look(T0 + at, {"_id": "a", "seq": value})
    series = shop.tracker().series
    assert [(at - T0, value) for at, value in zip(series.times, series.values, strict=True)] == [
        (0, 5), (100, 5), (101, 6), (200, 6), (201, 8),
    ]  # fmt: skip


async def test_of_a_counter_that_is_idle_a_sample_is_kept_each_hour_only(tmp_path: Path) -> None:
    path, shop = tmp_path / "counters.sqlite", Shop()
    past = PastReader(ReplicaSetGateway(), path, time.time, oplog=False)  # type: ignore[arg-type]
    await past.open()
    for minute in range(0, 66, 5):
        await asyncio.to_thread(shop.look, T0 + 60 * minute, {"_id": "idle", "seq": 9}, {"_id": "busy", "seq": minute})
        await past.save(shop.collection.trackers, T0 + 60 * minute)
    await past.close()
    with contextlib.closing(sqlite3.connect(path)) as kept:
        counts = dict(kept.execute("SELECT counter, count(*) FROM sample GROUP BY counter").fetchall())
    assert counts == {"shop.counters/idle/seq": 2, "shop.counters/busy/seq": 14}


def test_a_store_that_is_closed_opens_no_file(tmp_path: Path, connections: list[sqlite3.Connection]) -> None:
    store = SampleStore(tmp_path / "counters.sqlite")
    store.close()
    with pytest.raises(InputError, match="closed"):
        store.load("here", ["a", "b"], T0)
    assert not connections


def test_a_counter_above_2_53_that_rises_is_not_rewound() -> None:
    shop = Shop()
    for n in range(42):
        (view,) = shop.look(T0 + n, {"_id": "a", "seq": Int64(10**18 + 20 + n)})
    assert (view.flags, shop.tracker().series.steps, view.rate) == ((), 41, pytest.approx(1.0))


@pytest.mark.parametrize("more", [{}, {"step": 1}, {"increment": 1}])
def test_a_counter_that_only_falls_by_one_descends_whatever_its_document_calls_its_step(more: dict[str, int]) -> None:
    shop = Shop()
    for n in range(8):
        (view,) = shop.look(T0 + n, {"_id": "a", "seq": 500 - n, **more})
        assert {*view.flags} - {Flag.GUESS} == ({Flag.REWOUND} if n in (1, 2) else set())
    assert (view.step, view.left, shop.tracker().movement) == (-1, 493, Movement.DESCENDS)
    assert view.ceiling is not None
    assert (view.ceiling.value, view.ceiling.reason) == (0, "0 (it descends)")
    for n in range(8, 20):
        shop.look(T0 + n, {"_id": "a", "seq": 500 - n, **more})
    shop.tracker().update_forecasts(T0 + n)
    naive = shop.tracker().view().forecast.naive
    assert naive is not None
    assert naive.timestamp() == pytest.approx(T0 + 500, abs=5)


def test_a_counter_that_counts_up_by_its_document_is_known_to_until_it_only_falls() -> None:
    movements = []
    for values in ((7,), (7, 8, 5), (7, 8, 5, 6, 5), (7, 5), (7, 4, 2)):
        shop = Shop()
        for n, value in enumerate(values):
            shop.look(T0 + n, {"_id": "a", "seq": value, "step": 1})
        movements.append(shop.tracker().movement)
    assert movements == [Movement.RISES] * 3 + [Movement.UNSEEN] * 2


def test_a_counter_whose_past_rises_is_not_taken_for_one_that_descends() -> None:
    shop = Shop()
    shop.look(T0, {"_id": "a", "seq": 500})
    shop.tracker().add_past([PastValue(T0 - 100 + n, 400 + n, INT32) for n in range(100)])
    for n in range(8):
        (view,) = shop.look(T0 + n, {"_id": "a", "seq": 500 - n})
    assert (view.flags, view.step, shop.tracker().movement) == ((Flag.REWOUND,), 1, Movement.MIXED)


def test_a_counter_that_descends_from_minus_one_is_not_full_and_one_at_zero_is() -> None:
    for start, flags, left in ((-1, (), 2**63 - 8), (7, (Flag.FULL,), 0)):
        shop = Shop()
        for n in range(8):
            (view,) = shop.look(T0 + n, {"_id": "a", "seq": start - n})
        assert (view.value, view.flags, view.left) == (start - 7, flags, left)


def test_a_reset_at_new_year_is_on_purpose_and_in_summer_is_not() -> None:
    for moment, flags in ((1_798_761_600.0, ()), (T0, (Flag.RESET,))):
        shop = Shop()
        shop.look(moment - 60, {"_id": "a", "seq": 9_000})
        (view,) = shop.look(moment + 60, {"_id": "a", "seq": 1})
        assert (view.flags, view.cycles) == (flags, not flags)


def test_a_counter_that_starts_again_at_one_hour_of_three_days_is_reset_each_day() -> None:
    for seconds, flags in ((300, ()), (9_000, (Flag.RESET,))):
        shop = Shop()
        for day in range(3):
            shop.look(T0 + 86_400 * day, {"_id": "a", "seq": 1_000 + 500 * day})
            (view,) = shop.look(T0 + 86_400 * day + 60 + seconds * day, {"_id": "a", "seq": 1})
            assert view.flags == (flags if day == 2 else (Flag.RESET,))


@pytest.mark.parametrize(("low", "is_start"), [(901_000, True), (901_001, False), (899_000, True), (898_999, False)])
def test_the_start_is_reached_if_one_in_a_hundred_is_issued_again(low: int, is_start: bool) -> None:
    assert Decrease(T0, 1_000_000, low).to_start(900_000) is is_start
    assert Decrease(T0, 20, 1).to_start(0)


def test_a_counter_that_went_back_from_the_same_number_twice_cycles() -> None:
    shop = Shop()
    values = [998, 999, 1, 2, 998, 999, 1]
    views = [shop.look(T0 + 60 * n, {"_id": "a", "seq": value})[0] for n, value in enumerate(values)]
    assert [view.flags for view in views[2:4]] == [(Flag.RESET,)] * 2
    assert (views[-1].flags, views[-1].cycles) == ((), True)


def test_a_counter_that_is_set_back_again_before_it_has_recovered_does_not_cycle() -> None:
    shop = Shop()
    views = [shop.look(T0 + 60 * n, {"_id": "a", "seq": value})[0] for n, value in enumerate([900_000, 1_000, 10])]
    assert [(view.flags, view.cycles) for view in views[1:]] == [((Flag.RESET,), False)] * 2


@pytest.mark.parametrize("cycles", [True, False])
def test_a_counter_whose_use_cycles_may_fall_from_any_number_between_two_readings(cycles: bool) -> None:
    shop = Shop()
    key = shop.collection.ns
    for cycles_in_use, values in ((False, [3, 7, 5]), (cycles, [8, 2, 6, 3])):
        # Another document that is none makes it recognised again.
        cycling, others = frozenset("a" * cycles_in_use), frozenset(str(values))
        finding = UsageFinding(
            key, "seq", Grade.CERTAIN, targets=(IdField(key, "_id"),), cycling=cycling, others=others
        )
        shop.collection.learn({"seq": finding})
        for n, value in enumerate(values):
            (view,) = shop.look(T0 + 100 * cycles_in_use + n, {"_id": "a", "seq": value})
            assert view.cycles == cycles_in_use
        assert bool(view.flags) == (not cycles_in_use)


@pytest.mark.parametrize("cycle", [True, False])
def test_a_sequence_document_says_itself_that_it_cycles(cycle: bool) -> None:
    shop = Shop("key_sequence")
    row = {"_id": "card", "increment_by": 1, "min_value": 1, "max_value": 199, "cycle": cycle, "last_value": 198}
    shop.look(T0, row)
    (view,) = shop.look(T0 + 1, row | {"last_value": 199})
    assert view.ceiling == Ceiling(199, "max_value")
    assert (Flag.FULL in view.flags, view.near is not None) == (not cycle, not cycle)
    (view,) = shop.look(T0 + 2, row | {"last_value": 1})
    assert (Flag.RESET in view.flags, view.cycles) == (not cycle, cycle)


@pytest.mark.parametrize(
    ("name", "more", "ceiling"),
    [
        ("counters", {}, Ceiling((2**63 - 1) // 20, "int64, 20 ids a block", is_storage=True)),
        ("spans", {"max_value": 999}, Ceiling(999, "max_value")),
    ],
)
def test_the_ceiling_of_a_counter_of_blocks_is_that_of_its_ids_unless_its_document_names_one(
    name: str, more: dict[str, int], ceiling: Ceiling
) -> None:
    shop = Shop(name)
    target = IdField(Namespace("shop", "orders"), "_id")
    finding = UsageFinding(shop.collection.ns, "seq", Grade.CERTAIN, (target,), block=20)
    shop.collection.learn({"seq": finding})
    (view,) = shop.look(T0, {"_id": "orders", "seq": 7, **more})
    assert view.ceiling == ceiling


def test_a_counter_of_blocks_is_near_2_31_where_its_ids_are_also_if_a_rule_only_names_it() -> None:
    ns, now, last = Namespace("shop", "counters"), datetime.fromtimestamp(T0, UTC), (2**31 - 1) // 50
    target = IdField(Namespace("shop", "orders"), "_id")
    for rules in ((), (Rule(ns, name="orders"),), (Rule(ns, block=50),)):
        shop = Shop("counters", *rules)
        block = 1 if rules and rules[0].block else 50
        shop.collection.learn({"seq": UsageFinding(ns, "seq", Grade.CERTAIN, (target,), block=block)})
        early, soon, late, past = (
            shop.look(T0 + n, {"_id": "orders", "seq": seq})[0]
            for n, seq in enumerate((last // 2, last * 4 // 5, last - 9, last + 9))
        )
        assert (early.near, early.crossing_used) == (None, pytest.approx(0.5))
        assert (soon.near, nearest_limit(soon, now)) == (None, ("int32", last - last * 4 // 5))
        assert (late.near, nearest_limit(late, now)) == (Ceiling(last, "int32"), ("int32", 9))
        assert (past.near, past.crossing) == (None, None)
        assert nearest_limit(past, now) == ("int64", (2**63 - 1) // 50 - last - 9)


def test_many_tenants_are_one_row_with_the_worst_under_it() -> None:
    shop = Shop()
    rows = [{"_id": f"tenant {n}", "seq": n} for n in range(1_000)]
    (view,) = shop.look(T0, *rows)
    assert view.members is not None
    assert (view.members.count, view.value) == (1_000, 499_500)
    assert "tenant 999" in {member.id for member in view.members.worst}
    rows[17] = {"_id": "tenant 17", "seq": 3}
    (view,) = shop.look(T0 + 1, *rows[:-1])
    assert view.members is not None
    assert view.members.count == 999
    (fallen,) = [member for member in view.members.worst if member.flags]
    assert (fallen.id, fallen.flags, fallen.value) == ("tenant 17", (Flag.REWOUND,), 3)


def test_where_many_collections_hold_counters_smaller_groups_are_one_row() -> None:
    assert [group_above(collections) for collections in (1, 100, 500, 5_000)] == [200, 200, 40, 20]
    shop, library = Shop("tenant_counters"), Shop("identitycounters")
    for one in (shop, library):
        one.collection.group_above = 40
    tenants = [{"_id": f"tenant {n}", "seq": n} for n in range(41)]
    assert len(shop.look(T0 - 1, *tenants[:40])) == 40
    (view,) = shop.look(T0, *tenants)
    assert view.members is not None
    assert view.members.count == 41
    assert [member.id for member in view.members.worst] == [f"tenant {n}" for n in (40, 39, 38, 37)]
    # Each of these may be compared with the largest id of its own collection.
    own = [{"_id": ObjectId(), "model": f"Pen{n}", "field": "n", "count": n, "__v": 0} for n in range(41)]
    assert len(library.look(T0, *own)) == 41
    assert len(Shop("tenant_counters").look(T0, *tenants)) == 41


def test_members_of_a_group_whose_ids_are_of_several_types_may_have_equal_numbers() -> None:
    shop = Shop()
    rows: list[dict[str, Any]] = [{"_id": f"tenant {n}", "seq": 5} for n in range(150)]
    rows += [{"_id": ObjectId(f"{n:024x}"), "id": f"other {n}", "seq": 5} for n in range(150)]
    rows = [row for pair in zip(rows[:150], rows[150:], strict=True) for row in pair]
    for at in (T0, T0 + 1):
        (view,) = shop.look(at, *rows)
        assert view.members is not None
        assert view.members.count == 300


def test_a_member_that_moves_did_not_turn_into_what_it_was_before() -> None:
    shop = Shop()
    rows: list[dict[str, Any]] = [{"_id": f"tenant {n}", "seq": float(n) if n < 30 else n} for n in range(250)]
    shop.look(T0, *rows)
    rows[25] = {"_id": "tenant 25", "seq": 26.0}
    (view,) = shop.look(T0 + 1, *rows)
    assert view.members is not None
    (moved,) = [member for member in view.members.worst if member.id == "tenant 25"]
    assert (moved.flags, moved.notes) == ((Flag.DOUBLE,), ())


def test_a_group_shows_its_doubles_and_numbers_beyond_64_bits() -> None:
    rows = [{"_id": f"tenant {n}", "seq": Int64(2**60 + n)} for n in range(300)]
    rows[5] = {"_id": "tenant 5", "seq": 3.0}
    rows[7] = {"_id": "tenant 7", "seq": Decimal128("1E+34")}
    rows[8] = {"_id": "tenant 8", "seq": Decimal128("-1E+30")}
    (view,) = Shop().look(T0, *rows)
    assert view.value == sum(2**60 + n for n in range(300) if n not in (5, 7, 8)) + 3 + (2**63 - 1) - 2**63
    assert view.members is not None
    shown = {member.id: member.flags for member in view.members.worst if member.flags}
    assert shown == {"tenant 5": (Flag.DOUBLE,), "tenant 7": (Flag.STALLED, Flag.FULL)}


@pytest.mark.parametrize(("issues", "grade"), [(4, Grade.LIKELY), (40, Grade.POSSIBLE)])
def test_a_library_counter_that_was_set_back_by_hand_stays_one(issues: int, grade: Grade) -> None:
    shop = Shop()
    ns = shop.collection.ns
    shop.collection.learn({"seq": UsageFinding(ns, "seq", Grade.UNLIKELY, issues=issues)})
    assert [view.grade for view in shop.look(T0, {"_id": "a", "seq": 4})] == [grade]


async def test_a_reading_that_is_cancelled_closes_its_cursor() -> None:
    closed: list[bool] = []

    class Endless:
        async def find(self, *_: object, **__: object) -> AsyncIterator[dict[str, Any]]:
            try:
                for number in itertools.count():
                    yield {"_id": f"tenant {number}", "seq": number}
            finally:
                closed.append(True)

    shop: Any = Shop().collection
    reading = asyncio.ensure_future(shop.read(Endless(), T0))
    await asyncio.sleep(0.05)
    reading.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await reading
    assert closed


def test_members_of_a_group_that_moved_in_the_past_are_followed_with_it() -> None:
    shop = Shop()
    rows = {f"tenant {n}": {"_id": f"tenant {n}", "seq": n} for n in range(300)}
    shop.look(T0, *rows.values())

    class Members:
        async def find(self, _: Namespace, query: dict[str, Any], *, limit: int) -> AsyncIterator[dict[str, Any]]:
            for key in query["_id"]["$in"][:limit]:
                yield rows[key]

    past = {f"tenant {n}": {"seq": [PastValue(T0 - 60, 3, INT32)]} for n in (3, 5)}
    asyncio.run(shop.collection.follow_active(Members(), past))  # type: ignore[arg-type]
    shop.collection.add_past(past)
    followed = {tracker.identity.id: tracker for tracker in shop.collection.all_trackers()}
    assert "tenant 3" not in followed, "it did not move"
    assert followed["tenant 5"].series.values == [3, 5]


def test_the_member_that_ends_first_is_the_worst() -> None:
    shop = Shop()
    for second in range(20):
        # The one with fewer ids left takes five times as long.
        ends = {"slow": 2**63 - 100_000 + second, "soon": 2**63 - 200_000 + 10 * second}
        rows = [{"_id": f"tenant {n}", "seq": n} for n in range(300)]
        shop.look(T0 + second, *rows, *({"_id": name, "seq": Int64(number)} for name, number in ends.items()))
    shop.tracker().update_forecasts(T0 + second)
    shop.tracker().invalidate_view()
    members = shop.tracker().view().members
    assert members is not None
    assert [member.id for member in members.worst[:2]] == ["soon", "slow"]


def test_a_group_counts_its_members_by_the_share_of_their_range_that_is_used() -> None:
    shop = Shop()
    seqs: list[Any] = [Int64(n % 3) for n in range(100)]
    seqs += [Int64(2**62)] * 100 + [Int64(int(2**63 * 0.995))] * 99 + [3.0]
    rows = [{"_id": f"tenant {n}", "seq": seq} for n, seq in enumerate(seqs)]
    (view,) = shop.look(T0, *rows)
    assert view.members is not None
    assert {percent: count for percent, count in enumerate(view.members.used) if count} == {0: 101, 50: 100, 99: 99}
    (view,) = shop.look(T0 + 1, *rows[:150])
    assert view.members is not None
    assert [count for count in view.members.used if count] == [100, 50]
