"""A server full of hostile names, ids, fields and values, with incidents to find and data to restore."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bson import Int64, encode
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from hostile.samples import BAD_UTF8, ESCAPES, MARKUP, SPOOFS, TEXTS, VALUES, collection_names, database_names
from tallyglass.demo import backup
from tallyglass.demo.server import ReplicaSet

SET_NAME = "rs\x1b]0;x\x07'$(touch PWNED)&w=0;%41 \"é"
DB = "everything"
POOL = "a pool \x1b[2J[/]"
"""A collection whose documents divide one id space between them."""
PYMONGO_REFUSES = ("a..b", "a..c", "ends.", "counters..x")
"""Collection names that the server accepts and PyMongo refuses."""

DOCUMENTS = 30
"""Documents in each collection."""


@dataclass(frozen=True)
class Hostile:
    """The server and a backup from before the destructive operations."""

    servers: ReplicaSet
    uri: str
    backup: Path

    @property
    def other_set(self) -> str:
        """A URI with another, hostile set name, which then appears in the error message."""
        return (
            self.uri.split("?")[0] + "?serverSelectionTimeoutMS=900&replicaSet=" + quote("x\x1b[2J\u202e[/x]", safe="")
        )


@contextmanager
def hostile_server(folder: Path) -> Iterator[Hostile]:
    """Start a server with a hostile set name, fill it, back it up, and damage its data."""
    # Every five minutes the server writes its sessions, which on a slow machine would push the rows off the screen.
    options = ["--setParameter", "disableLogicalSessionCacheRefresh=true"]
    with ReplicaSet(1, set_name=SET_NAME, options=options) as servers:
        uri = f"mongodb://{servers.members[0].address}/?replicaSet={quote(SET_NAME, safe='')}"
        with servers.client(0) as client:
            fill(client)
            taken = backup.take(uri, folder / "backup")
            damage(client)
        yield Hostile(servers, uri, taken)


def fill(client: MongoClient[dict[str, Any]]) -> None:
    """Create counters, collections and documents named by every sample text."""
    for name, db in database_names().items():
        client[db].counters.insert_one({"_id": TEXTS[name], "seq": 41})
        client[db].counters.update_one({"_id": TEXTS[name]}, {"$inc": {"seq": 1}})
    for name, collection in collection_names().items():
        text = TEXTS[name]
        rows = [{"_id": f"{text}{n}", "v": text, "key" + text.replace("\0", ""): n} for n in range(DOCUMENTS)]
        client[DB][collection].insert_many(rows)
    client[DB][POOL].insert_many(
        [
            {"_id": text, "COUNT": Int64(n * 10**9 + 7), "MAX_VALUE": Int64((n + 1) * 10**9)}
            for n, text in enumerate([ESCAPES["clipboard"], MARKUP["action"], SPOOFS["bidi"], ESCAPES["clear"]])
        ]
    )
    client[DB].values.insert_many([{"_id": name, "v": value} for name, value in VALUES.items()])
    right = encode({"_id": "bad utf-8", "v": "x" * len(BAD_UTF8)})
    client[DB].values.insert_one(RawBSONDocument(right.replace(b"x" * len(BAD_UTF8), BAD_UTF8)))


def damage(client: MongoClient[dict[str, Any]]) -> None:
    """Empty, change, drop and rename the collections that :func:`fill` created."""
    for name in PYMONGO_REFUSES:
        client[DB].command({"insert": name, "documents": [{"_id": name, "seq": 1}, {"_id": "gone"}]})
        client[DB].command({"delete": name, "deletes": [{"q": {"_id": "gone"}, "limit": 1}]})
    client[DB].command({"drop": PYMONGO_REFUSES[0]})
    for index, collection in enumerate(collection_names().values()):
        if index % 4 == 0:
            client[DB][collection].delete_many({})
        elif index % 4 == 1:
            client[DB][collection].update_many({}, {"$set": {"v": collection + " damaged"}})
        elif index % 4 == 2:
            client[DB][collection].drop()
        else:
            client[DB][collection].rename(f"{collection[:40]} renamed")
    for index, db in enumerate(database_names().values()):
        if index % 5 == 0:
            client.drop_database(db)
