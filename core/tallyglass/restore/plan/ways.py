"""The ways to undo an incident, best first, why one is not possible, and which one a plan takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tallyglass.errors import InputError
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.catalogue.backups import newest_backup
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES, Way
from tallyglass.restore.plan.precheck import quick_answer
from tallyglass.restore.plan.way_from_images import way_from_images
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.undo.incident_scope import why_not_undone


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
    found = [await way_from_images(gateway, incident, request), await _from_backup(gateway, incident, request)]
    order = (True, None, False)
    return tuple(sorted(found, key=lambda way: order.index(way.possible)))


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
