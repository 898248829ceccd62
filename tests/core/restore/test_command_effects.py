"""What each command of the oplog changes in the catalog, and what of it a check must report."""

from __future__ import annotations

from typing import Any

import pytest
from bson import Binary

from builders.replay import NEITHER, OTHER, UUID, entry
from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry
from tallyglass.restore.backup.backup import StoredCollection
from tallyglass.restore.proof.catalog import Catalog
from tallyglass.restore.proof.command_effects import Commands
from tallyglass.restore.timeline.timeline import Removal

ID = {"v": 2, "key": {"_id": 1}, "name": "_id_"}
BY_X = {"v": 2, "key": {"x": 1}, "name": "x_1"}
BY_Y = {"v": 2, "key": {"y": 1}, "name": "y_1"}


class Applied:
    """A backup with ``s.c``, on which commands took effect."""

    def __init__(self, *rows: dict[str, Any], running: bool = False, index: dict[str, Any] = BY_X) -> None:
        held = StoredCollection("s.c", "collection", None, {"size": 1}, (ID, index), bytes(UUID).hex())
        self.catalog = Catalog({"s.c": held}, running=running)
        self.kinds: set[str] = set()
        self.told: list[tuple[str, str, Ts]] = []
        self.commands = Commands(self.catalog, self.kinds, self.tell, running=running)
        for number, row in enumerate(rows, start=1):
            o = {name: value for name, value in row.items() if name != "ui"}
            self.commands.apply(entry(number, "c", "s.$cmd", o, ui=row.get("ui", UUID), o2={"numRecords": 9}))

    def tell(self, kind: str, text: str, entry: Entry) -> None:
        self.told.append((kind, text, entry.ts))

    def options(self, ns: str) -> dict[str, Any]:
        return self.catalog.collections[ns].options

    def indexes(self, ns: str) -> tuple[list[str], list[str]]:
        """Those that the collection must have, and those that mongorestore builds."""
        return list(self.catalog.collections[ns].indexes), list(self.catalog.listed.get(ns, {}))


@pytest.mark.parametrize(
    ("row", "kinds", "told"),
    [
        ({"create": "n"}, set(), None),
        ({"create": "n", "validator": {"x": 1}}, {"validators"}, None),
        ({"create": "n", "recordIdsReplicated": True}, {"recordIds"}, None),
        ({"create": "n", "recordIdsReplicated": False}, set(), None),
        ({"create": "v", "viewOn": "c", "pipeline": []}, {"views"}, None),
        ({"create": "system.buckets.t", "timeseries": {}}, {"timeseries"}, None),
        ({"create": "t", "timeseries": {}}, {"timeseries"}, ("viewless-timeseries", "s.t is created at 1:1")),
        ({"drop": "c"}, set(), None),
        ({"dropDatabase": 1}, set(), None),
        ({"renameCollection": "s.c", "to": "s.d"}, {"rename"}, None),
        ({"renameCollection": "s.tmp1", "to": "s.c"}, {"out"}, None),
        ({"createIndexes": "c"} | BY_Y, set(), None),
        (
            {"createIndexes": "c", "spec": BY_Y}, set(),
            ("unknown-command", "createIndexes with a spec (8.2) at 1:1"),
        ),
        (
            {"commitIndexBuild": "c", "indexes": [{"name": "z"}]}, set(),
            ("unknown-command", "commitIndexBuild of an unknown form at 1:1"),
        ),
        ({"commitIndexBuild": "c", "indexes": "z"}, set(), None),
        ({"dropIndexes": "c", "index": "x_1"}, {"dropIndexes"}, None),
        ({"deleteIndexes": "c", "index": "*"}, {"dropIndexes"}, None),
        ({"collMod": "c", "validator": {}}, {"collMod", "validators"}, None),
        ({"collMod": "n", "validator": {}}, {"collMod"}, None),
        ({"collMod": "c", "index": {"name": "x_1", "hidden": True}}, {"collMod"}, None),
        (
            {"collMod": "c", "index": {"name": "z_1", "hidden": True}}, {"collMod"},
            ("collmod-lost-index", "collMod of s.c at 1:1 names an index it will not find"),
        ),
        ({"collMod": "c", "index": {"name": "x_1", "unique": True}}, {"collMod"}, None),
        (
            {"collMod": "c", "index": {"name": "x_1", "unique": True}, "expireAfterSeconds": 5}, {"collMod"},
            ("unknown-command", "collMod changes an index of s.c at 1:1 as the tools cannot repeat"),
        ),
        (
            {"convertToCapped": "c"}, set(),
            ("unknown-command", "convertToCapped at 1:1, in the form of servers before 4.4"),
        ),
        ({"emptycapped": "c"}, set(), None),
        ({"dbCheck": "c"}, set(), None),
        ({"makeTea": 1}, set(), ("unknown-command", "makeTea at 1:1")),
    ],
)  # fmt: skip
def test_what_a_check_must_report_of_a_command(
    row: dict[str, Any], kinds: set[str], told: tuple[str, str] | None
) -> None:
    found = Applied(row)
    assert found.kinds == kinds
    assert found.told == ([(*told, Ts(1, 1))] if told else [])


def test_a_collection_is_made_with_its_options_and_once() -> None:
    found = Applied(
        {"create": "n", "idIndex": ID, "autoIndexId": True, "capped": True, "ui": OTHER},
        {"create": "n", "size": 5, "ui": NEITHER},
        {"create": "v", "viewOn": "c", "pipeline": []},
    )
    made = found.catalog.collections["s.n"]
    assert (made.kind, made.uuid, made.options) == ("collection", bytes(OTHER), {"capped": True})
    assert made.indexes == {"_id_": ID}
    assert found.catalog.views == {"s.v": {"viewOn": "c", "pipeline": []}}


@pytest.mark.parametrize(
    ("options", "indexes"),
    [
        ({"idIndex": ID | {"v": 1}}, {"_id_": ID | {"v": 1}}),
        ({}, {"_id_": ID}), ({"autoIndexId": True}, {"_id_": ID}),
        ({"autoIndexId": False}, {}), ({"clusteredIndex": {"key": {"_id": 1}}}, {}), ({"clusteredIndex": True}, {}),
    ],
)  # fmt: skip
def test_a_collection_has_an_index_of_its_ids_named_or_not(options: dict[str, Any], indexes: dict[str, Any]) -> None:
    """What a user creates with applyOps names none, and the server builds it."""
    assert Applied({"create": "n"} | options).catalog.collections["s.n"].indexes == indexes


def test_indexes_are_those_of_the_collection_and_those_that_are_built() -> None:
    found = Applied(
        {"createIndexes": "c"} | BY_Y,
        {"dropIndexes": "c", "index": {"x": 1}},
        {"createIndexes": "gone", "ui": OTHER} | BY_X,
    )
    assert found.indexes("s.c") == (["_id_", "y_1"], ["y_1"])
    assert found.catalog.listed["s.gone"] == {"x_1": BY_X}
    assert found.catalog.reindexed == {bytes(UUID), bytes(OTHER)}
    assert Applied({"dropIndexes": "c", "index": "*"}).indexes("s.c") == (["_id_"], [])
    assert Applied({"dropIndexes": "c", "index": ["x_1"]}).indexes("s.c")[0] == ["_id_", "x_1"]
    both = Applied({"commitIndexBuild": "c", "indexes": [BY_Y, BY_X | {"name": "z_1"}]})
    assert both.indexes("s.c") == (["_id_", "x_1", "y_1", "z_1"], ["x_1", "y_1", "z_1"])


UNIQUE = BY_X | {"unique": True}
HIDDEN = {"collMod": "c", "index": {"name": "x_1", "hidden": True}}


@pytest.mark.parametrize(
    ("built", "row", "problem", "wanted", "surplus"),
    [
        (BY_X, {"dropIndexes": "c", "index": "x_1"}, "", [], ["x_1"]),
        (BY_X, {"deleteIndexes": "c", "index": "*"}, "", [], ["x_1"]),
        (UNIQUE, {"dropIndexes": "c", "index": "y_1"}, "", [UNIQUE], []),
        (UNIQUE, {"dropIndexes": "n", "index": "x_1"}, "", [UNIQUE], []),
        (BY_X, HIDDEN, "", [BY_X | {"hidden": True}], ["x_1"]),
        (BY_X, HIDDEN | {"validator": {}}, "collMod of s.c at 1:1 names an index it will not find",
         [BY_X | {"hidden": True}], ["x_1"]),
        (BY_X, {"collMod": "c", "index": {"name": "x_1", "unique": True}}, "", [UNIQUE], ["x_1"]),
        (BY_X | {"prepareUnique": True}, {"collMod": "c", "index": {"keyPattern": {"x": 1}, "unique": True}}, "",
         [UNIQUE], ["x_1"]),
    ],
)  # fmt: skip
def test_indexes_of_a_copy_that_runs_are_changed_by_the_repair(
    built: dict[str, Any], row: dict[str, Any], problem: str, wanted: list[dict[str, Any]], surplus: list[str]
) -> None:
    found = Applied(row, running=True, index=built)
    assert [text for _, text, _ in found.told] == ([problem] if problem else [])
    left = found.catalog.collections["s.c"].indexes
    assert [spec for name, spec in left.items() if name != "_id_"] == wanted
    found.catalog.end()
    assert (found.catalog.builds_indexes, found.catalog.surplus_indexes("s.c")) == (True, surplus)
    assert found.catalog.missing_indexes("s.c", "s.c") == (wanted if surplus else [])
    assert found.catalog.dropped_before == []


def test_a_unique_index_of_a_copy_that_runs_is_dropped_before_the_replay() -> None:
    """Under the name that its collection has by then: once it is gone, a value may be there twice."""
    moved = {"renameCollection": "s.c", "to": "s.d"}
    found = Applied(moved, {"dropIndexes": "d", "index": "x_1"}, {"dropIndexes": "d", "index": "*"},
                    running=True, index=UNIQUE)  # fmt: skip
    assert (found.told, found.catalog.dropped_before) == ([], [("s.c", "x_1")])
    found.catalog.end()
    assert (found.catalog.surplus_indexes("s.d"), found.catalog.missing_indexes("s.d", "s.d")) == ([], [])
    again = Applied({"dropIndexes": "c", "index": "x_1"}, {"createIndexes": "c"} | UNIQUE, running=True, index=UNIQUE)
    again.catalog.end()
    assert (again.indexes("s.c"), again.catalog.missing_indexes("s.c", "s.c")) == ((["_id_", "x_1"], ["x_1"]), [])
    assert Applied({"dropIndexes": "c", "index": "x_1"}, index=UNIQUE).catalog.dropped_before == []


@pytest.mark.parametrize(
    ("row", "running", "left"),
    [
        ({"dropIndexes": "c", "index": "x_1"}, True, True),
        ({"dropIndexes": "c", "index": "x_1"}, False, False),
        ({"dropIndexes": "n", "index": "x_1"}, True, False),
        ({"createIndexes": "c"} | BY_Y, True, False),
        ({"drop": "c"}, True, False),
        (HIDDEN, True, True),
        (HIDDEN, False, False),
        (HIDDEN | {"index": {"name": "x_1", "prepareUnique": True}}, False, True),
        (HIDDEN | {"index": {"name": "x_1", "expireAfterSeconds": 5}}, False, True),
        (HIDDEN | {"index": {"name": "ttl", "expireAfterSeconds": 5}}, False, False),
        (HIDDEN | {"index": {"keyPattern": {"y": 1}, "expireAfterSeconds": 5}}, False, False),
        (HIDDEN | {"index": {"name": "ttl", "expireAfterSeconds": 5, "hidden": True}}, False, True),
        (HIDDEN | {"index": {"name": "ttl"}}, False, True),
        (HIDDEN | {"index": {"name": "x_1", "unique": True}}, False, True),
        (HIDDEN | {"index": {"name": "y_1", "unique": True}}, False, False),
        (HIDDEN | {"index": "x_1"}, False, False),
        (HIDDEN | {"index": "x_1"}, True, False),
        (HIDDEN | {"validator": {}}, True, False),
        ({"collMod": "c", "validator": {}}, True, False),
    ],
)
def test_which_commands_are_left_to_the_repair(row: dict[str, Any], running: bool, left: bool) -> None:
    """A built one is not known to mongorestore; of those in its list it repeats another expiry, and ``hidden``."""
    ttl = {"createIndexes": "c"} | BY_Y | {"name": "ttl", "expireAfterSeconds": 9}
    commands = Applied(*([] if running else [ttl]), running=running).commands
    assert commands.is_left_to_repair(entry(1, "c", "s.$cmd", row, ui=UUID)) is left


def test_an_index_that_is_dropped_and_built_again_on_a_copy_is_not_listed_twice() -> None:
    found = Applied({"createIndexes": "c"} | BY_Y, {"dropIndexes": "c", "index": "*"}, running=True)
    assert found.indexes("s.c") == (["_id_"], ["y_1"]), "mongorestore is not given the drop"
    found.catalog.end()
    assert (found.catalog.builds_indexes, found.catalog.surplus_indexes("s.c")) == (False, ["x_1"])


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ({"cappedSize": 1}, {"size": 256}),
        ({"cappedSize": 256, "cappedMax": 3}, {"size": 256, "max": 3}),
        ({"cappedSize": 257, "cappedMax": -1}, {"size": 512, "max": 0}),
        ({"expireAfterSeconds": "off"}, {"size": 1, "expireAfterSeconds": None}),
        ({"expireAfterSeconds": 5}, {"size": 1, "expireAfterSeconds": 5}),
        ({"index": {"name": "x_1", "hidden": True}}, {"size": 1}),
    ],
)
def test_the_options_are_those_after_the_change(change: dict[str, Any], options: dict[str, Any]) -> None:
    found = Applied({"collMod": "c"} | change)
    assert found.options("s.c") == options
    hidden = {"hidden": True} if "index" in change else {}
    assert found.catalog.collections["s.c"].indexes["x_1"] == BY_X | hidden
    assert found.catalog.listed["s.c"]["x_1"] == BY_X | hidden


@pytest.mark.parametrize(
    ("rows", "overlaps", "there"),
    [
        ([{"renameCollection": "s.c", "to": "s.d"}], [], {"s.d": UUID}),
        ([{"renameCollection": "s.b", "to": "s.c"}], [], {"s.c": UUID}),
        (
            [{"renameCollection": "s.c", "to": "s.d", "ui": OTHER}],
            ["s.c became s.d at 1:1, while the backup was taken"], {"s.d": UUID},
        ),
        (
            [{"renameCollection": "s.b", "to": "s.d", "ui": OTHER}],
            ["s.b became s.d at 1:1, while the backup was taken"], {"s.c": UUID},
        ),
        (
            [{"renameCollection": "s.b", "to": "s.c", "ui": OTHER}],
            ["s.b became s.c at 1:1, while the backup was taken"], {"s.c": UUID},
        ),
    ],
)  # fmt: skip
def test_a_rename_moves_the_collection_that_it_was_about(
    rows: list[dict[str, Any]], overlaps: list[str], there: dict[str, Any]
) -> None:
    found = Applied(*rows)
    assert [(problem.kind, problem.text) for problem, _ in found.commands.overlaps] == [
        ("rename-overlap", text) for text in overlaps
    ]
    assert {ns: Binary(item.uuid, 4) for ns, item in found.catalog.collections.items()} == there


def test_a_dropped_database_takes_all_of_its_own() -> None:
    made = [{"create": "n", "ui": OTHER}, {"createIndexes": "gone"} | BY_Y, {"create": "v", "viewOn": "c"}]
    found = Applied(*made).catalog
    found.create("sx.c", b"x", {}, None)
    found.views["sx.v"] = {}
    found.listed["sx.c"] = {}
    assert found.phantoms() == ["s.gone"]
    found.drop_database("s")
    assert (set(found.collections), set(found.views), set(found.listed)) == ({"sx.c"}, {"sx.v"}, {"sx.c"})
    assert {item.uuid for item in found.removed} == {bytes(UUID), bytes(OTHER)}
    assert found.phantoms() == []


def test_the_indexes_that_mongorestore_does_not_build() -> None:
    found = Applied({"renameCollection": "s.c", "to": "s.d"}, {"createIndexes": "d"} | BY_Y).catalog
    found.end()
    assert (found.missing_indexes("s.d", "s.d"), found.phantoms(), found.leftovers) == ([BY_X], ["s.c"], [])
    running = Applied({"createIndexes": "c"} | BY_Y, running=True).catalog
    del running.listed["s.c"]
    running.end()
    assert (running.builds_indexes, running.missing_indexes("s.c", "s.c")) == (True, [BY_Y]), "the copy has the other"
    over = Applied({"create": "n"}, {"renameCollection": "s.n", "to": "s.c"}).catalog
    assert (over.leftovers, len(over.removed)) == (["s.tmp?????.rename"], 1)


RENAMED = {"renameCollection": "s.c", "to": "s.d"}
OVER = ({"create": "n"}, {"renameCollection": "s.n", "to": "s.c"})
VIEW = {"create": "c", "viewOn": "d", "pipeline": []}


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (OVER, []),
        ((*OVER, {"createIndexes": "c"} | BY_Y), [BY_Y]),
        ((*OVER, {"createIndexes": "c"} | BY_X), None),
        ((*OVER, {"createIndexes": "c"} | BY_X | {"unique": False, "ns": "s.c"}), None),
        ((*OVER, {"createIndexes": "c"} | BY_X, {"dropIndexes": "c", "index": "x_1"}), None),
        ((*OVER, {"dropIndexes": "c", "index": "x_1"}), None),
        (({"create": "n"}, {"createIndexes": "n"} | BY_X | {"unique": True}, OVER[1]), [BY_X | {"unique": True}]),
        ((RENAMED, VIEW), [BY_X]),
        ((RENAMED, VIEW, {"createIndexes": "d"} | BY_Y), [BY_X, BY_Y]),
        (({"dropIndexes": "c", "index": "x_1"}, RENAMED, VIEW), None),
        ((RENAMED,), None),
    ],
)  # fmt: skip
def test_mongorestore_builds_no_indexes_where_its_list_does_not_fit_what_has_the_name(
    rows: tuple[dict[str, Any], ...], wanted: list[dict[str, Any]] | None
) -> None:
    """It would stop, or build an index that does not belong there; what is empty by then takes any."""
    catalog = Applied(*rows).catalog
    catalog.end()
    assert catalog.builds_indexes is (wanted is None)
    if wanted is not None:
        (ns,) = {"s.c", "s.d"} & set(catalog.collections)
        assert (catalog.missing_indexes(ns, ns), catalog.phantoms()) == (wanted, [])
        assert catalog.surplus_indexes(ns) == []


@pytest.mark.parametrize(("uuid", "counted"), [(UUID, True), (OTHER, False)])
def test_a_drop_counts_the_documents_of_its_own_collection(uuid: Any, counted: bool) -> None:
    (dropped,) = Applied({"drop": "c", "ui": uuid}).catalog.removed
    assert dropped.removal == (Removal(bytes(UUID), "s.c", 9, Ts(1, 1)) if counted else None)


def test_an_emptied_collection_is_not_counted() -> None:
    assert Applied({"emptycapped": "c"}).catalog.collections["s.c"].touched is None
    assert Applied({"emptycapped": "n"}).catalog.collections["s.c"].touched is not None


@pytest.mark.parametrize("running", [False, True])
def test_an_index_of_a_time_series_that_was_dropped_is_not_built_from_the_metadata(running: bool) -> None:
    """It is listed under the name of the time series, and dropped under that of its buckets."""
    catalog = Catalog(
        {"s.t": StoredCollection("s.t", "timeseries", None, {"timeseries": {}}, (BY_X, BY_Y), "")}, running=running
    )
    commands = Commands(catalog, set(), lambda *_: None, running=running)
    catalog.end()
    assert catalog.builds_indexes
    commands.apply(entry(1, "c", "s.$cmd", {"dropIndexes": "system.buckets.t", "index": BY_Y["name"]}))
    catalog.end()
    surplus = catalog.surplus_indexes("s.system.buckets.t")
    assert (catalog.builds_indexes, surplus) == ((True, [BY_Y["name"]]) if running else (False, []))
    assert catalog.missing_indexes("s.t", "s.system.buckets.t") == ([] if running else [BY_X])
