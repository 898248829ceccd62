"""Whatever the bytes are, an entry is shown, matched and counted: no crash, bounded text, no control characters."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any

import bson
import pytest
from bson import DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tallyglass.oplog.entry import json, walk
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.entry.json import to_json
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.entry.row import detail, row
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.filter.compile import CompiledFilter
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.read.collect import Collector
from tallyglass.text import clean, clean_block

quick = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1).map(Int64), st.integers(-(2**31), 2**31 - 1),
    st.floats(), st.text(max_size=30), st.binary(max_size=30), st.datetimes(), st.just(MinKey()), st.just(MaxKey()),
    st.builds(ObjectId, st.binary(min_size=12, max_size=12)), st.just(Decimal128("1E+3")),
    st.builds(Timestamp, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
    st.just(Regex("a(", "i")), st.just(DBRef("c", 1)),
)  # fmt: skip
KEYS = st.text(max_size=12).filter(lambda key: "\0" not in key)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=20
)
FIELDS = [
    "ts",
    "t",
    "op",
    "ns",
    "ui",
    "o",
    "o2",
    "wall",
    "lsid",
    "txnNumber",
    "prevOpTime",
    "multiOpType",
    "$v",
    "diff",
]
WORDS = st.sampled_from(
    ["i", "u", "d", "c", "n", "xi", "", "admin.$cmd", "shop.$cmd", "admin.system.users", "shop.orders"]
)
INNER = [
    "applyOps",
    "drop",
    "renameCollection",
    "to",
    "create",
    "$v",
    "diff",
    "s",
    "u",
    "a",
    "l",
    "d",
    "_id",
    "count",
    "msg",
]
DOCUMENTS = st.dictionaries(st.sampled_from(INNER) | KEYS, VALUES, max_size=5)
ENTRIES = st.dictionaries(
    st.sampled_from(FIELDS), st.one_of(WORDS, DOCUMENTS, VALUES, st.lists(DOCUMENTS, max_size=3)), max_size=10
)  # fmt: skip
FILTERS = [OplogFilter.parse(text) for text in ("ns:shop.* op:d", "id:42", "7", "/a+/", "destructive noops")]


def hold(raw: bytes) -> None:
    """All that may be asked of an entry, and what must be true of each answer."""
    shown = row(raw)
    for text in (shown.what, shown.ns, shown.id, shown.op):
        assert clean(text, 4_000) == text
        assert len(text) <= 700
    whole = detail(raw)
    assert clean_block(whole, 10**9) == whole
    assert len(whole) <= json.BLOCK_LIMIT * 2
    assert to_json(raw).isascii()
    assert "\n" not in to_json(raw)
    with suppress(Malformed):
        for operation in operations_of(read_entry(raw)):
            assert isinstance(operation.o, dict)
            assert isinstance(operation.id_key, bytes)
    for wanted in FILTERS:
        CompiledFilter(wanted).wants(raw)
        collector = Collector(wanted, 10)
        collector.add(raw)
        collector.rows(None)
    grouper = Grouper()
    grouper.feed_batch(raw)
    for incident in grouper.incidents():
        for text in (incident.title, incident.ns, incident.note, *incident.samples):
            assert clean(text, 2_000) == text


def test_names_that_act_on_a_terminal_are_made_visible_in_incidents() -> None:
    for ns in ("shop\x1b[2J.x", "shop.\u202ex"):
        db, _, name = ns.partition(".")
        hold(bson.encode({"op": "d", "ns": ns, "o": {"_id": "\x1b]0;x\x07"}}) * 3)
        drop = bson.encode({"op": "c", "ns": f"{db}.$cmd", "o": {"drop": name}, "ts": Timestamp(5, 1)})
        whole = bson.encode({"op": "c", "ns": f"{db}.$cmd", "o": {"dropDatabase": 1}, "ts": Timestamp(5, 2)})
        for backward in (False, True):
            grouper = Grouper()
            for raw in (whole, drop) if backward else (drop, whole):
                grouper.feed_batch(raw)
            (incident,) = grouper.incidents()
            for text in (incident.title, incident.ns, *incident.samples):
                assert clean(text, 2_000) == text


@pytest.mark.long
@quick
@given(ENTRIES)
def test_any_fields_with_any_values(fields: dict[str, Any]) -> None:
    hold(bson.encode(fields))


@quick
@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    hold(raw)


@quick
@given(ENTRIES, st.integers(0, 10**6), st.integers(0, 255), st.booleans())
def test_a_damaged_entry(fields: dict[str, Any], place: int, byte: int, cut: bool) -> None:
    raw = bytearray(bson.encode(fields))
    place %= len(raw)
    raw[place] = byte
    hold(bytes(raw[:place] if cut else raw))


@quick
@given(VALUES)
def test_a_walked_value_equals_the_decoded_value(value: Any) -> None:
    raw = bson.encode({"first": 1, "v": value})
    element = walk.find(raw, b"v")
    assert element is not None
    once = walk.value(raw, element)
    assert repr(once) == repr(walk.decode(raw, 0, len(raw))["v"])


def nested(depth: int) -> bytes:
    raw = b"\x05\0\0\0\0"
    for _ in range(depth):
        raw = struct.pack("<i", len(raw) + 8) + b"\x03o\0" + raw + b"\0"
    return raw


@pytest.mark.parametrize("depth", [300, 20_000])
def test_absurd_depth(depth: int) -> None:
    body = nested(depth)
    hold(struct.pack("<i", len(body) + 16) + b"\x02op\0\x02\0\0\0u\0" + b"\x03o\0" + body + b"\0")


def test_diffs_and_apply_ops_of_absurd_depth() -> None:
    diff: dict[str, Any] = {"u": {"x": 1}}
    command: dict[str, Any] = {"op": "d", "ns": "a.b", "o": {"_id": 1}}
    for _ in range(90):
        diff = {"sx": diff}
        command = {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": [command]}}
    hold(bson.encode({"op": "u", "ns": "a.b", "o": {"$v": 2, "diff": diff}, "o2": {"_id": 1}}))
    hold(bson.encode(command))


@pytest.mark.long
def test_the_largest_documents() -> None:
    hold(
        bson.encode({"op": "i", "ns": "a.b", "o": {"_id": "x" * 8_000_000, "\u202e" * 2_000_000: "\x1b[2J" * 400_000}})
    )
    hold(bson.encode({"op": "u", "ns": "a.b", "o": {"$v": 2, "diff": {"u": {f"k{n}": n for n in range(20_000)}}}}))
    inner = [{"op": "d", "ns": f"a.c{n % 500}", "o": {"_id": n}} for n in range(12_000)]
    hold(bson.encode({"op": "c", "ns": "admin.$cmd", "o": {"applyOps": inner}}))
