"""Counters per tenant, kind and period in one collection, created on first use.

A scope is one document: ``{_id: "acme/invoice", next}``, or ``{_id: "acme/invoice", periods: {"2026": 17}}``.
The first id of a scope or period is taken by the same single update as all others, so two processes can
never both start at 1. All periods of a scope share a document, which makes it safe to remove old ones: the update that
removes their numbers also records that they are retired, and the filter of each increment checks that record.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, ClassVar, Final, Generic, TypeVar

from bson.int64 import Int64
from pymongo import WriteConcern

from tallyglass.allocate.counter import AsyncCounter, Counter, CounterCalls, CounterCore
from tallyglass.allocate.engine.allocator import AsyncAllocator, C, Core, SyncAllocator
from tallyglass.allocate.engine.attempts import Deadlines, RetryBudget, call_with_retry
from tallyglass.allocate.engine.checks import by_id, whole
from tallyglass.allocate.engine.forking import Uncopyable
from tallyglass.allocate.engine.handles import (
    AnyAsyncCollection,
    Documents,
    SyncCollection,
    name_of,
    prepare,
)
from tallyglass.allocate.engine.meter import Hook
from tallyglass.allocate.engine.steps import Steps
from tallyglass.allocate.errors import AllocationRefused
from tallyglass.allocate.layout import INTEGER_TYPES, MANUAL, Layout, Request, number_in, value_at
from tallyglass.text import clean

K = TypeVar("K", bound=CounterCalls[Any])

_PERIOD: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
_RETIRED: Final = "retired_before"


class ScopeCore(CounterCore):
    """The steps on the counter of one scope and period. A missing number means that no id was taken yet."""

    def __init__(
        self,
        collection: Documents,
        key: str,
        period: str | None,
        highest: int | None,
        deadlines: Deadlines | None,
        on_event: Hook | None,
    ) -> None:
        layout = MANUAL if period is None else Layout(f"periods.{period}", MANUAL.semantics)
        super().__init__(collection, key, layout, highest, deadlines, on_event)
        self.period = period

    def create(self, first: int | None = None) -> Steps[bool]:
        """The steps that set the first id of this scope and period, if none was taken yet."""
        start = self.layout.first if first is None else whole(first, "first")
        stored = whole(self.layout.stored(start), "the number to be stored")
        budget, field = self.budget(), self.layout.field
        yield from call_with_retry(
            lambda: self.collection.update_one(by_id(self.key), {"$setOnInsert": {"_id": self.key}}, upsert=True),
            where=self.where,
            budget=budget,
        )
        unused = {**by_id(self.key), **self._not_retired(), field: {"$exists": False}}
        result = yield from call_with_retry(
            lambda: self.collection.update_one(unused, {"$set": {field: Int64(stored)}}),
            where=self.where,
            budget=budget,
        )
        if result.modified_count == 0:
            yield from self.peek(budget)  # raises where the period is closed
        return result.modified_count == 1

    def peek(self, budget: RetryBudget | None = None) -> Steps[int]:
        """The steps that read the next id with majority read concern. Raises AllocationRefused for a closed period."""
        budget = budget or self.budget()
        next_id = yield from super().peek(budget)
        if self.period is None:
            return next_id
        # The server compares, as it does for each increment: the collection may have a collation.
        later = {**by_id(self.key), _RETIRED: {"$gt": self.period}}
        closed = yield from call_with_retry(lambda: self.collection.find_one(later), where=self.where, budget=budget)
        if closed is not None:
            raise AllocationRefused(
                f"The period {self.period} of {self.where} is closed: periods before {clean(closed[_RETIRED])} were "
                "retired.",
                "Its numbers were removed, and restarting at 1 would repeat them.",
            )
        return next_id

    def _request(self, n: int, session: Any, budget: RetryBudget) -> Steps[range | None]:
        if self.highest - n + 1 < self.layout.first:
            # They do not fit into a scope that is unused: there must be a number.
            return (yield from super()._request(n, session, budget))
        field = self.layout.field
        bound = Int64(self.layout.stored(self.highest - n + 1))
        # This matches null as well, which the server then refuses to increment: it is not taken for unused.
        free = [{field: {"$type": list(INTEGER_TYPES), "$lte": bound}}, {field: None}]
        wanted = {**by_id(self.key), **self._not_retired(), "$or": free}
        request = Request(n, wanted, {"$inc": {field: Int64(n)}})
        after = yield from self._increment(request, self.where, session, budget, upsert=True)
        if after is None:
            return None
        stop = self.layout.next_id(number_in(self.layout, after, self.where))
        return range(stop - n, stop)

    def _next_in(self, document: dict[str, Any] | None) -> int:
        if document is None:
            return self.layout.first
        retired = document.get(_RETIRED)
        if self.period is not None and retired is not None and not isinstance(retired, str):
            raise AllocationRefused(
                f"{self.where} does not keep {_RETIRED} as text: what was retired is unknown.",
                f"Set it to the first period that may be used, as text: {clean(repr(retired), 80)} is no period.",
            )
        if value_at(document, self.layout.field) is None:
            return self.layout.first
        return self.layout.next_id(number_in(self.layout, document, self.where))

    def _not_retired(self) -> dict[str, Any]:
        if self.period is None:
            return {}
        unknown = {"$nin": [None], "$not": {"$type": "string"}}
        return {"$nor": [{_RETIRED: {"$gt": self.period}}, {_RETIRED: unknown}]}


class _ScopesCore(Core):
    def retire(self, before: str) -> Steps[int]:
        """The steps that remove all periods before a given one; they return how many scopes changed."""
        _check_period(before)
        limit = {"$literal": before}
        kept = {"$filter": {"input": {"$objectToArray": "$periods"}, "cond": {"$gte": ["$$this.k", limit]}}}
        update = [
            {"$set": {_RETIRED: {"$max": [f"${_RETIRED}", limit]}, "periods": {"$arrayToObject": kept}}},
        ]
        result = yield from call_with_retry(
            lambda: self.collection.update_many({"periods": {"$type": "object"}}, update),
            where=self.where,
            budget=self.budget(),
        )
        return result.modified_count


def scope_key(scope: tuple[str, ...]) -> str:
    """The ``_id`` of a scope: its parts joined by slashes, with slashes inside a part escaped."""
    if not scope:
        raise ValueError("scope must have at least one part")
    for part in scope:
        if not isinstance(part, str):
            raise TypeError(f"scope must be made of strings, not {type(part).__name__}")
        if not part:
            raise ValueError("scope must not have an empty part")
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in scope)


def _check_period(period: str) -> str:
    if not isinstance(period, str):
        raise TypeError(f"period must be a string, not {type(period).__name__}")
    if not _PERIOD.fullmatch(period):
        raise ValueError(f"period must be 1 to 64 letters, digits, _ and -, not {clean(repr(period), 80)}")
    return period


class ScopedCounters(Uncopyable, Generic[C, K]):
    """The arguments of both classes, and the counters of their scopes."""

    _asynchronous: ClassVar[bool]
    _kind: type[K]

    def __init__(
        self,
        collection: C,
        *,
        highest: int | None = None,
        remembered: int = 1000,
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
        write_concern: WriteConcern | None = None,
        unsafe_write_concern: WriteConcern | None = None,
    ) -> None:
        prepared = prepare(collection, write_concern, unsafe_write_concern, asynchronous=self._asynchronous)
        self._core = _ScopesCore(prepared, name_of(prepared), deadlines, on_event)

        @functools.lru_cache(whole(remembered, "remembered", low=1))
        def counter(key: str, period: str | None) -> K:
            return self._kind._over(ScopeCore(prepared, key, period, highest, deadlines, on_event))

        self._counter: Callable[[str, str | None], K] = counter

    def of(self, *scope: str, period: str | None = None) -> K:
        """The counter of a scope, such as ``of("acme", "invoice", period="2026")``. Makes no server call."""
        return self._counter(scope_key(scope), None if period is None else _check_period(period))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._core.where}>"


class Counters(SyncAllocator, ScopedCounters[SyncCollection, Counter]):
    """Counters by scope and period, in one collection, with a MongoClient. Thread-safe, signal-safe, fork-safe.

    When to use: a counter for each tenant and kind, perhaps starting again at 1 every year. Promise: that of a
    :class:`~tallyglass.allocate.counter.Counter`, within a scope and period; a counter need not be created: its first
    use does so in the same single update as every later one. Periods sort as text: ``2026``, ``2026-11``, ``2026W47``.
    Cost: one majority write a call, one document a scope.

    ``remembered`` counters are kept in memory, the least recently used ones are dropped. A dropped counter loses the
    last value it saw, and with it the check for a rewound counter, until its next use.
    """

    # Generated from AsyncCounters by packaging/unasync.py.
    _kind = Counter

    def retire(self, before: str) -> int:
        """Remove the numbers of all periods before ``before``; returns how many scopes changed.

        Taking from them afterwards raises AllocationRefused. Safe to repeat, and safe while others take ids.
        """
        return self._run(self._core.retire(before))


class AsyncCounters(AsyncAllocator, ScopedCounters[AnyAsyncCollection, AsyncCounter]):
    """:class:`Counters` for an AsyncMongoClient or Motor's AsyncIOMotorClient. Belongs to one event loop."""

    _kind = AsyncCounter

    async def retire(self, before: str) -> int:
        """Remove the numbers of all periods before ``before``; returns how many scopes changed.

        Taking from them afterwards raises AllocationRefused. Safe to repeat, and safe while others take ids.
        """
        return await self._run(self._core.retire(before))
