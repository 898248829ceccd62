"""Bulk import: one command takes consecutive ids for a whole batch.

python -m examples.bulk_import mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable
from typing import Any

from pymongo import MongoClient

from tallyglass.allocate import Counter, verify

BATCH = 1_000


def load(uri: str, rows: Iterable[dict[str, Any]]) -> int:
    """Insert all rows, each with an integer ``_id``, and return their number."""
    client: MongoClient[Any] = MongoClient(uri)
    products = client.examples.products
    counter = Counter(client.examples.counters, "products")
    counter.create()
    found = verify(counter, products)
    if found.behind:
        raise SystemExit(f"The counter is {-found.drift} ids behind the collection. Repair it first:\n{found.command}")
    loaded, source, ids = 0, iter(rows), range(1)
    while batch := list(itertools.islice(source, BATCH)):
        ids = counter.take(len(batch))
        products.insert_many([{"_id": one, **row} for one, row in zip(ids, batch, strict=True)], ordered=False)
        loaded += len(batch)
    print(f"{loaded:,} rows in {counter.stats().fetches} allocations, up to _id {ids[-1]:,}.")
    client.close()
    return loaded


if __name__ == "__main__":
    load(
        sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017",
        ({"sku": f"SKU-{n:06}", "price": n % 97} for n in range(25_000)),
    )
