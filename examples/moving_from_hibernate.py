"""Migrate from Hibernate: its table generator for MongoDB and this library take ids from the same document.

The MongoDB extension for Hibernate keeps ``{_id, next_value, increment}`` in ``hibernate_sequences``. Its pooled
optimizer adds ``increment`` with one update and hands the range out in memory. The stored number is the next id:
``Layout("next_value", Semantics.NEXT)``. Here the Java process is a thread that makes the same updates.

    python -m examples.moving_from_hibernate mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bson import Int64
from pymongo import MongoClient
from pymongo.collection import Collection

from tallyglass.allocate import Cached, Counter, Layout, Semantics

INCREMENT = 50
HIBERNATE = Layout("next_value", Semantics.NEXT)


def as_hibernate_does(sequences: Collection[dict[str, Any]], ranges: int) -> list[int]:
    """The ids of some ranges, taken as Hibernate takes them."""
    ids: list[int] = []
    for _ in range(ranges):
        before = sequences.find_one_and_update({"_id": "books_SEQ"}, {"$inc": {"next_value": Int64(INCREMENT)}})
        assert before is not None
        ids += range(before["next_value"], before["next_value"] + INCREMENT)
    return ids


def main(uri: str, ranges: int = 40) -> list[int]:
    """Take ids with both writers concurrently, and return all of them."""
    client: MongoClient[dict[str, Any]] = MongoClient(uri)
    sequences = client.examples.hibernate_sequences
    first = {"next_value": Int64(1), "increment": Int64(INCREMENT)}
    sequences.update_one({"_id": "books_SEQ"}, {"$setOnInsert": first}, upsert=True)
    counter = Counter(sequences, "books_SEQ", layout=HIBERNATE)
    with Cached(counter, step=INCREMENT) as ids, ThreadPoolExecutor() as pool:
        old = pool.submit(as_hibernate_does, sequences, ranges)
        new = ids.take(ranges * INCREMENT)
        numbers = [*old.result(), *new]
    print(f"{len(numbers)} ids from two writers, {len(numbers) - len(set(numbers))} of them twice.")
    client.close()
    return numbers


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
