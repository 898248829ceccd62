"""Regular writes of the demo: which documents, how often, and which counter numbers them."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bson import ObjectId
from pymongo import DeleteOne

from tallyglass.demo import goods
from tallyglass.demo.numbering import (
    ArticleCounter,
    ArticlePool,
    Client,
    Document,
    KeyedCounter,
    RaisedCounter,
)
from tallyglass.mongo.gateway import Namespace

_DAY = 86_400  # seconds
_KEPT = 3_600  # seconds for which a document is kept: a demo that deletes the oldest sooner seems to lose them
_DAY_SWING = 0.6  # the share by which day and night differ from the mean rate, so that bands have something to show

Make = Callable[[random.Random, Any], Document]


@dataclass(slots=True)
class Stream:
    """Inserts into one collection, ``batch`` documents at a time, each numbered by ``numbers``.

    ``per_second`` is the average rate; it varies by the fraction ``swing`` over ``period`` seconds. The oldest
    documents are deleted one by one, as the consumer of a queue would.
    """

    target: Namespace
    numbers: KeyedCounter | ArticlePool
    make: Make
    per_second: float
    batch: int = 1
    seeded: int = 300
    swing: float = 0.5
    period: float = 90.0
    ids: deque[Any] = field(default_factory=deque)

    def given_in(self, seconds: float) -> int:
        """How many numbers were taken in the ``seconds`` before the workload started, with busy and quiet hours.

        The average over a whole day is the rate of the workload; the workload starts at the end of the quiet hours.
        """
        turned = 1 - math.cos(2 * math.pi * seconds / _DAY)
        return round(self.per_second * (seconds - _DAY_SWING * _DAY / (2 * math.pi) * turned))

    def wait(self, rng: random.Random, now: float) -> float:
        """Seconds until the next write: random arrivals at a varying rate."""
        rate = self.per_second * (1 + self.swing * math.sin(2 * math.pi * now / self.period))
        return rng.expovariate(rate / self.batch)

    async def step(self, client: Client, rng: random.Random) -> None:
        """Insert one batch; delete as many of the oldest documents once they are too old."""
        await self.add(client, rng, self.batch)
        surplus = min(len(self.ids) - self.seeded - round(self.per_second * _KEPT), self.batch)
        if surplus > 0:
            oldest = [self.ids.popleft() for _ in range(surplus)]
            await client[self.target.db][self.target.collection].bulk_write([DeleteOne({"_id": _id}) for _id in oldest])

    async def add(self, client: Client, rng: random.Random, count: int) -> None:
        """Insert ``count`` new documents, each with a number of its own."""
        documents = [self.make(rng, await self.numbers.next_number(client)) for _ in range(count)]
        for document in documents:
            document.setdefault("_id", ObjectId())
        await client[self.target.db][self.target.collection].insert_many(documents)
        self.ids.extend(document["_id"] for document in documents)


def all_streams(rng: random.Random) -> dict[str, Stream]:
    """The streams by name: six kinds of counters, from one number every few seconds to dozens a second."""
    at, keyed = Namespace, KeyedCounter
    counters = at("shop", "counters")
    orders = keyed(counters, {"_id": "orders"}, "next", 89_184_200, limit=99_999_999)
    customers = keyed(counters, {"_id": "customers"}, "next", 3_048_200.0, step=1.0)
    vouchers = RaisedCounter(counters, {"_id": "vouchers"}, "next", 6_061_760, limit=6_062_000)
    payments = ArticleCounter(at("shop", "uniqueIdentifierCounter"), 21_091_500, limit=24_999_999)
    readings = ArticlePool(at("plant", "identifierPool"), rng)
    messages = keyed(at("chat", "ids"), {"_id": "messages"}, "index", 97_310_000, limit=119_999_999, block=100)
    comments = keyed(at("blog", "mongoengine.counters"), {"_id": "comments.number"}, "next", 12_025_900)
    ticket = {"id": "ticket_no", "reference_value": None}
    tickets = keyed(at("support", "counters"), ticket, "seq", 5_006_040)
    people = keyed(at("crm", "IDs"), {"_id": "people"}, "seq", 2_147_280_000)
    return {
        "orders": Stream(at("shop", "orders"), orders, goods.order, 8, seeded=900),
        "customers": Stream(at("shop", "customers"), customers, goods.customer, 0.6, period=140),
        "vouchers": Stream(at("shop", "vouchers"), vouchers, goods.voucher, 1.5, swing=0.2),
        "payments": Stream(at("shop", "payments"), payments, goods.payment, 5, period=70),
        "readings": Stream(at("plant", "readings"), readings, goods.reading, 30, batch=15, swing=0.2),
        "messages": Stream(at("chat", "messages"), messages, goods.message, 25, batch=5, swing=0.9, period=45),
        "comments": Stream(at("blog", "comments"), comments, goods.comment, 3, period=200),
        "tickets": Stream(at("support", "tickets"), tickets, goods.ticket, 1.2, period=110),
        "people": Stream(at("crm", "people"), people, goods.person, 0.8, swing=0.3),
    }
