"""Whether a server is working for a program that prints nothing, such as on an index for mongorestore."""

from __future__ import annotations

from typing import Any

from tallyglass.mongo.gateway import Gateway

_HEARTBEATS = frozenset({"hello", "isMaster", "ismaster"})
"""A driver's connections wait for the answer of these for as long as they are open."""


async def works_for(gateway: Gateway, app: str) -> bool:
    """Whether the server runs an operation of the same user's clients that call themselves ``app``.

    Raises the errors of the gateway.
    """
    query: dict[str, Any] = {"$ownOps": True, "active": True, "appName": app}
    found = await gateway.command("currentOp", **query)
    return any(_HEARTBEATS.isdisjoint(operation.get("command") or {}) for operation in found.get("inprog", ()))
