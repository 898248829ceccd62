"""Recognition of counters by what happens to their values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from bson import ObjectId

from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.finding import UsageFinding, combined, graded
from tallyglass.counters.recognise.identity import document_key
from tallyglass.counters.recognise.libraries import recognise
from tallyglass.counters.recognise.usage import (
    Evidence,
    Insert,
    InsertedField,
    Key,
    Moment,
    Update,
    candidates,
    findings,
    may_be_late,
)
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Namespace

START = 1_795_000_000
CARTS, ORDERS = Namespace("shop", "carts"), Namespace("shop", "orders")


def evidence(values: list[int], documents: int) -> Evidence:
    """Values of some documents in turn, each inserted into another collection a second later."""
    found, inserts = Evidence(probes=[((START, 0, 0), (START + 10_000, 0, 0))]), InsertedField()
    for n, value in enumerate(values):
        at = START + 10 * n
        update = Update((at, 1, 0), float(at), 0, value, text=False, returned=False)
        found.updates.setdefault((CARTS, "count"), {}).setdefault(n % documents, []).append(update)
        inserts.add(Insert((at + 1, 1, 0), at + 1.0, value))
        found.inserted[ORDERS].append((at + 1, 1, 0))
    found.targets[ORDERS, "lines.0.qty"] = inserts
    return found


@pytest.mark.parametrize(
    ("values", "documents", "grades"),
    [
        ([3, 9, 2, 7], 4, {Grade.OPEN, Grade.POSSIBLE}),
        ([1, 2, 3, 4, 5, 6], 1, {Grade.OPEN, Grade.POSSIBLE}),
        (list(range(1, 13)), 1, {Grade.CERTAIN}),
        ([3_003, 9_009, 2_002, 7_007], 4, {Grade.LIKELY}),
        (list(range(97, 102)), 1, {Grade.OPEN, Grade.POSSIBLE}),
        (list(range(98, 103)), 1, {Grade.CERTAIN}),
    ],
    ids=["four quantities", "six numbers", "twelve numbers", "four large numbers", "below 100", "from 100 on"],
)
def test_small_numbers_match_by_chance(values: list[int], documents: int, grades: set[Grade]) -> None:
    (finding,) = findings(evidence(values, documents))
    assert finding.grade in grades, finding.evidence


def test_a_flag_that_is_set_in_many_documents_is_no_counter() -> None:
    found, inserts = Evidence(probes=[((START, 0, 0), (START + 10_000, 0, 0))]), InsertedField()
    for second in (START, START + 20):
        for n in range(40):
            update = Update((second, n, 0), float(second), 0, 1, text=False, returned=False)
            found.updates.setdefault((CARTS, "archived"), {})[second, n] = [update]
            inserts.add(Insert((second + 1, n, 0), second + 1.0, n))
            found.inserted[ORDERS].append((second + 1, n, 0))
    found.targets[ORDERS, "lines.0.qty"] = inserts
    (finding,) = findings(found)
    assert finding.grade in {Grade.OPEN, Grade.POSSIBLE}, finding.evidence


NOTES = Namespace("shop", "notes")


def used(
    values: list[int], fields: list[Key], later: int = 1, every: int = 2, others: int = 0, documents: int = 1
) -> Evidence:
    """Values of a counter, each inserted into one of the fields in turn ``later`` seconds after it was issued.

    ``others`` documents without the number are inserted between.
    """
    found = Evidence(probes=[((START, 0, 0), (START + 10_000, 0, 0))])
    rows: list[tuple[Moment, Key | None, int]] = []
    for n, value in enumerate(values):
        at = START + every * n
        update = Update((at, 1, 0), float(at), 0, value, text=False, returned=True)
        found.updates.setdefault((CARTS, "n"), {}).setdefault(f"d{n % documents}", []).append(update)
        rows += [((at, 2 + k, 0), None, 0) for k in range(others)]
        rows.append(((at + later, 1, 0), fields[n % len(fields)], value))
    for moment, field, value in sorted(rows):
        found.inserted[field[0] if field else fields[0][0]].append(moment)
        if field:
            found.targets.setdefault(field, InsertedField()).add(Insert(moment, float(moment[0]), value))
    return found


def used_of(issued: int, inserted: int, others: int = 0) -> Evidence:
    """Values of a counter of which the first were ``inserted``, into a field with so many ``others``."""
    found = used(list(range(7_000, 7_000 + inserted)), [(ORDERS, "n")])
    for n in range(inserted, issued):
        at = START + 2 * n
        found.updates[CARTS, "n"]["d0"].append(Update((at, 1, 0), float(at), 0, 7_000 + n, text=False, returned=True))
    for n in range(others):
        found.targets[ORDERS, "n"].add(Insert((START + 500 + n, 1, 0), START + 500.0 + n, n))
    return found


CYCLE = used([*range(1, 9)] * 4, [(ORDERS, "bay")], others=1)


@pytest.mark.parametrize(
    ("found", "grade"),
    [
        (used(list(range(7_000, 7_030)), [(ORDERS, "n")], later=11), Grade.CERTAIN),
        (used(list(range(70, 100)), [(ORDERS, "n")], later=11), Grade.OPEN),
        (used(list(range(70, 73)), [(ORDERS, "n")], later=11), Grade.OPEN),
        (used(list(range(70, 72)), [(ORDERS, "n")], later=11), Grade.POSSIBLE),
        (used_of(10, 8), Grade.CERTAIN),
        (used_of(10, 7), Grade.LIKELY),
        (used_of(10, 6), Grade.LIKELY),
        (used_of(10, 5), Grade.OPEN),
        (used(list(range(7_000, 7_030)), [(ORDERS, "first"), (ORDERS, "last")]), Grade.CERTAIN),
        (used(list(range(7_000, 7_030)), [(CARTS, "_id")]), Grade.CERTAIN),
        (used(list(range(7_000, 7_030)), [(CARTS, "n")]), Grade.OPEN),
        (used(list(range(START, START + 90, 3)), [(ORDERS, "n")], every=20), Grade.CERTAIN),
        (used(list(range(START, START + 60, 2)), [(ORDERS, "n")]), Grade.UNLIKELY),
        (CYCLE, Grade.CERTAIN),
        *((used([*range(1, 9)] * 4, [(ORDERS, "bay")], others=others), Grade.OPEN) for others in (2, 4)),
        (used([*range(1, 5)] * 8, [(ORDERS, "bay")]), Grade.OPEN),
    ],
    ids=[
        "seconds later", "small and seconds later", "three of them", "two of them",
        "8 of 10", "7 of 10", "6 of 10", "5 of 10", "two an insert", "one collection", "copied in it", "like the time",
        "times", "cycles", "in the second insert", "in the fourth", "of four numbers",
    ],
)  # fmt: skip
def test_unusual_use(found: Evidence, grade: Grade) -> None:
    found.inserted.setdefault(NOTES, []).append((START, 9, 0))
    (finding,) = findings(found)
    assert finding.grade is grade, finding.evidence
    assert bool(finding.cycling) == (found is CYCLE)


@pytest.mark.parametrize(("rounds", "cycles"), [(2, False), (3, True)])
def test_what_started_again_twice_from_the_same_number_cycles(rounds: int, cycles: bool) -> None:
    (finding,) = findings(used([*range(1, 9)] * rounds, [(ORDERS, "bay")]))
    assert finding.cycling == {"d0"} if cycles else finding.cycling == set()


@pytest.mark.parametrize(("issued", "others"), [(4, set()), (5, {"stock"})])
def test_a_document_whose_numbers_are_not_found_is_of_another_kind(issued: int, others: set[str]) -> None:
    found = used(list(range(7_000, 7_030)), [(ORDERS, "n")])
    found.updates[CARTS, "n"]["stock"] = [
        Update((START + n, 2, 0), float(START + n), 0, 500 + n, text=False, returned=False) for n in range(issued)
    ]
    (finding,) = findings(found)
    assert (finding.grade, finding.others) == (Grade.CERTAIN, others)


@pytest.mark.parametrize(("others", "whole"), [(0, True), (7, True), (8, False)])
def test_ids_are_one_counters_if_four_of_five_are(others: int, whole: bool) -> None:
    (finding,) = findings(used_of(28, 28, others))
    own = (("d0", IdField(ORDERS, "n")),)
    assert (finding.grade, finding.by_document) == (Grade.CERTAIN, own if whole else ())


@pytest.mark.parametrize(
    ("values", "sought"), [([1, 2, 3, 4, 5, 6, 7, 8, 9, 1], True), ([1, 2, 3, 1, 2, 3, 4, 5, 1, 2], False)]
)
def test_what_starts_again_all_the_time_is_a_gauge_whose_use_is_not_sought(values: list[int], sought: bool) -> None:
    assert candidates(used(values, [(ORDERS, "n")])) == [(CARTS, "n")] * sought


BILLS = Namespace("shop", "bills")


def in_step(counters: dict[str, tuple[Key, str]], delays: dict[str, float]) -> Evidence:
    """Counters with equal numbers: by a name its number and document. Each new number is inserted into ``orders.n`` or
    ``bills.n``, by these names in ``delays``, so many seconds later."""
    found = Evidence(probes=[((START, 0, 0), (START + 10_000, 0, 0))])
    for value in range(7_000, 7_030):
        at = START + 3 * (value - 7_000)
        for place, (number, document) in enumerate(counters.values()):
            update = Update((at, place, 0), at + place / 1_000, 0, value, text=False, returned=True)
            found.updates.setdefault(number, {}).setdefault(document, []).append(update)
        for name, delay in sorted(delays.items(), key=lambda row: row[1]):
            ns, moment = Namespace("shop", name), (at + 1, int(1_000 * delay), 0)
            found.inserted[ns].append(moment)
            found.targets.setdefault((ns, "n"), InsertedField()).add(Insert(moment, at + delay, value))
    return found


SEQ: Key = (Namespace("shop", "counters"), "seq")
NUMBERS = list(range(7_000, 7_040))


@pytest.mark.parametrize(
    ("found", "targets"),
    [
        (used(NUMBERS, [(ORDERS, "_id"), (BILLS, "_id")]), {ORDERS, BILLS}),
        (used(NUMBERS, [(ORDERS, "_id"), *[(BILLS, "_id")] * 3]), {ORDERS, BILLS}),
        (used(NUMBERS, [(ORDERS, "_id"), (BILLS, "_id"), (NOTES, "_id")]), {ORDERS, BILLS, NOTES}),
        # Few of small numbers may be there by chance.
        (used([*range(60, 100)], [*[(ORDERS, "_id")] * 7, (BILLS, "_id")]), {ORDERS}),
        (used([*range(60, 100)], [*[(ORDERS, "_id")] * 3, (BILLS, "_id")]), {ORDERS, BILLS}),
        (used(NUMBERS[:8], [*[(ORDERS, "_id")] * 3, (BILLS, "_id")]), {ORDERS}),
        (used(NUMBERS[:12], [*[(ORDERS, "_id")] * 3, (BILLS, "_id")]), {ORDERS, BILLS}),
    ],
    ids=["two", "one to three", "three", "small", "enough small", "two of eight", "three of twelve"],
)
def test_all_collections_that_share_one_sequence_are_found(found: Evidence, targets: set[Namespace]) -> None:
    (finding,) = findings(found)
    assert {target.ns for target in finding.claims} == targets
    assert {(name, target.ns) for name, target in finding.by_document} == {("d0", ns) for ns in targets}


TURNS = list(range(7_000, 7_040))


@pytest.mark.parametrize(
    ("found", "documents", "apart"),
    [
        (used(TURNS, [(ORDERS, "n")], documents=2), {"d0", "d1"}, 2),
        (used(TURNS, [(ORDERS, "n")], documents=4), {"d0", "d1", "d2", "d3"}, 4),
        # 9,000 and 7,000 are both even.
        (used([n + 2_000 * (n % 2) - n % 2 for n in TURNS], [(ORDERS, "n")], documents=2), set(), 1),
        (used([*TURNS[:30:2], *TURNS[31::2]], [(ORDERS, "n")]), {"d0"}, 1),
        (used([*range(7_000, 7_200, 5)], [(ORDERS, "n")]), {"d0"}, 5),
        (used([*range(7_200, 7_000, -5)], [(ORDERS, "n")]), {"d0"}, 5),
        (used([*range(7_000, 47_000, 1_000)], [(ORDERS, "n")]), {"d0"}, 1_000),
        (used([*range(7_000, 47_040, 1_001)], [(ORDERS, "n")]), {"d0"}, 1),
        (used(TURNS, [(ORDERS, "n"), (BILLS, "n")], documents=2), {"d0", "d1"}, 2),
    ],
    ids=["odd and even", "four", "both even", "not all even", "one", "down", "far", "too far", "a field each"],
)
def test_counters_that_take_turns_in_one_field_are_told_apart(found: Evidence, documents: set[str], apart: int) -> None:
    (finding,) = findings(found)
    assert ({name for name, _ in finding.by_document}, finding.ids_apart) == (documents, apart), finding


@pytest.mark.parametrize(("others", "told_apart"), [(10, True), (11, False)])
def test_counters_take_turns_if_four_of_five_ids_are_theirs(others: int, told_apart: bool) -> None:
    found = used(TURNS, [(ORDERS, "n")], documents=2)
    for n in range(others):
        found.targets[ORDERS, "n"].add(Insert((START + 900, n, 0), START + 900.0, 500 + n))
    (finding,) = findings(found)
    assert len(finding.by_document) == 2 * told_apart


@pytest.mark.parametrize("name", [ObjectId(), 7, {"shop": 3}])
def test_a_document_is_known_by_its_id_whatever_that_is(name: Any) -> None:
    found = used(TURNS, [(ORDERS, "n")])
    found.updates[CARTS, "n"] = {document_key(name): found.updates[CARTS, "n"]["d0"]}
    (finding,) = findings(found)
    assert finding.by_document == ((name, IdField(ORDERS, "n")),)


@pytest.mark.parametrize(("others", "own"), [(5, {"d0", "d1"}), (6, {"d1"})])
def test_a_collection_with_other_ids_is_compared_with_no_counter(others: int, own: set[str]) -> None:
    """Orders that somebody imports under numbers of their own are beyond their counter without a fault."""
    found = used(TURNS, [(ORDERS, "n"), (BILLS, "n")], documents=2)
    for n in range(others):
        found.targets[ORDERS, "n"].add(Insert((START + 900, n, 0), START + 900.0, 10**9 + n))
    (finding,) = findings(found)
    assert {document for document, _ in finding.by_document} == own
    assert {target.ns for target in finding.claims} == {ORDERS, BILLS}


def test_a_collection_with_ids_of_its_own_shares_no_sequence() -> None:
    found = used(NUMBERS, [*[(ORDERS, "_id")] * 3, (BILLS, "_id")])
    for n in range(5):
        found.targets[BILLS, "_id"].add(Insert((START + 900, n, 0), START + 900.0, 500 + n))
    (finding,) = findings(found)
    assert finding.claims == (IdField(ORDERS, "_id"),)


def test_who_owns_a_collection_keeps_it_and_the_other_counter_the_rest() -> None:
    # In step with another counter, which has bills of its own.
    found = used(NUMBERS, [(ORDERS, "_id"), (BILLS, "_id")])
    for n, update in enumerate(found.updates[CARTS, "n"]["d0"]):
        if n % 2:
            earlier = update._replace(at=(update.at[0], 2, 0), wall=update.wall + 0.5)
            found.updates.setdefault((NOTES, "n"), {}).setdefault("b", []).append(earlier)
    by_ns = {finding.ns: finding for finding in findings(found)}
    assert [target.ns for target in by_ns[NOTES].claims] == [BILLS]
    assert by_ns[CARTS].by_document == (("d0", IdField(ORDERS, "_id")),)


def followed(*, inserted: int = 30, returned: bool = False, before: int = 1, others: int = 0) -> Evidence:
    """Orders with numbers from elsewhere, of which so many are inserted ``before`` a projection notes how far it is and
    inserts what it made of them; ``others`` are orders in between."""
    found = used(list(range(7_000, 7_030)), [(BILLS, "n")], every=10)
    updates = found.updates[CARTS, "n"]["d0"]
    updates[:] = [update._replace(returned=returned) for update in updates]
    for update in updates[:inserted]:
        for n in range(others + 1):
            moment = (update.at[0] - before, n, 0)
            found.inserted[ORDERS].append(moment)
            value = int(update.value) if n == 0 else 90_000 + moment[0] + n
            found.targets.setdefault((ORDERS, "_id"), InsertedField()).add(Insert(moment, float(moment[0]), value))
    found.probes = [((START - 10, 0, 0), (START + 10_000, 0, 0))]
    return found


@pytest.mark.parametrize(
    ("found", "grade"),
    [
        (followed(), Grade.POSSIBLE),
        (followed(inserted=24), Grade.POSSIBLE),
        (followed(inserted=23), Grade.CERTAIN),
        (followed(returned=True), Grade.CERTAIN),
        (followed(others=2), Grade.POSSIBLE),
        (followed(others=3), Grade.CERTAIN),
        (followed(before=3), Grade.CERTAIN),
        (followed(before=-2), Grade.CERTAIN),
    ],
    ids=["all", "most", "too few", "handed out", "soon before", "not soon", "long before", "after"],
)
def test_a_number_that_follows_ids_from_elsewhere_is_a_guess(found: Evidence, grade: Grade) -> None:
    (finding,) = findings(found)
    assert finding.grade is grade, finding.evidence
    assert ("may follow the ids there" in finding.evidence, finding.claims == ()) == (grade is Grade.POSSIBLE,) * 2


@pytest.mark.parametrize("delays", [{"orders": 0.9, "bills": 0.1}, {"orders": 0.1, "bills": 0.9}])
@pytest.mark.parametrize("names", [("order", "bill"), ("bill", "order")])
def test_counters_with_equal_numbers_are_told_by_their_names_however_late_the_inserts_are(
    names: tuple[str, str], delays: dict[str, float]
) -> None:
    (finding,) = findings(in_step({name: (SEQ, name) for name in names}, delays))
    assert {name: target.ns for name, target in finding.by_document} == {"order": ORDERS, "bill": BILLS}
    alone: dict[str, tuple[Key, str]] = {
        "order": ((Namespace("shop", "order_seq"), "n"), "x"), "bill": ((Namespace("shop", "bill_seq"), "n"), "x"),
    }  # fmt: skip
    found = {one.ns.collection: one for one in findings(in_step({name: alone[name] for name in names}, delays))}
    assert {name: target.ns for name, one in found.items() for target in one.targets} == {
        "order_seq": ORDERS,
        "bill_seq": BILLS,
    }


def test_of_counters_with_equal_numbers_each_gets_ids_of_its_own() -> None:
    (finding,) = findings(in_step({"a": (SEQ, "a"), "b": (SEQ, "b")}, {"orders": 0.9, "bills": 0.1}))
    assert finding.grade is Grade.CERTAIN
    assert len({target for _, target in finding.by_document}) == 2
    alone: dict[str, tuple[Key, str]] = {name: ((Namespace("shop", f"of_{name}"), "n"), "x") for name in "ab"}
    found = findings(in_step(alone, {"orders": 0.9, "bills": 0.1}))
    assert {one.grade for one in found} == {Grade.CERTAIN}
    assert len({one.targets for one in found}) == 2
    # A total that runs beside the sequence has no ids of its own.
    found = findings(in_step(alone, {"bills": 0.1}))
    assert sorted(one.grade for one in found) == [Grade.CERTAIN, Grade.OPEN]


@pytest.mark.parametrize("elsewhere", [True, False])
def test_where_another_counter_matches_better_other_ids_may_be_its_own(elsewhere: bool) -> None:
    """Two counters have the numbers of the orders, and one of them is also of other ids, by one of its documents."""
    found = Evidence(probes=[((START, 0, 0), (START + 10_000, 0, 0))])
    for n in range(20):
        at = START + 5 * n
        places = [(ORDERS, 201 + n), (ORDERS, 901 + n), *([(NOTES, 201 + n)] if elsewhere else [])]
        for i, (ns, value) in enumerate([(CARTS, 201 + n), (CARTS, 901 + n), (SEQ[0], 201 + n), (SEQ[0], 901 + n)]):
            update = Update((at, i, 0), at + i / 100, 0, value, text=False, returned=ns != CARTS)
            found.updates.setdefault((ns, "n"), {}).setdefault(f"d{i % 2}", []).append(update)
        for i, (ns, value) in enumerate(places, 4):
            found.inserted[ns].append((at, i, 0))
            found.targets.setdefault((ns, "n"), InsertedField()).add(Insert((at, i, 0), at + i / 100, value))
    of_carts, of_orders = sorted(findings(found), key=lambda one: one.ns)
    assert of_orders.targets == (IdField(ORDERS, "n"),)
    told = of_carts.grade, of_carts.targets, of_carts.excludes("d1")
    assert told == ((Grade.CERTAIN, (IdField(NOTES, "n"),), True) if elsewhere else (Grade.OPEN, (), False))


@pytest.mark.parametrize(
    ("issues", "places", "grade"),
    [
        (10, [3], Grade.CERTAIN), (9, [3], Grade.UNLIKELY),
        (200, [66, 100], Grade.CERTAIN), (199, [66, 100], Grade.UNLIKELY),
    ],
)  # fmt: skip
def test_a_sequence_that_was_set_back_once_in_ten_or_twice_among_hundreds_stays_one(
    issues: int, places: list[int], grade: Grade
) -> None:
    numbers = list(range(7_000, 7_000 + issues))
    for place in places:
        numbers[place : place + 2] = [numbers[place] - 500, numbers[place + 1]]
    found = used(numbers, [(ORDERS, "n")])
    found.inserted.setdefault(NOTES, []).append((START, 9, 0))
    (finding,) = findings(found)
    assert finding.grade is grade, finding.evidence


def test_a_total_repeated_in_a_log_is_told_by_its_name() -> None:
    numbers = list(range(7_000, 7_030))
    assert [
        next(iter(findings(used(numbers, [(ORDERS, path)])))).is_repeated for path in ("n", "log.n", "number", "_id")
    ] == [True, True, False, False]
    # What is left falls, and is no id under another name either.
    assert next(iter(findings(used(numbers[::-1], [(ORDERS, "number")])))).is_repeated
    before = used(numbers, [(ORDERS, "n")])
    for updates in before.updates[CARTS, "n"].values():
        updates[:] = [update._replace(value=int(update.value) + 1) for update in updates]
    assert not next(iter(findings(before))).is_repeated
    found = next(iter(findings(used(numbers, [(ORDERS, "n")]))))
    assert found.as_total() == replace(
        found, grade=Grade.POSSIBLE, targets=(), by_document=(),
        evidence="Its values are repeated in a field without an index: a total in a log.",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("known", "kept"),
    [
        (Grade.CERTAIN, {Grade.LIKELY, Grade.POSSIBLE, Grade.OPEN}),
        (Grade.LIKELY, {Grade.POSSIBLE, Grade.OPEN}),
        (Grade.POSSIBLE, set()),
        (Grade.OPEN, set()),
        (Grade.UNLIKELY, set()),
    ],
)
def test_evidence_adds_up_and_only_a_fall_takes_a_grade_back(known: Grade, kept: set[Grade]) -> None:
    before = UsageFinding(CARTS, "count", known, issues=19, cycling=frozenset("a"))
    target = (("a", IdField(CARTS, "_id")),)
    for seen in Grade:
        now = UsageFinding(CARTS, "count", seen, issues=20, cycling=frozenset("b"))
        both, fell = frozenset("ab"), seen is Grade.UNLIKELY
        proven = known in (Grade.CERTAIN, Grade.LIKELY)
        expected = replace(before if seen in kept else now, cycling=both) if proven and not fell else now
        assert combined(before, now) == expected
        assert combined(None, now) is now
        # Too few changes do not say that it falls.
        few = replace(now, issues=19)
        if proven and fell:
            assert combined(before, few) == replace(before, cycling=both)
        # What an idle one was equal to is known on, whatever was seen of the others.
        assert combined(replace(before, equal=target), now).equal == target


def test_a_collection_that_did_not_use_the_ids_lately_is_not_forgotten() -> None:
    orders, bills, notes = (IdField(ns, "_id") for ns in (ORDERS, BILLS, NOTES))
    known = UsageFinding(CARTS, "n", Grade.CERTAIN, (orders, bills), by_document=(("a", orders), ("a", bills)))
    for target, kept in ((orders, known.by_document), (bills, known.by_document), (notes, ())):
        seen = UsageFinding(CARTS, "n", Grade.CERTAIN, (target,), by_document=(("a", target),), step=2)
        expected = replace(seen, targets=(orders, bills), by_document=kept) if kept else seen
        assert combined(known, seen) == expected


@pytest.mark.parametrize(
    ("known", "seen", "kept"),
    [
        ({}, {}, True),
        ({"grade": Grade.LIKELY}, {}, True),
        ({"grade": Grade.POSSIBLE}, {}, False),
        ({}, {"by_document": ()}, True),
        ({}, {"targets": (IdField(ORDERS, "n"),)}, False),
        ({}, {"by_document": (("a", IdField(BILLS, "n")),)}, False),
        ({"ids_apart": 2}, {"ids_apart": 2}, True),
        ({"ids_apart": 2}, {}, False),
    ],
    ids=[
        "other document",
        "likely",
        "guess",
        "of many",
        "field of many",
        "same document",
        "as far apart",
        "not so far",
    ],
)
def test_a_document_that_was_not_used_lately_keeps_its_field(
    known: dict[str, Any], seen: dict[str, Any], kept: bool
) -> None:
    orders, bills = IdField(ORDERS, "n"), IdField(BILLS, "n")
    before = replace(UsageFinding(CARTS, "n", Grade.CERTAIN, (orders,), by_document=(("a", orders),)), **known)
    now = replace(UsageFinding(CARTS, "n", Grade.CERTAIN, (bills,), by_document=(("b", bills),)), **seen)
    assert combined(before, now) == replace(now, by_document=(*now.by_document, *before.by_document[: int(kept)]))


def test_of_so_many_documents_with_a_field_each_only_some_are_kept() -> None:
    bills = IdField(BILLS, "n")
    own = tuple((n, IdField(ORDERS, f"n{n}")) for n in range(1_001))
    now = UsageFinding(CARTS, "n", Grade.CERTAIN, (bills,), by_document=(("b", bills),))
    before = UsageFinding(CARTS, "n", Grade.CERTAIN, (bills,), by_document=own)
    assert combined(before, now) == replace(now, by_document=(("b", bills), *own[:1_000]))


def among_tenants(own: int = 12, others: int = 0, every: int = 10, counters: int = 1) -> Evidence:
    """Counters with so many ids each, beside 50 tenants with three each that are found nowhere; ``others`` are ids in
    the field of the last counter that are not its own."""
    fields = [(ORDERS, "n"), (BILLS, "n")][:counters]
    found = used(list(range(700, 700 + own * counters)), fields, every=every, documents=counters)
    for tenant in range(50):
        found.updates[CARTS, "n"][f"tenant {tenant}"] = [
            Update((START + 10 * n, 9, 0), START + 10.0 * n, 0, 500 * tenant + n, text=False, returned=True)
            for n in range(3)
        ]
    for n in range(others):
        found.targets[fields[-1]].add(Insert((START + 900, n, 0), START + 900.0, 10**9 + n))
    return found


@pytest.mark.parametrize(
    ("found", "known"),
    [
        (among_tenants(), True),
        (among_tenants(own=9), False),
        (among_tenants(others=3), True),
        (among_tenants(others=4), False),
        (among_tenants(every=0), False),
        (among_tenants(counters=2, others=4), True),
    ],
    ids=["all", "too few", "hardly others", "others", "one batch", "another with others"],
)
def test_one_counter_among_those_of_many_tenants_is_found_by_its_own_ids(found: Evidence, known: bool) -> None:
    (finding,) = findings(found)
    own = (("d0", IdField(ORDERS, "n")),) if known else ()
    assert (finding.grade is Grade.CERTAIN, finding.by_document) == (known, own), finding.evidence
    assert finding.claims == tuple(target for _, target in own)
    if known:
        # It says nothing about the others.
        names = ("d0", "tenant 3", "idle", 7, {"shop": 7})
        assert [finding.excludes(name) for name in names] == [False, True, True, True, True]


def with_others(rows: dict[str, Iterable[int]], *, are_used: bool) -> Evidence:
    """A counter with the ids of orders, and documents with other numbers beside it, which are in orders, too."""
    found = used(list(range(7_000, 7_012)), [(ORDERS, "n")], every=10)
    for place, (name, values) in enumerate(rows.items(), 5):
        for n, value in enumerate(values):
            at = START + 10 * n
            update = Update((at, place, 0), float(at), 0, value, text=False, returned=True)
            found.updates[CARTS, "n"].setdefault(name, []).append(update)
            if are_used:
                found.inserted[ORDERS].append((at + 1, place, 0))
                found.targets[ORDERS, "n"].add(Insert((at + 1, place, 0), at + 1.0, value))
    found.inserted[ORDERS].sort()
    return found


def test_a_counter_is_found_beside_more_numbers_that_rise_and_fall() -> None:
    stock = [300 + n * n % 71 for n in range(30)]
    (finding,) = findings(with_others({"ham": stock, "eggs": stock[3:]}, are_used=False))
    assert (finding.grade, finding.by_document) == (Grade.CERTAIN, (("d0", IdField(ORDERS, "n")),)), finding.evidence
    assert [finding.excludes(name) for name in ("d0", "ham", "idle")] == [False, True, True]
    # It was seen to be none: not so of one that is idle.
    (match,) = recognise("counters", {"_id": "a", "seq": 4})
    told = [graded(match, finding, name) for name in ("ham", "idle")]
    assert [one.grade for one in told] == [Grade.POSSIBLE, match.grade]


def test_a_number_without_a_step_takes_nothing_from_the_counters_beside_it() -> None:
    (finding,) = findings(with_others({"batches": [1_900 + n * n for n in range(12)]}, are_used=True))
    assert (finding.grade, finding.others) == (Grade.CERTAIN, {"batches"}), finding.evidence


def test_what_is_true_of_one_document_takes_nothing_from_the_others() -> None:
    orders, bills = IdField(ORDERS, "n"), IdField(BILLS, "n")
    apart = UsageFinding(CARTS, "n", Grade.CERTAIN, (orders,), by_document=(("a", orders),), is_apart=True)
    every = UsageFinding(CARTS, "n", Grade.LIKELY, (bills,), by_document=(("b", bills),))
    assert combined(None, apart) == apart
    assert combined(every, apart) == replace(
        apart, by_document=(*apart.by_document, *every.by_document), is_apart=False
    )
    assert combined(apart, every) == replace(every, by_document=(*every.by_document, *apart.by_document))
    equal = UsageFinding(CARTS, "n", Grade.POSSIBLE, equal=(("b", bills),))
    assert combined(equal, apart) == replace(apart, equal=equal.equal)


def test_a_number_with_fractions_says_nothing_about_the_others() -> None:
    found = used(list(range(1_000, 1_090)), [(ORDERS, "n")], documents=3)
    score = [Update((START + n, 2, 0), float(START + n), 0, n / 2, text=False, returned=False) for n in range(1, 9)]
    found.updates[next(iter(found.updates))]["score"] = score
    (finding,) = findings(found)
    assert (finding.grade, finding.restless) == (Grade.CERTAIN, {"score"}), finding.evidence


def test_views_are_no_ids_of_a_collection_whose_ids_pass_all_numbers() -> None:
    """40 ids a second, of which some were read: a number near them is found there soon, of many pages some."""
    found, ids = Evidence(), InsertedField()
    for page in range(60):
        second = START + 40 * page
        found.probes.append(((second, 0, 0), (second + 20, 0, 0)))
        # Every third page has about as many views as ids were handed out: its number is inserted soon.
        views = 40 * (second - START) + (5_300 if page % 3 else 300)
        update = Update((second, 0, 0), float(second), page, 1_000 + views, text=False, returned=False)
        found.updates.setdefault((CARTS, "views"), {})[page] = [update]
        for n in range(20 * 40):
            at = (second + n // 40, 1, n % 40)
            ids.add(Insert(at, float(at[0]), 1_000 + 40 * (second - START) + n))
            found.inserted[ORDERS].append(at)
    found.targets[ORDERS, "_id"] = ids
    (finding,) = findings(found)
    assert finding.grade in {Grade.OPEN, Grade.POSSIBLE}, finding.evidence


def test_a_number_from_1000_on_is_recognised_although_it_is_used_late() -> None:
    assert [may_be_late(value) for value in (999, 1_000)] == [False, True]


@pytest.mark.parametrize(("again", "grade"), [(2, Grade.CERTAIN), (3, Grade.OPEN)])
def test_where_late_ids_are_sought_one_of_twenty_values_may_repeat(again: int, grade: Grade) -> None:
    issued = range(7_000, 7_000 + 40 - again)
    found = used([*issued], [(ORDERS, "n")], later=11)
    for value in issued[:again]:
        found.targets[ORDERS, "n"].add(Insert((START + 500, value, 0), START + 500.0, value))
    found.inserted.setdefault(NOTES, []).append((START, 9, 0))
    (finding,) = findings(found)
    assert finding.grade is grade, finding.evidence


@pytest.mark.parametrize(("others", "grade"), [(10, Grade.CERTAIN), (11, Grade.OPEN)])
def test_late_ids_are_not_sought_where_those_of_others_pass_all_numbers(others: int, grade: Grade) -> None:
    found = used([*range(7_000, 7_040)], [(ORDERS, "n")], later=11)
    for n in range(others):
        found.targets[ORDERS, "n"].add(Insert((START + 500, n, 0), START + 500.0, 7_040 + n))
    found.inserted.setdefault(NOTES, []).append((START, 9, 0))
    (finding,) = findings(found)
    assert finding.grade is grade, finding.evidence


def ranged(
    rises: int,
    size: int = 10,
    used: int = 10,
    found: int = 99,
    short: int | None = None,
    ahead: int = 0,
    early: int = 0,
) -> Evidence:
    """A counter that rises by ``size``: after each of the first ``found`` rises ``used`` of those ids are inserted, one
    in three seconds; ``early`` of them were inserted before all rises. The inserts are read up to the next rise but for
    ``short`` seconds; None for all."""
    every, seen, rows = 3 * size + 100, Evidence(), list[Insert]()
    for n in range(rises + 1):
        at, value = START + every * n, 5_000 + size * n
        seen.updates.setdefault((CARTS, "n"), {}).setdefault("all", []).append(
            Update((at, 1, 0), float(at), 0, value, text=False, returned=True)
        )
        for k in range(used if 0 < n <= found else 0):
            second = START - 1_000 + n if k < early else at + 3 + 3 * k
            rows.append(Insert((second, 1 + k, 0), float(second), value - size + 1 - ahead + k))
        if short is not None:
            seen.probes.append(((at, 0, 0), (at + every - short, 0, 0)))
    seen.probes += [((START, 0, 0), (START + every * (rises + 1), 0, 0))] if short is None else []
    inserts = seen.targets[ORDERS, "number"] = InsertedField()
    for row in sorted(rows):
        inserts.add(row)
        seen.inserted[ORDERS].append(row.at)
    return seen


@pytest.mark.parametrize(
    ("found", "text", "grade", "semantics"),
    [
        (ranged(3), "3 of 3 ranges", Grade.CERTAIN, Semantics.LAST),
        (ranged(3, size=2, used=2, ahead=1), "3 of 3 ranges", Grade.CERTAIN, Semantics.NEXT),
        (ranged(2), "2 of 2 ranges", Grade.LIKELY, Semantics.LAST),
        (ranged(5, found=3), "3 of 5 ranges", Grade.CERTAIN, Semantics.LAST),
        (ranged(3, used=8), "3 of 3 ranges", Grade.CERTAIN, Semantics.LAST),
        (ranged(3, size=2, used=2), "3 of 3 ranges", Grade.CERTAIN, Semantics.LAST),
        (ranged(3, size=2_000, used=2_000), "3 of 3 ranges", Grade.CERTAIN, Semantics.LAST),
        (ranged(3, early=2), "3 of 3 ranges", Grade.CERTAIN, Semantics.LAST),
        (ranged(3, short=0), "3 of 3 ranges", Grade.CERTAIN, Semantics.LAST),
    ],
)  # fmt: skip
def test_a_range_is_found_if_most_of_its_ids_are_inserted(
    found: Evidence, text: str, grade: Grade, semantics: Semantics
) -> None:
    (finding,) = findings(found)
    assert finding.evidence.startswith(f"{text} of n found in shop.orders.number")
    own = (("all", IdField(ORDERS, "number")),)
    assert (finding.grade, finding.semantics, finding.is_repeated, finding.by_document) == (
        grade, semantics, False, own,
    )  # fmt: skip
    assert finding.ids_apart == 1


@pytest.mark.parametrize(("others", "whole"), [(7, True), (8, False)])
def test_the_ids_of_ranges_are_compared_where_hardly_any_other_is_there(others: int, whole: bool) -> None:
    found = ranged(3)
    for n in range(others):
        found.targets[ORDERS, "number"].add(Insert((START + 900, n, 0), START + 900.0, 500 + n))
    assert [bool(finding.by_document) for finding in findings(found)] == [whole]
    found.updates[CARTS, "n"]["another"] = [*found.updates[CARTS, "n"]["all"]]
    assert [finding.by_document for finding in findings(found)] == [()]


@pytest.mark.parametrize(
    "found",
    [
        ranged(1), ranged(5, found=2), ranged(3, used=7), ranged(3, size=2_001, used=2_001), ranged(3, short=1),
        ranged(3, early=3),
    ],
    ids=[
        "one range", "two of five", "seven of ten ids", "too large", "inserts not read up to the next",
        "three of ten were used before",
    ],
)  # fmt: skip
def test_a_range_that_may_be_chance_is_not_found(found: Evidence) -> None:
    (finding,) = findings(found)
    assert "ranges" not in finding.evidence
    assert finding.targets == ()


def high_and_low(
    rises: int, block: int = 20, found: int = 99, ahead: int = 0, first: int = 0, step: int = 1, documents: int = 1
) -> Evidence:
    """The "hi" of hi/lo: after each of the first ``found`` rises three ids of its block are inserted, one a second."""
    seen, inserts = Evidence(probes=[((START, 0, 0), (START + 10_000, 0, 0))]), InsertedField()
    for n in range(rises):
        at, value = START + 30 * n, 500 + step * (n // documents)
        update = Update((at, 1, 0), float(at), 0, value, text=False, returned=True)
        seen.updates.setdefault((CARTS, "n"), {}).setdefault(n % documents, []).append(update)
        for k in range(3 if n < found else 0):
            moment = (at + 1 + k, 1, 0)
            inserts.add(Insert(moment, float(moment[0]), (value - ahead) * block + first + k))
            seen.inserted[ORDERS].append(moment)
    seen.targets[ORDERS, "number"] = inserts
    return seen


@pytest.mark.parametrize(
    ("found", "blocks", "semantics"),
    [
        (high_and_low(3), "3 blocks of 20", Semantics.LAST),
        (high_and_low(5, block=10, found=4), "4 blocks of 10", Semantics.LAST),
        (high_and_low(4, ahead=1, first=1), "4 blocks of 20", Semantics.NEXT),
    ],
)
def test_high_and_low_are_told_by_the_first_ids_of_the_blocks(
    found: Evidence, blocks: str, semantics: Semantics
) -> None:
    (finding,) = findings(found)
    assert finding.evidence.startswith(f"{blocks} ids found in shop.orders.number")
    assert (finding.grade, finding.semantics, str(finding.block)) == (Grade.CERTAIN, semantics, blocks[-2:])
    assert finding.targets == (IdField(ORDERS, "number"),)


def test_high_may_be_the_digits_of_a_text() -> None:
    found = high_and_low(4)
    for updates in found.updates[CARTS, "n"].values():
        updates[:] = [update._replace(text=True) for update in updates]
    (finding,) = findings(found)
    assert (finding.block, finding.text) == (20, True)


@pytest.mark.parametrize(
    "found",
    [
        high_and_low(2), high_and_low(5, found=3), high_and_low(4, block=9), high_and_low(4, first=2),
        high_and_low(4, step=2), high_and_low(8, documents=2),
    ],
    ids=["two", "three of five", "small blocks", "not the first ids", "steps of two", "two documents"],
)  # fmt: skip
def test_blocks_that_may_be_chance_are_not_found(found: Evidence) -> None:
    (finding,) = findings(found)
    assert (finding.block, finding.targets) == (1, ()), finding.evidence


@pytest.mark.parametrize("documents", [1, 30], ids=["values between are missing", "a document each"])
def test_the_id_before_a_value_is_a_step_less_where_no_earlier_value_was_seen(documents: int) -> None:
    found, inserts = Evidence(probes=[((START, 0, 0), (START + 10_000, 0, 0))]), InsertedField()
    for n in range(30):
        at, value = START + 20 * n, 7_000 + 5 * n
        update = Update((at, 1, 0), float(at), n, value, text=False, returned=True)
        found.updates.setdefault((CARTS, "n"), {}).setdefault(f"d{n % documents}", []).append(update)
        inserts.add(Insert((at + 1, 1, 0), at + 1.0, value - 1))
        found.inserted[ORDERS].append((at + 1, 1, 0))
    found.targets[ORDERS, "number"] = inserts
    (finding,) = findings(found)
    assert (finding.grade, finding.semantics) == (Grade.CERTAIN, Semantics.NEXT), finding.evidence


def test_counters_side_by_side_in_one_document_feed_one_field_together() -> None:
    found = Evidence(probes=[((START, 0, 0), (START + 10_000, 0, 0))])
    field, elsewhere = InsertedField(), Namespace("shop", "others")
    paths = {
        (CARTS, "items.0.next"): (0, 500), (CARTS, "items.1.next"): (1, 7_000), (CARTS, "copy"): (1, 7_000),
        (elsewhere, "n"): (2, 30_000),
    }  # fmt: skip
    for n in range(36):
        at = START + 2 * n
        for (ns, path), (turn, start) in paths.items():
            if n % 3 == turn:
                copied = path == "copy"
                update = Update((at, 1 + copied, 0), float(at), 0, start + n // 3, False, returned=not copied)
                found.updates.setdefault((ns, path), {}).setdefault("a", []).append(update)
                value = start + n // 3
        field.add(Insert((at, 3, 0), at + 0.1, value))
        found.inserted[ORDERS].append((at, 3, 0))
    found.targets[ORDERS, "no"] = field
    graded = {(one.ns.collection, one.path): (one.grade, one.targets, one.by_document) for one in findings(found)}
    mine = (Grade.CERTAIN, (IdField(ORDERS, "no"),), ())
    assert graded == {
        ("carts", "items.0.next"): mine,
        ("carts", "items.1.next"): mine,
        ("carts", "copy"): (Grade.OPEN, (), ()),
        ("others", "n"): (Grade.OPEN, (), ()),
    }
