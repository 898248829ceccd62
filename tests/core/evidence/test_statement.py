"""A delete or update as a person would type it, and without its values."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from tallyglass.evidence.book import LineTally
from tallyglass.evidence.facts import Client
from tallyglass.evidence.statement import id_key, ids_of, shell_text, without_values, write_of

OID = "656b5e7d0f3c2a1b9d8e7f60"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("deleteMany({s: 1})", "deleteMany({s: ?})"), ("drop shop.orders", "drop shop.orders"), ("", ""),
        ("updateOne({'a.b': 'x: {', n: {$in: [1, -2.5, null]}}, {$set: {t: true}})",
         "updateOne({'a.b': ?, n: {$in: [?, ?, ?]}}, {$set: {t: ?}})"),
        (f"deleteOne({{_id: ObjectId('{OID}')}}) (cut by the server)", "deleteOne({_id: ?(?)}) (cut by the server)"),
        ("deleteMany({a: 'it\\'s'}) on b (c)", "deleteMany({a: ?}) on b (?)"),
        ("deleteMany({a: 'cut", "deleteMany({a: ?"),
        ("createIndexes: {x: 1}", "createIndexes: {x: ?}"), ("x({a: {…}, b: [1, …+60]})", "x({a: {…}, b: [?, …?]})"),
    ],
)  # fmt: skip
def test_without_its_values_a_statement_keeps_names_and_operators(text: str, expected: str) -> None:
    assert without_values(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"$oid": OID}, f"ObjectId('{OID}')"), ({"$date": "2026"}, "ISODate('2026')"), ({"$uuid": "x"}, "UUID('x')"),
        ({}, "{}"), ([], "[]"), ({"a b": 1, "$gt": None, "c": [True, False, 1.5, "x"]},
                                 "{'a b': 1, $gt: null, c: [true, false, 1.5, 'x']}"),
        ({"a": {"a": {"a": {"a": {"a": {"a": {"a": 1}}}}}}}, "{a: {a: {a: {a: {a: {a: {…}}}}}}}"),
        ([[[[[[[1]]]]]]], "[[[[[[[…]]]]]]]"), ("x" * 500, repr("x" * 400)),
        ({f"k{n}": n for n in range(41)}, "{" + ", ".join(f"k{n}: {n}" for n in range(40)) + ", …}"),
        (list(range(42)), "[" + ", ".join(map(str, range(40))) + ", …+2]"),
    ],
)  # fmt: skip
def test_extended_json_is_written_as_typed_in_a_shell(value: object, expected: str) -> None:
    assert shell_text(value) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"_id": 1}, {1}), ({"_id": {"$eq": "x"}, "s": 1}, {"x"}),
        ({"_id": {"$in": [1, {"$oid": OID}]}}, {1, ("oid", OID)}),
        ({"_id": ObjectId(OID)}, {("oid", OID)}), ({"_id": {"$oid": OID}}, {("oid", OID)}),
        ({"_id": {"$in": []}}, set()),
        ({"_id": {"$gt": 1}}, None), ({"_id": {"$in": [1, None]}}, None), ({"_id": True}, None),
        ({"_id": [1, 2]}, {1, 2}),
        ({"s": 1}, None), (None, None), ({"_id": {"a": 1}}, None), ({"_id": {"$oid": 5}}, None),
    ],
)  # fmt: skip
def test_the_ids_that_a_filter_names(query: object, expected: set[object] | None) -> None:
    assert ids_of(query) == expected
    assert id_key(b"x") is None


CHANGE = {"q": {"s": 1}, "u": {"$set": {"a.b": 1}, "$rename": {"c": "d.e"}}, "multi": True}


@pytest.mark.parametrize(
    ("attr", "counts", "tally"),
    [
        ({"ndeleted": 3, "command": {"q": {}, "limit": 0}}, (3, None), (0, 0)),
        ({"ndeleted": 0, "command": {"q": {}, "limit": 0}}, (0, None), (0, 0)),
        ({"ndeleted": 0, "command": {"q": "###"}}, (0, None), (0, 0)), ({"command": {"q": {}}}, None, (1, 0)),
        ({"errName": "Interrupted", "keysDeleted": 8, "command": {"q": {}}}, (None, 8), (0, 0)),
        ({"errCode": 11601, "keysDeleted": 0, "command": {"q": {}}}, None, (0, 0)),
        ({"errCode": 11601, "keysDeleted": 8, "truncated": {}, "command": {"q": {}}}, None, (1, 0)),
        ({"errCode": 11601, "keysDeleted": "8", "command": {"q": {}}}, (None, None), (0, 0)),
        ({"errCode": 1, "ndeleted": 2, "keysDeleted": 4, "command": {"q": {}}}, (2, 4), (0, 0)),
        ({"ndeleted": 3, "command": {"q": "###"}}, (3, None), (0, 1)), ({"ndeleted": 3}, (3, None), (0, 1)),
        ({"ndeleted": 3, "command": {"q": {}, "limit": "###"}}, (3, None), (0, 1)),
        ({"type": "command", "command": {"findAndModify": "x", "remove": True}}, None, (0, 0)),
    ],
)  # fmt: skip
def test_how_much_a_delete_removed_or_that_its_line_does_not_say(
    attr: dict[str, Any], counts: tuple[int | None, int | None] | None, tally: tuple[int, int]
) -> None:
    book = LineTally()
    found = write_of({"type": "remove", "ns": "a.b"} | attr, Client(), 1, 2, 0, book)
    assert (None if found is None else (found.documents, found.keys)) == counts
    assert (book.cut, book.redacted) == tally


def test_an_update_is_told_by_the_fields_that_it_names() -> None:
    def fields(update: object, **more: Any) -> frozenset[str] | None:
        attr = {"type": "update", "ns": "a.b", "nModified": 1, "command": CHANGE | {"u": update}} | more
        found = write_of(attr, Client(), 1, 2, 0, LineTally())
        assert found is not None
        return found.fields

    assert fields(CHANGE["u"]) == {"a", "c", "d"}
    assert fields(CHANGE["u"], truncated={}) is None
    for unknown in ([{"$set": {"a": 1}}], {"a": 1}, {"$set": {"a": 1}, "b": 2}, {}, {"$set": 5}):
        assert fields(unknown) is None
