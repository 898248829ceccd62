"""A real sharded cluster without mongos: a config server and two shards, and the commands that move chunks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from pymongo import MongoClient

from tallyglass.demo.server import ReplicaSet, Servers

MAJORITY = {"w": "majority"}


class ConfigServers(ReplicaSet):
    """The config server: its configuration must say so before it is a set."""

    def __init__(self) -> None:
        Servers.__init__(self, 1, set_name="cfg", options=["--configsvr"])
        try:
            members = [{"_id": 0, "host": self.members[0].address}]
            with self.client(0) as client:
                client.admin.command("replSetInitiate", {"_id": "cfg", "configsvr": True, "members": members})
            self.await_primary()
        except BaseException:
            self.stop()
            raise


@dataclass(frozen=True)
class Cluster:
    """The parts, each with a client to its primary."""

    config: ReplicaSet
    shards: list[ReplicaSet]
    config_client: MongoClient[dict[str, Any]]
    clients: list[MongoClient[dict[str, Any]]]

    def move(self, ns: str, to: str, low: int, high: int) -> None:
        """Move the chunk with these bounds, as a balancer does."""
        self.config_client.admin.command(
            {"_configsvrMoveRange": ns, "toShard": to, "min": {"_id": low}, "max": {"_id": high}, "forceJumbo": 0},
            writeConcern=MAJORITY,
        )


@contextmanager
def sharded_cluster(members: int = 1) -> Iterator[Cluster]:
    """``shop.orders``, sharded by ``_id``, with all of its documents on the first shard, ``s0``."""
    with ExitStack() as stack:
        config = stack.enter_context(ConfigServers())
        options = ["--shardsvr", "--setParameter", "orphanCleanupDelaySecs=1"]
        shards = [
            stack.enter_context(ReplicaSet(members if name == "s1" else 1, set_name=name, options=options))
            for name in ("s0", "s1")
        ]
        admin = stack.enter_context(config.client())
        for shard in shards:
            hosts = ",".join(member.address for member in shard.members)
            name = shard.set_name
            admin.admin.command({"_configsvrAddShard": f"{name}/{hosts}", "name": name}, writeConcern=MAJORITY)
        admin.admin.command({"_configsvrCreateDatabase": "shop", "primaryShardId": "s0"}, writeConcern=MAJORITY)
        database = admin.config.databases.find_one({"_id": "shop"})
        assert database is not None
        clients = [stack.enter_context(shard.client()) for shard in shards]
        clients[0].shop.command(
            {"_shardsvrCreateCollection": "orders", "shardKey": {"_id": 1}, "databaseVersion": database["version"]},
            writeConcern=MAJORITY,
        )
        yield Cluster(config, shards, admin, clients)
