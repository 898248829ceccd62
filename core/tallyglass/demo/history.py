"""The history of the demo: a backup and an oplog as if the set had been running for more than a day.

A replica set refuses writes to its oplog; the same server started without ``--replSet`` accepts them. The server
therefore starts as a standalone: load the data as of the backup, take the backup, then write the oplog entries since.
The data is changed by applying the same entries with ``applyOps``, so that the backup plus a replay of the oplog
equals the data. One entry represents many: a busy set would have written millions.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from bson import Binary, Int64, Timestamp
from pymongo import MongoClient

from tallyglass.demo import backup
from tallyglass.demo.numbering import ArticlePool, Document
from tallyglass.demo.seed import made_at, seed
from tallyglass.demo.server import Servers
from tallyglass.demo.streams import Stream
from tallyglass.moment import from_seconds

HOURS = 30.0
"""Age of the backup. More than a day, so that a forecast sees both busy and quiet hours."""

_OPLOG_BYTES = 990 * 1024 * 1024  # the smallest that mongod creates by itself: the demo's forecast of its reach is real
_QUIET_SECONDS = 120  # of a quiet server's no-ops before the backup, so that the oplog reaches back beyond its start
_STEPS, _STEPS_OF_POOL, _STEPS_OF_LAST_HOUR = 120, 500, 60
"""Changes of a counter in the backdated hours, of a pool of a thousand counters, and of each in the last hour: a
forecast needs dozens of changes over a day for a band."""

_AT_ONCE = 2_000  # entries in one applyOps, which may have 16 MB: these have less than 1 kB each
_FORMER = "people_2019"


@dataclass(frozen=True, slots=True)
class BackdatedEntry:
    """An oplog entry to be written: ``at`` in seconds since 1970, the other fields as in the oplog."""

    at: float
    op: str
    ns: str
    o: Document
    o2: Document | None = None
    session: Document | None = None

    def operation(self) -> Document:
        """The operation, as ``applyOps`` takes it."""
        return {"op": self.op, "ns": self.ns, "o": self.o} | ({"o2": self.o2} if self.o2 is not None else {})

    @property
    def target(self) -> str:
        """The namespace that it changes; empty for a no-op."""
        db, _, name = self.ns.partition(".")
        return f"{db}.{next(iter(self.o.values()))}" if self.op == "c" else self.ns if name else ""

    def document(self, ts: Timestamp, ui: Binary | None) -> Document:
        """The document for the oplog, keys in the order the server writes them. ``ui`` is the collection's UUID."""
        stamps = {"ts": ts, "t": Int64(1), "v": Int64(2), "wall": from_seconds(self.at)}
        known = {"ui": ui} if ui is not None else {}
        return (self.session or {}) | self.operation() | known | stamps | ({"stmtId": 0} if self.session else {})


@dataclass(slots=True)
class HistoryWriter:
    """Applies entries to the data and appends them to the oplog, in order of time."""

    client: MongoClient[Document]
    _second: int = 0
    _ordinal: int = 0
    _uuids: dict[str, Binary] = field(default_factory=dict)

    def write(self, entries: Iterable[BackdatedEntry]) -> None:
        """Write the entries; none may be older than the last one written."""
        ordered = sorted(entries, key=lambda entry: entry.at)
        for start in range(0, len(ordered), _AT_ONCE):
            part = ordered[start : start + _AT_ONCE]
            self._look_up({entry.target for entry in part})
            operations = [entry.operation() for entry in part if entry.op != "n"]
            if operations:
                self.client.admin.command("applyOps", operations)
            rows = [entry.document(self._next(entry.at), self._uuids.get(entry.target)) for entry in part]
            self.client.local["oplog.rs"].insert_many(rows)

    def _look_up(self, names: set[str]) -> None:
        """Look up the collection UUIDs, which oplog entries carry, while the collections still exist."""
        for db in {ns.partition(".")[0] for ns in names - set(self._uuids) if ns}:
            for info in self.client[db].list_collections():
                if "uuid" in info["info"]:
                    self._uuids[f"{db}.{info['name']}"] = info["info"]["uuid"]

    def _next(self, at: float) -> Timestamp:
        self._ordinal = self._ordinal + 1 if int(at) == self._second else 1
        self._second = int(at)
        return Timestamp(self._second, self._ordinal)


def begin(servers: Servers, streams: Mapping[str, Stream], rng: random.Random) -> Path:
    """Write the history to an empty server that runs without ``--replSet``; returns the folder of the backup.

    Raises PyMongoError if this server version refuses it.
    """
    now = time.time()
    begun = now - HOURS * 3600
    with servers.client(0) as client:
        seed(client, streams, rng, HOURS * 3600)
        client.crm[_FORMER].insert_many([{"_id": n, "name": f"Contact {n}"} for n in range(1, 181)])
        client.local.create_collection("oplog.rs", capped=True, size=_OPLOG_BYTES)
        writer = HistoryWriter(client)
        writer.write(BackdatedEntry(begun - n, "n", "", {"msg": "periodic noop"}) for n in range(0, _QUIET_SECONDS, 10))
        folder = backup.write(client, servers.folder / "backup", begun)
        found = chain.from_iterable(_steps(stream, rng, now) for stream in streams.values())
        steps = sorted(found, key=lambda entry: entry.at)
        for hours_ago, act in _ACTS:
            at = now - hours_ago * 3600
            writer.write(entry for entry in steps if entry.at <= at)
            steps = [entry for entry in steps if entry.at > at]
            writer.write(act(client, at))
        writer.write(steps)
        for stream in streams.values():
            rows = client[stream.target.db][stream.target.collection].find({}, {"_id": 1})
            stream.ids = deque(row["_id"] for row in rows)
    return folder


def _steps(stream: Stream, rng: random.Random, now: float) -> Iterator[BackdatedEntry]:
    """Entries of one counter and its collection: per step one counter update and one document with the last number."""
    # A step of a pool touches only one of its thousand documents, so a pool needs more steps.
    count = _STEPS_OF_POOL if isinstance(stream.numbers, ArticlePool) else _STEPS
    process = rng.randbytes(5)
    session = {"lsid": {"id": Binary(uuid.UUID(bytes=rng.randbytes(16), version=4).bytes, 4), "uid": rng.randbytes(32)}}
    ages = [rng.uniform(3600, HOURS * 3600 - 60) for _ in range(count)]
    ages += [rng.uniform(5, 3600) for _ in range(_STEPS_OF_LAST_HOUR)]
    before = stream.given_in(HOURS * 3600)
    for turn, age in enumerate([*sorted(ages, reverse=True), 2.0]):
        after = stream.given_in(age)
        if before - after < 1:
            continue
        advance = stream.numbers.advance(before - after)
        before, at = after, now - age
        known = session | {"txnNumber": Int64(turn + 1)}
        changes = {"$v": 2, "diff": {"u": advance.changes}}
        yield BackdatedEntry(at, "u", str(stream.numbers.ns), changes, {"_id": advance.identity}, known)
        document = made_at(stream, rng, advance.number, at, process)
        yield BackdatedEntry(at, "i", str(stream.target), document, {"_id": document["_id"]}, known)


def _drop_former_people(client: MongoClient[Document], at: float) -> list[BackdatedEntry]:
    """Someone drops a collection that looks unused."""
    count = client.crm[_FORMER].estimated_document_count()
    return [BackdatedEntry(at, "c", "crm.$cmd", {"drop": _FORMER}, {"numRecords": count})]


def _close_tickets(client: MongoClient[Document], at: float) -> list[BackdatedEntry]:
    """A script closes every ticket whose subject contains 'late'."""
    rows = client.support.tickets.find({"subject": {"$regex": "late"}}, {"_id": 1})
    closed = {"$v": 2, "diff": {"u": {"open": False}}}
    return [BackdatedEntry(at, "u", "support.tickets", closed, {"_id": row["_id"]}) for row in rows]


def _delete_comments(client: MongoClient[Document], at: float) -> list[BackdatedEntry]:
    """A moderator deletes every comment that mentions a refund."""
    rows = client.blog.comments.find({"text": {"$regex": "refund"}}, {"_id": 1})
    return [BackdatedEntry(at, "d", "blog.comments", {"_id": row["_id"]}) for row in rows]


_ACTS: tuple[tuple[float, Callable[[MongoClient[Document], float], list[BackdatedEntry]]], ...] = (
    (17.2, _drop_former_people),
    (5.3, _close_tickets),
    (0.67, _delete_comments),
)
"""Mistakes in the history, with their age in hours, oldest first. None of them was repaired."""
