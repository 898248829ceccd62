"""The initial data of the demo."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping

from pymongo import ASCENDING, MongoClient

from tallyglass.demo import goods
from tallyglass.demo.numbering import Document
from tallyglass.demo.streams import Stream
from tallyglass.moment import from_seconds

_DAYS = 40  # over which the documents of the past are spread: ObjectIds of several weeks
_CARTS = 120  # two screens of documents that an accident deletes
STAGING = {"import": 60, "scratch": 40}
"""Collections of a leftover database, dropped by an accident, with their number of documents."""

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


def seed(
    client: MongoClient[Document], streams: Mapping[str, Stream], rng: random.Random, seconds_ago: float = 0.0
) -> None:
    """Write counters, collections, indexes and weeks of documents, as of ``seconds_ago`` seconds before now.

    The databases must be empty.
    """
    # On an empty collection an index needs no two-phase build, which would wait for a majority twice.
    client.support.counters.create_index([("id", ASCENDING), ("reference_value", ASCENDING)], unique=True)
    for (db, collection), fields in INDEXES.items():
        for name, unique in fields:
            client[db][collection].create_index(name, unique=unique)
    now = time.time() - seconds_ago
    for stream in streams.values():
        stream.numbers.seed(client)
        documents = _past(stream, rng, now, seconds_ago)
        client[stream.target.db][stream.target.collection].insert_many(documents)
        stream.ids.extend(document["_id"] for document in documents)
    client.shop.products.insert_many([goods.product(rng, n) for n in range(goods.PRODUCTS)])
    client.shop.carts.insert_many([goods.cart(rng, n) for n in range(_CARTS)])
    for name in STAGING:
        client.staging[name].insert_many(staging_rows(name))


def staging_rows(name: str) -> list[Document]:
    """The documents of one collection of :data:`STAGING`."""
    return [{"row": n, "note": "left over from an import"} for n in range(STAGING[name])]


def _past(stream: Stream, rng: random.Random, end: float, seconds_ago: float) -> list[Document]:
    """Documents as several processes would have inserted them in the weeks before ``end``, oldest first."""
    processes = [rng.randbytes(5) for _ in range(3)]
    # Far enough apart that no two get the same number.
    apart = _DAYS * 86_400 / stream.seeded
    ages = [apart * (n + rng.uniform(0.05, 0.95)) for n in reversed(range(stream.seeded))]
    since = stream.given_in(seconds_ago)
    numbers = stream.numbers.earlier([stream.given_in(seconds_ago + age) - since for age in ages[:-1]] + [0])
    return [
        made_at(stream, rng, number, end - age, rng.choice(processes))
        for number, age in zip(numbers, ages, strict=True)
    ]


def made_at(stream: Stream, rng: random.Random, number: float, moment: float, process: bytes) -> Document:
    """A document of the stream as a process with these five random bytes would have inserted it at a moment."""
    document = stream.make(rng, number)
    if "status" in document:
        document["status"] = rng.choice(goods.STATUSES)
    if "placed" in document:
        document["placed"] = from_seconds(moment)
    return {"_id": goods.object_id_at(rng, moment, process)} | document
