"""The feed of the deployment itself: its kind, its members, its version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tallyglass.mongo.gateway import Gateway

if TYPE_CHECKING:
    from tallyglass.deployment.cluster import Deployment

_LOOK_SECONDS = 5.0
"""How often the members and their states are read: twice in the 10 s within which every page is up to date again."""


async def watch_deployment(gateway: Gateway) -> AsyncIterator[Deployment]:
    """Yields the kind of the deployment every few seconds. What it reads with is imported in the background thread."""
    from tallyglass.deployment.cluster import look_at

    while True:
        yield await look_at(gateway)
        await asyncio.sleep(_LOOK_SECONDS)
