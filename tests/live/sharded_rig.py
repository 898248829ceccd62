"""A real sharded cluster without mongos: a config server and two shards, and the commands that move chunks."""

from __future__ import annotations

import socket
import struct
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import bson
from bson import Binary, Int64
from pymongo import MongoClient

from tallyglass.demo.server import ReplicaSet, Servers

MAJORITY = {"w": "majority"}
OP_MSG = 2013


class ConfigServers(ReplicaSet):
    """The config server: its configuration must say so before it is a set."""

    def __init__(self) -> None:
        options = ["--configsvr", "--setParameter", "reshardingMinimumOperationDurationMillis=0"]
        Servers.__init__(self, 1, set_name="cfg", options=options)
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

    @property
    def uris(self) -> list[str]:
        """The URI of each shard."""
        return [shard.uri for shard in self.shards]

    def transaction(self, ns: str, documents: int) -> None:
        """Insert and delete so many documents on each shard in one prepared transaction, as a router commits it."""
        db, _, name = ns.partition(".")
        session = {"lsid": {"id": Binary(uuid.uuid4().bytes, 4)}, "txnNumber": Int64(1), "autocommit": False}
        prepared = []
        for shard, client in zip(self.shards, self.clients, strict=True):
            client[db][name].insert_many([{"_id": n} for n in range(documents)])
            address = shard.members[shard.await_primary()].address
            remove = {"delete": name, "deletes": [{"q": {}, "limit": 0}], "startTransaction": True, **session}
            send(address, db, remove)
            answer = send(address, "admin", {"prepareTransaction": 1, **session, "writeConcern": MAJORITY})
            prepared.append((address, answer["prepareTimestamp"]))
        commit = {"commitTransaction": 1, **session, "commitTimestamp": max(stamp for _, stamp in prepared)}
        for address, _ in prepared:
            send(address, "admin", {**commit, "writeConcern": MAJORITY})

    def drop_database(self, name: str) -> None:
        """Drop a database on all shards, as the router has its primary shard do."""
        command = {"_shardsvrDropDatabase": 1, "databaseVersion": self._version(name)}
        self.clients[0][name].command(command, writeConcern=MAJORITY)

    def shard(self, ns: str, key: str) -> None:
        """Create a sharded collection, as the router has the primary shard of its database do."""
        db, _, name = ns.partition(".")
        command = {"_shardsvrCreateCollection": name, "shardKey": {key: 1}, "databaseVersion": self._version(db)}
        self.clients[0][db].command(command, writeConcern=MAJORITY)

    def reshard(self, ns: str, key: str) -> None:
        """Give a collection another shard key, as the router has the primary shard of its database do."""
        command = {"_shardsvrReshardCollection": ns, "key": {key: 1}, "unique": False, "numInitialChunks": 2}
        more = {"collation": {"locale": "simple"}, "databaseVersion": self._version(ns.partition(".")[0])}
        self.clients[0].admin.command(command | more, writeConcern=MAJORITY)

    def _version(self, db: str) -> Any:
        database = self.config_client.config.databases.find_one({"_id": db})
        assert database is not None
        return database["version"]

    def move(self, ns: str, to: str, low: int, high: int) -> None:
        """Move the chunk with these bounds, as a balancer does."""
        self.config_client.admin.command(
            {"_configsvrMoveRange": ns, "toShard": to, "min": {"_id": low}, "max": {"_id": high}, "forceJumbo": 0},
            writeConcern=MAJORITY,
        )


def send(address: str, db: str, command: dict[str, Any]) -> dict[str, Any]:
    """Send one command with a chosen session, which a driver would replace with its own."""
    host, _, port = address.rpartition(":")
    body = b"\0\0\0\0\0" + bson.encode({**command, "$db": db})
    with socket.create_connection((host, int(port)), timeout=30) as connection, connection.makefile("rb") as answers:
        connection.sendall(struct.pack("<iiii", 16 + len(body), 1, 0, OP_MSG) + body)
        (length,) = struct.unpack("<i", answers.read(4))
        answer = bson.decode(answers.read(length - 4)[17:])
    assert answer["ok"] == 1, answer
    return answer


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
        clients = [stack.enter_context(shard.client()) for shard in shards]
        cluster = Cluster(config, shards, admin, clients)
        cluster.shard("shop.orders", "_id")
        yield cluster
