"""The shards of a cluster answer as one: in order, within the limit, and without those that cannot be read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import bson
import pytest
from bson import DBRef, Decimal128, Int64, MinKey, ObjectId, Regex, Timestamp

from tallyglass.errors import ConnectError, DeploymentError, PrivilegeError, ReadError, RefusedError
from tallyglass.mongo import cluster_gateway
from tallyglass.mongo.cluster_gateway import RETRY_SECONDS, ClusterGateway
from tallyglass.mongo.gateway import OPLOG, CollectionInfo, Extent, Namespace

NS = Namespace("shop", "orders")


class Shard:
    """A shard that holds documents, or fails with an error; ``asked`` counts its reads."""

    def __init__(
        self, *rows: dict[str, Any], error: Exception | None = None, after: int = 0, clock: float | None = None
    ) -> None:
        self.rows, self.error, self.after, self.clock = rows, error, after, clock
        self.asked, self.closed = 0, False

    def answer(self, value: Any) -> Any:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return value

    async def command(self, name: str, value: object = 1, **how: Any) -> Any:
        return self.answer({"of": self.rows, "name": name, "value": value} | how)

    async def inspect(self, stage: str, options: Any, **how: Any) -> Any:
        return self.answer([*self.rows])

    async def catch_up(self) -> Any:
        return self.answer(self.clock)

    def members(self) -> tuple[str, ...]:
        return tuple(f"host:{row['_id']}" for row in self.rows)

    async def list_databases(self) -> Any:
        return self.answer([str(row["_id"]) for row in self.rows])

    async def list_collections(self, db: str) -> Any:
        return self.answer([CollectionInfo(Namespace(db, str(row["_id"])), "collection", {}) for row in self.rows])

    async def list_indexes(self, _: Any) -> Any:
        return self.answer([*self.rows])

    async def estimate(self, _: Any) -> Any:
        return self.answer(len(self.rows))

    async def count(self, _: Any, **how: Any) -> Any:
        return self.answer(10 * len(self.rows))

    async def extent(self, *_: Any, **how: Any) -> Any:
        return self.answer(Extent(len(self.rows), 7 * len(self.rows)))

    async def find_one(self, *_: Any, **how: Any) -> Any:
        return self.answer(self.rows[0] if self.rows else None)

    async def find(self, *_: Any, **how: Any) -> AsyncIterator[Any]:
        for row in self.rows[: self.after] if self.error else self.rows:
            yield row
        self.answer(None)

    async def find_raw(self, *_: Any, **how: Any) -> AsyncIterator[bytes]:
        yield b"".join(map(bson.encode, self.rows))
        self.answer(None)

    async def close(self) -> None:
        self.closed = True


def cluster(*shards: Shard) -> ClusterGateway:
    return ClusterGateway({f"s{n}": shard for n, shard in enumerate(shards)})  # type: ignore[misc]


def docs(*ids: Any) -> Shard:
    return Shard(*({"_id": id_} for id_ in ids))


async def test_the_answers_of_all_shards_are_one() -> None:
    lost = Shard({"_id": 9}, error=PrivilegeError("no"))
    found = cluster(docs(2, 1), lost, docs(3), docs())
    assert await found.list_databases() == ["1", "2", "3"]
    assert (await found.catch_up(), await cluster(docs(), lost, Shard(clock=7.5), Shard(clock=9.0)).catch_up()) == (
        None, 7.5,
    )  # fmt: skip
    assert (await found.estimate(NS), await found.count(NS)) == (3, 30)
    assert await found.extent(NS, {}) == Extent(3, 21)
    assert await found.inspect("$x", {}) == [{"_id": 2}, {"_id": 1}, {"_id": 3}]
    assert await found.list_indexes(NS) == [{"_id": 2}, {"_id": 1}]
    assert [row.ns.collection for row in await found.list_collections("shop")] == ["3", "2", "1"]
    assert found.members() == ("host:2", "host:1", "host:9", "host:3")
    assert await found.find_one(NS, {}) == {"_id": 2}
    assert await found.find_one(NS, {}, sort=[("_id", -1)]) == {"_id": 3}
    assert [row["_id"] async for row in found.find(NS, {})] == [2, 1, 3]
    for limit in (1, 2, 3, 4):
        assert [row["_id"] async for row in found.find(NS, {}, limit=limit)] == [2, 1, 3][:limit]
    assert found.lost == {"s1": "no"}
    assert (await cluster(lost, docs(1)).command("x", 5, db="d")) == {
        "of": ({"_id": 1},),
        "name": "x",
        "value": 5,
        "db": "d",
    }
    with pytest.raises(DeploymentError, match="one oplog for each shard"):
        found.tail_raw(OPLOG, {})
    await found.close()
    assert all(shard.closed for shard in found.shards.values())  # type: ignore[attr-defined]


async def test_where_no_shard_answers_the_first_error_is_that_of_all() -> None:
    dead = cluster(Shard(error=ReadError("one")), Shard(error=PrivilegeError("two")))
    for read in (dead.estimate(NS), dead.command("x"), anext(dead.find(NS, {})), anext(dead.find_raw(NS, {}, limit=1))):
        with pytest.raises(ReadError, match="one"):
            await read
    assert dead.lost == {"s0": "one", "s1": "two"}
    with pytest.raises(DeploymentError, match="no shards"):
        await cluster().command("x")


async def test_a_shard_that_cannot_be_reached_is_tried_again_after_some_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [50.0]
    monkeypatch.setattr(cluster_gateway.time, "monotonic", lambda: clock[0])
    for error, again in ((ReadError("lost"), 1), (ConnectError("lost"), 1), (RefusedError("no", code=1), 3)):
        lost = Shard(error=error)
        found = cluster(docs(1), lost)
        for at in (0, 1, RETRY_SECONDS - 1):
            clock[0] = 50 + at
            assert await found.estimate(NS) == 1
            assert found.lost == {"s1": str(error)}
        assert lost.asked == again
        clock[0], lost.error = 50 + RETRY_SECONDS, None
        assert await found.estimate(NS) == 1
        assert (found.lost, lost.asked) == ({}, again + 1)


IN_ORDER = [
    [None, -1.5, 0, Int64(1), Decimal128("1.5"), 2, float("inf")], ["a", "b", "ba"],
    [{"a": 1}, {"a": 1, "b": None}, {"a": 2.5}, {"a": "x"}, {"b": 0}], [[], [1], [1, 2], ["x"]],
    [ObjectId(bytes(12)), ObjectId(b"x" * 12)], [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)],
    [Timestamp(1, 2), Timestamp(2, 1)], [False, True], [DBRef("a", 1), DBRef("b", 1)], [Regex("a"), Regex("b")],
    [float("nan"), 1], [MinKey()],
]  # fmt: skip


@pytest.mark.parametrize("values", IN_ORDER, ids=repr)
async def test_rows_of_several_shards_are_in_the_order_that_was_asked_for(values: list[Any]) -> None:
    found = cluster(*(Shard({"_id": n, "v": {"w": value}}) for n, value in reversed([*enumerate(values)])))
    for direction, limit, expected in ((1, 0, values), (-1, 0, values[::-1]), (1, 2, values[:2]), (-1, 1, values[-1:])):
        (batch,) = [one async for one in found.find_raw(NS, {}, sort=[("v.w", direction)], limit=limit)]
        given = [row["v"]["w"] for row in bson.decode_all(batch, cluster_gateway.CODEC)]
        assert bson.encode({"": given}) == bson.encode({"": expected})


async def test_rows_of_several_types_and_fields_are_sorted_too() -> None:
    mixed = [{"_id": n, "v": value} for n, value in enumerate([row[0] for row in IN_ORDER])]
    found = cluster(*map(lambda row: Shard(row), mixed))
    (batch,) = [one async for one in found.find_raw(NS, {}, sort=[("v", 1)])]
    assert len(bson.decode_all(batch)) == len(mixed)
    found = cluster(*(Shard({"_id": n, "ts": Timestamp(n // 2, 1), "k": -n}) for n in (3, 0, 2, 1)))
    for sort, expected in (([("ts", 1), ("k", 1)], [1, 0, 3, 2]), ([("$natural", -1)], [3, 2, 0, 1]), ([], [3, 0])):
        (batch,) = [one async for one in found.find_raw(OPLOG, {}, sort=sort, limit=0 if sort else 2)]
        assert [row["_id"] for row in bson.decode_all(batch)] == expected
    assert [len(one) > 9 async for one in found.find_raw(NS, {})] == [True] * 4, "unsorted, shard by shard"
