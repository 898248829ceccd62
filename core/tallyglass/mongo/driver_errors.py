"""Translate the driver's errors to this package's: one sentence and advice, safe to show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from bson.errors import BSONError
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    ExecutionTimeout,
    InvalidName,
    InvalidURI,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from tallyglass.connection.secret import scrub
from tallyglass.errors import ConnectError, DeploymentError, PrivilegeError, ReadError, RefusedError, TallyglassError
from tallyglass.mongo.driver_texts import login_refused, lost, not_resolved, unreachable, unusable
from tallyglass.mongo.gateway import OPLOG
from tallyglass.text import clean

# Codes by which a server names its errors: error_codes.yml in MongoDB's source, but for those of Atlas.
UNAUTHORIZED = 13  # code "Unauthorized"
NAMESPACE_NOT_FOUND = 26  # code "NamespaceNotFound"
INVALID_NAMESPACE = 73  # code "InvalidNamespace"
AUTHENTICATION_FAILED = 18  # code "AuthenticationFailed"
INVALID_BSON = 22  # code "InvalidBSON"
COMMAND_NOT_FOUND = 59  # code "CommandNotFound"
ATLAS_ERROR = 8000  # code of every refusal by Atlas's proxy
NOT_PRIMARY_OR_SECONDARY = 13436  # code "NotPrimaryOrSecondary"
DIRECT_SHARD = "issueDirectShardOperations on the cluster"

_NO_READS = (
    r"node is (?:recovering|not in primary or recovering state)|not.*in (?:PRIMARY|primary) or (?:SECONDARY|sec)"
)

_BAD_LOGIN = r"bad auth|[Aa]uthentication failed"
_MAY_NOT = r"^\(?(?:Unauthorized\) )?not authorized on |^user is not allowed to do action "
"""How Atlas's shared tiers begin their answer where the user lacks a privilege."""

_RELEASES = {
    5: "MongoDB 3.4", 6: "MongoDB 3.6", 7: "MongoDB 4.0", 8: "MongoDB 4.2", 9: "MongoDB 4.4", 13: "MongoDB 5.0",
}  # fmt: skip
"""The release of a server by its newest wire version."""


@contextmanager
def family(what: str) -> Iterator[None]:
    """Raise the driver's errors as this package's. ``what`` names the operation and may contain server text."""
    try:
        yield
    except TallyglassError:
        raise
    except PyMongoError as error:
        raise translate(error, clean(what)) from error
    except ValueError as error:
        refused = login_refused(str(error))
        if refused is None:
            raise
        raise refused from error
    except BSONError as error:
        raise RefusedError(
            f"{clean(what)} returned data that cannot be decoded: {clean(str(error), 200)}.", code=INVALID_BSON
        ) from error


def translate(error: PyMongoError, what: str) -> TallyglassError:
    """Return this package's error for one of the driver's. Server text in it is made safe to show."""
    code = error.code if isinstance(error, OperationFailure) else None
    message = clean(scrub(_message(error)), 300)
    if code == UNAUTHORIZED and "connecting directly to a shard" in message:
        return PrivilegeError(
            f"This shard does not allow {what} on a direct connection.",
            "Connect to a mongos, or have the role directShardOperations granted.",
            privilege=DIRECT_SHARD,
        )
    login_failed = code == AUTHENTICATION_FAILED or (code == ATLAS_ERROR and re.search(_BAD_LOGIN, message) is not None)
    if code == ATLAS_ERROR and what.endswith(str(OPLOG)) and not login_failed:
        return closed_oplog()
    if isinstance(error, OperationFailure) and lacks_privilege(error):
        return PrivilegeError(
            f"This user may not run {what}.", "tallyglass doctor names the role that would allow it.", privilege=what
        )
    if login_failed:
        return ConnectError("The server does not accept this user name and password.", "Check both, and authSource.")
    refused = login_refused(_message(error))
    if refused is not None:
        return refused
    if isinstance(error, ExecutionTimeout):
        advice = "It may be overloaded, or a secondary that lags. The read is retried."
        return _failed(f"The server took too long to run {what}.", advice, code)
    if isinstance(error, ServerSelectionTimeoutError):
        return unreachable(_message(error))
    if isinstance(error, NotPrimaryError) and re.search(_NO_READS, message):
        return RefusedError(
            "This member serves no reads: it is starting, recovering, rolling back, or an arbiter.",
            "Connect to another member, or wait until it is a secondary.",
            code=NOT_PRIMARY_OR_SECONDARY,
        )
    if isinstance(error, ConnectionFailure):
        return _failed(*lost(_message(error)), _details_code(error))
    if isinstance(error, (ConfigurationError, InvalidName)):
        known = _misconfigured(error, message)
        if known:
            return known
        # The driver refuses names that servers accept, such as a..b. The code distinguishes this from a lost server.
        return _failed(
            f"{what} cannot be sent: {message}.", code=INVALID_NAMESPACE if isinstance(error, InvalidName) else None
        )
    if code == COMMAND_NOT_FOUND:
        return RefusedError(f"This server does not have {what}.", code=code)
    if code == ATLAS_ERROR:
        return RefusedError(f"This tier of Atlas does not allow {what}.", code=code)
    # A server that answers without a code has refused all the same.
    return _failed(
        f"The server refused {what}: {message.rstrip('.')}.",
        code=code or 0 if isinstance(error, OperationFailure) else None,
    )


def lacks_privilege(error: OperationFailure) -> bool:
    """Whether a server refuses because of what the user may do: Atlas's shared tiers have one code for all refusals."""
    may_not = re.search(_MAY_NOT, _message(error)) is not None
    return error.code == UNAUTHORIZED or (error.code == ATLAS_ERROR and may_not)


def _failed(title: str, advice: str = "", code: int | None = None) -> ReadError:
    """The error of a read: with a code the server answered."""
    return ReadError(title, advice) if code is None else RefusedError(title, advice, code=code)


def _misconfigured(error: PyMongoError, message: str) -> TallyglassError | None:
    """The error of a seed list or a server with which the driver cannot work; None if the text says otherwise."""
    unresolved = not_resolved(message)
    if unresolved:
        return unresolved
    if isinstance(error, InvalidURI):  # of a seed list, which the driver reads when it connects
        return unusable(message)
    old = re.search(r"reports wire version (\d+), .* at least \d+ \(MongoDB ([\d.]+)\)", message)
    if old:
        version = _RELEASES.get(int(old[1]), "This version of MongoDB")
        return DeploymentError(f"{version} is too old: MongoDB {old[2]} or newer is needed.", "")
    if re.search(r"requires wire version \d+", message):
        return DeploymentError("This server is too new for the installed PyMongo.", "Install a newer tallyglass.")
    if "load balancing mode" in message:
        title = "The connection string has loadBalanced=true, and there is no load balancer."
        return ConnectError(title, "Remove loadBalanced from it.")
    return None


def closed_oplog() -> PrivilegeError:
    """The error of a service whose oplog cannot be read whole, such as the free and shared tiers of Atlas."""
    return PrivilegeError(
        "This service does not open its oplog.",
        "Counters and ObjectIds work; the live oplog and restores need an oplog that can be read whole (on Atlas, a "
        "dedicated cluster). Atlas M0 opens it for one collection: tallyglass incidents --ns DB.COLLECTION.",
        privilege=f"find on {OPLOG}",
    )


def _message(error: PyMongoError) -> str:
    details = getattr(error, "details", None)
    if isinstance(details, dict) and isinstance(details.get("errmsg"), str):
        return cast(str, details["errmsg"])
    return str(error).split(", Timeout:")[0].split(" (configured timeouts")[0]


def _details_code(error: PyMongoError) -> int | None:
    details = getattr(error, "details", None)
    code = details.get("code") if isinstance(details, dict) else None
    return code if isinstance(code, int) else None
