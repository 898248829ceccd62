"""What this user may see of this deployment, what is missing, and what would mend it. Works with any privilege."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tallyglass.deployment.cluster import Deployment, Kind, look_at
from tallyglass.deployment.privileges import State, Verdict, fix, jobs, judge, readable
from tallyglass.errors import PrivilegeError, TallyglassError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.window import window
from tallyglass.oplog.snapshot import OplogWindow
from tallyglass.text import clean_name

_ANYTHING: tuple[Mapping[str, Any], ...] = ({"resource": {"anyResource": True}, "actions": ["anyAction"]},)
_OPLOG_JOBS = frozenset({"oplog", "incidents", "restore"})


@dataclass(frozen=True, slots=True)
class Finding:
    """One job: what is allowed, why it cannot be done here at all (``impossible``), and the commands that mend it.

    ``commands`` are mongosh text, printable ASCII.
    """

    verdict: Verdict
    impossible: str = ""
    commands: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the job can be done in full."""
        return not self.impossible and self.verdict.state is State.ALLOWED


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole answer, every text safe to show. ``user`` is ``name@db``; empty where nobody is logged in.

    ``databases`` are those that this user may list; ``scope`` those that the jobs were judged for, empty for any.
    ``window`` is the oplog's, None where there is no oplog; ``first`` and ``last`` bound it, None where unread.
    """

    deployment: Deployment
    access_control: bool
    user: str
    roles: tuple[str, ...]
    databases: tuple[str, ...]
    scope: tuple[str, ...]
    first: Ts | None
    last: Ts | None
    findings: tuple[Finding, ...]
    window: OplogWindow | None = None


async def diagnose(gateway: Gateway, databases: Sequence[str] = ()) -> Diagnosis:
    """Look at the server and at the user. ``databases`` narrows the jobs to these; without it those that the user
    may read whole, else any.

    Raises ConnectError or ReadError where the server cannot be reached; every other lack is part of the answer.
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
        findings.append(Finding(verdict, impossible, commands))
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
