"""One call under a deadline: retried when that is safe, its ids burned when its outcome is unknown. Pure.

Every allocator that increments goes through :func:`attempt`; the table of outcomes is in :mod:`.outcome`.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pymongo import _csot
from pymongo.errors import OperationFailure, PyMongoError

from tallyglass.allocate.engine.checks import seconds
from tallyglass.allocate.engine.handles import Documents
from tallyglass.allocate.engine.meter import EventKind, Meter
from tallyglass.allocate.engine.outcome import Outcome, ServerCode, classify, unique_index
from tallyglass.allocate.engine.steps import Pause, Steps, call, read_all
from tallyglass.allocate.errors import (
    AllocationError,
    AllocationRefused,
    AllocationTimeout,
    AllocationUnknown,
    CounterTypeError,
    Exhausted,
)
from tallyglass.counters.limits import INT64_MAX
from tallyglass.text import clean, plural

_NOT_AUTHORIZED: Final = re.compile(r'not authorized on (\S+) to execute command \{ (\w+): "([^"]+)"')

_FIRST_PAUSE: Final = 0.02
"""Seconds before the second try: a write conflict is over by then."""
_LONGEST_PAUSE: Final = 1.0
"""Seconds between tries in a failover, which takes some seconds."""
_SHORTEST_CALL: Final = 0.05
"""A call with less time than this, in seconds, would fail for lack of time, and its outcome be unknown."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds: ``total`` for one fetch with all its tries, ``attempt`` for one call to the server.

    A call that takes longer than ``attempt`` is abandoned, its ids are burned, and new ones are requested. A shorter
    deadline of the caller (``with pymongo.timeout(...)``, or ``timeoutMS`` of the client) takes precedence.
    """

    total: float = 30.0
    attempt: float = 10.0

    def __post_init__(self) -> None:
        if seconds(self.attempt, "attempt") > seconds(self.total, "total"):
            raise ValueError("one attempt cannot take longer than the total")


class RetryBudget:
    """The time that one operation has left, the growing pauses between its tries, and the ids that it ``burned``.

    ``client`` is the client whose ``timeoutMS`` bounds the operation, if it has one.
    """

    def __init__(self, deadlines: Deadlines, client: Any = None) -> None:
        now = time.monotonic()
        limit: float | None = client.options.timeout if client is not None else None
        self._end = min(now + min(deadlines.total, limit or deadlines.total), now + outer_seconds())
        self._attempt = deadlines.attempt
        self._pause = _FIRST_PAUSE
        self.burned = 0

    def call_seconds(self) -> float:
        """How long the next call may take."""
        return max(_SHORTEST_CALL, min(self._attempt, self._end - time.monotonic()))

    def spent(self) -> bool:
        """Whether the deadline leaves no room for another call."""
        return time.monotonic() + _SHORTEST_CALL >= self._end

    def pause(self) -> Pause | None:
        """The next pause, with jitter; None when the deadline leaves no room for another try."""
        length = self._pause * random.uniform(0.5, 1.0)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return Pause(length) if time.monotonic() + length + _SHORTEST_CALL < self._end else None


def outer_seconds() -> float:
    """Seconds left of the caller's ``with pymongo.timeout(...)``; infinite without one."""
    return float(_csot.get_deadline()) - time.monotonic()


def attempt(
    operation: Callable[[], dict[str, Any] | None], n: int, *, where: str, meter: Meter, budget: RetryBudget
) -> Steps[dict[str, Any] | None]:
    """Increment by ``n`` ids, with retries, until there is a reply: the document, or None if no document matched.

    A duplicate ``_id`` also means that no document matched: the one that exists does not satisfy the filter.
    Raises AllocationTimeout, AllocationUnknown, AllocationRefused, CounterTypeError, Exhausted.
    """
    while True:
        began = time.monotonic()
        try:
            reply = yield from _sent(operation, n, meter, budget)
        except PyMongoError as error:
            outcome = classify(error)
            if outcome is Outcome.DUPLICATE:
                return None
            if outcome in (Outcome.UNKNOWN, Outcome.UNKNOWN_FOR_GOOD):
                budget.burned += n
                meter.emit(EventKind.BURNED, n, note=type(error).__name__, burned=n)
            final = _final(outcome, error, where, budget.burned)
            pause = None if final else budget.pause()
            if pause is None:
                meter.emit(EventKind.FAILED, note=type(error).__name__, failures=1)
                raise final or out_of_time(error, where, budget.burned) from error
            meter.emit(EventKind.RETRIED, note=type(error).__name__, retries=1)
        else:
            if reply is not None:
                meter.emit(EventKind.FETCHED, n, seconds=time.monotonic() - began, fetches=1)
            return reply
        yield pause


def _sent(
    operation: Callable[[], dict[str, Any] | None], n: int, meter: Meter, budget: RetryBudget
) -> Steps[dict[str, Any] | None]:
    try:
        return (yield from call(operation, budget.call_seconds()))
    except PyMongoError:
        raise
    except BaseException:
        # Cancelled or interrupted while the server may be executing the call: its ids can never be used.
        meter.emit(EventKind.BURNED, n, note="interrupted", burned=n)
        raise


def call_with_retry(operation: Callable[[], T], *, where: str, budget: RetryBudget) -> Steps[T]:
    """Run a read or an idempotent write, with retries, until there is a reply.

    A duplicate ``_id`` is retried: two upserts of it collided, and the next try finds the document.
    Raises AllocationTimeout, AllocationRefused.
    """
    return _with_retry(lambda seconds: call(operation, seconds), where, budget)


def read_with_retry(operation: Callable[[], Iterable[T]], *, where: str, budget: RetryBudget) -> Steps[list[T]]:
    """:func:`call_with_retry` for a call that returns a cursor: all its documents."""
    return _with_retry(lambda seconds: read_all(operation, seconds), where, budget)


def _with_retry(steps: Callable[[float], Steps[T]], where: str, budget: RetryBudget) -> Steps[T]:
    while True:
        try:
            return (yield from steps(budget.call_seconds()))
        except PyMongoError as error:
            if classify(error) not in (Outcome.UNKNOWN, Outcome.NOT_APPLIED, Outcome.DUPLICATE):
                raise refused(error, where) from error
            pause = budget.pause()
            if pause is None:
                raise out_of_time(error, where, budget.burned) from error
        yield pause


def hello(collection: Documents, where: str, budget: RetryBudget) -> Steps[dict[str, Any]]:
    """What the server says of itself."""
    admin = collection.database.client.admin
    return (yield from call_with_retry(lambda: admin.command("hello"), where=where, budget=budget))


def is_router(server: Mapping[str, Any]) -> bool:
    """Whether it is the router of a sharded cluster, by its ``hello``."""
    return server.get("msg") == "isdbgrid"


def out_of_time(why: PyMongoError | str, where: str, burned: int) -> AllocationError:
    """The error for a deadline that passed: unknown when a call may have been applied, else a plain timeout."""
    reason = clean(str(why), 200)
    if burned:
        return AllocationUnknown(
            f"No answer about {where} in time; {plural(burned, 'id')} may have been taken and will not be used.",
            reason,
            burned=burned,
        )
    return AllocationTimeout(f"No id from {where} in time.", reason)


def _final(outcome: Outcome, error: PyMongoError, where: str, burned: int) -> AllocationError | None:
    """The error that ends the retries; None when another try may help."""
    if outcome in (Outcome.NOT_APPLIED, Outcome.UNKNOWN):
        return None
    if outcome is Outcome.UNKNOWN_FOR_GOOD:
        return AllocationUnknown(
            f"The members of this deployment cannot confirm a majority write to {where}.",
            clean(str(error), 200),
            burned=burned,
        )
    if outcome in (Outcome.OVERFLOW, Outcome.WRONG_TYPE):
        return wrong_number(outcome, where)
    return refused(error, where)


def wrong_number(outcome: Outcome, where: str) -> AllocationError:
    """The error for a number that the server cannot increment."""
    if outcome is Outcome.OVERFLOW:
        return Exhausted(f"The number in {where} is at the end of int64.", maximum=INT64_MAX)
    return CounterTypeError(f"The field in {where} is not a number.", "Name the field that holds the number.")


def refused(error: PyMongoError, where: str) -> AllocationRefused:
    """The error for a command that the server will never carry out; it names the unique index that is in the way."""
    if isinstance(error, OperationFailure) and (index := unique_index(error)):
        return AllocationRefused(
            f"The unique index {clean(index, 200)} refuses what is written to {where}.",
            "Another document there has the same values in these fields, or lacks them as well: change them, or use a "
            "collection without this index.",
            code=int(ServerCode.DUPLICATE_KEY),
        )
    code = error.code if isinstance(error, OperationFailure) else None
    text = ((isinstance(error, OperationFailure) and error.details) or {}).get("errmsg") or str(error)
    lacks = _NOT_AUTHORIZED.match(text)
    if lacks:
        db, command, collection = (clean(part, 120) for part in lacks.groups())
        advice = f"The user may not run {command} on {db}.{collection}: grant it readWrite on the database {db}."
    else:
        advice = clean(text, 200)
    who = "server" if isinstance(error, OperationFailure) else "driver"
    return AllocationRefused(f"The {who} refuses to work on {where}.", advice, code=code)
