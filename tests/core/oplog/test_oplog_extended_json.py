"""Extended JSON from the bytes says what the driver's own converter says, and is safe on a terminal."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
    json_util,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tallyglass.mongo.codec import CODEC
from tallyglass.oplog.entry.json import READABLE_DEPTH, block, exact, id_text, one_line, quoted, scalar, to_json
from tallyglass.oplog.entry.walk import Malformed, elements

VALUES: list[Any] = [
    0, -1, 2**31, Int64(5), 1.5, -0.0, 1e300, float("nan"), float("inf"), float("-inf"), True, False, None, "",
    "naïve \x7f\x1b", datetime(2026, 11, 20, 18, 6, 14, 123_000, tzinfo=UTC), datetime(2026, 11, 20, tzinfo=UTC),
    datetime(1960, 1, 1, tzinfo=UTC),
    ObjectId("6b028a9d4d61176574f3e0d4"), b"", b"abc", Binary(b"x" * 16, 3),
    Binary(uuid.UUID(int=0x2026 << 100).bytes, 4), Binary(b"x", 128), Timestamp(5, 6),
    DatetimeMS(0), DatetimeMS(253_402_300_799_999), DatetimeMS(253_402_300_800_000), DatetimeMS(-1), Binary(b"", 2),
    Binary(b"abc", 2), b"x" * 35, b"x" * 36,
    Regex("a.*", "im"), Code("f()"), Code("f()", {"a": 1}), Decimal128("1.10"), MinKey(), MaxKey(), DBRef("c", 1), [],
    [[1], {}], {},
]  # fmt: skip


def same(document: dict[str, Any]) -> None:
    raw = bson.encode(document)
    decoded = bson.decode(raw, CODEC)
    for canonical, options in (
        (False, json_util.RELAXED_JSON_OPTIONS),
        (True, json_util.CANONICAL_JSON_OPTIONS),
    ):
        text = exact(raw, canonical=canonical)
        assert text.isascii()
        assert text.isprintable()
        assert json.dumps(json.loads(text)) == json.dumps(json.loads(json_util.dumps(decoded, json_options=options)))


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_each_type_is_written_as_the_driver_writes_it(value: Any) -> None:
    same({"a": value, "é\n": [value, {"deep": value}]})


def test_a_value_that_was_never_defined_is_written_too() -> None:
    raw = bson.encode({"a": None, "b": 1})
    assert exact(raw.replace(b"\x0aa\0", b"\x06a\0"), canonical=True) == exact(raw, canonical=True)
    assert json.loads(block(raw.replace(b"\x0aa\0", b"\x06a\0")))["b"] == 1
    text = bson.encode({"a": "symbol", "b": 1})
    symbol = text.replace(b"\x02a\0", b"\x0ea\0")
    assert exact(symbol, canonical=True) == exact(text, canonical=True)
    assert [one.name for one in elements(symbol)] == [b"a", b"b"]


scalars = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(), st.binary(), st.booleans(), st.none(), st.builds(ObjectId)
)
names = st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.dictionaries(names, st.recursive(scalars, lambda v: st.lists(v) | st.dictionaries(names, v), max_leaves=12)))
def test_any_document_is_written_as_the_driver_writes_it(document: dict[str, Any]) -> None:
    same(document)


MOMENT = {"ts": Timestamp(5, 6), "t": Int64(1), "v": Int64(2), "wall": VALUES[15]}
TAIL = bson.encode(MOMENT)[4:-1]
ODD = MOMENT | {"ts": Timestamp(0x6A5B4C12, 6)}
"""From the middle of its ``ts`` on, where ``prevOpTime`` would begin, the bytes look like fields."""
PREVIOUS = {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
LSID = {"lsid": {"id": Binary(b"s" * 16, 4), "uid": b"u" * 32}, "txnNumber": Int64(9)}
UI = {"ui": Binary(b"u" * 16, 4)}


@pytest.mark.parametrize("first", [{}, LSID, {"lsid": LSID["lsid"]}], ids=["plain", "session", "no number"])
@pytest.mark.parametrize("ui", [{}, UI, {"ui": Binary(b"u" * 16, 3)}], ids=["no ui", "ui", "old ui"])
@pytest.mark.parametrize("last", [MOMENT, ODD, MOMENT | PREVIOUS, PREVIOUS, {"x": TAIL}, {"o": MOMENT}], ids=range(6))
@pytest.mark.parametrize("o", [{"_id": 1, "a": [1, {"b": "\x7f"}]}, {}])
def test_an_entry_is_written_as_the_driver_writes_it(
    first: dict[str, Any], ui: dict[str, Any], last: dict[str, Any], o: dict[str, Any]
) -> None:
    same({**first, "op": "u", "ns": "shop.é", **ui, "o": o, "stmtId": 0, **last})
    same({**first, "op": "u", "to": "shop.é", **ui, **last})
    same({**first, "op": "uu", "ns": "a", **ui, **last})


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_bytes_are_refused_and_never_read_past_their_end(data: st.DataObject) -> None:
    found = {"a": "text", "b": [1, {"c": 2.5}], "d": b"xyz", "e": ObjectId(), "f": Timestamp(1, 2)}
    raw = bytearray(
        bson.encode(data.draw(st.sampled_from([found, {"op": "i", "ns": "a.b", **UI, "o": found, **MOMENT}])))
    )
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        text = exact(bytes(raw), canonical=False)
    except Malformed:
        text = to_json(bytes(raw), kind="entry")
        assert json.loads(text)["kind"] == "entry"
    assert text.isascii()


def test_secrets_are_left_out_and_the_kind_comes_first() -> None:
    raw = bson.encode(
        {"op": "i", "ns": "admin.system.users", "o": {"_id": "a", "credentials": {"SCRAM": {"k": "secret"}}}}
    )
    text = to_json(raw, kind="entry", relaxed=True)
    assert "secret" not in text
    assert text.startswith('{"kind": "entry", "op": "i"')


def test_an_entry_is_one_line_of_json_with_what_names_it_first() -> None:
    raw, key = bson.encode({"op": "i", "n": 1}), bson.encode({"ns": "admin.system.keys", "op": "i", "o": {"key": b"x"}})
    assert to_json(raw) == '{"op": "i", "n": {"$numberInt": "1"}}'
    assert to_json(raw, relaxed=True, shard="s\x1b") == '{"shard": "s\\u001b", "op": "i", "n": 1}'
    assert to_json(key, kind="e") == '{"kind": "e", "ns": "admin.system.keys", "op": "i", "o": {"key": "(hidden)"}}'
    assert to_json(raw[:-2], kind="e", shard="s") == f'{{"kind": "e", "shard": "s", "$broken": "{raw[:-2].hex()}"}}'
    assert to_json(b"") == '{"$broken": ""}'
    assert to_json(bson.encode({}), kind="e") == '{"kind": "e"}'
    assert to_json(bson.encode({})) == "{}"
    nested: dict[str, Any] = {}
    for depth in range(1, 203):
        nested = {"a": nested}
        assert ("$broken" in to_json(bson.encode(nested))) is (depth > 200)


def test_a_document_is_indented_by_its_levels_and_cut_where_they_are_too_deep() -> None:
    document = {"a": {"b": [1, {"c": {}}, []], "d": "x"}, "e": True}
    assert block(bson.encode(document)) == json.dumps(document, indent=2)
    assert one_line(bson.encode(document)) == json.dumps(document)
    numbers = {"a": 1.5, "b": -0.0, "c": float("nan"), "d": float("-inf")}
    assert one_line(bson.encode(numbers)) == exact(bson.encode(numbers), canonical=False)
    shown: Any = "levels"
    for _ in range(READABLE_DEPTH):
        shown = [shown]
    assert json.loads(block(bson.encode({"a": shown}))) == {"a": shown}
    cut = block(bson.encode({"a": [shown]}))
    assert f"(deeper than {READABLE_DEPTH})" in cut
    assert "levels" not in cut


UUID = Binary(bytes(range(16)), 4)
OID = ObjectId("0123456789abcdef01234567")


@pytest.mark.parametrize(
    ("value", "shown", "as_id"),
    [
        (UUID, '{"$uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f"}', "00010203-0405-0607-0809-0a0b0c0d0e0f"),
        (Binary(UUID, 3), '{"$binary": {"hex": "000102030405060708090a0b0c0d0e0f", "subType": "03"}}', None),
        (Binary(b"abc", 4), '{"$binary": {"hex": "616263", "subType": "04"}}', None),
        (b"x" * 31, '{"$binary": {"hex": "' + "78" * 30 + '…+1 bytes", "subType": "00"}}', ""),
        (b"x" * 30, '{"$binary": {"hex": "' + "78" * 30 + '", "subType": "00"}}', ""),
        (OID, '{"$oid": "0123456789abcdef01234567"}', "0123456789abcdef01234567"),
        ("x" * 60, f'"{"x" * 60}"', "x" * 60), ("x" * 61, f'"{"x" * 60}…+1"', "x" * 60 + "…+1"),
        ("🎉" * 60, f'"{"🎉" * 60}"', "🎉" * 60), ("🎉" * 61, f'"{"🎉" * 60}…+1"', "🎉" * 60 + "…+1"),
        ("x" * 9_999, f'"{"x" * 60}…+9939"', ""), ("ä漢🎉" * 900, f'"{"ä漢🎉" * 20}…+2640"', ""),
        ("x" * 239 + "é" * 9, f'"{"x" * 60}…+188"', ""), ('"' * 60, '"' + '\\"' * 60 + '"', ""),
        ("\0" * 60, '"' + "\\u0000" * 60 + '"', ""),
        ("a b", '"a b"', None), ('q"', '"q\\""', None), ("", '""', None), ("\u202e", '"\\u{202e}"', "\\u{202e}"),
        ("inf", '"inf"', None), ("-a", '"-a"', None), ("a-", '"a-"', "a-"), ("b" * 24, f'"{"b" * 24}"', None),
        ("g" * 24, f'"{"g" * 24}"', "g" * 24), ("b" * 25, f'"{"b" * 25}"', "b" * 25), ("b" * 36, f'"{"b" * 36}"', None),
        (5, "5", None), (Int64(5), "5", None), (1.5, "1.5", None), (True, "true", None), (None, "null", None),
        (Timestamp(5, 6), '{"$timestamp": {"t": 5, "i": 6}}', None), (MinKey(), '{"$minKey": 1}', None),
        (VALUES[15], '{"$date": "2026-11-20T18:06:14.123Z"}', None),
        (DatetimeMS(2**60), f'{{"$date": {{"$numberLong": "{2**60}"}}}}', None),
        (Decimal128("12.50"), '{"$numberDecimal": "12.50"}', None), (Code("f()"), '{"$code": "f()"}', None),
        (Regex("a", "i"), '{"$regularExpression": {"pattern": "a", "options": "i"}}', None),
        (Code("f" * 80), '{"$code": "' + "f" * 49 + "…+33", ""), (Code("f" * 480), "(485 bytes)", ""),
        ({"a": [1, {}], "": "x"}, None, '{"a": [1, {}], "": "x"}'), ([1, "x"], None, '[1, "x"]'),
    ],
    ids=repr,
)  # fmt: skip
def test_a_value_is_shown_in_one_way(value: Any, shown: str | None, as_id: str | None) -> None:
    """As a value of a document, and where it differs as an ``_id``, from which it can be typed again."""
    raw = bson.encode({"a": value})
    element = next(elements(raw))
    if shown is not None:
        assert scalar(raw, element, 60) == shown
    if as_id != "":
        assert id_text(raw, element, 60 if isinstance(value, str) else 80) == (as_id or shown)


@pytest.mark.parametrize("show", [one_line, block])
def test_a_text_is_cut_exactly_where_it_is_too_long(show: Any) -> None:
    raw = bson.encode({"a": [1, {"b": "text", "c": []}], "d": None, "e": {}})
    whole = show(raw)
    for limit in range(1, len(whole) + 3):
        shown = show(raw, limit=limit) if show is block or limit >= 4 else whole[:limit] + "…"
        assert shown == (whole if len(whole) <= limit else whole[:limit] + "…")
    assert show(raw[:-2] + b"x") == "{(not readable)"


def test_a_string_is_cut_only_beyond_its_limit_and_says_by_how_much() -> None:
    assert [quoted(text, 2) for text in ("ab", "abc")] == ['"ab"', '"ab…+1"']
    assert quoted("ab", 2, 5) == '"ab…+5"'
