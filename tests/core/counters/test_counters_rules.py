"""Ceilings, pools, repairs, verdicts and the user's own file: the rules, without a server."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bson import Decimal128, Int64, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyglass.counters.ceiling import Consumer, ceiling_of
from tallyglass.counters.check_line import check_counters
from tallyglass.counters.follow.pools import PoolSpan, as_pool, outlook
from tallyglass.counters.numbers import as_number, is_stalled
from tallyglass.counters.recognise.config import CountersConfig, load_config, parse_config
from tallyglass.counters.repair import move_command
from tallyglass.counters.snapshot import (
    Absence,
    Ceiling,
    CountersSnapshot,
    CounterTrouble,
    CounterView,
    Flag,
    Forecast,
    Grade,
    Members,
    MissingCounter,
    NumericType,
    Semantics,
)
from tallyglass.counters.verdict import CRITICAL, OK, UNKNOWN, WARNING, Thresholds, crossing_warnings, grade
from tallyglass.errors import InputError
from tallyglass.mongo.gateway import Namespace
from tallyglass.text import clean

INT32, INT64, DOUBLE, DECIMAL = NumericType.INT32, NumericType.INT64, NumericType.DOUBLE, NumericType.DECIMAL
NOW = datetime(2026, 11, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("ceiling", "value", "reason"),
    [
        (ceiling_of(INT32), 2**63 - 1, "int64"),
        (ceiling_of(DOUBLE), 2**53, "double (2^53)"),
        (ceiling_of(DECIMAL), 10**34, "Decimal128 (34 digits)"),
        (ceiling_of(INT64, consumers=(Consumer.INT32,)), 2**31 - 1, "int32 consumer"),
        (ceiling_of(INT64, consumers=(Consumer.JAVASCRIPT, Consumer.UINT32)), 2**32 - 1, "uint32 consumer"),
        (ceiling_of(INT64, bound=999, digits=2), 99, "2 digits"),
        (ceiling_of(DOUBLE, bound=10**18, bound_name="max"), 2**53, "double (2^53)"),
        (ceiling_of(INT32, bound=2**31 - 1, consumers=(Consumer.INT32,)), 2**31 - 1, "MAX_VALUE"),
    ],
)
def test_the_smallest_limit_binds_and_says_why(ceiling: Ceiling, value: int, reason: str) -> None:
    assert (ceiling.value, ceiling.reason) == (value, reason)


@pytest.mark.parametrize(
    ("raw", "kind", "number", "stalled"),
    [
        (2.0**53, DOUBLE, 2**53, True),
        (2.0**53 - 1, DOUBLE, 2**53 - 1, False),
        (1.5, DOUBLE, 1.5, False),
        (float("inf"), DOUBLE, float("inf"), True),
        (Int64(2**63 - 1), INT64, 2**63 - 1, True),
        (Decimal128("1E+34"), DECIMAL, 10**34, True),
        (Decimal128("1E+6000"), DECIMAL, float("inf"), True),
        (Decimal128("12"), DECIMAL, 12, False),
    ],
)
def test_a_value_too_large_to_step_is_stalled(raw: Any, kind: NumericType, number: float, stalled: bool) -> None:
    assert as_number(raw) == number
    assert is_stalled(as_number(raw), kind) is stalled


def spans(count: int, width: int, *, used: int = 0, first: int = 0, beyond: int = 0) -> list[PoolSpan]:
    lasts = [first + (n + 1) * width - 1 + beyond for n in range(count)]
    return [
        PoolSpan(n, str(n), last - width + 1 - beyond + used, last - width + 1 - beyond + used, last)
        for n, last in enumerate(lasts)
    ]


@pytest.mark.parametrize(("first", "beyond"), [(0, 0), (1, 0), (0, 1), (10**9, 0)])
def test_a_pool_is_documents_that_share_out_one_space(first: int, beyond: int) -> None:
    rows = spans(10, 1_000, first=first, beyond=beyond)
    rows[4] = PoolSpan(4, "4", rows[4].value + 250, rows[4].next + 250, rows[4].last)
    random.Random(1).shuffle(rows)
    cells = as_pool(rows)
    assert cells is not None
    assert [cell.id for cell in cells] == [str(n) for n in range(10)]
    assert {cell.capacity for cell in cells} == {1_000}
    assert [cell.issued for cell in cells] == [0, 0, 0, 0, 250, 0, 0, 0, 0, 0]
    assert as_pool(spans(3, 1, first=first, beyond=beyond)) is not None, "the least pool"


@pytest.mark.parametrize(
    "rows",
    [
        spans(2, 1_000),
        [PoolSpan(n, str(n), 5, 5, 1_000) for n in range(5)],
        [PoolSpan(n, str(n), 5, 5, last) for n, last in enumerate((1_000, 2_500, 9_000))],
        [PoolSpan(n, str(n), 5, 5, (n + 1) * 1_000) for n in range(5)],
    ],
)
def test_separate_counters_are_no_pool(rows: list[PoolSpan]) -> None:
    assert as_pool(rows) is None


@pytest.mark.parametrize(
    ("per_document", "first_full", "two_tries"),
    # The shares of the pool that are gone at each event, for batches of so many to a document: simulated below.
    [(1_000, 0.906, 0.988), (100, 0.713, 0.96)],
)
def test_the_three_dates_of_a_pool(per_document: int, first_full: float, two_tries: float) -> None:
    batch, documents = 1_000, 1_000
    rows = spans(documents, per_document * batch, used=batch)
    cells = as_pool(rows)
    assert cells is not None
    total = documents * per_document * batch
    ahead = outlook(cells)
    gone = documents * batch
    assert ahead.empty == total - gone
    assert (gone + ahead.first_full) / total == pytest.approx(first_full, abs=0.015)
    assert (gone + ahead.two_tries) / total == pytest.approx(two_tries, abs=0.015)


@pytest.mark.parametrize(("full", "ahead"), [(0, (True, True)), (1, (False, True)), (2, (False, False))])
def test_an_event_of_a_pool_that_is_past_needs_no_more_ids(full: int, ahead: tuple[bool, bool]) -> None:
    rows = spans(4, 100)
    rows[:full] = [PoolSpan(row.key, row.id, row.last + 1, row.last + 1, row.last) for row in rows[:full]]
    cells = as_pool(rows)
    assert cells is not None
    found = outlook(cells)
    assert (found.first_full > 0, found.two_tries > 0) == ahead
    assert found.empty == 100 * (4 - full)


def test_the_three_dates_agree_with_a_simulation() -> None:
    rng, documents, per_document = random.Random(3), 200, 50
    firsts, halves = [], []
    for _ in range(20):
        used, full, given, first = [0] * documents, 0, 0, 0
        while full < documents / 2:
            chosen = rng.randrange(documents)
            if used[chosen] == per_document:
                continue
            used[chosen] += 1
            given += 1
            if used[chosen] == per_document:
                full += 1
                first = first or given
        firsts.append(first)
        halves.append(given)
    cells = as_pool([PoolSpan(n, str(n), n * 50, n * 50, n * 50 + 49, n * 50) for n in range(documents)])
    assert cells is not None
    ahead = outlook(cells)
    assert ahead.first_full == pytest.approx(sum(firsts) / 20, rel=0.05)
    assert ahead.two_tries == pytest.approx(sum(halves) / 20, rel=0.05)


@given(
    db=st.text(st.characters(exclude_characters="."), min_size=1, max_size=12),
    name=st.text(max_size=20),
    identity=st.text(max_size=20),
)
@settings(max_examples=200, deadline=None)
def test_a_repair_is_safe_text_that_names_exactly_its_document(db: str, name: str, identity: str) -> None:
    text = move_command(Namespace(db, name), identity, "seq", 7)
    if text == "":
        # Bytes that were no UTF-8 cannot be named exactly; what does not fit a line cannot be pasted.
        assert "\ufffd" in db + name + identity or len(json.dumps([db, name, identity])) > 250
        return
    assert clean(text) == text
    assert re.fullmatch(r"[\x20-\x7e]*", text)
    literals = [json.loads(literal) for literal in re.findall(r'"(?:[^"\\]|\\.)*"', text)]
    assert literals == [db, name, "_id", identity, "$max", "seq", "7", "writeConcern", "w", "majority"]


def test_a_repair_keeps_the_type_of_an_id() -> None:
    ns = Namespace("shop", "counters")
    oid = ObjectId("656f9b2c0000000000000001")
    for identity, literal in [
        (5, "NumberInt(5)"),
        (Int64(5), 'NumberLong("5")'),
        (oid, f'ObjectId("{oid}")'),
        ({"db": "a", "coll": "b"}, '{"db": "a", "coll": "b"}'),
    ]:
        assert f'{{"_id": {literal}}}' in move_command(ns, identity, "seq", 7)
    for kind, value, number in [
        (NumericType.INT32, 7, "NumberInt(7)"),
        (NumericType.INT32, 2**31, 'NumberLong("2147483648")'),
        (NumericType.DECIMAL, 7, 'NumberDecimal("7")'),
        (NumericType.DOUBLE, 7, 'NumberLong("7")'),
    ]:
        assert f'{{"$max": {{"seq": {number}}}}}' in move_command(ns, "x", "seq", value, kind=kind)
    assert move_command(ns, "x" * 400, "seq", 7) == ""
    assert move_command(ns, "x", "seq", 2**63) == ""
    assert move_command(ns, "x", "seq", -(2**63) - 1, -1) == ""
    assert f'{{"$min": {{"seq": NumberLong("{-(2**63)}")}}}}' in move_command(ns, "x", "seq", -(2**63), -1)


def counter(key: str = "a", **fields: Any) -> CounterView:
    known: dict[str, Any] = {
        "key": key, "ns": "shop.counters", "id": key, "field": "seq", "shape": "manual", "library": "", "value": 5,
        "type": INT64, "semantics": Semantics.LAST, "start": 0, "ceiling": Ceiling(100, "MAX_VALUE"), "used": 0.05,
        "rate": 1.0, "forecast": Forecast(far=True, history_seconds=7200.0),
    }  # fmt: skip
    return CounterView(**(known | fields))


def ends_in(days: float) -> Forecast:
    early = NOW + timedelta(days=days)
    return Forecast(early, early + timedelta(days=100), early + timedelta(days=200))


@pytest.mark.parametrize(
    ("counters", "level", "words"),
    [
        ([counter()], OK, "OK - 1 counter"),
        ([counter(used=0.75)], WARNING, "75.0% used"),
        ([counter(used=0.99996)], CRITICAL, " >99.9% used"),
        ([counter(used=0.75), counter("b", used=0.9)], CRITICAL, "shop.counters b: 90.0% used"),
        ([counter(forecast=ends_in(89))], WARNING, "may end in 89 days"),
        ([counter(forecast=ends_in(30))], CRITICAL, "may end in 30 days"),
        ([counter(forecast=ends_in(40 / 86_400))], CRITICAL, "may end in 40 s"),
        ([counter(forecast=ends_in(91))], OK, ""),
        ([counter(flags=(Flag.DOUBLE,))], WARNING, "DOUBLE"),
        ([counter(flags=(Flag.BEHIND,))], CRITICAL, "BEHIND"),
        ([counter(used=0.99, flags=(Flag.GUESS,), grade=Grade.POSSIBLE)], UNKNOWN, "1 guess not counted"),
        ([], UNKNOWN, "no counters found"),
    ],
)
def test_verdict(counters: list[CounterView], level: int, words: str) -> None:
    verdict = check_counters(CountersSnapshot(NOW, tuple(counters)))
    assert verdict.level == level
    assert words in verdict.line
    assert "\n" not in verdict.line


def test_verdict_has_perfdata_and_its_own_thresholds() -> None:
    row = counter("it's|a=b", used=0.5, forecast=ends_in(10))
    verdict = check_counters(CountersSnapshot(NOW, (row,)), Thresholds(0.4, 0.6, 5, 2))
    assert verdict.level == WARNING
    text, _, perfdata = verdict.line.partition(" | ")
    assert "|" not in text + perfdata
    assert perfdata == ("'shop.counters it''s/a:b'=50.0000%;40;60;0;100 'shop.counters it''s/a:b days'=10.00;5:;2:")


def test_verdict_is_unknown_where_something_could_not_be_read() -> None:
    trouble = CounterTrouble("hr.counters", "This user may not run find on hr.counters.")
    assert check_counters(CountersSnapshot(NOW, (counter(),), (trouble,))).level == UNKNOWN
    assert check_counters(CountersSnapshot(NOW, (counter(used=0.95),), (trouble,))).level == CRITICAL
    partial = CounterTrouble("hr.people", "Whether its counter is behind is not known.", partial=True)
    assert check_counters(CountersSnapshot(NOW, (counter(),), (partial,))).level == OK


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[counter]", "not valid TOML"),
        ("[[counters]]\n", "Did you mean counter?"),
        ("counter = 3", "[[counter]] entries"),
        ("[[counter]]\nid = 'x'", "counter 1: collection is missing"),
        ("[[counter]]\ncollection = 'shop'", 'must be "database.collection"'),
        ("[[counter]]\ncollection = 'a.b'\n[[counter]]\ncollection = 'a.b'\nfeild = 'x'", "counter 2: 'feild'"),
        ("[[counter]]\ncollection = 'a.b'\nfeild = 'x'", "Did you mean field?"),
        ("[[counter]]\ncollection = 'a.b'\nid = 1.5", "id must be"),
        ("[[counter]]\ncollection = 'a.b'\nsemantics = 'nxt'", "Did you mean next?"),
        ("[[counter]]\ncollection = 'a.b'\nmax = 'many'", "max must be a whole number"),
        ("[[counter]]\ncollection = 'a.b'\nmax = true", "max must be a whole number"),
        ("[[counter]]\ncollection = 'a.b'\ndigits = 99", "from 1 to 34"),
        *(
            (f"[[counter]]\ncollection = 'a.b'\n{key} = {-(2**63) - 1}", f"of at least {-(2**63)}")
            for key in ("step", "start", "min")
        ),
        ("[[counter]]\ncollection = 'a.b'\nmax = -1", "of at least 0"),
        ("[[counter]]\ncollection = 'a.b'\nblock = 0", "of at least 1"),
        ("[[counter]]\ncollection = 'a.b'\nstart = 9\nmax = 5", "start 9 is not below max 5"),
        ("[[counter]]\ncollection = 'a.b'\nstart = 5\nmax = 5", "start 5 is not below max 5"),
        ("[[counter]]\ncollection = 'a.b'\nstart = 4\nmin = 5\nstep = -1", "start 4 is not above min 5"),
        ("[[counter]]\ncollection = 'a.b'\nmax = 5\nmin = 5\nstep = -1", "max 5 is not above min 5"),
        ("[[counter]]\ncollection = 'a.b'\nmax = 5\nmin = 5\ncycle = true", "min 5 is not below max 5"),
        ("[[counter]]\ncollection = 'a.b'\nstep = 0", "step must not be 0"),
        ("[[counter]]\ncollection = 'a.b'\nmin = 5", "min is the end of a descending counter"),
        ("[[counter]]\ncollection = 'a.b'\nmin = 5\nstep = 1", "min is the end of a descending counter"),
        ("[[counter]]\ncollection = 'a.b'\nconsumer = 'java'", "consumer must be"),
        ("[[counter]]\ncollection = 'a.b'\ntarget = 'shop.orders'", "database.collection.field"),
        ("[[counter]]\ncollection = 'a.b'\nhide = 'yes'", "hide must be true or false"),
        ("[[counter]]\ncollection = 'a.b'\nname = ''", "name must be a text"),
    ],
)
def test_each_mistake_in_the_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "counters.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert words in str(caught.value)


def test_a_whole_file() -> None:
    config = parse_config(
        {"counter": [{"collection": "shop.a.b", "target": "shop.orders.v2.number", "max": 5, "semantics": "next"}]}
    )
    (rule,) = config.rules_for(Namespace("shop", "a.b"))
    assert rule.target is not None
    assert (rule.target.ns, rule.target.field) == (Namespace("shop", "orders.v2"), "number")
    assert parse_config({}) == CountersConfig()


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no file"):
        load_config(tmp_path / "none.toml")


def test_verdict_is_unknown_where_the_search_is_not_complete() -> None:
    partly = CountersSnapshot(NOW, (counter(),), discovering=True, collections_seen=4_502, collections_looked=1_168)
    result = check_counters(partly)
    assert (result.level, "1,168 of 4,502 collections looked at" in result.line) == (UNKNOWN, True)
    result = check_counters(CountersSnapshot(NOW, (counter("a"),), collections_seen=9, collections_unread=2))
    assert (result.level, "2 of 9 collections not readable" in result.line) == (UNKNOWN, True)
    assert check_counters(replace(partly, counters=(counter(used=0.95),))).level == CRITICAL


@pytest.mark.parametrize(
    ("days", "steps", "seen", "level"),
    [
        # A naive date that lies 3.5 times as far as a threshold is inside it; with little history it only warns.
        (100, 10, 3_600, WARNING),
        (100, 10, 3 * 3_600, CRITICAL),
        (20, 10, 600, CRITICAL),
        (310, 10, 3 * 3_600, WARNING),
        (400, 10, 3 * 3_600, OK),
        (0.01, 5, 600, WARNING),
        (0.01, 2, 600, OK),
        (0.01, 10, 0.1, CRITICAL),  # a burst of a second says nothing of the weeks ahead
        (20, 10, 1, OK),
    ],
)
def test_too_early_for_a_band_is_no_silence(days: float, steps: int, seen: float, level: int) -> None:
    young = Forecast(naive=NOW + timedelta(days=days), rate=1.0, steps=steps, history_seconds=seen)
    result = check_counters(CountersSnapshot(NOW, (counter(forecast=young),)))
    assert result.level == level
    assert ("at this rate full in" in result.line) == (level != OK)


def test_a_young_counter_above_half_is_unknown() -> None:
    for used, level in ((0.4, OK), (0.6, UNKNOWN)):
        result = check_counters(CountersSnapshot(NOW, (counter(used=used, forecast=Forecast(steps=3)),)))
        assert (result.level, "too young to date" in result.line) == (level, True)


def test_2_31_warns_and_is_never_critical() -> None:
    near = Forecast(early=NOW + timedelta(days=1), likely=NOW + timedelta(days=2), late=NOW + timedelta(days=3))
    result = check_counters(CountersSnapshot(NOW, (counter(crossing=near, crossing_used=0.99),)))
    assert (result.level, "99.0% of 2^31 used, may pass 2^31 in 1 day" in result.line) == (WARNING, True)


@pytest.mark.parametrize(
    ("days", "steps", "seen", "reasons"),
    [
        (315, 10, 1.0, ["may pass 2^31 in 90 days"]),
        (316, 10, 1.0, []),
        (315, 9, 1.0, []),
        (315, 10, 0.03, []),
        (None, 10, 1.0, []),
    ],
)
def test_2_31_warns_of_the_rate_so_far_where_it_is_too_early_for_a_band(
    days: int | None, steps: int, seen: float, reasons: list[str]
) -> None:
    naive = None if days is None else NOW + timedelta(days=days)
    crossing = Forecast(naive=naive, steps=steps, history_seconds=seen * 86_400)
    assert list(crossing_warnings(counter(crossing=crossing), Thresholds(), NOW)) == reasons


def test_perfdata_measures_against_the_limit_that_is_said() -> None:
    crossing = replace(ends_in(5), likely=None)
    near = Ceiling(2**31 - 1, "int32")
    said = counter(value=2**31 - 3_598, used=2.0**-32, ceiling=Ceiling(2**63 - 1, "int64"), crossing=crossing)
    rows = {
        "'a'=99.9998%;75;;0;100": replace(said, crossing_used=0.999998, near=near),
        "'a'=0.0000%;75;90;0;100": said,
        "'a'=80.0000%;75;90;0;100": replace(said, used=0.8, crossing_used=0.5),
        "'a'=0.0001%;75;90;0;100": replace(said, used=1e-6, crossing_used=0.999998, cycles=True),
        "'a days'=5.00;90:;": said,
        "'a days'=4.00;90:;30:": replace(said, forecast=ends_in(4)),
    }
    for text, row in rows.items():
        line = check_counters(CountersSnapshot(NOW, (row,))).line
        assert f" {text} ".replace("'a", "'shop.counters a") in f"{line} "
    line = check_counters(CountersSnapshot(NOW, (replace(said, near=near),))).line
    assert "3,597 left until int32" in line
    assert "=99.9998%;75;;0;100" in line


def test_a_rewind_fades_and_an_acknowledged_flag_is_silent() -> None:
    for days, level in ((1, CRITICAL), (8, WARNING), (31, OK)):
        row = counter(flags=(Flag.RESET,), rewound_at=NOW - timedelta(days=days))
        assert check_counters(CountersSnapshot(NOW, (row,))).level == level
    row = counter(flags=(Flag.RESET, Flag.BEHIND), acknowledged=(Flag.RESET, Flag.BEHIND))
    result = check_counters(CountersSnapshot(NOW, (row,)))
    assert (result.level, "2 flags acknowledged" in result.line) == (OK, True)


@pytest.mark.parametrize(
    ("ago", "routine", "level"),
    [
        (timedelta(days=7), False, WARNING),
        (timedelta(days=7, seconds=1), False, OK),
        (timedelta(days=1), True, OK),
        (None, False, OK),
    ],
)
def test_a_document_that_is_gone_warns_for_seven_days(ago: timedelta | None, routine: bool, level: int) -> None:
    since = None if ago is None else NOW - ago
    gone = MissingCounter("shop.counters", "orders", Absence.GONE, since=since, routine=routine)
    assert check_counters(CountersSnapshot(NOW, (counter("b"),), known=2, missing=(gone,))).level == level


def test_what_check_prints_is_the_worst_first_then_what_is_missing_and_the_notes() -> None:
    near = Ceiling(2**31 - 1, "int32")
    rows = (
        counter("full", used=1.0, flags=(Flag.FULL,), odd_ids=2, acknowledged=(Flag.DOUBLE,)),
        counter("near", value=2**31 - 11, near=near, used=0.8),
        counter("guess", value=2**31 - 6, near=near, grade=Grade.POSSIBLE, used=0.95),
        counter("young", used=0.6, forecast=Forecast(steps=3)),
        counter("fine", drift=0),
    )
    gone = MissingCounter("shop.counters", "old", Absence.GONE, since=NOW)
    partial = CounterTrouble("", "The history has holes.", "Try again.", partial=True)
    snapshot = CountersSnapshot(NOW, rows, (partial,), known=5, missing=(gone,))
    result = check_counters(snapshot)
    text, _, perfdata = result.line.partition(" | ")
    assert text.split("; ") == [
        "COUNTERS CRITICAL - shop.counters full: FULL, 100.0% used",
        "shop.counters near: 10 left until int32, 80.0% used",
        "shop.counters guess: 5 left until int32, not certain that this is a counter",
        "shop.counters old: its number is gone: the next use begins at the start and repeats ids",
        "shop.counters young: 60.0% used and too young to date",
        "1 counter too young to date",
        "5 known, 4 read",
        "1 guess not counted (--guesses)",
        "3 counters not compared with ids",
        "2 ids could not be compared (no whole number, beyond the type, or in an array)",
        "1 flag acknowledged",
        "The history has holes.",
    ]
    assert perfdata == (
        "'shop.counters fine'=5.0000%;75;90;0;100 'shop.counters full'=100.0000%;75;90;0;100 "
        "'shop.counters near'=100.0000%;75;;0;100 'shop.counters young'=60.0000%;75;90;0;100"
    )
    assert result.details == (
        "CRITICAL shop.counters full: FULL, 100.0% used",
        "WARNING shop.counters near: 10 left until int32, 80.0% used",
        "WARNING shop.counters guess: 5 left until int32, not certain that this is a counter",
        "WARNING shop.counters old: its number is gone: the next use begins at the start and repeats ids",
        "UNKNOWN shop.counters young: 60.0% used and too young to date",
        "note: shop.counters old is gone",
        "note: The history has holes.",
    )
    asked = check_counters(snapshot, guesses=True).details
    assert [line.split(":")[0] for line in asked[:4]] == [
        "CRITICAL shop.counters full", "CRITICAL shop.counters guess", "WARNING shop.counters near",
        "WARNING shop.counters old",
    ]  # fmt: skip


def test_a_guess_alarms_only_when_asked() -> None:
    row = counter(used=0.99, grade=Grade.POSSIBLE, flags=(Flag.GUESS,), drift=0)
    certain = counter("b", drift=0)
    with_guess = CountersSnapshot(NOW, (certain, row))
    assert grade(row, Thresholds(), NOW) == (OK, "")
    found = [check_counters(with_guess), check_counters(with_guess, guesses=True)]
    found += [check_counters(CountersSnapshot(NOW, (certain,)), guesses=asked) for asked in (False, True)]
    assert [(one.level, one.line.partition(" | ")[0].partition("; ")[::2]) for one in found] == [
        (OK, ("COUNTERS OK - 1 counter", "1 guess not counted (--guesses)")),
        (CRITICAL, ("COUNTERS CRITICAL - shop.counters a: 99.0% used", "")),
        *[(OK, ("COUNTERS OK - 1 counter", ""))] * 2,
    ]


def test_perfdata_labels_are_unique_stable_and_all_there() -> None:
    rows = [counter(f"k{n}", id="same", field=f"f{n % 2}", used=0.5) for n in range(4)]
    rows += [counter(f"c{n:03}", used=0.5, field=f"n{n}") for n in range(30)]
    lines = [check_counters(CountersSnapshot(NOW, tuple(order))).line for order in (rows, rows[::-1])]
    assert lines[0] == lines[1]
    found = re.findall(r"'((?:[^']|'')*)'=", lines[0])
    assert len(found) == len(set(found)) == 34


def test_the_line_has_at_most_4096_characters_and_says_what_it_leaves_out() -> None:
    tenants = [counter(f"t{n}", id=f"tenant {n}", used=n / 10_000) for n in range(5_000)]
    line = check_counters(CountersSnapshot(NOW, tuple(reversed(tenants)))).line
    assert line.endswith("| 'shop.counters * seq'=49.9900%;75;90;0;100")
    several = [counter(f"c{n}", id="c" * 60, ns=f"shop.c{n}", used=0.99 - n / 1_000) for n in range(400)]
    line = check_counters(CountersSnapshot(NOW, (*several, *tenants))).line
    assert len(line) <= 4_096
    text, _, perfdata = line.partition(" | ")
    shown = perfdata.count("%;")
    assert f"; {401 - shown:,} without perfdata" in text
    assert "'shop.c0 " in perfdata
    assert "'shop.c399 " not in perfdata


def test_members_are_one_row_and_the_worst_are_named() -> None:
    used = (0,) * 92 + (3,) + (0,) * 8
    members = Members(50_000, (counter("tenant 7", used=0.92),), used)
    result = check_counters(CountersSnapshot(NOW, (counter("*", used=0.92, members=members),)))
    assert result.level == CRITICAL
    assert "3 of 50,000 have 90% used" in result.line
    assert "shop.counters tenant 7: 92.0% used" in result.line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[counter]]\ncollection = 'a.b'\nmin = 1", "min is the end of a descending counter"),
        ("[[counter]]\ncollection = 'a.b'\nstep = 0", "step must not be 0"),
        ("[[counter]]\ncollection = 'a.b'\ncycle = true", "needs max"),
        ("[[counter]]\ncollection = 'a.b'\nmin = 9\nmax = 5\ncycle = true", "min 9 is not below max 5"),
        ("[[counter]]\ncollection = 'a.b'\nstep = -1\nmin = 9\nmax = 5", "max 5 is not above min 9"),
        ("[[counter]]\ncollection = 'a.b'\nstart = 5\nmax = 5", "start 5 is not below max 5"),
        ("[[counter]]\ncollection = 'a.b'\nstep = -1\nmin = 5\nstart = 5", "start 5 is not above min 5"),
        ("[[counter]]\ncollection = 'a.b'\nmax = 9\ncycle = true\nresets = 'yearly'", "exclude each other"),
        ("[[counter]]\ncollection = 'a.b'\nresets = 'weekly'", "resets must be"),
        ("include = ['shop']", "list of patterns"),
        ("exclude = ['a.*']\n[[counter]]\ncollection = 'a.b'\nfield = 'n'", "a.b is left out by include or exclude"),
        ("[[counter]]\ncollection = 'local.oplog.rs'\nfield = 't'", "local is a database of the server itself"),
        ("[[acknowledge]]\ncounter = 'a.b c'\nflags = ['RESET']", "until must be a date"),
        ("[[acknowledge]]\ncounter = 'a.b c'\nflags = ['RED']\nuntil = 2027-01-31", "is not a flag"),
    ],
)
def test_a_rule_that_cannot_work_is_an_error(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "counters.toml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        load_config(path)
    assert words in str(caught.value)


def test_what_matches_nothing_in_a_file_is_said() -> None:
    rules = [{"collection": "shop.a"}, {"collection": "shop.b", "id": 7}, {"collection": "shop.c", "field": "n"}]
    notes = [{"counter": name, "flags": ["RESET"], "until": NOW} for name in ("shop.a x*", "shop.b *")]
    config = parse_config({"counter": rules, "acknowledge": notes})
    assert list(config.unmatched({1}, ["shop.a x1", "shop.a y"])) == [
        "counter 2 (shop.b with the _id 7): no counter was recognised there; name its field.",
        "counter 3 (shop.c): no document has a number at n.",
        "acknowledge shop.b * matches no counter.",
    ]


def test_wildcards_and_acknowledgements_of_a_file() -> None:
    config = parse_config(
        {
            "include": ["shop_*.*"], "exclude": ["*.audit*"],
            "counter": [{"collection": "shop_*.serials", "field": "n"}],
            "acknowledge": [{"counter": "shop_eu.* orders", "flags": ["RESET"], "until": (NOW + timedelta(1)).date()}],
        }
    )  # fmt: skip
    assert [config.allows(Namespace("shop_eu", name)) for name in ("a", "audit_log")] == [True, False]
    assert not config.allows(Namespace("hr", "a"))
    assert len(config.rules_for(Namespace("shop_eu", "serials"))) == 1
    assert config.acknowledged("shop_eu.counters orders", NOW) == (Flag.RESET,)
    assert config.acknowledged("shop_eu.counters orders", NOW + timedelta(2)) == ()
