"""A saved oplog: slices join or a hole is named, and joined with the live oplog it answers as one oplog would."""

from __future__ import annotations

import fcntl
import gzip
import io
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock

import bson
import pytest
from bson import Binary, Timestamp

from tallyglass.errors import InputError, ReadError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import OPLOG, Gateway
from tallyglass.oplog.entry import walk
from tallyglass.restore.backup.backup import Contents
from tallyglass.restore.catalogue import usable_backup
from tallyglass.restore.catalogue.backups import why_not
from tallyglass.restore.drill.point import point
from tallyglass.restore.drill.request import DrillRequest, DrillRun
from tallyglass.restore.drill.result import begun
from tallyglass.restore.drill.stopped import Failed
from tallyglass.restore.model.proof import Slice
from tallyglass.restore.model.source import Backup
from tallyglass.restore.saved_oplog import slice_file
from tallyglass.restore.saved_oplog.cut import cut
from tallyglass.restore.saved_oplog.dumped import check_dumped
from tallyglass.restore.saved_oplog.joined import Join, JoinedOplog, Saved, _bounds, join, only_saved, open_joined
from tallyglass.restore.saved_oplog.save import SavedSlice, save_slice
from tallyglass.restore.saved_oplog.saved_oplog import Hole, _is_old, read_saved
from tallyglass.restore.saved_oplog.slice_names import NamedSpan, is_slice, span

A, B = bytes(15) + b"a", bytes(15) + b"b"


def entry(n: int, filler: int = 40, **more: Any) -> bytes:
    ns, ui = (("d.a", A), ("d.b", B), ("d.old", A))[n % 3]
    head = {"op": "i", "ns": ns, "ui": Binary(ui, 4), "o": {"_id": n, "x": "x" * filler}}
    return bson.encode({**head, **more, "ts": Timestamp(100 + n // 4, n % 4 + 1), "t": 1})


WHOLE = [entry(n) for n in range(40)]
NUMBER = {raw: n for n, raw in enumerate(WHOLE)}


def ts(n: int) -> Ts:
    return Ts(100 + n // 4, n % 4 + 1)


def stamp(n: int) -> Timestamp:
    return Timestamp(*ts(n))


class Server:
    """A set whose oplog is a list; it understands the queries that are used here."""

    set_id = "1"

    def __init__(self, rows: list[bytes]) -> None:
        self.rows = rows

    async def find_one(self, *_: Any, **__: Any) -> Mapping[str, Any]:
        return {"settings": {"replicaSetId": self.set_id}}

    async def command(self, name: str, *_: Any, **__: Any) -> Mapping[str, Any]:
        newest = bson.decode(self.rows[-1])["ts"]
        if name == "hello":
            return {"setName": "rs", "me": "h:1", "lastWrite": {"majorityOpTime": {"ts": newest}}}
        return {"version": "6.0.5"}

    async def find_raw(
        self, _: object, query: Mapping[str, Any], *, sort: Any = (), limit: int = 0, **__: Any
    ) -> AsyncIterator[bytes]:
        found = [raw for raw in self.rows if matches(bson.decode(raw), query)]
        assert not sort or sort[0][1] in (1, -1), "a server knows no other order"
        found = found[::-1] if sort and sort[0][1] < 0 else found
        found = found[:limit] if limit else found
        for at in range(0, len(found), 3):
            yield b"".join(found[at : at + 3])


def matches(row: Mapping[str, Any], query: Mapping[str, Any]) -> bool:
    for name, value in query.items():
        if name == "$or":
            good = any(matches(row, one) for one in value)
        elif isinstance(value, Mapping):
            tests = {"$gte": "__ge__", "$gt": "__gt__", "$lte": "__le__", "$lt": "__lt__"}
            good = all(
                row[name] in one if op == "$in" else getattr(row[name], tests[op])(one) for op, one in value.items()
            )
        else:
            good = row[name] == value
        if not good:
            return False
    return True


def write(folder: Path, name: str, rows: list[bytes]) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(b"".join(rows)) if name.endswith(".gz") else b"".join(rows))
    return path


@pytest.fixture
def slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(slice_file, "_BLOCK", 400)
    (tmp_path / "local").mkdir()
    write(tmp_path / "local", "oplog.rs.bson", WHOLE[5:16])
    write(tmp_path, "oplog-2.bson.gz", WHOLE[15:26])
    write(tmp_path, "oplog-3.bson", WHOLE[18:24])
    return tmp_path


async def read(gateway: Gateway, query: Mapping[str, Any], **how: Any) -> list[int]:
    found = [b async for b in gateway.find_raw(OPLOG, query, **how)]
    return [NUMBER[batch[at:end]] for batch in found for at, end in walk.split(batch)]


BOUNDS: list[Any] = [
    {}, {"ts": stamp(12)}, {"ts": stamp(25)}, {"ts": stamp(31)}, {"ts": {"$gte": stamp(7), "$lt": stamp(22)}},
    {"ts": {"$gt": stamp(25)}}, {"ts": {"$gte": stamp(25), "$lte": stamp(30)}}, {"ts": {"$lt": stamp(15)}},
    {"ts": {"$lte": stamp(28)}}, {"ts": {"$gte": stamp(20)}}, {"ts": {"$lt": stamp(3)}},
]  # fmt: skip
OTHERS: list[Any] = [{}, {"ns": {"$in": ["d.b"]}}, {"$or": [{"ns": {"$in": ["d.b"]}}, {"ui": {"$in": [Binary(A, 4)]}}]}]


async def test_slices_and_server_answer_as_one_oplog(slices: Path) -> None:
    joined, found = await join(cast("Gateway", Server(WHOLE[20:])), read_saved([slices]))
    assert found.holds
    one = cast("Gateway", Server(WHOLE[5:]))
    for bounds in BOUNDS:
        for other in OTHERS:
            for how in ({}, {"limit": 1}, {"limit": 9}, {"sort": [("$natural", -1)]},
                        {"sort": [("$natural", -1)], "limit": 12}):  # fmt: skip
                query = {**bounds, **other}
                assert await read(joined, query, **how) == await read(one, query, **how), (query, how)


async def test_the_server_must_hold_what_comes_after_the_saved_entries(
    slices: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = AsyncMock(return_value=3.5)
    monkeypatch.setattr("tallyglass.restore.saved_oplog.joined.hours_left", ask)
    oplog: Any = (await join(cast("Gateway", server := Server(WHOLE[20:])), read_saved([slices])))[0]
    assert [await oplog.hours_left(ts(n)) for n in (6, 25, 26)] == [None, None, 3.5]
    ask.assert_awaited_once_with(server, ts(25))


async def test_saved_entries_are_not_read_from_the_server(slices: Path) -> None:
    server = Server(WHOLE[20:])
    joined, _ = await join(cast("Gateway", server), read_saved([slices]))
    server.rows = []
    assert await read(joined, {"ts": {"$gte": stamp(6), "$lte": stamp(25)}}) == list(range(6, 26))
    whole = Saved((), read_saved([slices]), Join())
    assert (whole.holds(ts(25)), whole.holds(ts(26)), whole.hole) == (True, False, None)
    assert await read(only_saved(whole.oplog), {}) == list(range(5, 26)), "nor where there is none"


async def test_a_hole_is_named(slices: Path) -> None:
    write(slices, "oplog-4.bson", WHOLE[26:30])
    saved = read_saved([slices], ts(6))
    assert (saved.first, saved.last, str(saved.hole)) == (ts(5), ts(25), f"between {ts(25)} and {ts(26)}")
    assert read_saved([slices], ts(27)).first == ts(26), "the slices that reach the start are taken"
    joined, found = await join(cast("Gateway", Server(WHOLE[20:])), saved)
    assert found.holds, "the server holds what the slices lack"
    assert await read(joined, {}) == list(range(5, 40))
    apart, found = await join(cast("Gateway", Server(WHOLE[35:])), saved)
    assert str(found.hole) == f"between {ts(25)} and {ts(26)}"
    assert await read(apart, {}) == list(range(5, 26)), "nothing after a hole"
    with pytest.raises(ReadError, match=f"between {ts(25)}"):
        await open_joined(cast("Gateway", Server(WHOLE[35:])), [slices], ts(6))


async def test_another_history_is_refused(slices: Path) -> None:
    other = [*WHOLE[20:25], entry(25, filler=41), *WHOLE[26:]]
    _, found = await join(cast("Gateway", Server(other)), read_saved([slices]))
    assert found.differs == f"the live oplog has another entry at {ts(25)} than the saved one"
    with pytest.raises(ReadError, match="has another entry at"):
        await open_joined(cast("Gateway", Server(other)), [slices], ts(6))
    without, found = await join(cast("Gateway", Server([*WHOLE[20:25], *WHOLE[26:]])), read_saved([slices]))
    assert found.differs == f"the live oplog has no entry {ts(25)}, the newest saved one"
    assert await read(without, {}) == list(range(5, 26)), "nothing of another oplog"
    behind, found = await join(cast("Gateway", Server(WHOLE[:22])), read_saved([slices]))
    assert (found.holds, (await read(behind, {}))[-1]) == (True, 25), "a member that is behind continues nothing"
    write(slices, "oplog-4.bson", other[5:])
    assert read_saved([slices]).differs == f"oplog-2.bson.gz and oplog-4.bson do not hold the same entry at {ts(25)}"


@pytest.mark.parametrize(
    ("live", "why"),
    [
        (WHOLE[20:], ""),
        (WHOLE[35:], f"entries are missing between {ts(25)} and {ts(35)}"),
        ([*WHOLE[20:25], *WHOLE[26:]], f"the live oplog has no entry {ts(25)}, the newest saved one"),
    ],
)
async def test_a_backup_is_continued_by_its_own_slices_if_the_live_oplog_joins_them(
    slices: Path, live: list[bytes], why: str
) -> None:
    contents = Contents(Backup(slices, "directory", False, ts(8), ts(9), "sidecar"), oplog=slices)
    found = await why_not(cast("Gateway", Server(live)), contents, None)
    assert found == (f"The live oplog does not continue its slices: {why}." if why else "")


async def test_a_server_that_overwrites_the_seam_meanwhile_is_noticed(slices: Path) -> None:
    server = Server(WHOLE[20:])
    joined, _ = await join(cast("Gateway", server), read_saved([slices]))
    server.rows = WHOLE[30:]
    for first in (6, 25):
        with pytest.raises(ReadError, match="no longer holds"):
            await read(joined, {"ts": {"$gte": stamp(first)}})
    assert isinstance(joined, JoinedOplog)
    with pytest.raises(ReadError, match="no longer holds"):
        await joined.prove()


def test_a_torn_slice_counts_as_far_as_it_is_whole(slices: Path) -> None:
    path = slices / "local" / "oplog.rs.bson"
    path.write_bytes(path.read_bytes()[:-1])
    saved = read_saved([slices], ts(6))
    assert (saved.last, saved.hole and saved.hole.until) == (ts(14), ts(15))
    assert saved.problems == (f"{path}: it ends within an entry",)
    for entries in ([], WHOLE[5:8]):
        (slices / "notes.bson").write_bytes(b"".join([*entries, bson.encode({"no": "oplog"})]))
        with pytest.raises(InputError, match="holds no oplog"):
            read_saved([slices / "notes.bson"])


@pytest.mark.parametrize(
    ("rows", "held", "at"),
    [
        ([*range(5), 9, 8], 6, 6),
        ([*range(5), 3, 5, 6], 5, 5),
        ([*range(4), 3, 4, 5], 4, 4),
        ([1, 0], 0, 0),
        ([*range(6)], 6, None),
    ],
)
def test_a_slice_that_is_not_in_order_counts_as_far_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[int], held: int, at: int | None
) -> None:
    """Blocks of one entry, or of two where nothing is in order: the others of a folder are read all the same."""
    size = len(WHOLE[0])
    assert {len(one) for one in WHOLE[::3]} == {size}
    monkeypatch.setattr(slice_file, "_BLOCK", size if at != 0 else 2 * size)
    path = write(tmp_path, "oplog-1.bson", [WHOLE[3 * n] for n in rows])
    told = "" if at is None else f"its entries are not in order at byte {at * size}"
    found = slice_file.read_slice(path)
    assert found is not None
    assert (len(found.blocks), found.problem) == (held, told)
    if held:
        assert read_saved([path]).last == ts(3 * rows[held - 1])
    else:
        with pytest.raises(InputError, match=re.escape(f"There is no saved oplog in {path}. {path}: {told}.")):
            read_saved([path])


@pytest.mark.parametrize("size", range(4, 80))
def test_a_slice_that_is_read_in_pieces_is_whole(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """After the length comes the type of the first field, which may be any."""
    monkeypatch.setattr(slice_file, "_BLOCK", size)
    rows = [bson.encode({"ts": Timestamp(n, 1), "o": "x" * 7}) for n in range(4)]
    blocks = list(slice_file._whole_blocks(io.BytesIO(b"".join(rows))))
    assert b"".join(block for _, block, _ in blocks) == b"".join(rows)
    assert [at for at, *_ in blocks] == [sum(len(one[1]) for one in blocks[:n]) for n in range(len(blocks))]
    assert all(block[last:] in rows for _, block, last in blocks)


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("name", ["oplog.bson", "oplog.bson.gz"])
async def test_a_slice_that_is_cut_off_after_it_was_visited_is_no_shorter_oplog(
    tmp_path: Path, name: str, order: int
) -> None:
    saved = read_saved([write(tmp_path, name, WHOLE[5:16])])
    write(tmp_path, name, WHOLE[5:8])
    joined = cast("Gateway", JoinedOplog(cast("Gateway", Server([])), saved, follows=False))
    with pytest.raises(ReadError, match=f"{name} became shorter"):
        await read(joined, {}, sort=[("$natural", order)])


@pytest.mark.parametrize(("whole", "problem"), [(10, f"it holds no entry after {ts(9)}"), (0, "it holds no entry")])
async def test_a_damaged_slice_is_named_and_stops_neither_reading_nor_saving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: int, problem: str
) -> None:
    """A flipped bit of a gzip file may first show as other bytes, which are no entries."""
    monkeypatch.setattr(slice_file, "_BLOCK", len(WHOLE[9]))
    for rows in (WHOLE[:8], WHOLE[:10], WHOLE[:12]):
        newest = (await save_slice(cast("Gateway", Server(rows)), tmp_path, 1_000)).path
    assert newest is not None
    write(tmp_path, newest.name, [*WHOLE[9:whole], bson.encode({"no": "oplog"})])
    found = read_saved([tmp_path])
    assert (found.last, found.problems) == (ts(9), (f"{newest}: {problem}",))
    assert (await save_slice(cast("Gateway", Server(WHOLE[:14])), tmp_path, 1_000)).last == ts(13)
    repaired = read_saved([tmp_path])
    assert (repaired.last, repaired.hole) == (ts(13), None)


async def test_slices_join_by_construction(tmp_path: Path) -> None:
    folder = tmp_path / "kept"

    async def save(server: Server, keep: float = 1_000) -> Any:
        return await save_slice(cast("Gateway", server), folder, keep)

    first = await save(Server(WHOLE[:10]), keep=1)
    assert (first.entries, first.last) == (6, ts(9)), "the first slice reaches back as far as slices are kept"
    assert (await save(Server(WHOLE[:10]))).path is None
    second = await save(Server(WHOLE[8:20]))
    assert (second.entries, second.hole) == (11, None), "it begins with the last entry of the one before"
    assert {path.stat().st_mode & 0o777 for path in folder.glob("oplog-*")} == {0o600}
    assert read_saved([folder]).hole is None
    third = await save(Server(WHOLE[25:]), keep=5)
    assert (str(third.hole), [path.name for path in third.removed]) == (
        f"between {ts(19)} and {ts(25)}", [first.path.name]
    )  # fmt: skip
    assert read_saved([folder], ts(10)).hole == third.hole
    other = Server(WHOLE)
    other.set_id = "2"
    kept = sorted(folder.iterdir())
    with pytest.raises(InputError, match="slices of another set"):
        await save(other)
    assert sorted(folder.iterdir()) == kept
    with (folder / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="Another run"):
            await save(Server(WHOLE))
    for damaged in ("{", "[]", '{"set": "rs0"}'):
        (folder / ".set.json").write_text(damaged)
        with pytest.raises(InputError, match=r"set\.json cannot be read"):
            await save(Server(WHOLE))


async def test_all_that_is_told_of_a_saved_slice(tmp_path: Path) -> None:
    async def save(rows: list[bytes], keep: float = 1_000) -> SavedSlice:
        return await save_slice(cast("Gateway", Server(rows)), tmp_path, keep)

    def path(first: int, last: int) -> Path:
        return tmp_path / f"oplog-{ts(first).t}_{ts(first).i}-{ts(last).t}_{ts(last).i}.bson.gz"

    def size(first: int, last: int) -> int:
        assert gzip.decompress(path(first, last).read_bytes()) == b"".join(WHOLE[first : last + 1])
        return path(first, last).stat().st_size

    def there() -> set[Path]:
        return {one for one in tmp_path.iterdir() if not one.name.startswith(".")}

    assert await save(WHOLE[:1]) == SavedSlice(path(0, 0), ts(0), 1, size(0, 0))
    assert await save(WHOLE[:1]) == SavedSlice(None, ts(0))
    assert await save(WHOLE[:8]) == SavedSlice(path(0, 7), ts(7), 8, size(0, 7))
    assert await save(WHOLE[7:12]) == SavedSlice(path(7, 11), ts(11), 5, size(7, 11))
    hole = Hole(ts(11), ts(12))
    assert await save(WHOLE[12:20]) == SavedSlice(path(12, 19), ts(19), 8, size(12, 19), hole)
    kept = ts(27).t - ts(11).t
    last = await save(WHOLE[19:28], kept)
    assert last == SavedSlice(path(19, 27), ts(27), 9, size(19, 27), removed=(path(0, 0), path(0, 7)))
    other = [*WHOLE[20:27], entry(27, filler=41), *WHOLE[28:30]]
    differs = f"the server has no such entry {ts(27)} as {path(19, 27).name} ends with"
    found = await save(other)
    assert replace(found, bytes=0) == SavedSlice(path(20, 29), ts(29), 10, differs=differs)
    assert there() == {path(7, 11), path(12, 19), path(19, 27), path(20, 29)}


class Ahead(Server):
    """A member that holds more than it knows a majority to have."""

    def __init__(self, rows: list[bytes], majority: int) -> None:
        super().__init__(rows)
        self.majority = majority

    async def command(self, name: str, *_: Any, **__: Any) -> Mapping[str, Any]:
        ends = {"lastWrite": {"majorityOpTime": {"ts": stamp(self.majority)}}}
        return await Server(WHOLE).command(name) | (ends if name == "hello" else {})


async def test_a_member_that_lags_behind_the_slices_has_nothing_new(tmp_path: Path) -> None:
    async def save(server: Server) -> Any:
        return await save_slice(cast("Gateway", server), tmp_path, 1_000)

    await save(Server(WHOLE[:20]))
    for lagging in (Server(WHOLE[:15]), Ahead(WHOLE[:22], 14)):
        found = await save(lagging)
        assert (found.path, found.last, found.hole, found.differs) == (None, ts(19), None, "")
    other = await save(Server([*WHOLE[:14], entry(14, filler=41)]))
    assert "has no such entry" in other.differs, "a set that was set back has another history"


async def test_a_drill_takes_a_backup_that_only_the_saved_oplog_continues(tmp_path: Path) -> None:
    rows = [entry(n) for n in range(80)]
    backup, slices = tmp_path / "all" / "monday", write(tmp_path, "oplog-1.bson", rows[:60])
    (backup / "d").mkdir(parents=True)
    write(backup / "d", "a.bson", [bson.encode({"_id": 1})])
    (backup / "d" / "a.metadata.json").write_text('{"indexes": [], "type": "collection", "collectionName": "a"}')
    write(backup, "oplog.bson", rows[48:50])
    request = DrillRequest(backup.parent, "", tmp_path, None, (), to=ts(70))

    async def chosen(request: DrillRequest) -> Path:
        gateway = cast("Gateway", Server(rows[55:]))
        return (await point(DrillRun(gateway, request, lambda _: None, begun(request))))[0]

    with pytest.raises(Failed, match="cannot be continued"):
        await chosen(request)
    assert await chosen(replace(request, oplog=slices)) == backup


@pytest.mark.parametrize(("source", "exact"), [("note", True), ("sidecar", True), ("oplog", False)])
async def test_documents_are_carried_from_where_a_backup_is_continued(
    source: str, exact: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a backup holds all before its start, the oplog is needed from there on, not from some seconds before."""
    held = Contents(Backup(Path("/b"), "directory", False, ts(4), ts(6), source))
    monkeypatch.setattr(usable_backup, "read_backup", lambda *_: held)
    server = cast("Gateway", Server(WHOLE))
    if exact:
        assert (await usable_backup.usable_backup(server, Path("/b"), ts(20))).start == ts(4)
    else:
        with pytest.raises(InputError, match="does not reach back"):
            await usable_backup.usable_backup(server, Path("/b"), ts(20))


@pytest.mark.parametrize(
    ("end", "limit", "start", "why"),
    [
        (ts(6), ts(20), ts(4), ""),
        (ts(6), ts(7), ts(4), ""),
        (ts(6), ts(6), ts(4), f"It ended at {ts(6)}, which is not before {ts(6)}."),
        (None, ts(5), ts(4), ""),
        (None, ts(4), ts(4), f"It ended at {ts(4)}, which is not before {ts(4)}."),
        (None, ts(4), None, "It does not record when it began. mongodump --oplog records that."),
    ],
)
async def test_a_backup_can_be_used_up_to_a_point_after_its_end(
    monkeypatch: pytest.MonkeyPatch, end: Ts | None, limit: Ts, start: Ts | None, why: str
) -> None:
    held = Contents(Backup(Path("/b"), "directory", False, start, end, "note"))
    monkeypatch.setattr(usable_backup, "read_backup", lambda *_: held)
    server = cast("Gateway", Server(WHOLE))
    if why:
        with pytest.raises(InputError) as error:
            await usable_backup.usable_backup(server, Path("/b"), limit)
        assert error.value.title == f"/b: {why}"
    else:
        found = await usable_backup.usable_backup(server, Path("/b"), limit)
        assert found == usable_backup.UsableBackup(held, ts(4))


def test_the_window_is_cut_out_of_the_slices(slices: Path) -> None:
    def of(n: int) -> dict[str, Any]:
        return {"$timestamp": {"t": ts(n).t, "i": ts(n).i}}

    query, out = slices / "query.json", slices / "cut" / "oplog.bson"
    query.write_text(json.dumps({"ts": {"$gte": of(7), "$lte": of(24), "$nin": [of(10)]}, "ns": {}}))
    assert cut(query, [slices], out) == 17
    assert out.read_bytes() == b"".join(WHOLE[n] for n in range(7, 25) if n != 10)
    query.write_text(json.dumps({"ts": {"$gte": of(7), "$lte": of(27)}}))
    with pytest.raises(InputError, match=f"after {ts(25)}"):
        cut(query, [slices], out)


@pytest.mark.parametrize(
    ("proven", "why"),
    [
        (Slice(40, ts(0), ts(39), 0), ""),
        (Slice(41, ts(0), ts(39), 0), f"The dump holds 40 entries from {ts(0)} to {ts(39)}; 41 entries from"),
        (Slice(40, ts(1), ts(39), 0), f"40 entries from {ts(1)} to {ts(39)} should be there, as proven."),
        (Slice(40, ts(0), ts(40), 0), f"40 entries from {ts(0)} to {ts(40)} should be there, as proven."),
    ],
)
def test_a_dump_must_hold_the_entries_that_were_proven(tmp_path: Path, proven: Slice, why: str) -> None:
    (tmp_path / "whole").write_bytes(b"".join(WHOLE))
    with raised(why):
        check_dumped(tmp_path / "whole", proven)


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (b"", f"The dump holds nothing; 1 entry from {ts(0)} to {ts(0)} should be there, as proven."),
        (entry(0, odd={"$oid": "x", "$date": 1}), ""),
        (WHOLE[0][:-1], "not what mongodump writes of an oplog: dump is damaged"),
        (bson.encode({"x": 1}), "not what mongodump writes of an oplog: an oplog entry has no timestamp"),
    ],
)
def test_a_dump_of_one_entry(tmp_path: Path, held: bytes, why: str) -> None:
    """bsondump stops at fields that are called as Extended JSON calls its types."""
    (tmp_path / "dump").write_bytes(held)
    with raised(why):
        check_dumped(tmp_path / "dump", Slice(1, ts(0), ts(0), 0))


def raised(why: str) -> AbstractContextManager[object]:
    return pytest.raises(InputError, match=re.escape(why)) if why else nullcontext()


async def test_an_oplog_of_which_a_majority_has_nothing_is_not_saved(tmp_path: Path) -> None:
    for rows in (WHOLE[11:], []):
        with pytest.raises(ReadError, match="no entry that a majority"):
            await save_slice(cast("Gateway", Ahead(rows, 10)), tmp_path, 1_000)
    assert (await save_slice(cast("Gateway", Ahead(WHOLE[10:], 10)), tmp_path, 1_000)).entries == 1


MOST = Ts(2**32 - 1, 2**32 - 1)
PITR = "pbmPitr/rs0/20261123"


@pytest.mark.parametrize(
    ("given", "bounds"),
    [
        ({}, (Ts(0, 0), MOST)),
        ({"ts": Timestamp(7, 3)}, (Ts(7, 3), Ts(7, 3))),
        ({"ts": {"$gte": Timestamp(7, 3), "$lte": Timestamp(9, 0)}}, (Ts(7, 3), Ts(9, 0))),
        ({"ts": {"$gt": Timestamp(7, 3), "$lt": Timestamp(9, 1)}}, (Ts(7, 4), Ts(9, 0))),
        ({"ts": {"$lt": Timestamp(9, 0)}}, (Ts(0, 0), Ts(8, 2**32 - 1))),
        ({"ts": {"$gte": Timestamp(7, 1), "$gt": Timestamp(5, 1)}}, (Ts(7, 1), MOST)),
        ({"ts": {"$lte": Timestamp(7, 1), "$lt": Timestamp(9, 1)}}, (Ts(0, 0), Ts(7, 1))),
    ],
)
def test_the_bounds_of_a_query_are_both_inclusive(given: dict[str, Any], bounds: tuple[Ts, Ts]) -> None:
    assert _bounds(given) == bounds


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"ts": {"$ne": Timestamp(7, 1)}}, r"\$ne on ts"),
        ({"op": "i"}, "op cannot be asked"),
    ],
)
async def test_what_slices_cannot_answer_is_refused(slices: Path, query: dict[str, Any], why: str) -> None:
    gateway, _ = await join(cast("Gateway", Server(WHOLE[20:])), read_saved([slices]))
    with pytest.raises(ValueError, match=why):
        await read(gateway, query)


@pytest.mark.parametrize(
    ("first", "last", "after", "why"),
    [
        (Ts(10, 1), Ts(20, 1), False, ""),
        (Ts(10, 2), Ts(20, 1), False, "it begins with 10:2, and its name says 10:1"),
        (Ts(10, 2), Ts(20, 1), True, ""),
        (Ts(10, 1), Ts(20, 1), True, ""),
        (Ts(9, 9), Ts(20, 1), True, "it begins with 9:9, and its name says 10:1"),
        (Ts(10, 1), Ts(20, 2), True, "it ends with 20:2, and its name says 20:1"),
        (Ts(10, 1), Ts(19, 9), False, "it ends with 19:9, and its name says 20:1"),
    ],
)
def test_a_slice_is_what_its_name_says(first: Ts, last: Ts, after: bool, why: str) -> None:
    assert NamedSpan(Ts(10, 1), Ts(20, 1), after).contradicts(first, last) == why


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("oplog-10_1-20_2.bson.gz", NamedSpan(Ts(10, 1), Ts(20, 2))),
        ("oplog_10.1_20.2.lz4", NamedSpan(Ts(10, 1), Ts(20, 2), after=True)),
        (f"{PITR}/20261123060000-3.20261123060010-4.oplog.gz", NamedSpan(Ts(1795413600, 3), Ts(1795413610, 4))),
        ("b/rs0/oplog/20261123060000.20261123060010.gz", NamedSpan(Ts(1795413600, 0), Ts(1795413610, 0))),
        ("other/20261123060000-3.20261123060010-4.gz", None),
        (f"{PITR}/20261323060000-3.20261123060010-4.gz", None),
        ("oplog-10_1-99999999999_2.bson.gz", None),
        ("oplog.bson", None),
    ],
)  # fmt: skip
def test_the_name_of_a_slice_says_what_it_holds(path: str, named: NamedSpan | None) -> None:
    assert span(Path("/x") / path) == named
    assert is_slice(Path("/x") / path) is (named is not None or (path.startswith("oplog") and ".bson" in path))


@pytest.mark.parametrize(
    ("low", "high", "opened"),
    [(5, 15, "1"), (5, 16, "12"), (15, 15, "1"), (16, 16, "2"), (25, 25, "2"), (0, 5, "1"), (0, 4, ""), (26, 30, "")],
)
def test_only_the_slices_that_hold_what_is_asked_for_are_opened(
    slices: Path, monkeypatch: pytest.MonkeyPatch, low: int, high: int, opened: str
) -> None:
    """To come to the end of a compressed one, all of it is unpacked."""
    saved, found = read_saved([slices]), list[Path]()
    read = slice_file.SliceFile.read

    def opening(one: slice_file.SliceFile, *bounds: Ts, backward: bool) -> Iterator[tuple[bytes, bool]]:
        found.append(one.path)
        return read(one, *bounds, backward=backward)

    monkeypatch.setattr(slice_file.SliceFile, "read", opening)
    for _ in saved.blocks(ts(low), ts(high)):
        pass
    names = {slices / "local" / "oplog.rs.bson": "1", slices / "oplog-2.bson.gz": "2"}
    assert "".join(names[path] for path in found) == opened


@pytest.mark.parametrize("name", ["oplog-1.bson", "oplog-1.bson.gz"])
@pytest.mark.parametrize("backward", [False, True])
def test_only_the_blocks_that_hold_what_is_asked_for_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, backward: bool
) -> None:
    monkeypatch.setattr(slice_file, "_BLOCK", 3 * len(WHOLE[0]) - 1)  # two entries each
    monkeypatch.setattr(slice_file, "_CHUNK", 100)
    found = slice_file.read_slice(write(tmp_path, name, WHOLE[0:20]))
    assert found is not None
    begins = [NUMBER[raw] for raw in WHOLE[:20] if any(block.first == ts(NUMBER[raw]) for block in found.blocks)]
    ends = [*begins[1:], 20]
    assert len(begins) > 5
    for low, high in (
        (0, 19),
        (0, 0),
        (19, 19),
        (5, 5),
        (5, 6),
        (4, 11),
        (begins[2], ends[2]),
        (begins[2] + 1, ends[3] - 1),
    ):
        read = [
            (NUMBER[block[: walk.document_end(block)]], sum(1 for _ in walk.split(block)), inside)
            for block, inside in found.read(ts(low), ts(high), backward=backward)
        ]
        wanted = [
            (begin, end - begin, low <= begin and high >= min(end, 19))
            for begin, end in zip(begins, ends, strict=True)
            if low < end and high >= begin
        ]
        assert read == (wanted[::-1] if backward else wanted), (low, high)
    assert [found.entry(ts(n)) for n in range(20)] == WHOLE[:20]
    assert (found.entry(ts(20)), found.entry(Ts(100, 9)), list(found.read(Ts(1, 1), Ts(2, 1), backward=backward))) == (
        b"", b"", [],
    )  # fmt: skip


@pytest.mark.parametrize(("start", "first"), [(None, 20), (30, 20), (20, 20), (19, 5), (5, 5), (3, 5)])
def test_the_newest_slices_that_reach_back_to_the_start_are_chosen(
    tmp_path: Path, start: int | None, first: int
) -> None:
    write(tmp_path, "oplog-1.bson", WHOLE[5:16])
    write(tmp_path, "oplog-2.bson", WHOLE[20:30])
    assert read_saved([tmp_path], None if start is None else ts(start)).first == ts(first)


def test_a_slice_that_adds_nothing_is_left_out_whatever_it_holds(tmp_path: Path) -> None:
    write(tmp_path, "oplog-1.bson", WHOLE[5:16])
    write(tmp_path, "oplog-2.bson", WHOLE[10:16])
    write(tmp_path, "oplog-3.bson", [entry(12, filler=41), *WHOLE[13:16]])
    saved = read_saved([tmp_path])
    assert (saved.differs, saved.last, len(saved.parts)) == ("", ts(15), 1)
    write(tmp_path, "oplog-3.bson", [entry(12, filler=41), *WHOLE[13:17]])
    assert read_saved([tmp_path]).differs == f"oplog-1.bson and oplog-3.bson do not hold the same entry at {ts(12)}"


@pytest.mark.parametrize(
    ("terms", "back"), [((1, 1), ""), ((1, 2), ""), ((2, 1), "2 to 1"), ((1, None), "1 to 0"), ((None, None), "")]
)
def test_a_slice_that_follows_by_its_name_is_of_the_same_term_or_a_later_one(
    tmp_path: Path, terms: tuple[int | None, int | None], back: str
) -> None:
    """The slices of wal-g do not repeat the last entry of the one before."""
    names = [f"oplog_{ts(a).t}.{ts(a).i}_{ts(b).t}.{ts(b).i}.lz4" for a, b in ((5, 8), (8, 12))]
    for name, term, numbers in zip(names, terms, (range(5, 9), range(9, 13)), strict=True):
        rows = [bson.decode(WHOLE[n]) | {"t": term} for n in numbers]
        held = [row if term is not None else {key: row[key] for key in row if key != "t"} for row in rows]
        write(tmp_path, name, [bson.encode(row) for row in held])
    found = read_saved([tmp_path])
    differs = f"the term goes back from {back} between {names[0]} and {names[1]}" if back else ""
    assert (found.differs, found.last, found.problems) == (differs, ts(8 if back else 12), ())


def test_slices_that_end_long_before_the_start_are_not_read() -> None:
    ended = Path("oplog-1_1-5000_9.bson.gz")
    assert [_is_old(ended, start) for start in (None, Ts(8_600, 1), Ts(8_601, 1))] == [False, False, True]
    assert not _is_old(Path("oplog.bson"), Ts(99_999, 1))
