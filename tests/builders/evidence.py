"""What a server knows of who wrote: lines of its log, documents of its profile, and a server that gives them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from tallyglass.evidence.book import Book
from tallyglass.evidence.facts import Statement
from tallyglass.evidence.log_lines import LogReader
from tallyglass.evidence.observer import Observer
from tallyglass.moment import from_seconds

AT = "2026-11-23T04:53:15.{:03d}+00:00"
MILLIS = 1795409595_000
SESSION = "9d0160d2-43dd-44ab-99aa-c18adefa18f3"
REMOTE = "127.0.0.1:43610"


def line(id: int, at: int, attr: dict[str, Any], *, ctx: str = "conn9", zone: str = "") -> str:
    """A line at that many milliseconds of the second; ``truncated`` of it stands where a server writes it."""
    date = zone or AT.format(at)
    cut = {name: value for name, value in attr.items() if name == "truncated"}
    rest = {name: value for name, value in attr.items() if name not in cut}
    return json.dumps(
        {"t": {"$date": date}, "s": "I", "c": "X", "id": id, "ctx": ctx, "msg": "m", "attr": rest, **cut},
        separators=(",", ":"),
    )


def metadata(name: str = "nightly-cleanup", ctx: str = "conn9", remote: str = REMOTE) -> str:
    doc = {"driver": {"name": "PyMongo|c", "version": "4.20.0|"}, "application": {"name": name}}
    return line(51800, 1, {"remote": remote, "client": ctx, "doc": doc}, ctx=ctx)


def login(user: str = "alice", ctx: str = "conn9") -> str:
    return line(20250, 2, {"principalName": user, "authenticationDatabase": "admin", "remote": REMOTE}, ctx=ctx)


def remove(at: int, n: int | None, query: Any = None, millis: int = 3, ctx: str = "conn9", **more: Any) -> str:
    counted = {} if n is None else {"ndeleted": n}
    body = {"q": {"s": 1} if query is None else query, "limit": 0}
    attr = {"type": "remove", "ns": "shop.orders", "appName": "nightly-cleanup", "command": body, "remote": REMOTE}
    return line(51803, at, attr | counted | {"durationMillis": millis} | more, ctx=ctx)


def command(at: int, millis: int = 8, ctx: str = "conn9", **body: Any) -> str:
    after = {"clusterTime": {"$timestamp": {"t": 1795409595, "i": 265}}}
    body = {"delete": "orders", "lsid": {"id": {"$uuid": SESSION}}, "$clusterTime": after, "$db": "shop"} | body
    attr = {"type": "command", "ns": "shop.$cmd", "command": body, "remote": REMOTE, "durationMillis": millis}
    return line(51803, at, attr, ctx=ctx)


def read(*lines: str, **how: Any) -> Book:
    book = Book(**how)
    reader = LogReader(book, "a:1")
    reader.feed(lines)
    reader.flush()
    return book


def statements(book: Book, op: str = "d") -> list[Statement]:
    return list(book.statements("shop.orders", op, 0, MILLIS * 2))


LOCKS = {"ParallelBatchWriterMode": {"acquireCount": {"r": 1}}, "Global": {"acquireCount": {"w": 1}}}


def profiled(at: int, **more: Any) -> dict[str, Any]:
    """A deleteMany that ended at that many milliseconds of the second."""
    return {
        "op": "remove", "ns": "shop.orders", "command": {"q": {"s": 1}, "limit": 0}, "ndeleted": 20, "keysDeleted": 20,
        "locks": LOCKS, "millis": 5, "planSummary": "COLLSCAN", "client": "10.0.0.7", "appName": "nightly",
        "ts": from_seconds(MILLIS / 1000) + timedelta(milliseconds=at), "user": "alice@admin",
    } | more  # fmt: skip


class Server:
    """A server with a log of few lines, which keeps the newest. Its other members, if it has some, log nothing."""

    def __init__(self, *lines: str, kept: int = 100) -> None:
        self.lines, self.kept, self.asked = list(lines), kept, list[str]()
        self.rows: dict[str, list[Any]] = {"$currentOp": [], "$listLocalSessions": []}
        self.refused: dict[str, Exception] = {}
        self.profile: dict[str, list[Any]] = {}
        self.path = ""
        self.names: tuple[str, ...] = ("a:1",)
        self.logs = list[str]()
        self.inspected = list[tuple[str, Any]]()

    def members(self) -> tuple[str, ...]:
        return self.names

    async def command(self, name: str, *_: Any, member: str = "", **__: Any) -> Any:
        self.asked.append(name)
        if name == "getLog":
            self.logs.append(member)
            if member not in ("", *self.names[:1]):
                return {"log": [], "totalLinesWritten": 0}
        if name in self.refused:
            raise self.refused[name]
        if name == "getCmdLineOpts":
            return {"parsed": {"systemLog": {"path": self.path}}}
        return {"log": [f"{one}\n" for one in self.lines[-self.kept :]], "totalLinesWritten": len(self.lines)}

    async def list_databases(self) -> list[str]:
        self.asked.append("listDatabases")
        return ["shop", "local", "bank"]

    async def find(self, ns: Any, query: Any, **_: Any) -> Any:
        self.asked.append(str(ns))
        since = query.get("ts", {}).get("$gte")
        for row in self.profile.get(str(ns), ()):
            if since is None or row["ts"] >= since:
                yield row

    async def inspect(self, stage: str, options: Any, **_: Any) -> Any:
        self.asked.append(stage)
        self.inspected.append((stage, options))
        if stage in self.refused:
            raise self.refused[stage]
        return self.rows["localOps" if options.get("localOps") else stage]


def observing(server: Server, **how: Any) -> Observer:
    return Observer(server, **how)  # type: ignore[arg-type]
