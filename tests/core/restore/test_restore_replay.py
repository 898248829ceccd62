"""What mongorestore will do with a window, worked out from entries alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp, json_util

from builders.replay import FIRST, NEITHER, OTHER, UUID, after_point, delete, entry, insert, kinds, run, stored, update
from tallyglass.moment import Ts
from tallyglass.oplog.entry.batch import BatchWalker
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.restore.backup.backup import StoredCollection
from tallyglass.restore.model.indexes import canonical_index
from tallyglass.restore.proof import id_states
from tallyglass.restore.proof.base import read_base
from tallyglass.restore.proof.expectation import expect
from tallyglass.restore.proof.later_writes import LaterWrites
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.replay import Removals, Replay
from tallyglass.restore.timeline.earlier_writes import EarlierWrites


def test_the_number_of_applied_entries_is_predicted(tmp_path: Path) -> None:
    txn = {"lsid": {"id": 1}, "txnNumber": Int64(1)}
    inner = [{"op": "i", "ns": "s.c", "o": {"_id": n}} for n in range(3)]
    replay = run(
        Replay(stored(tmp_path)),
        entry(1, "n", "", {"msg": "periodic noop"}),
        insert(2, 10),
        entry(3, "u", "config.transactions", {"x": 1}, o2={"_id": 1}),
        entry(4, "c", "s.$cmd", {"startIndexBuild": "c", "indexes": []}),
        entry(5, "c", "admin.$cmd", {"applyOps": [{"op": "d", "ns": "s.c", "o": {"_id": n}} for n in range(2)]}),
        entry(6, "c", "admin.$cmd", {"applyOps": inner[:2], "partialTxn": True}, prevOpTime=FIRST, **txn),
        entry(7, "c", "admin.$cmd", {"applyOps": inner[2:], "count": 3},
              prevOpTime={"ts": Timestamp(6, 1), "t": Int64(1)}, **txn),
        entry(8, "c", "admin.$cmd", {"applyOps": inner, "prepare": True},
              lsid={"id": 2}, txnNumber=Int64(1), prevOpTime=FIRST),
    )  # fmt: skip
    # The insert; a group of deletes and its two; the transaction's three. The prepared one stays open.
    assert replay.applied == 1 + 3 + 3
    assert replay.entries == 7, "what the query leaves out is not in the file"
    assert len(replay.open_transactions()) == 1
    assert not replay.problems


def test_a_transaction_without_its_beginning_is_not_applied(tmp_path: Path) -> None:
    link = {"ts": Timestamp(1, 1), "t": Int64(1)}
    tail = entry(5, "c", "admin.$cmd", {"applyOps": [{"op": "i", "ns": "s.c", "o": {"_id": 1}}], "count": 9},
                 lsid={"id": 1}, txnNumber=Int64(1), prevOpTime=link)  # fmt: skip
    replay = run(Replay(stored(tmp_path)), tail)
    assert replay.unlinked == {Ts(5, 1): Ts(1, 1)}
    assert replay.applied == 0


def test_documents_are_counted_across_the_overlap(tmp_path: Path) -> None:
    base = stored(tmp_path, 1, 2, 3)
    replay = run(Replay(base), insert(1, 2), insert(2, 4), delete(3, 1), delete(4, 99), insert(5, 5), delete(6, 5))
    assert read_base(base, replay.catalog).documents == {"s.c": 3}


def test_what_a_capped_collection_removes_itself_is_left_out_where_it_is_refused(tmp_path: Path) -> None:
    base = stored(tmp_path, 1, 2)
    capped = {"s.c": replace(base["s.c"], options={"capped": True})}
    rows = insert(1, 3), delete(2, 1)
    refused = run(Replay(capped, removals=Removals.REFUSED), *rows)
    assert (refused.capped_deletes, refused.applied, refused.problems) == ([Ts(2, 1)], 1, [])
    assert read_base(capped, refused.catalog).documents == {"s.c": 2}
    for other in (Replay(capped), Replay(base, removals=Removals.REFUSED)):
        taken = run(other, *rows)
        assert (taken.capped_deletes, taken.applied) == ([], 2)
    unlogged = run(Replay(capped, removals=Removals.UNLOGGED), insert(1, 3))
    assert read_base(capped, unlogged.catalog).documents == {"s.c": None}


def test_what_made_room_in_a_capped_collection_unlogged_is_not_missed(tmp_path: Path) -> None:
    base = stored(tmp_path, 1, 2)
    capped = {"s.c": replace(base["s.c"], options={"capped": True})}
    earlier, later = EarlierWrites({bytes(UUID)}), LaterWrites()
    earlier.feed(insert(1, 0, ui=UUID))
    later.record(entry(9, "c", "s.$cmd", {"drop": "c"}, ui=UUID, o2={"numRecords": 1}), Ts(9, 1))
    for removals, differs in ((Removals.UNLOGGED, False), (Removals.REPLAYED, True)):
        replay = run(Replay(capped, removals=removals))
        facts = read_base(capped, replay.catalog, earlier=earlier, later=later)
        assert (bool(facts.unlike_earlier), bool(facts.count_mismatches)) == (differs, differs)


@pytest.mark.parametrize(
    ("command", "count"),
    [({"emptycapped": "c"}, None), ({"emptycapped": "d"}, 2), ({"dbCheck": "c"}, 2)],
    ids=["emptied", "not there", "another command"],
)
def test_the_documents_of_an_emptied_collection_are_not_counted(
    tmp_path: Path, command: dict[str, Any], count: int | None
) -> None:
    base = stored(tmp_path, 1, 2)
    replay = run(Replay(base), entry(1, "c", "s.$cmd", command))
    assert (read_base(base, replay.catalog).documents, replay.problems) == ({"s.c": count}, [])
    made = run(Replay({}), entry(1, "c", "s.$cmd", {"create": "c"}), insert(2, 7), entry(3, "c", "s.$cmd", command))
    facts, count = read_base({}, made.catalog), None if count is None else 1
    largest = {} if count is None else {"s.c": 7}
    assert (facts.documents, facts.largest) == ({"s.c": count}, largest), "the largest _id is not known either"


@pytest.mark.parametrize(
    ("version", "removals"),
    [
        ((4, 4), Removals.UNLOGGED),
        ((5, 0), Removals.REFUSED),
        ((5, 3), Removals.REFUSED),
        ((6, 0), Removals.REPLAYED),
        (None, Removals.REPLAYED),
    ],
)
def test_what_a_server_logs_of_a_capped_collection(version: tuple[int, int] | None, removals: Removals) -> None:
    assert Removals.of(version) is removals


def test_an_update_of_what_is_not_there_is_seen(tmp_path: Path) -> None:
    base = stored(tmp_path, 1)
    lacking = run(Replay(base), update(1, 7))
    assert read_base(base, lacking.catalog).missing == {"s.c": 1}
    gone = run(Replay(base, upserts=False), update(1, 7), update(2, 7), delete(3, 7), update(4, 1))
    facts = read_base(base, gone.catalog)
    assert facts.missing == {}
    assert facts.dead_updates == [Ts(1, 1), Ts(2, 1)]
    inner = {"op": "u", "ns": "s.c", "o": {"$v": 2, "diff": {}}, "o2": {"_id": 7}}
    for txn in ({}, {"lsid": {"id": 1}, "txnNumber": Int64(1), "prevOpTime": FIRST}):
        group = entry(1, "c", "admin.$cmd", {"applyOps": [inner]}, **txn)
        grouped = read_base(base, run(Replay(base, upserts=False), group, delete(3, 7)).catalog)
        assert (grouped.fatal, grouped.dead_updates) == (1, []), "a part of a group cannot be left out"
    again = run(Replay(base, upserts=False, without=frozenset(facts.dead_updates)),
                update(1, 7), update(2, 7), delete(3, 7), update(4, 1))  # fmt: skip
    assert (again.applied, again.entries, again.first) == (2, 2, Ts(3, 1))
    assert read_base(base, again.catalog).documents == {"s.c": 1}


def test_dead_collections_are_left_out_only_when_explained(tmp_path: Path) -> None:
    ghost = {"ns": "s.gone", "ui": OTHER}
    explained = run(
        Replay(stored(tmp_path)), insert(1, 1, **ghost), entry(2, "c", "s.$cmd", {"drop": "gone"}, ui=OTHER)
    )
    assert list(explained.on_missing_collection) == [Ts(1, 1)]
    assert (explained.applied, kinds(explained)) == (1, [])
    assert kinds(run(Replay(stored(tmp_path)), insert(1, 1, **ghost))) == ["base-incomplete"]
    dropped = entry(2, "c", "s.$cmd", {"drop": "gone"}, ui=OTHER)
    inside = entry(1, "c", "admin.$cmd", {"applyOps": [{"op": "i", "o": {"_id": 1}} | ghost]})
    whole = run(Replay(stored(tmp_path)), inside, dropped)
    assert (list(whole.groups_on_missing_collections), whole.applied, kinds(whole)) == ([Ts(1, 1)], 1, [])
    again = run(Replay(stored(tmp_path), without=frozenset(whole.groups_on_missing_collections)), inside, dropped)
    assert (again.entries, again.first, again.applied, kinds(again)) == (1, Ts(2, 1), 1, [])
    living = {"op": "i", "ns": "s.c", "o": {"_id": 1}}
    mixed = entry(1, "c", "admin.$cmd", {"applyOps": [{"op": "i", "o": {"_id": 1}} | ghost, living]})
    assert kinds(run(Replay(stored(tmp_path)), mixed, dropped)) == ["dead-operation"]


@pytest.mark.parametrize(
    ("name", "ui", "change", "dead"),
    [
        ("gone", OTHER, {"index": {"name": "x_1", "hidden": True}}, True),
        ("c", OTHER, {"index": {"name": "x_1", "hidden": True}}, True),
        ("c", UUID, {"index": {"name": "x_1", "hidden": True}}, False),
        ("gone", OTHER, {"validator": {}}, False),
    ],
)
def test_a_change_of_an_index_of_another_collection_is_left_out(
    tmp_path: Path, name: str, ui: bytes, change: dict[str, Any], dead: bool
) -> None:
    found = run(Replay(stored(tmp_path, 1, indexes=("x",))), entry(1, "c", "s.$cmd", {"collMod": name} | change, ui=ui))
    assert list(found.on_missing_collection) == [Ts(1, 1)] * dead


def test_what_got_the_name_of_a_view_before_the_backup_is_refused(tmp_path: Path) -> None:
    """The server does not rename over a view."""
    replay = Replay(stored(tmp_path))
    replay.catalog.views["s.x"] = {"viewOn": "c", "pipeline": []}
    found = run(
        replay,
        entry(1, "c", "s.$cmd", {"renameCollection": "s.c", "to": "s.x"}, ui=UUID),
        entry(2, "c", "s.$cmd", {"drop": "x"}, ui=UUID),
    )
    assert kinds(found) == ["rename-overlap"]
    assert "s.x" in found.catalog.views


@pytest.mark.parametrize("now", ["view", "collection", ""])
def test_what_had_the_name_of_a_view_before_the_backup_is_left_out(tmp_path: Path, now: str) -> None:
    """The server refuses a write to a view, and a drop would remove it. Without one, a delete does nothing."""
    old = {"ns": "s.x", "ui": OTHER}
    create = {"create": "x", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}}
    entries = [
        entry(1, "c", "s.$cmd", create, ui=OTHER), insert(2, 1, **old),
        entry(3, "d", "s.x", {"_id": 1}, ui=OTHER), entry(4, "i", "s.x", {"_id": 2, "viewOn": 1}, ui=OTHER),
        entry(5, "c", "s.$cmd", {"drop": "x"}, ui=OTHER),
        entry(6, "c", "s.$cmd", {"create": "x", "viewOn": "c", "pipeline": []}, ui=OTHER),
    ]  # fmt: skip
    replay = Replay(stored(tmp_path))
    if now == "view":
        replay.catalog.views["s.x"] = {"viewOn": "c", "pipeline": []}
    found = run(replay, *(entries if now != "collection" else entries[:4]))
    dead = {ts: ns for ts, (ns, _) in found.on_missing_collection.items()}
    assert dead == ({Ts(n, 1): "s.x" for n in range(1, 6)} if now == "view" else {})
    assert ("s.x" in found.catalog.views, "s.x" in found.catalog.collections) == (
        now != "collection",
        now == "collection",
    )
    made = {"op": "c", "ns": "s.$cmd", "o": create, "ui": OTHER}
    group = entry(1, "c", "admin.$cmd", {"applyOps": [made, {"op": "i", "o": {"_id": 1}} | old]})
    again = Replay(stored(tmp_path))
    if now == "view":
        again.catalog.views["s.x"] = {"viewOn": "c", "pipeline": []}
    whole = run(again, group, entry(5, "c", "s.$cmd", {"drop": "x"}, ui=OTHER))
    assert list(whole.groups_on_missing_collections) == [Ts(1, 1)] * (now == "view")


def test_a_group_on_a_collection_dropped_before_the_backup_is_left_out_whole(tmp_path: Path) -> None:
    living = {"op": "i", "ns": "s.c", "o": {"_id": 1}}
    ghost = {"op": "i", "ns": "s.gone", "o": {"_id": 1}, "ui": OTHER}
    mixed = entry(1, "c", "admin.$cmd", {"applyOps": [ghost, living]})
    drop = entry(2, "c", "s.$cmd", {"drop": "gone"}, ui=OTHER)
    replaced = entry(2, "c", "s.$cmd", {"renameCollection": "s.x", "to": "s.gone", "dropTarget": OTHER}, ui=NEITHER)
    fates = (drop,), (replaced, entry(3, "c", "s.$cmd", {"drop": "gone"}, ui=NEITHER))
    for fate in fates:
        before = run(Replay(stored(tmp_path), begun_after=Ts(3, 1)), mixed, *fate)
        assert before.groups_to_leave_out() == {Ts(1, 1)}
        again = Replay(stored(tmp_path), begun_after=Ts(3, 1), without=before.groups_to_leave_out())
        assert kinds(run(again, mixed, *fate)) == []
        # Dropped only after the backup had begun: perhaps the backup left it out, and did not see the rest either.
        during = run(Replay(stored(tmp_path), begun_after=Ts(1, 9)), mixed, *fate)
        assert during.groups_to_leave_out() == set()
        assert "dead-operation" in kinds(during)


def test_a_rename_is_certain_only_when_the_backup_tells_whose_it_was(tmp_path: Path) -> None:
    rename = entry(1, "c", "s.$cmd", {"renameCollection": "s.a", "to": "s.b"}, ui=OTHER)
    drop = entry(2, "c", "s.$cmd", {"drop": "b"}, ui=OTHER)
    assert kinds(run(Replay(stored(tmp_path)), rename)) == ["rename-overlap"]
    assert kinds(run(Replay(stored(tmp_path), begun_after=Ts(1, 9)), rename, drop)) == ["rename-overlap"]
    assert kinds(run(Replay(stored(tmp_path), begun_after=Ts(2, 1)), rename, drop)) == []
    # The backup holds an s.c that is younger than the one of this rename: it would be moved over s.d.
    other = entry(1, "c", "s.$cmd", {"renameCollection": "s.c", "to": "s.d"}, ui=OTHER)
    assert kinds(run(Replay(stored(tmp_path), begun_after=Ts(2, 1)), other)) == ["rename-overlap"]
    # Here the newer one also came from a rename, which would find nothing once its target had been moved away.
    drop = entry(2, "c", "s.$cmd", {"drop": "d"}, ui=OTHER)
    came = entry(3, "c", "s.$cmd", {"renameCollection": "s.x", "to": "s.c"}, ui=UUID)
    assert kinds(run(Replay(stored(tmp_path), begun_after=Ts(3, 1)), other, drop, came)) == ["rename-overlap"]


def test_renames_leave_indexes_behind(tmp_path: Path) -> None:
    replay = run(
        Replay(stored(tmp_path, 1, indexes=("x",))),
        entry(1, "c", "s.$cmd", {"renameCollection": "s.c", "to": "s.d"}, ui=UUID),
        entry(2, "c", "s.$cmd", {"createIndexes": "d", "v": 2, "key": {"y": 1}, "name": "y_1"}, ui=UUID),
    )
    assert [spec["name"] for spec in replay.catalog.missing_indexes("s.d", "s.d")] == ["x_1"]
    assert replay.catalog.phantoms() == ["s.c"]
    change = {"collMod": "d", "index": {"name": "x_1", "hidden": True}}
    again = run(replay, entry(3, "c", "s.$cmd", change, ui=UUID))
    assert (kinds(again), again.left_to_repair) == ([], [Ts(3, 1)])
    assert again.catalog.missing_indexes("s.d", "s.d")[0]["hidden"] is True
    both = entry(4, "c", "s.$cmd", change | {"validator": {}}, ui=UUID)
    assert kinds(run(replay, both)) == ["collmod-lost-index"]


INDEX = {"v": 2, "key": {"y": 1}, "name": "y_1"}
UNIQUE = ("prepareUnique", "unique")
"""What collMod sets one after the other on an index that becomes unique."""


@pytest.mark.parametrize(
    ("rows", "indexes", "options"),
    [
        ([{"createIndexes": "n"} | INDEX], ['{"key": {"y": 1}, "name": "y_1"}'], "{}"),
        (
            [{"createIndexes": "n"} | INDEX, {"collMod": "n", "index": {"name": "y_1", "hidden": True}}],
            ['{"hidden": true, "key": {"y": 1}, "name": "y_1"}'],
            "{}",
        ),
        (
            [
                {"commitIndexBuild": "n", "indexes": [INDEX]},
                {"collMod": "n", "index": {"keyPattern": {"y": 1}, "hidden": True}},
            ],
            ['{"hidden": true, "key": {"y": 1}, "name": "y_1"}'],
            "{}",
        ),
        (
            [
                {"createIndexes": "n"} | INDEX,
                *({"collMod": "n", "index": {"name": "y_1", "prepareUnique": on}} for on in (True, False)),
            ],
            ['{"key": {"y": 1}, "name": "y_1"}'],
            "{}",
        ),
        ([{"createIndexes": "n"} | INDEX, {"dropIndexes": "n", "index": "*"}], [], "{}"),
        (
            [{"createIndexes": "n"} | INDEX, {"dropIndexes": "n", "index": "y_2"}],
            ['{"key": {"y": 1}, "name": "y_1"}'],
            "{}",
        ),
        ([{"collMod": "n", "cappedSize": 257, "cappedMax": 7}], [], '{"size": 512, "max": 7}'),
        ([{"collMod": "n", "expireAfterSeconds": 60}], [], '{"expireAfterSeconds": 60}'),
        ([{"collMod": "n", "expireAfterSeconds": 60}, {"collMod": "n", "expireAfterSeconds": "off"}], [], "{}"),
    ],
)
def test_commands_change_what_the_spare_must_have(rows: list[dict[str, Any]], indexes: list[str], options: str) -> None:
    commands = [entry(2 + n, "c", "s.$cmd", row, ui=OTHER) for n, row in enumerate(rows)]
    replay = run(Replay({}), entry(1, "c", "s.$cmd", {"create": "n"}, ui=OTHER), *commands)
    (made,) = expect(replay.catalog, read_base({}, replay.catalog))
    of_ids = '{"key": {"_id": 1}, "name": "_id_"}'
    assert (list(made.indexes), made.options, made.repair) == (sorted([of_ids, *indexes]), options, ())
    assert not replay.problems


def test_an_index_that_becomes_unique_is_built_by_the_repair() -> None:
    """The list of mongorestore would keep ``prepareUnique``, and a server builds no index with both."""
    rows = {"createIndexes": "n"} | INDEX, *({"collMod": "n", "index": {"name": "y_1", one: True}} for one in UNIQUE)
    commands = [entry(2 + n, "c", "s.$cmd", row, ui=OTHER) for n, row in enumerate(rows)]
    replay = run(Replay({}), entry(1, "c", "s.$cmd", {"create": "n"}, ui=OTHER), *commands)
    left = [Ts(3, 1), Ts(4, 1)]
    assert (replay.problems, replay.left_to_repair, replay.catalog.builds_indexes) == ([], left, False)
    assert replay.catalog.missing_indexes("s.n", "s.n") == [INDEX | {"unique": True}]


def test_a_view_is_expected_as_it_was_written_last() -> None:
    views = [
        entry(2 + n, op, "s.system.views", {"_id": "s.v", "viewOn": on, "pipeline": []}, o2={"_id": "s.v"})
        for n, (op, on) in enumerate((("i", "a"), ("u", "b")))
    ]
    replay = run(Replay({}), *views)
    (view,) = expect(replay.catalog, read_base({}, replay.catalog))
    assert (view.ns, view.kind, view.options) == ("s.v", "view", '{"viewOn": "b", "pipeline": []}')
    gone = run(replay, entry(9, "d", "s.system.views", {"_id": "s.v"}))
    assert expect(gone.catalog, read_base({}, gone.catalog)) == ()


@pytest.mark.parametrize(
    ("ns", "reported"),
    [
        ("admin.system.users", {"users"}),
        ("admin.system.roles", {"users"}),
        ("admin.own", {"admin-collections"}),
        ("admin.system.keys", set()),
        ("config.system.users", set()),
    ],
)
def test_what_is_left_out_of_the_spare_is_reported(ns: str, reported: set[str]) -> None:
    replay = run(Replay({}), insert(1, 1, ns))
    assert (replay.kinds, replay.entries) == (reported, 0)


def test_the_order_of_the_oplog_is_not_taken_on_trust(tmp_path: Path) -> None:
    assert kinds(run(Replay(stored(tmp_path)), insert(5, 1), insert(4, 2))) == ["order"]
    assert kinds(run(Replay(stored(tmp_path)), insert(5, 1), insert(5, 2))) == ["order"]
    assert kinds(run(Replay(stored(tmp_path)), insert(5, 1), insert(6, 2, t=Int64(0)))) == ["order"]


def test_loss_unfolds_what_takes_effect_after_the_point(tmp_path: Path) -> None:
    txn = {"lsid": {"id": 1}, "txnNumber": Int64(1)}
    inner = [{"op": "d", "ns": "s.c", "o": {"_id": n}} for n in range(4)]
    begun = entry(1, "c", "admin.$cmd", {"applyOps": inner[:2], "partialTxn": True}, prevOpTime=FIRST, **txn)
    ended = entry(3, "c", "admin.$cmd", {"applyOps": inner[2:], "count": 4},
                  prevOpTime={"ts": Timestamp(1, 1), "t": Int64(1)}, **txn)  # fmt: skip
    loss = LossCount()
    assert begun.txn is not None
    sink = after_point(loss)
    sink.transactions.begin(begun.txn, [begun])
    for row in (insert(2, 1), ended, entry(4, "n", "", {})):
        sink.feed(row)
    assert [(row.ns, row.inserts, row.deletes) for row in loss.losses()] == [("s.c", 1, 4)]


def test_a_transaction_with_a_hole_is_not_applied(tmp_path: Path) -> None:
    txn = {"lsid": {"id": 1}, "txnNumber": Int64(1)}
    inner = {"applyOps": [{"op": "i", "ns": "s.c", "o": {"_id": 1}}]}
    begun = entry(1, "c", "admin.$cmd", inner | {"partialTxn": True}, prevOpTime=FIRST, **txn)
    ended = entry(3, "c", "admin.$cmd", inner, prevOpTime={"ts": Timestamp(2, 1), "t": Int64(1)}, **txn)
    assert run(Replay(stored(tmp_path)), begun, ended).applied == 0


def test_what_was_renamed_away_is_explained(tmp_path: Path) -> None:
    rename = entry(2, "c", "s.$cmd", {"renameCollection": "s.gone", "to": "s.c", "dropTarget": UUID}, ui=OTHER)
    written = insert(1, 1, "s.gone", ui=OTHER)
    assert "base-incomplete" not in kinds(run(Replay(stored(tmp_path)), written, rename))


def test_a_delete_on_a_collection_that_is_gone_is_applied(tmp_path: Path) -> None:
    replay = run(Replay(stored(tmp_path)), delete(1, 1, "s.gone"))
    assert (replay.applied, replay.on_missing_collection, kinds(replay)) == (1, {}, [])


def test_only_some_of_config_is_applied(tmp_path: Path) -> None:
    inner = [{"op": "u", "ns": ns, "o": {"$set": {}}, "o2": {"_id": 1}} for ns in ("config.transactions", "s.c")]
    inner += [{"op": "d", "ns": "config.settings", "o": {"_id": n}} for n in range(2)]
    replay = run(Replay(stored(tmp_path, 1)), entry(1, "c", "admin.$cmd", {"applyOps": inner}))
    assert replay.applied == 1 + 3, "the group, s.c and twice config.settings"


def test_a_change_of_feature_compatibility_in_the_window_is_refused(tmp_path: Path) -> None:
    o, o2 = {"$v": 2, "diff": {"u": {"version": "5.0"}}}, {"_id": "featureCompatibilityVersion"}
    assert kinds(run(Replay(stored(tmp_path)), entry(1, "u", "admin.system.version", o, o2=o2))) == ["fcv-change"]
    assert kinds(run(Replay(stored(tmp_path)), entry(1, "u", "admin.system.version", o, o2={"_id": "x"}))) == []


@pytest.mark.parametrize("in_memory", [1, 3, 1_000])
def test_documents_are_counted_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(id_states, "IN_MEMORY", in_memory)
    base = stored(tmp_path, 1, 2, 3)
    window = (
        insert(1, 10), update(2, 10), update(3, 1), update(4, 50), update(5, 50), update(6, 60), delete(7, 60),
        delete(8, 2), insert(9, 2), update(10, 2), delete(11, 70), insert(12, 11), delete(13, 11), insert(14, 70),
        update(15, 80), delete(16, 80), delete(17, 71), delete(18, 72), insert(19, 80),
    )  # fmt: skip
    replay = run(Replay(base, upserts=False), *window)
    assert (replay.catalog.ids.rows is not None) == (in_memory < 10)
    found = read_base(base, replay.catalog)
    assert found.documents == {"s.c": 7}, "1, 2, 3, 10, 50, 70 and 80"
    assert found.missing == {"s.c": 1}, "50"
    assert found.dead_updates == [Ts(6, 1)], "60"
    assert found.largest == {"s.c": 80}


def test_an_aborted_transaction_is_neither_applied_nor_open(tmp_path: Path) -> None:
    txn = {"lsid": {"id": 1}, "txnNumber": Int64(1)}
    inner = {"applyOps": [{"op": "i", "ns": "s.c", "o": {"_id": 1}}], "prepare": True}
    link = {"ts": Timestamp(1, 1), "t": Int64(1)}
    begun = entry(1, "c", "admin.$cmd", inner, prevOpTime=FIRST, **txn)
    replay = run(
        Replay(stored(tmp_path)), begun, entry(2, "c", "admin.$cmd", {"abortTransaction": 1}, prevOpTime=link, **txn)
    )
    assert (replay.applied, replay.open_transactions()) == (0, [])
    replay = run(
        Replay(stored(tmp_path)), begun, entry(2, "c", "admin.$cmd", {"commitTransaction": 1}, prevOpTime=link, **txn)
    )
    assert (replay.applied, replay.open_transactions()) == (1, [])


def test_a_batch_of_retryable_inserts_is_no_transaction(tmp_path: Path) -> None:
    inner = {"applyOps": [{"op": "i", "ns": "s.c", "o": {"_id": n}} for n in range(2)]}
    earlier = {"ts": Timestamp(1, 1), "t": Int64(1)}
    batch = entry(2, "c", "admin.$cmd", inner, lsid={"id": 1}, txnNumber=Int64(1), multiOpType=1, prevOpTime=earlier)
    replay = run(Replay(stored(tmp_path)), batch)
    assert (replay.applied, replay.unlinked, replay.open_transactions()) == (3, {}, [])


@pytest.mark.parametrize(
    ("options", "row", "plain"),
    [
        ({}, {"create": "n"}, True),
        ({"validator": {}}, {"create": "n"}, False),
        ({"recordIdsReplicated": True}, {"create": "n"}, False),
        ({"recordIdsReplicated": False}, {"create": "n"}, True),
        ({}, {"create": "n", "validator": {}}, False),
        ({}, {"create": "n", "recordIdsReplicated": True}, False),
        ({}, {"collMod": "c", "cappedMax": 1}, False),
        ({}, {"dropIndexes": "c", "index": "x"}, True),
    ],
)
def test_older_tools_replay_what_has_no_validator_and_no_changed_collection(
    options: dict[str, Any], row: dict[str, Any], plain: bool
) -> None:
    held = {"s.c": StoredCollection("s.c", "collection", None, options, ())}
    assert run(Replay(held), entry(1, "c", "s.$cmd", row, ui=UUID)).is_plain is plain


@pytest.mark.parametrize("batched", [True, False])
def test_a_window_is_counted_alike_however_it_is_read(tmp_path: Path, batched: bool) -> None:
    def usual(second: int, op: str, number: int, ns: str = "s.c", term: int = 1) -> dict[str, Any]:
        what = {"o": {"$v": 2, "diff": {}}, "o2": {"_id": number}} if op == "u" else {"o": {"_id": number}}
        place = {
            "ts": Timestamp(second, 1),
            "t": Int64(term),
            "v": Int64(2),
            "wall": datetime(2026, 11, 20, tzinfo=UTC),
        }
        return {"op": op, "ns": ns, "ui": UUID, **what, **place}

    rows = [
        usual(5, "i", 7), usual(6, "u", 7), usual(7, "d", 1), usual(8, "i", 9, "config.x"), usual(9, "i", 9, "admin.x"),
        usual(10, "i", 9, "s.system.js"), usual(11, "i", 9, "s.gone"), usual(12, "u", 8, term=2), usual(13, "i", 3),
        usual(13, "i", 4), usual(14, "u", 2, term=1), usual(15, "d", 2, term=2),
    ]  # fmt: skip
    without = frozenset({Ts(15, 1)})
    replay = Replay(stored(tmp_path, 1, 2), without=without, upserts=False)
    held = [bson.encode(row) for row in rows]
    if batched:
        for one in BatchWalker(replay).walk(b"".join(held)):
            replay.feed(one)
    else:
        for raw in held:
            replay.feed(read_entry(raw))
    counted = rows[0], rows[1], rows[2], rows[7], rows[8], rows[9], rows[10]
    assert (replay.applied, replay.entries) == (7, 7)
    assert replay.bytes == sum(len(bson.encode(row)) for row in counted)
    assert (replay.first, replay.last) == (Ts(5, 1), Ts(14, 1))
    assert [(problem.kind, problem.ts) for problem in replay.problems] == [("order", Ts(13, 1))] * 2
    touched = replay.catalog.collections["s.c"].touched
    assert touched is not None
    assert touched.existing() == 5
    assert sorted(touched.update_only()) == [(True, [Ts(12, 1).number]), (True, [Ts(14, 1).number])]


def test_the_indexes_of_a_time_series_are_as_its_user_defines_them() -> None:
    """The oplog has them as they are built on the buckets; a dump has not."""
    within = {"m.s": {"$gt": 1}}
    typed = [
        {"key": {"m.s": 1, "at": -1}, "name": "dumped"},
        {"key": {"at": 1}, "name": "time"},
        {"key": {"m.control.min.x": 1, "m": -1, "at": -1}, "name": "meta"},
        {"key": {"at": 1}, "name": "ttl", "partialFilterExpression": within, "expireAfterSeconds": 60},
    ]
    bucket = {"control.min.at": 1, "control.max.at": 1}
    stored = [
        {"key": bucket, "name": "time"},
        {"key": {"meta.control.min.x": 1, "meta": -1, "control.max.at": -1, "control.min.at": -1}, "name": "meta"},
        {"key": bucket, "name": "ttl", "expireAfterSeconds": 60, "originalSpec": typed[3]},
    ]
    options = {"timeseries": {"timeField": "at", "metaField": "m"}}
    held = {"s.t": StoredCollection("s.t", "timeseries", None, options, (typed[0],), "")}
    commands = (entry(n, "c", "s.$cmd", {"createIndexes": "system.buckets.t", **one}) for n, one in enumerate(stored))
    replay = run(Replay(held), *commands)
    (made,) = expect(replay.catalog, read_base({}, replay.catalog))
    assert made.indexes == tuple(sorted(map(canonical_index, typed)))


HELD = {"key": {"m.s": 1, "at": -1}, "name": "held"}
ON_BUCKETS = {"meta.s": 1, "control.max.at": -1, "control.min.at": -1}
PART = {"name": "part", "partialFilterExpression": {"m.s": 1}, "key": {"at": 1}, "v": 2}
PART_ON_BUCKETS = {"name": "part", "key": {"control.min.at": 1, "control.max.at": 1}, "originalSpec": PART}


@pytest.mark.parametrize("running", [False, True])
@pytest.mark.parametrize(
    ("rows", "missing", "surplus"),
    [
        ([{"createIndexes": "", "name": "held", "key": ON_BUCKETS}], [], []),
        ([{"commitIndexBuild": "", "indexes": [PART_ON_BUCKETS, {"name": "held", "key": ON_BUCKETS}]}], [], []),
        ([{"commitIndexBuild": "", "indexes": []}], [], []),
        ([{"createIndexes": "", "name": "new", "key": {"meta": 1}}], [{"name": "new", "key": {"m": 1}}], []),
        ([{"dropIndexes": "", "index": "held"}], [], ["held"]),
        ([{"deleteIndexes": "", "index": "*"}], [], ["held", "part"]),
        ([{"dropIndexes": "", "index": "held"}, {"createIndexes": "", "name": "held", "key": ON_BUCKETS}], [], []),
        ([{"dropIndexes": "", "index": "held"}, {"createIndexes": "", "name": "held", "key": {"meta": 1}}],
         [{"name": "held", "key": {"m": 1}}], ["held"]),
        ([{"dropIndexes": "", "index": "held"}, {"createIndexes": "", "name": "other", "key": ON_BUCKETS}],
         [HELD | {"name": "other"}], ["held"]),
        ([{"collMod": "", "index": {"name": "held", "hidden": True}}], [HELD | {"hidden": True}], ["held"]),
        ([{"collMod": "", "index": {"name": "held", "hidden": False}}], [], []),
    ],
)  # fmt: skip
def test_indexes_of_a_time_series_are_left_to_the_repair(
    rows: list[dict[str, Any]], missing: list[dict[str, Any]], surplus: list[str], running: bool
) -> None:
    """mongorestore does not know those of the oplog for those of the metadata: it would build both, and stop."""
    options = {"timeseries": {"timeField": "at", "metaField": "m"}}
    series = StoredCollection("s.t", "timeseries", None, options, (HELD, PART), "")
    body = [{next(iter(row)): "system.buckets.t", **dict(list(row.items())[1:])} for row in rows]
    replay = run(Replay({"s.t": series}, running=running), *(entry(n, "c", "s.$cmd", o) for n, o in enumerate(body, 1)))
    assert replay.left_to_repair == [Ts(n, 1) for n in range(1, len(rows) + 1)]
    assert (replay.applied, replay.entries, kinds(replay)) == (0, 0, [])
    catalog, names = replay.catalog, ("s.t", "s.system.buckets.t")
    assert catalog.builds_indexes is (running or not surplus)
    if not catalog.builds_indexes:
        missing = [spec for spec in (HELD, PART) if spec["name"] not in surplus] + missing
    by_name = {spec["name"]: spec for spec in missing}
    assert {spec["name"]: spec for spec in catalog.missing_indexes(*names)} == by_name
    assert catalog.surplus_indexes(names[1]) == (surplus if running else [])
    (made,) = expect(catalog, read_base({}, catalog))
    exact = {"locale": "simple"}
    built = [one if one == PART else one | {"collation": exact} for one in catalog.missing_indexes(*names)]
    assert [json_util.loads(one) for one in made.repair] == built
    assert catalog.phantoms() == []


def test_other_commands_are_replayed() -> None:
    options = {"timeseries": {"timeField": "at", "metaField": "m"}}
    series = StoredCollection("s.t", "timeseries", None, options, (HELD,), "")
    held = {"s.t": series, "s.c": StoredCollection("s.c", "collection", None, {}, (HELD,), "")}
    both = {"collMod": "system.buckets.t", "index": {"name": "held", "hidden": True}, "expireAfterSeconds": 60}
    for o, found in (
        ({"createIndexes": "c", "name": "x", "key": {"x": 1}}, []),
        ({"dropIndexes": "c", "index": "held"}, []),
        ({"createIndexes": "gone", "name": "x", "key": {"x": 1}}, []),
        ({"collMod": "system.buckets.t", "expireAfterSeconds": 60}, []),
        (both, ["collmod-lost-index"]),
        ({"createIndexes": "system.buckets.t", "name": "x", "spec": {}}, ["unknown-command"]),
    ):
        replay = run(Replay(held), entry(1, "c", "s.$cmd", o))
        left_out = found == ["unknown-command"]
        assert (kinds(replay), len(replay.left_to_repair), replay.applied) == (found, left_out, not left_out), o
