"""STAND-IN for mongorestore, for tests alone: see stand_in_common."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import bson
from bson import Timestamp, json_util
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.errors import BulkWriteError, OperationFailure
from stand_in_common import EXACT, RAW, connect, documents, fail, options, reader, say

KNOWN: dict[str, type] = {
    "config": str, "uri": str, "drop": bool, "stopOnError": bool, "bypassDocumentValidation": bool, "gzip": bool,
    "oplogReplay": bool, "oplogFile": str, "oplogLimit": str, "dir": str, "archive": str, "nsInclude": str,
    "nsExclude": str, "nsFrom": str, "nsTo": str, "noIndexRestore": bool, "numParallelCollections": str, "quiet": bool,
}  # fmt: skip
MANY = frozenset({"nsInclude", "nsExclude", "nsFrom", "nsTo"})
PREFIX = "system.buckets."
COMMANDS = frozenset(
    [
        "renameCollection",
        "dropDatabase",
        "applyOps",
        "dbCheck",
        "create",
        "convertToCapped",
        "emptycapped",
        "drop",
        "createIndexes",
        "deleteIndex",
        "deleteIndexes",
        "dropIndex",
        "dropIndexes",
        "collMod",
        "startIndexBuild",
        "abortIndexBuild",
        "commitIndexBuild",
    ]
)
KEPT_FIELDS = ("ts", "t", "h", "v", "op", "ns", "o", "o2", "lsid", "txnNumber", "prevOpTime", "multiOpType")


def main(argv: list[str]) -> None:
    given = options(argv, KNOWN, MANY)
    refuse(given)
    with connect(given) as client, tempfile.TemporaryDirectory() as unpacked:
        if "archive" in given:
            folder = Path(unpacked)
            unpack(Path(given["archive"]), folder, bool(given.get("gzip")))
            given["gzip"] = False
        else:
            folder = Path(given.get("dir", "dump"))
        Restore(client, given, folder).run()


def refuse(given: dict[str, Any]) -> None:
    if given.get("oplogReplay"):
        if given["nsInclude"]:
            fail("cannot use --oplogReplay with includes specified")
        if given["nsExclude"]:
            fail("cannot use --oplogReplay with excludes specified")
        if given["nsFrom"]:
            fail("cannot use --oplogReplay with namespace renames specified")
    elif "oplogLimit" in given or "oplogFile" in given:
        fail("cannot use --oplogLimit without --oplogReplay enabled")
    if "oplogFile" in given and "archive" in given:
        fail("cannot use --oplogFile with --archive specified")
    for included in given["nsInclude"]:
        if "$" in included:
            fail("invalid includes: '$' is not allowed in include/exclude patterns")
    if len(given["nsFrom"]) != len(given["nsTo"]):
        fail("--nsFrom and --nsTo arguments must be specified an equal number of times")
    for source, target in zip(given["nsFrom"], given["nsTo"], strict=True):
        if "$" in source + target:
            fail("stand-in: variables in renames are not known here")
        if wild_cards(source) != wild_cards(target):
            fail(f"invalid renames: Different number of asterisks in from: '{source}' and to: '{target}'")


def wild_cards(text: str) -> int:
    return text.count("*") - text.count("\\*")


def unpack(path: Path, folder: Path, zipped: bool) -> None:
    """Write an archive out as a directory."""
    with reader(path, zipped) as file:
        if file.read(4) != (0x8199E26D).to_bytes(4, "little"):
            fail("stream or file does not appear to be a mongodump archive")
        next(segment(file))
        for raw in segment(file):
            row = bson.decode(raw)
            if row["db"]:
                (folder / row["db"]).mkdir(exist_ok=True)
                stem = row["collection"].removeprefix(PREFIX).replace("/", "%2F")
                (folder / row["db"] / f"{stem}.metadata.json").write_text(row["metadata"])
                if row["type"] != "view":
                    (folder / row["db"] / f"{row['collection'].replace('/', '%2F')}.bson").touch()
        while (block := list(segment(file))) != []:
            head = bson.decode(block[0])
            where = folder / head["db"] if head["db"] else folder
            with (where / f"{head['collection'].replace('/', '%2F')}.bson").open("ab") as out:
                out.writelines(block[1:])


def segment(file: Any) -> Iterator[bytes]:
    while (head := file.read(4)) not in (b"", b"\xff\xff\xff\xff"):
        yield head + file.read(int.from_bytes(head, "little") - 4)


def pattern(text: str) -> re.Pattern[str]:
    """A namespace pattern: ``*`` is any text unless a backslash stands before it."""
    parts = re.split(r"(\\.|\*)", text)
    made = "".join(".*" if part == "*" else re.escape(part[1:] if part.startswith("\\") else part) for part in parts)
    return re.compile(made, re.DOTALL)


def unescaped(text: str) -> str:
    return re.sub(r"\\(\\|\*|)", r"\1", text)


class Restore:
    def __init__(self, client: MongoClient[Any], given: dict[str, Any], folder: Path) -> None:
        self.client, self.given, self.folder = client, given, folder
        self.zipped = bool(given.get("gzip"))
        self.catalog: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
        self.simple: set[tuple[str, str]] = set()
        self.restored = self.failed = self.applied = 0
        self.transactions: dict[Any, list[dict[str, Any]]] = {}
        self.limit = self.parse_limit()

    def parse_limit(self) -> Timestamp | None:
        if "oplogLimit" not in self.given:
            return None
        found = re.fullmatch(r"(\d+)(?::(\d*))?", self.given["oplogLimit"])
        if not found:
            fail("error parsing timestamp argument to --oplogLimit")
        stamp = Timestamp(int(found[1]), int(found[2] or 0))
        return None if (stamp.time, stamp.inc) == (0, 0) else stamp

    def run(self) -> None:
        if not self.folder.is_dir():
            fail(f"mongorestore target '{self.folder}' invalid")
        own = self.folder / "oplog.bson"
        if self.given.get("oplogReplay") and own.exists() and "oplogFile" in self.given:
            fail("cannot provide both an oplog.bson file and an oplog file with --oplogFile")
        for db in sorted(child for child in self.folder.iterdir() if child.is_dir()):
            self.database(db)
        if self.given.get("oplogReplay"):
            path = Path(self.given["oplogFile"]) if "oplogFile" in self.given else own
            if not path.exists():
                fail("no oplog file to replay; make sure you run mongodump with --oplog")
            self.replay(path)
        if not self.given.get("noIndexRestore"):
            self.build_indexes()
        say(f"{self.restored} document(s) restored successfully. {self.failed} document(s) failed to restore.")

    def database(self, folder: Path) -> None:
        if re.search(r'[/\\. "$\0]', folder.name):
            fail(f"invalid database name '{folder.name}'")
        suffix = ".gz" if self.zipped else ""
        for file in sorted(folder.iterdir()):
            if not file.name.endswith(f".metadata.json{suffix}"):
                continue
            stem = file.name.removesuffix(f".metadata.json{suffix}")
            with reader(file, self.zipped) as opened:
                said = json_util.loads(opened.read().decode(), json_options=EXACT)
            name = said.get("collectionName", unquote_plus(stem))
            self.collection(folder, stem, name, said, suffix)

    def included(self, ns: str) -> bool:
        included, excluded = self.given["nsInclude"], self.given["nsExclude"]
        if included and not any(pattern(one).fullmatch(ns) for one in included):
            return False
        return not any(pattern(one).fullmatch(ns) for one in excluded)

    def renamed(self, ns: str) -> str:
        for source, target in zip(self.given["nsFrom"], self.given["nsTo"], strict=True):
            if pattern(source).fullmatch(ns):
                return unescaped(target)
        return ns

    def collection(self, folder: Path, stem: str, name: str, said: dict[str, Any], suffix: str) -> None:
        kind = said.get("type", "collection")
        ns = f"{folder.name}.{name}"
        if not self.included(ns) or name == "system.profile" or ns == "admin.system.version":
            return
        db, _, target = self.renamed(ns).partition(".")
        where = self.client[db]
        if self.given.get("drop"):
            where.drop_collection(target)
        if target not in where.list_collection_names() and not target.startswith("system."):
            where.command({"create": target, **said.get("options", {})})
        elif kind == "view":
            fail(f"{ns}: collection already exists")
        if kind == "view":
            return
        stored = PREFIX + target if kind == "timeseries" else target
        data = folder / f"{PREFIX if kind == 'timeseries' else ''}{stem}.bson{suffix}"
        if data.exists():
            with reader(data, self.zipped) as opened:
                self.insert(db, stored, documents(opened))
        key = (db, target)
        for index in said.get("indexes", ()):
            self.catalog.setdefault(key, {})[index["name"]] = index
        if "collation" not in said.get("options", {}):
            self.simple.add(key)

    def insert(self, db: str, name: str, rows: Iterator[bytes]) -> None:
        target = self.client[db].get_collection(name, codec_options=RAW)
        batch: list[RawBSONDocument] = []
        for raw in rows:
            batch.append(RawBSONDocument(raw))
            if len(batch) == 1000:
                self.send(target, batch)
                batch = []
        if batch:
            self.send(target, batch)

    def send(self, target: Any, batch: list[RawBSONDocument]) -> None:
        bypass = bool(self.given.get("bypassDocumentValidation"))
        try:
            target.insert_many(batch, ordered=False, bypass_document_validation=bypass)
            self.restored += len(batch)
        except BulkWriteError as error:
            lost = len(error.details["writeErrors"])
            self.restored += len(batch) - lost
            self.failed += lost
            if self.given.get("stopOnError"):
                fail(f"{target.full_name}: error restoring: {error.details['writeErrors'][0]['errmsg']}")

    # --- the oplog

    def replay(self, path: Path) -> None:
        say("replaying oplog")
        with reader(path, self.zipped) as file:
            for raw in documents(file):
                entry = dict(bson.decode(raw, RAW))
                if self.handle(entry):
                    break
        say(f"applied {self.applied} oplog entries")

    def handle(self, op: dict[str, Any]) -> bool:
        """True at the limit."""
        ns = op["ns"]
        if ns.startswith("__mdb_internal") or (ns.startswith("config.") and ns[7:] not in ("settings", "version")):
            return False
        command = next(iter(op["o"]), "") if op["op"] == "c" else ""
        if op["op"] in ("n", "cd", "ci", "cu", "km") or command in ("startIndexBuild", "abortIndexBuild"):
            return False
        stamp = op.get("ts")
        if self.limit is not None and stamp is not None and stamp >= self.limit:
            return True
        linked = op["op"] == "c" and "lsid" in op and "txnNumber" in op and op.get("multiOpType") != 1
        if linked and command in ("applyOps", "commitTransaction", "abortTransaction"):
            self.transaction(op, command)
        else:
            self.apply(op)
        return False

    def transaction(self, op: dict[str, Any], command: str) -> None:
        key = (op["lsid"].raw, op["txnNumber"])
        if command == "abortTransaction":
            self.transactions.pop(key, None)
            return
        held = self.transactions.setdefault(key, [])
        if command == "applyOps":
            held += [dict(inner) for inner in op["o"]["applyOps"]]
            if op["o"].get("partialTxn") or op["o"].get("prepare"):
                return
        for inner in self.transactions.pop(key):
            self.apply(inner)

    def apply(self, op: dict[str, Any]) -> None:
        self.applied += 1
        if op["op"] == "c" and self.command(op, dict(op["o"])):
            return
        sent = {name: op[name] for name in KEPT_FIELDS if name in op}
        if op["op"] == "c" and next(iter(op["o"])) == "create":
            sent["o"] = {name: value for name, value in op["o"].items() if name != "recordIdsReplicated"}
        try:
            self.client.admin.command(
                {"applyOps": [sent], "bypassDocumentValidation": bool(self.given.get("bypassDocumentValidation"))}
            )
        except OperationFailure as error:
            fail(f"error applying oplog: applyOps: ({(error.details or {}).get('codeName')}) {error}: {sent}")

    def command(self, op: dict[str, Any], o: dict[str, Any]) -> bool:
        """True where nothing is to be sent."""
        name = next(iter(o))
        if name not in COMMANDS:
            fail(f"unknown oplog command name {name}")
        db = op["ns"].partition(".")[0]
        key = (db, o[name]) if isinstance(o[name], str) else (db, "")
        if name in ("commitIndexBuild", "createIndexes"):
            specs = o["indexes"] if name == "commitIndexBuild" else [{k: v for k, v in o.items() if k != name}]
            for spec in specs:
                self.catalog.setdefault(key, {})[spec["name"]] = dict(spec)
            return True
        if name == "dropDatabase":
            self.catalog = {other: value for other, value in self.catalog.items() if other[0] != db}
        elif name == "drop":
            self.catalog.pop(key, None)
        elif name == "applyOps":
            for inner in o["applyOps"]:
                self.handle(dict(inner))
            return True
        elif name in ("dropIndexes", "deleteIndexes", "dropIndex", "deleteIndex"):
            held = self.catalog.get(key, {})
            for index in [index for index in held if o.get("index") in (index, "*") and index != "_id_"]:
                del held[index]
            return True
        elif name == "collMod" and "index" in o:
            self.coll_mod(key, dict(o["index"]))
            op["o"] = {field: value for field, value in o.items() if field != "index"}
            return len(op["o"]) == 1
        elif name == "create" and "collation" not in o:
            self.simple.add(key)
        return False

    def coll_mod(self, key: tuple[str, str], change: dict[str, Any]) -> None:
        held = self.catalog.get(key, {})
        for name, spec in held.items():
            same_key = "keyPattern" in change and dict(spec["key"]) == dict(change["keyPattern"])
            if name == change.get("name") or same_key:
                held[name] = dict(spec) | {k: v for k, v in change.items() if k not in ("name", "keyPattern")}
                return
        fail(f"could not handle collMod on {'.'.join(key)}: cannot find index in indexCatalog for collMod: {change}")

    def build_indexes(self) -> None:
        for (db, name), indexes in self.catalog.items():
            specs = [dict(spec) for spec in indexes.values() if list(spec["key"]) != ["_id"]]
            for spec in specs:
                spec.pop("ns", None)
                if (db, name) not in self.simple and "collation" not in spec:
                    spec["collation"] = {"locale": "simple"}
            if not specs:
                continue
            try:
                self.client[db].command({"createIndexes": name, "indexes": specs})
            except OperationFailure as error:
                fail(f"{db}.{name}: error creating indexes for {db}.{name}: createIndex error: {error}")
