"""Insert the caller's document under an id that is proposed here, and propose another where it is taken. Pure.

The unique index decides; the id is no more than a proposal. An insert whose outcome is unknown is made again with
the same ``_id``: if the first one did arrive, the second one collides with it, and is found to be the same document.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bson.objectid import ObjectId
from pymongo.errors import DuplicateKeyError, PyMongoError

from tallyglass.allocate.engine.attempts import Deadlines, Patience, asked, out_of_time
from tallyglass.allocate.engine.handles import name_of
from tallyglass.allocate.engine.meter import EventKind, Meter
from tallyglass.allocate.engine.outcome import Outcome, judge
from tallyglass.allocate.engine.steps import Call, Pause, Steps, refuse_transaction
from tallyglass.allocate.errors import AllocationRefused, AllocationUnknown, CollisionLimit, NotUnique
from tallyglass.text import clean


@dataclass(frozen=True, slots=True)
class Target:
    """Where documents go, and the field that holds their id."""

    collection: Any
    field: str
    tries: int
    deadlines: Deadlines
    meter: Meter

    @property
    def where(self) -> str:
        """``database.collection.field``, safe to show."""
        return f"{name_of(self.collection)}.{clean(self.field)}"


class Inserter:
    """What the inserting strategies share; they differ in the ids that they propose."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._proven = False

    def propose(self, patience: Patience) -> Generator[Call | Pause, Any, Any]:
        """The steps that propose the next id."""
        raise NotImplementedError

    def insert(self, document: Mapping[str, Any], session: Any) -> Steps[Any]:
        """The steps that insert a copy of ``document`` with an id in its field; that id.

        Raises NotUnique where no unique index keeps the field apart, CollisionLimit after ``target.tries`` taken ids,
        AllocationUnknown where it cannot be told whether the document is there, AllocationRefused for a collision of
        another field.
        """
        target = self.target
        refuse_transaction(session)
        if not self._proven:
            yield from require_unique(target, Patience(target.deadlines))
            self._proven = True
        patience = Patience(target.deadlines)
        for _ in range(target.tries):
            value = yield from self.propose(patience)
            filled = {**document, target.field: value}
            if "_id" not in filled:
                filled = {"_id": ObjectId(), **filled}
            if (yield from _inserted(target, filled, patience, session)):
                target.meter.add(issued=1)
                return value
            target.meter.tell(EventKind.COLLISION, 1, collisions=1)
        raise CollisionLimit(
            f"{target.tries} ids for {target.where} were all taken.",
            "The number space is nearly full, or many writers propose the same ids.",
            tries=target.tries,
        )


def _inserted(
    target: Target, filled: dict[str, Any], patience: Patience, session: Any
) -> Generator[Call | Pause, Any, bool]:
    """Whether the document is in; False when its id is taken."""
    unsure = False
    options = {"session": session} if session is not None else {}
    call = Call(target.collection, "insert_one", (filled,), options=options)
    while True:
        try:
            yield replace(call, seconds=patience.call_seconds())
        except DuplicateKeyError as error:
            if unsure and (yield from _is_in(target, filled, patience)):
                return True
            if collided_on(error, target.field):
                return False
            raise AllocationRefused(
                f"Another unique field than {target.where} is taken already.",
                clean(str(error), 200),
                code=error.code,
            ) from error
        except PyMongoError as error:
            outcome = judge(error)
            if outcome not in (Outcome.UNKNOWN, Outcome.NOT_APPLIED):
                raise AllocationRefused(
                    f"The server refuses to insert into {target.where}.", clean(str(error), 200)
                ) from error
            unsure = unsure or outcome is Outcome.UNKNOWN
            pause = patience.pause()
            if pause is None:
                raise out_of_time(error, target.where, int(unsure)) from error
            target.meter.tell(EventKind.RETRIED, note=type(error).__name__, retries=1)
        else:
            return True
        yield pause


def _is_in(target: Target, filled: dict[str, Any], patience: Patience) -> Generator[Call | Pause, Any, bool]:
    if target.field == "_id":
        raise AllocationUnknown(
            f"The document {clean(repr(filled['_id']), 80)} is in {target.where}, but whether this insert or another "
            "put it there cannot be told.",
            "Keep the id in a field of its own to make inserts safe to repeat.",
            burned=1,
        )
    wanted = {"_id": filled["_id"], target.field: filled[target.field]}
    found = yield from asked(
        Call(target.collection, "find_one", (wanted, {"_id": 1})), where=target.where, patience=patience
    )
    return found is not None


def collided_on(error: DuplicateKeyError, field: str) -> bool:
    """Whether a duplicate key error is about the index on ``field`` alone."""
    pattern = (error.details or {}).get("keyPattern")
    if isinstance(pattern, Mapping):
        return list(pattern) == [field]
    return f"index: {field}_" in str(error)


def require_unique(target: Target, patience: Patience) -> Generator[Call | Pause, Any, None]:
    """Raise NotUnique unless a unique index keeps the field apart."""
    if target.field == "_id":
        return
    indexes = yield from asked(
        Call(target.collection, "list_indexes", listing=True), where=target.where, patience=patience
    )
    if not any(is_unique_on(index, target.field) for index in indexes):
        raise NotUnique(
            f"No unique index keeps {target.where} apart.",
            "Call unique.ensure_unique first: without it two documents can get the same id.",
        )


def is_unique_on(index: Mapping[str, Any], field: str) -> bool:
    """Whether an index, as listIndexes describes it, makes ``field`` unique over all documents that have it."""
    if list(index["key"]) != [field]:
        return False
    return bool(index.get("unique") or field == "_id") and "partialFilterExpression" not in index
