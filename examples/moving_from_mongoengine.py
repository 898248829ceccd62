"""Moving from MongoEngine's SequenceField: both writers take numbers from the same counter document, side by side.

MongoEngine keeps ``{_id: "<collection>.<field>", next}`` in ``mongoengine.counters``, which is the layout ``MANUAL``.
Its process and the new one may run at the same time for as long as the move takes. The same holds for
mongoose-sequence (``counters {id, seq}``: give its document's ``_id`` as the key, and ``MANUAL_SEQ``) and for
Hibernate's extension (``hibernate_sequences {_id, next_value}``: ``Layout("next_value", Semantics.NEXT)``).

    python -m examples.moving_from_mongoengine mongodb://127.0.0.1:27017/?replicaSet=demo
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mongoengine
from bson import Int64
from pymongo import MongoClient

from tallyglass.allocate import MANUAL, MANUAL_SEQ, Cached, Counter, Layout, Semantics


class Ticket(mongoengine.Document):  # type: ignore[misc, unused-ignore]
    """What the application had before."""

    number = mongoengine.SequenceField()


def main(uri: str, each: int = 100) -> list[int]:
    """Take numbers with both at once; all of them."""
    mongoengine.connect("examples", host=uri)
    client: MongoClient[dict[str, Any]] = MongoClient(uri)
    db = client.examples
    Ticket().save()
    counter = Counter(db["mongoengine.counters"], "ticket.number", layout=MANUAL)
    with Cached(counter, step=10) as ids, ThreadPoolExecutor() as pool:
        old = pool.submit(lambda: [int(Ticket().save().number) for _ in range(each)])
        new = [ids.next() for _ in range(each)]
        numbers = [*old.result(), *new]
    print(f"MongoEngine: {len(numbers)} numbers from two writers, {len(numbers) - len(set(numbers))} of them twice.")
    in_other_layouts(db, each)
    mongoengine.disconnect()
    client.close()
    return numbers


def in_other_layouts(db: Any, each: int) -> None:
    """The same beside what mongoose-sequence and Hibernate do to their documents."""
    made = db.moving.insert_one({"id": "number", "reference_value": None, "seq": 40}).inserted_id
    mongoose = Counter(db.moving, made, layout=MANUAL_SEQ)
    db.hibernate_sequences.insert_one({"_id": "books_SEQ", "next_value": Int64(1), "increment": Int64(50)})
    hibernate = Counter(db.hibernate_sequences, "books_SEQ", layout=Layout("next_value", Semantics.NEXT))
    taken: dict[str, list[int]] = {"mongoose-sequence": [], "Hibernate": []}
    for _ in range(each):
        taken["mongoose-sequence"].append(mongoose.next())
        after = db.moving.find_one_and_update({"_id": made}, {"$inc": {"seq": 1}}, return_document=True)
        taken["mongoose-sequence"].append(int(after["seq"]))
        taken["Hibernate"].append(hibernate.next())
        before = db.hibernate_sequences.find_one_and_update({"_id": "books_SEQ"}, {"$inc": {"next_value": Int64(50)}})
        taken["Hibernate"] += range(before["next_value"], before["next_value"] + 50)
    for name, numbers in taken.items():
        print(f"{name}: {len(numbers)} numbers from two writers, {len(numbers) - len(set(numbers))} of them twice.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mongodb://127.0.0.1:27017")
