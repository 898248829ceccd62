"""What one entry means for the list of incidents: each command and change of users, with its title, harm and count."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Binary, Int64, Timestamp

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.incidents.acts import command_act, noop_act, system_act
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.snapshot import Incident

ONCE_A_MINUTE = "The server deletes what is older, once a minute unless ttlMonitorSleepSecs says otherwise."
UUID = Binary(b"\x11" * 16, 4)
TEN = {"numRecords": 10}
BUCKETS = "system.buckets.m"


def entry(op: str, ns: str, o: dict[str, Any], o2: dict[str, Any] | None = None) -> Entry:
    last = {"ts": Timestamp(7, 1), "t": Int64(1), "v": Int64(2)}
    return read_entry(bson.encode({"op": op, "ns": ns, "o": o} | ({"o2": o2} if o2 else {}) | last))


def told(one: Incident | None) -> tuple[Any, ...] | None:
    if one is None:
        return None
    assert (one.ops, one.documents_exact, one.confidence, one.first, one.limit) == (1, True, "high", *[Ts(7, 1)] * 2)
    return one.kind, one.title, one.ns, str(one.harm), one.documents, one.note


@pytest.mark.parametrize(
    ("o", "o2", "expected"),
    [
        ({"drop": "a"}, TEN, ("drop", "drop shop.a", "shop.a", "loss", 10, "")),
        ({"drop": "a"}, None, ("drop", "drop shop.a", "shop.a", "loss", None, "")),
        ({"drop": BUCKETS}, TEN,
         ("drop", "drop shop.m (time-series)", "shop.system.buckets.m", "loss", 10,
          "Counted are buckets, each with many measurements; how many measurements is unknown.")),
        ({"drop": "tmp.agg_out.1"}, TEN, None),
        ({"drop": "system.drop.5i1t1.a"}, TEN, None),
        ({"renameCollection": "shop.a", "to": "shop.b"}, None,
         ("rename", "rename shop.a to shop.b", "shop.a", "definition", None, "")),
        ({"renameCollection": "shop.a", "to": "shop.b", "dropTarget": UUID}, TEN,
         ("rename", "rename shop.a to shop.b, dropping it", "shop.a", "loss", 10, "")),
        ({"renameCollection": "shop.a", "to": "shop.b", "dropTarget": False}, TEN,
         ("rename", "rename shop.a to shop.b", "shop.a", "definition", None, "")),
        ({"renameCollection": "shop.tmp.agg_out.1", "to": "shop.b", "dropTarget": UUID}, TEN,
         ("out", "$out replaced shop.b", "shop.b", "loss", 10, "or mapReduce")),
        ({"renameCollection": "shop.tmp.mr.1", "to": "shop.b"}, None,
         ("out", "$out made shop.b", "shop.b", "definition", None, "or mapReduce")),
        ({"renameCollection": "shop.tmpA1b2C.convertToCapped.a", "to": "shop.a", "dropTarget": UUID}, TEN,
         ("convertToCapped", "convertToCapped shop.a", "shop.a", "loss", 10, "")),
        ({"renameCollection": "shop.tmpA1b2C.renameCollection", "to": "shop.a"}, None,
         ("rename", "rename to shop.a from another database", "shop.a", "definition", None, "")),
        ({"collMod": "a", "validator": {}}, None, ("collMod", "collMod on shop.a", "shop.a", "definition", None, "")),
        ({"collMod": "a"}, None, ("collMod", "collMod on shop.a", "shop.a", "definition", None, "")),
        ({"collMod": BUCKETS}, None, None),
        ({"collMod": BUCKETS, "timeseriesBucketsMayHaveMixedSchemaData": True}, None,
         ("collMod", "collMod on shop.m (time-series)", "shop.system.buckets.m", "definition", None, "")),
        ({"collMod": "a", "index": {"name": "at_1", "expireAfterSeconds": 3_600}}, None,
         ("collMod", "collMod on shop.a, documents expire after 3,600 s", "shop.a", "definition", None, ONCE_A_MINUTE)),
        ({"dropIndexes": "a", "index": "at_1"}, {"v": 2},
         ("dropIndexes", "dropIndexes at_1 on shop.a", "shop.a", "definition", None, "")),
        ({"deleteIndex": "a", "index": "at_1"}, None,
         ("dropIndexes", "dropIndexes at_1 on shop.a", "shop.a", "definition", None, "")),
        ({"emptycapped": "a"}, None, ("emptycapped", "emptycapped shop.a", "shop.a", "loss", None, "")),
        ({"convertToCapped": "a"}, None, ("convertToCapped", "convertToCapped shop.a", "shop.a", "loss", None, "")),
        ({"truncateRange": "shop.a", "docsDeleted": Int64(30)}, None,
         ("truncateRange", "truncateRange on shop.a", "shop.a", "loss", 30, "")),
        ({"truncateRange": "config.system.preimages", "docsDeleted": 30}, None, None),
        ({"truncateRange": "shop.system.change_collection", "docsDeleted": 30}, None, None),
        ({"createIndexes": "a", "name": "s_1", "key": {"s": 1}}, None, None),
        ({"createIndexes": "a", "name": "at_1", "expireAfterSeconds": 60}, None,
         ("createIndexes", "TTL index at_1 on shop.a, documents expire after 60 s", "shop.a", "definition", None,
          ONCE_A_MINUTE)),
        ({"commitIndexBuild": "a", "indexes": [{"name": "s_1"}, {"name": "at_1", "expireAfterSeconds": 60}]}, None,
         ("createIndexes", "TTL index at_1 on shop.a, documents expire after 60 s", "shop.a", "definition", None,
          ONCE_A_MINUTE)),
        ({"startIndexBuild": "a"}, None, None),
        ({"create": "a"}, None, None),
        ({}, None, None),
    ],
)  # fmt: skip
def test_what_a_command_means(o: dict[str, Any], o2: dict[str, Any] | None, expected: tuple[Any, ...] | None) -> None:
    assert told(command_act(entry("c", "shop.$cmd", o, o2))) == expected


@pytest.mark.parametrize("db", ["config", "local"])
def test_what_the_server_drops_for_itself_is_no_act(db: str) -> None:
    assert command_act(entry("c", f"{db}.$cmd", {"drop": "cache.chunks"}, TEN)) is None


USERS, ROLES, VERSION = "admin.system.users", "admin.system.roles", "admin.system.version"
FCV = {"_id": "featureCompatibilityVersion"}


@pytest.mark.parametrize(
    ("op", "ns", "o", "o2", "title"),
    [
        ("i", USERS, {"_id": "admin.ann", "user": "ann"}, None, "user admin.ann created"),
        ("u", USERS, {"$v": 2, "diff": {}}, {"_id": "admin.ann"}, "user admin.ann changed"),
        ("d", ROLES, {"_id": "shop.writer"}, None, "role shop.writer removed"),
        ("d", ROLES, {"role": "writer"}, None, None),
        ("u", VERSION, {**FCV, "version": "6.0", "targetVersion": "7.0"}, FCV, "setFCV 7.0"),
        ("u", VERSION, {**FCV, "version": "7.0"}, FCV, "setFCV 7.0"),
        ("i", VERSION, {**FCV, "version": "7.0"}, None, None),
        ("u", VERSION, {"_id": "authSchema", "version": 5}, {"_id": "authSchema"}, None),
        ("u", VERSION, {**FCV, "other": 1}, FCV, None),
    ],
)
def test_what_a_change_of_users_roles_and_the_version_means(
    op: str, ns: str, o: dict[str, Any], o2: dict[str, Any] | None, title: str | None
) -> None:
    found = system_act(entry(op, ns, o, o2))
    assert (found.title if found else None) == title
    if found is not None:
        assert (found.kind, found.ns, str(found.harm), found.documents, found.open) == (
            ("setFCV", VERSION, "definition", None, "targetVersion" in o) if ns == VERSION
            else ("users", ns, "definition", 1, False)
        )  # fmt: skip


@pytest.mark.parametrize("name", ["shardCollection", "reshardCollection", "refineCollectionShardKey", "movePrimary"])
def test_a_sharding_command_is_read_from_the_no_op_that_notes_it(name: str) -> None:
    found = noop_act(entry("n", "shop.a", {"msg": {name: "shop.a"}}, {name: "shop.a"}))
    assert told(found) == ("sharding", f"{name} shop.a", "shop.a", "definition", None, "")
    assert noop_act(entry("n", "", {"msg": "periodic noop"}, {"other": "shop.a"})) is None


def test_a_command_at_the_end_of_the_oplog_does_not_go_on() -> None:
    grouper = Grouper()
    grouper.feed_batch(entry("c", "shop.$cmd", {"drop": "a"}, TEN).raw)
    (found,) = grouper.incidents()
    assert (found.kind, found.open) == ("drop", False)
