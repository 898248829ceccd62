"""Plan the undo of an incident from pre-images: commands are made only if every image is proven to be there."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import InputError, PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.read.entries import edge
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.checks import images
from tallyglass.restore.checks.images_held import held
from tallyglass.restore.checks.outcome import block
from tallyglass.restore.checks.undone import unclear
from tallyglass.restore.model.check import Check, Level, worst
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import ExpectedNamespace, PlanProof
from tallyglass.restore.model.source import FromImages
from tallyglass.restore.model.step import PlanSteps
from tallyglass.restore.model.undo import PlanUndo, Return, Strategy
from tallyglass.restore.plan.facts import default_work_dir, plan_facts
from tallyglass.restore.plan.steps.return_work import Damage, ReturnWork
from tallyglass.restore.plan.steps.undo_steps import undo_steps
from tallyglass.restore.pre_images.damaged import find_damaged
from tallyglass.restore.pre_images.image_proof import BackupIfNeeded, ImageProof, read_proofs
from tallyglass.restore.pre_images.settings import ROLE, retention
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.proof.returns import free_name
from tallyglass.restore.timeline import coverage
from tallyglass.restore.tools import toolset
from tallyglass.restore.tools.tool_uri import ToolUri, tool_uri
from tallyglass.restore.tools.toolset import needed_for
from tallyglass.restore.undo.earlier_returns import STAGING
from tallyglass.text import clean_name


async def plan_undo(gateway: Gateway, request: RestoreRequest) -> Plan:
    """Prove that every damaged document can be read as it was, then emit the commands; a blocked plan has none.

    Documents without an image come from the backup of the request, if it names one. Reads the oplog from the point on
    and every image, so it may take minutes. Raises the errors of the gateway, and InputError without an incident.
    """
    incident = _incident(request)
    deployment = await look_at(gateway)
    facts = plan_facts(deployment, incident.limit, incident)
    steps = PlanSteps(
        work_dir=request.work_dir or default_work_dir(incident.limit),
        tools_needed=".".join(map(str, needed_for(deployment.version, plain=True))),
        found_in=toolset.found_in(),
    )
    plan = Plan(facts, FromImages(), steps=steps)
    checks = await asyncio.to_thread(lambda: list(images.before_reading(deployment, incident)))
    source = None
    try:
        source = tool_uri(request.source_uri, deployment.set_name, deployment.reached_at)
    except InputError as error:
        checks.append(block("uri", str(error)))
    if source is None or worst(checks) is Level.BLOCK:
        return replace(plan, checks=tuple(checks))
    steps = replace(steps, source_user=clean_name(source.user), passwords=("source",) if source.asks else ())
    plan = replace(plan, steps=steps)
    try:
        return await _prove(gateway, plan, checks, source, request)
    except PrivilegeError as error:
        advice = f"In mongosh: {ROLE}"
        return replace(plan, checks=(*checks, block("images-privilege", error.title, advice)))


def _incident(request: RestoreRequest) -> Incident:
    if request.incident is None:
        raise InputError("Pre-images undo an incident, and none is named.", "Name an incident.")
    return request.incident


async def _prove(gateway: Gateway, plan: Plan, checks: list[Check], source: ToolUri, request: RestoreRequest) -> Plan:
    incident, limit = _incident(request), plan.facts.limit
    oldest, majority = await edge(gateway, 1), await coverage.majority(gateway)
    checks += images.reached(oldest.ts if oldest else None, majority, limit)
    if worst(checks) is Level.BLOCK:
        return replace(plan, checks=tuple(checks))
    damaged = await find_damaged(gateway, incident, limit, request.evidence)
    found, accident = damaged.found, damaged.found.accident
    checks += unclear(accident, found.doubts, found.groups, incident)
    checks += images.collections(damaged.names, damaged.live, incident)
    kept = await retention(gateway)
    backup = BackupIfNeeded(gateway, request.backup, request.backup_start, limit)
    proofs = await read_proofs(gateway, damaged, limit, backup)
    checks += held(accident, proofs, kept)
    returns = tuple(_return(proof, limit, damaged.live) for proof in proofs)
    plan = replace(
        plan,
        source=FromImages(
            sum(proof.bytes for proof in proofs),
            backup.as_source if any(proof.from_backup for proof in proofs) else None,
        ),
        proof=PlanProof(
            operations=accident.entries,
            loss=tuple(proof.loss for proof in proofs if proof.loss),
            expected=tuple(ExpectedNamespace(proof.ns, "collection", proof.needed) for proof in proofs),
        ),
        undo=PlanUndo(accident, undone=found.undone, left_out=found.left_out, groups=found.groups, returns=returns),
        checks=tuple(checks),
    )
    if plan.level is Level.BLOCK:
        return plan
    damage = {proof.ns: Damage(proof.by_accident, proof.by_others).of(accident, proof.ns) for proof in proofs}
    steps = undo_steps(ReturnWork(plan, damage), source.text, sum(proof.bytes for proof in proofs))
    return replace(plan, steps=replace(plan.steps, commands=steps.commands, files=steps.files))


def _return(proof: ImageProof, limit: Ts, live: dict[str, CollectionInfo]) -> Return:
    name = free_name(f"{proof.ns}{STAGING}{limit.time:%Y%m%dT%H%M%S}", frozenset(live))
    return Return(proof.ns, Strategy.MERGE, name, proof.by_others)
