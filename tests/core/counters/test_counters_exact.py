"""Small parts whole: what a rule changes of an identity, when a statement begins to count, how far a guess may move."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any, cast

import pytest
from bson import Int64, ObjectId

from builders.counters import counter
from tallyglass.counters import ceiling, check_line, limits, metrics, numbers
from tallyglass.counters.ceiling import Consumer, ceiling_of
from tallyglass.counters.follow import (
    collection,
    collections,
    differences,
    drift,
    group,
    known,
    past_reader,
    restarts,
    tracker,
    watch,
)
from tallyglass.counters.follow.group import Group
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.forecast import basis, estimate, series, shift, trend
from tallyglass.counters.history import objectid_samples, oplog_samples, store
from tallyglass.counters.numbers import read_number
from tallyglass.counters.recognise import (
    config,
    discovery,
    guess,
    identity,
    idle,
    ids,
    recogniser,
    shapes,
    targets,
    usage,
    usage_reader,
)
from tallyglass.counters.recognise.config import Acknowledgement, IdField, Resets, Rule
from tallyglass.counters.recognise.finding import UsageFinding
from tallyglass.counters.recognise.identity import Identity, apply_rule
from tallyglass.counters.recognise.idle import IdleGuesses, LargestIds
from tallyglass.counters.recognise.libraries import recognise
from tallyglass.counters.recognise.shapes import Match, Shape
from tallyglass.counters.snapshot import (
    Absence,
    Ceiling,
    CountersSnapshot,
    CounterTrouble,
    CounterView,
    Flag,
    Forecast,
    Grade,
    MissingCounter,
    NumericType,
    PoolView,
    Semantics,
)
from tallyglass.counters.span import format_span
from tallyglass.counters.verdict import CRITICAL, OK, UNKNOWN, WARNING, Thresholds, grade, is_young
from tallyglass.mongo.gateway import Namespace

SHOP, ORDERS = Namespace("shop", "counters"), IdField(Namespace("shop", "orders"), "no")
NOW = datetime(2026, 11, 20, tzinfo=UTC)
PLAIN = Identity(
    "k", SHOP, "shop.counters", "a", "a", "seq", "seq", "manual", "MongoDB manual", Semantics.NEXT,
    start=3, bound=50, bound_name="max", consumers=(Consumer.JAVASCRIPT,), digits=9, confidence=0.8,
    targets=(ORDERS,), step=4, block=20, evidence="By name only.",
)  # fmt: skip
RULED: dict[str, Any] = {"are_consumers_known": False, "confidence": 1.0, "grade": Grade.CERTAIN,
         "evidence": "Named in the configuration."}  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "changes"),
    [
        ({}, {}),
        ({"name": "bills"}, {"id": "bills"}),
        ({"semantics": Semantics.LAST}, {"semantics": Semantics.LAST}),
        ({"start": 0}, {"start": 0}),
        ({"min": 7, "cycle": True}, {"start": 7, "cycle": True}),
        ({"max": 99}, {"bound": 99, "bound_name": "max (configured)"}),
        ({"max": 0}, {"bound": 0, "bound_name": "max (configured)"}),
        ({"step": -1, "min": 2, "max": 70},
         {"step": -1, "start": 70, "bound": 2, "bound_name": "min (configured)", "is_step_known": True,
          "is_step_configured": True}),
        ({"step": 5}, {"step": 5, "is_step_known": True, "is_step_configured": True}),
        ({"digits": 6}, {"digits": 6}),
        ({"consumer": Consumer.INT32}, {"consumers": (Consumer.INT32,), "are_consumers_known": True}),
        ({"target": replace(ORDERS, field="id")}, {"targets": (replace(ORDERS, field="id"),), "is_target_named": True}),
        ({"block": 10}, {"block": 10}),
        ({"resets": Resets.YEARLY}, {"resets": Resets.YEARLY}),
    ],
)  # fmt: skip
def test_a_rule_changes_what_it_names_and_nothing_else(rule: dict[str, Any], changes: dict[str, Any]) -> None:
    assert apply_rule(PLAIN, Rule(SHOP, **rule)) == replace(PLAIN, **RULED | changes)
    # What is known of it without the rule stays.
    stepped = replace(PLAIN, is_step_known=True, cycle=True)
    assert apply_rule(stepped, Rule(SHOP, **rule)) == replace(
        PLAIN, **RULED | changes | {"is_step_known": True, "cycle": True}
    )


DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("forecast", "used", "level", "young"),
    [
        (Forecast(early=NOW + 90 * DAY), 0.1, WARNING, False),
        (Forecast(early=NOW + 90.01 * DAY), 0.1, OK, False),
        (Forecast(early=NOW + 30 * DAY), 0.1, CRITICAL, False),
        (Forecast(early=NOW - DAY), 0.1, CRITICAL, False),
        # Ten changes: the naive date over 3.5.
        (Forecast(naive=NOW + 315 * DAY, steps=10, history_seconds=9e9), 0.1, WARNING, False),
        (Forecast(naive=NOW + 316 * DAY, steps=10, history_seconds=9e9), 0.1, OK, False),
        (Forecast(naive=NOW + 105 * DAY, steps=10, history_seconds=7_200), 0.1, CRITICAL, False),
        (Forecast(naive=NOW + 105 * DAY, steps=10, history_seconds=7_199), 0.1, WARNING, False),
        (Forecast(naive=NOW + 30 * DAY, steps=10, history_seconds=7_199), 0.1, CRITICAL, False),
        (Forecast(naive=NOW + 31 * DAY, steps=10, history_seconds=7_199), 0.1, WARNING, False),
        # A ten-thousandth of the time until it.
        (Forecast(naive=NOW + 10 * DAY, steps=10, history_seconds=86.4), 0.1, CRITICAL, False),
        (Forecast(naive=NOW + 10 * DAY, steps=10, history_seconds=86.3), 0.1, OK, True),
        # Three changes warn, two say nothing.
        (Forecast(naive=NOW + 30 * DAY, steps=9, history_seconds=9e9), 0.1, WARNING, True),
        (Forecast(naive=NOW + 31 * DAY, steps=9, history_seconds=9e9), 0.1, OK, True),
        (Forecast(naive=NOW + DAY, steps=3, history_seconds=9e9), 0.1, WARNING, True),
        (Forecast(naive=NOW + DAY, steps=2, history_seconds=9e9), 0.1, OK, True),
        (Forecast(naive=NOW + DAY, steps=2, history_seconds=9e9), 0.51, UNKNOWN, True),
        (Forecast(naive=NOW + DAY, steps=2, history_seconds=9e9), 0.5, OK, True),
        # One that issued nothing for an hour is idle, and one that moved is not young.
        (Forecast(far=True, rate=0.0, history_seconds=3_600), 0.6, OK, False),
        (Forecast(far=True, rate=0.0, history_seconds=3_599), 0.6, UNKNOWN, True),
        (Forecast(far=True, rate=1.0, history_seconds=9), 0.6, OK, False),
        (Forecast(), 0.75, WARNING, True),
        (Forecast(), 0.9, CRITICAL, True),
    ],
)
def test_when_the_time_left_begins_to_count(forecast: Forecast, used: float, level: int, young: bool) -> None:
    row = counter(1, forecast=forecast, used=used)
    assert (grade(row, Thresholds(), NOW)[0], is_young(row, NOW)) == (level, young)
    assert grade(replace(row, cycles=True), Thresholds(), NOW)[0] == OK


@pytest.mark.parametrize(
    ("flag", "days", "level"),
    [
        (Flag.REWOUND, 0, CRITICAL),
        (Flag.RESET, 7, CRITICAL),
        (Flag.RESET, 7.01, WARNING),
        (Flag.REWOUND, 30, WARNING),
        (Flag.REWOUND, 30.01, OK),
        (Flag.BEHIND, 99, CRITICAL),
        (Flag.EMPTY, 99, CRITICAL),
        (Flag.UNCLEAR, 99, WARNING),
        (Flag.FIRST_FULL, 99, OK),
    ],
)
def test_how_long_a_flag_counts(flag: Flag, days: float, level: int) -> None:
    row = counter(1, flags=(flag,), rewound_at=NOW - days * DAY)
    assert grade(row, Thresholds(), NOW)[0] == level
    assert grade(replace(row, acknowledged=(flag,)), Thresholds(), NOW)[0] == OK


def test_an_acknowledgement_ends_at_its_time() -> None:
    one = Acknowledgement("shop.* a?", (Flag.RESET,), NOW)
    before, at = NOW - timedelta(microseconds=1), NOW
    assert [one.covers("shop.counters a1", moment) for moment in (before, at)] == [True, False]
    assert not one.covers("shop.counters b1", before)


def test_the_limits_of_what_reads_the_ids() -> None:
    found = {one: ceiling_of(NumericType.DECIMAL, consumers=(one,)).value for one in Consumer}
    assert found == {
        Consumer.INT32: 2_147_483_647,
        Consumer.UINT32: 4_294_967_295,
        Consumer.JAVASCRIPT: 9_007_199_254_740_991,
        Consumer.INT64: 9_223_372_036_854_775_807,
    }


def test_a_text_is_a_number_only_where_texts_are_sought() -> None:
    assert (read_number("A-12"), read_number("A-12", text=True)) == (None, (12, NumericType.STRING))
    assert read_number(Int64(12)) == (12, NumericType.INT64)


def test_the_row_of_a_group_stands_for_many_and_shows_no_end_of_its_own() -> None:
    row, single = Group(PLAIN, "seq", lambda _: None).tracker, Tracker(PLAIN)
    assert (row.stands_for_many, single.stands_for_many) == (True, False)
    assert (row.near, [*row.members], [*single.members]) == (None, [], [])


@pytest.mark.parametrize(
    ("largest", "now", "found"),
    [([500], 500, 500), ([501], 501, 501), ([600], 650, 600), ([601], 650, None), ([620], 610, None),
     ([510, 520], 530, None), ([500, 510], 530, 500), ([499], 500, None), ([510], 505, None)],
)  # fmt: skip
def test_a_guess_in_use_has_the_one_largest_id_that_it_passed_by_a_hundred_at_most(
    largest: list[int], now: int, found: int | None
) -> None:
    read = LargestIds(cast("Any", None), (), ())
    read._found = {number: [IdField(SHOP, str(number))] for number in largest}
    guesses = IdleGuesses(read, {"k": (SHOP, 500), "unread": (SHOP, None)})
    target = guesses.target("k", now)
    assert (target and int(target.field)) == found
    assert (guesses.target("unread", now), guesses.target("k", None)) == (None, None)
    reached = [number for number in largest if 500 <= number <= 600]
    assert guesses.moved() == ({SHOP} if len(reached) == 1 else set())


BOUNDS: dict[ModuleType, dict[str, Any]] = {
    check_line: {"_MOST_NAMED": 5, "MOST_CHARACTERS": 4_096, "_MOST_TEXT": 2_000, "_OTHERS": 300, "_MOST_ALIKE": 20},
    collection: {"_BATCH": 1_000, "_ROWS_A_REST": 16},
    collections: {"_AT_ONCE": 8},
    differences: {"NEWEST": 2_000, "MOST_GAPS": 5},
    drift: {"_AT_ONCE": 4, "AGAIN_SECONDS": 30.0},
    group: {
        "GROUP_ABOVE": 200, "_LEAST_GROUP": 20, "_MOST_SINGLE": 20_000, "_MOST_FOLLOWED": 100, "_SHOWN": 20,
        "_LARGEST_SHARE": 10, "_LEAST_LARGEST": 3,
    },
    known: {"MOST_KNOWN": 5_000, "FORGOTTEN_AFTER": 30 * 86_400, "_MOST_ASKED": 100, "_ROUTINE": 3},
    past_reader: {"MOST_SAVED": 5_000, "MOST_DATED": 50},
    watch: {"_MANY_COLLECTIONS": 8, "_LONGEST_PAUSE": 10.0, "_USE_SECONDS": 3.0, "_USE_SHARE": 0.4},
    series: {"MIN_STEPS": 10, "HOLE_SECONDS": 3 * 86_400, "_KEPT_SECONDS": 120 * 86_400, "_THIN_ABOVE": 1_500},
    objectid_samples: {"POINTS": 120, "_LONGEST": 120 * 86_400, "_AT_ONCE": 4},
    oplog_samples: {
        "SLICES": 64, "DOCUMENTS": 1_000_000, "ENTRIES": 2_000, "_AT_ONCE": 4, "_BATCH": 400, "_LEAST_GROUP": 8,
        "_MOST_GROUPS": 32,
    },
    store: {
        "MOST_ROWS": 500_000, "_LOADED": 120 * 86_400, "_OLDER_AT_ONCE": 2, "_KEYS_IN_QUERY": 500,
        "_THINNED": ((2 * 86_400, 3_600), (14 * 86_400, 6 * 3_600)),
    },
    limits: {
        "INT32_MAX": 2_147_483_647, "UINT32_MAX": 4_294_967_295, "INT64_MAX": 9_223_372_036_854_775_807,
        "INT64_MIN": -9_223_372_036_854_775_808, "JS_SAFE_MAX": 9_007_199_254_740_991,
        "DOUBLE_STALL": 9_007_199_254_740_992, "DECIMAL_STALL": int("1" + 34 * "0"), "MOST_DIGITS": 30,
    },
    discovery: {"SAMPLE": 5, "MOST_GUESSED": 5_000, "MOST_READ": 200_000, "_AT_ONCE": 8},
    idle: {"LEAST_VALUE": 100, "_MOST_MOVED": 100, "_MOST_FIELDS": 4, "_MOST_COLLECTIONS": 1_000},
    ids: {"MOST_COUNTED": 1_000, "_MOST_SKIPPED": 20},
    usage_reader: {
        "PERIODS": (15, 60, 240, 960, 3_840, 15_360, 61_440, 245_760), "MOST_EXAMINED": 1_000_000,
        "_MOST_IN_REQUEST": 100_000, "MOST_UPDATES": 30_000, "MOST_IN_PERIOD": 5_000, "MOST_PROBES": 60,
        "MOST_IN_PROBE": 2_000, "_ENOUGH_OF_COLLECTION": 1_500, "_ENOUGH_OF_NUMBER": 20, "_PROBE_SECONDS": 4,
        "_RANGE_SECONDS": 60, "_MOST_LATE": 8, "_LATE_OF_NUMBER": 3, "_LEAST_LATE": 10, "_AT_ONCE": 4,
        "_BATCH_SIZE": 500, "_DEPTH": 4, "_ELEMENTS": 20, "_LONGEST_TEXT": 48,
    },
    basis: {
        "_PARTS_OF_A_SPAN": 12, "_LEAST_WEEKS": 2, "_RECENT_WEEKS": 5, "_BLOCKS": (1, 2, 3, 4, 6, 8), "NEARLY": 0.01,
    },
    estimate: {"_FADING": 43_200, "_FADING_SPANS": 2, "_FADED": 40, "_HALVINGS": 40},
    shift: {"_LEAST_DAYS": 14, "_LEAST_WEEKDAYS": 3, "_LEAST_SINCE": 3, "_CUT_HOURS": 3, "_NOISE_FLOOR": 0.01**2},
    trend: {"TREND_WEEKS": 3, "_TREND_DAYS": 5, "_WANDER_DAYS": 28, "_LAGS": (14, 28, 56)},
    guess: {"_MOST_KEYS": 10, "_LONGEST_TEXT": 300, "SURE": 0.6, "LOOSE": 0.5},
    identity: {"_ID_CHARACTERS": 120, "_LEAST_NAME": 3},
    recogniser: {"_MOST_SIGNATURES": 256},
    shapes: {"_MOST_ELEMENTS": 1_000},
    metrics: {"DEFAULT_MOST": 1_000},
    config: {"_MOST_DIGITS": 34},
    ceiling: {"_NEAR": 100},
    numbers: {"_MOST_WHOLE": 10**35, "_TAIL": 200},
    tracker: {"RECENT": 60, "_LEAST_CHANGES": 5, "_LATELY": 30.0, "_OLDEST": 30.0, "_AGES": 10, "_PARTS": 500},
    restarts: {"MOST_FALLS": 8, "DESCENDS_AFTER": 3, "_ZONES": 14 * 3_600},
    usage: {
        "WINDOW_SECONDS": 2.0, "LATE_SECONDS": 30.0, "_LARGE": 1_000, "_CERTAIN_ISSUES": 5, "_LIKELY_ISSUES": 3,
        "_SMALL": 100, "_SMALL_ISSUES": 10, "_SMALL_DIFFERENT": 3, "_MOST_RANK": 3, "_LEAST_RANGE": 2,
        "_MOST_RANGE": 2_000, "_CERTAIN_RANGES": 3, "_LIKELY_RANGES": 2, "_OTHER_ISSUES": 5, "_OPEN_ISSUES": 3,
        "_CYCLES": 2, "_LEAST_CYCLE": 5, "_FALLS_ONCE_IN": 10, "_CORRECTED_ONCE_IN": 100, "_FEW_FALL": 1 / 3,
        "_LEAST_HI": 2, "_LEAST_BLOCK": 10,
    },
}  # fmt: skip
"""What a server is asked for at most, what is kept and shown, and from when on a statement is made: docs/counters.md
promises most of it."""


@pytest.mark.parametrize("module", BOUNDS, ids=lambda module: module.__name__.rpartition(".")[2])
def test_what_is_asked_for_kept_and_shown_at_most(module: ModuleType) -> None:
    assert {name: getattr(module, name) for name in BOUNDS[module]} == BOUNDS[module]


def test_what_is_not_known_of_a_snapshot() -> None:
    assert CountersSnapshot(NOW, ()) == CountersSnapshot(
        at=NOW, counters=(), troubles=(), discovering=False, collections_seen=0, collections_looked=0,
        collections_unread=0, unmatched=(), oplog_seconds=None, known=0, missing=(), ahead=0.0,
    )  # fmt: skip
    assert Forecast() == Forecast(
        early=None, likely=None, late=None, naive=None, rate=None, basis="", history_seconds=0.0, steps=0, spread=None,
        far=False, note="",
    )  # fmt: skip
    required: dict[str, Any] = {
        "key": "k", "ns": "a.b", "id": "a", "field": "n", "shape": "", "library": "", "value": 5,
        "type": NumericType.INT64, "semantics": Semantics.LAST, "start": 0, "ceiling": None, "used": None, "rate": None,
        "forecast": Forecast(),
    }  # fmt: skip
    unknown: dict[str, Any] = {
        "crossing": None, "drift": None, "target": "", "odd_ids": 0, "repair": "", "burn": None, "flags": (),
        "notes": (), "recent": (), "history": (), "confidence": 1.0, "pool": None, "at": None, "grade": Grade.CERTAIN,
        "evidence": "", "step": 1, "block": 1, "cycles": False, "crossing_used": None, "acknowledged": (),
        "rewound_at": None, "members": None, "near": None,
    }  # fmt: skip
    assert CounterView(**required) == CounterView(**required, **unknown)
    assert MissingCounter("a.b", "a", Absence.GONE) == MissingCounter(
        ns="a.b", id="a", absence=Absence.GONE, since=None, routine=False
    )
    assert CounterTrouble("a.b", "t") == CounterTrouble(ns="a.b", title="t", advice="", partial=False)
    assert Ceiling(7, "max") == Ceiling(value=7, reason="max", is_storage=False)


MOST_UNKNOWN: dict[type[Any], dict[str, Any]] = {
    Match: {"grade": Grade.LIKELY, "step": 1, "ids_apart": 1, "block": 1},
    UsageFinding: {"semantics": Semantics.LAST, "step": 1, "ids_apart": 1, "block": 1},
    Identity: {
        "bound_name": "MAX_VALUE", "confidence": 1.0, "step": 1, "ids_apart": 1, "block": 1, "grade": Grade.LIKELY,
    },
    Shape: {"label": ("_id",), "semantics": Semantics.LAST, "target": targets.none},
    Rule: {},
    basis.Basis: {"level": 1.0},
    store.KnownCounter: {},
    Thresholds: {"warn_used": 0.75, "crit_used": 0.9, "warn_days": 90.0, "crit_days": 30.0},
    WatchSettings: {
        "refresh_seconds": 1.0, "oplog_history": True, "search_seconds": 15.0, "look_seconds": math.inf,
        "building": nullcontext,
    },
}  # fmt: skip
"""What is so of a record unless it is said, where that is not False, 0, None or empty."""


@pytest.mark.parametrize("record", MOST_UNKNOWN, ids=lambda record: record.__name__)
def test_what_is_so_of_a_record_unless_it_is_said(record: type[Any]) -> None:
    said = {one.name: one.default for one in fields(record) if one.default not in (MISSING, None, (), frozenset(), "")}
    assert {name: value for name, value in said.items() if value is not False and value != 0} == MOST_UNKNOWN[record]


@pytest.mark.parametrize(
    ("value", "step", "semantics", "issued", "left"),
    [
        (60, 1, Semantics.LAST, 60, 40),
        (60, 1, Semantics.NEXT, 59, 41),
        (60, -1, Semantics.LAST, 60, 0),
        (160, -5, Semantics.NEXT, 161, 61),
        (160, 1, Semantics.LAST, 160, 0),
        (60.9, 1, Semantics.LAST, 60, 40),
        (float("nan"), 1, Semantics.LAST, None, None),
    ],
)
def test_the_last_id_and_those_that_are_left(
    value: float, step: int, semantics: Semantics, issued: int | None, left: int | None
) -> None:
    row = counter(1, value=value, step=step, semantics=semantics, ceiling=Ceiling(100, "max"))
    assert (row.issued, row.left, replace(row, ceiling=None).left) == (issued, left, None)
    pool = replace(row, pool=PoolView(3, 1, (), (), (), ()))
    assert pool.issued == (None if issued is None else int(value))


@pytest.mark.parametrize("grade_", Grade)
def test_what_may_alarm_and_what_may_warn(grade_: Grade) -> None:
    row = counter(1, grade=grade_, near=None)
    alarms = grade_ in (Grade.CERTAIN, Grade.LIKELY)
    assert (row.may_alarm, row.may_warn, replace(row, near=Ceiling(9, "int32")).may_warn) == (alarms, alarms, True)


def test_where_each_type_ends() -> None:
    assert {kind: ceiling_of(kind) for kind in NumericType} == {
        NumericType.INT32: Ceiling(2**63 - 1, "int64", is_storage=True),
        NumericType.INT64: Ceiling(2**63 - 1, "int64", is_storage=True),
        NumericType.DOUBLE: Ceiling(2**53, "double (2^53)", is_storage=True),
        NumericType.DECIMAL: Ceiling(10**34, "Decimal128 (34 digits)", is_storage=True),
        NumericType.STRING: Ceiling(10**30 - 1, "text of digits", is_storage=True),
    }
    assert ceiling.floor_of(-1) == Ceiling(-(2**63), "int64", is_storage=True)
    assert ceiling.floor_of(0) == Ceiling(0, "0 (it descends)", is_storage=False)
    assert Ceiling(2**31 - 1, "2^31", is_storage=False) == ceiling.CROSSING
    assert ceiling.in_blocks(Ceiling(999, "max"), 10) == Ceiling(99, "max")


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (2_126_008_810, None),
        (2_126_008_811, "int32"),
        (2**31 - 1, "int32"),
        (2**31, None),
        (2**32 - 1, "uint32"),
        (2**53, "double (2^53)"),
        (2**53 + 1, None),
        (2**63 - 1, "int64"),
        (10**34 - 1, "Decimal128 (34 digits)"),
        (10**34, None),
    ],
)
def test_a_number_is_near_a_limit_in_its_last_hundredth(number: int, reason: str | None) -> None:
    found = ceiling.near_limit(number, block=1)
    assert (found and found.reason) == reason
    bound = ceiling.near_limit(99, bound=100, bound_name="max", block=1)
    assert (bound, ceiling.near_limit(98, bound=100, bound_name="max", block=1)) == (Ceiling(100, "max"), None)
    assert ceiling.near_limit(2**31 - 1, consumers=(Consumer.INT64,), block=1) is None


LONG = 300 * "x"


@pytest.mark.parametrize(
    ("rule", "document", "found"),
    [
        (targets.none, {"_id": "a"}, []),
        (targets.id_names_collection, {"_id": "users"}, [("users", "_id")]),
        (targets.dotted_id, {"_id": "a.b.no"}, [("a.b", "no"), ("a.b", "_id")]),
        (targets.dotted_id, {"_id": "users"}, []),
        (targets.id_and_field, {"_id": "users", "field": "no"}, [("users", "no")]),
        (
            targets.collection_and_field,
            {"_id": 1, "collection": "users", "field": "no", "current": 5},
            [("users", "no")],
        ),
        (targets.collection_and_field, {"collection": "users", "field": "no", "current": 5, "year": 1}, []),
        (targets.compound_id, {"_id": {"db": "shop", "coll": "users"}}, [("users", "_id")]),
        (targets.compound_id, {"_id": {"db": "shop", "coll": 5}}, []),
        (targets.compound_id, {"_id": "users"}, []),
        (targets.before_sequence, {"_id": "users_sequence"}, [("users", "_id")]),
        (targets.before_sequence, {"_id": "users-SEQ"}, [("users", "_id")]),
        (targets.before_sequence, {"_id": "users"}, [("users", "_id")]),
        (targets.before_sequence, {"_id": "_seq"}, []),
        (targets.before_sequence, {"_id": LONG}, [(255 * "x", "_id")]),
        (targets.djongo, {"name": "polls", "auto": {"field_names": list("abcde")}}, [("polls", one) for one in "abcd"]),
        (targets.djongo, {"name": "polls", "auto": {"field_names": "id"}}, []),
        (targets.mongoose_model, {"model": "Order", "field": "no"}, [("orders", "no"), ("order", "no")]),
        (targets.mongoose_model, {"m": "City", "f": "n"}, [("cities", "n"), ("city", "n")]),
        (targets.mongoose_model, {"modelName": "Day", "field": "n"}, [("days", "n"), ("day", "n")]),
        (targets.mongoose_model, {"model": "Box", "field": "n"}, [("boxes", "n"), ("box", "n")]),
        (targets.mongoose_model, {"model": "Box", "field": "n", "groupingField": "g"}, []),
        (targets.mongoose_model, {"model": LONG, "field": "n"}, [(255 * "x" + "es", "n"), (255 * "x", "n")]),
        (targets.model_field, {"_id": "order_no"}, [("orders", "no"), ("order", "no")]),
        (targets.model_field, {"_id": "users"}, []),
        (
            targets.model_field,
            {"_id": "a_b_c"},
            [("a_bs", "c"), ("a_b", "c"), ("as", "b_c"), ("a", "b_c")],
        ),
        (targets.model_field, {"_id": f"a_{LONG}"}, [("as", 253 * "x"), ("a", 253 * "x")]),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_where_the_ids_of_a_counter_may_be(
    rule: Callable[[dict[str, Any]], list[tuple[str, str]]], document: dict[str, Any], found: list[tuple[str, str]]
) -> None:
    assert rule(document) == found
    assert len(targets.model_field({"_id": "a_b_c_d_e_f_g"})) == 8


@pytest.mark.parametrize(
    ("raw", "digits"),
    [("INV-000123", 6), ("0", 1), ("INV-123", None), ("INV", None), ("", None), (123, None), ("0012 (old)", 4)],
)
def test_a_text_of_digits_has_room_for_those_it_is_padded_to(raw: object, digits: int | None) -> None:
    assert numbers.padded_digits(raw) == digits


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (40.4, "40 s"), (59.6, "60 s"), (59.7, "1 min"), (60, "1 min"), (62.9, "1 min"), (63.1, "1.1 min"),
        (119, "2 min"), (570, "9.5 min"), (640, "11 min"), (3_581, "60 min"), (3_582, "1 h"), (5_400, "1.5 h"),
        (85_968, "1 day"), (86_400, "1 day"), (129_600, "1.5 days"), (864_000, "10 days"), (63_071_999, "730 days"),
        (63_072_000, "2 years"), (3.15576e9, "100 years"),
    ],
)  # fmt: skip
def test_a_length_of_time_in_one_unit(seconds: float, text: str) -> None:
    assert format_span(seconds) == text


@pytest.mark.parametrize(
    ("collection_name", "document", "confidence", "grade_", "evidence"),
    [
        ("counters", {"_id": "a", "seq": 5}, 1.0, Grade.LIKELY, "The shape and name of a known library."),
        ("odd", {"_id": "a", "current_id": 5}, 0.8, Grade.POSSIBLE, "The shape of a known library."),
        ("odd", {"_id": ObjectId(), "model": "A", "field": "n", "count": 5, "__v": 0}, 0.8, Grade.LIKELY,
         "The shape of a known library."),
        ("odd", {"_id": "a", "COUNT": 5, "MAX_VALUE": 9}, 1.0, Grade.LIKELY, "The shape and name of a known library."),
    ],
)  # fmt: skip
def test_how_sure_a_shape_is(
    collection_name: str, document: dict[str, Any], confidence: float, grade_: Grade, evidence: str
) -> None:
    (match,) = recognise(collection_name, document)
    assert (match.confidence, match.grade, match.evidence) == (confidence, grade_, evidence)


@pytest.mark.parametrize(
    ("facts", "values", "step"),
    [
        ({"step": 50}, [3], 50),
        ({"step": 50}, [3, 4, 5], 1),
        ({"step": 50}, [50, 100, 200], 50),
        ({"step": 50}, [50, 70], 10),
        ({"step": 50, "is_step_known": True}, [50, 70], 50),
        ({"step": -5}, [50, 45], -5),
        ({"step": -5}, [50, 48], -1),
        ({"step": 1}, [50, 70], 1),
        ({"step": 1}, range(0, 101, 20), 20),
        ({"step": 1}, range(0, 81, 20), 1),
        ({"step": 1, "is_step_known": True}, range(0, 101, 20), 1),
        # Found of a number that is seen to descend here.
        ({"step": 50}, [50, 49, 48, 47, 46, 45], -1),
    ],
)
def test_the_step_is_as_it_is_known_else_as_found_by_use_where_the_own_changes_agree(
    facts: dict[str, Any], values: Sequence[int], step: int
) -> None:
    """What was found is of the most frequent step of all documents: one that is seen to add less has its own."""
    tracker = Tracker(replace(PLAIN, start=0, **facts))
    for at, value in enumerate(values):
        tracker.observe(value, NumericType.INT64, 1e9 + at)
    assert tracker.step == step
