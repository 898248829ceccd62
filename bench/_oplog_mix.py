"""A realistic mix of writes, for benchmarks of what reads the oplog."""

from __future__ import annotations

from typing import Any

from pymongo import MongoClient, UpdateOne


def write_mix(client: MongoClient[Any], round_number: int) -> None:
    """Write 2,000 oplog entries: inserts, updates with a session, and updates and deletes of many without."""
    collection = client.bench[f"c{round_number % 20}"]
    ids = [f"{round_number}-{n}" for n in range(1_000)]
    collection.insert_many([{"_id": i, "v": n, "name": "x" * 40} for n, i in enumerate(ids)])
    collection.bulk_write([UpdateOne({"_id": i}, {"$inc": {"v": 1}}) for i in ids[:600]], ordered=False)
    collection.update_many({"_id": {"$in": ids[600:800]}}, {"$set": {"w": 1}})
    collection.delete_many({"_id": {"$in": ids[:200]}})
