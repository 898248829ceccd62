"""Each error of the driver is one sentence of the right class: refused, lost, not allowed, or not reachable."""

from __future__ import annotations

from typing import Any

import pytest
from bson.errors import InvalidBSON
from pymongo.errors import (
    AutoReconnect,
    ConfigurationError,
    ExecutionTimeout,
    InvalidName,
    InvalidURI,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from tallyglass.errors import (
    ConnectError,
    DeploymentError,
    InputError,
    PrivilegeError,
    ReadError,
    RefusedError,
    TallyglassError,
)
from tallyglass.mongo.driver_errors import DIRECT_SHARD, family

WIRE = "Server at h:1 reports wire version {}, but this version of PyMongo requires at least 8 (MongoDB 4.2)."
RECOVERING = NotPrimaryError("node is recovering", {"code": 13436})


@pytest.mark.parametrize(
    ("error", "kind", "title", "advice", "more"),
    [
        (OperationFailure("not authorized on shop to execute", 13), PrivilegeError,
         "This user may not run find on shop.a.", "tallyglass doctor names", {"privilege": "find on shop.a"}),
        (OperationFailure("user is connecting directly to a shard", 13), PrivilegeError,
         "This shard does not allow find on shop.a on a direct connection.", "directShardOperations",
         {"privilege": DIRECT_SHARD}),
        (OperationFailure("Authentication failed.", 18), ConnectError,
         "The server does not accept this user name and password.", "authSource", {}),
        (OperationFailure("bad auth : Authentication failed.", 8000), ConnectError,
         "The server does not accept this user name and password.", "authSource", {}),
        (OperationFailure("CMD_NOT_ALLOWED: x", 8000), RefusedError,
         "This tier of Atlas does not allow find on shop.a.", "", {"code": 8000}),
        (OperationFailure("no such command: 'x'", 59), RefusedError,
         "This server does not have find on shop.a.", "", {"code": 59}),
        (OperationFailure("Plan executor error.", 96), RefusedError,
         "The server refused find on shop.a: Plan executor error.", "", {"code": 96}),
        (OperationFailure("no code at all"), RefusedError,
         "The server refused find on shop.a: no code at all.", "", {"code": 0}),
        (OperationFailure("x", 1, {"errmsg": "in\x1b detail"}), RefusedError,
         r"The server refused find on shop.a: in\u{1b} detail.", "", {"code": 1}),
        (ExecutionTimeout("operation exceeded time limit", 50), RefusedError,
         "The server took too long to run find on shop.a.", "The read is retried", {"code": 50}),
        (RECOVERING, RefusedError, "This member serves no reads", "Connect to another member", {"code": 13436}),
        (NotPrimaryError("not primary", {"code": 10107}), RefusedError,
         "The connection to the server was lost.", "", {"code": 10107}),
        (AutoReconnect("h:1: connection closed"), ReadError, "The connection to the server was lost.", "(h:1)", {}),
        (AutoReconnect("operation cancelled"), ReadError, "The server stopped answering.", "", {}),
        (NetworkTimeout("h:1: timed out"), ReadError, "The connection to the server was lost.", "(h:1)", {}),
        (ServerSelectionTimeoutError("h:1: [Errno 111] Connection refused, Timeout: 5s, Topology: <x>"), ReadError,
         "No server listens at that address.", "(h:1)", {}),
        (ServerSelectionTimeoutError("::1:9: [Errno 111] Connection refused, Timeout: 5s, Topology: <x>"), ReadError,
         "No server listens at that address.", "([::1]:9)", {}),
        (AutoReconnect("fe80::1f:27017: connection closed"), ReadError,
         "The connection to the server was lost.", "([fe80::1f]:27017)", {}),
        (InvalidURI("Invalid URI host: an IP address is no name. Did you mean to use 'mongodb://'?"), InputError,
         "The connection string cannot be used: Invalid URI host: an IP address is no name. Did you mean to use "
         "'mongodb://'?", "Check host, port and options.", {}),
        (ConfigurationError("Driver attempted to initialize in load balancing mode, but the server does not support "
                            "this mode."), ConnectError,
         "The connection string has loadBalanced=true, and there is no load balancer.", "Remove loadBalanced", {}),
        (InvalidName("collection names cannot contain '..'"), RefusedError,
         "find on shop.a cannot be sent: collection names cannot", "", {"code": 73}),
        (ConfigurationError("this server has no sessions"), ReadError,
         "find on shop.a cannot be sent: this server has no sessions.", "", {}),
        (ConfigurationError("The DNS query name does not exist: x."), ConnectError,
         "The DNS seed list returns no servers.", "check it", {}),
        (ConfigurationError(WIRE.format(6)), DeploymentError,
         "MongoDB 3.6 is too old: MongoDB 4.2 or newer is needed.", "", {}),
        (ConfigurationError(WIRE.format(4)), DeploymentError,
         "This version of MongoDB is too old: MongoDB 4.2 or newer is needed.", "", {}),
        (ConfigurationError("Server at h:1 requires wire version 99, but this version of PyMongo only supports 29."),
         DeploymentError, "This server is too new for the installed PyMongo.", "Install a newer", {}),
        (PyMongoError("something else."), ReadError, "The server refused find on shop.a: something else.", "", {}),
        (InvalidBSON("objsize too large"), RefusedError,
         "find on shop.a returned data that cannot be decoded: objsize too large.", "", {"code": 22}),
        (ValueError("SASLprep: not allowed"), ConnectError,
         "The password contains a character that SCRAM-SHA-256 does not allow.", "SCRAM-SHA-1", {}),
    ],
)  # fmt: skip
def test_an_error_of_the_driver_is_one_of_this_package(
    error: Exception, kind: type[TallyglassError], title: str, advice: str, more: dict[str, Any]
) -> None:
    with pytest.raises(TallyglassError) as caught, family("find on shop.a"):
        raise error
    found = caught.value
    assert type(found) is kind
    assert found.title.startswith(title)
    assert advice in found.advice
    assert bool(advice) is bool(found.advice)
    assert {name: getattr(found, name) for name in more} == more
    assert found.__cause__ is error


def test_other_errors_and_those_of_this_package_stay_as_they_are() -> None:
    for error in (InputError("x"), ValueError("of the program"), KeyError("x")):
        with pytest.raises(type(error)) as caught, family("find"):
            raise error
        assert caught.value is error
