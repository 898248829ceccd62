"""What each read of the gateway asks of the driver, and what it makes of the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import bson
import pytest
from bson import Timestamp
from pymongo import CursorType
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import Nearest, SecondaryPreferred

from tallyglass.mongo.codec import CODEC
from tallyglass.mongo.gateway import Extent, Namespace
from tallyglass.mongo.link import Link, OpenClient
from tallyglass.mongo.mongo_gateway import MongoGateway

NS = Namespace("shop", "orders")
BATCH = bson.encode({"_id": 1}) + bson.encode({"_id": 2})


class Cursor:
    """A cursor of the driver with one batch."""

    address = ("h", 27017)
    alive = True

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows, self.await_ms, self.closed = rows, 0, 0

    def max_await_time_ms(self, millis: int) -> Cursor:
        self.await_ms = millis
        return self

    async def to_list(self, most: int) -> list[dict[str, Any]]:
        found, self.rows = self.rows[:most], self.rows[most:]
        self.alive = bool(self.rows)
        return found

    async def __anext__(self) -> bytes:
        if not self.rows:
            self.alive = False
            raise StopAsyncIteration
        self.rows = []
        return BATCH

    async def close(self) -> None:
        self.closed += 1


class Recording:
    """A client that notes what it is asked for, and answers with the same rows."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.rows, self.asked, self.cursors = list(rows), list[tuple[Any, ...]](), list[Cursor]()

    def __getitem__(self, db: str) -> Recording:
        self.asked.append(("db", db))
        return self

    def get_database(self, name: str, **how: Any) -> Recording:
        return self.get_collection(name, **how)

    def get_collection(self, name: str, **how: Any) -> Recording:
        assert how.pop("codec_options") is CODEC
        self.asked.append((name, how))
        return self

    def aggregate(self, stages: list[Any], **how: Any) -> AsyncIterator[dict[str, Any]]:
        return self.listed("aggregate", stages, how)

    def list_databases(self, **how: Any) -> AsyncIterator[dict[str, Any]]:
        return self.listed("list_databases", how)

    async def listed(self, *asked: Any) -> AsyncIterator[dict[str, Any]]:
        self.asked.append(asked)
        for row in self.rows:
            yield row

    async def command(self, body: dict[str, Any], **how: Any) -> dict[str, Any]:
        self.asked.append((body, how))
        return {"ok": 1, "cursor": {"firstBatch": self.rows}}

    async def find_one(self, query: Any, **how: Any) -> dict[str, Any] | None:
        self.asked.append(("find_one", query, how))
        return self.rows[0] if self.rows else None

    async def count_documents(self, query: Any, **how: Any) -> int:
        self.asked.append(("count", query, how))
        return len(self.rows)

    async def estimated_document_count(self, **how: Any) -> int:
        self.asked.append(("estimate", how))
        return len(self.rows)

    def find(self, query: Any, **how: Any) -> Cursor:
        self.asked.append(("find", query, how))
        self.cursors.append(Cursor(list(self.rows)))
        return self.cursors[-1]

    find_raw_batches = find


async def listed(rows: AsyncIterator[Any]) -> list[Any]:
    return [row async for row in rows]


ROWS = [{"name": "a", "documents": 3, "bytes": 70}, {"name": "b", "documents": 9, "bytes": 90}]
TOTAL = {"_id": None, "documents": {"$sum": 1}, "bytes": {"$sum": {"$bsonSize": "$$ROOT"}}}
SHOP, ORDERS = ("db", "shop"), ("orders", {})
NEAREST = {"read_preference": Nearest()}
Read = Callable[[MongoGateway], Awaitable[Any]]


@pytest.mark.parametrize(
    ("read", "asked", "answer"),
    [
        (lambda one: one.list_databases(), [("list_databases", {"nameOnly": True, "maxTimeMS": 5_000})], ["a", "b"]),
        (
            lambda one: one.list_indexes(NS),
            [SHOP, ({"listIndexes": "orders", "cursor": {}, "maxTimeMS": 5_000}, {"codec_options": CODEC})],
            ROWS,
        ),
        (lambda one: one.estimate(NS), [SHOP, ORDERS, ("estimate", {"maxTimeMS": 5_000})], 2),
        (lambda one: one.count(NS), [SHOP, ORDERS, ("count", {}, {"maxTimeMS": 5_000})], 2),
        (
            lambda one: one.extent(NS, {"s": 1}, most=7, time_ms=9),
            [SHOP, ORDERS,
             ("aggregate", [{"$match": {"s": 1}}, {"$limit": 7}, {"$group": TOTAL}], {"maxTimeMS": 9})],
            Extent(3, 70),
        ),
        (
            lambda one: one.inspect("$currentOp", {"allUsers": True}, limit=5),
            [("admin", {}), ("aggregate", [{"$currentOp": {"allUsers": True}}, {"$limit": 5}], {"maxTimeMS": 5_000})],
            ROWS,
        ),
        (
            lambda one: one.find_one(NS, {"s": 1}),
            [SHOP, ORDERS, ("find_one", {"s": 1}, {"projection": None, "sort": None, "max_time_ms": 5_000})],
            ROWS[0],
        ),
        (
            lambda one: one.find_one(NS, {}, projection={"a": 1}, sort=(("a", -1),), time_ms=3, member="h:1"),
            [SHOP, ("orders", NEAREST),
             ("find_one", {}, {"projection": {"a": 1}, "sort": [("a", -1)], "max_time_ms": 3})],
            ROWS[0],
        ),
        (
            lambda one: listed(one.find(NS, {"s": 1})),
            [SHOP, ORDERS, ("find", {"s": 1}, {"limit": 0, "batch_size": 0, "max_time_ms": 5_000})],
            ROWS,
        ),
        (
            lambda one: listed(one.find_raw(NS, {})),
            [SHOP, ORDERS, ("find", {}, {"sort": None, "limit": 0, "batch_size": 2_000, "max_time_ms": 5_000})],
            [BATCH],
        ),
        (
            lambda one: listed(one.tail_raw(NS, {}, least_seconds=0)),
            [SHOP, ("orders", {"read_concern": ReadConcern("local")}),
             ("find", {}, {"cursor_type": CursorType.TAILABLE_AWAIT, "batch_size": 1_000, "max_time_ms": 60_000})],
            [BATCH],
        ),
        (
            lambda one: one.command("collStats", "orders", db="shop", member="h:1", comment="c"),
            [SHOP, ({"collStats": "orders", "comment": "c", "maxTimeMS": 5_000}, {"codec_options": CODEC} | NEAREST)],
            {"ok": 1, "cursor": {"firstBatch": ROWS}},
        ),
    ],
)  # fmt: skip
async def test_each_read_asks_for_no_more_than_it_says(read: Read, asked: list[Any], answer: Any) -> None:
    client = Recording(*ROWS)
    assert await read(MongoGateway(Link(lambda: OpenClient(client)))) == answer
    assert client.asked == asked


async def test_a_collection_without_documents_has_no_extent() -> None:
    assert await MongoGateway(Link(lambda: OpenClient(Recording()))).extent(NS, {}, most=1) == Extent(0, 0)


@pytest.mark.parametrize(("own", "prefers"), [(False, True), (True, False)])
async def test_a_tail_prefers_a_secondary_unless_the_connection_says_which_to_read(own: bool, prefers: bool) -> None:
    client, opened = Recording(*ROWS), list[str]()
    gateway = MongoGateway(Link(lambda: OpenClient(client)), own_preference=own)
    tail = gateway.tail_raw(
        NS, {"ts": Timestamp(1, 1)}, await_ms=700, least_seconds=0, prefer_secondary=True, on_open=opened.append
    )
    assert await listed(tail) == [BATCH]
    assert client.asked[1][1].get("read_preference") == (SecondaryPreferred() if prefers else None)
    assert (client.cursors[0].await_ms, opened) == (700, ["h:27017"])


async def test_a_cursor_that_is_left_early_is_closed_once() -> None:
    client = Recording(*ROWS)
    found = MongoGateway(Link(lambda: OpenClient(client))).find_raw(NS, {})
    assert await anext(found) == BATCH
    await found.aclose()  # type: ignore[attr-defined]
    assert client.cursors[0].closed == 1
