"""Why no collection is seen, and which jobs a deployment makes impossible."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tallyglass import doctor
from tallyglass.deployment.cluster import Deployment, Kind
from tallyglass.deployment.members import SetMember
from tallyglass.deployment.privileges import State
from tallyglass.deployment.product import Product
from tallyglass.errors import DeploymentError, PrivilegeError, RefusedError, TallyglassError
from tallyglass.evidence.kept import EvidenceKept
from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import OplogWindow

SET = Deployment(Kind.REPLICA_SET, "6.0.5", "rs0")
FIND = {"resource": {"db": "", "collection": ""}, "actions": ["find"]}
ONE = {"resource": {"db": "shop", "collection": "orders"}, "actions": ["find"]}
EMPTY = "This deployment has no collections besides MongoDB's own."


class Answers:
    """A gateway that answers ``connectionStatus`` and ``serverStatus``, and tells no time."""

    def __init__(self, users: list[Any], privileges: list[Any], status: TallyglassError | None) -> None:
        self.info = {"authenticatedUsers": users, "authenticatedUserPrivileges": privileges}
        self.status = status

    async def command(self, name: str, **how: Any) -> dict[str, Any]:
        if name == "connectionStatus":
            assert how == {"showPrivileges": True}
            return {"authInfo": self.info}
        if name == "hello":
            return {}
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


ROLES = [{"role": "read", "db": "shop"}, {"role": "x\x1b", "db": "admin"}]
WINDOW, KEPT = OplogWindow(Ts(1, 1), Ts(9, 1)), EvidenceKept(5.0)


class Diagnosed(Answers):
    """A gateway on what :func:`doctor.diagnose` reads besides; ``unread`` says of each job why its reads fail."""

    def __init__(self, users: list[Any], privileges: list[Any], status: TallyglassError | None = None) -> None:
        super().__init__(users, privileges, status)
        self.info["authenticatedUserRoles"] = ROLES if users else []
        self.unread: dict[str, str] = {}
        self.tried: list[tuple[str, tuple[str, ...]]] = []
        self.one_by_one = False

    async def list_databases(self) -> list[str]:
        if self.status:
            raise self.status
        return ["shop", "a\x1b"]

    async def diagnose(
        self, monkeypatch: pytest.MonkeyPatch, deployment: Deployment, *databases: str
    ) -> doctor.Diagnosis:
        async def look_at(_: Any) -> Deployment:
            return deployment

        async def why_unread(_: Any, job: str, scope: Any) -> str:
            self.tried.append((job, scope))
            return self.unread.get(job, "")

        async def reads_one_namespace(_: Any, scope: Any) -> bool:
            return self.one_by_one

        async def window(_: Any, *, recent: bool) -> OplogWindow:
            assert recent
            if self.unread:
                raise RefusedError("no", code=1)
            return WINDOW

        async def evidence_kept(_: Any) -> EvidenceKept:
            return KEPT

        for fake in (look_at, why_unread, reads_one_namespace, window, evidence_kept):
            monkeypatch.setattr(doctor, fake.__name__, fake)
        return await doctor.diagnose(self, databases)  # type: ignore[arg-type]


JOBS = ["counters", "oplog", "incidents", "restore", "members"]
READABLE = {"resource": {"db": "shop", "collection": ""}, "actions": ["find"]}
OPLOG_FIND = {"resource": {"db": "local", "collection": "oplog.rs"}, "actions": ["find"]}


async def test_a_user_without_privileges_is_told_what_each_job_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Diagnosed([{"user": "ann", "db": "admin"}, {"user": "bob", "db": "crm"}], [READABLE, OPLOG_FIND])
    deployment = replace(SET, members=(SetMember("h:1", "PRIMARY"),))
    found = await gateway.diagnose(monkeypatch, deployment)
    assert (found.deployment, found.access_control, found.user) == (deployment, True, "ann@admin")
    assert found.roles == ("read@shop", r"x\u{1b}@admin")
    assert (found.databases, found.scope) == ((r"a\u{1b}", "shop"), ("shop",))
    assert (found.window, found.kept) == (WINDOW, KEPT)
    states = {one.verdict.job.id: one.verdict.state for one in found.findings}
    partly = dict.fromkeys(JOBS, State.PARTLY)
    assert states == partly | {"members": State.DENIED}
    assert gateway.tried == [(job, ("shop",)) for job in JOBS if states[job] is not State.DENIED]
    for one in found.findings:
        assert not one.impossible
        assert not one.ok
        assert one.commands[-1].startswith('db.getSiblingDB("admin").grantRolesToUser("ann", ')


async def test_without_access_control_everything_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Diagnosed([], [])
    found = await gateway.diagnose(monkeypatch, replace(SET, members=(SetMember("h:1", "PRIMARY"),)), "crm", "shop")
    assert (found.access_control, found.user, found.roles, found.scope) == (False, "", (), ("crm", "shop"))
    assert [(one.verdict.job.id, one.ok, one.commands) for one in found.findings] == [(job, True, ()) for job in JOBS]
    assert gateway.tried == [(job, ("crm", "shop")) for job in JOBS]


async def test_without_a_login_nothing_is_allowed_where_there_is_access_control(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = await Diagnosed([], [], PrivilegeError("no")).diagnose(monkeypatch, Deployment(Kind.STANDALONE, "6.0"))
    assert (found.access_control, found.databases, found.window, found.kept) == (True, (), None, None)
    assert {one.verdict.state for one in found.findings} == {State.DENIED}
    assert [(bool(one.impossible), one.commands) for one in found.findings] == [(job != "counters", ()) for job in JOBS]


@pytest.mark.parametrize("one_by_one", [True, False])
@pytest.mark.parametrize("product", [Product.ATLAS, Product.MONGODB])
async def test_a_job_whose_reads_fail_is_impossible_and_atlas_may_open_one_collection(
    monkeypatch: pytest.MonkeyPatch, product: Product, one_by_one: bool
) -> None:
    gateway = Diagnosed(
        [{"user": "ann", "db": "admin"}], [{"resource": {"anyResource": True}, "actions": ["anyAction"]}]
    )
    gateway.unread, gateway.one_by_one = {"oplog": "closed", "incidents": "closed"}, one_by_one
    found = await gateway.diagnose(monkeypatch, replace(SET, product=product))
    told = {one.verdict.job.id: (one.impossible, one.instead, one.ok) for one in found.findings}
    instead = doctor.ONE_BY_ONE if one_by_one and product is Product.ATLAS else ""
    assert told["oplog"] == ("closed", "", False)
    assert told["incidents"] == ("closed", instead, False)
    assert told["counters"] == ("", "", True)
    assert found.window is None
