"""STAND-IN, for tests alone: what the stand-ins for MongoDB's tools share. None of this is a MongoDB tool.

They stand where the real mongodump, mongorestore, bsondump and mongosh cannot be had. They follow what was measured
with the real ones (exclusive limit, skipped entries, one applyOps an operation, indexes last), and refuse what
those refuse, so that an emitted script that would fail there fails here too. That is evidence, not proof: tests
with the id ``real`` are.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NoReturn
from urllib.parse import quote, quote_plus

from bson import json_util
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.uri_parser import parse_uri

VERSION = "100.18.0"
RAW: CodecOptions[RawBSONDocument] = CodecOptions(document_class=RawBSONDocument)
EXACT = json_util.CANONICAL_JSON_OPTIONS


def say(text: str) -> None:
    print(f"2026-01-01T00:00:00.000+0000\t{text}", file=sys.stderr)


def fail(text: str) -> NoReturn:
    say(f"Failed: {text}")
    sys.exit(1)


def options(argv: list[str], known: Mapping[str, type], many: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Parse as go-flags does for what the emitted commands use: long options, ``--name=value`` or ``--name value``."""
    found: dict[str, Any] = {name: [] for name in many}
    words = list(argv)
    while words:
        word = words.pop(0)
        name, equals, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or name not in known:
            say(f"error parsing command line options: unknown option {word!r}")
            sys.exit(1)
        if known[name] is bool:
            if equals:
                fail(f"bool flag `--{name}' cannot have an argument")
            found[name] = True
            continue
        if not equals:
            if not words or words[0].startswith("-"):
                fail(f"expected argument for flag `--{name}'")
            value = words.pop(0)
        if name in many:
            found[name].append(value)
        else:
            found[name] = value
    return found


def read_config(path: str) -> dict[str, str]:
    """Strict YAML with the three keys that the tools accept, one scalar a line."""
    said: dict[str, str] = {}
    for line in Path(path).read_text().splitlines():
        if not line.strip():
            continue
        key, colon, value = line.partition(": ")
        if key not in ("uri", "password", "sslPEMKeyPassword") or not colon or key in said:
            fail(f"error parsing config file: field {key} not found in type")
        value = value.strip()
        if value.startswith('"'):
            said[key] = json.loads(value)
        elif value.startswith("'") and value.endswith("'"):
            said[key] = value[1:-1].replace("''", "'")
        else:
            fail("error parsing config file: not a quoted scalar")
    return said


def connect(given: Mapping[str, Any]) -> MongoClient[Any]:
    config = read_config(given["config"]) if "config" in given else {}
    uri = given.get("uri") or config.get("uri") or "mongodb://localhost:27017/"
    said = parse_uri(uri)
    if said["database"] and said["database"] != given.get("db", said["database"]):
        fail("cannot specify different database in connection URI and command-line option")
    if said["database"] and given.get("oplog"):
        fail("--oplog mode only supported on full dumps")
    extra: dict[str, Any] = {"serverSelectionTimeoutMS": 20_000}
    if len(said["nodelist"]) == 1 and "replicaSet" not in said["options"]:
        extra["directConnection"] = True
    if said["username"]:
        password = said["password"] or config.get("password")
        if not password:
            password = sys.stdin.readline().rstrip("\n")
            if not password:
                fail("error getting password")
        uri = with_password(uri, str(password))
        if "authSource" not in said["options"] and given.get("db"):
            extra["authSource"] = given["db"]
    return MongoClient(uri, **extra)


def with_password(uri: str, password: str) -> str:
    head, _, tail = uri.partition("@")
    return f"{head.rstrip(':')}:{quote(password, safe='')}@{tail}"


def file_name(collection: str) -> str:
    return quote_plus(collection)


def writer(path: Path, zipped: bool) -> IO[bytes]:
    return gzip.open(path, "wb") if zipped else path.open("wb")  # type: ignore[return-value]


def reader(path: Path, zipped: bool) -> IO[bytes]:
    return gzip.open(path, "rb") if zipped else path.open("rb")  # type: ignore[return-value]


def documents(file: IO[bytes]) -> Iterator[bytes]:
    while head := file.read(4):
        size = int.from_bytes(head, "little")
        rest = file.read(size - 4)
        if len(head) < 4 or len(rest) != size - 4:
            fail("error reading bson input: unexpected EOF")
        yield head + rest


def version(name: str) -> None:
    print(f"{name} version: {VERSION}\ngit version: stand-in for tests, not a MongoDB tool")
