"""Several shards as one deployment: which of them are read, and how their answers are put together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from bson import Int64, Timestamp

from tallyglass.connection.target import Target
from tallyglass.deployment.cluster import Kind, look_at
from tallyglass.deployment.shards import shards_of
from tallyglass.errors import DeploymentError, PrivilegeError, ReadError
from tallyglass.mongo.cluster_gateway import ClusterGateway
from tallyglass.mongo.gateway import OPLOG, Namespace
from tallyglass.mongo.mongo_gateway import MongoGateway

NS = Namespace("shop", "orders")


class Shard:
    """Answers as a shard does; ``error`` in place of every answer."""

    def __init__(
        self,
        name: str,
        *,
        cluster: str = "c1",
        version: str = "6.0.5",
        clock: float = 0.0,
        rows: list[dict[str, Any]] | None = None,
        hello: Mapping[str, Any] | None = None,
        error: Exception | None = None,
    ) -> None:
        self.name, self.error, self.rows, self.asked = name, error, rows or [], 0
        self._cluster, self._version, self._clock, self._hello = cluster, version, clock, hello or {}

    def _answer(self) -> None:
        self.asked += 1
        if self.error:
            raise self.error

    async def command(self, name: str, value: object = 1, **options: Any) -> dict[str, Any]:
        self._answer()
        if name == "hello":
            now = datetime.now(UTC) + timedelta(seconds=self._clock)
            return {"setName": self.name, "localTime": now.replace(tzinfo=None), **self._hello}
        if name == "buildInfo":
            return {"version": self._version}
        if name == "shardingState":
            return {"enabled": True, "shardName": self.name, "clusterId": self._cluster}
        raise PrivilegeError("Not allowed.")

    async def find_one(self, ns: Namespace, query: object, **options: Any) -> dict[str, Any] | None:
        self._answer()
        return self.rows[0] if self.rows else None

    async def count(self, ns: Namespace, **options: Any) -> int:
        self._answer()
        return len(self.rows)

    async def find_raw(self, ns: Namespace, query: object, **options: Any) -> AsyncIterator[bytes]:
        self._answer()
        yield b"".join(bson.encode(row) for row in self.rows)


def cluster(*shards: Shard) -> ClusterGateway:
    return ClusterGateway({f"{shard.name}/{n}": shard for n, shard in enumerate(shards)})  # type: ignore[misc]


async def test_a_server_that_is_no_shard_of_the_cluster_is_left_out() -> None:
    away = Shard("away", error=ReadError("No server answers."))
    found = await shards_of(
        cluster(
            Shard("s0"),
            Shard("s0"),
            Shard("cfg", hello={"configsvr": 2}),
            Shard("other", cluster="c2"),
            Shard("router", hello={"msg": "isdbgrid"}),
            Shard("s1", version="7.0.1", clock=60),
            away,
        )
    )
    assert found is not None
    assert sorted(found.gateways) == ["away/6", "s0", "s1"]
    assert found.left_out == (
        "s0 is left out: Another URI names it already.",
        "cfg is left out: It is a config server, which holds no data of applications.",
        "other is left out: It belongs to another cluster than s0.",
        "router is left out: A mongos has no oplog. Each shard has one: connect to a shard's replica set.",
    )
    assert found.warnings[0] == "The shards run different versions: 6.0.5, 7.0.1."
    assert found.warnings[1].startswith("The clocks of s0 and s1 are 60 s apart")
    assert len(found.warnings) == 2


async def test_without_any_shard_there_is_nothing_to_read() -> None:
    with pytest.raises(ReadError, match="No server answers"):
        await shards_of(
            cluster(Shard("a", error=ReadError("No server answers.")), Shard("cfg", hello={"configsvr": 2}))
        )
    with pytest.raises(DeploymentError, match="None of the shards"):
        await shards_of(cluster(Shard("cfg", hello={"configsvr": 2})))


class Router(MongoGateway):
    """A mongos, or with ``msg`` another server; ``error`` in place of its list of shards."""

    def __init__(self, rows: Sequence[dict[str, Any]], msg: str = "isdbgrid", error: Exception | None = None) -> None:
        self.rows, self.msg, self.error = rows, msg, error

    async def command(self, name: str, *_: Any, **__: Any) -> dict[str, Any]:
        assert name == "hello"
        return {"msg": self.msg}

    async def find(self, ns: Namespace, query: object, **_: Any) -> AsyncIterator[dict[str, Any]]:
        assert (str(ns), query) == ("config.shards", {})
        if self.error:
            raise self.error
        for row in self.rows:
            yield row

    def sibling(self, hosts: str, set_name: str) -> Any:
        return Shard(f"{set_name} at {hosts}")


async def test_a_router_lists_its_shards_and_no_other_server_does() -> None:
    rows = [
        {"_id": "s0", "host": "rs0/a:1,b:2"},
        {"_id": "s1\x1b", "host": "rs1/c:3"},
        {"_id": "old", "host": "d:4"},
        {},
    ]
    found = await shards_of(Router(rows))
    assert found is not None
    assert list(found.gateways) == ["rs0 at a:1,b:2", "rs1 at c:3"]
    assert (found.left_out, found.warnings) == ((), ())
    assert await shards_of(Router(rows, msg="")) is None
    assert await shards_of(Shard("s0")) is None  # type: ignore[arg-type]
    with pytest.raises(DeploymentError, match=r"lists no shards. Name each shard with --shard."):
        await shards_of(Router([]))
    with pytest.raises(DeploymentError, match=r"may not read config.shards. Grant clusterMonitor, or name each shard"):
        await shards_of(Router(rows, error=PrivilegeError("no")))


async def test_answers_of_all_shards_are_one_answer() -> None:
    one = Shard("s0", rows=[{"_id": 1, "n": Int64(9), "ts": Timestamp(5, 1)}, {"_id": 2, "n": 3.5}])
    other = Shard("s1", rows=[{"_id": 7, "n": 11, "ts": Timestamp(3, 1)}, {"_id": 8, "n": "text"}])
    both = cluster(one, other)
    assert await both.count(NS) == 4
    assert await both.find_one(NS, {}, sort=[("n", -1)]) == other.rows[0]
    assert await both.find_one(OPLOG, {}, sort=[("$natural", 1)]) == other.rows[0]
    (batch,) = [found async for found in both.find_raw(NS, {}, sort=[("n", -1)], limit=3)]
    assert [row["_id"] for row in bson.decode_all(batch)] == [8, 7, 1]


async def test_a_lost_shard_is_named_asked_rarely_and_does_not_stop_the_others() -> None:
    lost, there = Shard("s0", error=ReadError("No server answers.")), Shard("s1", rows=[{"_id": 1}])
    both = cluster(lost, there)
    for _ in range(3):
        assert await both.count(NS) == 1
    assert both.lost == {"s0/0": "No server answers."}
    assert (lost.asked, there.asked) == (1, 3)
    alone = cluster(Shard("s0", error=PrivilegeError("Not allowed.")))
    with pytest.raises(PrivilegeError):
        await alone.count(NS)


def test_a_shard_is_reached_with_the_same_user_and_options() -> None:
    router = Target.parse("mongodb://me:secret@m1,m2:27017/shop?directConnection=true&tls=true&replicaSet=x")
    shard = router.at("a:27018,b:27018", "s0")
    assert shard.uri == "mongodb://me@a:27018,b:27018/shop?tls=true&replicaSet=s0"
    assert shard.secrets == router.secrets
    for options in ("", "?srvMaxHosts=2&srvAllowedHostsSuffix=.lan"):
        found = Target.parse(f"mongodb+srv://me@name/{options}").at("a:1", "s0")
        assert found.uri == "mongodb://me@a:1/?tls=true&replicaSet=s0"


async def test_of_a_cluster_the_age_of_what_a_shard_serves_is_said() -> None:
    written = {"lastWriteDate": datetime.now(UTC) - timedelta(seconds=50)}
    old = Shard("s1", hello={"secondary": True, "lastWrite": written, "me": "b:1"})
    found = await look_at(cluster(Shard("s0"), old))
    assert found.old_data == "The data are 50 s old: they come from b:1."


async def test_a_cluster_is_named_after_all_of_its_shards() -> None:
    both = cluster(Shard("s0"), Shard("s1", error=ReadError("No server answers.")))
    found = await look_at(both)
    assert (found.kind, found.set_name, found.sharded, found.has_oplog) == (Kind.CLUSTER, "s0 + s1/1", True, True)
