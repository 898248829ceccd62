"""What the oplog says of the base: before the start, after the point, and by the counts that it states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson import Binary, Int64, Timestamp

from builders.replay import FIRST, NEITHER, OTHER, UUID, after_point, delete, entry, insert, kinds, run, stored, update
from tallyglass.errors import PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Namespace
from tallyglass.oplog.entry.entry import Entry
from tallyglass.restore.backup.backup import StoredCollection
from tallyglass.restore.model.indexes import canonical_index, canonical_options
from tallyglass.restore.proof.base import BaseFacts, read_base
from tallyglass.restore.proof.id_states import EXISTED, EXISTS, IdStore
from tallyglass.restore.proof.later_writes import LaterWrites
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.timeline.earlier_writes import EarlierWrites
from tallyglass.restore.timeline.identity import LiveCollections, list_live, stale
from tallyglass.restore.timeline.timeline import Timeline

LIMIT = Ts(100, 1)
DROP = {"drop": "c"}
INDEX = {"createIndexes": "c", "v": 2, "key": {"x": 1}, "name": "x_1"}
UNINDEX = {"dropIndexes": "c", "index": "x_1"}


def facts(
    tmp_path: Path, ids: tuple[Any, ...], *window: Entry, earlier: tuple[Entry, ...] = (), later: tuple[Entry, ...] = ()
) -> BaseFacts:
    """What reading the backup with these ids yields; ``earlier`` is given newest first."""
    held = stored(tmp_path, *ids)
    replay = run(Replay(held), *window)
    before = EarlierWrites({bytes(UUID)})
    for row in earlier:
        before.feed(row)
    after = LaterWrites(replay.timeline, LIMIT)
    sink = after_point(later=after)
    for row in later:
        sink.feed(row)
    return read_base(held, replay.catalog, earlier=before, later=after)


def ours(row: Entry) -> Entry:
    """The same with the collection's UUID."""
    return entry(
        row.ts.t, row.op, row.ns, dict(row.o), ui=UUID, **({"o2": {"_id": row.document_id}} if row.op == "u" else {})
    )


@pytest.mark.parametrize("in_memory", [1, 150_000], ids=["in a file", "in memory"])
@pytest.mark.parametrize("listed", [True, False], ids=["live", "not listed"])
def test_which_removed_ids_were_inserted_again(tmp_path: Path, in_memory: int, listed: bool) -> None:
    made = entry(30, "c", "s.$cmd", {"create": "c"}, ui=OTHER)
    again = [entry(31 + n, "i", "s.c", {"_id": n}, ui=OTHER) for n in (1, 4, 10)]
    dropped = (entry(29, "c", "s.$cmd", DROP, ui=UUID), made, *again)
    window = (ours(insert(20, 10)), ours(insert(21, 11)))
    emptied = [delete(30, 1), insert(31, 1), update(32, 1), delete(33, 2), update(34, 10), delete(35, 10)]
    emptied += [insert(36, 10), update(37, 3), insert(38, 12), delete(39, 12), insert(40, 12)]
    for later, live in ((dropped, OTHER), (tuple(map(ours, emptied)), UUID)):
        held = stored(tmp_path, 1, 2, 3)
        replay = run(Replay(held), *window)
        after = LaterWrites(replay.timeline, Ts(25, 1), IdStore(in_memory))
        sink = after_point(later=after)
        for row in later:
            sink.feed(row)
        found = read_base(held, replay.catalog, later=after, live={bytes(live): "s.c"} if listed else None)
        assert found.again == {"s.c": 2}, live


@pytest.mark.parametrize(
    ("rows", "unlike"),
    [
        ((insert(9, 1),), 0),
        ((insert(9, 3),), 1),
        ((entry(9, "i", "s.c", {"_id": 1, "x": 2}),), 1),
        ((delete(9, 3), insert(8, 3)), 0),
        ((delete(9, 2),), 1),
        ((update(9, 1),), 1),
        ((entry(9, "u", "s.c", {"$v": 2, "diff": {"d": {"x": False}}}, o2={"_id": 1}),), 0),
        ((entry(9, "u", "s.c", {"$v": 2, "diff": {"sn": {"u": {"y": 1}}}}, o2={"_id": 1}),), 1),
        ((entry(9, "u", "s.c", {"$v": 2, "diff": {"sn": {"a": True, "u0": 1}}}, o2={"_id": 1}),), 0),
        ((entry(9, "u", "s.c", {"$v": 1, "$set": {"a.b": 1}}, o2={"_id": 1}),), 0),
        ((entry(9, "u", "s.c", {"$v": 1, "$set": {"a": 1}}, o2={"_id": 1}),), 1),
        ((entry(9, "c", "s.$cmd", {"emptycapped": "c"}), insert(8, 3)), 0),
    ],
)
def test_the_backup_holds_what_was_written_before_it(tmp_path: Path, rows: tuple[Entry, ...], unlike: int) -> None:
    found = facts(tmp_path, (1, 2), earlier=tuple(map(ours, rows)))
    assert found.unlike_earlier == ({"s.c": unlike} if unlike else {})
    touched = facts(tmp_path, (1, 2), insert(20, 1), insert(20, 2), insert(20, 3), earlier=tuple(map(ours, rows)))
    assert touched.unlike_earlier == {}, "what the window writes need not be in it"


def test_a_transaction_that_was_not_committed_left_nothing(tmp_path: Path) -> None:
    def part(at: int, number: int, session: int, **more: Any) -> Entry:
        inner = [{"op": "i", "ns": "s.c", "ui": UUID, "o": {"_id": number}}]
        link = {"lsid": {"id": session}, "txnNumber": Int64(1), "prevOpTime": FIRST}
        return entry(at, "c", "admin.$cmd", {"applyOps": inner} | more, **link)

    open_one, committed = part(9, 7, 1, partialTxn=True), part(8, 8, 2, count=1)
    assert facts(tmp_path, (1,), earlier=(open_one,)).unlike_earlier == {}
    assert facts(tmp_path, (1,), earlier=(open_one, committed)).unlike_earlier == {"s.c": 1}


@pytest.mark.parametrize(
    ("ids", "count", "wrong"), [((1, 2), 3, False), ((1,), 3, True), ((1, 2, 3), 3, True), ((1, 2), None, False)]
)
def test_the_count_that_a_drop_states(tmp_path: Path, ids: tuple[int, ...], count: int | None, wrong: bool) -> None:
    o2 = {} if count is None else {"o2": {"numRecords": count}}
    dropped = entry(30, "c", "s.$cmd", DROP, ui=UUID, **o2)
    rows = [ours(insert(20, 10)), ours(insert(21, 11)), ours(delete(22, 11))]
    inside = facts(tmp_path, ids, *rows, dropped)
    after = facts(tmp_path, ids, rows[0], later=(*rows[1:], dropped))
    for found in (inside, after):
        assert [(one.stated, one.computed) for one in found.count_mismatches] == (
            [(count, len(ids) + 1)] if wrong else []
        )


def test_the_count_that_a_rename_over_another_states(tmp_path: Path) -> None:
    row = entry(30, "c", "s.$cmd", {"renameCollection": "s.t", "to": "s.c", "dropTarget": UUID}, ui=OTHER,
                o2={"numRecords": 9})  # fmt: skip
    made = entry(20, "c", "s.$cmd", {"create": "t"}, ui=OTHER)
    for found in (facts(tmp_path, (1, 2), made, row), facts(tmp_path, (1, 2), made, later=(row,))):
        assert [(one.ns, one.stated, one.computed) for one in found.count_mismatches] == [("s.c", 9, 2)]
    other = replace(stored(tmp_path, 1)["s.c"], uuid=bytes(NEITHER).hex())
    replay = run(Replay({"s.c": other}), made, row)
    assert read_base({"s.c": other}, replay.catalog).count_mismatches == [], "another collection was replaced"


def test_what_was_made_in_the_window_is_counted_too(tmp_path: Path) -> None:
    made = entry(20, "c", "s.$cmd", {"create": "n"}, ui=OTHER)
    one = entry(21, "i", "s.n", {"_id": 1}, ui=OTHER)
    dropped = entry(30, "c", "s.$cmd", {"drop": "n"}, ui=OTHER, o2={"numRecords": 2})
    for found in (facts(tmp_path, (1,), made, one, dropped), facts(tmp_path, (1,), made, one, later=(dropped,))):
        assert [(miss.stated, miss.computed) for miss in found.count_mismatches] == [(2, 1)]


def test_the_definitions_of_views_are_not_counted(tmp_path: Path) -> None:
    made = entry(20, "c", "s.$cmd", {"create": "system.views"}, ui=OTHER)
    dropped = entry(30, "c", "s.$cmd", {"drop": "system.views"}, ui=OTHER, o2={"numRecords": 3})
    for found in (facts(tmp_path, (1,), made, dropped), facts(tmp_path, (1,), made, later=(dropped,))):
        assert found.count_mismatches == []
    removed = entry(110, "d", "s.system.views", {"_id": "s.v"}, ui=OTHER)
    assert facts(tmp_path, (1,), made, later=(removed,)).unlike_later == {}, "the window may have made the first view"


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (insert(110, 1), {"s.c": (0, 1)}),
        (insert(110, 3), {}),
        (delete(110, 3), {"s.c": (1, 0)}),
        (update(110, 3), {"s.c": (1, 0)}),
        (delete(110, 1), {}),
        (delete(110, 20), {}),
        (insert(110, 20), {"s.c": (0, 1)}),
        (delete(110, 2), {"s.c": (1, 0)}),
    ],
)
def test_the_first_later_write_says_whether_a_document_was_there(
    tmp_path: Path, row: Entry, found: dict[str, tuple[int, int]]
) -> None:
    window = (ours(insert(20, 20)), ours(delete(21, 2)))
    again = ours(insert(120, row.document_id))
    assert facts(tmp_path, (1, 2), *window, later=(ours(row), again)).unlike_later == found
    newer = entry(105, "c", "s.$cmd", {"create": "c"}, ui=UUID)
    assert facts(tmp_path, (1, 2), *window, later=(newer, ours(row))).unlike_later == {}


@pytest.mark.parametrize(
    ("earlier", "window", "unlike"),
    [
        ((INDEX,), (), ["x_1"]),
        ((UNINDEX, INDEX), (), []),
        ((INDEX, UNINDEX), (), ["x_1"]),
        (({"commitIndexBuild": "c", "indexes": [{"name": "x_1", "key": {"x": 1}}]},), (), ["x_1"]),
        (({"dropIndexes": "c", "index": "other"},), (), []),
        ((INDEX,), (UNINDEX,), []),
    ],
)
def test_the_backup_has_the_indexes_of_the_last_command_before_it(
    tmp_path: Path, earlier: tuple[dict[str, Any], ...], window: tuple[dict[str, Any], ...], unlike: list[str]
) -> None:
    before = tuple(entry(9 - at, "c", "s.$cmd", o, ui=UUID) for at, o in enumerate(earlier))
    found = facts(tmp_path, (1,), *(entry(20, "c", "s.$cmd", o, ui=UUID) for o in window), earlier=before)
    assert found.indexes_unlike_earlier == ({"s.c": unlike} if unlike else {})


def test_a_collection_whose_uuid_the_backup_does_not_give_is_known_by_its_name() -> None:
    after = LaterWrites(Timeline(), LIMIT)
    sink = after_point(later=after)
    sink.feed(entry(101, "c", "s.$cmd", {"drop": "c"}, ui=OTHER, o2={"numRecords": 5}))
    sink.feed(entry(102, "d", "s.system.views", {"_id": "s.v"}, ui=NEITHER))
    found = after.of(b"", "s.c")
    assert found is not None
    assert found.dropped is not None
    assert found.dropped.documents == 5
    assert after.of(b"", "s.system.views") is None, "the backup does not count the definitions of views"
    after.timeline.feed(entry(50, "c", "s.$cmd", {"create": "c"}, ui=OTHER))
    assert after.of(b"", "s.c") is None, "it is younger than the backup"


def test_the_ids_of_the_window_and_of_what_came_after_are_bounded_together() -> None:
    ids = IdStore(in_memory=3)
    window, after = ids.new(), LaterWrites(Timeline(), LIMIT, ids)
    for key in (b"1", b"2"):
        window.touch(key, "i")
    for key in (b"2", b"3"):
        assert ids.rows is None
        after.write("d", "s.c", UUID, key)
    assert ids.rows is not None, "four are more than three"
    ids.end()
    assert dict(after.by_uuid[UUID].ids.items()) == {b"2": EXISTED, b"3": EXISTED}
    assert [key for key, bits in window.items() if bits & EXISTS] == [b"1", b"2"]


def test_a_drop_after_the_point_does_not_explain_what_the_backup_lacks() -> None:
    replay = Replay({})
    replay.feed(insert(20, 1, "s.c", ui=OTHER))
    after_point(later=LaterWrites(replay.timeline, LIMIT)).feed(entry(101, "c", "s.$cmd", DROP, ui=OTHER))
    assert list(replay.unexplained().values()) == ["s.c"]


def test_which_collections_are_stale() -> None:
    def held(ns: str, uuid: Binary | None, kind: str = "collection") -> StoredCollection:
        return StoredCollection(ns, kind, None, {}, (), bytes(uuid).hex() if uuid else "")

    seen = Timeline()
    seen.feed(entry(20, "c", "s.$cmd", {"drop": "b"}, ui=OTHER))
    seen.feed(entry(21, "d", "s.system.views", {"_id": "s.gone"}))
    seen.feed(entry(22, "c", "v.$cmd", {"drop": "system.views"}, ui=Binary(bytes([7] * 16), 4)))
    assert seen.views_removed == {"s.gone", "v."}
    for op, ns in (("i", "s.system.views"), ("d", "s.a")):
        seen.feed(entry(22, op, ns, {"_id": "s.old"}))
    assert seen.views_removed == {"s.gone", "v."}
    rows = (held("s.a", UUID), held("s.b", OTHER), held("s.c", NEITHER), held("s.none", None),
            held("hidden.x", NEITHER), held("s.gone", None, "view"), held("s.shown", None, "view"),
            held("s.old", None, "view"), held("s_old.b", OTHER), held("s.seen", None),
            held("v.any", None, "view"))  # fmt: skip
    live = LiveCollections({bytes(UUID): "s.a"}, frozenset({"s.shown", "s.seen"}), frozenset({"hidden"}))
    found = {row.ns: row for row in rows}
    assert stale({ns: row for ns, row in found.items() if ns != "s_old.b"}, live, seen) == ("s.c", "s.old", "s.seen")
    assert stale({"s_old.b": found["s_old.b"]}, live, seen) == ("s_old.b",), "it never had that name"
    elsewhere = replace(live, uuids={bytes(UUID): "s.b"})
    assert stale({"s.a": rows[0]}, elsewhere, seen) == ("s.a",), "it had another name when the backup was taken"
    seen.feed(entry(23, "c", "s.$cmd", {"renameCollection": "s.a", "to": "s.b"}, ui=UUID))
    assert stale({"s.a": rows[0]}, elsewhere, seen) == ()
    assert stale({"s.a": rows[0], "s.b": held("s.b", UUID)}, elsewhere, seen) == ("s.a", "s.b"), "one of two dumps"
    assert CollectionInfo(Namespace("s", "a")).uuid == b"", "what is not said is not known"


async def test_what_is_listed_of_live_databases() -> None:
    infos = {
        "s": [
            CollectionInfo(Namespace("s", "a"), uuid=bytes(UUID)),
            CollectionInfo(Namespace("s", "v"), "view"),
            CollectionInfo(Namespace("s", "t"), "timeseries", uuid=bytes(OTHER)),
        ],
        "names": [CollectionInfo(Namespace("names", "a"))],
    }

    class Listing:
        async def list_collections(self, db: str) -> list[CollectionInfo]:
            if db not in infos:
                raise PrivilegeError("not authorized")
            return infos[db]

    found = await list_live(Listing(), ["s", "names", "hidden"])  # type: ignore[arg-type]
    uuids = {bytes(UUID): "s.a", bytes(OTHER): "s.t"}
    names, hidden = frozenset({"s.a", "s.v", "s.t", "names.a"}), frozenset({"hidden"})
    assert found == LiveCollections(uuids, frozenset({"s.v", "s.t"}), hidden | {"names"}, names, hidden)


def test_entries_of_servers_to_come() -> None:
    """As documents, from the source of 8.3 and 9.0: none of these servers was run."""
    ident = {"o2": {"ident": "collection-7-123", "idIndexIdent": "index-8-123", "directoryPerDB": False}}
    made = entry(20, "c", "s.$cmd", {"create": "n", "recordIdsReplicated": True}, ui=OTHER, **ident)
    index = {"createIndexes": "n", "v": 2, "key": {"x": 1}, "name": "x_1"}
    built = entry(21, "c", "s.$cmd", index, ui=OTHER, o2={"indexIdent": "index-9-123"})
    row = entry(22, "i", "s.n", {"_id": 1, "x": 1}, ui=OTHER, rid=Int64(1), versionContext={"OFCV": "9.0"})
    gone = entry(23, "c", "admin.$cmd", {"dropIdent": "collection-7-123", "ident": "x"})
    replay = run(Replay({}), made, built, row, gone)
    assert kinds(replay) == []
    assert "recordIds" in replay.kinds
    assert replay.applied == 3, "mongorestore skips dropIdent"
    (item,) = replay.catalog.collections.values()
    assert canonical_options(item.options) == "{}", "the tools leave the option out, so it is not compared"
    assert canonical_index(item.indexes["x_1"]) == '{"key": {"x": 1}, "name": "x_1"}'
    spec = {"createIndexes": "n", "spec": {"v": 2, "key": {"x": 1}, "name": "x_1"}}
    assert kinds(run(Replay({}), made, entry(21, "c", "s.$cmd", spec, ui=OTHER))) == ["unknown-command"]
    viewless = entry(20, "c", "s.$cmd", {"create": "t", "timeseries": {"timeField": "at"}}, ui=OTHER)
    assert kinds(run(Replay({}), viewless)) == ["viewless-timeseries"]
    from_backup = StoredCollection("s.n", "collection", None, {"recordIdsReplicated": True}, ())
    assert "recordIds" in Replay({"s.n": from_backup}).kinds
    held = {"s.t": StoredCollection("s.t", "timeseries", None, {"timeseries": {"timeField": "at"}}, (), "")}
    assert kinds(run(Replay(held), insert(20, 1, "s.t", ui=OTHER, isTimeseries=True))) == ["base-incomplete"]
    for command in ("truncateRange", "upgradeDowngradeViewlessTimeseries"):
        assert kinds(run(Replay({}), entry(20, "c", "s.$cmd", {command: "s.c"}, ui=OTHER))) == ["unknown-command"]
    assert kinds(run(Replay({}), entry(20, "c", "config.$cmd", {"truncateRange": "config.system.preimages"}))) == []


def part(at: int, inner: list[dict[str, Any]], **more: Any) -> Entry:
    """One entry of a transaction."""
    link = {"lsid": {"id": 1}, "txnNumber": Int64(1)} | ({} if "prevOpTime" in more else {"prevOpTime": FIRST})
    own = {name: more.pop(name) for name in ("partialTxn", "count") if name in more}
    return entry(at, "c", "admin.$cmd", {"applyOps": inner} | own, **link, **more)


MADE = {"op": "c", "ns": "s.$cmd", "ui": OTHER, "o": {"create": "n"}}
INSERTED = {"op": "i", "ns": "s.n", "ui": OTHER, "o": {"_id": 1}}


@pytest.mark.parametrize(("second", "newer"), [(99, False), (100, True), (101, True)])
def test_what_is_made_at_the_limit_is_newer_than_the_point(second: int, newer: bool) -> None:
    later = LaterWrites(limit=LIMIT)
    later.record(entry(second, "c", "s.$cmd", {"create": "n"}, ui=OTHER), Ts(second, 1))
    assert later.is_newer(bytes(OTHER)) is newer
    assert not later.is_newer(bytes(UUID))


def test_what_a_transaction_made_that_was_open_at_the_point_is_newer() -> None:
    begun = part(90, [MADE, INSERTED], partialTxn=True)
    ended = part(110, [INSERTED | {"o": {"_id": 2}}], count=3, prevOpTime={"ts": Timestamp(90, 1), "t": Int64(1)})
    after = LaterWrites(run(Replay({}), begun).timeline, LIMIT)
    assert begun.txn is not None
    sink = after_point(later=after)
    sink.transactions.begin(begun.txn, [begun])
    sink.feed(ended)
    assert after.is_newer(bytes(OTHER)), "it took effect after the point"


def test_a_collection_created_by_the_group_was_not_dropped_before_it(tmp_path: Path) -> None:
    group = part(20, [MADE, INSERTED, {"op": "d", "ns": "s.c", "o": {"_id": 1}, "ui": UUID}])
    dropped = entry(30, "c", "s.$cmd", {"drop": "n"}, ui=OTHER, o2={"numRecords": 1})
    held = stored(tmp_path, 1)
    replay = run(Replay(held, begun_after=Ts(40, 1)), group, dropped)
    assert (replay.groups_to_leave_out(), kinds(replay)) == (frozenset(), [])
    found = read_base(held, replay.catalog)
    assert (found.documents, found.count_mismatches) == ({"s.c": 0}, [])


def test_what_a_group_that_is_left_out_wrote_is_not_counted() -> None:
    made = entry(20, "c", "s.$cmd", {"create": "n"}, ui=OTHER)
    gone = {"op": "i", "ns": "s.gone", "ui": NEITHER, "o": {"_id": 1}}
    group = entry(21, "c", "admin.$cmd", {"applyOps": [gone, INSERTED]})
    over = entry(22, "c", "s.$cmd", {"drop": "gone"}, ui=NEITHER)
    dropped = entry(30, "c", "s.$cmd", {"drop": "n"}, ui=OTHER, o2={"numRecords": 1})
    left_out = run(Replay({}, begun_after=Ts(40, 1)), made, group, over, dropped).groups_to_leave_out()
    assert left_out == {group.ts}
    again = run(Replay({}, begun_after=Ts(40, 1), without=left_out), made, group, over, dropped)
    assert read_base({}, again.catalog).count_mismatches == []


def test_whether_a_collection_is_clustered_is_compared() -> None:
    clustered = {"clusteredIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_", "unique": True}}
    assert canonical_options(clustered) != canonical_options({})


def test_options_that_coll_mod_changes_are_as_the_server_lists_them() -> None:
    made = entry(20, "c", "s.$cmd", {"create": "n", "capped": True, "size": 4096, "max": 7}, ui=OTHER)
    larger = entry(21, "c", "s.$cmd", {"collMod": "n", "cappedSize": 8001.0, "cappedMax": 0}, ui=OTHER)
    (item,) = run(Replay({}), made, larger).catalog.collections.values()
    assert canonical_options(item.options) == '{"capped": true, "size": 8192}'
    clustered = entry(20, "c", "s.$cmd", {"create": "n", "expireAfterSeconds": Int64(60)}, ui=OTHER)
    off = entry(21, "c", "s.$cmd", {"collMod": "n", "expireAfterSeconds": "off"}, ui=OTHER)
    (item,) = run(Replay({}), clustered, off).catalog.collections.values()
    assert canonical_options(item.options) == "{}"
