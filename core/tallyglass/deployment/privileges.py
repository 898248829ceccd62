"""What each job needs to be allowed, what this user is allowed, and the role that would add the rest.

The needs of each job are exact: a live test grants them and nothing else, does the job, and then takes each
action away and sees the server refuse a command. Who holds which privilege comes from ``connectionStatus``,
which everybody may run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tallyglass.mongo.mongosh import literal

Resource = Mapping[str, Any]
"""A resource as MongoDB writes it: ``{"cluster": True}`` or ``{"db": ..., "collection": ...}``, "" for any."""

CLUSTER: Resource = {"cluster": True}
_OWN = ("local", "config")
_OPLOG: Resource = {"db": "local", "collection": "oplog.rs"}


@dataclass(frozen=True, slots=True)
class Need:
    """One privilege: actions on a resource, and what is lost without it."""

    resource: Resource
    actions: tuple[str, ...]
    purpose: str

    @property
    def label(self) -> str:
        """Such as ``find on local.oplog.rs`` or ``replSetGetStatus on the cluster``."""
        return f"{', '.join(self.actions)} on {where(self.resource)}"


class State(StrEnum):
    """How much of a job this user may do."""

    ALLOWED = "allowed"
    PARTLY = "partly"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Job:
    """One job. Without its ``needs`` it cannot be done; without ``extras`` it says less."""

    id: str
    title: str
    needs: tuple[Need, ...]
    extras: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A job, how much of it is allowed, and what is missing for it and for its extras."""

    job: Job
    state: State
    missing: tuple[Need, ...] = ()
    missing_extras: tuple[Need, ...] = ()


def jobs(databases: Sequence[str] = ()) -> tuple[Job, ...]:
    """The jobs and their needs, with the data in these databases; none given means any database."""
    data: list[Resource] = [{"db": name, "collection": ""} for name in databases or ("",)]
    oplog = Need(_OPLOG, ("find",), "the entries themselves")
    size = Need(_OPLOG, ("collStats",), "how much of the oplog is used, and how long it will reach")
    kinds = [
        Need(one, ("listCollections", "listIndexes"), "what is capped, a view, or expires by itself") for one in data
    ]
    return (
        Job(
            "counters",
            "counters and their forecast",
            tuple(Need(one, ("find",), "counters and the ids they hand out") for one in data),
            (
                *(Need(one, ("listCollections", "listIndexes"), "the largest id that was used") for one in data),
                Need(_OPLOG, ("find",), "forecasts from the past hours, at once"),
                Need(CLUSTER, ("replSetGetConfig",), "samples of earlier runs, kept apart for each set"),
            ),
        ),
        Job(
            "oplog",
            "the oplog, live and past",
            (oplog,),
            (size, Need(CLUSTER, ("replSetGetStatus",), "the state of each member")),
        ),
        Job("incidents", "what people did", (oplog,), tuple(kinds)),
        Job(
            "restore",
            "planning a restore",
            (oplog,),
            (
                size,
                Need(CLUSTER, ("shardingState",), "whether this is a shard, of which no plan alone is right"),
                Need(CLUSTER, ("getParameter",), "the feature compatibility version that the spare needs"),
                *kinds,
                *(Need(one, ("find",), "the counters that would hand out ids twice") for one in data),
            ),
        ),
        Job("members", "the members of the set", (Need(CLUSTER, ("replSetGetStatus",), "their state and lag"),)),
    )


def allows(privileges: Iterable[Mapping[str, Any]], resource: Resource, action: str) -> bool:
    """Whether any of ``privileges`` (as connectionStatus shows them) grants ``action`` on ``resource``."""
    return any(
        ("anyAction" in held.get("actions", ()) or action in held.get("actions", ()))
        and _covers(held.get("resource", {}), resource)
        for held in privileges
    )


def readable(privileges: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The databases of which these privileges allow to read every collection, by name; empty where all may be read."""
    if allows(privileges, {"db": "", "collection": ""}, "find"):
        return ()
    named = (str(held.get("resource", {}).get("db") or "") for held in privileges)
    return tuple(
        name
        for name in dict.fromkeys(named)
        if name not in ("", "admin", *_OWN) and allows(privileges, {"db": name, "collection": ""}, "find")
    )


def judge(job: Job, privileges: Sequence[Mapping[str, Any]]) -> Verdict:
    """How much of a job these privileges allow."""
    missing = tuple(_lacking(job.needs, privileges))
    extras = tuple(_lacking(job.extras, privileges))
    state = State.DENIED if missing else State.PARTLY if extras else State.ALLOWED
    return Verdict(job, state, missing, extras)


def role_name(job: Job) -> str:
    """The name of the custom role for a job."""
    return f"tallyglass{job.id.capitalize()}"


def create_role(job: Job, *, extras: bool = True) -> str:
    """mongosh text that makes the exact role of a job, in the admin database."""
    needs = (*job.needs, *(job.extras if extras else ()))
    return (
        f'db.getSiblingDB("admin").createRole({{role: {literal(role_name(job))}, '
        f"privileges: [{', '.join(_privilege(need) for need in merged(needs))}], roles: []}})"
    )


def fix(verdict: Verdict, user: str, user_db: str, roles: Sequence[Mapping[str, Any]] = ()) -> tuple[str, ...]:
    """mongosh commands for an administrator that give ``user`` what a job lacks; empty where nothing is missing.

    ``roles`` are those the user has: a role of the job among them is widened, else it is made and granted.
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
    """One need for each resource, with all its actions."""
    by_resource: dict[str, tuple[Resource, dict[str, None], str]] = {}
    for need in needs:
        _, actions, _ = by_resource.setdefault(json.dumps(dict(need.resource)), (need.resource, {}, need.purpose))
        actions.update(dict.fromkeys(need.actions))
    return tuple(Need(resource, tuple(actions), purpose) for resource, actions, purpose in by_resource.values())


def where(resource: Resource) -> str:
    """A resource in words. Holds the name as stored: clean it before it is shown."""
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
    # A held "" stands for any database but local and config, and for any collection but system ones;
    # a wanted "" is only covered by a held "".
    db, collection = wanted["db"], wanted["collection"]
    in_db = held["db"] == db or (held["db"] == "" and db not in _OWN)
    return in_db and (
        held["collection"] == collection or (held["collection"] == "" and not collection.startswith("system."))
    )


def _privilege(need: Need) -> str:
    fields = ", ".join(f"{name}: {literal(value)}" for name, value in need.resource.items())
    return f"{{resource: {{{fields}}}, actions: [{', '.join(literal(action) for action in need.actions)}]}}"
