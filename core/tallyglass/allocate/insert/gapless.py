"""Numbers without a gap, as for invoices: the counter is incremented in the transaction that inserts the document.

Either both happen or neither does, so that no number is ever missing and none is used twice. The price is that
inserts of one scope happen one after another: each waits for the transaction before it, or is retried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.int64 import Int64
from bson.objectid import ObjectId
from bson.raw_bson import RawBSONDocument
from bson.timestamp import Timestamp
from pymongo import ReadPreference, ReturnDocument
from pymongo.client_session import ClientSession
from pymongo.errors import DuplicateKeyError, OperationFailure, PyMongoError, WriteConcernError
from pymongo.read_concern import ReadConcern

from tallyglass.allocate.engine.allocator import AsyncAllocator, C, Core, Reporting, SyncAllocator
from tallyglass.allocate.engine.attempts import (
    Deadlines,
    RetryBudget,
    call_with_retry,
    hello,
    is_router,
    out_of_time,
    read_with_retry,
    refused,
    wrong_number,
)
from tallyglass.allocate.engine.checks import by_id, field_name, storable
from tallyglass.allocate.engine.checks import key as checked_key
from tallyglass.allocate.engine.handles import (
    MAJORITY,
    AnyAsyncCollection,
    Documents,
    SyncCollection,
    name_of,
    place,
    prepare,
)
from tallyglass.allocate.engine.meter import EventKind, Hook
from tallyglass.allocate.engine.outcome import Outcome, ServerCode, classify, unique_fields
from tallyglass.allocate.engine.sessions import session_async, session_sync
from tallyglass.allocate.engine.steps import Steps, call, to_its_end
from tallyglass.allocate.errors import (
    AllocationError,
    AllocationRefused,
    AllocationTimeout,
    AllocationUnknown,
    NotUnique,
)
from tallyglass.allocate.insert.unique import is_unique_on
from tallyglass.allocate.layout import MANUAL, number_in
from tallyglass.text import clean

_NUMBERS = "numbers"
"""The field of a counter's key that names what it numbers, next to the fields of the scope."""
_TRANSIENT = "TransientTransactionError"
_UNKNOWN_COMMIT = "UnknownTransactionCommitResult"


class _FirstUses(PyMongoError):
    """Two first uses of a scope collided on its counter: another try finds the counter."""


class _GaplessCore(Core):
    """The steps of each operation. The public method owns ``session`` and always ends it."""

    def __init__(
        self,
        counters: Documents,
        target: Documents,
        field: str,
        within: Sequence[str],
        deadlines: Deadlines | None,
        on_event: Hook | None,
    ) -> None:
        if isinstance(within, str):
            raise TypeError("within must be a sequence of field names, not one string")
        self.counters = counters
        self.field = field_name(field, "field", dotted=False)
        self.within = tuple(field_name(name, "within", dotted=False) for name in within)
        if len({*self.within, field, _NUMBERS}) < len(self.within) + 2:
            raise ValueError(f"within must name each field once, and neither {field!r} nor {_NUMBERS!r}")
        super().__init__(target, place(target, field), deadlines, on_event)
        self._proven = self._router = self._collated = False

    def key(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The ``_id`` of the counter that numbers this document."""
        missing = [name for name in self.within if name not in document]
        if missing:
            raise ValueError(f"the document has no {missing[0]!r}, which its number depends on")
        scope = {name: checked_key(document[name], name) for name in self.within}
        return {_NUMBERS: f"{self.collection.full_name}.{self.field}", **scope}

    def create(self) -> Steps[None]:
        index = [(name, 1) for name in (*self.within, self.field)]
        yield from call_with_retry(
            lambda: self.collection.create_index(index, unique=True), where=self.where, budget=self.budget()
        )

    def insert(self, document: Mapping[str, Any], session: ClientSession) -> Steps[int]:
        """Insert a copy of the document with the next number; returns that number."""
        key = self.key(document)
        storable(document, "the document", self.collection.codec_options)
        budget = self.budget()
        if not self._proven:
            yield from self._require_index(budget)
            self._router = is_router((yield from hello(self.collection, self.where, budget)))
            self._proven = True
        filled = {"_id": ObjectId(), **document}
        repeated = self._router and "_id" in document
        taken = False
        while True:
            try:
                number = yield from self._transaction(key, filled, session, budget, repeated)
            except PyMongoError as error:
                # While transactions create the collection of the counters, one of them may see the documents of
                # another, but not its counter (MongoDB 6.0.5). Only a number that is still taken then is refused.
                if self._is_taken(error) and not taken:
                    taken = True
                else:
                    found = yield from self._after(error, filled, budget)
                    if found is not None:
                        return found
                pause = budget.pause()
                if pause is None:
                    raise self._out_of_time(error) from error
                self.meter.emit(EventKind.RETRIED, note=type(error).__name__, retries=1)
            else:
                self.meter.add(issued=1)
                return number
            yield pause

    def _transaction(
        self, key: dict[str, Any], filled: dict[str, Any], session: ClientSession, budget: RetryBudget, repeated: bool
    ) -> Steps[int]:
        try:
            yield from call(
                lambda: session.start_transaction(
                    ReadConcern("snapshot"), MAJORITY, read_preference=ReadPreference.PRIMARY
                ),
                budget.call_seconds(),
            )
            number = yield from self._next_number(key, session, budget)
            if repeated:
                yield from self._require_absent(filled, session, budget)
            numbered = {**filled, self.field: Int64(number)}
            yield from call(lambda: self.collection.insert_one(numbered, session=session), budget.call_seconds())
            yield from self._commit(session, budget)
        except (PyMongoError, AllocationError):
            if session.in_transaction:
                yield from call(session.abort_transaction, budget.call_seconds())
            raise
        return number

    def _next_number(self, key: dict[str, Any], session: ClientSession, budget: RetryBudget) -> Steps[int]:
        name = clean(repr(key), 200)
        where = f"{name_of(self.counters)} {name}"
        # The reply shows a number of the wrong type; aborting the transaction undoes its increment.
        try:
            document: dict[str, Any] | None = yield from call(
                lambda: self.counters.find_one_and_update(
                    by_id(key),
                    {"$inc": {MANUAL.field: Int64(1)}},
                    upsert=True,
                    return_document=ReturnDocument.AFTER,
                    session=session,
                ),
                budget.call_seconds(),
            )
        except PyMongoError as error:
            outcome = classify(error)
            if outcome is Outcome.DUPLICATE:
                raise _FirstUses(str(error)) from error
            if outcome in (Outcome.OVERFLOW, Outcome.WRONG_TYPE):
                raise wrong_number(outcome, where) from error
            if isinstance(error, DuplicateKeyError):
                raise refused(error, name_of(self.counters)) from error
            raise
        found = (document or {}).get("_id", key)
        # Scopes that the unique index takes for one are numbered as one; the text before them names the field.
        apart = slice(1) if self._collated else slice(None)
        if _texts(found)[apart] != _texts(key)[apart]:
            raise AllocationRefused(
                f"The collation of {name_of(self.counters)} takes {name} for {clean(repr(found), 200)}.",
                f"{self.where} keeps them apart, so that each would have gaps: keep the counters in a collection "
                "without a collation.",
            )
        return number_in(MANUAL, document or {}, where)

    def _require_absent(self, filled: dict[str, Any], session: ClientSession, budget: RetryBudget) -> Steps[None]:
        """Raise DuplicateKeyError if a document of this scope has the ``_id``, on whichever shard.

        Each shard keeps ``_id`` unique for itself: where the shard key contains the number, an insert that is repeated
        under another number may go to another shard. An earlier transaction that is still open holds the counter, which
        this one has incremented: so what is read now is all that will ever be there.
        """
        wanted = {name: {"$eq": filled[name]} for name in ("_id", *self.within)}
        there = yield from call(
            lambda: self.collection.find_one(wanted, {"_id": 1}, session=session), budget.call_seconds()
        )
        if there is not None:
            raise DuplicateKeyError("This _id exists.", ServerCode.DUPLICATE_KEY, {"keyPattern": {"_id": 1}})

    def _commit(self, session: ClientSession, budget: RetryBudget) -> Steps[None]:
        """Commit, and repeat while the outcome is unknown: the server commits at most once. Raises AllocationUnknown
        where it stays so."""
        unknown = False
        while True:
            try:
                yield from call(session.commit_transaction, budget.call_seconds())
            except PyMongoError as error:
                # The driver labels few errors of a write concern, but each is about a commit that was made.
                unsure = error.has_error_label(_UNKNOWN_COMMIT) or isinstance(error, WriteConcernError)
                unknown = unknown or unsure
                # A transient error says that nothing was committed; any other is about this call alone.
                if not unknown or error.has_error_label(_TRANSIENT):
                    raise
                pause = budget.pause() if unsure else None
                if pause is None:
                    raise self._unknown() from error
                self.meter.emit(EventKind.RETRIED, note=type(error).__name__, retries=1)
            else:
                return
            yield pause

    def _after(self, error: PyMongoError, filled: dict[str, Any], budget: RetryBudget) -> Steps[int | None]:
        """The number if the document is already inserted; None if another try may help."""
        if isinstance(error, _FirstUses):
            return None
        if isinstance(error, DuplicateKeyError):
            if classify(error) is Outcome.DUPLICATE:
                return (yield from self._written(error, filled, budget))
            if self._is_taken(error):
                also = "the collation of its index takes two scopes for one, " if self._collated else ""
                raise AllocationRefused(
                    f"{self.where} already holds the next number.",
                    f"Another writer numbers these documents, {also}or the counter is behind: see repair.verify.",
                    code=error.code,
                ) from error
            raise refused(error, self.where) from error
        # Without a commit nothing was written, also where a call before it was too slow or lost.
        if error.has_error_label(_TRANSIENT) or classify(error) in (Outcome.UNKNOWN, Outcome.NOT_APPLIED):
            return None
        if isinstance(error, OperationFailure) and error.code == ServerCode.ILLEGAL_OPERATION:
            raise AllocationRefused(
                f"Numbers without gaps in {self.where} need transactions, which a standalone server does not have.",
                "Convert it to a replica set; one member is enough.",
                code=error.code,
            ) from error
        raise refused(error, self.where) from error

    def _is_taken(self, error: PyMongoError) -> bool:
        """Whether a document of this scope already has the number."""
        if not isinstance(error, DuplicateKeyError):
            return False
        return any(set(fields) == {*self.within, self.field} for fields in unique_fields(error))

    def _written(self, error: DuplicateKeyError, filled: dict[str, Any], budget: RetryBudget) -> Steps[int | None]:
        """The number of the stored document; None if a majority of the members does not have it yet.

        Raises AllocationRefused if it is another document, which differs in a field other than the number.
        """
        options = self.collection.codec_options.with_options(
            document_class=RawBSONDocument, datetime_conversion=DatetimeConversion.DATETIME_AUTO
        )
        stored = self.collection.with_options(options)
        try:
            rows = yield from read_with_retry(
                lambda: stored.find(by_id(filled["_id"])), where=self.where, budget=budget
            )
        except AllocationTimeout as late:
            raise self._unknown() from late
        different: list[str] = []
        # Each shard may have one.
        for found in rows:
            number = found.get(self.field)
            different = [name for name in filled if name != self.field and not _as_stored(filled, found, name, options)]
            if not different and isinstance(number, int):
                return int(number)
        if not rows:
            return None
        raise AllocationRefused(
            f"Another document has this _id in {name_of(self.collection)}.",
            f"It differs in {clean(', '.join(different or [self.field]), 200)}. Use another _id; but if it is an "
            "earlier insert of this document that was changed since, its number is in it.",
            code=error.code,
        ) from error

    def _require_index(self, budget: RetryBudget) -> Steps[None]:
        indexes = yield from read_with_retry(self.collection.list_indexes, where=self.where, budget=budget)
        wanted = {*self.within, self.field}
        index = next((index for index in indexes if is_unique_on(index, wanted)), None)
        if index is not None:
            self._collated = "collation" in index
            return
        raise NotUnique(
            f"{self.where} has no unique index on {clean(', '.join((*self.within, self.field)))}.",
            "Call create() once.",
        )

    def _out_of_time(self, error: PyMongoError) -> Exception:
        # A document that has this _id, but that a majority cannot show, may be the one of an unknown commit.
        return self._unknown() if classify(error) is Outcome.DUPLICATE else out_of_time(error, self.where, 0)

    def _unknown(self) -> AllocationUnknown:
        return AllocationUnknown(
            f"It is unknown whether the document was inserted into {self.where}.",
            "Insert it again with the _id that it had: where it is there already, its number is returned.",
        )


def _texts(value: object) -> list[str]:
    """The texts in a counter's key: what a collation may take for others."""
    if isinstance(value, (Mapping, list, tuple)):
        return [text for one in (value.values() if isinstance(value, Mapping) else value) for text in _texts(one)]
    return [value] if isinstance(value, str) else []


def _as_stored(
    given: Mapping[str, Any], found: Mapping[str, Any], name: str, options: CodecOptions[RawBSONDocument]
) -> bool:
    """Whether a field was stored as given. Python values do not say so: BSON shortens times, and NaN is not itself."""
    # The server sets the time in an empty timestamp.
    if given[name] == Timestamp(0, 0):
        return True
    wanted = bson.encode({name: given[name]}, codec_options=options)
    return name in found and wanted == bson.encode({name: found[name]}, codec_options=options)


class GaplessInsertCalls(Reporting, Generic[C]):
    """The arguments of both classes."""

    _asynchronous: ClassVar[bool]
    _core: _GaplessCore

    def __init__(
        self,
        counters: C,
        target: C,
        field: str = "number",
        *,
        within: Sequence[str] = (),
        deadlines: Deadlines | None = None,
        on_event: Hook | None = None,
    ) -> None:
        first = prepare(counters, asynchronous=self._asynchronous)
        second = prepare(target, asynchronous=self._asynchronous, inserts=True)
        self._core = _GaplessCore(first, second, field, within, deadlines, on_event)

    def key(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The ``_id`` of the counter that numbers this document: for ``Counter.create`` with another first number."""
        return self._core.key(document)


class GaplessInsert(SyncAllocator, GaplessInsertCalls[SyncCollection]):
    """Insert documents numbered 1, 2, 3 ... without a gap, with a MongoClient. Thread-safe, fork-safe.

    When to use: invoices and receipts, where a missing number has to be explained to an auditor.
    Promise: the numbers of one scope are consecutive in the order of the commits, through crashes, failovers, retries
    and commits whose outcome is unknown. ``within`` names the fields of the document that make its scope, such as
    ``("tenant", "year")``: each combination counts from 1.
    Not promised: a number that is deleted later leaves a gap; a number is known only after its insert.
    Cost: one transaction a document; the inserts of one scope run one after another, so that more writers do not make
    it faster. Needs a replica set or a sharded cluster.

    ``counters`` holds one small document a scope, ``{_id: {numbers, <scope>}, next}``: the last number. Give documents
    an ``_id`` of your own to make :meth:`insert` safe to repeat after AllocationUnknown.
    """

    # Generated from AsyncGaplessInsert by packaging/unasync.py.
    def create(self) -> None:
        """Create the unique index on the scope and the number, if it is missing.

        Raises AllocationRefused where two documents of a scope have the same number, or none.
        """
        self._run(self._core.create())

    def insert(self, document: Mapping[str, Any]) -> int:
        """Insert a copy of ``document`` with the next number of its scope; returns that number.

        Raises NotUnique without the index of :meth:`create`; AllocationUnknown when it is unknown whether the document
        was inserted; AllocationTimeout; AllocationRefused, for example when another unique field has a duplicate, or
        another document has the same ``_id``.
        """
        return self._insert(document)

    def _insert(self, document: Mapping[str, Any]) -> int:
        with session_sync(self._core.collection) as session:
            return self._run(self._core.insert(document, session))


class AsyncGaplessInsert(AsyncAllocator, GaplessInsertCalls[AnyAsyncCollection]):
    """:class:`GaplessInsert` for an AsyncMongoClient or Motor's AsyncIOMotorClient. Belongs to one event loop.

    A cancelled :meth:`insert` still runs to completion: stopping half-way would lock the counter until the server
    aborts the transaction.
    """

    async def create(self) -> None:
        """Create the unique index on the scope and the number, if it is missing.

        Raises AllocationRefused where two documents of a scope have the same number, or none.
        """
        await self._run(self._core.create())

    async def insert(self, document: Mapping[str, Any]) -> int:
        """Insert a copy of ``document`` with the next number of its scope; returns that number.

        Raises NotUnique without the index of :meth:`create`; AllocationUnknown when it is unknown whether the document
        was inserted; AllocationTimeout; AllocationRefused, for example when another unique field has a duplicate, or
        another document has the same ``_id``.
        """
        self._check_loop()
        return await to_its_end(self._insert(document))

    async def _insert(self, document: Mapping[str, Any]) -> int:
        async with session_async(self._core.collection) as session:
            return await self._run(self._core.insert(document, session))
