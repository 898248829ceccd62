"""The rules by which the use of a number is judged, each at its limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tallyglass.counters.recognise import usage
from tallyglass.counters.recognise.finding import UsageFinding
from tallyglass.counters.recognise.usage import Evidence, Insert, InsertedField, Update
from tallyglass.counters.snapshot import Grade, NumericType, Semantics
from tallyglass.mongo.gateway import Namespace

START = 1_795_000_000
ORDERS = Namespace("shop", "orders")


def updates(*values: float, every: int = 10, run: int = 0) -> list[Update]:
    return [
        Update((START + every * n, 1, 0), float(START + every * n), run, value, text=False, returned=False)
        for n, value in enumerate(values)
    ]


def hit(values: Sequence[int], seconds: float, ranks: Sequence[int] = ()) -> usage._Hit:
    """Values that were found, over so many seconds."""
    found = usage._Hit(values=set(values), ranks=[*ranks])
    found.issues = {(START, 1, 0), (int(START + seconds), 1, 0)}
    return found


HUNDREDS = range(100, 200)


@pytest.mark.parametrize(
    ("values", "seconds", "matched", "issued", "late", "grade"),
    [
        (HUNDREDS, 10, 5, 6, False, Grade.CERTAIN),
        (HUNDREDS, 10, 5, 7, False, Grade.LIKELY),
        (HUNDREDS, 10, 4, 5, False, Grade.LIKELY),
        (HUNDREDS, 9, 5, 6, False, Grade.LIKELY),
        (HUNDREDS, 99, 4, 4, False, Grade.LIKELY),
        (HUNDREDS, 99, 3, 5, False, Grade.LIKELY),
        (HUNDREDS, 99, 3, 6, False, None),
        (HUNDREDS, 99, 2, 2, False, None),
        ([98, 99, 100], 99, 9, 9, False, None),
        ([98, 99, 100], 99, 10, 10, False, Grade.CERTAIN),
        ([98, 99, 100], 99, 10, 13, False, None),
        ([98, 99, 100], 99, 12, 15, False, Grade.CERTAIN),
        ([99, 100, 101], 99, 9, 9, False, Grade.CERTAIN),
        ([98, 99], 99, 30, 30, False, None),
        ([100, 101], 99, 30, 30, False, Grade.CERTAIN),
        (HUNDREDS, 99, 9, 9, True, None),
        (HUNDREDS, 99, 10, 10, True, Grade.CERTAIN),
        (HUNDREDS, 99, 10, 13, True, None),
    ],
)
def test_how_many_found_values_make_which_grade(
    values: Sequence[int], seconds: float, matched: int, issued: int, late: bool, grade: Grade | None
) -> None:
    assert usage._grade_of([hit(values, seconds)], matched, issued, late=late) is grade


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1, 2, 3), {"step": 1, "issues": 3, "rises": True, "constant": True}),
        ((1, 1, 2, 2), {"step": 1, "issues": 2, "rises": True, "constant": True}),
        ((10, 20, 30, 40, 50, 51), {"step": 10, "issues": 6, "rises": True, "constant": True}),
        ((10, 20, 30, 40, 41), {"step": 10, "issues": 5, "rises": True, "constant": False}),
        # One that descends is not sought among those that rise and fall.
        ((9, 8, 7), {"step": -1, "issues": 3, "rises": True, "falls": True, "constant": True}),
        ((9, 8, 6), {"step": -1, "issues": 3, "rises": True, "constant": False}),
        ((9, 8, 6, 3), {"step": 1, "issues": 4, "rises": False, "constant": False}),
        ((1, 2, 2.5), {"step": 1, "issues": 2, "rises": False, "constant": True}),
        # Nine tenths of the number, or to 1 and below: it starts again; less is a fall.
        ((1, 500, 50), {"step": 499, "issues": 3, "rises": True, "constant": True, "restarts": 1}),
        ((1, 500, 51), {"step": 499, "issues": 3, "rises": False, "constant": True}),
        ((1, 5, 1), {"step": 4, "issues": 3, "rises": True, "constant": True, "restarts": 1}),
        ((1, 5, 2), {"step": 4, "issues": 3, "rises": False, "constant": True}),
        # Once in ten, and twice in two hundred.
        ((*range(50, 58), 51, 58), {"step": 1, "issues": 10, "rises": True, "constant": True}),
        ((*range(50, 57), 51, 58), {"step": 1, "issues": 9, "rises": False, "constant": True}),
        # From the same number to the same, twice.
        ((5, 6, 7, 5, 6, 7, 5), {"step": 1, "issues": 7, "rises": True, "constant": True, "cycles": True,
                                 "restarts": 2}),
        ((5, 6, 7, 5, 6, 7, 4), {"step": 1, "issues": 7, "rises": False, "constant": True}),
    ],
)  # fmt: skip
def test_how_a_number_moves(values: tuple[float, ...], expected: dict[str, Any]) -> None:
    found = usage._behaviour_of([updates(*values)])
    told = {
        "step": found.step, "issues": found.issues, "rises": found.only_rises, "falls": found.only_falls,
        "constant": found.constant, "cycles": found.cycles, "restarts": found.restarts,
    }  # fmt: skip
    assert told == {"falls": False, "cycles": False, "restarts": 0} | expected


def test_between_two_periods_of_the_oplog_no_step_is_counted() -> None:
    apart = [*updates(5, 6), *updates(90, 91, run=1)]
    found = usage._behaviour_of([apart])
    assert (dict(found.steps), found.issues) == ({1: 2}, 4)


@pytest.mark.parametrize(
    ("values", "every", "is_time"),
    [
        ([START, START + 10, START + 20], 10, True),
        ([START * 1_000, START * 1_000 + 10_000], 10, True),
        ([START, START + 24], 20, True),
        ([START, START + 25], 20, False),
        ([START, START + 1, START + 2], 10, False),
        ([START - 86_399], 10, True),
        ([START - 86_400], 10, False),
        ([5, 6], 10, False),
    ],
)
def test_what_advances_as_the_clock_does_is_a_time(values: list[int], every: int, is_time: bool) -> None:
    assert usage._is_time(updates(*values, every=every)) is is_time


def test_inserts_are_read_where_a_period_covers_all_of_them() -> None:
    found = Evidence(probes=[((10, 5, 0), (20, 0, 0))])
    moments = [(10, 4, 0), (10, 5, 0), (19, 9, 9), (20, 0, 0)]
    assert [found.covers(at) for at in moments] == [False, True, True, False]
    assert [found.covers((12, 1, 0), (end, 0, 0)) for end in (19, 20)] == [True, False]


def test_the_field_of_ids_counts_the_types_below_2_31() -> None:
    field = InsertedField()
    assert (field.spread(), field.has_int64_ids) == (0.0, False)
    for n, (value, kind) in enumerate([(5, NumericType.INT64), (2**31, NumericType.INT32), (5, NumericType.INT64)]):
        field.add(Insert((n, 1, 0), float(n), value), kind)
    assert (field.spread(), field.has_int64_ids, [*field.by_value]) == (pytest.approx(2 / 3), True, [5, 2**31])
    field.add(Insert((9, 1, 0), 9.0, 2**31 - 1), NumericType.INT32)
    assert not field.has_int64_ids


def test_each_new_value_is_one_id_and_with_sizes_all_since_the_last() -> None:
    evidence = Evidence(probes=[((START, 0, 0), (START + 1_000, 0, 0))])
    rows = updates(7, 7, 9, 19)
    single = [(one.semantics, [*one.ids], one.since[0] - START) for one in usage._issues(evidence, rows, 2)]
    last, following = Semantics.LAST, Semantics.NEXT
    assert single == [
        (last, [7], 0), (following, [5], 0), (last, [9], 20), (following, [7], 20), (last, [19], 30),
        (following, [9], 30),
    ]  # fmt: skip
    ranges = [
        (one.semantics, (one.ids[0], one.ids[-1]), one.since[0] - START)
        for one in usage._issues(evidence, rows, 2, range(2, 11))
    ]
    assert ranges == [(last, (8, 9), 0), (following, (7, 8), 0), (last, (10, 19), 20), (following, (9, 18), 20)]
    # Neither from another period of the oplog, nor where the inserts until the next change were not read.
    assert [*usage._issues(evidence, [*updates(7), *updates(9, run=1)], 2, range(2, 11))] == []
    short = Evidence(probes=[((START, 0, 0), (START + 29, 0, 0))])
    assert [one.update.value for one in usage._issues(short, rows, 2, range(2, 11))] == []
    enough = Evidence(probes=[((START, 0, 0), (START + 30, 0, 0))])
    assert [one.update.value for one in usage._issues(enough, rows, 2, range(2, 11))] == [9, 9]


@pytest.mark.parametrize(
    ("since", "seconds", "found"),
    [((10, 1, 0), 2.0, 10), ((10, 2, 5), 2.0, 10), ((10, 3, 0), 9.0, 17), ((10, 3, 0), 7.0, 17),
     ((10, 3, 0), 6.9, None), ((18, 1, 0), 9.0, None)],
)  # fmt: skip
def test_the_first_insert_in_the_same_transaction_or_later(
    since: tuple[int, int, int], seconds: float, found: int | None
) -> None:
    field = InsertedField()
    for at in ((10, 2, 1), (17, 1, 0)):
        field.add(Insert(at, float(at[0]), 5))
    insert = usage._first_insert(field, 5, since, seconds)
    assert (insert and insert.at[0]) == found
    assert usage._first_insert(field, 6, since) is None


@pytest.mark.parametrize(
    ("different", "feeders", "spread"),
    [(80, 1, True), (79, 1, False), (40, 2, True), (39, 2, False), (40, 9, True), (39, 9, False)],
)
def test_how_different_the_values_of_a_field_of_ids_are(different: int, feeders: int, spread: bool) -> None:
    field = InsertedField()
    for n in range(100):
        field.add(Insert((n, 1, 0), float(n), n % different))
    assert usage._is_spread(field, feeders) is spread


@pytest.mark.parametrize(
    ("values", "ranks", "cycled"),
    [(range(5), [0, 1, 1], True), (range(4), [0, 1, 1], False), (range(5), [1, 2, 2], False)],
)
def test_ids_that_repeat_are_found_in_the_very_next_insert(values: range, ranks: list[int], cycled: bool) -> None:
    assert usage._is_cycled(hit(values, 9, ranks)) is cycled


@pytest.mark.parametrize(
    ("first", "last", "ns", "owns"),
    [(4, 9, "a", True), (3, 8, "a", False), (7, 9, "a", True), (7, 9, "b", False), (7, 6, "a", False)],
    ids=["half of its own", "less", "all of its own", "another collection", "none"],
)
def test_numbers_of_one_collection_share_a_field_where_half_of_their_inserts_are_their_own(
    first: int, last: int, ns: str, owns: bool
) -> None:
    def ranked(numbers: Sequence[int]) -> usage.Ranked:
        finding = UsageFinding(Namespace("shop", "a"), "n", Grade.CERTAIN)
        return usage.Ranked(finding, inserts=frozenset((number, 0, 0) for number in numbers))

    keys = [(Namespace("shop", "a"), "n"), (Namespace("shop", ns), "m")]
    found = usage._owners(keys, {keys[0]: ranked(range(1, 7)), keys[1]: ranked(range(first, last + 1))})
    assert found == keys[: 1 + owns]


@pytest.mark.parametrize(("shared", "field"), [(3, "n"), (4, "m")])
def test_of_two_documents_with_one_field_the_second_has_half_of_the_inserts_for_itself(shared: int, field: str) -> None:
    orders = Namespace("shop", "orders")
    first, second = (((orders, name), Semantics.LAST) for name in "nm")

    def found(inserts: range, rank: int) -> usage._Hit:
        hits = hit(range(10, 16), 5, [rank] * 6)
        hits.inserts = {(number, 0, 0) for number in inserts}
        hits.latencies = [0.1] * 6
        return hits

    every = {
        "a": {first: found(range(6), 0)},
        "b": {first: found(range(6 - shared, 12 - shared), 1), second: found(range(6), 2)},
    }
    chosen = usage._assigned(Namespace("shop", "counters"), every, late=False)
    assert chosen == {"a": first, "b": ((orders, field), Semantics.LAST)}


@pytest.mark.parametrize(
    ("documents", "fallen", "kept"), [(3, 1, 2), (2, 1, 1), (6, 2, 4), (6, 3, 1), (6, 4, 0), (6, 6, 0)]
)
def test_of_documents_of_which_many_rise_and_fall_each_other_one_counts_for_itself(
    documents: int, fallen: int, kept: int
) -> None:
    """Nine changes are too few for that, and so are changes of any size."""
    alone = [range(10), range(10), range(10), range(10), [n * n for n in range(20)], range(9)]
    rows = [(90, 80, 50, 70, 60) if n < fallen else alone[n] for n in range(documents)]
    number = usage._number((ORDERS, "n"), {f"d{n}": updates(*row) for n, row in enumerate(rows)})
    assert (len(number.documents), number.is_whole) == (kept or documents, 3 * fallen <= documents)


def test_ranges_are_sought_in_other_collections() -> None:
    carts, evidence = Namespace("shop", "carts"), Evidence()
    for ns in (carts, Namespace("shop", "orders")):
        evidence.targets[ns, "n"] = field = InsertedField()
        field.add(Insert((START, 1, 0), 0.0, 5))
    assert [key[0].collection for key, _ in usage._unique_fields(evidence, carts)] == ["orders"]


def test_ids_count_that_were_found_before_the_inserts_ended_that_were_read() -> None:
    """A busy server: of two seconds after an update only the first inserts are read."""
    evidence, number = Evidence(), usage._number((Namespace("shop", "counters"), "seq"), {"orders": updates(5, 6)})
    first = number.documents["orders"][0].at
    evidence.targets[ORDERS, "no"] = field = InsertedField()
    field.add(Insert((START, 2, 0), START + 0.1, 5))
    evidence.inserted[ORDERS].append((START, 2, 0))
    evidence.probes = [(first, (START, 900, 0))]
    key = (ORDERS, "no"), Semantics.LAST
    every, covered = usage._seek(evidence, number, usage.WINDOW_SECONDS, ())
    assert (covered, {name: hit.values for name, hit in every["orders"].items()}) == ({"orders": 1}, {key: {5}})
    # Of those that are used late, none counts whose time was not read in whole.
    every, covered = usage._seek(evidence, number, usage.LATE_SECONDS, ())
    assert (covered, every["orders"]) == ({"orders": 0}, {})
