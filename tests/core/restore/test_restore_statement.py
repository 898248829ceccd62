"""A statement as typed, applied to documents: what it explains, and where that is not known."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Decimal128, Int64, ObjectId

from tallyglass.restore.undo.evidence import read_statement

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
