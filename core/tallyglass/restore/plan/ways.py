"""The ways to undo an incident, best first, why one is not possible, and which one a plan takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import InputError, PrivilegeError
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.read.entries import edge, stamp
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.backup import ARCHIVE, DIRECTORY
from tallyglass.restore.catalogue.backups import newest_backup
from tallyglass.restore.checks import images
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES, WITHOUT_SPARE, Way
from tallyglass.restore.plan.from_images import live_collections
from tallyglass.restore.plan.precheck import quick_answer
from tallyglass.restore.pre_images.settings import ROLE, how_to_enable, keeps_images, retention
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.undo.incident_scope import why_not_undone, written
from tallyglass.restore.undo.sources.backup import usable_backup
from tallyglass.restore.undo.sources.images import ImageKey, images_between
from tallyglass.text import clean_name


@dataclass(frozen=True, slots=True)
class Decision:
    """The ``way`` that a plan takes; ``ways`` are all that there are, best first, empty where one was asked for.
    ``needs_backup``: only a backup makes a plan likely, and none is named."""

    way: str
    ways: tuple[Way, ...] = ()
    needs_backup: bool = False


def decide(request: RestoreRequest, ways: tuple[Way, ...]) -> Decision:
    """The way that was asked for, else the best possible one; without a backup only pre-images can be planned."""
    if request.way or request.only_from_backup:
        return Decision(request.way or FROM_BACKUP, ways)
    if request.backup is None:
        return Decision(FROM_IMAGES, ways, needs_backup=not ways[0].possible)
    return Decision(ways[0].name if ways[0].possible else FROM_BACKUP, ways)


async def possible_ways(gateway: Gateway, incident: Incident, request: RestoreRequest) -> tuple[Way, ...]:
    """The ways, best first. Takes seconds; only a plan proves one. Raises the errors of the gateway."""
    found = [await _from_images(gateway, incident, request), await _from_backup(gateway, incident, request)]
    order = (True, None, False)
    return tuple(sorted(found, key=lambda way: order.index(way.possible)))


async def _from_images(gateway: Gateway, incident: Incident, request: RestoreRequest) -> Way:
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
    if found.contents.backup.form not in (ARCHIVE, DIRECTORY):
        return Way(FROM_IMAGES, False, why, advice)
    instead = "The backup has the documents; the plan carries each forward through the oplog."
    return Way(FROM_IMAGES, True, f"{why} {instead}", label=WITHOUT_SPARE)


async def _from_backup(gateway: Gateway, incident: Incident, request: RestoreRequest) -> Way:
    why = why_not_undone(incident)
    if why:
        return Way(FROM_BACKUP, False, why)
    if request.backup is None:
        return Way(FROM_BACKUP, None, "No backup is named.")
    try:
        backup = await newest_backup(gateway, request.backup, request.limit, request.oplog)
        found = await quick_answer(gateway, replace(request, backup=backup))
    except InputError as error:
        return Way(FROM_BACKUP, False, error.title, error.advice)
    if found.blocking:
        return Way(FROM_BACKUP, False, found.blocking[0].title, found.blocking[0].advice)
    if found.start is None:
        return Way(FROM_BACKUP, False, "The oplog does not reach from the backup to the point.")
    return Way(FROM_BACKUP, True, f"Restores the whole backup on a spare and replays the oplog from {found.start}.")
