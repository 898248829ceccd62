"""Acts of ten users at once on a real server, each entry labelled by the ``_id`` that it touches; and its log, damaged.

The truth comes from the entries alone: every document of an act carries the act's number in its ``_id``, and the act
knows its user. What is compared with it is the log, whole or as it would be with other settings.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import subprocess
import sys
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from pymongo import DeleteMany, DeleteOne, MongoClient
from pymongo.errors import PyMongoError

from access_control import PASSWORD, GuardedSet
from tallyglass.evidence.book import Book
from tallyglass.evidence.log_lines import LogReader
from tallyglass.moment import Ts, from_seconds
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.incidents.attribution import attribute
from tallyglass.oplog.snapshot import Authorship, Certainty, Harm, Incident

USERS = 10
FORGED = {3: "mongosh 2.3", 4: "mongosh 2.3", 5: "mongosh 2.3", 6: "app-u7", 8: "x" * 100, 9: "\x1b[2J\u202enightly"}
"""Application names that several users share, that claim to be another's, or that attack a terminal."""

BUSY = 0.4
"""The share of acts on four of the sixteen collections."""

RECONNECTS = 0.05
"""The share of acts over connections of their own."""

Clients = tuple[MongoClient[Any], MongoClient[Any]]
"""One with and one without retryable writes."""

_FORKING = """
import os, sys
from pymongo import MongoClient
client = MongoClient(os.environ["URI"], appname="forked")
client.rig.c0.find_one()
child = os.fork()
client.rig.c0.delete_many({"act": int(sys.argv[1 if child else 2])})
if child:
    os.waitpid(child, 0)
else:
    os._exit(0)
"""

_ID = re.compile(r"a(\d+)-")
_SLOW = re.compile(r'"durationMillis":(\d+)')
_WHEN = re.compile(r'"\$date":"([^"]+)"')


@dataclass(frozen=True, slots=True)
class Act:
    """What one user did; ``users`` are two for what two did at the same moment."""

    number: int
    kind: str
    ns: str
    op: str
    users: tuple[str, ...]


class Rig:
    """Runs acts, then compares names with the truth."""

    def __init__(self, guarded: GuardedSet, seed: int) -> None:
        self._guarded = guarded
        self._random = random.Random(seed)
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.acts: list[Act] = []
        for n in range(USERS):
            guarded.admin.admin.command(
                "createUser", f"u{n}", pwd=PASSWORD, roles=["readWriteAnyDatabase", "dbAdminAnyDatabase"]
            )
        self._clients: dict[int, Clients] = {}
        self.connect()

    def connect(self) -> None:
        """New clients for all users, one with and one without retryable writes."""
        for n in range(USERS):
            self._clients[n] = self._new_clients(n)

    def _new_clients(self, n: int) -> Clients:
        uri, name = self._guarded.uri(f"u{n}"), FORGED.get(n, f"app-u{n}")
        return MongoClient(uri, appname=name), MongoClient(uri, appname=name, retryWrites=False)

    def close(self) -> None:
        """Close all clients."""
        for client in itertools.chain.from_iterable(self._clients.values()):
            client.close()

    def run_alone(self) -> list[Act]:
        """Every user does each kind of act once, one after the other, each on a collection of its own."""
        done = []
        for n, name in itertools.product(range(USERS), sorted(ACTS)):
            number = next(self._numbers)
            self._act(n, self._clients[n], name, number, f"alone{number}", 20)
            done.append(Act(number, name, f"rig.alone{number}", _op(name), (f"u{n}",)))
        self.acts += done
        return done

    def run(self, rounds: int, during: Callable[[], None] | None = None) -> None:
        """Two threads of every user do ``rounds`` acts each, all at the same time; a part of them in pairs at the same
        moment. ``during`` is called while they do."""
        barriers = [threading.Barrier(2) for _ in range(USERS)]
        with ThreadPoolExecutor(2 * USERS) as pool:
            running = [
                pool.submit(self._user, n, rounds, barriers[n // 2], self._random.random()) for n in range(2 * USERS)
            ]
            if during:
                during()
            for done in running:
                done.result()

    def run_forked(self) -> None:
        """A program of each user that forks: both processes delete over the client that they share."""
        for n in range(USERS):
            numbers = [next(self._numbers) for _ in range(2)]
            retrying, _ = self._clients[n]
            for number in numbers:
                retrying.rig.c0.insert_many(_documents(number, 20, 0))
                self.acts.append(Act(number, "forked", "rig.c0", "d", (f"u{n}",)))
            program = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-c", _FORKING, *map(str, numbers)],
                env=os.environ | {"URI": self._guarded.uri(f"u{n}")},
            )
            assert program.wait(60) == 0

    def _user(self, thread: int, rounds: int, pair: threading.Barrier, seed: float) -> None:
        n = thread % USERS
        own, both = random.Random(seed), random.Random(f"{thread // 2} {rounds}")
        for _ in range(rounds):
            together = both.random() < 0.25
            name = both.choice(sorted(PAIRS)) if together else own.choice(sorted(ACTS))
            size, collection = both.randint(1, 30), f"c{both.randrange(4 if both.random() < BUSY else 16)}"
            with self._lock:
                number = next(self._numbers)
            clients = self._new_clients(n) if own.random() < RECONNECTS else self._clients[n]
            self._act(n, clients, name, number, collection, size, pair if together else None)
            kind = f"{name}, at once" if together else name
            with self._lock:
                self.acts.append(Act(number, kind, f"rig.{collection}", _op(name), (f"u{n}",)))
            if clients is not self._clients[n]:
                for one in clients:
                    one.close()

    def _act(
        self, n: int, clients: Clients, name: str, number: int, collection: str, size: int,
        pair: threading.Barrier | None = None,
    ) -> None:  # fmt: skip
        retrying, plain = clients
        # What fails while there is no primary leaves the entries that it leaves: the truth is in them alone.
        with suppress(PyMongoError):
            retrying.rig[collection].insert_many(_documents(number, size, n))
        if pair:
            pair.wait(120)
        with suppress(PyMongoError):
            {**ACTS, **PAIRS}[name](retrying if name in IN_SESSION else plain, collection, number, size)

    def entries(self) -> list[bytes]:
        """The whole oplog."""
        cursor = self._guarded.admin.local["oplog.rs"].find_raw_batches({})
        return [row for batch in cursor for row in _split(batch)]


def _documents(act: int, size: int, value: int) -> list[dict[str, Any]]:
    return [{"_id": f"a{act}-{k}", "act": act, "k": k, "v": value} for k in range(size)]


def _op(name: str) -> str:
    return "u" if name in UPDATES else "d"


def _delete_many(client: MongoClient[Any], c: str, act: int, size: int) -> None:
    client.rig[c].delete_many({"act": act})


def _update_many(client: MongoClient[Any], c: str, act: int, size: int) -> None:
    client.rig[c].update_many({"act": act}, {"$set": {"state": act % 3}})


def _pipeline(client: MongoClient[Any], c: str, act: int, size: int) -> None:
    client.rig[c].update_many({"act": act}, [{"$set": {"v": {"$add": ["$v", 1]}}}])


def _single(client: MongoClient[Any], c: str, act: int, size: int) -> None:
    for k in range(min(size, 5)):
        client.rig[c].delete_one({"act": act, "k": k})


def _by_id(client: MongoClient[Any], c: str, act: int, size: int) -> None:
    client.rig[c].delete_many({"_id": {"$in": [f"a{act}-{k}" for k in range(size)]}})


def _bulk(client: MongoClient[Any], c: str, act: int, size: int) -> None:
    client.rig[c].bulk_write([DeleteMany({"act": act, "k": {"$lt": size // 2}}), DeleteMany({"act": act})])


def _bulk_of_one(client: MongoClient[Any], c: str, act: int, size: int) -> None:
    client.rig[c].bulk_write([DeleteOne({"act": act, "k": k}) for k in range(size)], ordered=False)


def _modify(client: MongoClient[Any], c: str, act: int, size: int) -> None:
    client.rig[c].find_one_and_delete({"act": act})


def _transaction(client: MongoClient[Any], c: str, act: int, size: int) -> None:
    with client.start_session() as session:
        session.with_transaction(lambda one: client.rig[c].delete_many({"act": act}, session=one))


def _stopped(client: MongoClient[Any], c: str, act: int, size: int) -> None:
    # A document takes 3 ms here: the statement is stopped among them, which raises.
    query = {"act": act, "$where": "var t = Date.now(); while (Date.now() - t < 3); return true"}
    client.rig.command("delete", c, deletes=[{"q": query, "limit": 0}], maxTimeMS=max(size, 10))


Doing = Callable[[MongoClient[Any], str, int, int], None]
PAIRS: dict[str, Doing] = {
    "deleteMany": _delete_many,
    "updateMany": _update_many,
    "pipeline": _pipeline,
    "deleteOne": _single,
}
UPDATES = {"updateMany", "pipeline"}
IN_SESSION = {"bulk of one", "session deleteOne", "session modify", "transaction"}
ACTS: dict[str, Doing] = PAIRS | {
    "by _id": _by_id, "bulk": _bulk, "bulk of one": _bulk_of_one, "session deleteOne": _single, "modify": _modify,
    "session modify": _modify, "transaction": _transaction, "stopped": _stopped,
}  # fmt: skip


def _split(batch: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(batch):
        size = int.from_bytes(batch[at : at + 4], "little")
        yield batch[at : at + size]
        at += size


class Truth:
    """The oplog that was written, with the act of each entry."""

    def __init__(self, entries: Iterable[bytes], acts: Iterable[Act]) -> None:
        heads = [read_entry(raw) for raw in entries]
        self._answers: dict[tuple[str, str], list[Entry]] = {}
        self.owners = {act.number: act.users[0] for act in acts}
        self._at: dict[tuple[int, str], list[Entry]] = {}
        self._writes: dict[tuple[str, str, bool], list[tuple[Ts, str]]] = {}
        for head in heads:
            inners = tuple(operations_of(head))
            for key in {(inner.ns, op) for inner in inners for op in (("d", "u") if head.op == "c" else (inner.op,))}:
                self._answers.setdefault(key, []).append(head)
            for inner in inners:
                id = inner.document_id if inner.op in ("d", "u") else None
                found = _ID.match(id) if isinstance(id, str) else None
                if found and int(found[1]) in self.owners:
                    self._at.setdefault((int(found[1]), inner.op), []).append(head)
                    rows = self._writes.setdefault((inner.ns, inner.op, head.txn_number is not None), [])
                    rows.append((head.ts, self.owners[int(found[1])]))

    def incident(self, act: Act) -> Incident | None:
        """An act as an incident from its first entry to its last; None if it changed nothing."""
        heads = self._at.get((act.number, act.op))
        if not heads:
            return None
        first, last = heads[0], heads[-1]
        return Incident(
            act.number, "deleteMany", act.kind, act.ns, Harm.LOSS, first.ts, last.ts, first.wall, last.wall,
            len(heads), None, op=act.op, sessions=int(first.txn_number is not None),
        )  # fmt: skip

    def writers(self, incident: Incident) -> Counter[str]:
        """Who wrote how many entries of the incident's time, namespace and kind, with or without sessions as it."""
        rows = self._writes[incident.ns, incident.op, incident.sessions > 0]
        start, end = (bisect_left(rows, one, key=lambda row: row[0]) for one in (incident.first, incident.last.next))
        return Counter(user for _, user in rows[start:end])

    async def find_raw(self, _: Any, query: dict[str, Any], **__: Any) -> AsyncIterator[bytes]:
        """The entries of a range of ``ts``, a namespace and a kind, in place of a server."""
        first, last, plain = query["ts"]["$gte"], query["ts"]["$lt"], query["$or"][0]
        bounds = Ts(first.time, first.inc), Ts(last.time, last.inc)
        heads = self._answers.get((plain["ns"], plain["op"]), [])
        start, end = (bisect_left(heads, one, key=lambda head: head.ts) for one in bounds)
        yield b"".join(head.raw for head in heads[start:end])

    async def judge(self, logs: Iterable[Iterable[str]], acts: Iterable[Act]) -> Counter[tuple[str, str]]:
        """How many acts of each kind got which grade by the logs of all members; ``wrong`` where a name or a number
        contradicts the entries, ``unnamed`` where the connection is known and its login is not."""
        book = Book()
        for n, lines in enumerate(logs):
            reader = LogReader(book, f"member {n}")
            reader.feed(lines)
            reader.flush()
        found: Counter[tuple[str, str]] = Counter()
        for act in acts:
            incident = self.incident(act)
            if incident is not None:
                found[act.kind, self._verdict(incident, await attribute(self, incident, book))] += 1  # type: ignore[arg-type]
        return found

    def _verdict(self, incident: Incident, told: Authorship) -> str:
        if told.grade not in (Certainty.EXACT, Certainty.UNIQUE):
            return str(told.grade)
        writers = self.writers(incident)
        if not all(one.user for one in told.candidates):
            return "unnamed"
        for one in told.candidates:
            if (one.documents or 0) > writers[one.user.partition("@")[0]]:
                return "wrong"
        if told.who is not None and writers[told.who.user.partition("@")[0]] < 0.9 * writers.total():
            return "wrong"
        return str(told.grade) if told.who is not None else "several"


# The log as it would be


def above(lines: list[str], slowms: int) -> list[str]:
    """With another threshold."""

    def is_kept(line: str) -> bool:
        found = _SLOW.search(line, max(len(line) - 60, 0)) if '"id":51803' in line else None
        return found is None or int(found[1]) >= slowms

    return [line for line in lines if is_kept(line)]


def shifted(lines: list[str], seconds: float) -> list[str]:
    """By a clock that is off."""
    return [_moved(line, lambda at: at + timedelta(seconds=seconds)) for line in lines]


def in_zone(lines: list[str]) -> list[str]:
    """By a server in another time zone."""
    return [_moved(line, lambda at: at.astimezone(timezone(timedelta(hours=-9, minutes=-30)))) for line in lines]


def _moved(line: str, move: Callable[[datetime], datetime]) -> str:
    found = _WHEN.search(line)
    return (
        line.replace(found[1], move(datetime.fromisoformat(found[1])).isoformat(timespec="milliseconds"), 1)
        if found
        else line
    )


def cut(lines: list[str], seed: int = 1, share: float = 0.1) -> list[str]:
    """With a part of the lines cut somewhere."""
    rng = random.Random(seed)
    return [line[: rng.randrange(len(line))] if line and rng.random() < share else line for line in lines]


def lost(lines: list[str], seed: int = 1, share: float = 0.3) -> list[str]:
    """With a part of the lines of statements missing, as with a sample rate below 1."""
    rng = random.Random(seed)
    return [line for line in lines if '"id":51803' not in line or rng.random() >= share]


def redacted(lines: list[str]) -> list[str]:
    """With ``redactClientLogData``: every value of a command is hidden."""

    def hide(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: hide(one) for key, one in value.items()}
        return [hide(one) for one in value] if isinstance(value, list) else "###"

    found = []
    for line in lines:
        parsed = json.loads(line) if '"id":51803' in line else {}
        if "command" in parsed.get("attr", {}):
            parsed["attr"]["command"] = hide(parsed["attr"]["command"])
            line = json.dumps(parsed, separators=(",", ":"))
        found.append(line)
    return found


FORMS: dict[str, Callable[[list[str]], list[str]]] = {
    "slowms 0": lambda lines: lines,
    "slowms 5": lambda lines: above(lines, 5),
    "slowms 20": lambda lines: above(lines, 20),
    "slowms 100": lambda lines: above(lines, 100),
    "slowms 500": lambda lines: above(lines, 500),
    "other time zone": in_zone,
    "a tenth cut": cut,
    "sample rate 0.7": lost,
    "sample rate 0.1": lambda lines: lost(lines, share=0.9),
    "redacted": redacted,
    "clock + 5 s": lambda lines: shifted(lines, 5),
    "clock - 5 s": lambda lines: shifted(lines, -5),
}


def read_log(path: Path) -> list[str]:
    """The lines of the log and of those that were rotated, the oldest first."""
    files = [*sorted(path.parent.glob(f"{path.name}.*")), path]
    return [line for file in files for line in file.read_text("utf-8", "replace").splitlines()]


__all__ = ["FORMS", "Act", "Rig", "Truth", "from_seconds", "read_log"]
