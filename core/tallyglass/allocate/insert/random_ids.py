"""Random ids from a number space, kept unique by an index: for numbers that reveal neither order nor count."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic

from bson.int64 import Int64

from tallyglass.allocate.engine.allocator import AsyncAllocator, C, Reporting, SyncAllocator
from tallyglass.allocate.engine.attempts import Deadlines, RetryBudget, call_with_retry
from tallyglass.allocate.engine.checks import whole
from tallyglass.allocate.engine.handles import AnyAsyncCollection, SyncCollection, prepare
from tallyglass.allocate.engine.meter import Hook
from tallyglass.allocate.engine.steps import Steps
from tallyglass.allocate.insert.insertion import Inserter


@dataclass(frozen=True, slots=True)
class NumberSpace:
    """The numbers ``low <= id < high``. With ``width`` they are texts of that many digits, zero-padded."""

    low: int
    high: int
    width: int = 0

    def __post_init__(self) -> None:
        whole(self.low, "low")
        whole(self.high, "high", high=2**63)
        whole(self.width, "width", low=0)
        if not self.low < self.high:
            raise ValueError("a number space needs low < high")
        if self.width and not (self.low >= 0 and self.high <= 10**self.width):
            raise ValueError(f"texts of {self.width} digits cannot hold all of {self.low} to {self.high - 1}")

    @classmethod
    def digits(cls, count: int, *, text: bool = False) -> NumberSpace:
        """All numbers of exactly ``count`` digits; as ``text`` also those that begin with zeros."""
        if not 1 <= count <= 18:
            raise ValueError("1 to 18 digits fit into 64 bits")
        return cls(0, 10**count, count) if text else cls(10 ** (count - 1), 10**count)

    @property
    def size(self) -> int:
        """How many ids there are."""
        return self.high - self.low

    def draw(self) -> int | str:
        """A random id, from the operating system's random source: safe after a fork, and unpredictable."""
        number = self.low + secrets.randbelow(self.size)
        return f"{number:0{self.width}d}" if self.width else Int64(number)


@dataclass(frozen=True, slots=True)
class Fill:
    """How full a number space is: ``used`` of ``size`` ids, by the collection's own count.

    ``collision_rate`` is the chance that one proposal is taken, ``expected_tries`` the inserts per document.
    """

    used: int
    size: int

    @property
    def collision_rate(self) -> float:
        """The chance that a proposed id is taken, 0 to 1."""
        return min(1.0, self.used / self.size)

    @property
    def expected_tries(self) -> float:
        """At least 1; infinite when the space is full."""
        rate = self.collision_rate
        return 1 / (1 - rate) if rate < 1 else float("inf")


class _RandomIdsCore(Inserter):
    space: NumberSpace

    def fill(self) -> Steps[Fill]:
        used = yield from call_with_retry(
            self.collection.estimated_document_count, where=self.where, budget=self.budget()
        )
        return Fill(used, self.space.size)

    def propose(self, budget: RetryBudget) -> Steps[Any]:
        return self.space.draw()
        yield


class RandomIdsCalls(Reporting, Generic[C]):
    """The arguments of both classes."""

    _asynchronous: ClassVar[bool]
    _core: _RandomIdsCore

    def __init__(
        self,
        collection: C,
        field: str,
        space: NumberSpace,
        *,
        tries: int = 20,
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
    ) -> None:
        prepared = prepare(collection, asynchronous=self._asynchronous, inserts=True)
        self._core = _RandomIdsCore(prepared, field, tries, deadlines, on_event)
        self._core.space = space


class RandomIds(SyncAllocator, RandomIdsCalls[SyncCollection]):
    """Insert documents under a random id, with a MongoClient. Thread-safe, fork-safe.

    When to use: account, card or voucher numbers: a fixed number of digits that reveals neither order nor count.
    Promise: the index on ``field`` keeps ids unique (it is verified before the first insert); at most
    ``tries`` proposals a document; collisions are counted. An insert whose outcome is unknown is repeated safely.
    Cost: one insert a document, times ``1 / (1 - fill)``; :meth:`fill` returns the present rate.
    """

    # Generated from AsyncRandomIds by packaging/unasync.py.
    def insert(self, document: Mapping[str, Any], *, session: Any = None) -> Any:
        """Insert a copy of ``document`` with an id in the field; returns that id. Raises CollisionLimit, NotUnique."""
        return self._run(self._core.insert(document, session))

    def fill(self) -> Fill:
        """How full the number space is now, by the collection's estimated count."""
        return self._run(self._core.fill())


class AsyncRandomIds(AsyncAllocator, RandomIdsCalls[AnyAsyncCollection]):
    """:class:`RandomIds` for an AsyncMongoClient or Motor's AsyncIOMotorClient."""

    async def insert(self, document: Mapping[str, Any], *, session: Any = None) -> Any:
        """Insert a copy of ``document`` with an id in the field; returns that id. Raises CollisionLimit, NotUnique."""
        return await self._run(self._core.insert(document, session))

    async def fill(self) -> Fill:
        """How full the number space is now, by the collection's estimated count."""
        return await self._run(self._core.fill())
