"""One counter document: a range of any size a call, one id a call, and what it takes to do that safely.

Use it alone for low rates or for ids without gaps in order; wrap it in
:class:`~tallyglass.allocate.cache.cached.Cached` for anything faster. Each call is one majority write to one document:
its callers queue up at the server.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from pymongo import WriteConcern

from tallyglass.allocate.engine.attempts import Deadlines, Patience, asked
from tallyglass.allocate.engine.handles import choose_concern, fit, name_of
from tallyglass.allocate.engine.meter import Hook, Meter
from tallyglass.allocate.engine.steps import Call, Pause, Steps, run, run_async
from tallyglass.allocate.errors import CounterMissing, Exhausted
from tallyglass.allocate.layout import MANUAL, Layout, granted, increment, number_in
from tallyglass.allocate.ranges import AsyncRanges, RangeCore, Ranges
from tallyglass.text import clean

if TYPE_CHECKING:
    from motor.motor_asyncio import AsyncIOMotorCollection
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.collection import Collection


class CounterCore(RangeCore):
    """What both shells share: the steps of each operation on one counter document. Thread-safe."""

    def __init__(
        self, collection: Any, key: object, layout: Layout, highest: int | None, deadlines: Deadlines, meter: Meter
    ) -> None:
        super().__init__(collection, f"{name_of(collection)} {clean(repr(key), 80)}", deadlines, meter)
        self.key = key
        self.layout = layout
        self.highest = min(layout.highest_id(), highest) if highest is not None else layout.highest_id()
        self._seen = -(2**63)

    def take(self, n: int, *, least: int | None = None, session: Any = None) -> Steps[range]:
        """The steps that take ``n`` ids; down to ``least`` of them where the ceiling leaves no more."""
        patience = yield from self._begin(n, session)
        wanted = n
        while True:
            floor = self._floor()
            request = increment(self.layout, self.key, wanted, self.highest)
            reply = yield from self._increment(request, self.where, session, patience)
            if reply is not None:
                span = granted(self.layout, request, reply, self.where)
                self._advance(floor, span.start, span.stop)
                return span.ids()
            wanted = yield from self._smaller(n, n if least is None else least, patience)

    def create(self, first: int | None = None) -> Steps[bool]:
        """The steps that create the document if it is missing; whether this call did it."""
        patience = Patience(self._deadlines)
        start = self.layout.first if first is None else first
        result = yield from asked(
            Call(
                self.collection,
                "update_one",
                ({"_id": self.key}, {"$setOnInsert": self.layout.new_document(self.key, start)}),
                options={"upsert": True},
            ),
            where=self.where,
            patience=patience,
        )
        return result.upserted_id is not None

    def peek(self, patience: Patience | None = None) -> Steps[int]:
        """The steps that read the next id, from a majority. Never allocate from it."""
        call = Call(self.collection, "find_one", ({"_id": self.key},))
        document = yield from asked(call, where=self.where, patience=patience or Patience(self._deadlines))
        if document is None:
            raise CounterMissing(
                f"There is no counter {self.where}.",
                "Call create() once, with the first id that was never used. Starting again at 1 would repeat ids.",
            )
        return self.layout.next_id(number_in(self.layout, document, self.where))

    def _smaller(self, n: int, least: int, patience: Patience) -> Generator[Call | Pause, Any, int]:
        """How many to ask for after nothing matched: ``n`` again, or the rest of the span. Raises Exhausted."""
        floor = self._floor()
        start = yield from self.peek(patience)
        self._check(floor, start, self.where)
        remaining = max(0, self.highest - start + 1)
        if remaining < least:
            raise Exhausted(
                f"{self.where} has {remaining} ids left, {n} are wanted.",
                "Raise its ceiling, or begin another counter.",
                remaining=remaining,
                maximum=self.highest,
            )
        return min(n, remaining)

    def _floor(self) -> int:
        with self._lock:
            if self._stopped:
                raise self._stopped
            return self._seen

    def _advance(self, floor: int, start: int, stop: int) -> None:
        # The floor is from before the request was sent: replies to other threads may overtake each other.
        self._check(floor, start, self.where, burned=stop - start)
        with self._lock:
            self._seen = max(self._seen, stop)


class Counter(Ranges):
    """Ids from one counter document, with a :class:`~pymongo.MongoClient`. Thread-safe, fork-safe.

    When to use: one id a call for rates under some hundred a second; a range a call (:meth:`take`) for bulk work.
    Promise: no id twice; ids ascend in the order of the calls; gaps only where an outcome was unknown.
    Cost: one majority write a call.

    ``collection`` belongs to the caller's client. ``key`` is the counter's ``_id``. ``layout`` says where the
    number is. ``highest`` is the last id that may ever be handed out. ``session`` arguments may be given for causal
    consistency, never inside a transaction. ``write_concern`` must be a majority; ``unsafe_write_concern`` takes a
    weaker one, with which a failover repeats ids.

    Raises the errors of :mod:`tallyglass.allocate.errors` only.
    """

    def __init__(
        self,
        collection: Collection[Any],
        key: object,
        *,
        layout: Layout = MANUAL,
        highest: int | None = None,
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
        write_concern: WriteConcern | None = None,
        unsafe_write_concern: WriteConcern | None = None,
    ) -> None:
        concern = choose_concern(write_concern, unsafe_write_concern)
        fitted = fit(collection, asynchronous=False, concern=concern)
        self.core = CounterCore(fitted, key, layout, highest, deadlines or Deadlines(), Meter(on_event))
        super().__init__(self.core)

    def create(self, first: int | None = None) -> bool:
        """Create the document, with ``first`` (default: the layout's) as the next id. False if it exists already.

        Safe when several processes do it at once: it is created once and never changed.
        """
        return run(self.core.create(first))

    def peek(self) -> int:
        """The id that would be handed out next, as a majority knows it. For looking only."""
        return run(self.core.peek())


class AsyncCounter(AsyncRanges):
    """:class:`Counter` for an AsyncMongoClient or Motor's AsyncIOMotorClient. Belongs to one event loop."""

    def __init__(
        self,
        collection: AsyncCollection[Any] | AsyncIOMotorCollection[Any],
        key: object,
        *,
        layout: Layout = MANUAL,
        highest: int | None = None,
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
        write_concern: WriteConcern | None = None,
        unsafe_write_concern: WriteConcern | None = None,
    ) -> None:
        concern = choose_concern(write_concern, unsafe_write_concern)
        fitted = fit(collection, asynchronous=True, concern=concern)
        self.core = CounterCore(fitted, key, layout, highest, deadlines or Deadlines(), Meter(on_event))
        super().__init__(self.core)

    async def create(self, first: int | None = None) -> bool:
        """Create the document, with ``first`` (default: the layout's) as the next id. False if it exists already."""
        self._home.check()
        return await run_async(self.core.create(first))

    async def peek(self) -> int:
        """The id that would be handed out next, as a majority knows it. For looking only."""
        self._home.check()
        return await run_async(self.core.peek())
