"""Libraries that hand out ids, as they really ran: what they wrote, and the oplog of it.

``libraries/`` holds the programs that let them run, each library in a database of its own beside page views, stock and
logins; ``library_runs.bson.xz`` what they wrote. ``python -m tests.corpus.library_runs URI`` records it again, without
an argument it prints the confusion matrix of what is recognised in the recording.
"""

from __future__ import annotations

import argparse
import asyncio
import lzma
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import bson
from pymongo import MongoClient
from tests.builders.backdate import write_past
from tests.corpus.applications import Application
from tests.corpus.confusion import Confusion, confusion

from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.watch import look
from tallyglass.counters.snapshot import CountersSnapshot
from tallyglass.demo.server import ReplicaSet
from tallyglass.mongo.client import open_gateway

RECORDING = Path(__file__).parent / "libraries" / "library_runs.bson.xz"
PREFIX = "lib_"
_ENDED_SECONDS_AGO = 300
"""The recorded oplog ends well before the replay, whose own entries follow it."""

COUNTERS: dict[str, set[tuple[str, str]]] = {
    "mongoose_sequence": {("counters", "seq")},
    "mongoose_sequence_scoped": {("counters", "seq")},
    "typegoose": {("identitycounters", "count")},
    "plugin_autoinc": {("identitycounters", "count")},
    "mongoose_auto_increment": {("identitycounters", "count")},
    "auto_increment_reworked": {("idcounters", "c")},
    "auto_number": {("_counters", "value")},
    "mongoose_increment": {("_counters", "count")},
    "autoinc": {("identitycounters", "count")},
    "eventstore": {("positions", "position")},
    "easy_auto_increment": {("SerialNumberCounters", "seq")},
    "mongo_autoincrement": {("counters", "current")},
    "mongodb_autoincrement": {("counters", "seq")},
    "mongodb_counter": {("counters", "seq")},
    "mongodb_counter_ranges": {("counters", "seq")},
    "mongo_sequence": {("counters", "sequence")},
    "nodebb": {("objects", "nextTid"), ("objects", "nextPid")},
    "mongoengine": {("mongoengine.counters", "next")},
    "fireworks": {("fw_id_assigner", "next_fw_id"), ("fw_id_assigner", "next_launch_id")},
    "hyperopt": {("job_ids", "last_id")},
    "djongo": {("__schema__", "auto.seq")},
    "spring_data": {("database_sequences", "seq")},
    "hibernate_ogm": {("hibernate_sequences", "next_val")},
}
"""The numbers that hand out ids, as ``(collection, path)``, by library."""


def record(uri: str) -> None:
    """Write what the libraries wrote to this deployment into the recording; what it has of others is kept."""
    with MongoClient[dict[str, Any]](uri) as client:
        recorded = {name for name in client.list_database_names() if name.removeprefix(PREFIX) in COUNTERS}
        rows = [row for row in _recorded() if _namespace(row).partition(".")[0] not in recorded]
        for name in sorted(recorded):
            db = client[name]
            for collection in sorted(db.list_collection_names()):
                indexes = [row["key"] for row in db[collection].list_indexes() if row["name"] != "_id_"]
                documents = list(db[collection].find())
                if documents:
                    rows.append({"ns": f"{db.name}.{collection}", "documents": documents, "indexes": indexes})
        entries = [row for row in client.local["oplog.rs"].find() if _is_write(row)]
    began = entries[0]["wall"]
    kept = ("op", "ns", "o", "o2", "needsRetryImage")
    for entry in entries:
        after = (entry["wall"] - began).total_seconds()
        rows.append({"after": after, **{key: entry[key] for key in kept if key in entry}})
    rows.sort(key=lambda row: row.get("after", -1.0))
    RECORDING.write_bytes(lzma.compress(b"".join(map(bson.encode, rows)), preset=9))


def _recorded() -> list[dict[str, Any]]:
    return list(bson.decode_iter(lzma.decompress(RECORDING.read_bytes())))


def _namespace(row: dict[str, Any]) -> str:
    """The namespace of a collection, of an entry, or of the first write of a transaction."""
    inner = row.get("o", {}).get("applyOps") or [row]
    return str(inner[0]["ns"])


def _is_write(entry: dict[str, Any]) -> bool:
    inner = entry["o"].get("applyOps", [entry])
    return entry["op"] in "iudc" and all(one["op"] in "iud" and one["ns"].startswith(PREFIX) for one in inner)


def replay(servers: ReplicaSet) -> int:
    """Give a one-member set the collections of the recording and its oplog; returns the number of collections."""
    rows = _recorded()
    collections = [row for row in rows if "documents" in row]
    with servers.client() as client:
        for row in collections:
            db, _, name = row["ns"].partition(".")
            client[db][name].insert_many(row["documents"])
            for index in row["indexes"]:
                client[db][name].create_index([*index.items()])
    write_past(servers, _past([row for row in rows if "after" in row]))
    return len(collections)


def _past(entries: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    began = time.time() - _ENDED_SECONDS_AGO - max(entry["after"] for entry in entries)
    for entry in entries:
        yield {"at": began + entry.pop("after"), **entry}


def libraries() -> list[Application]:
    """The databases of the recording with their labels, as those of other parts of the corpus."""

    def nothing(*_: object) -> None:
        """Stand for what was recorded."""

    return [Application(PREFIX + name, nothing, nothing, frozenset(found)) for name, found in COUNTERS.items()]


async def measure() -> Confusion:
    """Replay the recording on a server of its own, and look once."""
    with ReplicaSet(1) as servers:
        collections = await asyncio.to_thread(replay, servers)
        return confusion(await look_at(servers.uri), libraries(), collections)


async def look_at(uri: str) -> CountersSnapshot:
    """One look without a memory of earlier ones."""
    gateway = open_gateway(uri)
    try:
        return await look(gateway, WatchSettings(search_seconds=300))
    finally:
        await gateway.close()


def main(argv: Sequence[str] | None = None) -> None:
    """Record, or print the confusion matrix."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("uri", nargs="?")
    options = parser.parse_args(argv)
    if options.uri:
        record(options.uri)
        return
    result = asyncio.run(measure())
    print(f"{len(COUNTERS)} libraries, {result.collections} collections\n{result.matrix()}")
    for title, names in (("missed", result.true - result.sure), ("false", result.sure - result.true)):
        print(*(f"  {title}: {name} ({result.found.get(name, 'not listed')})" for name in sorted(names)), sep="\n")


if __name__ == "__main__":
    main()
