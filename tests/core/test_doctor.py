"""Why no collection is seen, and which jobs a deployment makes impossible."""

from __future__ import annotations

from typing import Any

import pytest

from tallyglass import doctor
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.errors import DeploymentError, PrivilegeError, RefusedError, TallyglassError

SET = Deployment(Kind.REPLICA_SET, "6.0.5", "rs0")
FIND = {"resource": {"db": "", "collection": ""}, "actions": ["find"]}
ONE = {"resource": {"db": "shop", "collection": "orders"}, "actions": ["find"]}
EMPTY = "This deployment has no collections besides MongoDB's own."


class Answers:
    """A gateway that answers ``connectionStatus`` and ``serverStatus`` alone."""

    def __init__(self, users: list[Any], privileges: list[Any], status: TallyglassError | None) -> None:
        self.info = {"authenticatedUsers": users, "authenticatedUserPrivileges": privileges}
        self.status = status

    async def command(self, name: str, **how: Any) -> dict[str, Any]:
        if name == "connectionStatus":
            assert how == {"showPrivileges": True}
            return {"authInfo": self.info}
        assert name == "serverStatus"
        if self.status:
            raise self.status
        return {}


@pytest.mark.parametrize(
    ("deployment", "users", "privileges", "status", "reason"),
    [
        (SET, [], [], None, DeploymentError(EMPTY)),
        (SET, [], [], RefusedError("unknown command", code=59), DeploymentError(EMPTY)),
        (SET, [{"user": "ann"}], [FIND], None, DeploymentError(EMPTY)),
        (SET, [{"user": "ann"}], [ONE], None, PrivilegeError("This user may see no collection.", "tallyglass doctor")),
        (SET, [], [], PrivilegeError("no"), PrivilegeError("This server requires a login.", doctor.LOG_IN)),
        (
            Deployment(Kind.REPLICA_SET, "6.0.5", serves_reads=False),
            [],
            [],
            None,
            DeploymentError("This member serves"),
        ),
    ],
)
async def test_the_reason_why_no_collection_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    deployment: Deployment,
    users: list[Any],
    privileges: list[Any],
    status: TallyglassError | None,
    reason: TallyglassError,
) -> None:
    async def look_at(gateway: Any) -> Deployment:
        return deployment

    monkeypatch.setattr(doctor, "look_at", look_at)
    gateway: Any = Answers(users, privileges, status)
    found = await doctor.why_nothing(gateway)
    assert type(found) is type(reason)
    assert str(found).startswith(str(reason))
    assert found.advice.startswith(reason.advice)


@pytest.mark.parametrize(
    ("shard", "version", "direct"),
    [("s0", "8.0.1", True), ("s0", "10.0", True), ("s0", "7.0.9", False), ("", "8.0.1", False), ("s0", "odd", False)],
)
def test_a_shard_refuses_direct_reads_from_8_0_on(shard: str, version: str, direct: bool) -> None:
    assert doctor._is_direct_shard(Deployment(Kind.REPLICA_SET, version, shard_name=shard)) is direct


@pytest.mark.parametrize(
    ("deployment", "impossible"),
    [
        (SET, {"members": "This is a replica set: it has no members."}),
        (
            Deployment(Kind.STANDALONE, "6"),
            {"members": "a standalone", "oplog": "A standalone", "restore": "A standalone"},
        ),
        (
            Deployment(Kind.UNINITIATED, "6"),
            dict.fromkeys(("counters", "oplog", "restore"), "never initiated") | {"members": "is an un"},
        ),
        (
            Deployment(Kind.REPLICA_SET, "6", sharded=True),
            {"members": "no members", "restore": "part of a sharded cluster"},
        ),
        (
            Deployment(Kind.REPLICA_SET, "6", serves_reads=False),
            dict.fromkeys(("counters", "oplog", "restore"), "serves no reads") | {"members": "no members"},
        ),
    ],
)
def test_what_a_deployment_makes_impossible(deployment: Deployment, impossible: dict[str, str]) -> None:
    for job in ("counters", "oplog", "restore", "members"):
        told = doctor._impossible(job, deployment)
        assert (impossible.get(job, "") in told, bool(told)) == (True, job in impossible)
