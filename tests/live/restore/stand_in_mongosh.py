"""STAND-IN for mongosh, for tests alone: see stand_in_common. No JavaScript engine.

It reads the one form of program that Tallyglass emits, literal by literal, and sends each command through PyMongo.
Whatever it does not know ends it with an error, so nothing else can slip into an emitted file.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from bson import Decimal128, Int64, ObjectId, json_util
from pymongo import MongoClient
from pymongo.errors import OperationFailure
from stand_in_common import EXACT, with_password

_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_WORD = re.compile(r"[A-Za-z.]+")
_NUMBER = re.compile(r"-?\d+")
_COUNT = re.compile(r"null|\d+")


STATEMENTS = (
    "must(", "gone(", "mustBeAbsent(", "mustBeAllowed(", "takeName(", "mergeSince(", "replaceBy(", "moved(",
    "dropLike(", "mustNotBeSet(", "db.getSiblingDB(",
)  # fmt: skip


class Reader:
    """A recursive descent over the literals that Tallyglass writes."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def take(self, token: str) -> None:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        if not self.text.startswith(token, self.at):
            raise SyntaxError(f"{token!r} expected at {self.text[self.at : self.at + 60]!r}")
        self.at += len(token)

    def sees(self, token: str) -> bool:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        return self.text.startswith(token, self.at)

    def match(self, pattern: re.Pattern[str]) -> str:
        self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
        found = pattern.match(self.text, self.at)
        if not found:
            raise SyntaxError(f"nothing known at {self.text[self.at : self.at + 60]!r}")
        self.at = found.end()
        return found[0]

    def value(self) -> Any:
        if self.sees("{"):
            return self.document()
        if self.sees("["):
            return self.array()
        if self.sees('"'):
            return json.loads(self.match(_STRING))
        word = self.match(_WORD)
        if word in ("null", "true", "false"):
            return {"null": None, "true": True, "false": False}[word]
        self.take("(")
        if word == "NumberInt":
            made: Any = int(self.match(_NUMBER))
        else:
            text = json.loads(self.match(_STRING))
            if word == "EJSON.parse":
                self.take(", {relaxed: false}).v")
                return json_util.loads(text, json_options=EXACT)["v"]
            made = {"NumberLong": lambda t: Int64(int(t)), "NumberDecimal": Decimal128, "ObjectId": ObjectId}[word](
                text
            )
        self.take(")")
        return made

    def document(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self.take("{")
        while not self.sees("}"):
            key = json.loads(self.match(_STRING))
            self.take(":")
            made[key] = self.value()
            if not self.sees("}"):
                self.take(",")
        self.take("}")
        return made

    def array(self) -> list[Any]:
        made = []
        self.take("[")
        while not self.sees("]"):
            made.append(self.value())
            if not self.sees("]"):
                self.take(",")
        self.take("]")
        return made


def main(argv: list[str]) -> None:
    files = [word.removeprefix("--file=") for word in argv if word.startswith("--file=")]
    if len(files) != 1 or set(argv) - {"--nodb", "--norc", "--quiet", f"--file={files[0]}"}:
        sys.exit("stand-in for mongosh: unknown arguments")
    lines = Path(files[0]).read_text().splitlines()
    try:
        run(lines)
    except (SyntaxError, KeyError, ValueError) as error:
        sys.exit(f"stand-in for mongosh: {error}")


def run(lines: list[str]) -> None:
    password, client, inside = "", None, False
    for line in lines:
        if line.startswith("const MOST_SINCE = "):
            continue
        if line.startswith("function "):
            inside = True
        if inside:
            inside = line != "}"
        elif line.startswith("const held = "):
            held = Path(Reader(line.removeprefix("const held = ")).value())
            password = held.read_text().split("\n")[0] if held.exists() else sys.stdin.readline().rstrip("\n")
        elif line.startswith("db = connect("):
            client = connect(line, password)
        elif line.startswith(STATEMENTS):
            assert client is not None
            statement(client, Reader(line))
        elif line and not line.startswith(("const fs = require", "const password = ", 'print("done")')):
            raise SyntaxError(line[:80])


def connect(line: str, password: str) -> MongoClient[Any]:
    reader = Reader(line.removeprefix("db = connect("))
    uri = reader.value()
    if reader.sees("+ encodeURIComponent(password) +"):
        reader.take("+ encodeURIComponent(password) +")
        uri = with_password(uri.removesuffix(":") + reader.value(), password)
    reader.take(");")
    return MongoClient(uri, serverSelectionTimeoutMS=20_000)


def arguments(reader: Reader, name: str, *kinds: str) -> list[Any]:
    """The arguments of one call: each a value, or a plain count."""
    reader.take(f"{name}(")
    found = []
    for number, kind in enumerate(kinds):
        if number:
            reader.take(",")
        if kind == "count":
            text = reader.match(_COUNT)
            found.append(None if text == "null" else int(text))
        else:
            found.append(reader.value())
    reader.take(");")
    return found


def is_there(client: MongoClient[Any], ns: str) -> bool:
    db, _, name = ns.partition(".")
    return name in client[db].list_collection_names()


def must_hold(client: MongoClient[Any], ns: str, count: int | None) -> None:
    db, _, name = ns.partition(".")
    if not is_there(client, ns) or (count is not None and client[db][name].count_documents({}) != count):
        sys.exit(f"stand-in for mongosh: {ns!r} is not there, or holds other than {count} documents")


def must_not_be_set(client: MongoClient[Any], reader: Reader) -> None:
    (name,) = arguments(reader, "mustNotBeSet", "")
    if client.admin.command("hello").get("setName") == name:
        sys.exit("stand-in for mongosh: this is a member of the live set")


def merge_since(client: MongoClient[Any], reader: Reader) -> None:
    ns, beside, count, seen, body = arguments(reader, "mergeSince", "", "", "count", "", "")
    must_hold(client, beside, count)
    if not is_there(client, ns):
        sys.exit(f"stand-in for mongosh: {ns!r} is not there any more")
    oplog = client.local["oplog.rs"]
    if oplog.find_one({"ts": seen}) is None:
        sys.exit("stand-in for mongosh: the oplog does not reach back to the plan")
    db, _, name = ns.partition(".")
    other = [{f"o.{word}": name, "ns": f"{db}.$cmd"} for word in ("drop", "emptycapped")]
    other += [{f"o.{word}": ns} for word in ("renameCollection", "to")]
    if oplog.find_one({"ts": {"$gt": seen}, "op": "c", "$or": other}):
        sys.exit(f"stand-in for mongosh: {ns!r} was dropped, emptied or replaced since the plan")
    ids = []
    kinds = "d" if body["pipeline"][-1]["$merge"]["whenMatched"] == "keepExisting" else "iud"
    for entry in oplog.find({"ts": {"$gt": seen}, "$or": [{"ns": ns}, {"o.applyOps.ns": ns}]}):
        for one in entry["o"].get("applyOps", []) if entry["op"] == "c" else [entry]:
            if one["ns"] == ns and one["op"] in kinds:
                ids.append(one["o2" if one["op"] == "u" else "o"]["_id"])
    if ids:
        body["pipeline"].insert(0, {"$match": {"_id": {"$nin": ids}}})
    client[ns.partition(".")[0]].command(body)


def forward(client: MongoClient[Any], source: str, target: str, path: str, wanted: Any, missing: str) -> None:
    db, _, name = source.partition(".")
    greater = {"$max": [f"${path}", f"$$new.{path}"]}
    merge = {"into": target.partition(".")[2], "on": "_id", "whenMatched": [{"$set": {path: greater}}]}
    pipeline = [{"$match": wanted | {path: {"$type": "number"}}}, {"$merge": merge | {"whenNotMatched": missing}}]
    client[db].command({"aggregate": name, "pipeline": pipeline, "cursor": {}})


def replace_by(client: MongoClient[Any], reader: Reader) -> None:
    ns, beside, kept, count, paths = arguments(reader, "replaceBy", "", "", "", "count", "")
    found = tuple(is_there(client, one) for one in (ns, beside, kept))
    if found == (True, True, False):
        must_hold(client, beside, count)
        for path in paths:
            forward(client, ns, beside, path, {}, "discard")
        client.admin.command({"renameCollection": ns, "to": kept})
        client.admin.command({"renameCollection": beside, "to": ns})
    elif found == (False, True, True):
        client.admin.command({"renameCollection": beside, "to": ns})
    elif found != (True, False, True):
        sys.exit(f"stand-in for mongosh: neither before nor after the replacement of {ns!r}")
    for path in paths:
        forward(client, kept, ns, path, {}, "discard")
        forward(client, kept, ns, path, {"_id": {"$not": {"$type": "objectId"}}}, "insert")


def gone(client: MongoClient[Any], reader: Reader) -> None:
    db, body = arguments(reader, "gone", "", "")
    try:
        client[db].command(body)
    except OperationFailure as error:
        if error.code not in (26, 27):
            raise


def must_be_absent(client: MongoClient[Any], reader: Reader) -> None:
    (ns,) = arguments(reader, "mustBeAbsent", "")
    if is_there(client, ns):
        sys.exit(f"stand-in for mongosh: {ns!r} was made since the plan")


def must_be_allowed(client: MongoClient[Any], reader: Reader) -> None:
    (wanted,) = arguments(reader, "mustBeAllowed", "")
    info = client.admin.command("connectionStatus", showPrivileges=True)["authInfo"]
    for db, name, actions in wanted if info["authenticatedUsers"] else ():
        held = {
            action
            for one in info["authenticatedUserPrivileges"]
            if one["resource"].get("anyResource")
            or (one["resource"].get("db") in (db, *([] if db == "local" else [""]))
                and one["resource"].get("collection") in (name, ""))
            for action in one["actions"]
        }  # fmt: skip
        if "anyAction" not in held and set(actions) - held:
            sys.exit(f"stand-in for mongosh: may not {sorted(set(actions) - held)} on {db}.{name}")


def take_name(client: MongoClient[Any], reader: Reader) -> None:
    ns, beside, count = arguments(reader, "takeName", "", "", "count")
    if is_there(client, ns) and not is_there(client, beside):
        return
    must_hold(client, beside, count)
    if is_there(client, ns):
        sys.exit(f"stand-in for mongosh: {ns!r} was made since the plan")
    client.admin.command({"renameCollection": beside, "to": ns})


CALLS = {
    "gone(": gone, "mustBeAbsent(": must_be_absent, "takeName(": take_name, "mergeSince(": merge_since,
    "replaceBy(": replace_by, "mustBeAllowed(": must_be_allowed, "mustNotBeSet(": must_not_be_set,
}  # fmt: skip


def statement(client: MongoClient[Any], reader: Reader) -> None:
    if reader.sees("dropLike("):
        reader.take("dropLike(")
        where = client[reader.value()]
        reader.take(",")
        wanted = re.compile(reader.value())
        reader.take(");")
        for name in where.list_collection_names():
            if wanted.search(name):
                where.drop_collection(name)
        return
    for name, call in CALLS.items():
        if reader.sees(name):
            call(client, reader)
            return
    must_match = reader.sees("moved(")
    if must_match:
        reader.take("moved(")
    checked = reader.sees("must(")
    if checked:
        reader.take("must(")
    reader.take("db.getSiblingDB(")
    where = client[reader.value()]
    if checked:
        reader.take(").runCommand(")
        body = reader.value()
        reader.take("));")
        said = where.command(body)
        if said.get("writeErrors"):
            sys.exit(f"stand-in for mongosh: {said['writeErrors']}")
        return
    reader.take(").getCollection(")
    target = where[reader.value()]
    reader.take(").updateOne(")
    query = reader.value()
    reader.take(",")
    change = reader.value()
    more = {}
    if reader.sees(","):
        reader.take(",")
        more = reader.value()
    reader.take(")")
    missing = ""
    if must_match:
        reader.take(",")
        missing = reader.value()
        reader.take(")")
    reader.take(";")
    done = target.update_one(query, change, **more)
    if missing and not done.matched_count and done.upserted_id is None:
        sys.exit(f"stand-in for mongosh: {missing}")
