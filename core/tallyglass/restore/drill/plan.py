"""The plan that a drill runs, made as for a real restore."""

from __future__ import annotations

from pathlib import Path

from tallyglass.restore.drill import load
from tallyglass.restore.drill.point import point
from tallyglass.restore.drill.report import PHASES, UNKNOWN
from tallyglass.restore.drill.request import DrillRun, counted
from tallyglass.restore.drill.result import planned
from tallyglass.restore.drill.stopped import Failed
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.from_backup import plan_restore
from tallyglass.restore.plan.precheck import quick_answer
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.spare import own_spare


async def plan_drill(run: DrillRun, folder: Path) -> Plan:
    """Choose the backup and plan, as for a real restore. The search for the newest point is not counted: it may wait
    for an entry after the backup, and in a real restore the point is given."""
    request = run.request
    backup, limit = await point(run)
    gateway = load.paced(run.gateway, request.rate)
    wanted = RestoreRequest(
        backup,
        request.source_uri,
        before=limit,
        backup_start=request.backup_start,
        oplog=request.oplog,
        work_dir=str(folder / "work"),
        own_spare_port=own_spare.free_port(0),
    )
    with counted(run, PHASES[0]):
        await quick_answer(gateway, wanted)  # the first thing that a real plan asks for
        plan = await plan_restore(gateway, wanted)
    run.known = planned(run.known, plan)
    blocking = next((check for check in plan.checks if check.level is Level.BLOCK), None)
    if blocking is not None and blocking.id == "tool-version":
        raise Failed("components", blocking.title, blocking.advice, level=UNKNOWN)
    if blocking is not None:
        raise Failed(blocking.id, blocking.title, blocking.advice)
    return plan
