"""Unique ids on a sharded collection whose shard key rules out a unique index: reserved in a proxy collection first.

The proxy holds one small document an id, with the id as its ``_id``; shard it on ``_id``. An id is reserved there
before the document is written, and released when the write definitely failed. When the outcome of the write is
unknown, the reservation stays: a reserved id without a document is a gap, the opposite could be a duplicate.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar, Generic

from bson.objectid import ObjectId

from tallyglass.allocate.engine.allocator import AsyncAllocator, C, Core, Reporting, SyncAllocator
from tallyglass.allocate.engine.attempts import Deadlines, RetryBudget, call_with_retry, refused
from tallyglass.allocate.engine.checks import by_id, field_name, storable
from tallyglass.allocate.engine.checks import key as checked_key
from tallyglass.allocate.engine.handles import AnyAsyncCollection, Documents, SyncCollection, name_of, place, prepare
from tallyglass.allocate.engine.meter import EventKind, Hook
from tallyglass.allocate.engine.outcome import Outcome, classify
from tallyglass.allocate.engine.sessions import refuse_transaction
from tallyglass.allocate.engine.steps import Steps
from tallyglass.allocate.errors import AllocationRefused, CollisionLimit
from tallyglass.allocate.insert.insertion import insert_once
from tallyglass.allocate.insert.unique import kept, uniqueness
from tallyglass.text import clean

_HINT = {"proxy": "tallyglass"}


class _ProxyCore(Core):
    def __init__(
        self, proxy: Documents, target: Documents, field: str, deadlines: Deadlines | None, on_event: Hook | None
    ) -> None:
        self.proxy = proxy
        self.field = field_name(field, "field", dotted=False)
        super().__init__(target, place(target, field), deadlines, on_event)
        self._proven = False

    def insert(self, document: Mapping[str, Any], session: Any) -> Steps[None]:
        refuse_transaction(session)
        if self.field not in document:
            raise ValueError(f"the document has no {self.field!r}")
        checked_key(document[self.field], self.field)
        filled = {"_id": ObjectId(), **document}
        owner = filled["_id"]
        storable(filled, "the document", self.collection.codec_options)
        # A value of a type of the caller's own may have no form here.
        storable({"owner": owner}, "the document's _id")
        if not self._proven:
            kept((yield from uniqueness(self.proxy, "_id", self.budget())), place(self.proxy, "_id"))
            self._proven = True
        budget = self.budget()
        yield from self._reserve(filled[self.field], owner, budget)
        yield from self._write(filled, owner, budget, session)
        self.meter.add(issued=1)

    def release(self, value: Any, owner: Any) -> Steps[bool]:
        reservation = {**by_id(value), "owner": {"$eq": owner}}
        result = yield from call_with_retry(
            lambda: self.proxy.delete_one(reservation), where=name_of(self.proxy), budget=self.budget()
        )
        return bool(result.deleted_count)

    def _reserve(self, value: Any, owner: Any, budget: RetryBudget) -> Steps[None]:
        reservation = {"_id": value, "owner": owner, "at": datetime.now(UTC), **_HINT}
        where = name_of(self.proxy)
        error = yield from insert_once(
            self.proxy, reservation, {"owner": owner}, where=where, meter=self.meter, budget=budget
        )
        if error is None:
            return
        if classify(error) is not Outcome.DUPLICATE:
            raise refused(error, where) from error
        self.meter.emit(EventKind.COLLISION, 1, collisions=1)
        raise CollisionLimit(
            f"{clean(repr(value), 80)} is already taken in {where}.", "Use another id.", tries=1
        ) from error

    def _write(self, filled: dict[str, Any], owner: Any, budget: RetryBudget, session: Any) -> Steps[None]:
        value = filled[self.field]
        try:
            error = yield from insert_once(
                self.collection,
                filled,
                {self.field: value},
                where=self.where,
                meter=self.meter,
                budget=budget,
                session=session,
            )
            if error is not None:
                raise AllocationRefused(
                    f"Another unique field of {name_of(self.collection)} is already taken; the id is free again.",
                    clean(str(error), 200),
                    code=error.code,
                ) from error
        except AllocationRefused:
            yield from self.release(value, owner)
            raise


class ProxiedInsertCalls(Reporting, Generic[C]):
    """The arguments of both classes."""

    _asynchronous: ClassVar[bool]
    _core: _ProxyCore

    def __init__(
        self,
        proxy: C,
        target: C,
        field: str,
        *,
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
    ) -> None:
        first = prepare(proxy, asynchronous=self._asynchronous)
        second = prepare(target, asynchronous=self._asynchronous, inserts=True)
        self._core = _ProxyCore(first, second, field, deadlines, on_event)


class ProxiedInsert(SyncAllocator, ProxiedInsertCalls[SyncCollection]):
    """Insert documents into ``target`` with ``field`` kept unique by ``proxy``, with a MongoClient. Thread-safe.

    When to use: ``target`` is sharded by another key than ``field``. The ids come from any other strategy.
    Promise: no id twice in ``target`` as long as every writer goes through the same proxy. A crash between the two
    writes leaves a reservation without a document: find those with ``$lookup`` and :meth:`release` them.
    Cost: two majority inserts a document, and a second collection of one small document an id.
    """

    # Generated from AsyncProxiedInsert by packaging/unasync.py.
    def insert(self, document: Mapping[str, Any], *, session: Any = None) -> None:
        """Reserve ``document[field]``, then insert a copy of the document.

        Raises CollisionLimit when the id is taken; AllocationRefused when the target refuses the document, with
        the reservation released; AllocationUnknown when the outcome is unknown, with the reservation kept.
        """
        self._run(self._core.insert(document, session))

    def release(self, value: Any, owner: Any) -> bool:
        """Delete the reservation of ``value`` for the document ``owner``; returns whether there was one."""
        return self._run(self._core.release(value, owner))


class AsyncProxiedInsert(AsyncAllocator, ProxiedInsertCalls[AnyAsyncCollection]):
    """:class:`ProxiedInsert` for an AsyncMongoClient or Motor's AsyncIOMotorClient."""

    async def insert(self, document: Mapping[str, Any], *, session: Any = None) -> None:
        """Reserve ``document[field]``, then insert a copy of the document.

        Raises CollisionLimit when the id is taken; AllocationRefused when the target refuses the document, with
        the reservation released; AllocationUnknown when the outcome is unknown, with the reservation kept.
        """
        await self._run(self._core.insert(document, session))

    async def release(self, value: Any, owner: Any) -> bool:
        """Delete the reservation of ``value`` for the document ``owner``; returns whether there was one."""
        return await self._run(self._core.release(value, owner))
