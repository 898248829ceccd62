"""The counters of the demo: they take the next number with the same calls as well-known libraries.

Each class owns one counter document (or pool), writes its initial state, and takes numbers exactly as the library
in its docstring does. Sources: the libraries' own code and the MongoDB article
"Generating Globally Unique Identifiers for Use with MongoDB".
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bson import Int64
from pymongo import AsyncMongoClient, MongoClient, ReturnDocument
from pymongo.asynchronous.collection import AsyncCollection

from tallyglass.mongo.gateway import Namespace

Document = dict[str, Any]
Client = AsyncMongoClient[Document]

SPAN = 1_000_000_000
"""How many numbers each document of the pool covers."""


@dataclass(frozen=True, slots=True)
class Advance:
    """The effect of taking many numbers at once: the ``_id`` of the counter document, its changed fields, and the last
    number taken.
    """

    identity: Any
    changes: Document
    number: int | float


def _collection(client: Client, ns: Namespace) -> AsyncCollection[Document]:
    return client[ns.db][ns.collection]


@dataclass(slots=True)
class KeyedCounter:
    """``{<key...>, <field>: n}`` with findAndModify, ``$inc`` and new:true: the value is the last number taken.

    This is the older MongoDB documentation (``{_id, next}``), MongoEngine (``{_id: "coll.field", next}``),
    mongoose-sequence (``{_id: ObjectId, id, reference_value, seq}``) and most hand-written ones. A ``step``
    of 1.0 makes and keeps the number a double, as the legacy shell did. With a ``block`` it is the Node.js pattern
    ``ids {_id, index}``: ``$inc`` by a block, then serve the block from memory.
    """

    ns: Namespace
    key: Mapping[str, Any]
    field: str
    start: int | float
    step: int | float = 1
    limit: int | None = None
    block: int = 1
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other fields of the document."""
    _identity: Any = None
    _left: list[int | float] = dataclasses.field(default_factory=list)

    def seed(self, client: MongoClient[Document]) -> None:
        """Write the initial state."""
        bound = {} if self.limit is None else {"MAX_VALUE": self.limit}
        document = {**self.key, self.field: self.start, **self.more, **bound}
        self._identity = client[self.ns.db][self.ns.collection].insert_one(document).inserted_id

    def earlier(self, ago: Sequence[int]) -> list[int | float]:
        """For each count in ``ago``, the number taken that many numbers before the last one."""
        return [self.start - n * self.step for n in ago]

    def advance(self, count: int) -> Advance:
        """Advance by about ``count`` numbers in memory, before the workload starts."""
        self.start += max(1, round(count / self.block)) * self.block * self.step
        return Advance(self._identity, {self.field: self.start}, self.start)

    async def next_number(self, client: Client) -> int | float:
        """Return the next number, and advance the counter."""
        if not self._left:
            after = await _collection(client, self.ns).find_one_and_update(
                dict(self.key),
                {"$inc": {self.field: self.step * self.block}},
                upsert=True,
                return_document=ReturnDocument.AFTER,
            )
            assert after is not None, "an upsert with ReturnDocument.AFTER returns a document"
            self._left = [after[self.field] - n * self.step for n in range(self.block)]
        return self._left.pop()


@dataclass(slots=True)
class RaisedCounter(KeyedCounter):
    """A keyed counter with a close ``MAX_VALUE``, which is raised each time it is almost reached."""

    limit: int = 0
    close: int = 40
    by: int = 400

    def advance(self, count: int) -> Advance:
        done = KeyedCounter.advance(self, count)
        if done.number < self.limit - self.close:
            return done
        self.limit = int(done.number) + self.by
        return replace(done, changes={**done.changes, "MAX_VALUE": self.limit})

    async def next_number(self, client: Client) -> int | float:
        number = await KeyedCounter.next_number(self, client)
        if number >= self.limit - self.close:
            await _collection(client, self.ns).update_one(dict(self.key), {"$inc": {"MAX_VALUE": self.by}})
            self.limit += self.by
        return number


class ArticleCounter(KeyedCounter):
    """The article's single document: findAndModify without new:true, so ``COUNT`` is the next number."""

    def __init__(self, ns: Namespace, start: int, limit: int | None = None) -> None:
        notes = (
            "Increment COUNT using findAndModify to ensure that the COUNT field will be incremented "
            "atomically with the fetch of this document"
        )
        key = {"_id": "UNIQUE COUNT DOCUMENT IDENTIFIER"}
        KeyedCounter.__init__(self, ns, key, "COUNT", start, limit=limit, more={"NOTES": notes})

    def earlier(self, ago: Sequence[int]) -> list[int | float]:
        return [number - 1 for number in KeyedCounter.earlier(self, ago)]

    def advance(self, count: int) -> Advance:
        done = KeyedCounter.advance(self, count)
        return replace(done, number=done.number - 1)

    async def next_number(self, client: Client) -> int | float:
        before = await _collection(client, self.ns).find_one_and_update(dict(self.key), {"$inc": {"COUNT": 1}})
        return int(before["COUNT"]) if before else self.start


@dataclass(slots=True)
class ArticlePool:
    """The article's pool: a thousand documents, each covering a range of its own; each batch picks one at random.

    Numbers are served from memory until the batch is used up. The documents start at different fill levels, a few of
    them almost full.
    """

    ns: Namespace
    rng: random.Random
    documents: int = 1000
    batch: int = 200
    _left: list[int] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._counts = [n * SPAN + self._used(n) for n in range(self.documents)]

    def _used(self, n: int) -> int:
        if n % 333 == 7:
            return SPAN - 4_000 * (n // 333 + 1)
        share = min(0.97, max(0.02, self.rng.gauss(0.62, 0.08)))
        return int(share * SPAN) // self.batch * self.batch

    def seed(self, client: MongoClient[Document]) -> None:
        client[self.ns.db][self.ns.collection].insert_many(
            [
                {"_id": n, "COUNT": Int64(count), "MAX_VALUE": Int64((n + 1) * SPAN)}
                for n, count in enumerate(self._counts)
            ]
        )

    def earlier(self, ago: Sequence[int]) -> list[int | float]:
        picked = self.rng.sample(range(self.documents), len(ago))
        return [self._counts[n] - 1 for n in picked]

    def advance(self, count: int) -> Advance:
        more = max(1, round(count / self.batch)) * self.batch
        n = self.rng.randrange(self.documents)
        while self._counts[n] + more > (n + 1) * SPAN - 4_000:
            n = self.rng.randrange(self.documents)
        self._counts[n] += more
        return Advance(n, {"COUNT": Int64(self._counts[n])}, self._counts[n] - 1)

    async def next_number(self, client: Client) -> int:
        while not self._left:
            n = self.rng.randrange(self.documents)
            before = await _collection(client, self.ns).find_one_and_update(
                {"_id": n, "COUNT": {"$lte": (n + 1) * SPAN - self.batch}}, {"$inc": {"COUNT": Int64(self.batch)}}
            )
            if before:
                first = int(before["COUNT"])
                self._left = list(range(first + self.batch - 1, first - 1, -1))
        return self._left.pop()
