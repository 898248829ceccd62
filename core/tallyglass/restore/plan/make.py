"""From a request to a plan: the way that it takes, and the plan that it leads to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

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


async def make_plan(
    gateway: Gateway, request: RestoreRequest, progress: Progress | None = None
) -> AsyncIterator[Decision | Path | QuickAnswer | Plan]:
    """Yields the decision, then the plan, which is the last that is yielded.

    Before a plan from a backup come the path of the newest one, if the request names a folder of backups, and the
    quick answer. Where pre-images are blocked and a backup is named, the blocked plan is followed by the decision for
    the backup. It may take minutes. Raises InputError for what cannot be read, and the errors of the gateway.
    """
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
