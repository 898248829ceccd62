"""The servers that are played, with what is known of their answers and refusals from their documentation and source.

``ASSUMED`` marks what nobody could try: the codes with which Amazon DocumentDB and Azure refuse a read of the oplog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from servers.look_alike import Document, Refusal, Server

WIRE = {"4.4": 9, "5.0": 13, "6.0": 17, "7.0": 21, "8.0": 25, "8.2": 27, "9.0": 29}
"""The newest wire version of each release."""

ATLAS = Refusal(
    8000,
    "AtlasError",
    "{name} is not allowed or the syntax is incorrect, see the Atlas documentation for more information",
)
NOT_FOUND = Refusal(59, "CommandNotFound", "no such command: '{name}'")
NOT_SUPPORTED = Refusal(303, "FeatureNotSupported", "Feature not supported: {name}")
ASSUMED = NOT_SUPPORTED
THROUGH_ROUTER = Refusal(
    13,
    "Unauthorized",
    "You are connecting to a sharded cluster improperly by connecting directly to a shard. Please connect to the "
    "cluster via a router (mongos).",
)
_OF_THE_SET = ("replSetGetStatus", "replSetGetConfig")
_OPERATOR = ("getParameter", "getCmdLineOpts", "shardingState", "serverStatus", "collStats")


def _version(version: str, **more: Any) -> dict[str, Mapping[str, Any]]:
    release = ".".join(version.split(".")[:2])
    array = [*map(int, version.split(".")), 0]
    return {
        "buildInfo": {"version": version, "versionArray": array, **more},
        "hello": {"maxWireVersion": WIRE[release]},
        "getParameter": {"featureCompatibilityVersion": {"version": release}},
        "serverStatus": {"version": version},
    }


def _without_writes(version: str, **more: Any) -> dict[str, Mapping[str, Any]]:
    """A member that says nothing of its writes, nor of other members."""
    found = _version(version, **more)
    return found | {
        "hello": {**found["hello"], **dict.fromkeys(("primary", "me", "setVersion", "electionId", "lastWrite"))}
    }


def _named(version: str, host: str) -> dict[str, Mapping[str, Any]]:
    """A member of a set whose hosts are called ``host``."""
    found = _version(version)
    return found | _LOGGED_IN | {"hello": {**found["hello"], "hosts": [f"{host}:27017"], "me": f"{host}:27017"}}


_LOGGED_IN = {
    "connectionStatus": {
        "authInfo": {
            "authenticatedUsers": [{"user": "monitor", "db": "admin"}],
            "authenticatedUserRoles": [{"role": "atlasAdmin", "db": "admin"}],
            "authenticatedUserPrivileges": [{"resource": {"anyResource": True}, "actions": ["anyAction"]}],
        }
    }
}
"""Services that are never without a login."""


def _reads_oplog(command: str, body: Document) -> bool:
    return body.get("$db") == "local" and (body.get(command) == "oplog.rs" or body.get("collection") == "oplog.rs")


def _all_of(*commands: str, refusal: Refusal, oplog: bool = False) -> Callable[[str, Document], Refusal | None]:
    def refuses(command: str, body: Document) -> Refusal | None:
        return refusal if command in commands or (oplog and _reads_oplog(command, body)) else None

    return refuses


def _m0(command: str, body: Document) -> Refusal | None:
    """A find on ``local.oplog.rs`` is served for an ``ns``, or a ``$regex`` that begins with ^. No commands about the
    set are."""
    if command in ("find", "count", "aggregate", "collStats") and _reads_oplog(command, body):
        wanted = (body.get("filter") or {}).get("ns")
        anchored = isinstance(wanted, dict) and str(wanted.get("$regex", "")).startswith("^")
        return None if command == "find" and (isinstance(wanted, str) or anchored) else ATLAS
    return ATLAS if command in (*_OF_THE_SET, *_OPERATOR) else None


def _shard(command: str, body: Document) -> Refusal | None:
    own = body.get("$db") in ("local", "admin", "config")
    return THROUGH_ROUTER if command in ("find", "count", "aggregate", "listIndexes") and not own else None


_ANY, _CLUSTER = {"db": "", "collection": ""}, {"cluster": True}
_ON_A_SHARD: dict[str, Mapping[str, Any]] = {
    "shardingState": {"enabled": True, "shardName": "shard01", "clusterId": "c1"},
    "connectionStatus": {
        "authInfo": {
            "authenticatedUsers": [{"user": "monitor", "db": "admin"}],
            "authenticatedUserRoles": [{"role": "monitor", "db": "admin"}],
            "authenticatedUserPrivileges": [
                {"resource": _ANY, "actions": ["find", "listCollections", "listIndexes"]},
                {"resource": {"db": "local", "collection": "oplog.rs"}, "actions": ["find", "collStats"]},
                {"resource": _CLUSTER, "actions": ["replSetGetStatus", "replSetGetConfig", "shardingState", "getLog",
                                                   "inprog", "listSessions", "getParameter"]},
            ],
        }
    },
}  # fmt: skip
"""A user who may read everything, but has not the role ``directShardOperations``."""

PLAYED = (
    *(
        Server(f"MongoDB {version}", _version(version))
        for version in ("4.4.29", "5.0.31", "7.0.24", "8.0.13", "8.2.1", "9.0.0")
    ),
    Server("MongoDB 8.0.13, a shard", _version("8.0.13") | _ON_A_SHARD, _shard),
    Server("Percona Server for MongoDB 7.0.24", _version("7.0.24", psmdbVersion="7.0.24-13")),
    Server("Atlas M0", _named("8.0.13", "c0-shard-00-00.ab1cd.mongodb.net"), _m0),
    Server(
        "Atlas Flex",
        _named("8.0.13", "c0-shard-00-00.ab1cd.mongodb.net"),
        _all_of(*_OF_THE_SET, *_OPERATOR, refusal=ATLAS, oplog=True),
    ),
    Server(
        "Amazon DocumentDB 5.0",
        _named("5.0.0", "docdb-1.cluster-ab1.eu-west-1.docdb.amazonaws.com"),
        _all_of(*_OF_THE_SET, "getCmdLineOpts", "shardingState", refusal=ASSUMED, oplog=True),
    ),
    Server(
        "Azure Cosmos DB",
        _named("7.0.0", "fc-ab1.mongocluster.cosmos.azure.com"),
        _all_of(*_OF_THE_SET, "getCmdLineOpts", "shardingState", refusal=ASSUMED, oplog=True),
    ),
    Server(
        "FerretDB 2.5.0",
        _without_writes("7.0.77", ferretdb={"version": "v2.5.0"}),
        _all_of(*_OF_THE_SET, "shardingState", refusal=NOT_FOUND, oplog=True),
    ),
)
"""The servers of the lab; the oldest first."""
