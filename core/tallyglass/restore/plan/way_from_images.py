"""Whether an incident can be undone from pre-images, or from a backup where the server holds none."""

from __future__ import annotations

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import InputError, PrivilegeError
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.read.entries import edge, stamp
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.catalogue.usable_backup import usable_backup
from tallyglass.restore.checks import images
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.way import FROM_IMAGES, WITHOUT_SPARE, Way
from tallyglass.restore.pre_images.damaged import live_collections
from tallyglass.restore.pre_images.settings import ROLE, how_to_enable, keeps_images, retention
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.undo.incident_scope import written
from tallyglass.restore.undo.sources.images import ImageKey, images_between
from tallyglass.text import clean_name


async def way_from_images(gateway: Gateway, incident: Incident, request: RestoreRequest) -> Way:
    """The way, by its first image: only a plan proves the others. Raises the errors of the gateway."""
    for check in images.possible(await look_at(gateway), incident):
        if check.level is Level.BLOCK:
            return Way(FROM_IMAGES, False, check.title, check.advice)
    if incident.kind == "transaction":
        return Way(FROM_IMAGES, None, "The plan reads which collections the transaction wrote.")
    live = await live_collections(gateway, incident)
    info = next((one for name, one in live.items() if clean_name(name) == incident.ns), None)
    if info is None:
        return Way(FROM_IMAGES, False, f"{incident.ns} is not there any more.", images.GONE)
    return await _first_image(gateway, incident, info, request)


async def _first_image(gateway: Gateway, incident: Incident, info: CollectionInfo, request: RestoreRequest) -> Way:
    """Check whether the server holds the image of the incident's first operation, or a backup its document."""
    bounds = {"$gte": stamp(incident.first), "$lte": stamp(incident.last)}
    entry = await edge(gateway, 1, {"ts": bounds, "ns": str(info.ns), "op": written(incident) or "d"})
    if entry is None:
        return Way(FROM_IMAGES, None, "The oplog has no single entry of it: the plan reads its transactions.")
    try:
        key = ImageKey(entry.ui, entry.ts, 0)
        held = [one async for one, _ in images_between(gateway, key, key)]
    except PrivilegeError:
        slowly = "This user may not read config.system.preimages: a change stream is read, more slowly."
        return Way(FROM_IMAGES, keeps_images(info) or None, slowly, f"In mongosh: {ROLE}")
    if held:
        long = (await retention(gateway)).words
        return Way(FROM_IMAGES, True, f"Its first pre-image is held (kept {long}): seconds, no backup, no spare.")
    if keeps_images(info) is False:
        advice = f"For the next time: {how_to_enable(info.ns.db, info.ns.collection)}"
        return await _from_files(gateway, request, f"{incident.ns} keeps no pre-images.", advice)
    return await _from_files(gateway, request, "Its first pre-image is not held: expired, or not kept then.")


async def _from_files(gateway: Gateway, request: RestoreRequest, why: str, advice: str = "") -> Way:
    """Whether a backup can take the place of the images: its documents are carried forward through the oplog here."""
    if request.backup is None:
        return Way(FROM_IMAGES, False, why, advice)
    try:
        found = await usable_backup(gateway, request.backup, request.limit, request.backup_start)
    except InputError as error:
        return Way(FROM_IMAGES, False, f"{why} {error.title}", advice)
    if not found.contents.is_dump:
        return Way(FROM_IMAGES, False, why, advice)
    instead = "The backup has the documents; the plan carries each forward through the oplog."
    return Way(FROM_IMAGES, True, f"{why} {instead}", label=WITHOUT_SPARE)
