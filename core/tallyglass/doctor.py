"""Diagnose what the user may read on this deployment, what is missing, and the commands that grant it.

Needs no privileges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tallyglass.deployment.cluster import Deployment, Kind, look_at
from tallyglass.deployment.privileges import JobVerdict, State, fix, jobs, judge, readable
from tallyglass.errors import PrivilegeError, TallyglassError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.window import window
from tallyglass.oplog.snapshot import OplogWindow
from tallyglass.text import clean_name

_ANYTHING: tuple[Mapping[str, Any], ...] = ({"resource": {"anyResource": True}, "actions": ["anyAction"]},)
_OPLOG_JOBS = frozenset({"oplog", "incidents", "restore"})


@dataclass(frozen=True, slots=True)
class JobFinding:
    """The finding on one job: what is allowed, and the commands that grant what is missing.

    ``impossible`` says why the job cannot be done on this deployment. ``commands`` are mongosh text in printable ASCII.
    """

    verdict: JobVerdict
    impossible: str = ""
    commands: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the job can be done in full."""
        return not self.impossible and self.verdict.state is State.ALLOWED


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of a deployment and its user. Every text is safe to show.

    ``user`` is ``name@db``, or empty without login. ``databases`` are those that the user may list. ``scope`` are those
    that the jobs were checked for, or empty for any. ``window`` is the oplog's, or None without an oplog; ``first`` and
    ``last`` are its bounds, or None if unread.
    """

    deployment: Deployment
    access_control: bool
    user: str
    roles: tuple[str, ...]
    databases: tuple[str, ...]
    scope: tuple[str, ...]
    first: Ts | None
    last: Ts | None
    findings: tuple[JobFinding, ...]
    window: OplogWindow | None = None


async def diagnose(gateway: Gateway, databases: Sequence[str] = ()) -> Diagnosis:
    """Diagnose the server and the user.

    ``databases`` limits the jobs to these databases. Without it, they are checked for the databases that the user may
    read completely, or for any.

    Raises ConnectError or ReadError if the server cannot be reached. Everything else that is missing is in the result.
    """
    deployment = await look_at(gateway)
    info = (await gateway.command("connectionStatus", showPrivileges=True)).get("authInfo", {})
    users = info.get("authenticatedUsers", ())
    access_control = bool(users) or not await _may(gateway, "serverStatus")
    held = tuple(info.get("authenticatedUserPrivileges", ())) if access_control else _ANYTHING
    name, home = (str(users[0].get("user", "")), str(users[0].get("db", ""))) if users else ("", "")
    roles = info.get("authenticatedUserRoles", ())
    no_oplog = deployment.no_oplog_because()
    scope = tuple(databases) or readable(held)
    findings = []
    for job in jobs(scope):
        verdict = judge(job, held)
        impossible = no_oplog if job.id in _OPLOG_JOBS else _no_members(deployment) if job.id == "members" else ""
        commands = fix(verdict, name, home, roles) if users and not impossible else ()
        findings.append(JobFinding(verdict, impossible, commands))
    reach = None if no_oplog else await _window(gateway)
    return Diagnosis(
        deployment,
        access_control,
        clean_name(f"{name}@{home}") if users else "",
        tuple(clean_name(f"{role.get('role')}@{role.get('db')}") for role in roles),
        tuple(clean_name(db) for db in await _databases(gateway)),
        tuple(clean_name(db) for db in scope),
        reach.first if reach else None,
        reach.last if reach else None,
        tuple(findings),
        reach,
    )


def _no_members(deployment: Deployment) -> str:
    return "" if deployment.kind is Kind.REPLICA_SET else f"This is a {deployment.kind}: it has no members."


async def _may(gateway: Gateway, command: str) -> bool:
    try:
        await gateway.command(command)
    except PrivilegeError:
        return False
    return True


async def _databases(gateway: Gateway) -> list[str]:
    try:
        return sorted(await gateway.list_databases())
    except TallyglassError:
        return []


async def _window(gateway: Gateway) -> OplogWindow | None:
    try:
        return await window(gateway, recent=True)
    except TallyglassError:
        return None
