"""Entries of MongoDB 7.0 to 9.0, which no server here writes, in the forms that their source and public tests give.

Each has the words that a row shows, and what a plan makes of it: the id of the check that refuses it, or "" where it is
replayed or skipped. ``raw`` gives one the fields around its documents, as an oplog has them.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import bson
from bson import Binary, Int64, Timestamp

UUID = Binary(uuid.UUID(int=7).bytes, 4)
LSID = {"id": Binary(uuid.UUID(int=9).bytes, 4), "uid": Binary(b"\7" * 32)}
SECONDS = 1_700_000_000
NONE_BEFORE = {"ts": Timestamp(0, 0), "t": Int64(-1)}
RETRYABLE: Mapping[str, Any] = {"lsid": LSID, "txnNumber": Int64(1)}
INDEX = {"v": 2, "key": {"a": 1}, "name": "a_1"}


@dataclass(frozen=True)
class NewerEntry:
    """One entry without its time. ``since`` is the first release that writes it."""

    name: str
    since: str
    body: Mapping[str, Any]
    what: str
    ns: str = "shop.orders"
    plan: str = ""
    first: Mapping[str, Any] = field(default_factory=dict)

    def raw(self, number: int = 1) -> bytes:
        """As BSON, at the given place of one second."""
        times = {"ts": Timestamp(SECONDS, number), "t": Int64(1), "v": Int64(2)}
        wall = {"wall": datetime.fromtimestamp(SECONDS, UTC)}
        return bson.encode({**self.first, **self.body, **times, **wall})


def before(number: int) -> dict[str, Any]:
    """The ``prevOpTime`` of an entry that continues the one at ``number``."""
    return {"prevOpTime": {"ts": Timestamp(SECONDS, number), "t": Int64(1)}}


def _write(op: str, number: int, **more: Any) -> dict[str, Any]:
    return {"op": op, "ns": "shop.orders", "ui": UUID, "o": {"_id": number}, **more}


def _group(op: str, *numbers: int, o: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    inner = [_write(op, n, **({"o2": {"_id": n}} if op == "i" else {})) for n in numbers]
    return {"op": "c", "ns": "admin.$cmd", "o": {"applyOps": inner, **(o or {})}, **more}


def _command(o: Mapping[str, Any], ns: str = "shop.$cmd", **more: Any) -> dict[str, Any]:
    return {"op": "c", "ns": ns, "ui": UUID, "o": o, **more}


def _noop(msg: object, o2: Mapping[str, Any]) -> dict[str, Any]:
    return {"op": "n", "ns": "shop.orders", "ui": UUID, "o": {"msg": msg}, "o2": o2}


BATCH = (
    NewerEntry(
        "the first part of a batched delete", "7.1",
        _group("d", 0, 1, o={"partialTxn": True}, prevOpTime=NONE_BEFORE), "part of a batched delete: 2",
    ),
    NewerEntry(
        "the last part of a batched delete", "7.1",
        _group("d", 2, 3, o={"count": Int64(4)}, **before(1)), "batched delete of 4, the last 2",
    ),
)  # fmt: skip
"""One batched delete in two entries, without a session: the second names the first."""

_BUILD = {"indexBuildUUID": Binary(uuid.UUID(int=8).bytes, 4), "indexes": [INDEX]}
_IDENTS = {"directoryPerDB": False, "directoryForIndexes": False}
_KEY = {"k": Int64(777_777), "v": b"\1\2"}

ALONE = (
    NewerEntry("a batched delete", "7.0", _group("d", 0, 1, 2), "delete of 3"),
    NewerEntry(
        "a vectored insert", "8.0", _group("i", 4, 5, prevOpTime=NONE_BEFORE, multiOpType=1), "insert of 2",
        first=RETRYABLE,
    ),
    NewerEntry(
        "a vectored insert that continues another", "8.0",
        _group("i", 6, 7, multiOpType=1, **before(1)), "insert of 2", first=RETRYABLE,
    ),
    NewerEntry(
        "an insert with its record id", "8.0",
        _write("i", 8, o2={"_id": 8}, rid=Int64(2_007)), "insert",
    ),
    NewerEntry("a delete with its record id", "8.0", _write("d", 8, rid=Int64(2_007)), "delete"),
    NewerEntry(
        "a truncated range", "8.3",
        _command({"truncateRange": "shop.orders", "minRecordId": "a", "maxRecordId": "b", "bytesDeleted": 90,
                  "docsDeleted": 3}),
        "truncateRange (3 documents)", plan="unknown-command",
    ),
    NewerEntry(
        "an index with its table", "8.1",
        _command({"createIndexes": "orders", **INDEX}, o2={"indexIdent": "index-9", **_IDENTS}),
        "createIndexes a_1",
    ),
    NewerEntry(
        "an index as a spec", "8.2",
        _command({"createIndexes": "orders", "spec": INDEX}), "createIndexes a_1", plan="unknown-command",
    ),
    NewerEntry(
        "the start of an index build with its tables", "8.1",
        _command({"startIndexBuild": "orders", **_BUILD}, o2={"indexes": [{"indexIdent": "index-9"}], **_IDENTS}),
        "startIndexBuild a_1",
    ),
    NewerEntry(
        "the end of an index build with its tables", "8.1",
        _command({"commitIndexBuild": "orders", **_BUILD}, o2={"indexes": [{"indexIdent": "index-9"}], **_IDENTS}),
        "commitIndexBuild a_1",
    ),
    NewerEntry(
        "a collection with its tables", "8.1",
        _command({"create": "fresh", "idIndex": {"v": 2, "key": {"_id": 1}, "name": "_id_"}},
                 o2={"catalogId": Int64(1), "ident": "collection-7", "idIndexIdent": "index-8"}),
        "create", "shop.fresh",
    ),
    *(
        NewerEntry(
            f"a container operation ({op})", "8.2",
            {"op": op, "ns": "admin.$container", "container": "index-9", "o": _KEY},
            f'{word} {{"k": 777777, "v": {{"$binary": {{"hex": "0102", "subType": "00"}}}}}}', "admin.$container",
        )
        for op, word in (("ci", "container insert"), ("cu", "container update"), ("cd", "container delete"))
    ),
    NewerEntry(
        "a multikey path", "8.3",
        _command({"setMultikeyMetadata": "orders", "index": "a_1"}), 'setMultikeyMetadata index: "a_1"',
    ),
    NewerEntry(
        "a time-series collection without buckets", "9.0",
        _command({"create": "weather", "timeseries": {"timeField": "at"}}), "create (time-series)", "shop.weather",
        plan="viewless-timeseries",
    ),
    NewerEntry(
        "the conversion of a time-series collection", "9.0",
        _command({"upgradeDowngradeViewlessTimeseries": "weather", "isUpgrade": True}),
        "upgradeDowngradeViewlessTimeseries isUpgrade: true", "shop.weather", plan="unknown-command",
    ),
    NewerEntry(
        "a dropped table", "9.0",
        _command({"dropIdent": "collection-7-41"}, "admin.$cmd"), "dropIdent collection-7-41", "admin",
    ),
    NewerEntry(
        "a dropped table inside applyOps", "9.0",
        _command({"applyOps": [_command({"dropIdent": "collection-7-41"}, "admin.$cmd")]}, "admin.$cmd"),
        "applyOps of 1", "admin.$cmd",
    ),
    NewerEntry(
        "the sharding index catalog", "7.0",
        _command({"modifyCollectionShardingIndexCatalog": "orders", "op": "i"}),
        'modifyCollectionShardingIndexCatalog op: "i"', plan="unknown-command",
    ),
    NewerEntry(
        "the metadata of a database", "8.2",
        _command({"createDatabaseMetadata": "shop", "db": {"primary": "s0"}}, "admin.$cmd"),
        'createDatabaseMetadata db: {"primary": "s0"}', "admin.shop", plan="unknown-command",
    ),
    NewerEntry(
        "an imported collection", "5.0",
        _command({"importCollection": "shop.orders", "importUUID": UUID, "numRecords": Int64(1), "dataSize": Int64(29),
                  "catalogEntry": {"ns": "shop.orders"}, "dryRun": False}),
        "importCollection (1 documents)", plan="unknown-command",
    ),
    NewerEntry(
        "a sharded collection", "7.0",
        _noop({"shardCollection": "shop.orders"}, {"shardCollection": "shop.orders", "shardKey": {"_id": "hashed"}}),
        "no-op: shardCollection shop.orders",
    ),
    NewerEntry(
        "a moved chunk", "7.0",
        _noop({"moveChunk": "shop.orders"}, {"moveChunk": "shop.orders", "donor": "s0", "recipient": "s1"}),
        "no-op: moveChunk shop.orders",
    ),
    NewerEntry(
        "the first chunk on a shard", "7.0",
        _noop("Migrating chunk from shard s0 to shard s1 with no chunks for this collection",
              {"migrateChunkToNewShard": "shop.orders", "fromShardId": "s0", "toShardId": "s1"}),
        "no-op: Migrating chunk from shard s0 to shard s1 with no chunks for this collection",
    ),
    NewerEntry(
        "the last chunk off a shard", "7.0",
        _noop("Migrate the last chunk for shop.orders off shard s0",
              {"migrateLastChunkFromShard": "shop.orders", "shardId": "s0"}),
        "no-op: Migrate the last chunk for shop.orders off shard s0",
    ),
    NewerEntry(
        "a changed placement", "7.0",
        _noop({"namespacePlacementChanged": "shop.orders"},
              {"namespacePlacementChanged": 1, "ns": {"db": "shop", "coll": "orders"}, "committedAt": Timestamp(1, 1)}),
        "no-op: namespacePlacementChanged shop.orders",
    ),
)  # fmt: skip
"""Entries that each stand for themselves."""
