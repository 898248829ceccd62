"""The outcome table: what each error says about the increment."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import errors

from tallyglass.allocate.engine.outcome import Outcome, classify


def labelled(error: errors.PyMongoError, label: str) -> errors.PyMongoError:
    error._add_error_label(label)
    return error


def duplicate(field: str) -> dict[str, Any]:
    """What the server reports of a write that the unique index on a field refused."""
    return {"code": 11000, "errmsg": "E11000 duplicate key error", "keyPattern": {field: 1}}


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (errors.ServerSelectionTimeoutError("no primary"), Outcome.NOT_APPLIED),
        (errors.WaitQueueTimeoutError("pool"), Outcome.UNKNOWN),
        (labelled(errors.AutoReconnect("lost"), "NoWritesPerformed"), Outcome.NOT_APPLIED),
        (labelled(errors.OperationFailure("busy", 462), "SystemOverloadedError"), Outcome.NOT_APPLIED),
        (labelled(errors.AutoReconnect("no connection"), "SystemOverloadedError"), Outcome.UNKNOWN),
        (errors.OperationFailure("TooManyLogicalSessions", 261), Outcome.NOT_APPLIED),
        (errors.OperationFailure("WriteConflict", 112), Outcome.NOT_APPLIED),
        (errors.AutoReconnect("lost"), Outcome.UNKNOWN),
        (errors.NetworkTimeout("late"), Outcome.UNKNOWN),
        (errors.NotPrimaryError("stepped down"), Outcome.UNKNOWN),
        (errors.WTimeoutError("late", 64), Outcome.UNKNOWN),
        (errors.WriteConcernError("interrupted", 91), Outcome.UNKNOWN),
        (errors.ExecutionTimeout("maxTimeMS", 50), Outcome.UNKNOWN),
        (errors.OperationFailure("IncompleteTransactionHistory", 217), Outcome.UNKNOWN),
        (errors.OperationFailure("InterruptedDueToReplStateChange", 11602), Outcome.UNKNOWN),
        (errors.WriteConcernError("no such mode", 79), Outcome.UNKNOWN_FOR_GOOD),
        (errors.WriteConcernError("not enough members", 100), Outcome.UNKNOWN_FOR_GOOD),
        (errors.OperationFailure("Failed to apply $inc operations to current value", 2), Outcome.OVERFLOW),
        (errors.OperationFailure("Cannot apply $inc to a value of non-numeric type", 14), Outcome.WRONG_TYPE),
        (errors.DuplicateKeyError("E11000", 11000, duplicate("_id")), Outcome.DUPLICATE),
        (errors.DuplicateKeyError("E11000", 11000, duplicate("mail")), Outcome.REFUSED),
        (errors.DuplicateKeyError("E11000, of a server that names no index", 11000), Outcome.DUPLICATE),
        (errors.BulkWriteError({"writeErrors": [duplicate("_id")] * 2}), Outcome.DUPLICATE),
        (errors.BulkWriteError({"writeErrors": [duplicate("_id"), {"code": 11000}]}), Outcome.DUPLICATE),
        (errors.BulkWriteError({"writeErrors": [duplicate("_id"), duplicate("mail")]}), Outcome.REFUSED),
        (errors.BulkWriteError({"writeErrors": [duplicate("_id"), {"code": 13}]}), Outcome.REFUSED),
        (errors.BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64}]}), Outcome.UNKNOWN),
        (errors.OperationFailure("not authorized", 13), Outcome.REFUSED),
        (errors.OperationFailure("unknown operator", 2), Outcome.REFUSED),
        (errors.ConfigurationError("wrong"), Outcome.REFUSED),
        (errors.ProtocolError("odd"), Outcome.UNKNOWN),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_outcome(error: errors.PyMongoError, outcome: Outcome) -> None:
    assert classify(error) is outcome


_LEFT_OPEN = (6, 7, 50, 63, 89, 91, 133, 134, 150, 189, 217, 234, 262, 358, 9001)
_LEFT_OPEN += (10107, 11600, 11601, 11602, 13388, 13435, 13436)
_NOT_RUN = (24, 112, 261, 391)


@pytest.mark.parametrize("code", [*_LEFT_OPEN, *_NOT_RUN, 10106, 10108, 11599, 11603, 13389, 13434, 13437])
def test_only_some_codes_of_the_server_let_an_increment_be_tried_again(code: int) -> None:
    """A failover, a shutdown or a lost link inside the cluster leaves open whether it was applied."""
    wanted = Outcome.UNKNOWN if code in _LEFT_OPEN else Outcome.NOT_APPLIED if code in _NOT_RUN else Outcome.REFUSED
    assert classify(errors.OperationFailure("failed", code)) is wanted
