"""The records of a plan as a person reads them, and what two tools write of one index in one form."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Int64

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.model.check import NAMED, Check, Level, block, merged_checks, ok, warn, worst
from tallyglass.restore.model.document import accident_from_json, accident_to_json
from tallyglass.restore.model.indexes import (
    buildable,
    canonical_index,
    canonical_options,
    index_names,
    is_id_index,
    is_own_index,
    same_numbers,
)
from tallyglass.restore.model.undo import Accident, FieldChange, Return, Strategy, WriteGroup
from tallyglass.restore.model.way import Way

FIRST, LAST = Ts(1_795_163_200, 1), Ts(1_795_163_260, 7)


@pytest.mark.parametrize(
    ("group", "line", "brief"),
    [
        (
            WriteGroup("s.c", "delete", 1, FIRST, FIRST),
            "s.c: delete; 1 document, 1795163200:1 (2026-11-20T08:26:40Z)",
            "0 entries: delete (1795163200:1 to 1795163200:1, 08:26:40Z to 08:26:40Z)",
        ),
        (
            WriteGroup("s.c", "", None, FIRST, LAST),
            "s.c: ; documents, 1795163200:1 (2026-11-20T08:26:40Z) to 1795163260:7 (2026-11-20T08:27:40Z)",
            "0 entries (1795163200:1 to 1795163260:7, 08:26:40Z to 08:27:40Z)",
        ),
        (
            WriteGroup("s.c", "set x", 2_000, FIRST, FIRST, 1, ("1", "2"), "another client"),
            "s.c: set x; 1 entry on 2,000 documents, 1795163200:1 (2026-11-20T08:26:40Z); _id 1, 2 and others; "
            "reason: another client",
            "1 entry: set x (1795163200:1 to 1795163200:1, 08:26:40Z to 08:26:40Z, _id 1, 2)",
        ),
        (
            WriteGroup("s.c", "set x", None, FIRST, FIRST, 2, ("1", "2")),
            "s.c: set x; 2 entries, 1795163200:1 (2026-11-20T08:26:40Z); _id 1, 2",
            "2 entries: set x (1795163200:1 to 1795163200:1, 08:26:40Z to 08:26:40Z, _id 1, 2)",
        ),
        (
            WriteGroup("s.c", "set x", 2, FIRST, FIRST, 3, ("1", "2")),
            "s.c: set x; 3 entries on 2 documents, 1795163200:1 (2026-11-20T08:26:40Z); _id 1, 2",
            "3 entries: set x (1795163200:1 to 1795163200:1, 08:26:40Z to 08:26:40Z, _id 1, 2)",
        ),
    ],
)
def test_a_group_of_writes_in_one_line(group: WriteGroup, line: str, brief: str) -> None:
    assert (group.line, group.brief) == (line, brief)


@pytest.mark.parametrize(("strategy", "repairs"), [(Strategy.REPLACE, "s.c_pitr_since"), (Strategy.MERGE, "s.c_pitr")])
def test_where_repairs_are_loaded(strategy: Strategy, repairs: str) -> None:
    row = Return("s.c", strategy, "s.c_pitr")
    assert (row.repairs, row.copied) == (repairs, "s.c_pitr_kept")


@pytest.mark.parametrize(
    ("way", "line"),
    [
        (Way("from x", True, "It rests on x."), "from x: possible. It rests on x."),
        (Way("from x", False, "No x.", "Get x."), "from x: not possible. No x. Get x."),
        (Way("from x", None, "Unknown.", label="y"), "y: not known yet. Unknown."),
    ],
)
def test_a_way_in_one_line(way: Way, line: str) -> None:
    assert way.line == line


def test_an_accident_is_read_as_it_was_written() -> None:
    effect = (FieldChange(("61",), None, always=True),)
    one = Accident("updates", "s.c", FIRST, None, "ab", updates=True, updates_last=LAST, effect=effect, command=3)
    assert accident_from_json(accident_to_json(one)) == one
    for text in ("", "[]", "{}", accident_to_json(one).replace('"s.c"', "5")):
        with pytest.raises(InputError, match="What an earlier return undid cannot be read"):
            accident_from_json(text)


def test_checks_that_say_the_same_are_one() -> None:
    many = [warn("a", f"s.c{n}: it is odd.", "Look.") for n in range(NAMED + 1)]
    others = [
        ok("a", "s.c0: it is odd."),
        warn("b", "s.c0: it is odd.", "Look."),
        warn("a", "s.c0: it is odd."),
        ok("c", "x"),
    ]
    listed = ", ".join(f"s.c{n}" for n in range(NAMED))
    assert merged_checks([*many, *others]) == (
        warn("a", f"{NAMED + 1} namespaces: it is odd. They are {listed} and 1 more.", "Look."), *others,
    )  # fmt: skip
    assert merged_checks([ok("x", "It is odd.")] * 3) == (ok("x", "It is odd."),)
    assert merged_checks(many[:2])[0].title == "2 namespaces: it is odd. They are s.c0, s.c1."
    assert merged_checks(many[:NAMED])[0].title == f"{NAMED} namespaces: it is odd. They are {listed}."
    assert merged_checks([ok("c", "x"), ok("c", "y")]) == (ok("c", "x"), ok("c", "y"))


@pytest.mark.parametrize(
    ("levels", "level"),
    [((), Level.OK), ((Level.OK,), Level.OK), ((Level.WARN, Level.OK), Level.WARN), (tuple(Level), Level.BLOCK)],
)
def test_the_worst_check_counts(levels: tuple[Level, ...], level: Level) -> None:
    assert worst(Check("a", one, "x") for one in levels) is level
    assert (ok("a", "x").level, warn("a", "x").level, block("a", "x").level) == tuple(Level)


@pytest.mark.parametrize(
    ("value", "same"),
    [
        (True, True),
        (Int64(7), 7),
        (7.0, 7),
        (7.5, 7.5),
        (2.0**53, 2.0**53),
        (2.0**53 - 1, 2**53 - 1),
        (-(2.0**53), -(2.0**53)),
        ({"a": 1.0, "b": [Int64(1), (2.0,)]}, {"a": 1, "b": [1, [2]]}),
        ("1.0", "1.0"),
    ],
)
def test_whole_numbers_of_all_types_are_the_same(value: Any, same: Any) -> None:
    found = same_numbers(value)
    assert (found, type(found)) == (same, type(same))
    assert repr(found) == repr(same)


@pytest.mark.parametrize(
    ("spec", "collation"),
    [
        ({"key": {"a": 1}, "name": "a_1"}, {"locale": "simple"}),
        ({"key": {"a": 1}, "name": "a_1", "collation": {"locale": "fr"}}, {"locale": "fr"}),
        ({"key": {"_id": 1}, "name": "_id_"}, None),
        ({"v": 1, "key": {"a": 1}, "name": "a_1"}, None),
        ({"v": Int64(1), "key": {"a": 1}, "name": "a_1"}, None),
        ({"v": 2, "key": {"a": 1}, "name": "a_1"}, {"locale": "simple"}),
    ],
)
def test_an_index_does_not_inherit_the_collation_of_its_collection(spec: dict[str, Any], collation: Any) -> None:
    """One that compares bytes lists no collation; built without one, it gets that of the collection."""
    assert buildable(spec).get("collation") == collation


def test_an_index_in_one_form_whatever_wrote_it() -> None:
    spec = {
        "v": 2, "key": {"b": 1.0, "a": Int64(-1)}, "name": "x", "ns": "s.c", "background": True, "buildUUID": 1,
        "method": "x", "textIndexVersion": 3, "2dsphereIndexVersion": 3, "sparse": False, "unique": True, "hidden": 0,
    }  # fmt: skip
    assert canonical_index(spec) == '{"key": {"b": 1, "a": -1}, "name": "x", "unique": true}'
    assert set(buildable(spec)) == {"collation", *spec} - {"ns", "background", "buildUUID", "method"}
    options = {
        "capped": True, "size": 4096.0, "validator": {}, "validationLevel": "strict", "validationAction": "warn",
        "uuid": 1, "expireAfterSeconds": Int64(5), "changeStreamPreAndPostImages": {"enabled": False}, "max": None,
    }  # fmt: skip
    assert canonical_options(options) == (
        '{"capped": true, "size": 4096, "validationAction": "warn", "expireAfterSeconds": 5}'
    )
    assert canonical_options({"validator": {"x": 1}, "capped": False}) == '{"validator": {"x": 1}}'
    assert canonical_options({"max": 2**31 - 1, "size": 9}) == '{"size": 9}', "which means no limit, as 0 does"
    assert canonical_options({"max": 2**31 - 2}) == '{"max": 2147483646}'
    assert canonical_options({"expireAfterSeconds": 0, "size": 0, "max": 0}) == '{"expireAfterSeconds": 0}'


def test_which_indexes_a_person_built() -> None:
    own, clustered = {"key": {"_id": 1}, "name": "_id_"}, {"key": {"_id": 1}, "name": "c", "clustered": True}
    built, named = {"key": {"a": 1}, "name": "a_1"}, {"key": {"_id": 1, "a": 1}, "name": "_id_"}
    assert [is_id_index(one) for one in (own, clustered, built, named, {})] == [True, False, False, False, False]
    assert [is_own_index(one) for one in (own, clustered, built)] == [True, False, True]
    assert index_names([own, clustered, built]) == {"a_1"}
