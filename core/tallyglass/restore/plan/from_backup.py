"""From a request to a plan: gather what can be proven, check it, and only then make commands."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tallyglass import __version__
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.row import row
from tallyglass.paths import home
from tallyglass.restore.checks.all_checks import run_checks
from tallyglass.restore.checks.outcome import block
from tallyglass.restore.model.plan import Level, Plan
from tallyglass.restore.plan.steps.commands import commands
from tallyglass.restore.plan.steps.specify import live_fixes, specify
from tallyglass.restore.proof.findings import Findings
from tallyglass.restore.proof.prove import Progress, RestoreRequest, gather
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.tools.toolset import needed_for
from tallyglass.text import clean_name

__all__ = ["RestoreRequest", "plan_restore"]


async def plan_restore(gateway: Gateway, request: RestoreRequest, progress: Progress | None = None) -> Plan:
    """Prove the restore, then emit its commands; a blocked plan has none.

    Reads the whole window of the oplog and the whole backup, so it may take minutes: ``progress`` is called after each
    batch. Raises InputError for a request or a backup that cannot be read, and the errors of the gateway.
    """
    found = await gather(gateway, request, progress)
    plan = _describe(found, request)
    if plan.level is Level.BLOCK:
        return plan
    assessed, uris = found.assessed, found.inputs.uris
    if assessed is None or uris is None or assessed.replayed.slice is None:
        unproven = block("unproven", "The proof is not complete: there is nothing to replay up to this point.")
        return replace(plan, checks=(*plan.checks, unproven))
    steps = commands(specify(assessed, uris, assessed.replayed.slice, plan))
    return replace(plan, commands=steps.commands, files=steps.files)


def _describe(found: Findings, request: RestoreRequest) -> Plan:
    inputs, located, covered, replayed, assessed = (
        found.inputs, found.located, found.covered, found.replayed, found.assessed,
    )  # fmt: skip
    incident, spare, replay = inputs.incident, inputs.spare, covered.replay if covered else None
    cut = covered.open_at_limit if covered else ()
    return Plan(
        point=inputs.limit,
        start=_start(found),
        limit=inputs.limit,
        backup=inputs.contents.backup,
        set_name=inputs.deployment.set_name,
        spare=spare.address if spare else f"127.0.0.1:{inputs.own_spare}" if inputs.own_spare else "",
        made=datetime.now(UTC).replace(microsecond=0),
        before=_line(covered.before_limit if covered else None),
        after=_line(located.at_limit if located else None),
        incident=incident.described if incident else "",
        operations=replay.entries if replay else None,
        expected_applied=replay.applied if replay else None,
        hours_left=covered.hours_left if covered else None,
        checks=run_checks(found),
        loss=assessed.loss.losses() if assessed else (),
        reissue=assessed.counters.rows if assessed else (),
        expected=replayed.expected if replayed else (),
        leftovers=tuple(replay.catalog.phantoms()) + tuple(replay.catalog.leftovers) if replay else (),
        returns=assessed.returns if assessed else (),
        raised=tuple(live_fixes(assessed)) if assessed else (),
        slice=replayed.slice if replayed else None,
        cut_transactions=tuple(f"{parts[0].ts}, {len(parts)} entries" for parts in cut),
        server_version=inputs.deployment.version,
        made_by=__version__,
        tools_needed=".".join(map(str, needed_for(inputs.deployment.version))),
        work_dir=request.work_dir or default_work_dir(inputs.limit),
        source_user=clean_name(inputs.source_uri.user) if inputs.source_uri else "",
        spare_user=clean_name(inputs.spare_uri.user) if inputs.spare_uri else "",
        passwords=tuple(
            role
            for role, uri in (("source", inputs.source_uri), ("spare", inputs.spare_uri))
            if uri is not None and uri.asks and not (role == "spare" and inputs.own_spare)
        ),
        accident=assessed.accident if assessed else None,
        undone=assessed.undone if assessed else (),
        choice=inputs.choice,
        oplog=tuple(map(str, inputs.saved.paths)) if inputs.saved else (),
    )


def _start(found: Findings) -> Ts | None:
    start = found.covered.start if found.covered else found.located.start if found.located else None
    return start.ts if isinstance(start, Start) else None


def default_work_dir(limit: Ts) -> str:
    """A folder in the home directory, named after the point."""
    return str(home() / f"tallyglass-{limit.time:%Y%m%d-%H%M%S}-{limit.i}")


def _line(entry: Entry | None) -> str:
    if entry is None:
        return ""
    shown = row(entry.raw)
    return f"{shown.ts} {shown.ns} {shown.what} {shown.id}".strip()
