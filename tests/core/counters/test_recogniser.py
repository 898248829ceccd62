"""What the numbers of a collection's documents are."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from bson import Int64

from tallyglass.counters.recognise.config import IdField, Rule
from tallyglass.counters.recognise.finding import UsageFinding, graded
from tallyglass.counters.recognise.libraries import recognise
from tallyglass.counters.recognise.recogniser import Recogniser
from tallyglass.counters.recognise.validator import largest_valid
from tallyglass.counters.snapshot import Grade, Semantics
from tallyglass.mongo.gateway import Namespace

COUNTS: dict[str, Any] = {"_id": 1, "name": "polls_question", "auto": {"field_names": ["id"], "seq": 8}, "fields": {}}
COUNTS_NOTHING = COUNTS | {"name": "polls_vote", "auto": {"field_names": []}}


def test_documents_of_one_form_are_recognised_each_by_what_is_nested_in_them() -> None:
    for order in ((COUNTS, COUNTS_NOTHING), (COUNTS_NOTHING, COUNTS)):
        recogniser = Recogniser(Namespace("shop", "__schema__"))
        found = {row["name"]: [match.path for match in recogniser.matches(row)] for row in order}
        assert found == {"polls_question": ["auto.seq"], "polls_vote": []}


def test_several_counters_of_a_document_are_told_apart_by_their_names_or_their_fields() -> None:
    found = []
    rules = tuple(Rule(Namespace("shop", "objects"), field=name, number=n) for n, name in enumerate(("a", "b.*"), 1))
    forum = {"_id": 7, "_key": "global", "nextPid": 812, "nextUid": 33}
    settings: dict[str, Any] = {"_id": "ids", "a": 1, "b": {"c": 2}}
    for row, given in ((forum, ()), (settings, rules), (settings, rules[:1])):
        recogniser = Recogniser(Namespace("shop", "objects"), given)
        matches = recogniser.matches(row)
        found.append([one.id for match in matches if (one := recogniser.identify(row, match, matches))])
    assert found == [["global.nextPid", "global.nextUid"], ["ids.a", "ids.b.c"], ["ids"]]


ORDERS = IdField(Namespace("shop", "orders"), "number")
OWN = IdField(Namespace("shop", "bills"), "_id")
USED = {"semantics": Semantics.NEXT, "step": 5, "block": 20, "int64_ids": True}
BESIDE = {"grade": Grade.LIKELY, "evidence": "Beside one that is in use: used"}
OWN_USE = {**USED, "cycles_in_use": True}


@pytest.mark.parametrize(
    ("changed", "learnt"),
    [
        ({}, {}),
        ({"targets": (ORDERS,)}, OWN_USE),
        ({"targets": (ORDERS,), "by_document": (("a", ORDERS),)}, {**OWN_USE, "targets": (ORDERS,)}),
        # Of a document that was not used nothing is there to compare it with.
        ({"targets": (ORDERS,), "by_document": (("b", ORDERS),)}, {**OWN_USE, **BESIDE}),
        # In the other field may be the ids of any of them.
        ({"targets": (ORDERS, OWN), "by_document": (("b", ORDERS),)}, OWN_USE),
        ({"targets": (OWN, ORDERS), "by_document": (("a", OWN), ("b", ORDERS))}, {**OWN_USE, "targets": (OWN,)}),
        ({"targets": (OWN, ORDERS), "by_document": (("a", OWN), ("a", ORDERS))}, {**OWN_USE, "targets": (OWN, ORDERS)}),
        (
            {"targets": (OWN,), "by_document": (("a", OWN), ("b", OWN)), "ids_apart": 5},
            {**OWN_USE, "targets": (OWN,), "ids_apart": 5},
        ),
        ({"targets": (ORDERS,), "cycling": frozenset({"b"})}, USED),
    ],
)
def test_the_use_of_a_number_counts_only_where_its_values_were_found(
    changed: dict[str, Any], learnt: dict[str, Any]
) -> None:
    (match,) = recognise("counters", {"_id": "a", "seq": 4})
    ns = Namespace("shop", "counters")
    finding = UsageFinding(ns, "seq", Grade.CERTAIN, evidence="used", cycling=frozenset({"a"}), **USED)
    found = graded(match, replace(finding, **changed), "a")
    assert found == replace(match, **{"grade": Grade.CERTAIN, "evidence": "used", **learnt})


FALLS, NOT_FOUND = (
    "It rises and falls, or has fractions.",
    ("Its values were not found in documents inserted shortly afterwards."),
)


@pytest.mark.parametrize("likely", [False, True])
@pytest.mark.parametrize(
    ("grade", "others", "restless", "issues", "expected", "kept"),
    [
        (Grade.CERTAIN, "", "", 20, (Grade.CERTAIN, "seen"), False),
        (Grade.CERTAIN, "", "b", 20, (Grade.CERTAIN, "seen"), False),
        (Grade.CERTAIN, "a", "", 20, (Grade.OPEN, NOT_FOUND), True),
        (Grade.CERTAIN, "", "a", 20, (Grade.UNLIKELY, FALLS), False),
        # Of itself enough was seen.
        (Grade.CERTAIN, "", "a", 19, (Grade.UNLIKELY, FALLS), False),
        (Grade.UNLIKELY, "", "", 19, (Grade.UNLIKELY, "seen"), True),
        (Grade.UNLIKELY, "", "", 20, (Grade.UNLIKELY, "seen"), False),
        (Grade.UNLIKELY, "", "b", 20, (Grade.OPEN, NOT_FOUND), True),
        (Grade.POSSIBLE, "", "b", 20, (Grade.POSSIBLE, "seen"), True),
        (Grade.OPEN, "", "b", 20, (Grade.OPEN, "seen"), True),
    ],
)
def test_how_sure_the_use_of_others_makes_of_a_number(
    grade: Grade, others: str, restless: str, issues: int, expected: tuple[Grade, str], kept: bool, likely: bool
) -> None:
    match = replace(
        recognise("counters", {"_id": "a", "seq": 4})[0], grade=Grade.LIKELY if likely else Grade.OPEN, evidence="looks"
    )
    finding = UsageFinding(
        Namespace("shop", "counters"), "seq", grade, issues=issues, evidence="seen",
        others=frozenset(others), restless=frozenset(restless),
    )  # fmt: skip
    found = graded(match, finding, "a")
    if likely and kept:
        expected = (Grade.LIKELY, "looks")
    elif likely and expected[0] is Grade.UNLIKELY:
        # What has the shape of a counter becomes a guess.
        expected = (Grade.POSSIBLE, expected[1])
    assert (found.grade, found.evidence) == expected


def schema(**rule: Any) -> dict[str, Any]:
    return {"validator": {"$jsonSchema": {"properties": {"seq": rule, "of": {"properties": {"n": rule}}}}}}


@pytest.mark.parametrize(
    ("options", "largest"),
    [
        ({}, None),
        ({"validator": {}}, None),
        ({"validator": "x"}, None),
        ({"validator": {"$jsonSchema": 5, "seq": 5}}, None),
        ({"validator": {"$jsonSchema": {"properties": [5]}}}, None),
        (schema(), None),
        (schema(bsonType="long"), None),
        (schema(bsonType=["int", "long"]), None),
        (schema(maximum="x"), None),
        (schema(maximum=math.inf), None),
        (schema(maximum=5_100), 5_100),
        (schema(maximum=Int64(5_100), bsonType="int"), 5_100),
        (schema(maximum=5_100.5), 5_100),
        (schema(maximum=5_100, exclusiveMaximum=True), 5_099),
        (schema(maximum=5_100.5, exclusiveMaximum=True), 5_100),
        (schema(maximum=5_100, exclusiveMaximum=False), 5_100),
        (schema(bsonType="int"), 2**31 - 1),
        (schema(bsonType=["int"]), 2**31 - 1),
        (schema(maximum=5_100) | {"validationAction": "warn"}, None),
        (schema(maximum=5_100) | {"validationAction": "error", "validationLevel": "moderate"}, 5_100),
        (schema(maximum=5_100) | {"validationLevel": "off"}, None),
        ({"validator": {"seq": {"$lte": 99, "$gte": 0}, "of.n": {"$lte": 99}}}, 99),
        ({"validator": {"seq": {"$lt": 99}, "of.n": {"$lt": 99}}}, 98),
        ({"validator": {"seq": {"$type": 16}, "of.n": {"$type": "int"}}}, 2**31 - 1),
        ({"validator": {**schema(maximum=50)["validator"], "seq": {"$lte": 99}, "of.n": {"$lte": 9}}}, 50),
    ],
)
def test_the_largest_number_that_a_validator_allows(options: dict[str, Any], largest: int | None) -> None:
    assert largest_valid(options, "seq") == largest
    assert largest_valid(options, "of.n") == (9 if largest == 50 else largest)
    assert largest_valid(options, "seq.n") is None


@pytest.mark.parametrize(
    ("row", "semantics", "bound"),
    [
        ({}, Semantics.LAST, (5_100, "its validator")),
        ({}, Semantics.NEXT, (5_099, "its validator")),
        ({"max": 9_000}, Semantics.LAST, (5_100, "its validator")),
        ({"max": 5_000}, Semantics.LAST, (5_000, "max")),
        ({"step": -1}, Semantics.LAST, (None, "MAX_VALUE")),
    ],
)
def test_a_counter_ends_where_its_validator_does(
    row: dict[str, Any], semantics: Semantics, bound: tuple[int | None, str]
) -> None:
    recogniser = Recogniser(Namespace("shop", "counters"))
    recogniser.options = schema(maximum=5_100)
    row = {"_id": "a", "seq": 4, **row}
    (match,) = recogniser.matches(row)
    identity = recogniser.identify(row, replace(match, semantics=semantics), (match,))
    assert identity is not None
    assert (identity.bound, identity.bound_name) == bound


def test_documents_are_recognised_again_only_where_what_is_known_of_a_number_changes() -> None:
    recogniser = Recogniser(Namespace("shop", "counters"))
    own = (("a", ORDERS), ({"b": 1}, OWN))
    known = UsageFinding(recogniser.ns, "seq", Grade.CERTAIN, (ORDERS, OWN), by_document=own)
    same = replace(known, targets=(OWN, ORDERS), by_document=own[::-1], issues=9, evidence="used")
    learnt = [
        recogniser.learn({"seq": found})
        for found in (known, known, same, replace(same, is_repeated=True), replace(same, step=2), known)
    ]
    assert learnt == [True, False, False, False, True, True]
    assert recogniser.learn({}) is False
