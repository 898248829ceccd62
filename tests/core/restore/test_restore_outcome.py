"""The account of a return with little to count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import bson
import pytest
from bson import Binary, Int64, ObjectId, Regex, json_util
from bson.datetime_ms import DatetimeMS

from builders.history import Server as WithOplog
from builders.history import entry
from builders.plan_folder import plan, step
from builders.plans import changed
from tallyglass.errors import PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway, Namespace
from tallyglass.restore.backup.bson_file import id_key
from tallyglass.restore.model.indexes import canonical_index
from tallyglass.restore.model.proof import ExpectedNamespace, Loss, Reissue
from tallyglass.restore.model.undo import Accident, Choice, Return, Strategy
from tallyglass.restore.undo import outcome as outcome_module
from tallyglass.restore.undo import outcome_of_repairs
from tallyglass.restore.undo.account import DocumentState
from tallyglass.restore.undo.history_file import history_file
from tallyglass.restore.undo.judgement import Judgement
from tallyglass.restore.undo.let_go import let_go
from tallyglass.restore.undo.null_id import NOT_EXACT, own_write
from tallyglass.restore.undo.outcome import account, is_complete, undecided
from tallyglass.restore.undo.outcome_of_repairs import account_for_repairs
from tallyglass.restore.undo.outcome_rows import Damaged, NamespaceOutcome, id_json


class Server:
    """A server with these collections, all of them empty."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        return [CollectionInfo(Namespace(db, name), "collection", {}) for name in self.names]

    async def list_indexes(self, ns: Namespace) -> list[dict[str, Any]]:
        return []

    async def find_raw(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
        return
        yield b""


@pytest.mark.parametrize(
    ("document", "exact"),
    [
        ({"n": 5.0, "zero": -0.0, "l": Int64(5), "d": {"$x": [1, {"a.b": None}]}, "r": Regex("x", "i")}, True),
        ({"at": DatetimeMS(2**62)}, False),
        ({"b": 1, "1": 2}, False),
        ({"d": [{"__proto__": 1}]}, False),
        ({"d": {"$oid": "0" * 24}}, False),
    ],
)
def test_a_document_whose_id_is_null_is_written_exactly_or_not_at_all(document: dict[str, Any], exact: bool) -> None:
    raw = bson.encode({"_id": None} | document)
    line = own_write("s.c", None, raw)
    assert (line is not None) is exact
    if line is not None:
        assert bson.encode(json_util.loads(line)["wanted"]) == raw
    broken = bson.encode({"_id": None, "s": "x\x01y"}).replace(b"\x01y", b"\xffy")
    assert own_write("s.c", broken, raw) is None


@pytest.mark.parametrize(("live", "back"), [(("c",), True), ((), False)])
async def test_an_empty_collection_comes_back_or_does_not(live: tuple[str, ...], back: bool) -> None:
    made = changed(
        plan(step("true")), returns=(Return("s.c", Strategy.WHOLE, "s.c_pitr"),),
        expected=(ExpectedNamespace("s.c", "collection", 0, options="{}"),),
    )  # fmt: skip
    source, spare = (cast("Gateway", Server(*names)) for names in (live, ("c",)))
    (found,) = [row async for row in account(source, spare, made, {})]
    assert (found.empty, [one.why for one in found.damaged]) == (back, [] if back else ["The collection is not there."])


class Held(Server):
    """A server with these documents by collection, one index beside that of ``_id``, and these options."""

    def __init__(self, options: dict[str, Any], **documents: list[int]) -> None:
        super().__init__(*documents)
        self.options, self.documents = options, documents

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        kinds = {"v": "view", "t": "timeseries"}
        return [CollectionInfo(Namespace(db, name), kinds.get(name, "collection"), self.options) for name in self.names]

    async def list_indexes(self, ns: Namespace) -> list[dict[str, Any]]:
        assert ns.collection != "v", "it has none of its own"
        return [{"v": 2, "key": {"_id": 1}, "name": "_id_"}, {"v": 2, "key": {"a": 1}, "name": "a_1"}]

    async def find_raw(self, ns: Namespace, query: Any, **_: Any) -> AsyncIterator[bytes]:
        if ns.db == "local":
            yield bson.encode(entry(0, "n", {}))
            return
        wanted = query["_id"]["$in"] if "_id" in query else self.documents.get(ns.collection, ())
        for id_ in self.documents.get(ns.collection, ()):
            if id_ in wanted:
                yield bson.encode({"_id": id_})


INDEXES = ({"key": {"_id": 1}, "name": "_id_"}, {"key": {"a": 1}, "name": "a_1"}, {"key": {"b": 1}, "name": "b_1"})
EXPECTED = ExpectedNamespace("s.c", "collection", 3, tuple(map(canonical_index, INDEXES)), '{"capped": true}')
ONE = '{"$numberInt": "%d"}'


@pytest.mark.parametrize(
    ("row", "kind", "ids", "restored", "damaged"),
    [
        (Return("s.c", Strategy.WHOLE), "collection", (), 2,
         [(ONE % 2, "It is missing"), ("", 'The index {"key": {"b": 1}'), ("", "The options differ")]),
        (Return("s.c", Strategy.COPY, "s.beside"), "collection", ("1", "9"), 1,
         [(ONE % 9, "There was no document with this _id")]),
        (Return("s.c", Strategy.COPY, "s.gone"), "collection", ("1",), 0,
         [("", "The collection is not there"), (ONE % 1, "It is missing")]),
        (Return("s.gone", Strategy.WHOLE), "view", (), 0, [("", "The view is not there.")]),
        (Return("s.v", Strategy.WHOLE), "view", (), 1, [("", "The options differ")]),
        (Return("s.c", Strategy.WHOLE), "view", (), 0,
         [("", "It is a collection, not a view.")]),
        (Return("s.v", Strategy.WHOLE), "collection", (), 0,
         [("", "It is a view, not a collection."), *((ONE % n, "It is missing") for n in (1, 2, 3))]),
        (Return("s.t", Strategy.WHOLE), "timeseries", (), 1,
         [(ONE % 2, "It is missing"), ("", 'The index {"key": {"b": 1}'), ("", "The options differ")]),
        (Return("s.gone", Strategy.WHOLE), "timeseries", (), 0,
         [("", "The timeseries is not there."), ("", 'The index {"key": {"b": 1}')]),
        (Return("s.c", Strategy.WHOLE), "timeseries", (), 0, [("", "It is a collection, not a timeseries.")]),
        (Return("s.c", Strategy.BESIDE, note="By hand."), "collection", (), 0, [("", "By hand.")]),
    ],
    ids=["whole", "some ids", "no copy", "no view", "another view", "no more a view", "now a view", "buckets",
         "no buckets", "no more buckets", "beside"],
)  # fmt: skip
async def test_a_collection_that_came_back_has_each_id_and_its_definitions(
    row: Return, kind: str, ids: tuple[str, ...], restored: int, damaged: list[tuple[str, str]]
) -> None:
    wanted = replace(EXPECTED, ns=row.ns, kind=kind, indexes=() if kind == "view" else EXPECTED.indexes)
    made = changed(plan(step("true")), returns=(row,), expected=(wanted,))
    made = changed(made, choice=Choice("s.c", row.beside, ids) if ids else None)
    buckets = "system.buckets.t"
    live = Held({}, c=[1, 3, 4], beside=[1], v=[], t=[], **{buckets: [1]})
    copy = Held({}, c=[1, 2, 3], v=[1, 2, 3], **{buckets: [1, 2]})
    (found,) = [one async for one in account(cast("Gateway", live), cast("Gateway", copy), made, None)]
    assert (found.restored, found.empty) == (restored, False)
    assert [(one.id, why in one.why) for one, (_, why) in zip(found.damaged, damaged, strict=True)] == [
        (id_, True) for id_, _ in damaged
    ]


class Returned(Held):
    """A server on which the collection c was created at second 10, in which others deleted since."""

    def __init__(self, options: dict[str, Any], created: int, index: dict[str, Any], dropped: dict[str, Any]) -> None:
        super().__init__(options, c=[1])
        commands = [
            (created, {"create": "c"}, {}),
            (14, {"dropIndexes": "c", "index": "b_1"}, {"key": {"b": 1}} | dropped),
        ]
        self.log = WithOplog([
            entry(1, "n", {}),
            *(entry(second, "c", o, ns="s.$cmd", ui=NEW, o2=o2) for second, o, o2 in commands),
            *(entry(second, "d", {"_id": id_}, ui=ui) for second, id_, ui in ((12, 2, NEW), (13, 3, OLD))),
        ])  # fmt: skip
        self.index = index

    async def list_collections(self, db: str) -> list[CollectionInfo]:
        return [CollectionInfo(Namespace(db, "c"), "collection", self.options, bytes(NEW))]

    async def list_indexes(self, ns: Namespace) -> list[dict[str, Any]]:
        return [{"key": {"a": 1}, "name": "a_1"} | self.index]

    async def find_raw(self, ns: Namespace, query: Any, **how: Any) -> AsyncIterator[bytes]:
        async for batch in (self.log if ns.db == "local" else super()).find_raw(ns, query, **how):
            yield batch


OLD, NEW = (Binary.from_uuid(UUID(int=number)) for number in (1, 2))


@pytest.mark.parametrize(
    ("options", "created", "index", "dropped", "restored"),
    [
        ({}, 10, {}, {}, 2),
        ({}, 3, {}, {}, 1),
        ({"capped": True}, 10, {}, {}, 1),
        ({"clusteredIndex": {}, "expireAfterSeconds": 9}, 10, {}, {}, 1),
        ({}, 10, {"expireAfterSeconds": 9}, {}, 1),
        ({}, 10, {}, {"expireAfterSeconds": 9}, 1),
    ],
    ids=["created by the return", "there before the point", "capped", "clustered", "TTL index", "dropped TTL index"],
)
async def test_what_others_deleted_after_the_return_came_back(
    options: dict[str, Any], created: int, index: dict[str, Any], dropped: dict[str, Any], restored: int
) -> None:
    made = changed(plan(step("true")), returns=(Return("s.c", Strategy.WHOLE),), limit=Ts(5, 1), expected=(EXPECTED,))
    live, copy = Returned(options, created, index, dropped), Held({}, c=[1, 2, 3])
    (found,) = [one async for one in account(cast("Gateway", live), cast("Gateway", copy), made, None)]
    assert found.restored == restored
    missing = [one.id for one in found.damaged if "It is missing" in one.why]
    assert missing == [ONE % n for n in (2, 3)][restored - 1 :]


class Closed(Held):
    """Nobody may read the buckets of a time-series collection here, nor the collection c."""

    measurements = 0

    async def count(self, ns: Namespace, **_: Any) -> int:
        assert ns.collection == "t"
        return self.measurements

    async def find_raw(self, ns: Namespace, query: Any, **how: Any) -> AsyncIterator[bytes]:
        if ns.collection in ("system.buckets.t", "c"):
            raise PrivilegeError("You lack find.")
        async for batch in super().find_raw(ns, query, **how):
            yield batch


@pytest.mark.parametrize(("live", "restored"), [(7, 7), (9, 7), (6, 6), (0, 0)])
async def test_where_buckets_may_not_be_read_the_measurements_are_counted(live: int, restored: int) -> None:
    rows = (("t", "timeseries"), ("c", "collection"))
    expected = tuple(ExpectedNamespace(f"s.{name}", kind, 1) for name, kind in rows)
    made = changed(plan(step("true")), returns=(Return("s.t", Strategy.WHOLE),), expected=expected)
    source, spare = Closed({}, t=[], c=[]), Closed({}, **{"system.buckets.t": [1], "c": [1]})
    source.measurements, spare.measurements = live, 7
    server, copy = cast("Gateway", source), cast("Gateway", spare)
    (found,) = [one async for one in account(server, copy, made, None)]
    said = f"It has {live} measurements, and had 7 at the point."
    assert (found.restored, [one.why for one in found.damaged]) == (restored, [said] * (live < 7))
    made = changed(made, returns=(Return("s.c", Strategy.WHOLE),))
    with pytest.raises(PrivilegeError):
        await anext(account(server, copy, made, None))


@pytest.mark.parametrize(
    ("wanted", "held", "named"),
    [
        ('{"$numberDecimal": "1"}', 1, False),
        ("1", 1.0, False),
        ("true", 1, True),
        ('{"a": 1, "b": 2}', {"b": 2, "a": 1}, True),
        ('"000000000000000000000001"', ObjectId("000000000000000000000001"), False),
        ('"x"', "y", True),
    ],
)
async def test_an_id_that_was_asked_for_is_found_as_the_server_finds_it(wanted: str, held: Any, named: bool) -> None:
    class Copy(Held):
        async def find_raw(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
            yield bson.encode({"_id": held})

    made = changed(plan(step("true")), returns=(Return("s.c", Strategy.COPY, "s.beside"),), expected=(EXPECTED,))
    made = changed(made, choice=Choice("s.c", "s.beside", (wanted,)))
    server = cast("Gateway", Copy({}, beside=[]))
    (found,) = [one async for one in account(server, server, made, None)]
    assert [one.why for one in found.damaged] == ["There was no document with this _id at the point."] * named


@pytest.mark.parametrize(
    ("defined", "live", "said"),
    [
        ((), "c", []),
        (("s.c",), "c", [f"The index {EXPECTED.indexes[2]} is missing."]),
        (("s.c",), "d", ["The collection is not there."]),
    ],
    ids=["of others", "differs", "dropped"],
)
async def test_without_a_return_the_definitions_that_may_be_set_back_are_compared(
    defined: tuple[str, ...], live: str, said: list[str]
) -> None:
    losses = Loss("s.c", 0, 0, 0, 1), Loss("s.other", 0, 0, 0, 1)
    made = changed(plan(step("true")), returns=(), expected=(EXPECTED,), loss=losses, defined=defined)
    server = cast("Gateway", Held({"capped": True}, **{live: []}))
    found = [one.why for row in [row async for row in account(server, server, made, None)] for one in row.damaged]
    assert found == [one.why for one in await undecided(server, made)] == said


SHORTER = {"collMod": "c", "index": {"name": "a_1", "expireAfterSeconds": 5}}
WAS = {"indexOptions_old": {"expireAfterSeconds": 9}}


@pytest.mark.parametrize(
    ("command", "before", "gone"),
    [
        (SHORTER, WAS, [1, 4]),
        (SHORTER, {}, [1, 4]),
        (SHORTER, {"indexOptions_old": {"expireAfterSeconds": 5}}, []),
        ({"collMod": "c", "index": {"name": "a_1", "hidden": True}}, {"indexOptions_old": {"hidden": False}}, []),
        ({"collMod": "d", "expireAfterSeconds": Int64(5)}, {}, []),
        ({"collMod": "c", "expireAfterSeconds": 5}, {"collectionOptions_old": {"expireAfterSeconds": 9}}, [1, 4]),
        ({"collMod": "c", "expireAfterSeconds": "off"}, {"collectionOptions_old": {"expireAfterSeconds": 9}}, []),
        ({"collMod": "c", "cappedSize": 512}, {"collectionOptions_old": {"size": 4096}}, [1, 4]),
        ({"collMod": "c", "cappedMax": 5}, {"collectionOptions_old": {"size": 512, "max": 4}}, []),
    ],
)
async def test_what_the_server_may_have_removed_since_a_definition_changed_is_unclear(
    command: dict[str, Any], before: dict[str, Any], gone: list[int]
) -> None:
    session = {"lsid": {"id": Binary.from_uuid(UUID(int=3)), "uid": b""}, "txnNumber": 1}
    oplog = [
        entry(10, "c", command, ns="s.$cmd", o2=before), entry(11, "d", {"_id": 1}), entry(12, "d", {"_id": 2}),
        entry(13, "d", {"_id": 3}, **session), entry(14, "d", {"_id": 4}), entry(15, "d", {"_id": 5}, ns="s.d"),
    ]  # fmt: skip
    server = cast("Gateway", WithOplog(oplog, {"_id": 2}))
    found = [one async for one in let_go(server, "s.c", Ts(10, 1))]
    assert [json_util.loads(one.id) for one in found] == gone
    assert all(one.left_alone for one in found)
    (unknown,) = [one async for one in let_go(server, "s.c", Ts(9, 1))]
    assert (unknown.id, "unknown" in unknown.why) == ("", True)


async def test_of_very_many_documents_that_the_server_removed_some_are_listed() -> None:
    oplog = [entry(10, "c", SHORTER, ns="s.$cmd", o2=WAS), *(entry(11 + n, "d", {"_id": n}) for n in range(2_345))]
    server = cast("Gateway", WithOplog(oplog))
    *listed, more = [one async for one in let_go(server, "s.c", Ts(10, 1), 1_500)]
    assert [json_util.loads(one.id) for one in listed] == [*range(1_500)]
    assert (more.id, more.why, more.left_alone) == ("", "At most 845 more documents were deleted in this way.", True)


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ({"key": {"b": 1}, "name": "a_1"}, 'missing: its name is that of {"key": {"a": 1}, "name": "a_1"}.'),
        ({"key": {"a": 1}, "name": "mine"}, 'missing: its keys are those of {"key": {"a": 1}, "name": "a_1"}.'),
    ],
    ids=["name", "keys"],
)
async def test_an_index_that_keeps_another_from_being_built_is_named(index: dict[str, Any], said: str) -> None:
    wanted = replace(EXPECTED, indexes=(canonical_index(index),))
    made = changed(plan(step("true")), expected=(wanted,), defined=("s.c",))
    (found,) = await undecided(cast("Gateway", Held({"capped": True}, c=[])), made)
    assert found.why.endswith(said)


@pytest.mark.parametrize("commands", [1, 0])
@pytest.mark.parametrize(("indexes", "right"), [(EXPECTED.indexes[:2], True), (EXPECTED.indexes, False)])
@pytest.mark.parametrize("returns", [(), (Return("s.c", Strategy.MERGE, "s.c_pitr"),)], ids=["incident", "point"])
async def test_a_return_of_definitions_alone_is_complete_once_they_are_as_they_were(
    monkeypatch: pytest.MonkeyPatch, returns: tuple[Return, ...], indexes: tuple[str, ...], right: bool, commands: int
) -> None:
    async def nothing_to_repair(*_: object) -> None:
        """As where no document differs from what it was at the point."""

    monkeypatch.setattr(outcome_module, "account_for_repairs", nothing_to_repair)
    made = changed(
        plan(step("true")), returns=returns, expected=(replace(EXPECTED, indexes=indexes),),
        loss=(Loss("s.c", 0, 0, 0, commands),), defined=("s.c",) * commands,
    )  # fmt: skip
    live = cast("Gateway", Held({"capped": True}, c=[1, 2]))
    rows = [row async for row in account(live, live, made, None)]
    assert [(row.ns, row.touched) for row in rows] == [("s.c", 0)] * bool(returns or commands)
    assert is_complete(rows) is (right and commands == 1)


class Repaired(WithOplog):
    """A collection that finds documents by their ``_id``s, with an oplog, and the ``repairs`` that are left."""

    repairs: tuple[dict[str, Any], ...] = ()

    async def find_raw(self, ns: Namespace, query: Any, **how: Any) -> AsyncIterator[bytes]:
        if "_id" in query:
            yield b"".join(bson.encode(row) for row in self.documents if row["_id"] in query["_id"]["$in"])
        elif ns.collection == "c_pitr":
            yield b"".join(bson.encode(row) for row in self.repairs if ("x" in row) is query["x"]["$exists"])
        else:
            async for batch in super().find_raw(ns, query, **how):
                yield batch


async def test_the_account_of_repairs_counts_each_document_once(tmp_path: Path) -> None:
    removed = [entry(100 + id_, "d", {"_id": id_}) for id_ in (1, 2, 3)]
    inserted = [entry(150 + id_, "i", {"_id": id_, "other": 1}) for id_ in (1, 2)]
    oplog = [entry(100, "n", {}, ns=""), *removed, *inserted, entry(160, "d", {"_id": 1})]
    source, spare = Repaired(oplog, {"_id": 2, "other": 1}), Repaired([], *({"_id": id_} for id_ in (1, 2, 3)))
    source.repairs = {"_id": 1}, {"_id": 3, "x": {"refused": "no"}}
    made = changed(
        plan(step("true")), returns=(Return("s.c", Strategy.MERGE, "s.c_pitr"),), limit=Ts(100, 1),
        accident=Accident("deletes", "s.c", Ts(101, 1), Ts(103, 1)),
    )  # fmt: skip
    rows = account(cast("Gateway", source), cast("Gateway", spare), made, Ts(200, 1), tmp_path)
    (found,) = [one async for one in rows]
    assert history_file(tmp_path, 1).exists(), "the next run reads on from there"
    assert [(one.id, one.left_alone) for one in found.damaged] == [(ONE % 2, True), (ONE % 3, False)]
    assert found.damaged[1].why == "The server refuses it: no."
    assert (found.restored, found.already, found.left, found.unclear, found.still_damaged) == (0, 0, 1, 1, 1)
    assert found.touched == len(removed)


DAMAGE = [Damaged("s.c", "", "It is not there.")]


@pytest.mark.parametrize(
    ("rows", "complete"),
    [
        ([NamespaceOutcome("s.c", restored=1)], True),
        ([NamespaceOutcome("s.c", already=1, returned=1)], True),
        ([NamespaceOutcome("s.c", empty=True), NamespaceOutcome("s.d")], True),
        ([NamespaceOutcome("s.c", already=1, left=1)], False),
        ([NamespaceOutcome("s.c", restored=1), NamespaceOutcome("s.d", damaged=DAMAGE)], False),
    ],
    ids=["restored", "returned", "empty", "nothing came back", "damaged"],
)
def test_a_return_is_complete_if_something_came_back_and_nothing_is_damaged(
    rows: list[NamespaceOutcome], complete: bool
) -> None:
    assert is_complete(rows) is complete


def key_of(id_: Any) -> bytes:
    return id_key(bson.encode({"_id": id_}))


COUNTERS = (
    Reissue("s.c", "up", "seq", 5, 9, ""),
    Reissue("s.c", "down", "seq", 100, 90, ""),
    Reissue("s.c", "two", "a", 5, 9, ""),
    Reissue("s.c", "two", "m.b", None, 7, ""),
    Reissue("s.other", "up", "seq", 5, 900, ""),
)
AGAIN = "Run the script again; if it stays, compare it manually."


@pytest.mark.parametrize(
    ("id_", "state", "document", "flags", "counts", "why"),
    [
        (1, DocumentState.RIGHT, {}, {"restored": True}, {"restored": 1}, ""),
        (1, DocumentState.RIGHT, {}, {"restored": True, "theirs": True}, {"restored": 1}, ""),
        (1, DocumentState.RIGHT, {}, {}, {"already": 1}, ""),
        (1, DocumentState.RIGHT, {}, {"returned": True}, {"already": 1, "returned": 1}, ""),
        (1, DocumentState.RIGHT, {}, {"theirs": True, "returned": True}, {"left": 1}, ""),
        ("up", DocumentState.REPLACED, {"seq": 9}, {}, {"left": 1}, ""),
        ("up", DocumentState.REPLACED, {"seq": 8}, {}, {"unclear": 1}, str(DocumentState.REPLACED)),
        ("up", DocumentState.REPLACED, {"seq": "9"}, {}, {"unclear": 1}, str(DocumentState.REPLACED)),
        ("up", DocumentState.UNCLEAR, {"seq": 9}, {}, {"unclear": 1}, str(DocumentState.UNCLEAR)),
        ("down", DocumentState.REPLACED, {"seq": 90}, {}, {"left": 1}, ""),
        ("down", DocumentState.REPLACED, {"seq": 89}, {}, {"left": 1}, ""),
        ("down", DocumentState.REPLACED, {"seq": 91}, {}, {"unclear": 1}, str(DocumentState.REPLACED)),
        ("two", DocumentState.REPLACED, {"a": 9, "m": {"b": 7}}, {}, {"left": 1}, ""),
        ("two", DocumentState.REPLACED, {"a": 9, "m": {"b": 6}}, {}, {"unclear": 1}, str(DocumentState.REPLACED)),
        ("none", DocumentState.REPLACED, {"seq": 9}, {}, {"unclear": 1}, str(DocumentState.REPLACED)),
        (1, DocumentState.HOLDS, {}, {"where": " Fields: a."}, {"still_damaged": 1},
         f"{DocumentState.HOLDS} Fields: a. {AGAIN}"),
        (2, DocumentState.HOLDS, {}, {}, {"still_damaged": 1}, "The server refuses it: no."),
        (3, DocumentState.HOLDS, {"p": "x" * 64}, {}, {"still_damaged": 1}, f"{DocumentState.HOLDS} {AGAIN}"),
        (3, DocumentState.HOLDS, {"p": "x" * 65}, {}, {"still_damaged": 1},
         f"{DocumentState.HOLDS} It is so large that what it is and what it would be may not fit into one repair of "
         "16 MB: replace it manually, from the images or the spare."),
        (2, DocumentState.HOLDS, {"p": "x" * 99}, {}, {"still_damaged": 1}, "The server refuses it: no."),
        (4, DocumentState.MISSING, None, {}, {"still_damaged": 1}, f"{DocumentState.MISSING} {AGAIN}"),
        (5, DocumentState.MISSING, None, {}, {"unclear": 1},
         f"{DocumentState.MISSING} The live document 5.0 has an _id that counts as this one."),
        (None, DocumentState.MISSING, None, {}, {"still_damaged": 1}, f"{DocumentState.MISSING} {NOT_EXACT}"),
        (3, DocumentState.COMPUTED, {"p": "x" * 99}, {}, {"unclear": 1}, str(DocumentState.COMPUTED)),
    ],
)  # fmt: skip
async def test_each_document_of_the_account_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, id_: Any, state: DocumentState, document: dict[str, Any] | None,
    flags: dict[str, Any], counts: dict[str, int], why: str,
) -> None:  # fmt: skip
    async def judged(*_: Any) -> AsyncIterator[Judgement]:
        yield Judgement(key_of(id_), state, None if document is None else bson.encode({"_id": id_} | document), **flags)

    monkeypatch.setattr(outcome_of_repairs, "judge_documents", judged)
    monkeypatch.setattr(outcome_of_repairs, "LARGEST", 1_124)
    made = changed(
        plan(step("true")), limit=Ts(100, 1), accident=Accident("updates", "s.c", Ts(1, 1), Ts(2, 1)),
        reissue=COUNTERS,
    )  # fmt: skip
    source, spare = Repaired([], {"_id": 5.0}), Repaired([], {"_id": 3})
    outcome, reasons = NamespaceOutcome("s.c"), {key_of(2): "The server refuses it: no."}
    row = Return("s.c", Strategy.MERGE, "s.c_pitr")
    await account_for_repairs(cast("Gateway", source), cast("Gateway", spare), made, row, None, outcome, None, reasons)
    names = ("restored", "already", "returned", "left", "unclear", "still_damaged", "touched")
    total = sum(count for name, count in counts.items() if name != "returned")
    assert {name: getattr(outcome, name) for name in names} == dict.fromkeys(names, 0) | counts | {"touched": total}
    assert [(one.ns, one.id, one.why) for one in outcome.damaged] == [("s.c", id_json(key_of(id_)), why)] * bool(why)
