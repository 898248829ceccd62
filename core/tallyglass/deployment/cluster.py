"""What kind of deployment this is, its members, version, and whether it has an oplog to read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tallyglass.deployment.members import SetMember, old_data, read_members
from tallyglass.deployment.product import Product, product_of, server_name, untested
from tallyglass.errors import DeploymentError, PrivilegeError, RefusedError
from tallyglass.mongo.alone import Alone
from tallyglass.mongo.gateway import Document, Gateway
from tallyglass.tasks import answers_by_name
from tallyglass.text import clean, clean_name

if TYPE_CHECKING:
    from tallyglass.mongo.cluster_gateway import ClusterGateway

_TOGETHER = "Back up and restore all shards and the config servers to one cluster time, with the balancer stopped."


class Kind(StrEnum):
    """The kinds of deployment."""

    REPLICA_SET = "replica set"
    STANDALONE = "standalone"
    MONGOS = "mongos"
    CLUSTER = "sharded cluster"
    UNINITIATED = "uninitiated replica set"


@dataclass(frozen=True, slots=True)
class Deployment:
    """What ``hello`` and ``buildInfo`` report, safe to show.

    ``sharded`` is true for any part of a sharded cluster; ``shard_unknown`` if this user may not read it. A shard knows
    its name, its cluster's id and its config servers; ``config_server`` is true for a member of those. ``alone`` is
    the only member that is read, because the names of the others cannot be reached. ``old_data`` says how old the data
    are if a delayed, recovering or lagging member is read. ``serves_reads`` is false for a member that is neither
    primary nor secondary. ``version`` is that of MongoDB, also of a product that is compatible with it; ``server``
    names the ``product`` with its own version. ``untested`` says so if the tests are not run on this server.
    """

    kind: Kind
    version: str
    set_name: str = ""
    primary: str = ""
    me: str = ""
    sharded: bool = False
    arbiter: bool = False
    members: tuple[SetMember, ...] = ()
    shard_unknown: bool = False
    shard_name: str = ""
    cluster_id: str = ""
    config_servers: str = ""
    config_server: bool = False
    alone: Alone | None = None
    old_data: str = ""
    serves_reads: bool = True
    product: Product = Product.MONGODB
    server: str = ""
    untested: str = ""

    @property
    def has_oplog(self) -> bool:
        """Whether there is an oplog to read here."""
        return self.kind in (Kind.REPLICA_SET, Kind.CLUSTER) and not self.arbiter and self.product.keeps_oplog

    @property
    def reached_at(self) -> str:
        """``host:port`` of the only member that can be reached; empty if the set's own names can be."""
        return self.alone.address if self.alone else ""

    @property
    def release(self) -> str:
        """The version for a short line, with the product if that is not MongoDB."""
        return self.version if self.product.keeps_oplog else self.server.partition(",")[0]

    @property
    def label(self) -> str:
        """One short line: the set's name, or the kind."""
        return self.set_name or str(self.kind)

    @property
    def title(self) -> str:
        """The kind and, where it has one, the set's name."""
        return f"{self.kind} {self.set_name}".rstrip()

    def sharding_advice(self) -> str:
        """What membership in a sharded cluster means for a restore; empty if it is not a member."""
        if self.config_server:
            return "Its data say where each chunk lives: restore it together with every shard, never alone."
        if self.kind is Kind.CLUSTER:
            return _TOGETHER
        if not self.shard_name:
            return ""
        return (
            "This oplog holds only this shard's writes. A restore of this shard alone does not match the others: what "
            f"moved since the backup would be there twice or not at all. {_TOGETHER}"
        )

    def no_data_because(self) -> str:
        """One sentence for what reads collections; empty if this server serves them."""
        if self.arbiter or self.kind is Kind.UNINITIATED:
            return self.no_oplog_because()
        if self.serves_reads:
            return ""
        return "This member serves no reads: it is starting, recovering or rolling back. Connect to another member."

    def no_oplog_because(self) -> str:
        """One sentence for a panel that needs the oplog; empty if there is an oplog."""
        if self.has_oplog:
            return ""
        if not self.product.keeps_oplog:
            return f"{self.product} has no oplog that can be relied on. Counters and ObjectIds can be read."
        if self.arbiter:
            return "This is an arbiter: it holds no data and no oplog. Connect to another member."
        return {
            Kind.STANDALONE: "A standalone has no oplog. Restart it with --replSet to get one.",
            Kind.MONGOS: "A mongos has no oplog. Each shard has one: connect to a shard's replica set.",
            Kind.UNINITIATED: "This replica set was never initiated, so it has no oplog yet.",
        }.get(self.kind, "")

    def no_restore_because(self) -> str:
        """One sentence for what replays an oplog; empty if that is possible here."""
        if self.sharded:
            return "This is part of a sharded cluster: its data cannot be replayed from one oplog."
        return self.no_oplog_because()


async def look_at(gateway: Gateway) -> Deployment:
    """Read what the server is. Member states need replSetGetStatus; without it they come from ``hello``.

    Several shards that are read as one are one deployment; its members are those of all shards.
    """
    # Imported here: a screen needs only the names of this module, and begins before the driver is loaded.
    from tallyglass.mongo.cluster_gateway import ClusterGateway
    from tallyglass.mongo.mongo_gateway import MongoGateway

    if isinstance(gateway, ClusterGateway):
        return await _look_at_cluster(gateway)
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
    state = await _sharding_state(gateway) if kind is not Kind.MONGOS else {}
    config_server = bool(hello.get("configsvr"))
    is_part = kind is Kind.MONGOS or config_server or bool(state and state.get("enabled"))
    unknown, state = state is None, state or {}
    version = clean(str(build.get("version", "")))
    product = product_of(hello, build)
    server = server_name(product, build)
    return Deployment(
        kind=kind,
        version=version,
        set_name=clean_name(str(hello.get("setName", ""))),
        primary=clean_name(str(hello.get("primary", ""))),
        me=clean_name(str(hello.get("me", ""))),
        sharded=is_part,
        arbiter=bool(hello.get("arbiterOnly")),
        members=await read_members(gateway, hello) if kind is Kind.REPLICA_SET else (),
        shard_unknown=unknown and not is_part,
        shard_name=clean_name(str(state.get("shardName", ""))),
        cluster_id=clean(str(state.get("clusterId", ""))),
        config_servers=clean_name(str(state.get("configServer", "")), 400),
        config_server=config_server,
        alone=gateway.link.alone if isinstance(gateway, MongoGateway) else None,
        old_data=old_data(hello),
        product=product,
        server=server,
        untested=untested(product, version, server),
        serves_reads=kind is not Kind.REPLICA_SET or bool(hello.get("isWritablePrimary") or hello.get("secondary")),
    )


async def require_oplog(gateway: Gateway) -> None:
    """Raise DeploymentError where this deployment has no oplog to read."""
    reason = (await look_at(gateway)).no_oplog_because()
    if reason:
        raise DeploymentError(reason)


async def _look_at_cluster(cluster: ClusterGateway) -> Deployment:
    answers, _ = await answers_by_name({name: look_at(shard) for name, shard in cluster.shards.items()})
    found = [*answers.values()]
    names = [(one.shard_name or one.set_name) if (one := answers.get(name)) else name for name in cluster.shards]
    return Deployment(
        kind=Kind.CLUSTER,
        version=", ".join(sorted({one.version for one in found})),
        server=", ".join(sorted({one.server for one in found})),
        untested=next((one.untested for one in found if one.untested), ""),
        set_name=clean_name(" + ".join(names), 200),
        sharded=True,
        members=tuple(member for one in found for member in one.members),
        cluster_id=next((one.cluster_id for one in found if one.cluster_id), ""),
        config_servers=next((one.config_servers for one in found if one.config_servers), ""),
        old_data=" ".join(one.old_data for one in found if one.old_data),
    )


async def _sharding_state(gateway: Gateway) -> Document | None:
    """What a shard reports about its cluster, nothing where the server has no such command; None if this user may not
    read that."""
    try:
        return await gateway.command("shardingState")
    except PrivilegeError:
        return None
    except RefusedError:
        return {}
