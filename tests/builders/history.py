"""The histories of documents, read from a server that answers from memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import bson
from bson import Binary, Timestamp
from bson.raw_bson import RawBSONDocument

from tallyglass.mongo.gateway import Namespace

COLLECTION = Binary.from_uuid(UUID(int=1))


Row = dict[str, Any]


def entry(second: int, op: str, o: Row, id_: int | None = 0, **more: Any) -> Row:
    """One entry of the oplog; at each second stands one."""
    row = {"op": op, "ns": "s.c", "ui": COLLECTION, "o": o, "ts": Timestamp(second, 1), "t": 1, "v": 2}
    row["wall"] = bson.datetime_ms.DatetimeMS(second)
    return row | ({"o2": {"_id": id_}} if op == "u" else {}) | more


class Server:
    """A server with this oplog and these documents; it counts the entries of the oplog that it sends."""

    def __init__(self, oplog: list[Row], *documents: Row) -> None:
        self.oplog, self.documents, self.sent = oplog, documents, 0
        self.indexes: list[Row] = []

    async def find_raw(
        self, ns: Namespace, query: Any, *, sort: list[tuple[str, int]] | None = None, limit: int = 0, **_: Any
    ) -> AsyncIterator[bytes]:
        await asyncio.sleep(0)
        if isinstance(query, RawBSONDocument):
            yield b"".join(bson.encode(row) for row in self.documents)
            return
        bounds = query.get("ts", {"$gte": Timestamp(0, 0)})
        bounds = bounds if isinstance(bounds, dict) else {"$gte": bounds, "$lte": bounds}
        found = [
            row for row in self.oplog
            if bounds.get("$gte", row["ts"]) <= row["ts"] <= bounds.get("$lte", row["ts"])
            and not ("$lt" in bounds and row["ts"] >= bounds["$lt"])
        ]  # fmt: skip
        order = sort[0][1] if sort else 1
        assert order in (1, -1)
        found = found[::order][: limit or None]
        self.sent += len(found)
        yield b"".join(bson.encode(row) for row in found)

    async def list_indexes(self, _: Namespace) -> list[Row]:
        return self.indexes


def diff(**sections: Any) -> dict[str, Any]:
    return {"$v": 2, "diff": sections}
