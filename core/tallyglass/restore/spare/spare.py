"""What the spare is: a scratch server that must be empty, alone, of the source's version, and free to apply all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallyglass.deployment.cluster import Kind, look_at
from tallyglass.errors import PrivilegeError, ReadError, TallyglassError
from tallyglass.mongo.gateway import Gateway, Namespace

_OWN = frozenset({"admin", "config", "local"})

VIEW_OPENER = "tallyglass_view_opener"
"""A view that the commands create if the replay needs ``system.views``, and drop afterwards."""


MARKS = Namespace("admin", "tallyglass_spare")
"""Where a spare keeps the marks of the restores that wrote to it: one document each, whose ``_id`` is the mark."""


@dataclass(frozen=True, slots=True)
class Spare:
    """The facts about a spare; None if they could not be read. ``free_to_apply`` tells whether this user may run
    any action, or whether access control is off. ``trouble`` is empty if it answered."""

    address: str
    version: str = ""
    fcv: str | None = None
    kind: Kind | None = None
    set_name: str = ""
    sharded: bool = False
    members: tuple[str, ...] = ()
    databases: tuple[str, ...] = ()
    ttl_monitor: bool | None = None
    free_to_apply: bool | None = None
    trouble: str = ""


async def inspect_spare(gateway: Gateway, address: str) -> Spare:
    """Read the facts from the spare. If it does not answer, the result says so in ``trouble``."""
    try:
        deployment = await look_at(gateway)
        names = await gateway.list_databases()
        return Spare(
            address=address,
            version=deployment.version,
            fcv=await feature_version(gateway),
            kind=deployment.kind,
            set_name=deployment.set_name,
            sharded=deployment.sharded,
            members=tuple(member.address for member in deployment.members) or (deployment.me or address,),
            databases=tuple(name for name in names if name not in _OWN),
            ttl_monitor=await _ttl_monitor(gateway),
            free_to_apply=await may_do_anything(gateway),
        )
    except TallyglassError as error:
        return Spare(address, trouble=str(error))


async def feature_version(gateway: Gateway) -> str | None:
    """The feature compatibility version, such as ``6.0``; None if it may not be read."""
    try:
        answer = await gateway.command("getParameter", featureCompatibilityVersion=1)
    except (PrivilegeError, ReadError):
        return None
    held = answer.get("featureCompatibilityVersion")
    return str(held.get("version")) if isinstance(held, Mapping) else None


async def _ttl_monitor(gateway: Gateway) -> bool | None:
    try:
        answer = await gateway.command("getParameter", ttlMonitorEnabled=1)
    except (PrivilegeError, ReadError):
        return None
    return bool(answer.get("ttlMonitorEnabled"))


async def may_do_anything(gateway: Gateway) -> bool | None:
    """Whether the user holds ``anyAction`` on any resource, or access control is off; None if unknown."""
    answer = await gateway.command("connectionStatus", showPrivileges=True)
    info = answer.get("authInfo", {})
    if not info.get("authenticatedUsers"):
        return await _access_control_is_off(gateway)
    return any(_is_everything(row) for row in info.get("authenticatedUserPrivileges", ()))


async def _access_control_is_off(gateway: Gateway) -> bool | None:
    try:
        await gateway.command("getCmdLineOpts")
    except PrivilegeError:
        return False
    except ReadError:
        return None
    return True


def _is_everything(row: Mapping[str, Any]) -> bool:
    return bool(row.get("resource", {}).get("anyResource")) and "anyAction" in row.get("actions", ())
