"""What stands at fixed places of an entry is what a reader of each field finds, in every form of entry."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import bson
import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Timestamp

from tallyglass.oplog.entry import batch as batches
from tallyglass.oplog.entry import layout
from tallyglass.oplog.entry.batch import BatchWalker, Envelope, Walker
from tallyglass.oplog.entry.entry import Entry, parse_entry, read_entry
from tallyglass.oplog.entry.layout import OP_AT, SESSION_OP_AT
from tallyglass.oplog.entry.walk import Malformed, document_end

UI = Binary(uuid.UUID(int=7).bytes, 4)
WALL = datetime(2026, 11, 20, 18, 6, 14, 250_000, UTC)
SESSION_ID, USER = bytes(range(16)), bytes(range(100, 132))
LSIDS = {
    "": {},
    "user": {"id": Binary(SESSION_ID, 4), "uid": USER},
    "short": {"id": Binary(SESSION_ID, 4)},
    "long": {"id": Binary(SESSION_ID, 4), "uid": USER, "txnUUID": UI},
}
IDS = [1, Int64(2**40 + 1), 1.5, "x", "long" * 30, ObjectId(b"0123456789ab"), WALL, None, True, b"b", {"a": 1}, UI,
       Decimal128("1.5")]  # fmt: skip


def write(op: str, id_: Any, n: int = 0, session: str = "", ns: str = "shop.orders", **middle: Any) -> bytes:
    """A write as servers since 5.0 order it; ``middle`` goes between the documents and ``ts``."""
    o = {"$v": 2, "diff": {"u": {"n": "x" * (n % 3)}}} if op == "u" else {"_id": id_, "v": "text"}
    lsid = {"lsid": LSIDS[session], "txnNumber": Int64(n + 4)} if session else {}
    previous = {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}} if session else {}
    body = lsid | {"op": op, "ns": ns, "ui": UI, "o": o} | ({"o2": {"_id": id_}} if op == "u" else {}) | middle
    wall = WALL + timedelta(milliseconds=n)
    late = {"ts": Timestamp(1_000, n + 300), "t": Int64(3), "v": Int64(2), "wall": wall}
    return bson.encode(body | late | previous)


def oldest(id_: Any) -> bytes:
    """A write as 4.2 ordered it."""
    late = {"ts": Timestamp(1_000, 5), "t": Int64(3), "v": Int64(2), "wall": WALL}
    return bson.encode(late | {"op": "i", "ns": "shop.orders", "ui": UI, "o": {"_id": id_}})


def forms() -> Iterator[tuple[bytes, str]]:
    """Each form of a write, and the name of its session."""
    middles: tuple[dict[str, Any], ...] = ({}, {"stmtId": 3}, {"fromMigrate": True}, {"needsRetryImage": "preImage"})
    for op, id_, session, middle in product("iud", IDS, LSIDS, middles):
        yield write(op, id_, session=session, **middle), session
    for id_ in IDS:
        yield oldest(id_), "4.2"
    for command in ({"drop": "orders"}, {"applyOps": [{"op": "d", "ns": "a.b", "o": {"_id": 1}}]}):
        late = {"ts": Timestamp(9, 1), "t": Int64(1), "v": Int64(2), "wall": WALL}
        yield bson.encode({"op": "c", "ns": "shop.$cmd", "ui": UI, "o": command} | late), "command"


def fields(entry: Entry) -> dict[str, Any]:
    """All that is known of an entry, wherever it stands."""
    found = {name: getattr(entry, name) for name in Entry.__slots__ if name not in ("raw", "o_at", "o2_at")}
    o2 = entry.o2_at
    return found | {"o": entry.o_raw, "o2": o2 and entry.raw[o2.start : o2.end], "id": entry.id_key}


def test_a_value_at_its_place_is_the_one_that_its_field_has() -> None:
    around = b"before", b"after"
    for raw, session in forms():
        wanted, batch = parse_entry(raw, 0, len(raw)), raw.join(around)
        start, end = len(around[0]), len(around[0]) + len(raw)
        assert fields(read_entry(batch, start, end)) == fields(wanted)
        assert batches.position(batch, start, end) == (wanted.ts, wanted.term)
        stamp = (wanted.ts.number, wanted.wall_millis)
        assert batches.time_of(batch, start, end) == stamp
        usual = session in ("", "user")
        assert layout.time_at(batch, start, end) == (None if session == "4.2" else stamp)
        assert layout.ts_of(raw) == (wanted.ts.number if session in ("", "command") else 0)
        at = start + (SESSION_OP_AT if session == "user" else OP_AT)
        known = {b"stmtId", b"ts"} >= {next(names(raw, wanted))} and usual
        o = start + wanted.o_at.start if wanted.o_at else 0
        of_write = (wanted.op, wanted.ns, wanted.ui, wanted.id_key, wanted.ts.number, wanted.term, o)
        assert layout.write_at(batch, at, end) == (of_write if known else None)
        assert layout.op_letter(batch, at) == (wanted.op if usual or session == "command" else "")
        key = layout.op_and_ns(batch, at, end)
        assert key == (raw[at - start :].partition(b"\x05ui")[0] if usual or session == "command" else b"")
        assert layout.op_and_ns(batch[:at] + b"?" + batch[at + 1 :], at, end) == b""
        after = layout.op_after_session(batch, start, end)
        assert after == (end if session in ("", "4.2", "command") else start + raw.index(b"\x02op"))
        moved = b"\x08fromMigrate\0\x01"
        assert layout.is_before_ts(batch, end, moved) is (session == "" and wanted.from_migrate)
        if session in LSIDS and session:
            assert layout.session_in(batch, start) == SESSION_ID == wanted.session_and_user[0]
            assert layout.user_in(batch, start) == wanted.session_and_user[1] == (b"" if session == "short" else USER)


def test_a_usual_write_is_read_by_its_places_alone() -> None:
    """Any other is not; of each, the fields before and after the documents are found where they are."""
    empty = [
        bson.encode(bson.decode(write(op, 1, session=session)) | {"o": {}}) for op in "id" for session in ("", "user")
    ]
    for raw, session in [*forms(), *((raw, "user" if raw[4] == 3 else "") for raw in empty)]:
        wanted, batch, start = parse_entry(raw, 0, len(raw)), b"before" + raw + b"after", 6
        end = start + len(raw)
        usual = session in ("", "user")
        after = next(names(raw, wanted))
        assert wanted.o_at is not None
        o, o_end, last = start + wanted.o_at.start, start + wanted.o_at.end, wanted.o2_at or wanted.o_at
        known = usual and (after == b"ts" or (after == b"stmtId" and session == "user"))
        of_write = (wanted.op, wanted.ns, wanted.ui, o, o_end, start + last.end, wanted.ts.number, wanted.term)
        found = layout.framed_write(batch, start, end, session=session == "user")
        assert found == ((*of_write, wanted.wall_millis) if known else None)
        assert layout.in_retryable_write(batch, start, end) is (session == "user")
        frame = layout.frame(batch, start, end)
        assert (frame is None) is (not usual and session != "command")
        if session == "user":
            assert layout.previous(batch, end) == 0
            assert layout.txn_number(batch, start) == wanted.txn_number
            assert layout.lsid_in(batch, start) == wanted.session
        if frame is None:
            continue
        op, rest, tail, *values = frame
        assert op == start + (SESSION_OP_AT if session else OP_AT) if session != "command" else start + OP_AT
        assert values == [wanted.ts.number, wanted.term, 2, wanted.wall_millis]
        assert batch[rest - 1 : rest + 4] == b"\0\x05ui\0"
        assert batch[tail : tail + 4] == b"\x11ts\0"
        shift = [
            one and one._replace(start=start + one.start, end=start + one.end) for one in (wanted.o_at, wanted.o2_at)
        ]
        assert layout.documents_at(batch, rest, tail) == (wanted.ui, *shift, start + last.end)
        assert layout.after_ui(batch, rest) == rest + 25
        assert layout.after_ui(batch, tail) == tail


@pytest.mark.parametrize(
    "raw", [write("i", 1), write("u", "x", session="user", stmtId=3), write("d", ObjectId(), session="user")]
)
def test_a_damaged_entry_is_read_as_it_is_element_by_element_or_not_at_all(raw: bytes) -> None:
    def read(how: Callable[[bytes], Entry], damaged: bytes) -> dict[str, Any]:
        try:
            return fields(how(damaged))
        except Malformed:
            return {}

    for place, byte in enumerate(raw):
        for other in {0, 1, byte ^ 1, (byte + 7) % 256, 255} - {byte}:
            damaged = raw[:place] + bytes((other,)) + raw[place + 1 :]
            parsed = read(lambda one: parse_entry(one, 0, document_end(one)), damaged)
            assert read(read_entry, damaged) == parsed, (place, other)


def names(raw: bytes, entry: Entry) -> Iterator[bytes]:
    """The names of the fields after the documents."""
    ends = max(one.end for one in (entry.o_at, entry.o2_at) if one)
    yield raw[ends + 1 :].partition(b"\0")[0]


@pytest.mark.parametrize("session", LSIDS)
@pytest.mark.parametrize("op", ["i", "u", "d"])
@pytest.mark.parametrize("count", [1, 2, 60])
def test_the_values_of_many_entries_are_those_of_each(op: str, session: str, count: int) -> None:
    for raws in (
        [write(op, n, n, session) for n in range(count)],
        [write(op, n, n, session, **{"needsRetryImage": "preImage"} if n % 5 == 4 else {}) for n in range(count)],
        [*(write(op, n, n, session) for n in range(count)), write(op, "x", 70, "" if session else "user")],
        [write(op, 1, 0, session), *(oldest(n) for n in range(count))],
    ):  # fmt: skip
        batch = b"".join(raws)
        bounds = [(sum(map(len, raws[:n])), sum(map(len, raws[: n + 1]))) for n in range(len(raws))]
        starts, ends = [start for start, _ in bounds], [end for _, end in bounds]
        wanted = [read_entry(raw) for raw in raws]
        alike = len({(bool(one.session), one.raw[4]) for one in wanted}) == 1
        stamps = [(one.ts.number, one.wall_millis) for one in wanted]
        if alike or session == "":
            found = batches.times(batch, starts, ends, session=bool(session))
            assert [*zip(*found, strict=True)] == stamps
        if alike and session:
            op_at = SESSION_OP_AT if session == "user" else 0
            of_each = [(SESSION_ID, one.txn_number) for one in wanted]
            assert [*zip(*batches.sessions(batch, starts, ends, op_at=op_at), strict=True)] == of_each
        if alike and not session and raws[-1][4] == 2:
            lowest = bytes(one.ts.i % 256 for one in wanted)
            assert layout.counters(batch, ends) in (lowest, b"")
        groups = Walker(lambda op, ns, session: 1).gather(batch)
        assert sum(batches.counted(groups).values()) == len(raws)
        assert batches.chosen(Walker(lambda op, ns, session: 0).gather(batch)) == []
        assert batches.chosen(groups) == [
            (start, end, Envelope(one.op, one.ns, bool(one.session), 1))
            for (start, end), one in zip(bounds, wanted, strict=True)
        ]


def test_the_lowest_bytes_of_times_are_a_column_of_entries_of_the_usual_form_alone() -> None:
    plain, session = [write("d", n, n) for n in range(40)], [write("d", n, n, "user") for n in range(3)]
    for raws, known in (
        (plain, True), (plain[:1], True), (plain[:2], True), ([write("d", "x" * n, n) for n in range(9)], True),
        ([*plain, *session], False), ([*session, *plain], False), (session, False),
    ):  # fmt: skip
        ends = [sum(map(len, raws[: n + 1])) for n in range(len(raws))]
        lowest = bytes(read_entry(raw).ts.i % 256 for raw in raws)
        assert layout.counters(b"".join(raws), ends) == (lowest if known else b"")
    assert layout.counters(plain[0][-40:], [40]) == b""


@pytest.mark.parametrize("session", ["", "user"])
@pytest.mark.parametrize(
    "ids",
    [
        [*range(256)], [Int64(2**33 + n) for n in range(256)],
        [ObjectId(b"0123456789a" + bytes((n,))) for n in range(256)],
        [1.5, 2.5, 3.5], ["a", "b", "long" * 40], [{"a": 1}, {"a": 2}], [1, "a", Int64(5), 1.5],
    ],
    ids=["int32", "int64", "ObjectId", "double", "text", "document", "mixed"],
)  # fmt: skip
def test_the_documents_of_updates_are_told_apart_the_same_in_any_batch(ids: list[Any], session: str) -> None:
    known: list[tuple[list[bytes], bytes]] = []
    for shift, middles in ((0, [{}]), (1, [{}]), (2, [{"stmtId": 1}]), (0, [{}, {"stmtId": 2}])):
        raws = [write("u", id_, n + shift, session, **middles[n % len(middles)]) for n, id_ in enumerate(ids)]
        starts = [sum(map(len, raws[:n])) for n in range(len(raws))]
        ends = [start + len(raw) for start, raw in zip(starts, raws, strict=True)]
        found = layout.updated_documents(b"".join(raws), starts, ends, session=bool(session))
        assert found is not None
        fixed = len({type(id_) for id_ in ids}) == 1 and not isinstance(ids[0], (str, dict))
        usual = all(("stmtId" in middle) is bool(session) for middle in middles)
        assert (found.begins == ()) is (fixed and usual), "at one distance from the end of each"
        places = range(len(ids))
        assert len(set(found.keys(places))) == len(ids)
        assert found.keys([0, len(ids) - 1]) == [found.keys(places)[0], found.keys(places)[-1]]
        known.append((found.keys(places), found.chosen()))
    if len(ids) == 256:
        assert {sum(chosen) for _, chosen in known} == {16}
    assert all(one == known[0] for one in known)


def test_of_other_updates_the_documents_are_not_known_by_their_place() -> None:
    for raw in (write("d", 1), write("u", 1, session="short"), oldest(1)):
        assert layout.updated_documents(raw, [0], [len(raw)]) is None
    one, other = write("u", "a"), write("u", "a").replace(b"\x03o2\0", b"\x03o3\0")
    for raws in ((one, other), (other, one)):
        ends = [len(raws[0]), len(one + other)]
        assert layout.updated_documents(b"".join(raws), [0, ends[0]], ends) is None


class Kept:
    """A sink that handles writes of one namespace and keeps all it is given."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def write(self, *values: Any) -> bool:
        if values[1] == "shop.kept":
            self.found.append(values[:7])
        return values[1] == "shop.kept"

    def feed(self, entry: Entry) -> None:
        self.found.append(fields(entry))


def test_each_entry_of_a_batch_reaches_the_sink_as_values_or_parsed() -> None:
    noop = bson.encode(
        {"op": "n", "ns": "", "o": {}, "ts": Timestamp(2_000, 1), "t": Int64(3), "v": Int64(2), "wall": WALL}
    )
    raws = (
        [raw for raw, _ in forms()] + [write("i", n, n, "user" * (n % 2), "shop.kept") for n in range(1_500)] + [noop]
    )
    sink, batch = Kept(), b"".join(raws)
    walker = BatchWalker(sink)
    assert walker.last is None
    pauses = sum(1 for _ in walker.walk(batch))
    wanted: list[Any] = []
    for entry in map(read_entry, raws):
        known = (entry.op, entry.ns, entry.ui, entry.id_key, entry.ts.number, entry.term, entry.size)
        wanted.append(known if entry.ns == "shop.kept" else fields(entry))
    assert sink.found == wanted
    assert (walker.entries, walker.parsed) == (len(raws), len(raws) - 1_500)
    assert walker.last is not None
    assert fields(walker.last) == fields(read_entry(raws[-2]))
    assert pauses == (8 * (len(raws) - 1_500) + 1_500) // batches.PAUSE_ENTRIES
    assert batches.last_start(batch) == len(batch) - len(noop)
    assert batches.last_ts(batch) == read_entry(noop).ts
