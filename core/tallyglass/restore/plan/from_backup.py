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
from tallyglass.restore.model.check import Level
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.steps.commands import commands
from tallyglass.restore.plan.steps.specify import live_fixes, specify
from tallyglass.restore.proof.findings import Findings
from tallyglass.restore.proof.prove import Progress, gather
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.timeline.coverage import Start
from tallyglass.restore.tools.toolset import found_in
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
    return replace(plan, commands=steps.commands, files=steps.files, found_in=found_in())


def _describe(found: Findings, request: RestoreRequest) -> Plan:
    """The plan without its steps: each stage of the proof adds what it found."""
    inputs = found.inputs
    source, spare = inputs.source_uri, inputs.spare_uri
    asks = {"source": bool(source and source.asks), "spare": bool(spare and spare.asks and not inputs.own_spare)}
    own = f"127.0.0.1:{inputs.own_spare}" if inputs.own_spare else ""
    plan = Plan(
        point=inputs.limit,
        start=None,
        limit=inputs.limit,
        backup=inputs.contents.backup,
        set_name=inputs.deployment.set_name,
        spare=inputs.spare.address if inputs.spare else own,
        made=datetime.now(UTC).replace(microsecond=0),
        incident=inputs.incident.described if inputs.incident else "",
        checks=run_checks(found),
        server_version=inputs.deployment.version,
        made_by=__version__,
        tools_needed=".".join(map(str, found.tools_needed)),
        work_dir=request.work_dir or default_work_dir(inputs.limit),
        source_user=clean_name(source.user) if source else "",
        spare_user=clean_name(spare.user) if spare else "",
        passwords=tuple(role for role in asks if asks[role]),
        choice=inputs.choice,
        oplog=tuple(map(str, inputs.saved.paths)) if inputs.saved else (),
    )
    if located := found.located:
        start = located.start.ts if isinstance(located.start, Start) else None
        plan = replace(plan, start=start, after=_line(located.at_limit))
    if covered := found.covered:
        replay = covered.replay
        plan = replace(
            plan,
            start=covered.start.ts,
            before=_line(covered.before_limit),
            operations=replay.entries,
            expected_applied=replay.applied,
            hours_left=covered.hours_left,
            leftovers=(*replay.catalog.phantoms(), *replay.catalog.leftovers),
            cut_transactions=tuple(f"{parts[0].ts}, {len(parts)} entries" for parts in covered.open_at_limit),
        )
    if replayed := found.replayed:
        plan = replace(plan, expected=replayed.expected, slice=replayed.slice)
    if assessed := found.assessed:
        plan = replace(
            plan,
            loss=assessed.loss.losses(),
            reissue=assessed.counters.rows,
            returns=assessed.returns,
            raised=tuple(live_fixes(assessed)),
            accident=assessed.accident,
            undone=assessed.undone,
            left_out=assessed.left_out,
            groups=assessed.groups,
        )
    return plan


def default_work_dir(limit: Ts) -> str:
    """A folder in the home directory, named after the point."""
    return str(home() / f"tallyglass-{limit.time:%Y%m%d-%H%M%S}-{limit.i}")


def _line(entry: Entry | None) -> str:
    if entry is None:
        return ""
    shown = row(entry.raw)
    what = f"insert {shown.what}" if entry.op == "i" and not shown.what.startswith("insert") else shown.what
    return f"{shown.ts} {shown.ns} {what} {shown.id}".strip()
