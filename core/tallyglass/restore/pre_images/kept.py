"""Whether one collection keeps pre-images, for how long, and how to switch them on: as one line to show."""

from __future__ import annotations

from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.restore.pre_images.settings import COST, how_to_enable, keeps_images, oldest_image, retention
from tallyglass.text import clean_name


async def kept_line(gateway: Gateway, shown: str, *, advice: bool = True) -> str:
    """What the collection that is shown under this name keeps; with ``advice`` how to switch images on. Raises the
    errors of the gateway."""
    hello = await gateway.command("hello")
    if not hello.get("setName") and hello.get("msg") != "isdbgrid":
        return "none: a standalone has no change streams, and so no images."
    try:
        found = await gateway.list_collections(shown.partition(".")[0])
    except (PrivilegeError, ReadError) as error:
        return f"unknown. {error.title}"
    info = next((one for one in found if clean_name(str(one.ns)) == shown), None)
    keeps = keeps_images(info) if info else None
    if info is None or keeps is None:
        return f"unknown: the options of {shown} may not be read."
    if not keeps:
        command = how_to_enable(info.ns.db, info.ns.collection)
        return (
            f"none of {shown}, so an undo needs a backup."
            + advice * f" To switch them on, in mongosh: {command} {COST}"
        )
    return f"of {shown}, kept {(await retention(gateway)).words}{await _since(gateway, info)}."


async def _since(gateway: Gateway, info: CollectionInfo) -> str:
    try:
        oldest = await oldest_image(gateway, info.uuid)
    except (PrivilegeError, ReadError):
        return ""
    return f"; the oldest held is from {oldest:%Y-%m-%d %H:%M:%SZ}" if oldest else "; none is held yet"
