"""Ticket numbers that are unique across a sharded collection: reserve each in a proxy collection first.

A unique index on ``number`` is impossible, since it does not start with the shard key ``tenant``. The proxy collection
has one small document per number and is sharded on ``_id``. On a replica set the same program runs unsharded.

    python -m examples.sharded_tickets mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import sys
from typing import Any

from pymongo import MongoClient

from tallyglass.allocate import Cached, CollisionLimit, Pool, PoolLayout, ProxiedInsert, verify_unique


def main(uri: str, tickets: int = 200) -> list[int]:
    """Open tickets for several tenants and return their numbers."""
    client: MongoClient[Any] = MongoClient(uri)
    db = client.examples
    if client.admin.command("hello").get("msg") == "isdbgrid":
        client.admin.command("shardCollection", "examples.tickets", key={"tenant": 1})
        client.admin.command("shardCollection", "examples.ticket_numbers", key={"_id": "hashed"})
    print(f"tickets.number: {verify_unique(db.tickets, 'number').reason}")
    pool = Pool(db.ticket_counters, layout=PoolLayout(documents=16, span=10**6, first=10**6))
    pool.create()
    write = ProxiedInsert(db.ticket_numbers, db.tickets, "number")
    with Cached(pool, step=100) as ids:
        opened = []
        for n in range(tickets):
            number = ids.next()
            write.insert({"tenant": f"tenant {n % 7}", "number": number})
            opened.append(number)
    try:
        write.insert({"tenant": "tenant 1", "number": opened[0]})
    except CollisionLimit as error:
        print(f"As expected: {error.title}")
    print(f"{len(opened)} tickets, {len(set(opened))} numbers, from {opened[0]:,}.")
    client.close()
    return opened


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
