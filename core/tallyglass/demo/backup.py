"""A backup of the whole deployment in mongodump's directory format, with the oplog written while it was taken.

One ``.bson`` and one ``.metadata.json`` per collection, ``prelude.json``, and a top-level ``oplog.bson``. The layout
follows the MongoDB Database Tools (mongodump/prepare.go, metadata_dump.go and oplog_dump.go).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from bson import Timestamp, json_util
from bson.binary import UuidRepresentation
from pymongo import MongoClient
from pymongo.cursor import RawBatchCursor
from pymongo.database import Database

from tallyglass.errors import EmbeddedServerError
from tallyglass.restore.backup.file_names import file_stem

Document = dict[str, Any]

_JSON = json_util.CANONICAL_JSON_OPTIONS.with_options(uuid_representation=UuidRepresentation.STANDARD)
_NOT_DUMPED = frozenset({"local", "config"})


def take(uri: str, folder: Path) -> Path:
    """Back up the whole deployment into ``folder``, which must not exist yet; returns its path."""
    with MongoClient[Document](uri) as client:
        return write(client, folder)


def write(client: MongoClient[Document], folder: Path, at: float | None = None) -> Path:
    """Back up through a client; the server need not be a member of a set.

    ``at``, in seconds since 1970, becomes the modification time of the files; the default is now.
    """
    folder.mkdir(parents=True)
    start = _newest(client)
    for name in client.list_database_names():
        if name not in _NOT_DUMPED:
            _write_database(client[name], folder / name)
    _write_oplog(client, folder / "oplog.bson", start, _newest(client))
    version = client.server_info()["version"]
    (folder / "prelude.json").write_text(json.dumps({"ServerVersion": version, "ToolVersion": "tallyglass demo"}))
    if at is not None:
        for path in folder.rglob("*"):
            os.utime(path, (at, at))
    return folder


def _write_database(database: Database[Document], folder: Path) -> None:
    folder.mkdir()
    for info in database.list_collections():
        name = info["name"]
        if _is_dumped(database.name, name):
            stem = file_stem(name)
            (folder / f"{stem}.metadata.json").write_text(_metadata(database, info))
            if info["type"] == "collection":
                _write_bson(folder / f"{stem}.bson", _raw_batches(database, name))
            elif info["type"] == "timeseries":
                buckets = f"system.buckets.{name}"
                _write_bson(folder / f"{file_stem(buckets)}.bson", _raw_batches(database, buckets))


def _is_dumped(db: str, collection: str) -> bool:
    if db == "admin":
        return collection != "system.keys"
    return collection == "system.js" or not collection.startswith("system.")


def _metadata(database: Database[Document], info: Mapping[str, Any]) -> str:
    """Options, indexes, UUID and name as canonical extended JSON, the keys in mongodump's order."""
    meta: Document = {"options": info["options"]} if info.get("options") else {}
    meta["indexes"] = [] if info["type"] == "view" else [dict(row) for row in _indexes(database, info["name"])]
    uuid = info.get("info", {}).get("uuid")
    if uuid is not None:
        meta["uuid"] = bytes(uuid).hex() if isinstance(uuid, bytes) else uuid.hex
    meta |= {"collectionName": info["name"], "type": info["type"]}
    return json_util.dumps(meta, json_options=_JSON)


def _indexes(database: Database[Document], collection: str) -> Iterator[Document]:
    reply = database.command("listIndexes", collection, cursor={"batchSize": 10_000})
    yield from reply["cursor"]["firstBatch"]


def _raw_batches(database: Database[Document], collection: str) -> RawBatchCursor[Document]:
    return database[collection].find_raw_batches({}, batch_size=1_000)


def _write_bson(path: Path, batches: RawBatchCursor[Document]) -> None:
    with path.open("wb") as out:
        for batch in batches:
            out.write(cast(bytes, batch))


def _newest(client: MongoClient[Document]) -> Timestamp:
    entry = client.local["oplog.rs"].find_one({}, {"ts": 1}, sort=[("$natural", -1)])
    if entry is None:
        raise EmbeddedServerError("There is no oplog to back up: this is not a replica set.")
    ts: Timestamp = entry["ts"]
    return ts


def _write_oplog(client: MongoClient[Document], path: Path, start: Timestamp, end: Timestamp) -> None:
    span = {"ts": {"$gte": start, "$lte": end}}
    _write_bson(path, client.local["oplog.rs"].find_raw_batches(span, sort=[("$natural", 1)]))
