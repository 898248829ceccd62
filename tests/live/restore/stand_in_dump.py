"""STAND-IN for mongodump, for tests alone: see stand_in_common."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import bson
from bson import Timestamp, json_util
from pymongo import MongoClient
from stand_in_common import EXACT, RAW, VERSION, connect, fail, file_name, options, say, writer

KNOWN: dict[str, type] = {
    "config": str, "uri": str, "db": str, "collection": str, "query": str, "queryFile": str, "out": str, "gzip": bool,
    "archive": str, "oplog": bool, "quiet": bool, "readPreference": str,
}  # fmt: skip
MAGIC = (0x8199E26D).to_bytes(4, "little")
TERMINATOR = b"\xff\xff\xff\xff"
PREFIX = "system.buckets."


def main(argv: list[str]) -> None:
    given = options(argv, KNOWN)
    if ("query" in given or "queryFile" in given) and "collection" not in given:
        fail("cannot dump using a query without a specified collection")
    if given.get("oplog") and "db" in given:
        fail("--oplog mode only supported on full dumps")
    with connect(given) as client:
        if given.get("oplog") and "setName" not in client.admin.command("hello"):
            fail("no oplog found")
        Dump(client, given).run()


class Dump:
    def __init__(self, client: MongoClient[Any], given: dict[str, Any]) -> None:
        self.client, self.given = client, given
        self.zipped = bool(given.get("gzip"))
        self.rows: list[tuple[str, str, dict[str, Any]]] = []

    def run(self) -> None:
        start = self.newest() if self.given.get("oplog") else None
        for db in self.databases():
            self.list(db)
        time.sleep(float(os.environ.get("STAND_IN_DUMP_SECONDS", "0")) / 2)
        if "archive" in self.given:
            self.archive(start)
            return
        out = Path(self.given.get("out", "dump"))
        for db, name, info in self.rows:
            self.directory(out, db, name, info)
        time.sleep(float(os.environ.get("STAND_IN_DUMP_SECONDS", "0")) / 2)
        if start is not None:
            with writer(out / "oplog.bson", self.zipped) as file:
                file.writelines(self.oplog(start))
        suffix = ".gz" if self.zipped else ""
        place = out / self.given["db"] if "db" in self.given else out
        place.mkdir(parents=True, exist_ok=True)
        with writer(place / f"prelude.json{suffix}", self.zipped) as file:
            file.write(json.dumps({"ServerVersion": self.server, "ToolVersion": VERSION}).encode())

    @property
    def server(self) -> str:
        return str(self.client.server_info()["version"])

    def databases(self) -> list[str]:
        if "db" in self.given:
            return [self.given["db"]]
        return [name for name in self.client.list_database_names() if name not in ("local", "config")]

    def list(self, db: str) -> None:
        wanted = self.given.get("collection")
        for info in self.client[db].list_collections():
            name = info["name"]
            if name in ("system.views", "system.profile", "system.keys") or name.startswith(PREFIX):
                continue
            if wanted is None or name == wanted:
                self.rows.append((db, name, info))
        if wanted and not self.rows:
            say(f"namespace with DB {db} and collection {wanted} does not exist")

    def metadata(self, db: str, name: str, info: dict[str, Any]) -> str:
        indexes = [] if info["type"] == "view" else list(self.client[db][name].list_indexes())
        said: dict[str, Any] = {"indexes": indexes}
        if info["type"] == "collection":
            said["uuid"] = info["info"]["uuid"].hex()
        said |= {"collectionName": name, "type": info["type"]}
        if info.get("options"):
            said = {"options": info["options"]} | said
        return json_util.dumps(said, json_options=EXACT)

    def content(self, db: str, name: str, info: dict[str, Any]) -> Any:
        stored = PREFIX + name if info["type"] == "timeseries" else name
        query = self.given.get("query") or (
            Path(self.given["queryFile"]).read_text() if "queryFile" in self.given else ""
        )
        parsed = json_util.loads(query) if query else {}
        cursor = self.client[db].get_collection(stored, codec_options=RAW).find_raw_batches(parsed)
        yield from cursor

    def directory(self, out: Path, db: str, name: str, info: dict[str, Any]) -> None:
        folder = out / db
        folder.mkdir(parents=True, exist_ok=True)
        suffix = ".gz" if self.zipped else ""
        with writer(folder / f"{file_name(name)}.metadata.json{suffix}", self.zipped) as file:
            file.write(self.metadata(db, name, info).encode())
        if info["type"] == "view":
            return
        stem = file_name(PREFIX + name if info["type"] == "timeseries" else name)
        with writer(folder / f"{stem}.bson{suffix}", self.zipped) as file:
            file.writelines(self.content(db, name, info))

    def archive(self, start: Timestamp | None) -> None:
        with writer(Path(self.given["archive"]), self.zipped) as file:
            file.write(MAGIC)
            file.write(
                bson.encode(
                    {
                        "concurrent_collections": 4,
                        "version": "0.1",
                        "server_version": self.server,
                        "tool_version": VERSION,
                    }
                )
            )
            for db, name, info in self.rows:
                stored = PREFIX + name if info["type"] == "timeseries" else name
                text = self.metadata(db, name, info)
                file.write(
                    bson.encode({"db": db, "collection": stored, "metadata": text, "size": 0, "type": info["type"]})
                )
            if start is not None:
                file.write(
                    bson.encode({"db": "", "collection": "oplog", "metadata": "", "size": 0, "type": "collection"})
                )
            file.write(TERMINATOR)
            for db, name, info in self.rows:
                if info["type"] != "view":
                    stored = PREFIX + name if info["type"] == "timeseries" else name
                    self.block(file, db, stored, self.content(db, name, info))
            if start is not None:
                self.block(file, "", "oplog", self.oplog(start))

    def block(self, file: Any, db: str, name: str, batches: Any) -> None:
        for batch in batches:
            file.write(bson.encode({"db": db, "collection": name, "EOF": False, "CRC": bson.Int64(0)}))
            file.write(batch)
            file.write(TERMINATOR)
        file.write(bson.encode({"db": db, "collection": name, "EOF": True, "CRC": bson.Int64(1)}) + TERMINATOR)

    def newest(self) -> Timestamp:
        row = self.client.local["oplog.rs"].find_one(sort=[("$natural", -1)])
        assert row is not None
        return row["ts"]

    def oplog(self, start: Timestamp) -> Any:
        oplog = self.client.local.get_collection("oplog.rs")
        end = self.newest()
        bounds = {"ts": {"$gte": start, "$lte": end}}
        if oplog.find_one(bounds | {"op": "c", "o.renameCollection": {"$exists": True}}):
            fail("cannot dump with oplog while renames occur")
        if oplog.find_one(bounds | {"ns": "admin.system.version"}):
            fail("cannot dump with oplog if admin.system.version is modified")
        yield from oplog.find_raw_batches(bounds)
