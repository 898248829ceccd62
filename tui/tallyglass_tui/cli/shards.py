"""The shards that a command reads in parallel; problems with them go to stderr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tallyglass_tui.cli.error_boundary import warn
from tallyglass_tui.cli.headless import bounded

if TYPE_CHECKING:
    from tallyglass.mongo.gateway import Gateway


async def named_shards(gateway: Gateway, seconds: float) -> Mapping[str, Gateway] | None:
    """The shards behind a gateway by name, None where it is one deployment with an oplog.

    Errors: as for ``shards_of``, and DeploymentError where there is no oplog to read.
    """
    from tallyglass.deployment.cluster import require_oplog
    from tallyglass.deployment.shards import shards_of

    found = await bounded(shards_of(gateway), seconds)
    if found is None:
        await bounded(require_oplog(gateway), seconds)
        return None
    for sentence in (*found.left_out, *found.warnings):
        warn(sentence)
    return found.gateways
