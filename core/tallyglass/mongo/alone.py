"""Find a member that can be read although the names of its set cannot be reached from here, as through a tunnel.

A driver asks the address in the connection string for the members of the set, and then connects to those names only.
Behind ``ssh -L`` or ``kubectl port-forward`` they do not resolve or do not answer, while the address itself does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tallyglass.errors import ConnectError
from tallyglass.text import clean_name, first_names

CONNECT_SECONDS = 2.0
"""How long a member may take to accept a connection."""

_MOST_NAMED = 3
"""Names of unreachable members in one sentence."""


@dataclass(frozen=True, slots=True)
class Alone:
    """One member that is read directly: its address as in the connection string, and the names that its set uses."""

    address: str
    members: tuple[str, ...]

    def __str__(self) -> str:
        names = first_names(self.members, _MOST_NAMED)
        address = clean_name(self.address)
        return f"This set calls its members {names}, which cannot be reached from here: reading {address} alone."


async def cut_off(address: str, hello: Mapping[str, Any], wanted: str) -> Alone | None:
    """``address`` as the only way to its set, by its answer to ``hello``; None if a member can be reached by name.

    Raises ConnectError if it does not belong to the set that the connection string names, ``wanted``.
    """
    set_name = str(hello.get("setName", ""))
    if wanted and set_name != wanted:
        raise ConnectError(
            _other_set(address, hello, set_name), "Correct or remove replicaSet in the connection string."
        )
    names = tuple(str(name) for kind in ("hosts", "passives") for name in hello.get(kind, ()))
    if not set_name or address in names or any(await asyncio.gather(*map(_accepts, names))):
        return None
    return Alone(address, names)


def _other_set(address: str, hello: Mapping[str, Any], set_name: str) -> str:
    shown = clean_name(address)
    if set_name:
        return f"{shown} belongs to another replica set than the one in the connection string: {clean_name(set_name)}."
    kind = "mongos" if hello.get("msg") == "isdbgrid" else "standalone"
    return f"{shown} is a {kind}, not a member of the replica set in the connection string."


async def _accepts(name: str) -> bool:
    host, _, port = name.rpartition(":")
    with contextlib.suppress(OSError, ValueError, TimeoutError):
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        writer.close()
        return True
    return False
