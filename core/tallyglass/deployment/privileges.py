"""The privileges that each job needs, those that the user has, and a role with the missing ones.

The needs of each job are exact: a live test grants only them, does the job, and then removes each action and checks
that the server refuses a command. The user's privileges come from ``connectionStatus``, which everyone may run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tallyglass.mongo.mongosh import literal

Resource = Mapping[str, Any]
"""A resource in MongoDB's notation: ``{"cluster": True}`` or ``{"db": ..., "collection": ...}``, "" for any."""

CLUSTER: Resource = {"cluster": True}
_OWN = ("local", "config")
_OPLOG: Resource = {"db": "local", "collection": "oplog.rs"}


@dataclass(frozen=True, slots=True)
class Need:
    """One privilege: actions on a resource, and what is unknown without it."""

    resource: Resource
    actions: tuple[str, ...]
    purpose: str

    @property
    def label(self) -> str:
        """Such as ``find on local.oplog.rs`` or ``replSetGetStatus on the cluster``."""
        return f"{', '.join(self.actions)} on {where(self.resource)}"


class State(StrEnum):
    """How much of a job the user may do."""

    ALLOWED = "allowed"
    PARTLY = "partly"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Job:
    """One job. It is impossible without its ``needs`` and incomplete without its ``extras``."""

    id: str
    title: str
    needs: tuple[Need, ...]
    extras: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """How much of a job is allowed, and the missing needs and extras."""

    job: Job
    state: State
    missing: tuple[Need, ...] = ()
    missing_extras: tuple[Need, ...] = ()


def jobs(databases: Sequence[str] = (), *, direct_shard: bool = False) -> tuple[Job, ...]:
    """Return the jobs and their needs for data in these databases, or in any database if none are given.

    ``direct_shard`` is true on a direct connection to a shard from MongoDB 8.0 on, which then reads only the oplog.
    """
    direct = [Need(CLUSTER, ("issueDirectShardOperations",), "collections of a shard, without a mongos")] * direct_shard
    data: list[Resource] = [{"db": name, "collection": ""} for name in databases or ("",)]
    oplog = Need(_OPLOG, ("find",), "the entries themselves")
    size = Need(_OPLOG, ("collStats",), "the used size of the oplog, and how far back it reaches")
    kinds = [
        Need(one, ("listCollections", "listIndexes"), "which collections are capped or views, or have a TTL index")
        for one in data
    ]
    return (
        Job(
            "counters",
            "counters and their forecast",
            (*(Need(one, ("find",), "counters and the ids they hand out") for one in data), *direct),
            (
                *(Need(one, ("listCollections", "listIndexes"), "the largest id in use") for one in data),
                Need(_OPLOG, ("find",), "forecasts from past hours at the start"),
                Need(CLUSTER, ("replSetGetConfig",), "samples of earlier runs, which are stored per replica set"),
            ),
        ),
        Job(
            "oplog",
            "the oplog, live and past",
            (oplog,),
            (size, Need(CLUSTER, ("replSetGetStatus",), "the state of each member")),
        ),
        Job(
            "incidents",
            "what people did",
            (oplog,),
            (
                *kinds,
                *direct,
                Need(CLUSTER, ("getParameter",), "how often TTL indexes remove what has expired"),
                Need(
                    CLUSTER,
                    ("getLog", "inprog", "listSessions"),
                    "who did it, from the server's log, connections and sessions",
                ),
            ),
        ),
        Job(
            "restore",
            "planning a restore",
            (oplog,),
            (
                size,
                Need(CLUSTER, ("shardingState",), "whether this is a shard, which must not be restored alone"),
                Need(CLUSTER, ("getParameter",), "the feature compatibility version for the spare"),
                Need(
                    CLUSTER, ("replSetGetConfig",), "whether an address leads to another set of the same name by then"
                ),
                *kinds,
                *(Need(one, ("find",), "the counters that would hand out ids twice") for one in data),
            ),
        ),
        Job(
            "members",
            "the members of the set",
            (Need(CLUSTER, ("replSetGetStatus",), "their state and lag"),),
            (Need(CLUSTER, ("replSetGetConfig",), "which are hidden or delayed: a delay looks like lag"),),
        ),
    )


def allows(privileges: Iterable[Mapping[str, Any]], resource: Resource, action: str) -> bool:
    """Whether any of ``privileges`` (as connectionStatus shows them) grants ``action`` on ``resource``."""
    return any(
        ("anyAction" in held.get("actions", ()) or action in held.get("actions", ()))
        and _covers(held.get("resource", {}), resource)
        for held in privileges
    )


def readable(privileges: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the names of the databases that are completely readable, or nothing if all databases are."""
    if allows(privileges, {"db": "", "collection": ""}, "find"):
        return ()
    named = (str(held.get("resource", {}).get("db") or "") for held in privileges)
    return tuple(
        name
        for name in dict.fromkeys(named)
        if name not in ("", "admin", *_OWN) and allows(privileges, {"db": name, "collection": ""}, "find")
    )


def judge(job: Job, privileges: Sequence[Mapping[str, Any]]) -> JobVerdict:
    """Return how much of a job these privileges allow."""
    missing = tuple(_lacking(job.needs, privileges))
    extras = tuple(_lacking(job.extras, privileges))
    state = State.DENIED if missing else State.PARTLY if extras else State.ALLOWED
    return JobVerdict(job, state, missing, extras)


def role_name(job: Job) -> str:
    """Return the name of the custom role for a job."""
    return f"tallyglass{job.id.capitalize()}"


def create_role(job: Job) -> str:
    """Return mongosh text that creates the exact role of a job in the admin database."""
    return (
        f'db.getSiblingDB("admin").createRole({{role: {literal(role_name(job))}, '
        f"privileges: [{', '.join(_privilege(need) for need in merged((*job.needs, *job.extras)))}], roles: []}})"
    )


def fix(verdict: JobVerdict, user: str, user_db: str, roles: Sequence[Mapping[str, Any]] = ()) -> tuple[str, ...]:
    """Return mongosh commands for an administrator that grant ``user`` what a job lacks; empty if nothing is missing.

    ``roles`` are the user's roles. If the role of the job is among them, it is extended, otherwise created and granted.
    """
    if verdict.state is State.ALLOWED:
        return ()
    name = role_name(verdict.job)
    admin = 'db.getSiblingDB("admin")'
    if any(role.get("role") == name and role.get("db") == "admin" for role in roles):
        lacking = ", ".join(_privilege(need) for need in merged((*verdict.missing, *verdict.missing_extras)))
        return (f"{admin}.grantPrivilegesToRole({literal(name)}, [{lacking}])",)
    grant = f'grantRolesToUser({literal(user)}, [{{role: {literal(name)}, db: "admin"}}])'
    return create_role(verdict.job), f"db.getSiblingDB({literal(user_db)}).{grant}"


def merged(needs: Iterable[Need]) -> tuple[Need, ...]:
    """Return one need per resource, with all its actions."""
    by_resource: dict[str, tuple[Resource, dict[str, None], str]] = {}
    for need in needs:
        _, actions, _ = by_resource.setdefault(json.dumps(dict(need.resource)), (need.resource, {}, need.purpose))
        actions.update(dict.fromkeys(need.actions))
    return tuple(Need(resource, tuple(actions), purpose) for resource, actions, purpose in by_resource.values())


def where(resource: Resource) -> str:
    """Describe a resource. The text contains the name as stored: clean it before it is shown."""
    if resource.get("cluster"):
        return "the cluster"
    db, collection = resource.get("db", ""), resource.get("collection", "")
    if not db:
        return f"{collection} in any database" if collection else "any database"
    return f"{db}.{collection}" if collection else f"database {db}"


def _lacking(needs: Iterable[Need], privileges: Sequence[Mapping[str, Any]]) -> Iterable[Need]:
    for need in needs:
        actions = tuple(action for action in need.actions if not allows(privileges, need.resource, action))
        if actions:
            yield Need(need.resource, actions, need.purpose)


def _covers(held: Resource, wanted: Resource) -> bool:
    if held.get("anyResource"):
        return True
    if wanted.get("cluster"):
        return bool(held.get("cluster"))
    if "db" not in held or "collection" not in held:
        return False
    # A granted "" covers any database except local and config, and any collection except system ones. Only a granted ""
    # covers a wanted "".
    db, collection = wanted["db"], wanted["collection"]
    in_db = held["db"] == db or (held["db"] == "" and db not in _OWN)
    return in_db and (
        held["collection"] == collection or (held["collection"] == "" and not collection.startswith("system."))
    )


def _privilege(need: Need) -> str:
    fields = ", ".join(f"{name}: {literal(value)}" for name, value in need.resource.items())
    return f"{{resource: {{{fields}}}, actions: [{', '.join(literal(action) for action in need.actions)}]}}"
