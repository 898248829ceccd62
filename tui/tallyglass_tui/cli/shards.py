"""Several shards for one command: opened side by side, each named, those that cannot be read left out and said."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from tallyglass.errors import DeploymentError, TallyglassError
from tallyglass_tui.cli.headless import bounded
from tallyglass_tui.cli.options import Given, target_of
from tallyglass_tui.cli.outermost import warn

if TYPE_CHECKING:
    from tallyglass.deployment.cluster import Deployment
    from tallyglass.mongo.gateway import Gateway

Answer = TypeVar("Answer")
_CLOSE_SECONDS = 5.0

shard_option = click.option(
    "--shard",
    "shards",
    multiple=True,
    metavar="URI",
    help="One shard of a cluster; repeat it. All of them are read side by side, in place of URI.",
)


def ask_shards(
    given: Given, uris: Sequence[str], work: Callable[[Mapping[str, Gateway]], Awaitable[Answer]], seconds: float
) -> Answer:
    """Run ``work`` on the shards that can be read, by name. Raises DeploymentError where none can."""
    return asyncio.run(_on_shards(given, uris, work, seconds))


async def _on_shards(
    given: Given, uris: Sequence[str], work: Callable[[Mapping[str, Gateway]], Awaitable[Answer]], seconds: float
) -> Answer:
    from tallyglass.mongo.client import open_gateway

    gateways: list[Gateway] = []
    shards: dict[str, Gateway] = {}
    deployments: dict[str, Deployment] = {}
    try:
        for uri in uris:
            target = target_of(Given(uri, "", given.password_file, given.driver))
            gateway: Gateway = open_gateway(target)
            gateways.append(gateway)
            await _add(gateway, shards, deployments, seconds)
        if not shards:
            raise DeploymentError("None of the shards can be read.", "Each --shard names the replica set of one shard.")
        versions = sorted({found.version for found in deployments.values()})
        if len(versions) > 1:
            warn(f"the shards run different versions: {', '.join(versions)}.")
        return await work(shards)
    finally:
        for gateway in gateways:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await gateway.close()


async def _add(
    gateway: Gateway, shards: dict[str, Gateway], deployments: dict[str, Deployment], seconds: float
) -> None:
    """Take in one shard, or say why it is left out."""
    from tallyglass.deployment.cluster import look_at

    try:
        found = await bounded(look_at(gateway), seconds)
    except TallyglassError as error:
        warn(f"a shard is left out: {error}")
        return
    name = found.shard_name or found.set_name or found.label
    reason = found.no_oplog_because()
    if found.config_server:
        reason = "It is a config server, which holds no data of applications."
    elif name in shards:
        reason = "Another --shard names it already."
    elif other := next((known for known in deployments.values() if _another_cluster(known, found)), None):
        reason = f"It belongs to another cluster than {other.shard_name}."
    if reason:
        warn(f"{name} is left out: {reason}")
        return
    shards[name], deployments[name] = gateway, found


def _another_cluster(one: Deployment, other: Deployment) -> bool:
    return bool(one.cluster_id and other.cluster_id and one.cluster_id != other.cluster_id)
