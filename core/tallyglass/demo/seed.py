"""What the demo's databases hold before the workload starts."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from pymongo import ASCENDING, MongoClient

from tallyglass.demo import goods
from tallyglass.demo.numbering import Document
from tallyglass.demo.streams import Stream

_DAYS = 40
_CARTS = 120
STAGING = {"import": 60, "scratch": 40}
"""The collections of a database that somebody left behind, and will drop."""

INDEXES: Mapping[tuple[str, str], tuple[tuple[str, bool], ...]] = {
    ("shop", "orders"): (("number", True), ("status", False)),
    ("shop", "customers"): (("number", True), ("email", False)),
    ("shop", "vouchers"): (("number", True),),
    ("shop", "carts"): (("total", False),),
    ("blog", "comments"): (("number", True),),
    ("support", "tickets"): (("ticket_no", True),),
    ("chat", "messages"): (("from", False),),
}
"""The secondary indexes of each collection: the field, and whether its values are unique."""


def seed(client: MongoClient[Document], streams: Mapping[str, Stream], rng: random.Random) -> None:
    """Write counters, collections, indexes and some weeks of documents. The databases must be empty."""
    # An index on an empty collection takes no build of its own, which would wait for the majority twice.
    client.support.counters.create_index([("id", ASCENDING), ("reference_value", ASCENDING)], unique=True)
    for (db, collection), fields in INDEXES.items():
        for name, unique in fields:
            client[db][collection].create_index(name, unique=unique)
    now = time.time()
    for stream in streams.values():
        stream.numbers.seed(client)
        documents = _past(stream, rng, now)
        client[stream.target.db][stream.target.collection].insert_many(documents)
        stream.ids.extend(document["_id"] for document in documents)
    client.shop.products.insert_many([goods.product(rng, n) for n in range(goods.PRODUCTS)])
    client.shop.carts.insert_many([goods.cart(rng, n) for n in range(_CARTS)])
    for name in STAGING:
        client.staging[name].insert_many(staging_rows(name))


def staging_rows(name: str) -> list[Document]:
    """The documents of one of these collections."""
    return [{"row": n, "note": "left over from an import"} for n in range(STAGING[name])]


def _past(stream: Stream, rng: random.Random, now: float) -> list[Document]:
    """Documents as several processes would have made them over the last weeks, oldest first."""
    processes = [rng.randbytes(5) for _ in range(3)]
    numbers = stream.numbers.earlier(stream.seeded)
    moments = sorted(now - rng.uniform(60, _DAYS * 86_400) for _ in numbers)
    documents = []
    for number, moment in zip(numbers, moments, strict=True):
        document = stream.make(rng, number)
        if "status" in document:
            document["status"] = rng.choice(goods.STATUSES)
        document.setdefault("_id", goods.object_id_at(rng, moment, rng.choice(processes)))
        documents.append(document)
    return documents


def cart_ids() -> list[str]:
    """The carts that the shop keeps."""
    return [f"cart-{n:04d}" for n in range(_CARTS)]
