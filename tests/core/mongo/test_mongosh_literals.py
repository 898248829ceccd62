"""Values and calls as mongosh text; that a shell reads them as the same values: ``tests/live/test_mongosh.py``."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary, Code, DBRef, Decimal128, Int64, ObjectId, Timestamp
from bson.datetime_ms import DatetimeMS

from tallyglass.mongo.mongosh import call, has_literal, has_plain_names, literal, update_one

OID = ObjectId("656b5e7d0f3c2a1b9d8e7f60")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        ('a"b\x7f\u202e', '"a\\"b\\u007f\\u202e"'),
        (7, "NumberInt(7)"),
        (2**31 - 1, "NumberInt(2147483647)"),
        (2**31, 'NumberLong("2147483648")'),
        (-(2**31), "NumberInt(-2147483648)"),
        (-(2**31) - 1, 'NumberLong("-2147483649")'),
        (Int64(7), 'NumberLong("7")'),
        (Decimal128("1.50"), 'NumberDecimal("1.50")'),
        (OID, 'ObjectId("656b5e7d0f3c2a1b9d8e7f60")'),
        (Code("f()"), 'Code("f()")'),
        (Code("f()", {"a": 1}), 'Code("f()", {"a": NumberInt(1)})'),
        (b"\x01", 'BinData(0, "AQ==")'),
        (Binary(b"\x01", 128), 'BinData(128, "AQ==")'),
        (DBRef("c", 1), '{"$ref": "c", "$id": NumberInt(1)}'),
        ({"a": [1, {}]}, '{"a": [NumberInt(1), {}]}'),
        ({"1": 1}, '{"1": NumberInt(1)}'),
        ({"a": 1, "1": 2}, 'new Map([["a", NumberInt(1)], ["1", NumberInt(2)]])'),
        ({"__proto__": 1}, 'new Map([["__proto__", NumberInt(1)]])'),
        ({"_bsontype": "x"}, 'new Map([["_bsontype", "x"]])'),
        (1.5, 'EJSON.parse("{\\"v\\": {\\"$numberDouble\\": \\"1.5\\"}}", {relaxed: false}).v'),
        (Timestamp(5, 6), 'EJSON.parse("{\\"v\\": {\\"$timestamp\\": {\\"t\\": 5, \\"i\\": 6}}}", {relaxed: false}).v'),
    ],
)
def test_each_type_of_value_has_a_literal(value: Any, text: str) -> None:
    assert literal(value) == text


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        (DatetimeMS(8_640_000_000_000_000), True),
        (DatetimeMS(8_640_000_000_000_001), False),
        ("a\ufffd", False),
        ({"a\ufffd": 1}, False),
        ([{"a": "\ufffd"}], False),
        ([1, {"a": "b"}], True),
    ],
)
def test_what_no_literal_represents_is_known(value: Any, exact: bool) -> None:
    assert has_literal(value) is exact


@pytest.mark.parametrize(
    ("value", "plain"), [({"a": [1]}, True), ([{"a": 1, "2": 1}], False), ({"a": {"__proto__": 1}}, False), (1, True)]
)
def test_names_that_an_object_does_not_keep_are_known(value: Any, plain: bool) -> None:
    assert has_plain_names(value) is plain


def test_a_call_names_its_collection_whatever_that_is_called() -> None:
    assert call('shop.a"b.c', "drop") == 'db.getSiblingDB("shop").getCollection("a\\"b.c").drop()'
    for upsert, option in ((False, ""), (True, '"upsert": true, ')):
        assert update_one("shop.a", {"_id": "x"}, {"$max": {"n": Int64(9)}}, upsert=upsert) == (
            'db.getSiblingDB("shop").getCollection("a").updateOne({"_id": "x"}, {"$max": {"n": NumberLong("9")}}, '
            f'{{{option}"writeConcern": {{"w": "majority"}}}})'
        )
