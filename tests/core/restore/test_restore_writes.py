"""The entries of a batch, as plain writes or as entries: both ways come to the same, whatever form a server wrote."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Binary, Int64, ObjectId, Timestamp

from builders.incidents import incident
from builders.replay import after_point
from tallyglass.moment import Ts
from tallyglass.oplog.entry.batch import BatchWalker
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.backup import StoredCollection
from tallyglass.restore.model.proof import Loss
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.replay import Replay

UI, NEXT = Binary(b"u" * 16, 4), Binary(b"v" * 16, 4)
WALL = datetime(2026, 11, 20, tzinfo=UTC)
SESSION = {"lsid": {"id": Binary(b"s" * 16, 4), "uid": b"h" * 32}, "txnNumber": Int64(3)}
LINK = {"prevOpTime": {"ts": Timestamp(0, 0), "t": Int64(-1)}}
IDS = [1, Int64(2**40), 1.5, "text", ObjectId(), {"a": 1}, b"bytes", None, True]


def row(number: int, op: str, o: dict[str, Any], o2: dict[str, Any] | None, *, session: bool) -> dict[str, Any]:
    """An entry in the order of fields of 5.0 and later."""
    place = {"ts": Timestamp(100 + number, 1), "t": Int64(1), "v": Int64(2), "wall": WALL}
    what = {"op": op, "ns": "s.c", "ui": UI, "o": o} | ({"o2": o2} if o2 is not None else {})
    return (SESSION | what | {"stmtId": 0} | place | LINK) if session else what | place


def usual() -> list[dict[str, Any]]:
    found = []
    for session in (False, True):
        for one in IDS:
            key, n = {"_id": one}, len(found)
            found += [
                row(n, "i", key | {"x": 1}, key, session=session),
                row(n + 1, "u", {"$v": 2, "diff": {"u": {"x": 2}}}, key, session=session),
                row(n + 2, "u", key | {"y": 1}, key, session=session),
                row(n + 3, "d", key, None, session=session),
            ]
    return found


def odd() -> list[dict[str, Any]]:
    """What is parsed: other orders of fields, no UUID, a group, a no-op, an ``_id`` that is not first."""
    key = {"_id": 7}
    return [
        row(0, "i", {"x": 1, "_id": 7}, None, session=False),
        row(1, "u", {"$v": 2, "diff": {}}, {"shard": 1, "_id": 7}, session=False),
        {"ts": Timestamp(102, 1), "t": Int64(1), "h": Int64(1), "v": 2, "op": "i", "ns": "s.c", "ui": UI, "o": key},
        {name: value for name, value in row(3, "i", key, key, session=False).items() if name != "ui"},
        row(4, "c", {"applyOps": [{"op": "i", "ns": "s.c", "ui": UI, "o": key}]}, None, session=False),
        row(5, "n", {"msg": "periodic noop"}, None, session=False),
        {"fromMigrate": True} | row(6, "d", key, None, session=False),
    ]


class Sink:
    """Notes what it is given; ``wants_entries`` refuses every write, so that its entry is fed."""

    def __init__(self, *, wants_entries: bool = False) -> None:
        self.wants_entries, self.found, self.writes = wants_entries, list[tuple[Any, ...]](), 0

    def write(
        self, op: str, ns: str, ui: bytes, key: bytes, place: int, term: int, size: int, batch: bytes, o: int
    ) -> bool:
        if not self.wants_entries:
            document = batch[o : o + int.from_bytes(batch[o : o + 4], "little")]
            self.found.append((op, ns, ui, key, place, term, size, document))
            self.writes += 1
        return not self.wants_entries

    def feed(self, entry: Entry) -> None:
        place = entry.ts.t << 32 | entry.ts.i
        self.found.append((entry.op, entry.ns, entry.ui, entry.id_key, place, entry.term, entry.size, entry.o_raw))


@pytest.mark.parametrize("rows", [usual(), odd(), usual() + odd()], ids=["usual", "odd", "both"])
def test_a_write_is_the_same_as_its_entry(rows: list[dict[str, Any]]) -> None:
    batch = b"".join(map(bson.encode, rows))
    fast, slow = Sink(), Sink(wants_entries=True)
    walker = BatchWalker(fast)
    list(walker.walk(batch))
    list(BatchWalker(slow).walk(batch))
    assert fast.found == slow.found
    last = next(one for one in reversed(rows) if one["op"] != "n")
    assert walker.last == read_entry(bson.encode(last))
    if rows == usual():
        assert fast.writes == len(rows), "none of them is parsed"
    if rows == odd():
        assert fast.writes == 0


@pytest.mark.parametrize("upserts", [True, False])
def test_a_replay_comes_to_the_same_either_way(tmp_path: Path, upserts: bool) -> None:
    data = tmp_path / "c.bson"
    data.write_bytes(b"".join(bson.encode({"_id": one}) for one in IDS[:4]))
    stored = {"s.c": StoredCollection("s.c", "collection", data, {}, (), bytes(UI).hex())}
    rows = [one | {"ts": Timestamp(100 + n, 1)} for n, one in enumerate(usual() + odd())]
    drop = row(0, "c", {"drop": "c"}, {"numRecords": 0}, session=False) | {"ns": "s.$cmd", "ts": Timestamp(500, 1)}
    create = row(0, "c", {"create": "c"}, None, session=False)
    create |= {"ns": "s.$cmd", "ui": NEXT, "ts": Timestamp(501, 1)}
    lacking = row(0, "u", {"$v": 2, "diff": {}}, {"_id": "fresh"}, session=False)
    again = [one | {"ts": Timestamp(600 + n, 1), "ui": NEXT} for n, one in enumerate([lacking, *usual()])]
    batch = b"".join(map(bson.encode, [*rows, drop, create, *again]))
    fast, slow = Replay(stored, upserts=upserts), Replay(stored, upserts=upserts)
    list(BatchWalker(fast).walk(batch))
    for raw in (bson.encode(one) for one in [*rows, drop, create, *again]):
        slow.feed(read_entry(raw))
    for one in (fast, slow):
        assert one.applied > 100
    for name in ("applied", "entries", "bytes", "first", "last", "problems", "kinds", "on_missing_collection"):
        assert getattr(fast, name) == getattr(slow, name), name
    for ns, item in slow.catalog.collections.items():
        other = fast.catalog.collections[ns]
        assert item.touched is not None
        assert other.touched is not None
        assert dict(other.touched.items()) == dict(item.touched.items())
        places = [list(one.update_only()) for one in (other.touched, item.touched)]
        assert places[0] == places[1]
        assert any(found for _, found in places[0]) is not upserts


@pytest.mark.parametrize("whose", [None, incident(1, 130, kind="deleteMany", ns="s.c", op="d", last=Ts(150, 1))])
def test_what_came_after_the_point_is_counted_the_same_either_way(whose: Incident | None) -> None:
    rows = [one | {"ts": Timestamp(100 + n, 1)} for n, one in enumerate(usual() + odd())]
    rows += [
        rows[0] | {"ns": ns, "ts": Timestamp(300 + n, 1)} for n, ns in enumerate(("s.d", "admin.own", "config.own"))
    ]
    fast, slow = (after_point(LossCount(whose)) for _ in range(2))
    assert fast.loss.last is None
    list(BatchWalker(fast).walk(b"".join(map(bson.encode, rows))))
    for one in rows:
        slow.feed(read_entry(bson.encode(one)))
    assert fast.loss.changed == slow.loss.changed
    assert fast.loss.last == slow.loss.last == Ts(302, 1)
    assert fast.loss.losses() == (Loss("s.c", 22, 37, 19, 0), Loss("s.d", 1, 0, 0, 0))
    assert fast.loss.changed["s.c"].by_incident == (2 if whose else 0)
    assert fast.loss.changed["s.c"].numbers == (1, 2**40)


@pytest.mark.parametrize("damage", [b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\x30\0\0\0"])
def test_a_damaged_length_is_an_error_and_no_wrong_write(damage: bytes) -> None:
    raw = bson.encode(usual()[0])
    at = raw.index(b"\x03o\0") + 3
    with pytest.raises(Malformed):
        list(BatchWalker(Sink()).walk(raw[:at] + damage + raw[at + 4 :]))


def test_a_batch_that_is_cut_within_an_entry_is_an_error_wherever_it_is_cut() -> None:
    raw = bson.encode(usual()[0])
    for size in range(1, len(raw)):
        with pytest.raises(Malformed):
            list(BatchWalker(Sink()).walk(raw + raw[:size]))
