"""Recognition of counters by what happens to their values."""

from __future__ import annotations

import pytest

from tallyglass.counters.recognise.finding import UsageFinding, combined
from tallyglass.counters.recognise.usage import Evidence, Insert, InsertedField, Update, findings
from tallyglass.counters.snapshot import Grade
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
    ],
    ids=["four quantities", "six numbers", "twelve numbers", "four large numbers"],
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


@pytest.mark.parametrize(
    ("known", "seen", "grade"),
    [
        (Grade.POSSIBLE, Grade.CERTAIN, Grade.CERTAIN),
        (Grade.LIKELY, Grade.OPEN, Grade.LIKELY),
        (Grade.CERTAIN, Grade.POSSIBLE, Grade.CERTAIN),
        (Grade.CERTAIN, Grade.UNLIKELY, Grade.UNLIKELY),
    ],
)
def test_evidence_adds_up_and_only_a_fall_takes_a_grade_back(known: Grade, seen: Grade, grade: Grade) -> None:
    before, now = (UsageFinding(CARTS, "count", one, issues=100) for one in (known, seen))
    assert combined(before, now).grade is grade
