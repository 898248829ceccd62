"""The shards of a sharded cluster: those that the user names one by one, or those that a mongos lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tallyglass.deployment.clock import seconds_ahead
from tallyglass.deployment.cluster import Deployment, look_at
from tallyglass.errors import DeploymentError, PrivilegeError
from tallyglass.mongo.cluster_gateway import ClusterGateway
from tallyglass.mongo.gateway import Document, Gateway, Namespace
from tallyglass.mongo.mongo_gateway import MongoGateway
from tallyglass.tasks import answers_by_name
from tallyglass.text import clean, clean_name

CONFIG_SHARDS = Namespace("config", "shards")
"""Where a mongos lists the shards: ``{_id: "s0", host: "s0/a:27018,b:27018", state: 1, ...}``."""

CLOCK_SECONDS = 5.0
"""Clocks of shards that differ by more are reported: wall times of different shards do not compare."""


@dataclass(frozen=True, slots=True)
class Shards:
    """The shards of a cluster. Every text is safe to show.

    ``gateways`` are those to read, by name; including one that does not answer now, under the name of its replica set.
    ``left_out`` has a sentence for each shard that is not read, with the reason; ``warnings`` are other sentences.
    """

    gateways: Mapping[str, Gateway]
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Identified:
    """One shard: what it is, and the offset of its clock from the local one in seconds."""

    deployment: Deployment
    clock: float | None = None


async def shards_of(gateway: Gateway) -> Shards | None:
    """The shards behind a gateway; None if it is one replica set or a standalone.

    Through a mongos they come from ``config.shards`` and are read with the same user. Raises DeploymentError if
    nothing is left to read, and the first error if no shard answers.
    """
    if isinstance(gateway, ClusterGateway):
        return await _identify(gateway.shards)
    if not isinstance(gateway, MongoGateway) or (await gateway.command("hello")).get("msg") != "isdbgrid":
        return None
    try:
        rows = [row async for row in gateway.find(CONFIG_SHARDS, {})]
    except PrivilegeError:
        raise DeploymentError(
            "This is a mongos, and its user may not read config.shards.",
            "Grant clusterMonitor, or name each shard with --shard.",
        ) from None
    if not rows:
        raise DeploymentError("This mongos lists no shards.", "Name each shard with --shard.")
    return await _identify(dict(_listed(gateway, rows)))


def _listed(router: MongoGateway, rows: Iterable[Document]) -> Iterable[tuple[str, Gateway]]:
    for row in rows:
        set_name, slash, hosts = str(row.get("host", "")).partition("/")
        if slash and hosts:
            yield clean_name(str(row.get("_id", set_name))), router.sibling(hosts, set_name)


async def _identify(given: Mapping[str, Gateway]) -> Shards:
    answers, errors = await answers_by_name({name: _identified(gateway) for name, gateway in given.items()})
    gateways: dict[str, Gateway] = {}
    known: dict[str, _Identified] = {}
    left_out: list[str] = []
    for label, gateway in given.items():
        one = answers.get(label)
        if one is None:
            gateways[label] = gateway
            continue
        name = one.deployment.shard_name or one.deployment.set_name or label
        reason = _why_left_out(one.deployment, name, known)
        if reason:
            left_out.append(f"{name} is left out: {reason}")
        else:
            gateways[name], known[name] = gateway, one
    if not known:
        raise next(iter(errors.values()), DeploymentError("None of the shards can be read.", " ".join(left_out)))
    return Shards(gateways, tuple(left_out), tuple(_warnings(known)))


async def _identified(gateway: Gateway) -> _Identified:
    return _Identified(await look_at(gateway), await seconds_ahead(gateway))


def _why_left_out(found: Deployment, name: str, known: Mapping[str, _Identified]) -> str:
    """Why a shard is not read; empty if it is read."""
    reason = found.no_oplog_because()
    if reason:
        return reason
    if found.config_server:
        return "It is a config server, which holds no data of applications."
    if name in known:
        return "Another URI names it already."
    for other, one in known.items():
        cluster = one.deployment.cluster_id
        if cluster and found.cluster_id and cluster != found.cluster_id:
            return f"It belongs to another cluster than {other}."
    return ""


def _warnings(known: Mapping[str, _Identified]) -> Iterable[str]:
    versions = sorted({one.deployment.version for one in known.values()})
    if len(versions) > 1:
        yield f"The shards run different versions: {clean(', '.join(versions))}."
    clocks = sorted((one.clock, name) for name, one in known.items() if one.clock is not None)
    if clocks and clocks[-1][0] - clocks[0][0] > CLOCK_SECONDS:
        apart = clocks[-1][0] - clocks[0][0]
        yield (
            f"The clocks of {clocks[0][1]} and {clocks[-1][1]} are {apart:.0f} s apart: entries are in order of "
            "cluster time, and their wall times do not compare."
        )
