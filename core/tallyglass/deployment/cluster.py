"""What kind of deployment this is, and what that leaves: its members, version, and whether it has an oplog to read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.gateway import Document, Gateway
from tallyglass.text import clean, clean_name


class Kind(StrEnum):
    """The kinds of deployment that are told apart."""

    REPLICA_SET = "replica set"
    STANDALONE = "standalone"
    MONGOS = "mongos"
    UNINITIATED = "uninitiated replica set"


@dataclass(frozen=True, slots=True)
class Member:
    """One member of the set: ``state`` as the server names it, empty where it does not say."""

    address: str
    state: str
    me: bool = False


@dataclass(frozen=True, slots=True)
class Deployment:
    """What ``hello`` and ``buildInfo`` say, safe to show.

    ``sharded`` is true for any part of a sharded cluster; ``shard_unknown`` where this user may not ask.
    """

    kind: Kind
    version: str
    set_name: str = ""
    primary: str = ""
    me: str = ""
    sharded: bool = False
    arbiter: bool = False
    members: tuple[Member, ...] = ()
    shard_unknown: bool = False

    @property
    def has_oplog(self) -> bool:
        """Whether there is an oplog to read here."""
        return self.kind is Kind.REPLICA_SET and not self.arbiter

    @property
    def label(self) -> str:
        """One short line: the set's name, or the kind."""
        return self.set_name or str(self.kind)

    def no_oplog_because(self) -> str:
        """One sentence for a panel that needs the oplog; empty where there is one."""
        if self.has_oplog:
            return ""
        if self.arbiter:
            return "This is an arbiter: it holds no data and no oplog. Connect to another member."
        return {
            Kind.STANDALONE: "A standalone has no oplog. Restart it with --replSet to get one.",
            Kind.MONGOS: "A mongos has no oplog. Connect to one shard's replica set to follow its own.",
            Kind.UNINITIATED: "This replica set was never initiated, so it has no oplog yet.",
        }.get(self.kind, "")


async def look_at(gateway: Gateway) -> Deployment:
    """Ask the server what it is. Member states need replSetGetStatus; without it they come from ``hello``."""
    hello = await gateway.command("hello")
    build = await gateway.command("buildInfo")
    if hello.get("msg") == "isdbgrid":
        kind = Kind.MONGOS
    elif hello.get("setName"):
        kind = Kind.REPLICA_SET
    elif hello.get("isreplicaset"):
        kind = Kind.UNINITIATED
    else:
        kind = Kind.STANDALONE
    shard = kind is Kind.MONGOS or await _is_shard_part(gateway, hello)
    return Deployment(
        kind=kind,
        version=clean(str(build.get("version", ""))),
        set_name=clean_name(str(hello.get("setName", ""))),
        primary=clean_name(str(hello.get("primary", ""))),
        me=clean_name(str(hello.get("me", ""))),
        sharded=bool(shard),
        arbiter=bool(hello.get("arbiterOnly")),
        members=await _members(gateway, hello) if kind is Kind.REPLICA_SET else (),
        shard_unknown=shard is None,
    )


async def _is_shard_part(gateway: Gateway, hello: Document) -> bool | None:
    """None where this user may not ask."""
    if hello.get("configsvr"):
        return True
    try:
        state = await gateway.command("shardingState")
    except PrivilegeError:
        return None
    except ReadError:
        return False
    return bool(state.get("enabled"))


async def _members(gateway: Gateway, hello: Document) -> tuple[Member, ...]:
    try:
        status = await gateway.command("replSetGetStatus")
    except (PrivilegeError, ReadError):
        primary = hello.get("primary")
        return tuple(
            Member(clean_name(str(host)), "PRIMARY" if host == primary else "", host == hello.get("me"))
            for host in [*hello.get("hosts", ()), *hello.get("passives", ()), *hello.get("arbiters", ())]
        )
    return tuple(
        Member(clean_name(str(row.get("name", ""))), clean(str(row.get("stateStr", ""))), bool(row.get("self")))
        for row in status.get("members", ())
    )
