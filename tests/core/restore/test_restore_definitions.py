"""What was changed about indexes is handed over as commands, exact, and as words where no command is safe."""

from __future__ import annotations

from typing import Any

import pytest
from bson.datetime_ms import DatetimeMS

from tallyglass.errors import PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.restore.model.undo import Return, Strategy
from tallyglass.restore.proof.catalog import Catalog
from tallyglass.restore.proof.definitions import Definitions, find_definitions
from tallyglass.restore.undo.changed import Changed

ID = {"v": 2, "key": {"_id": 1}, "name": "_id_"}
BY_V = {"v": 2, "key": {"v": 1}, "name": "v", "expireAfterSeconds": 60}


class Live:
    """The live set: one collection."""

    def __init__(self, indexes: list[dict[str, Any]] | None, options: dict[str, Any]) -> None:
        self.indexes, self.options = indexes, options

    async def list_indexes(self, ns: Namespace) -> list[dict[str, Any]]:
        if self.indexes is None:
            raise PrivilegeError("listIndexes is refused.")
        return self.indexes

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        other = CollectionInfo(Namespace(db, "other"), "collection", {"validator": {"x": 1}})
        return [other, CollectionInfo(Namespace(db, "c"), "collection", self.options)]


async def find(
    now: list[dict[str, Any]],
    at_point: list[dict[str, Any]],
    *,
    options: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
    incident: Incident | None = None,
    returns: tuple[Return, ...] = (),
) -> Definitions:
    catalog = Catalog({})
    catalog.create("s.c", b"1", dict(options[0]), ID)
    catalog.collections["s.c"].indexes |= {one["name"]: one for one in at_point}
    gateway: Gateway = Live([ID, *now], options[1])  # type: ignore[assignment]
    return await find_definitions(gateway, catalog, {"s.c": Changed(commands=1)}, frozenset({"s.c"}), incident, returns)


def what(kind: str, ns: str) -> Incident:
    return Incident(1, kind, kind, ns, Harm.LOSS, Ts(5, 1), Ts(6, 1), None, None, 1, None)


@pytest.mark.parametrize(
    ("now", "at_point", "statement", "word"),
    [
        ([BY_V], [BY_V], "", ""),
        ([BY_V, {"v": 2, "key": {"w": 1}, "name": "since"}], [BY_V], "", ""),
        (
            [],
            [BY_V],
            'await mustExist("s.c"); must(await db.getSiblingDB("s").runCommand({"createIndexes": "c", '
            '"indexes": [{"v": NumberInt(2), "key": {"v": NumberInt(1)}, ',
            "",
        ),
        ([BY_V | {"expireAfterSeconds": 5}], [BY_V], '"index": {"name": "v", "expireAfterSeconds": NumberInt(60)}', ""),
        ([BY_V | {"hidden": True}], [BY_V], '"index": {"name": "v", "hidden": false}', ""),
        ([BY_V | {"unique": True}], [BY_V], "", "it differs now"),
        ([{"v": 2, "key": {"v": 1}, "name": "v"}], [BY_V], "", "it differs now"),
        ([BY_V | {"name": "other"}], [BY_V], "", "under another name now"),
        ([], [BY_V | {"key": {"b": 1, "1": 1}}], 'new Map([["b", NumberInt(1)], ["1", NumberInt(1)]])', ""),
        ([], [BY_V | {"partialFilterExpression": {"at": {"$lt": DatetimeMS(2**62)}}}], "", "has no literal for it"),
    ],
)
async def test_each_difference(now: list[Any], at_point: list[Any], statement: str, word: str) -> None:
    found = await find(now, at_point)
    assert len(found.statements) == (1 if statement else 0)
    assert len(found.by_hand) == (1 if word else 0)
    assert all(statement in one for one in found.statements)
    assert all(word in one for one in found.by_hand)


async def test_a_validator() -> None:
    found = await find([], [], options=({"validator": {"n": {"$gte": 0}}}, {"validationAction": "warn"}))
    assert found.statements == (
        'must(await db.getSiblingDB("s").runCommand({"collMod": "c", "validator": {"n": {"$gte": NumberInt(0)}}, '
        '"validationLevel": "strict", "validationAction": "error", "writeConcern": {"w": "majority"}}));',
    )


@pytest.mark.parametrize(
    ("live", "unexplained"), [([ID, BY_V], ()), ([ID], ("s.c",)), ([], ()), (None, ())],
    ids=["as expected", "missing", "unknown", "refused"],
)  # fmt: skip
async def test_indexes_that_no_command_changed_are_those_of_the_point(
    live: list[dict[str, Any]] | None, unexplained: tuple[str, ...]
) -> None:
    catalog = Catalog({})
    catalog.create("s.c", b"1", {}, ID)
    catalog.collections["s.c"].indexes["v"] = BY_V
    gateway: Gateway = Live(live, {})  # type: ignore[assignment]
    found = await find_definitions(gateway, catalog, {}, frozenset({"s.c"}), None, ())
    assert found == Definitions(unexplained=unexplained)


async def test_what_is_no_collection_of_the_application_is_not_compared() -> None:
    catalog = Catalog({})
    for ns, options in (("config.c", {}), ("s.gone", {}), ("s.system.buckets.t", {"timeseries": {}})):
        catalog.create(ns, b"1", options, ID)
        catalog.collections[ns].indexes["v"] = BY_V
    gateway: Gateway = Live([ID], {})  # type: ignore[assignment]
    live = frozenset({"config.c", "s.system.buckets.t"})
    for changed in ({}, dict.fromkeys(catalog.collections, Changed(commands=1))):
        assert await find_definitions(gateway, catalog, changed, live, None, ()) == Definitions()


async def test_only_what_the_incident_changed_and_what_stays_live() -> None:
    assert (await find([], [BY_V], incident=what("dropIndexes", "s.c"))).statements
    assert not (await find([], [BY_V], incident=what("dropIndexes", "s.other"))).statements
    assert not (await find([], [BY_V], incident=what("deleteMany", "s.c"))).statements
    assert not (await find([], [BY_V], returns=(Return("s.c", Strategy.REPLACE, "s.c_pitr"),))).statements
