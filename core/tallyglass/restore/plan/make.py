"""From a request to a plan: the way that it takes, and the plan that it leads to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.catalogue.backups import newest_backup
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.way import FROM_BACKUP, FROM_IMAGES
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.plan.from_images import plan_undo
from tallyglass.restore.plan.precheck import QuickAnswer, quick_answer
from tallyglass.restore.plan.ways import Decision, decide, possible_ways
from tallyglass.restore.proof.progress import Progress
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.undo.incident_scope import why_not_undone
from tallyglass.text import clean


async def make_plan(
    gateway: Gateway, request: RestoreRequest, progress: Progress | None = None
) -> AsyncIterator[Decision | Path | QuickAnswer | Plan]:
    """Yields the decision, then the plan, which is the last that is yielded.

    Before a plan from a backup come the path of the newest one, if the request names a folder of backups, and the
    quick answer. Where pre-images are blocked and a backup is named, the blocked plan is followed by the decision for
    the backup. It may take minutes. Raises InputError for a row of routine and for what cannot be read, and the errors
    of the gateway.
    """
    _refuse_routine(request)
    incident = request.incident
    ways = await possible_ways(gateway, incident, request) if incident is not None and not request.way else ()
    decision = decide(request, ways)
    yield decision
    if decision.way == FROM_IMAGES:
        plan = await plan_undo(gateway, request)
        yield plan
        if not plan.is_blocked or request.backup is None:
            return
        yield replace(decision, way=FROM_BACKUP)
    if request.backup is not None:
        backup = await newest_backup(gateway, request.backup, request.limit, request.oplog)
        if backup != request.backup:
            yield backup
        request = replace(request, backup=backup)
    yield await quick_answer(gateway, request)
    yield await plan_restore(gateway, request, progress)


def _refuse_routine(request: RestoreRequest) -> None:
    """Raise InputError for a row of routine: it sums up what runs again and again, and nobody gave one statement for
    it. What a person knows of a statement among it, or a copy of a collection, can be planned all the same."""
    incident = request.incident
    if incident is None or not incident.routine or request.choice is not None or request.evidence is not None:
        return
    what = clean(incident.title, 300).removeprefix("routine:").removeprefix("routine").strip()
    ns = clean(incident.ns) if "." in incident.ns else "NS"
    raise InputError(
        f"Incident {incident.limit} is routine ({what}): there is no statement to undo.",
        why_not_undone(incident)
        or f"tallyglass restore plan --before TIME --only {ns} brings back what it held then, beside it.",
    )
