"""Entries of every documented format, described, unfolded, and shown whole."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Timestamp

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry import describe, walk
from tallyglass.oplog.entry.batch import position
from tallyglass.oplog.entry.changes import UNKNOWN, changes_of
from tallyglass.oplog.entry.entry import Entry, parse_entry, read_entry
from tallyglass.oplog.entry.json import to_json
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.entry.row import detail, row
from tallyglass.oplog.entry.walk import Malformed, document_end, value_key

UI = Binary(uuid.UUID(int=7).bytes, 4)
WALL = datetime(2026, 11, 20, 18, 6, 14, 250_000, UTC)
LSID = {"id": Binary(uuid.UUID(int=9).bytes, 4), "uid": b"\0" * 32}
FIRST = {"ts": Timestamp(0, 0), "t": Int64(-1)}


def entry(op: str, ns: str, o: dict[str, Any], o2: dict[str, Any] | None = None, **more: Any) -> bytes:
    """An entry as servers since 5.0 order it; ``more`` goes first, as ``lsid`` and ``txnNumber`` do."""
    body = more | {"op": op, "ns": ns, "ui": UI, "o": o} | ({"o2": o2} if o2 else {})
    return bson.encode(body | {"ts": Timestamp(1_000, 5), "t": Int64(3), "v": Int64(2), "wall": WALL})


def apply(*inner: dict[str, Any], flags: dict[str, Any] | None = None, **more: Any) -> bytes:
    return entry("c", "admin.$cmd", {"applyOps": list(inner)} | (flags or {}), **more)


def one(op: str, ns: str, n: int) -> dict[str, Any]:
    return {"op": op, "ns": ns, "ui": UI, "o": {"_id": n}}


def command(o: dict[str, Any]) -> dict[str, Any]:
    return {"op": "c", "ns": "shop.$cmd", "o": o}


TXN = {"lsid": LSID, "txnNumber": Int64(4)}

OID = ObjectId("0123456789abcdef01234567")
TWO_INSERTS = apply(one("i", "b.b", 1), one("i", "a.b", 1))

DESCRIPTIONS = [
    (entry("i", "shop.orders", {"_id": 1, "a": 2, "b": "x"}), 'a: 2, b: "x"', "shop.orders", "1"),
    (entry("i", "shop.orders", {"_id": 2}), "insert", "shop.orders", "2"),
    (
        entry("i", "admin.system.users", {"_id": "shop.ann", "user": "ann", "credentials": {"k": "secret"}}),
        'user: "ann"',
        "admin.system.users",
        "shop.ann",
    ),
    (entry("d", "shop.orders", {"_id": "x"}), "delete", "shop.orders", "x"),
    (entry("u", "shop.orders", {"_id": 1, "z": 1}, {"_id": 1}), "replace", "shop.orders", "1"),
    (
        entry("u", "a.b", {"$v": 2, "diff": {"u": {"f" * 81: 1}, "d": {"g" * 80: False}}}, {"_id": 1}),
        f"update {'f' * 80}…+1: 1, -{'g' * 73}…+7",
        "a.b",
        "1",
    ),
    (entry("u", "a.b", {"$v": 1, "$set": {"n": 5}, "$unset": {"q": True}}, {"_id": 1}), "update n: 5, -q", "a.b", "1"),
    (
        entry("u", "a.b", {"$v": 2, "diff": {"d": {"a": False}, "u": {"n": 8}, "i": {"k": [1, "x"]}}}, {"_id": 1}),
        'update -a, n: 8, +k: [1, "x"]',
        "a.b",
        "1",
    ),
    (
        entry("u", "a.b", {"$v": 2, "diff": {"sl": {"a": True, "l": 2, "u1": 9, "s0": {"u": {"q": 1}}}}}, {"_id": 1}),
        "update l cut to 2, l.1: 9, l.0.q: 1",
        "a.b",
        "1",
    ),
    (
        entry("u", "s.system.buckets.t", {"$v": 2, "diff": {"sdata": {"b": {"x": {"o": 4, "d": b"q"}}}}}, {"_id": 1}),
        "update data.x patched",
        "s.system.buckets.t",
        "1",
    ),
    (entry("c", "shop.$cmd", {"drop": "orders"}, {"numRecords": 951}), "drop (951 documents)", "shop.orders", ""),
    (entry("c", "shop.$cmd", {"dropDatabase": 1}), "dropDatabase", "shop", ""),
    (
        entry("c", "a.$cmd", {"renameCollection": "a.x", "to": "a.y", "dropTarget": UI}, {"numRecords": 3}),
        "rename to a.y, dropping it (3 documents)",
        "a.x",
        "",
    ),
    (entry("c", "a.$cmd", {"renameCollection": "a.x", "to": "b.y", "dropTarget": False}), "rename to b.y", "a.x", ""),
    (entry("c", "a.$cmd", {"create": "v", "viewOn": "w", "pipeline": []}), "create view on w", "a.v", ""),
    (entry("c", "a.$cmd", {"createIndexes": "x", "v": 2, "name": "n_1"}), "createIndexes n_1", "a.x", ""),
    (
        entry("c", "a.$cmd", {"commitIndexBuild": "x", "indexes": [{"name": "p"}, {"name": "q"}]}),
        "commitIndexBuild p, q",
        "a.x",
        "",
    ),
    (entry("c", "a.$cmd", {"collMod": "x", "index": {"name": "n"}}), 'collMod index: {"name": "n"}', "a.x", ""),
    (apply(one("d", "a.b", 1), one("d", "a.b", 2)), "delete of 2", "a.b", ""),
    (apply(one("i", "a.b", 1), one("i", "a.b", 2), **TXN, multiOpType=1), "insert of 2", "a.b", ""),
    (apply(one("i", "a.b", 1), one("d", "a.c", 2), **TXN, prevOpTime=FIRST), "transaction of 2", "a.b +1", ""),
    (apply(one("i", "a.b", 1), **TXN, multiOpType=0), "transaction of 1", "a.b", ""),
    (apply(one("i", "a.b", 1), **TXN, multiOpType=2), "applyOps of 1", "a.b", ""),
    (apply(one("i", "a.b", 1), flags={"partialTxn": True}, **TXN), "part of a transaction: 1", "a.b", ""),
    (apply(one("i", "a.b", 1), flags={"count": Int64(40)}, **TXN), "transaction of 40", "a.b", ""),
    (apply(one("i", "a.b", 1), flags={"prepare": True}, **TXN), "prepared transaction of 1", "a.b", ""),
    (apply(one("i", "a.b", 1), one("d", "a.b", 1)), "applyOps of 2", "a.b", ""),
    (entry("c", "admin.$cmd", {"commitTransaction": 1}, **TXN), "commitTransaction", "admin", ""),
    (entry("c", "a.$cmd", {"inventedCommand": "x", "k": 1}), "inventedCommand k: 1", "a.x", ""),
    (entry("n", "", {"msg": "periodic noop"}), "no-op: periodic noop", "", ""),
    (entry("xi", "a.b", {"k": 1}), 'xi {"k": 1}', "a.b", ""),
    (entry("ci", "admin.$container", {"k": 1}), 'container insert {"k": 1}', "admin.$container", ""),
    (entry("", "a.b", {}), "no operation {}", "a.b", ""),
    (entry("x" * 20, "a.b", {}), f"{'x' * 20} {{}}", "a.b", ""),
    (entry("x" * 21, "a.b", {}), f"{'x' * 20}…+1 {{}}", "a.b", ""),
    (entry("n", "a.b", {"msg": {"moveChunk": "a.b", "x": 1}}), "no-op: moveChunk a.b", "a.b", ""),
    (entry("n", "a.b", {"msg": {"n": 1}}), 'no-op {"msg": {"n": 1}}', "a.b", ""),
    (entry("i", "a.system.views", {"_id": "a.v", "viewOn": "x"}), "define view", "a.system.views", "a.v"),
    (entry("i", "a.system.buckets.t", {"_id": 1, "meta": 2}), "insert time-series bucket", "a.system.buckets.t", "1"),
    (
        entry("i", "a.b", {"_id": 1} | {f"f{n}": n for n in range(9)}),
        "f0: 0, f1: 1, f2: 2, f3: 3, f4: 4, f5: 5",
        "a.b",
        "1",
    ),
    (
        entry("i", "a.b", {"_id": 1, "d": Decimal128("1.50"), "o": OID, "at": WALL, "u": UI, "x": [1]}),
        f"d: 1.50, o: {OID}, at: 2026-11-20T18:06:14.250Z, u: 00000000-0000-0000-0000-000000000007, x: [1]",
        "a.b",
        "1",
    ),
    (entry("c", "a.$cmd", {}), "empty command", "a.$cmd", ""),
    (entry("c", "a.$cmd", {"drop": "x"}, {"numRecords": 0}), "drop (0 documents)", "a.x", ""),
    (entry("c", "a.$cmd", {"dropIdent": "index-1"}), "dropIdent index-1", "a", ""),
    (entry("c", "a.$cmd", {"dropIndexes": "x", "index": "n_1"}), "dropIndexes n_1", "a.x", ""),
    (entry("c", "a.$cmd", {"truncateRange": "a.x", "docsDeleted": 7}), "truncateRange (7 documents)", "a.x", ""),
    (
        entry("c", "a.$cmd", {"importCollection": "a.x", "numRecords": 2_000, "dryRun": True}),
        "importCollection (2,000 documents), a dry run",
        "a.x",
        "",
    ),
    (entry("c", "a.$cmd", {"create": "x", "capped": True, "size": 9}), "create (capped)", "a.x", ""),
    (entry("c", "a.$cmd", {"create": "x", "timeseries": {}}), "create (time-series)", "a.x", ""),
    (entry("c", "a.$cmd", {"create": "x", "clusteredIndex": {}}), "create (clustered)", "a.x", ""),
    (entry("c", "a.$cmd", {"create": "x", "idIndex": {}}), "create", "a.x", ""),
    (
        entry("c", "a.$cmd", {"convertToCapped": "x", **{f"f{n}": n for n in range(9)}}),
        "convertToCapped f0: 0, f1: 1, f2: 2, f3: 3, f4: 4",
        "a.x",
        "",
    ),
    (
        entry("c", "a.$cmd", {"startIndexBuild": "x", "indexes": [{"name": f"i{n}"} for n in range(25)]}),
        f"startIndexBuild {', '.join(f'i{n}' for n in range(20))}",
        "a.x",
        "",
    ),
    (apply(one("d", "a.b", 1), flags={"count": 4}, prevOpTime=FIRST | {"ts": Timestamp(1, 1)}),
     "batched delete of 4, the last 1", "a.b", ""),
    (
        apply(one("d", "a.b", 1), one("i", "a.b", 1), flags={"partialTxn": True}),
        "part of a batched write: 2",
        "a.b",
        "",
    ),
    (apply(*(one("i", ns, 1) for ns in ("b.b", "a.b", "b.a", "b.a"))), "applyOps of 4", "b.a +2", ""),
    (TWO_INSERTS, "applyOps of 2", "a.b +1", ""),
    (apply(), "applyOps of 0", "admin.$cmd", ""),
]  # fmt: skip

EFFECTS: dict[str, tuple[int, bool]] = {
    "delete": (1, True), "drop (951 documents)": (951, True), "dropDatabase": (0, True),
    "rename to a.y, dropping it (3 documents)": (3, True), "delete of 2": (2, True), "insert of 2": (2, False),
    "transaction of 2": (2, True), "applyOps of 2": (2, True), "drop (0 documents)": (0, True),
    "dropIndexes n_1": (0, True), "truncateRange (7 documents)": (7, True),
    "importCollection (2,000 documents), a dry run": (2_000, False), "batched delete of 4, the last 1": (1, True),
    "convertToCapped f0: 0, f1: 1, f2: 2, f3: 3, f4: 4": (0, True), "part of a batched write: 2": (2, True),
    "applyOps of 4": (4, False), "applyOps of 0": (0, False),
}  # fmt: skip
"""How many documents are concerned, and whether data or definitions go away, where that is not one and no. What else is
a command, or none, concerns no document."""


@pytest.mark.parametrize(("raw", "what", "ns", "id_"), DESCRIPTIONS, ids=[case[1][:30] for case in DESCRIPTIONS])
def test_an_entry_is_described(raw: bytes, what: str, ns: str, id_: str) -> None:
    shown = row(raw)
    assert (shown.what, shown.ns, shown.id) == (what, ns, id_)
    assert (shown.ts, shown.term, shown.wall) == (Ts(1_000, 5), 3, WALL)
    applies = shown.op == "c" and "applyOps" not in bson.decode(raw)["o"]
    effect = EFFECTS.get(what, (0 if applies or shown.op == "n" else 1, False))
    if raw == TWO_INSERTS:
        effect = (2, False)
    assert (shown.documents, shown.destructive, shown.size) == (*effect, len(raw))


@pytest.mark.parametrize(
    ("limit", "namespaces"), [(0, []), (1, ["a.a"]), (2, ["a.a", "a.b"]), (9, ["a.a", "a.b", "a.c"])]
)
def test_so_many_operations_of_an_apply_ops_are_counted_by_namespace(limit: int, namespaces: list[str]) -> None:
    inner = [one("i", "a.a", 1), one("d", "a.b", 2), one("i", "a.c", 3)]
    found = describe.summarize_operations(read_entry(apply(*inner)), limit)
    assert (found.count, found.ops, sorted(found.namespaces)) == (3, {"i": 2, "d": 1}, namespaces)
    odd = bson.encode({"op": "c", "ns": "a.$cmd", "o": {"applyOps": [5, {"ns": "a.b", "op": "i"}, inner[0]]}})
    found = describe.summarize_operations(read_entry(odd))
    assert (found.count, found.ops, found.namespaces) == (3, {"i": 1}, {"a.b": 1, "a.a": 1})


EVERYTHING = {
    "o": {"_id": 1}, "o2": {"_id": 2}, "ui": UI, "ts": Timestamp(7, 8), "t": Int64(3), "op": "u", "ns": "a.b",
    "wall": WALL, "lsid": LSID, "txnNumber": Int64(4), "prevOpTime": {"ts": Timestamp(5, 6), "t": Int64(3)},
    "multiOpType": 2, "fromMigrate": True, "needsRetryImage": "preImage",
}  # fmt: skip


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("changed", "fields"),
    [
        ({}, {}), ({"ui": "x"}, {"ui": b""}), ({"ts": 5}, {"ts": ZERO}), ({"t": "x"}, {"term": None}),
        ({"wall": 5}, {"wall_millis": None}), ({"prevOpTime": 5}, {"previous": None}),
        ({"prevOpTime": FIRST}, {"previous": None}), ({"prevOpTime": {"ts": 5}}, {"previous": None}),
        ({"prevOpTime": {}}, {"previous": None}), ({"multiOpType": "x"}, {"multi": 0}),
        ({"fromMigrate": False}, {"from_migrate": False}), ({"fromMigrate": 1}, {"from_migrate": False}),
        ({"needsRetryImage": None, "needsRetryImagE": 1}, {"keeps_image": True}),
        ({"op": 5}, {"op": ""}), ({"ns": 5}, {"ns": ""}), ({"txnNumber": "x"}, {"txn_number": None}),
    ],
)  # fmt: skip
def test_a_field_is_read_in_its_own_type_wherever_it_stands(
    changed: dict[str, Any], fields: dict[str, Any], reverse: bool
) -> None:
    body = [*(EVERYTHING | changed).items()]
    raw = bson.encode(dict(body[::-1] if reverse else body))
    found = parse_entry(raw, 0, len(raw))
    assert (found.o, bson.decode(raw[found.o2_at.start : found.o2_at.end])) == ({"_id": 1}, {"_id": 2})  # type: ignore[union-attr]
    known = {name: getattr(found, name) for name in Entry.__slots__ if name not in ("raw", "o_at", "o2_at")}
    assert known == {
        "size": len(raw), "ts": Ts(7, 8), "term": 3, "op": "u", "ns": "a.b", "wall_millis": WALL.timestamp() * 1_000,
        "session": bson.encode(LSID), "txn_number": 4, "ui": bytes(UI), "previous": Ts(5, 6), "multi": 2,
        "from_migrate": True, "keeps_image": True,
    } | fields  # fmt: skip


def test_what_keeps_an_image_is_known_by_either_name() -> None:
    for more, keeps in (
        ({}, False),
        ({"preImageOpTime": {"ts": Timestamp(1, 1)}}, True),
        ({"needsRetryImage": 1}, True),
    ):
        assert read_entry(entry("u", "a.b", {"_id": 1}, {"_id": 1}, **more)).keeps_image is keeps


def test_changes_that_are_left_out_are_told() -> None:
    two = {"a" * 75: 1, "b" * 76: 1}
    told = f"update {'a' * 75}: 1, {'b' * 76}: 1"
    assert row(entry("u", "a.b", {"$v": 2, "diff": {"u": two}}, {"_id": 1})).what == told
    assert row(entry("u", "a.b", {"$v": 2, "diff": {"u": two | {"c": 1}}}, {"_id": 1})).what == f"{told}, …"
    full = {"a" * 75: 1, "b" * 75: 1, "c": 1}
    assert row(entry("u", "a.b", {"$v": 2, "diff": {"u": full}}, {"_id": 1})).what.endswith("b: 1, …")


@pytest.mark.parametrize(
    ("o", "wanted"),
    [
        ({"_id": 1, "a": 2}, {"": {"_id": 1, "a": 2}}),
        (
            {"$v": 1, "$set": {"a.b.c": 2, "n.0.x": 1, "7": 3}, "$unset": {"c.d": True, "l.1": True}},
            {"a.b.c": 2, "n": UNKNOWN, "7": 3, "c.d": None, "l": UNKNOWN},
        ),
        (
            {
                "$v": 2,
                "diff": {
                    "d": {"c": False},
                    "u": {"a": 2, "7": 3},
                    "i": {"d": 4},
                    "sb": {"u": {"x": 5}},
                    "sn": {"a": True, "l": 2, "u1": 8},
                    "sp": {"sq": {"a": True, "s0": {"d": {"z": False}}}},
                },
            },
            {"c": None, "a": 2, "7": 3, "d": 4, "b.x": 5, "n": UNKNOWN, "p.q": UNKNOWN},
        ),
    ],
    ids=["replacement", "4.4", "diff"],
)
def test_the_values_that_an_update_leaves_are_known_by_path(o: dict[str, Any], wanted: dict[str, Any]) -> None:
    """A change within an array is one of the array, whose value is then not known."""
    left = {b".".join(path).decode(): value for path, value in changes_of(bson.encode(o)).items()}
    assert left == {
        path: value if value in (None, UNKNOWN) else next(iter(walk.values(bson.encode({"": value}))))[1]
        for path, value in wanted.items()
    }


def test_the_oldest_order_of_fields_is_read_too() -> None:
    raw = bson.encode(
        {"ts": Timestamp(9, 1), "t": Int64(1), "h": Int64(0), "v": Int64(2), "op": "i", "ns": "a.b", "o": {"_id": 1}}
    )
    assert row(raw).what == "insert"
    assert row(raw).ts == Ts(9, 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ObjectId("0123456789abcdef01234567"), "0123456789abcdef01234567"),
        ("0123456789abcdef01234567", '"0123456789abcdef01234567"'),
        ("abcdefabcdefabcdefabcdef", '"abcdefabcdefabcdefabcdef"'),
        ("abcdefab-cdef-abcd-efab-cdefabcdefab", '"abcdefab-cdef-abcd-efab-cdefabcdefab"'),
        ("abcdefabcdefabcdefabcdeg", "abcdefabcdefabcdefabcdeg"),
        ("abcdef", "abcdef"),
        ("42", '"42"'),
        (Int64(42), "42"),
        (UI, "00000000-0000-0000-0000-000000000007"),
        ({"a": 1, "b": [True, None]}, '{"a": 1, "b": [true, null]}'),
        ("line\nfeed\x1b", r'"line\nfeed\u001b"'),
    ],
)
def test_the_types_of_ids_can_be_distinguished(value: Any, text: str) -> None:
    assert row(entry("i", "a.b", {"_id": value})).id == text


LATE = {"ts": Timestamp(7, 8), "t": Int64(3), "v": Int64(2), "wall": datetime(2026, 11, 20, tzinfo=UTC)}
FALSE = bson.encode(LATE | {"ts": Timestamp(1, 1)})[4:-1]
PREVIOUS = {"prevOpTime": {"ts": Timestamp(9, 9), "t": Int64(9)}}


@pytest.mark.parametrize(
    ("before", "after"),
    [({}, LATE), ({}, LATE | PREVIOUS), ({}, LATE | {"more": 1}), (LATE, {}), (LATE, {"o2": {"_id": FALSE}}),
     (LATE, {"o2": FALSE}), (LATE | PREVIOUS, {"o2": FALSE})],
    ids=["plain", "session", "more", "4.4", "4.4, nearly alike", "4.4, alike", "4.4 session, alike"],
)  # fmt: skip
def test_the_position_of_an_entry_is_found_wherever_it_stands(before: dict[str, Any], after: dict[str, Any]) -> None:
    body = {"op": "u", "ns": "shop.orders", "ui": UI, "o": {"$v": 2, "diff": {"u": {"name": "x" * 20}}}}
    raw = bson.encode(before | body | after)
    assert position(b"1234" + raw + b"9", 4, 4 + len(raw)) == (Ts(7, 8), 3)


def test_what_removes_data_is_destructive() -> None:
    updates = [{"op": "u", "ns": "shop.orders", "o": {"a": n}, "o2": {"_id": n}} for n in range(5_500)]
    deletes = [one("d", "shop.orders", n) for n in range(5_500)]
    for inner, what, removes in (
        (updates, "applyOps", False), ([*updates, *deletes[:1]], "applyOps", True),
        (deletes, "delete", True), ([*deletes, *updates[:1]], "applyOps", True),
        ([command({"create": "x"})], "applyOps", False), ([command({"drop": "x"})], "applyOps", True),
        ([command({"applyOps": updates[:1]})], "applyOps", False),
        ([command({"applyOps": deletes[:1]})], "applyOps", True),
    ):  # fmt: skip
        shown = row(apply(*inner))
        assert (shown.what, shown.destructive) == (f"{what} of {len(inner):,}", removes)


def test_an_apply_ops_unfolds_with_the_time_of_its_entry() -> None:
    nested = {"op": "c", "ns": "a.$cmd", "o": {"applyOps": [one("d", "a.c", 3)]}}
    found = list(operations_of(read_entry(apply(one("i", "a.b", 1), nested, **TXN))))
    assert [(f.ts, f.op, f.ns, f.o, f.ui) for f in found] == [
        (Ts(1_000, 5), "i", "a.b", {"_id": 1}, bytes(UI)),
        (Ts(1_000, 5), "d", "a.c", {"_id": 3}, bytes(UI)),
    ]
    (update,) = operations_of(read_entry(entry("u", "a.b", {"$v": 2, "diff": {"u": {"n": 1}}}, {"_id": 5})))
    assert (update.document_id, update.o["diff"]) == (5, {"u": {"n": 1}})


def test_the_whole_entry_begins_with_what_it_changes() -> None:
    text = detail(entry("u", "a.b", {"$v": 2, "diff": {"u": {"n": 8}}}, {"_id": 1}))
    assert text.startswith("// n: 8\n{\n")
    assert '"ts": {"$timestamp": {"t": 1000, "i": 5}}' in text


@pytest.mark.parametrize(
    ("op", "o"),
    [
        ("i", {"_id": 1, "credentials": {"SCRAM-SHA-1": {"storedKey": "s3cret"}}}),
        ("u", {"$v": 2, "diff": {"u": {"credentials": {"x": "s3cret"}}}}),
        ("u", {"$v": 2, "diff": {"scredentials": {"u": {"SCRAM-SHA-1": {"storedKey": "s3cret"}}}}}),
        ("u", {"$v": 2, "diff": {"scredentials": {"sSCRAM-SHA-1": {"u": {"storedKey": "s3cret"}}}}}),
        ("u", {"$v": 1, "$set": {"credentials.SCRAM-SHA-1": {"storedKey": "s3cret"}}}),
    ],
    ids=["user", "credentials", "a part", "a part of a part", "a path"],
)
@pytest.mark.parametrize("ns", ["admin.system.users", "admin.system.backup_users", "admin.tempusers"])
def test_credentials_stay_hidden(ns: str, op: str, o: dict[str, Any]) -> None:
    """Also where ``mongorestore`` keeps users until it merges them."""
    change = {"op": op, "ns": ns, "o": o} | ({"o2": {"_id": 1}} if op == "u" else {})
    for shown in (entry(op, ns, o, change.get("o2")), apply(change, **TXN)):
        assert "s3cret" not in detail(shown) + to_json(shown) + row(shown).what


@pytest.mark.parametrize(("ns", "hidden"), [("admin.system.keys", True), ("admin.keys", False), ("shop.keys", False)])
def test_signing_keys_stay_hidden_and_other_keys_do_not(ns: str, hidden: bool) -> None:
    o = {"_id": 1, "key": "s3cret"}
    for shown in (entry("i", ns, o), apply({"op": "i", "ns": ns, "o": o})):
        assert ("s3cret" not in detail(shown) and "s3cret" not in to_json(shown)) is hidden


@pytest.mark.parametrize("id_", [7, Int64(7), 7.0, "7", None, {"a": 7}, ObjectId(bytes(12))])
def test_a_value_is_found_with_its_type_wherever_it_stands(id_: Any) -> None:
    # The driver moves an _id to the front, but not within a field.
    first, later = bson.encode({"_id": id_, "v": 1}), bson.encode({"d": {"v": 1, "_id": id_}})[7:-1]
    wanted = bson.encode({"": id_})
    for raw in (first, later):
        assert value_key(raw, b"_id") == wanted[4:5] + wanted[6:-1]
    assert value_key(first, b"_i") == value_key(first, b"other") == b""


def test_broken_bytes_are_reported_as_broken() -> None:
    for raw in (b"", b"\x05\0\0\0", b"\xff" * 40, entry("i", "a.b", {"_id": 1})[:-3]):
        assert row(raw).what.startswith("not readable")
        assert row(raw).ts == ZERO
        with pytest.raises(Malformed):
            read_entry(raw)
        assert "not readable" in detail(raw)
        assert "$broken" in to_json(raw)


@pytest.mark.parametrize(
    ("session", "middle"), [({}, {}), (TXN, {}), (TXN, {"stmtId": 3})], ids=["plain", "session", "statement"]
)
@pytest.mark.parametrize("op", ["i", "u", "d"])
def test_a_usual_write_is_read_as_any_entry(op: str, session: dict[str, Any], middle: dict[str, Any]) -> None:
    """Whatever byte is wrong, and wherever it is cut."""
    raw = entry(op, "shop.orders", {"_id": 7, "v": "text"}, {"_id": 7} if op == "u" else None, **session)
    if session:
        fields = list((bson.decode(raw) | {"prevOpTime": FIRST}).items())
        raw = bson.encode(dict([*fields[:-5], *middle.items(), *fields[-5:]]))
    broken = [raw[:at] + bytes((raw[at] ^ flip,)) + raw[at + 1 :] for at in range(4, len(raw)) for flip in (1, 0xFF)]
    for read in (raw, *broken, *(raw[:at] for at in range(len(raw)))):
        parsed = or_none(lambda raw: parse_entry(raw, 0, document_end(raw)), read)
        assert or_none(read_entry, read) == parsed, read
        assert or_none(walk.values, read) == or_none(lambda raw: [
            (one.name, (one.type, raw[one.start : one.end])) for one in walk.elements(raw)
        ], read)  # fmt: skip


def or_none(read: Callable[[bytes], Any], raw: bytes) -> Any:
    try:
        return read(raw)
    except Malformed:
        return None
