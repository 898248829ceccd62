"""Diagnose what the user may read on this deployment, what is missing, and the commands that grant it.

Needs no privileges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tallyglass.deployment.clock import seconds_ahead
from tallyglass.deployment.cluster import Deployment, Kind, look_at
from tallyglass.deployment.privileges import JobVerdict, State, allows, fix, jobs, judge, readable
from tallyglass.deployment.product import Product
from tallyglass.errors import DeploymentError, PrivilegeError, RefusedError, TallyglassError
from tallyglass.evidence.kept import EvidenceKept, evidence_kept
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.read.window import window
from tallyglass.oplog.snapshot import OplogWindow
from tallyglass.tasks import answer_or
from tallyglass.text import clean_name
from tallyglass.trial import reads_one_namespace, why_unread

_ANYTHING: tuple[Mapping[str, Any], ...] = ({"resource": {"anyResource": True}, "actions": ["anyAction"]},)
LOG_IN = "Put a user into the connection string (mongodb://user@host/)."
ONE_BY_ONE = "It opens it for one collection at a time: tallyglass incidents --ns DB.COLLECTION"
_OPLOG_JOBS = frozenset({"oplog", "incidents"})


@dataclass(frozen=True, slots=True)
class JobFinding:
    """The finding on one job: what is allowed, and the commands that grant what is missing.

    ``impossible`` says why the job cannot be done on this deployment, or how its first reads failed; ``instead`` what
    can be done of it nevertheless. ``commands`` are mongosh text in printable ASCII.
    """

    verdict: JobVerdict
    impossible: str = ""
    commands: tuple[str, ...] = ()
    instead: str = ""

    @property
    def ok(self) -> bool:
        """Whether the job can be done in full."""
        return not self.impossible and self.verdict.state is State.ALLOWED


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The diagnosis of a deployment and its user. Every text is safe to show.

    ``user`` is ``name@db``, or empty without login. ``databases`` are those that the user may list. ``scope`` are those
    that the jobs were checked for, or empty for any. ``window`` is the oplog's, None without an oplog and if unread.
    ``kept`` is what the server keeps of who writes, None without an oplog. ``seconds_ahead`` is by how much its clock
    is ahead of the one here, None if it does not tell the time.
    """

    deployment: Deployment
    access_control: bool
    user: str
    roles: tuple[str, ...]
    databases: tuple[str, ...]
    scope: tuple[str, ...]
    findings: tuple[JobFinding, ...]
    window: OplogWindow | None = None
    kept: EvidenceKept | None = None
    seconds_ahead: float | None = None


async def diagnose(gateway: Gateway, databases: Sequence[str] = ()) -> Diagnosis:
    """Diagnose the server and the user.

    ``databases`` limits the jobs to these databases. Without it, they are checked for the databases that the user may
    read completely, or for any.

    Raises ConnectError or ReadError if the server cannot be reached. Everything else that is missing is in the result.
    """
    deployment = await look_at(gateway)
    info = (await gateway.command("connectionStatus", showPrivileges=True)).get("authInfo", {})
    users = info.get("authenticatedUsers", ())
    access_control = bool(users) or not await _may_read_status(gateway)
    held = tuple(info.get("authenticatedUserPrivileges", ())) if access_control else _ANYTHING
    name, home = (str(users[0].get("user", "")), str(users[0].get("db", ""))) if users else ("", "")
    roles = info.get("authenticatedUserRoles", ())
    no_oplog = deployment.no_oplog_because()
    scope = tuple(databases) or readable(held)
    findings = []
    for job in jobs(scope, direct_shard=_is_direct_shard(deployment)):
        verdict = judge(job, held)
        impossible = _impossible(job.id, deployment)
        if not impossible and verdict.state is not State.DENIED:
            impossible = await why_unread(gateway, job.id, scope)
        commands = fix(verdict, name, home, roles) if users and not impossible else ()
        by_one = bool(impossible) and job.id == "incidents" and deployment.product is Product.ATLAS
        instead = ONE_BY_ONE if by_one and await reads_one_namespace(gateway, scope) else ""
        findings.append(JobFinding(verdict, impossible, commands, instead))
    return Diagnosis(
        deployment,
        access_control,
        clean_name(f"{name}@{home}") if users else "",
        tuple(clean_name(f"{role.get('role')}@{role.get('db')}") for role in roles),
        tuple(clean_name(db) for db in sorted(await answer_or([], gateway.list_databases()))),
        tuple(clean_name(db) for db in scope),
        tuple(findings),
        None if no_oplog else await answer_or(None, window(gateway, recent=True)),
        None if no_oplog else await evidence_kept(gateway),
        await seconds_ahead(gateway),
    )


async def why_nothing(gateway: Gateway) -> TallyglassError:
    """The reason why no collection is seen on this deployment. Raises the errors of the gateway."""
    nothing = (await look_at(gateway)).no_data_because()
    if nothing:
        return DeploymentError(nothing)
    info = (await gateway.command("connectionStatus", showPrivileges=True)).get("authInfo", {})
    logged_in = bool(info.get("authenticatedUsers"))
    open_to_all = not logged_in and await _may_read_status(gateway)
    if open_to_all or allows(info.get("authenticatedUserPrivileges", ()), {"db": "", "collection": ""}, "find"):
        return DeploymentError("This deployment has no collections besides MongoDB's own.")
    if not logged_in:
        return PrivilegeError("This server requires a login.", LOG_IN)
    return PrivilegeError("This user may see no collection.", "tallyglass doctor names the role for it.")


def _is_direct_shard(deployment: Deployment) -> bool:
    """Whether this is a shard that refuses direct reads of collections: from MongoDB 8.0 on."""
    release = deployment.version.partition(".")[0]
    return bool(deployment.shard_name) and release.isdigit() and int(release) >= 8


def _impossible(job: str, deployment: Deployment) -> str:
    if job == "members":
        article = "an" if deployment.kind is Kind.UNINITIATED else "a"
        return "" if deployment.members else f"This is {article} {deployment.kind}: it has no members."
    if job == "restore":
        return deployment.no_data_because() or deployment.no_restore_because()
    return deployment.no_data_because() or (deployment.no_oplog_because() if job in _OPLOG_JOBS else "")


async def _may_read_status(gateway: Gateway) -> bool:
    try:
        await gateway.command("serverStatus")
    except PrivilegeError:
        return False
    except RefusedError:
        pass
    return True
