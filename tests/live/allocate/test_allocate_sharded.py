"""The recipe for a sharded collection, on real shards.

There is no mongos here, so the program talks to the shard that owns the collection, as a router would.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from examples import sharded_tickets
from pymongo import MongoClient
from sharded_rig import MAJORITY, Cluster, sharded_cluster

from tallyglass.allocate import MaxPlusOne, NotUnique, ensure_unique

pytestmark = [pytest.mark.live, pytest.mark.soak]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster with ``examples.tickets`` sharded by tenant and its proxy collection sharded by ``_id``."""
    with sharded_cluster() as found:
        config = found.config_client
        config.admin.command({"_configsvrCreateDatabase": "examples", "primaryShardId": "s0"}, writeConcern=MAJORITY)
        database = config.config.databases.find_one({"_id": "examples"})
        assert database is not None
        for name, key in (("tickets", {"tenant": 1}), ("ticket_numbers", {"_id": 1})):
            found.clients[0].examples.command(
                {"_shardsvrCreateCollection": name, "shardKey": key, "databaseVersion": database["version"]},
                writeConcern=MAJORITY,
            )
        yield found


def test_ticket_numbers_are_unique_on_a_collection_sharded_by_tenant(cluster: Cluster) -> None:
    client: MongoClient[dict[str, Any]] = cluster.clients[0]
    keys = {row["_id"]: row["key"] for row in cluster.config_client.config.collections.find()}
    assert keys["examples.tickets"] == {"tenant": 1}
    with pytest.raises(NotUnique):
        ensure_unique(client.examples.tickets, "number")
    with pytest.raises(NotUnique):
        MaxPlusOne(client.examples.tickets).insert({"tenant": "a"})
    opened = sharded_tickets.main(cluster.shards[0].uri)
    stored = [row["number"] for row in client.examples.tickets.find()]
    assert sorted(stored) == sorted(opened)
    assert len(set(stored)) == len(stored) == 200
    assert sorted(row["_id"] for row in client.examples.ticket_numbers.find()) == sorted(stored)
