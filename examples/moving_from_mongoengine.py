"""Migrate from MongoEngine's SequenceField: old and new writers share the same counter document.

MongoEngine keeps ``{_id: "<collection>.<field>", next}`` in ``mongoengine.counters``, which is the layout ``MANUAL``.
Its processes and the new ones may run at the same time during the migration.

    python -m examples.moving_from_mongoengine mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mongoengine
from pymongo import MongoClient

from tallyglass.allocate import MANUAL, Cached, Counter


class Ticket(mongoengine.Document):  # type: ignore[misc, unused-ignore]
    """The existing model."""

    number = mongoengine.SequenceField()


def main(uri: str, each: int = 100) -> list[int]:
    """Take numbers with both writers concurrently, and return all of them."""
    mongoengine.connect("examples", host=uri)
    client: MongoClient[dict[str, Any]] = MongoClient(uri)
    Ticket().save()
    counter = Counter(client.examples["mongoengine.counters"], "ticket.number", layout=MANUAL)
    with Cached(counter, step=10) as ids, ThreadPoolExecutor() as pool:
        old = pool.submit(lambda: [int(Ticket().save().number) for _ in range(each)])
        new = [ids.next() for _ in range(each)]
        numbers = [*old.result(), *new]
    print(f"{len(numbers)} numbers from two writers, {len(numbers) - len(set(numbers))} of them twice.")
    mongoengine.disconnect()
    client.close()
    return numbers


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
