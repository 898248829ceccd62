"""One write under a deadline: tried again where that is safe, its ids burned where its outcome is unknown. Pure.

Every allocator that increments goes through :func:`attempt`; the outcome table lives in :mod:`.outcome`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any, Final

from pymongo.errors import OperationFailure, PyMongoError

from tallyglass.allocate.engine.meter import EventKind, Meter
from tallyglass.allocate.engine.outcome import Outcome, judge
from tallyglass.allocate.engine.steps import Call, Pause
from tallyglass.allocate.errors import (
    AllocationError,
    AllocationRefused,
    AllocationTimeout,
    AllocationUnknown,
    CounterTypeError,
    Exhausted,
)
from tallyglass.text import clean

_FIRST_PAUSE: Final = 0.02
_LONGEST_PAUSE: Final = 1.0
_LEAST_CALL: Final = 0.05


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds: ``total`` for one fetch with all its tries, ``attempt`` for one call to the server.

    A call that takes longer than ``attempt`` is given up, its ids are burned, and new ones are asked for.
    """

    total: float = 30.0
    attempt: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.attempt <= self.total:
            raise ValueError("deadlines must be above 0, and one attempt no longer than the total")


class Patience:
    """The time that one fetch has left, and the growing pauses between its tries."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._end = time.monotonic() + deadlines.total
        self._attempt = deadlines.attempt
        self._pause = _FIRST_PAUSE

    def call_seconds(self) -> float:
        """How long the next call may take."""
        return max(_LEAST_CALL, min(self._attempt, self._end - time.monotonic()))

    def pause(self) -> Pause | None:
        """The next pause, with jitter; None when the deadline leaves no room for another try."""
        seconds = self._pause * random.uniform(0.5, 1.0)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return Pause(seconds) if time.monotonic() + seconds + _LEAST_CALL < self._end else None


def attempt(
    call: Call, n: int, *, where: str, meter: Meter, patience: Patience
) -> Generator[Call | Pause, Any, dict[str, Any] | None]:
    """Make an increment of ``n`` ids until there is a reply; the document before it, or None where nothing matched.

    Raises AllocationTimeout, AllocationUnknown, AllocationRefused, CounterTypeError, Exhausted.
    """
    burned = 0
    while True:
        began = time.monotonic()
        try:
            reply = yield from _sent(call, n, meter, patience)
        except PyMongoError as error:
            outcome = judge(error)
            if outcome in (Outcome.UNKNOWN, Outcome.UNKNOWN_FOR_GOOD):
                burned += n
                meter.tell(EventKind.BURNED, n, note=type(error).__name__, burned=n)
            final = _final(outcome, error, where, burned)
            pause = None if final else patience.pause()
            if pause is None:
                meter.tell(EventKind.FAILED, note=type(error).__name__, failures=1)
                raise final or out_of_time(error, where, burned) from error
            meter.tell(EventKind.RETRIED, note=type(error).__name__, retries=1)
        else:
            if reply is not None:
                meter.tell(EventKind.FETCHED, n, seconds=time.monotonic() - began, fetches=1)
            return reply
        yield pause


def _sent(call: Call, n: int, meter: Meter, patience: Patience) -> Generator[Call | Pause, Any, dict[str, Any] | None]:
    try:
        reply: dict[str, Any] | None = yield replace(call, seconds=patience.call_seconds())
    except PyMongoError:
        raise
    except BaseException:
        # Cancelled or interrupted while the server may be at work: these ids can never be used.
        meter.tell(EventKind.BURNED, n, note="cut short", burned=n)
        raise
    return reply


def asked(call: Call, *, where: str, patience: Patience) -> Generator[Call | Pause, Any, Any]:
    """Make a read, or a write that may safely be made twice, until there is a reply.

    A duplicate key is tried again: two upserts of one ``_id`` met, and the next try finds the document.
    Raises AllocationTimeout, AllocationRefused.
    """
    while True:
        try:
            return (yield replace(call, seconds=patience.call_seconds()))
        except PyMongoError as error:
            outcome = judge(error)
            if outcome not in (Outcome.UNKNOWN, Outcome.NOT_APPLIED, Outcome.DUPLICATE):
                raise _refused(error, where) from error
            pause = patience.pause()
            if pause is None:
                raise out_of_time(error, where, 0) from error
        yield pause


def out_of_time(error: PyMongoError, where: str, burned: int) -> AllocationError:
    """The error for a deadline that passed: unknown when a call may have been applied, else a plain timeout."""
    said = clean(str(error), 200)
    if burned:
        return AllocationUnknown(
            f"No answer about {where} in time; {burned} ids may have been taken and are left unused.",
            said,
            burned=burned,
        )
    return AllocationTimeout(f"No id from {where} in time.", said)


def _final(outcome: Outcome, error: PyMongoError, where: str, burned: int) -> AllocationError | None:
    """The error that ends the tries; None where another try may help."""
    if outcome in (Outcome.NOT_APPLIED, Outcome.UNKNOWN):
        return None
    if outcome is Outcome.UNKNOWN_FOR_GOOD:
        return AllocationUnknown(
            f"The members of this deployment cannot confirm a majority write to {where}.",
            clean(str(error), 200),
            burned=burned,
        )
    if outcome is Outcome.OVERFLOW:
        return Exhausted(f"The number in {where} is at the end of int64.", maximum=2**63 - 1)
    if outcome is Outcome.WRONG_TYPE:
        return CounterTypeError(f"The field in {where} is not a number.", "Name the field that holds the number.")
    return _refused(error, where)


def _refused(error: PyMongoError, where: str) -> AllocationRefused:
    code = error.code if isinstance(error, OperationFailure) else None
    return AllocationRefused(f"The server refuses to work on {where}.", clean(str(error), 200), code=code)
