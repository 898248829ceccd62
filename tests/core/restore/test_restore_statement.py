"""A statement as typed, applied to documents: what it explains, and where that is not known."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, ObjectId

from tallyglass.restore.undo.evidence import read_statement
from tallyglass.restore.undo.statement import is_equal

BEFORE: dict[str, Any] = {"_id": 1, "s": "new", "n": 5, "q": Int64(7), "f": 2.5, "tags": ["a", "b"], "m": {"k": 1},
                          "nan": float("nan"), "d": Decimal128("1.5"), "xy": {"x": 1, "y": 2},
                          "rows": [{"a": 1}, {"b": 1}], "empty": []}  # fmt: skip


def explains(text: str, after: dict[str, Any] | None, before: dict[str, Any] = BEFORE) -> bool | None:
    return read_statement(text).explains(bson.encode(before), None if after is None else bson.encode(after))


@pytest.mark.parametrize(
    ("update", "changed"),
    [
        ('{$set: {s: "BAD", "m.x": 1}}', {"s": "BAD", "m": {"k": 1, "x": 1}}),
        ("{$set: {n: 6}}", {"n": 6.0}),
        ("{$inc: {n: 5, none: 2}}", {"n": Int64(10), "none": 2}),
        ("{$mul: {q: 2}, $min: {n: 3}, $max: {f: 1}}", {"q": Int64(14), "n": 3}),
        ('{$push: {tags: "c"}}', {"tags": ["a", "b", "c"]}),
        ('{$addToSet: {tags: "b"}, $pull: {none: 1}, $set: {n: 1}}', {"n": 1}),
        ('{$pull: {tags: "a"}}', {"tags": ["b"]}),
        ("{$pop: {tags: -1}}", {"tags": ["b"]}),
        ('[{$set: {t: {$add: [{$multiply: ["$n", 2]}, 1]}, s: {$concat: ["$s", "!"]}}}]', {"t": 11, "s": "new!"}),
        ('[{$set: {t: {$cond: [{$gt: ["$n", 4]}, "more", {$literal: "$x"}]}}}]', {"t": "more"}),
        ('[{$set: {t: {$cond: {if: {$lt: ["$n", 4]}, then: "less", else: {$literal: "$x"}}}}}]', {"t": "$x"}),
        ('[{$addFields: {c: {$ifNull: ["$none", "$m.k"]}}}]', {"c": 1}),
        ('[{$set: {m: {x: "$n", y: {z: 1}}}}]', {"m": {"k": 1, "x": 5, "y": {"z": 1}}}),
    ],
)
def test_an_update_explains_what_it_leaves(update: str, changed: dict[str, Any]) -> None:
    assert explains(f"updateMany({{}}, {update})", BEFORE | changed) is True
    assert explains(f"updateMany({{}}, {update})", BEFORE | changed | {"other": 1}) is False


def test_fields_that_are_removed_or_renamed() -> None:
    without = {name: value for name, value in BEFORE.items() if name != "s"}
    assert explains('updateMany({}, {$unset: {s: ""}})', without) is True
    assert explains('updateMany({}, [{$unset: "s"}])', without) is True
    assert explains('updateMany({}, {$rename: {s: "t"}})', without | {"t": "new"}) is True
    assert explains('updateMany({}, [{$set: {s: "$none"}}])', without) is True
    assert explains('updateMany({}, [{$set: {"x.y": "$none"}}])', BEFORE | {"x": {}}) is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("{}", True), ('{s: "new"}', True), ('{s: "old"}', False), ("{n: 5.0}", True), ('{s: {$ne: "new"}}', False),
        ("{n: {$gt: 4, $lte: 5}}", True), ("{s: {$gt: 4}}", False), ('{tags: "b"}', True), ('{tags: ["a"]}', False),
        ('{s: {$in: ["new", "x"]}}', True), ('{s: {$nin: ["new"]}}', False), ("{none: null}", True),
        ("{none: {$exists: false}}", True), ('{$or: [{n: 1}, {"m.k": 1}]}', True), ("{$nor: [{n: 5}]}", False),
        ("{n: {$not: {$lt: 9}}}", False), ("{'m.k': {$exists: true}}", True),
        ('{s: {$regex: "n"}}', None), ("{$expr: {$eq: [1, 1]}}", None), ("{tags: {$elemMatch: {a: 1}}}", None),
        ('{"tags.0": "a"}', None), ("{n: {$gt: {$date: 5}}}", False), ("{n: {$gt: true}}", None),
        ("{nan: {$numberDouble: 'NaN'}}", True), ("{nan: 5}", False), ("{nan: {$lt: 5}}", False),
        ("{nan: {$gte: {$numberDouble: 'NaN'}}}", None), ("{d: 1.5}", True), ("{d: {$gt: 1, $lt: 2}}", True),
        ("{n: {$numberDecimal: '5.0'}}", True), ("{n: {$lt: {$numberDecimal: '5.1'}}}", True),
        ("{none: {$gte: null}}", None), ("{xy: {y: 2, x: 1}}", False), ("{xy: {x: 1, y: 2}}", True),
        ("{'rows.b': null}", True), ("{'empty.b': null}", False), ("{'n.b': null}", True),
        ("{$nor: [5]}", None), ("{n: {$in: 5}}", None),
    ],
)  # fmt: skip
def test_a_filter_says_what_a_delete_removes(query: str, found: bool | None) -> None:
    assert explains(f"db.items.deleteMany({query})", None) is found


def test_what_is_not_evaluated_is_unknown() -> None:
    after = BEFORE | {"n": 6}
    for update in ("{$bit: {n: {or: 2}}}", "{$push: {tags: {$each: [1]}}}", '{$inc: {s: 1}}', "{$set: {'tags.0': 1}}",
                   '[{$set: {n: {$toInt: "$s"}}}]', '[{$set: {n: "$$NOW"}}]', "[{$set: {n: {$ifNull: []}}}]",
                   "[{$set: {n: {$cond: {if: true, then: 6}}}}]", "[{$set: {n: {$cond: [false, 6]}}}]",
                   "{$pull: {tags: /a/}}"):  # fmt: skip
        assert explains(f"updateMany({{}}, {update})", after) is None, update


def test_ids_and_dates_are_read_as_extended_json() -> None:
    id_ = ObjectId()
    text = f'deleteMany({{_id: {{"$oid": "{id_}"}}, at: {{$lt: {{"$date": "2026-01-02T00:00:00Z"}}}}}})'
    found = {"_id": id_, "at": bson.datetime_ms.DatetimeMS(0)}
    assert explains(text, None, found) is True
    assert explains(text, None, found | {"_id": ObjectId()}) is False
    late = found | {"at": bson.datetime_ms.DatetimeMS(10**15)}
    assert (explains(text, None, late), explains(text.replace("$lt", "$gt"), None, late)) == (False, True)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('{$concat: ["$s", "!", "?"]}', "new!?"), ('{$concat: ["$s", "$none"]}', None), ('{$concat: [null]}', None),
        ('{$add: ["$n", 1, 2]}', 8), ('{$subtract: ["$n", 7]}', -2), ('{$multiply: ["$n", "$f"]}', 12.5),
        ('{$add: ["$n", "$none"]}', None), ('{$add: ["$n", null]}', None), ('{$add: ["$f", 1]}', 3.5),
        ('{$isNumber: "$n"}', True), ('{$isNumber: "$s"}', False), ('{$type: "$s"}', "string"),
        ('{$type: "$none"}', "missing"), ('{$type: "$f"}', "double"), ('{$type: "$tags"}', "array"),
        ('{$type: "$m"}', "object"), ('{$type: true}', "bool"), ('{$ifNull: ["$none", null, 3]}', 3),
        ('{$ifNull: ["$n", 3]}', 5), ('{$ifNull: ["$none", null]}', None), ('{$and: ["$n", "$s"]}', True),
        ('{$and: ["$n", 0]}', False), ('{$or: ["$none", null, false]}', False), ('{$or: [0, "$n"]}', True),
        ('{$not: ["$n"]}', False), ('{$not: [0]}', True), ('{$not: ["$nan"]}', False), ('{$not: [""]}', False),
        ('{$eq: ["$n", 5.0]}', True), ('{$ne: ["$n", 5]}', False), ('{$eq: ["$none", "$other"]}', True),
        ('{$eq: ["$none", null]}', False), ('{$ne: ["$none", null]}', True), ('{$gt: ["$n", 4]}', True),
        ('{$gt: ["$n", 5]}', False), ('{$gte: ["$n", 5]}', True), ('{$lt: ["$n", 5]}', False),
        ('{$lte: ["$n", 5]}', True), ('{$lt: ["$s", "o"]}', True), ('["$n", "$none"]', [5, None]),
        ('[{a: "$n", b: "$none"}]', [{"a": 5}]), ('{$literal: "$n"}', "$n"),
        ('{$add: [9007199254740992.0, 1.0]}', 2.0**53 + 1),
    ],
)  # fmt: skip
def test_an_expression_has_the_value_that_the_server_gives_it(expression: str, value: Any) -> None:
    text = f"updateMany({{}}, [{{$set: {{t: {expression}}}}}])"
    assert explains(text, BEFORE | {"t": value}) is True
    assert explains(text, BEFORE | {"t": "another"}) is False


@pytest.mark.parametrize(
    "expression",
    ['{$gt: ["$n", "x"]}', '{$add: ["$f", 1, 2]}', '{$add: ["$s", 1]}', '{$type: "$n"}', '"$$ROOT"', '{$toInt: "5"}',
     '{$add: [9007199254740994.0, 1]}', '{$add: ["$d", 1]}', '{$add: []}', '{$eq: [1]}', '{$gt: ["$nan", 1]}',
     '{$concat: ["$n", "x"]}', '{$concat: "$s", $add: [1]}', '"$tags.a"'],
)  # fmt: skip
def test_an_expression_whose_value_is_not_certain_is_unknown(expression: str) -> None:
    assert explains(f"updateMany({{}}, [{{$set: {{t: {expression}}}}}])", BEFORE | {"t": 1}) is None


@pytest.mark.parametrize(
    ("update", "changed"),
    [
        ("{$min: {n: 5}}", {}), ("{$min: {n: 6}}", {}), ("{$max: {n: 5.5}}", {"n": 5.5}), ("{$max: {n: 4}}", {}),
        ("{$min: {none: 5}}", {"none": 5}), ("{$max: {d: 2}}", {"d": 2}), ("{$push: {none: 1}}", {"none": [1]}),
        ("{$pop: {tags: 1}}", {"tags": ["a"]}), ("{$pop: {none: 1}}", {}), ("{$addToSet: {tags: 'c'}}",
                                                                          {"tags": ["a", "b", "c"]}),
        ("{$addToSet: {none: 1}}", {"none": [1]}), ("{$pull: {tags: 'x'}}", {}), ("{$rename: {none: 'x'}}", {}),
        ("{$setOnInsert: {none: 1}}", {}), ("{$unset: {'m.k': 1}}", {"m": {}}), ("{$unset: {'none.k': 1}}", {}),
        ("{$set: {'none.k.j': 1}}", {"none": {"k": {"j": 1}}}), ("{$inc: {'m.k': 2}}", {"m": {"k": 3}}),
        ("{$mul: {none: 2}}", {"none": 0}), ("{$rename: {'m.k': 'k'}}", {"m": {}, "k": 1}),
    ],
)  # fmt: skip
def test_an_operator_changes_what_the_server_changes(update: str, changed: dict[str, Any]) -> None:
    assert explains(f"updateMany({{}}, {update})", BEFORE | changed) is True
    assert explains(f"updateMany({{}}, {update})", BEFORE | changed | {"s": "x"}) is False


@pytest.mark.parametrize(
    "update",
    ["{$min: {s: 5}}", "{$push: {n: 1}}", "{$pop: {n: 1}}", "{$pull: {tags: {a: 1}}}", "{$set: {'n.k': 1}}",
     "{$inc: {d: 1}}", "{$min: {nan: 1}}", "{$addToSet: {tags: {$each: ['c']}}}", "{$currentDate: {at: true}}"],
)  # fmt: skip
def test_an_operator_whose_result_is_not_certain_is_unknown(update: str) -> None:
    assert explains(f"updateMany({{}}, {update})", BEFORE) is None


@pytest.mark.parametrize(
    ("one", "other", "ordered", "equal"),
    [
        ({}, [], True, False),
        ([], {}, False, False),
        ({"a": 1}, "a", True, False),
        ({"a": [1, {"b": 2.0}]}, {"a": [Int64(1), {"b": 2}]}, True, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False, True),
        ({"a": 1}, {"a": 1, "b": 2}, False, False),
        ([1, 2], [1], True, False),
        (True, 1, True, False),
        (Decimal128("1.0"), 1, True, True),
        (float("nan"), Decimal128("NaN"), True, True),
    ],
)
def test_values_are_equal_as_for_the_server(one: Any, other: Any, ordered: bool, equal: bool) -> None:
    assert is_equal(one, other, ordered=ordered) is equal
    assert is_equal(other, one, ordered=ordered) is equal
