"""Insert the caller's document under a proposed id, and propose another one when it is taken. Pure.

The unique index decides; the id is only a proposal. An insert whose outcome is unknown is repeated with the same
``_id``: if the first one succeeded, the second one collides with it and turns out to be the same document.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from bson.objectid import ObjectId
from pymongo.errors import DuplicateKeyError, PyMongoError

from tallyglass.allocate.engine.allocator import Core
from tallyglass.allocate.engine.attempts import (
    Deadlines,
    RetryBudget,
    call_with_retry,
    out_of_time,
    refused,
)
from tallyglass.allocate.engine.checks import by_id, field_name, storable, whole
from tallyglass.allocate.engine.handles import Documents, place
from tallyglass.allocate.engine.meter import EventKind, Hook, Meter
from tallyglass.allocate.engine.outcome import Outcome, classify
from tallyglass.allocate.engine.sessions import refuse_transaction
from tallyglass.allocate.engine.steps import Steps, call
from tallyglass.allocate.errors import (
    AllocationRefused,
    AllocationTimeout,
    AllocationUnknown,
    CollisionLimit,
)
from tallyglass.allocate.insert.unique import kept, uniqueness
from tallyglass.text import clean


class Inserter(Core, ABC):
    """The base of the inserting strategies, which differ only in the ids that they propose for ``field``."""

    def __init__(
        self, collection: Documents, field: str, tries: int, deadlines: Deadlines | None, on_event: Hook | None
    ) -> None:
        self.field = field_name(field, "field", dotted=False)
        self.tries = whole(tries, "tries", low=1)
        super().__init__(collection, place(collection, field), deadlines, on_event)
        self._proven = False

    @abstractmethod
    def propose(self, budget: RetryBudget) -> Steps[Any]:
        """The steps that propose the next id."""

    def insert(self, document: Mapping[str, Any], session: Any) -> Steps[Any]:
        """The steps that insert a copy of ``document`` with an id in its field; returns that id.

        Raises NotUnique when the field has no unique index, CollisionLimit after ``tries`` taken ids,
        AllocationTimeout when the time ends before that, AllocationUnknown when it is unknown whether the document was
        inserted, AllocationRefused for a collision of another field.
        """
        refuse_transaction(session)
        storable(document, "the document", self.collection.codec_options)
        if not self._proven:
            kept((yield from uniqueness(self.collection, self.field, self.budget())), self.where)
            self._proven = True
        budget = self.budget()
        for _ in range(self.tries):
            value = yield from self.propose(budget)
            filled = {"_id": ObjectId(), **document, self.field: value}
            mine = {} if self.field == "_id" else {self.field: value}
            error = yield from insert_once(
                self.collection, filled, mine, where=self.where, meter=self.meter, budget=budget, session=session
            )
            if error is None:
                self.meter.add(issued=1)
                return value
            if not collided_on(error, self.field):
                raise AllocationRefused(
                    f"A unique field other than {self.where} is already taken.", clean(str(error), 200), code=error.code
                ) from error
            self.meter.emit(EventKind.COLLISION, 1, collisions=1)
            if budget.spent():
                raise out_of_time("Every id that was proposed is taken.", self.where, 0)
        raise CollisionLimit(
            f"{self.tries} ids for {self.where} were all taken.",
            "The number space is nearly full, or many writers propose the same ids.",
            tries=self.tries,
        )


def insert_once(
    collection: Documents,
    document: dict[str, Any],
    mine: Mapping[str, Any],
    *,
    where: str,
    meter: Meter,
    budget: RetryBudget,
    session: Any = None,
) -> Steps[DuplicateKeyError | None]:
    """Insert a document, again as long as the outcome is unknown; None once it is in.

    Returns the error when another document has its ``_id`` or a unique field. ``mine`` are the fields by which it
    differs from a document that someone else inserts with its ``_id``. Raises AllocationRefused and
    AllocationTimeout when nothing was inserted; AllocationUnknown.
    """
    unsure = False
    while True:
        problem: PyMongoError
        try:
            yield from call(lambda: collection.insert_one(document, session=session), budget.call_seconds())
        except DuplicateKeyError as error:
            if not unsure:
                return error
            found = yield from _found(collection, document, mine, where, budget)
            if found and not mine:
                raise _not_told_apart(document["_id"], where) from error
            if found:
                return None
            # A majority may not show yet what an earlier try wrote.
            if not collided_on(error, "_id") or (yield from _found(collection, document, {}, where, budget)):
                return error
            problem = error
        except PyMongoError as error:
            outcome = classify(error)
            unsure = unsure or outcome in (Outcome.UNKNOWN, Outcome.UNKNOWN_FOR_GOOD)
            if outcome not in (Outcome.UNKNOWN, Outcome.NOT_APPLIED):
                raise (out_of_time(error, where, 1) if unsure else refused(error, where)) from error
            problem = error
        else:
            return None
        pause = budget.pause()
        if pause is None:
            raise out_of_time(problem, where, int(unsure)) from problem
        meter.emit(EventKind.RETRIED, note=type(problem).__name__, retries=1)
        yield pause


def _found(
    collection: Documents, document: Mapping[str, Any], fields: Mapping[str, Any], where: str, budget: RetryBudget
) -> Steps[bool]:
    """Whether a majority has a document with this ``_id`` and these fields. Raises AllocationUnknown where it cannot be
    read: an earlier insert may have written it."""
    wanted = by_id(document["_id"]) | {name: {"$eq": value} for name, value in fields.items()}
    try:
        found = yield from call_with_retry(lambda: collection.find_one(wanted, {"_id": 1}), where=where, budget=budget)
    except (AllocationRefused, AllocationTimeout) as error:
        raise out_of_time(str(error), where, 1) from error
    return found is not None


def _not_told_apart(key: object, where: str) -> AllocationUnknown:
    return AllocationUnknown(
        f"The document {clean(repr(key), 80)} is in {where}, but it is unknown whether this insert wrote it.",
        "Keep the id in a separate field to make inserts safe to repeat.",
        burned=1,
    )


def collided_on(error: DuplicateKeyError, field: str) -> bool:
    """Whether a duplicate key error is about the index on ``field`` alone."""
    pattern = (error.details or {}).get("keyPattern")
    if isinstance(pattern, Mapping):
        return list(pattern) == [field]
    return f"index: {field}_" in str(error)
