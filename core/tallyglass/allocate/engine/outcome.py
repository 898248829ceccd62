"""Classifies the error of an increment: was it applied, and may it be retried? Pure.

Uniqueness does not depend on this: ids come from a reply, never from a guess. The class decides whether the ids of a
failed call count as burned, and whether another call can help.
Sources: the retryable writes specification, and the outcomes seen in this project's live tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum, IntEnum
from typing import Any, Final

from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    ExecutionTimeout,
    InvalidOperation,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
)


class Outcome(Enum):
    """The classes of failure."""

    NOT_APPLIED = "not applied"
    """Nothing happened on the server; another try is safe and may help."""
    UNKNOWN = "unknown"
    """It may have been applied; its ids are burned. Another try takes new ids."""
    UNKNOWN_FOR_GOOD = "unknown, and trying again cannot help"
    """It was applied, but this deployment can never confirm it."""
    OVERFLOW = "overflow"
    """The number would leave int64; nothing happened."""
    WRONG_TYPE = "wrong type"
    """The field is not a number; nothing happened."""
    DUPLICATE = "duplicate key"
    """A document with this ``_id`` exists, which the filter did not match; nothing happened."""
    REFUSED = "refused"
    """The server, or a unique index on other fields, refuses the command; nothing happened, a retry does not help."""


class ServerCode(IntEnum):
    """Codes of server errors, by their names in the server (``error_codes.yml``)."""

    BAD_VALUE = 2
    TYPE_MISMATCH = 14
    ILLEGAL_OPERATION = 20
    UNKNOWN_REPL_WRITE_CONCERN = 79
    UNSATISFIABLE_WRITE_CONCERN = 100
    DUPLICATE_KEY = 11000


_CONCERN_IMPOSSIBLE: Final = frozenset({ServerCode.UNKNOWN_REPL_WRITE_CONCERN, ServerCode.UNSATISFIABLE_WRITE_CONCERN})

# The command did not run, or ran and left nothing behind: WriteConflict, LockTimeout, TooManyLogicalSessions,
# MaxTimeMSExpired may come before the write or after it, so it is not here.
_NOT_APPLIED: Final = frozenset({112, 24, 261, 391})
# A failover, a shutdown or a lost link inside the cluster, as the retryable writes specification lists them,
# and IncompleteTransactionHistory: the image for the retry no longer exists.
_UNKNOWN: Final = frozenset({6, 7, 50, 63, 89, 91, 133, 134, 150, 189, 217, 234, 262, 358, 9001})
# NotWritablePrimary, the shutdown and interruption codes, NotPrimaryNoSecondaryOk, NotPrimaryOrSecondary.
_UNKNOWN_RANGES: Final = ((10107, 10107), (11600, 11602), (13388, 13388), (13435, 13436))

NO_WRITES: Final = "NoWritesPerformed"
OVERLOADED: Final = "SystemOverloadedError"

_INDEX_NAME: Final = re.compile(r" index: (.+?)(?: collation: .*)? dup key: ", re.DOTALL)


def unique_fields(error: OperationFailure) -> set[tuple[str, ...]]:
    """The fields of each unique index that refused a write, in the order of the index; none where it is not named."""
    return {tuple(row.get("keyPattern") or ()) for row in _duplicates(error)}


def unique_index(error: OperationFailure) -> str:
    """The first unique index that refused a write, as ``name (its fields)``; empty if the error names none."""
    for row in _duplicates(error):
        named = _INDEX_NAME.search(str(row.get("errmsg") or error))
        fields = ", ".join(row.get("keyPattern") or ())
        return " ".join([*([named[1]] if named else []), *([f"({fields})"] if fields else [])])
    return ""


def _duplicates(error: OperationFailure) -> list[Mapping[str, Any]]:
    details = error.details or {}
    if isinstance(error, DuplicateKeyError):
        return [details]
    return [row for row in details.get("writeErrors", ()) if row.get("code") == ServerCode.DUPLICATE_KEY]


def classify(error: PyMongoError) -> Outcome:
    """The class of one driver error from ``find_one_and_update`` or an insert."""
    if error.has_error_label(NO_WRITES):
        return Outcome.NOT_APPLIED
    if isinstance(error, DuplicateKeyError):
        return _classify_duplicate(error)
    if isinstance(error, OperationFailure):
        return _classify_failure(error)
    if isinstance(error, ServerSelectionTimeoutError):
        return Outcome.NOT_APPLIED
    # A failed connection attempt and a full connection pool are here too: the driver raises them also while it retries
    # a command that it has sent before, and does not say so.
    if isinstance(error, (NotPrimaryError, ConnectionFailure)):
        return Outcome.UNKNOWN
    if isinstance(error, (ConfigurationError, InvalidOperation)):
        return Outcome.REFUSED
    return Outcome.UNKNOWN


def _classify_failure(error: OperationFailure) -> Outcome:
    code = error.code or 0
    if error.has_error_label(OVERLOADED):
        return Outcome.NOT_APPLIED
    if isinstance(error, BulkWriteError):
        return _classify_bulk(error)
    if code in _CONCERN_IMPOSSIBLE:
        return Outcome.UNKNOWN_FOR_GOOD
    if isinstance(error, (WriteConcernError, ExecutionTimeout)) or code in _UNKNOWN:
        return Outcome.UNKNOWN
    if any(low <= code <= high for low, high in _UNKNOWN_RANGES):
        return Outcome.UNKNOWN
    if code in _NOT_APPLIED:
        return Outcome.NOT_APPLIED
    if code == ServerCode.BAD_VALUE and "$inc" in str(error):
        return Outcome.OVERFLOW
    if code == ServerCode.TYPE_MISMATCH:
        return Outcome.WRONG_TYPE
    return Outcome.REFUSED


def _classify_duplicate(error: OperationFailure) -> Outcome:
    # Documents that lack the fields of an index all have the same key in it: no other try gets past that index. Of one
    # that a compatible server does not name, another try may, and the deadline ends it.
    return Outcome.DUPLICATE if unique_fields(error) <= {("_id",), ()} else Outcome.REFUSED


def _classify_bulk(error: BulkWriteError) -> Outcome:
    details = error.details or {}
    if details.get("writeConcernErrors"):
        return Outcome.UNKNOWN
    codes = {row.get("code") for row in details.get("writeErrors", ())}
    return _classify_duplicate(error) if codes == {ServerCode.DUPLICATE_KEY} else Outcome.REFUSED
