"""The doctor's view of privileges matches what the server enforces, and its roles are exact."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pymongo.errors import OperationFailure

from access_control import LEAKS, GuardedSet
from tallyglass.demo.server import ReplicaSet, Standalone
from tallyglass.deployment.privileges import CLUSTER, State, allows
from tallyglass.doctor import Diagnosis, diagnose
from tallyglass.errors import ConnectError
from tallyglass.mongo.client import open_gateway
from tallyglass.mongo.mongo_gateway import MongoGateway

pytestmark = pytest.mark.live

DB = "shop"
PATIENT: dict[str, Any] = {"serverSelectionTimeoutMS": 60_000, "connectTimeoutMS": 60_000}
"""Limits for a server that a busy machine keeps waiting: what it answers is tested here, not when."""
# Resource, action, and a command that needs exactly that privilege.
PROBES: list[tuple[dict[str, Any], str, str, dict[str, Any]]] = [
    (dict(CLUSTER), "replSetGetStatus", "admin", {"replSetGetStatus": 1}),
    (dict(CLUSTER), "replSetGetConfig", "admin", {"replSetGetConfig": 1}),
    (dict(CLUSTER), "serverStatus", "admin", {"serverStatus": 1}),
    ({"db": "local", "collection": "oplog.rs"}, "find", "local", {"find": "oplog.rs", "limit": 1}),
    ({"db": "local", "collection": "oplog.rs"}, "collStats", "local", {"collStats": "oplog.rs"}),
    ({"db": DB, "collection": "counters"}, "find", DB, {"find": "counters", "limit": 1}),
    (
        {"db": DB, "collection": "counters"},
        "update",
        DB,
        {"update": "counters", "updates": [{"q": {"_id": "none"}, "u": {"$set": {"a": 1}}}]},
    ),
    ({"db": DB, "collection": ""}, "listCollections", DB, {"listCollections": 1}),
]
ROLES: list[Sequence[Any]] = [
    [],
    ["clusterMonitor"],
    ["readAnyDatabase"],
    ["clusterMonitor", "readAnyDatabase"],
    ["backup"],
    [{"role": "read", "db": DB}],
    [{"role": "read", "db": "local"}],
    ["root"],
]


@asynccontextmanager
async def gateway_of(uri: str) -> AsyncIterator[MongoGateway]:
    gateway = open_gateway(uri, **PATIENT)
    try:
        yield gateway
    finally:
        await gateway.close()


async def doctor(guarded: GuardedSet, user: str, databases: Sequence[str] = ()) -> Diagnosis:
    async with gateway_of(guarded.uri(user)) as gateway:
        return await diagnose(gateway, databases)


def may(client: Any, db: str, command: dict[str, Any]) -> bool:
    try:
        client[db].command(command)
    except OperationFailure as error:
        return error.code != 13
    return True


@pytest.mark.parametrize("roles", ROLES, ids=str)
async def test_privileges_match_what_the_server_enforces(guarded_set: GuardedSet, roles: Sequence[Any]) -> None:
    guarded_set.admin[DB].counters.update_one({"_id": "orders"}, {"$inc": {"seq": 1}}, upsert=True)
    user = guarded_set.create_user(roles)
    async with gateway_of(guarded_set.uri(user)) as gateway:
        info = (await gateway.command("connectionStatus", showPrivileges=True))["authInfo"]
    held = info["authenticatedUserPrivileges"]
    with type(guarded_set.admin)(guarded_set.uri(user)) as client:
        for resource, action, db, command in PROBES:
            assert allows(held, resource, action) == may(client, db, command), (resource, action)


@pytest.mark.parametrize("databases", [(), (DB, "a'b\x1b[2J")], ids=["any", "named"])
async def test_doctor_commands_enable_every_job(guarded_set: GuardedSet, databases: Sequence[str]) -> None:
    user = guarded_set.create_user()
    before = await doctor(guarded_set, user, databases)
    assert before.access_control
    assert before.user == f"{user}@admin"
    assert {finding.verdict.state for finding in before.findings} == {State.DENIED}
    assert before.window is None
    for finding in before.findings:
        for text in finding.commands:
            assert text.isascii()
            assert text.isprintable()
            guarded_set.run(text)
    after = await doctor(guarded_set, user, databases)
    assert all(finding.ok for finding in after.findings), after.findings
    assert after.window is not None
    assert after.window.first is not None
    with type(guarded_set.admin)(guarded_set.uri(user)) as client, pytest.raises(OperationFailure):
        client[DB].counters.insert_one({})


async def test_doctor_names_and_restores_each_revoked_privilege(guarded_set: GuardedSet) -> None:
    user = guarded_set.create_user()
    for finding in (await doctor(guarded_set, user, [DB])).findings:
        for text in finding.commands:
            guarded_set.run(text)
    whole = await doctor(guarded_set, user, [DB])
    for job in (finding.verdict.job for finding in whole.findings):
        role = f"tallyglass{job.id.capitalize()}"
        others = [r for r in whole.roles if r != f"{role}@admin"]
        guarded_set.admin.admin.command("updateUser", user, roles=[role])
        for need in (*job.needs, *job.extras):
            one = {"resource": dict(need.resource), "actions": list(need.actions)}
            guarded_set.admin.admin.command("revokePrivilegesFromRole", role, privileges=[one])
            (found,) = [f for f in (await doctor(guarded_set, user, [DB])).findings if f.verdict.job.id == job.id]
            missing = [n.label for n in (*found.verdict.missing, *found.verdict.missing_extras)]
            assert need.label in missing
            assert found.verdict.state is (State.DENIED if need in job.needs else State.PARTLY)
            (text,) = found.commands
            guarded_set.run(text)
        guarded_set.admin.admin.command("updateUser", user, roles=[role, *(r.split("@")[0] for r in others)])
    assert all(finding.ok for finding in (await doctor(guarded_set, user, [DB])).findings)


async def test_built_in_roles_are_sufficient(guarded_set: GuardedSet) -> None:
    both = guarded_set.create_user(["clusterMonitor", {"role": "read", "db": DB}])
    found = await doctor(guarded_set, both)
    assert found.scope == (DB,)
    assert all(finding.ok for finding in found.findings)
    elsewhere = await doctor(guarded_set, both, ["other"])
    assert {finding.verdict.job.id: finding.verdict.state for finding in elsewhere.findings}["counters"] is State.DENIED
    everything = await doctor(guarded_set, guarded_set.create_user(["clusterMonitor", "readAnyDatabase"]))
    assert everything.scope == ()
    assert all(finding.ok for finding in everything.findings)


async def test_doctor_without_login(guarded_set: GuardedSet, replica_set: ReplicaSet, standalone: Standalone) -> None:
    stranger = await doctor(guarded_set, "")
    assert stranger.access_control
    assert not stranger.user
    assert not any(finding.ok or finding.commands for finding in stranger.findings)
    for servers, ok in ((replica_set, True), (standalone, False)):
        async with gateway_of(servers.uri) as gateway:
            found = await diagnose(gateway)
        assert not found.access_control
        assert all(finding.ok for finding in found.findings) is ok
    assert {finding.verdict.job.id for finding in found.findings if finding.impossible} == {
        "oplog",
        "incidents",
        "restore",
        "members",
    }


async def test_wrong_password_is_reported_but_not_shown(guarded_set: GuardedSet) -> None:
    async with gateway_of(guarded_set.uri("admin", "kAnArY-wrong")) as gateway:
        with pytest.raises(ConnectError, match="does not accept") as caught:
            await gateway.command("hello")
    assert not any(leak in str(caught.value) for leak in LEAKS)
