"""Entries, statements of a log, and who is named for what they did: for tests of the authors of incidents."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import bson
from bson import Binary, Timestamp

from tallyglass.evidence.book import Book, Coverage
from tallyglass.evidence.facts import Client, Definition, Statement, user_of
from tallyglass.evidence.store import EvidenceFolder
from tallyglass.moment import Ts, from_seconds
from tallyglass.oplog.incidents.authors import Authors
from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan

NS, T = "shop.orders", 1_795_409_595
MILLIS = T * 1000
BEGIN = Ts(T - 10_000, 0)
ANN = Client("ann@admin", "shell", "10.0.0.1:1", "", "conn1")
BOB = Client("bob@admin", "shell", "10.0.0.2:1", "", "conn2")
LSID = {"id": Binary(b"s" * 16, 4), "uid": Binary(user_of("ann", "admin")[1])}


class Oplog:
    """Entries of one second, in place of a server."""

    def __init__(self) -> None:
        self.raw: list[bytes] = []

    def write(self, at: int, id: Any = 0, op: str = "d", ns: str = NS, **more: Any) -> Oplog:
        """One entry at that many milliseconds."""
        body: dict[str, Any] = {"op": op, "ns": ns, "ui": Binary(b"u" * 16, 4)}
        body |= {"o": {"$v": 2, "diff": {"u": {"x": 1}}}, "o2": {"_id": id}} if op == "u" else {"o": {"_id": id}}
        stamps = {
            "ts": Timestamp(T + at // 1000, len(self.raw) + 1),
            "t": 1,
            "v": 2,
            "wall": from_seconds((MILLIS + at) / 1000),
        }
        self.raw.append(bson.encode(body | more | stamps))
        return self

    def many(self, times: range, **how: Any) -> Oplog:
        for at in times:
            self.write(at, id=at, **how)
        return self

    async def find_raw(self, _: Any, query: dict[str, Any], **__: Any) -> AsyncIterator[bytes]:
        bounds = query["ts"]
        yield b"".join(one for one in self.raw if bounds["$gte"] <= bson.decode(one)["ts"] < bounds["$lt"])


def ran(client: Client, began: int, ended: int, documents: int | None, **more: Any) -> Statement:
    return Statement("d", NS, client, MILLIS + began, MILLIS + ended, documents, **{"in_session": False, **more})


def book_of(*facts: Statement | Definition | tuple[bytes, int | None, Client]) -> Book:
    book = Book(coverage={"a:1": [Coverage(0, MILLIS * 2)]})
    for one in facts:
        match one:
            case Statement():
                book.add_statement(one)
            case Definition():
                book.add_definition(one)
            case command:
                book.add_command(*command)
    return book


TTL = Client(application="TTL", connection="TTLMonitor")
SHELL = replace(ANN, application="mongosh 2.5.6")
TOOL = replace(BOB, application="cleanup.py")
JOB = Client("app@admin", "shop", "10.0.0.3:1", "", "conn3")


def typed(client: Client, at: int, documents: int = 12, shape: int = 1, **more: Any) -> Statement:
    """A deleteMany as a log names it, so many milliseconds after the first entry."""
    return ran(client, at, at + 20, documents, many=True, shape=shape, **more)


def a_log(*facts: Statement, minutes: int = 30) -> list[Statement]:
    """These, and what an application runs every ten seconds, half as long before as after: some at once."""
    begin, end = -minutes * 20_000, minutes * 40_000
    usual = [replace(typed(JOB, at, 12, shape=9), ns="shop.sessions") for at in range(begin, end, 10_000)]
    quick = [replace(one, began=one.ended) for one in usual[::2]]
    return sorted([*usual[1::2], *quick, *facts], key=lambda one: one.ended)


def deletes(at: int, count: int = 12) -> Oplog:
    return Oplog().many(range(at, at + count))


class Known:
    """An observer of what a book already has."""

    folder: EvidenceFolder | None = None

    def __init__(self, book: Book) -> None:
        self.book = book

    def is_due(self, *, urgent: bool) -> bool:
        return urgent

    def spend(self, commands: int = 1) -> None:
        pass

    async def read(self, *, urgent: bool) -> None:
        pass

    async def read_running(self) -> tuple[()]:
        return ()


def authors_of(oplog: Oplog, book: Book, log: Sequence[Statement] = ()) -> Authors:
    """What names the authors; ``log`` are statements that were read with the evidence."""
    authors = Authors(oplog, Known(book))  # type: ignore[arg-type]
    assert book.heard is not None
    if log:
        book.coverage["a:1"] = [Coverage(log[0].began, log[-1].ended)]
    for one in log:
        book.heard(one)
        if one.documents != 0:
            book.add_statement(one)
    return authors


async def named(
    oplog: Oplog,
    book: Book,
    *incidents: Incident,
    log: Sequence[Statement] = (),
    reached: Ts | None = BEGIN,
) -> list[Incident]:
    """The list with what the evidence adds, with ``log`` too; ``reached`` is how far back the oplog was read."""
    scan = IncidentScan(incidents, 0, reached, done=True)
    return list((await authors_of(oplog, book, log).added_to(scan)).incidents)


def a_delete(**how: Any) -> Incident:
    wall = from_seconds((MILLIS + 10) / 1000)
    return Incident(
        1, how.pop("kind", "deleteMany"), "", NS, Harm.LOSS, Ts(T, 1), Ts(T, 30), wall,
        from_seconds((MILLIS + 39) / 1000), 30, 30, **{"op": "d", **how},
    )  # fmt: skip
