"""A name for a deployment that is the same in every run, independent of the names of its members."""

from __future__ import annotations

import hashlib

from tallyglass.errors import PrivilegeError, RefusedError
from tallyglass.mongo.gateway import Document, Gateway


async def set_id(gateway: Gateway) -> str:
    """The id that a replica set got when it was initiated, which two sets of one name do not share; empty if it has
    none, or this user may not read it. Raises ReadError where no server answers: it is not known then."""
    try:
        config = await gateway.command("replSetGetConfig")
        return str(config["config"]["settings"]["replicaSetId"])
    except (PrivilegeError, RefusedError, KeyError, TypeError):
        return ""


async def identify(gateway: Gateway, hello: Document) -> str:
    """A name for this deployment that stays the same across runs; empty if no reliable one exists. Raises ReadError as
    :func:`set_id`."""
    identity = await set_id(gateway)
    if not identity and hello.get("setName"):
        identity = f"{hello['setName']}@{','.join(sorted(map(str, hello.get('hosts', ()))))}"
    if not identity:
        try:
            identity = str((await gateway.command("serverStatus")).get("host", ""))
        except (PrivilegeError, RefusedError):
            return ""
    return hashlib.sha256(identity.encode()).hexdigest()[:16] if identity else ""
