"""Statements as they are typed in mongosh."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from bson import Binary, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp

from tallyglass.errors import InputError
from tallyglass.restore.undo.evidence import read_statement
from tallyglass.restore.undo.mongosh_text import read_call

ID, DAY = ObjectId("5f0000000000000000000001"), datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("-5", -5), (".5e3", 500.0), ("0x10", 16), ("9007199254740993", float(2**53)), ("[1, 'a',]", [1, "a"]),
        ("{a: 1, 'b.c': {5: true},}", {"a": 1, "b.c": {"5": True}}), ("null", None), ("/a\\/b/i", Regex("a\\/b", "i")),
        ('"a\\u0041\\x42\\n"', "aAB\n"), ("'it\\'s'", "it's"), ('"\\ud83d\\ude00"', "\U0001f600"), ("`x`", "x"),
        ('ObjectId("5f0000000000000000000001")', ID), ("new ObjectId('5f0000000000000000000001')", ID),
        ('{"$oid": "5f0000000000000000000001"}', ID), ('ISODate("2026-01-02T00:00:00Z")', DAY),
        ('ISODate("2026-01-02T00:00:00.9999Z")', DAY.replace(microsecond=999_000)),
        ('"\\0\\q\\\\"', "\0q\\"), ('"\\u{1f600}"', "\U0001f600"),
        ('ISODate("2026-01-02T00:00")', DAY), ('new Date("2026-01-02T02:00+02:00")', DAY),
        ('new Date("2026-01-02")', DAY), ("new Date(1767312000000)", DAY), ('{$date: "2026-01-02T00:00:00Z"}', DAY),
        ('NumberLong("7")', Int64(7)), ("NumberInt(7)", 7), ('NumberDecimal("1.5")', Decimal128("1.5")),
        ("Timestamp(1, 2)", Timestamp(1, 2)), ("Timestamp({t: 1, i: 2})", Timestamp(1, 2)), ("MaxKey()", MaxKey()),
        ('UUID("00000000-0000-0000-0000-000000000001")', Binary.from_uuid(uuid.UUID(int=1))),
        ('BinData(5, "eA==")', Binary(b"x", 5)), ("1 /* one */ // first", 1),
    ],
)  # fmt: skip
def test_a_value_is_read_as_its_bson_type(typed: str, value: Any) -> None:
    assert read_call(f"db.orders.deleteMany({{v: {typed}\n}});") == ("orders", "deleteMany", [{"v": value}])


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("", ""), ("items.", ""), ("shop.items.", ""), ("db.orders.", "orders"), ('db["orders"].', "orders"),
        ("db.a.b.", "a.b"),
        ('db.getSiblingDB("shop").getCollection("a.b").', "a.b"), ('db.getSiblingDB("shop").orders.', "orders"),
    ],
)  # fmt: skip
def test_a_collection_is_named_in_any_way(path: str, name: str) -> None:
    assert read_call(f" {path}deleteMany( {{}} ) // done") == (name, "deleteMany", [{}])


@pytest.mark.parametrize(
    "typed",
    [
        "Date.now()",
        "new Date()",
        'Date("2026-01-02")',
        'new Date("2026-01-02T03:04")',
        "ObjectId()",
        "1 + 1",
        "02134",
        "x",
        "undefined",
        "process.exit()",
        "{a: 1",
        '"a',
        '"\\u12"',
        '"\\x1"',
        '"\\u"',
        '"\\12"',
        '"\\01"',
    ],
)
def test_what_computes_or_is_cut_is_refused(typed: str) -> None:
    with pytest.raises(InputError, match=r"cannot be read|ends too soon"):
        read_statement(f"updateMany({{v: {typed}}})")


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("deleteMany({at: {$lt: new Date()}})", r"cannot be read from 'new Date\(\)\}\}\)' on"),
        ("deleteMany({n: 1 + 1})", r"cannot be read from '\+ 1\}\)' on"), ("deleteMany({a: 1", "ends too soon"),
        ("deleteMany({}) and more", "cannot be read from 'and more' on"), ("deleteMany()", "needs a filter"),
        ("updateMany({})", "needs a filter and an update"), ("deleteOne({})", "is not an updateMany"),
    ],
)  # fmt: skip
def test_the_error_says_where_and_why(typed: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_statement(typed)


@pytest.mark.parametrize("part", ["[", "/[", "{a:", "(", '"', "/*", "\\", "new ", "9"])
def test_a_long_text_is_refused_at_once(part: str) -> None:
    """The log of a server may hold any text."""
    with pytest.raises(InputError):
        read_statement(f"deleteMany({{a: /{part * 100_000}")


def test_older_names_and_calls_of_one_document() -> None:
    assert read_statement("db.orders.remove({a: 1})").update is None
    assert read_statement("db.orders.update({}, {$set: {a: 1}}, {multi: true})").update == {"$set": {"a": 1}}
    for one in ("remove({}, true)", "remove({}, {justOne: true})", "update({}, {$set: {a: 1}})", "deleteOne({})",
                "find({}).forEach(1)", "drop()"):  # fmt: skip
        with pytest.raises(InputError, match=r"is not an updateMany or deleteMany|cannot be read"):
            read_statement(f"db.orders.{one}")


def test_only_a_collation_among_the_options_counts() -> None:
    for options, collation in (("", False), (", {upsert: false}", False), (", {collation: {locale: 'en'}}", True)):
        assert read_statement(f"updateMany({{}}, {{$set: {{a: 1}}}}{options})").collation is collation


def test_texts_are_not_compared_under_a_collation() -> None:
    ran = read_statement('deleteMany({s: "x"}, {collation: {locale: "en", strength: 2}})')
    assert ran.explains(b"\x0e\0\0\0\x02s\0\x02\0\0\0x\0\0", None) is None
    assert read_statement("deleteMany({n: 1}, {collation: {locale: 'en'}})").explains(b"\5\0\0\0\0", None) is False
    pipeline = read_statement('updateMany({}, [{$set: {s: {$eq: ["$s", 1]}}}], {collation: {locale: "en"}})')
    assert pipeline.explains(b"\5\0\0\0\0", b"\5\0\0\0\0") is None
