"""Plan the undo of an incident from pre-images: commands are made only if every image is proven to be there."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tallyglass.deployment.cluster import look_at
from tallyglass.errors import InputError, PrivilegeError
from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.checks import images, images_held
from tallyglass.restore.checks.undone import inserted_again
from tallyglass.restore.model.check import Check, Level, worst
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.plan.facts import of_this_set
from tallyglass.restore.plan.images_plan import begin, describe
from tallyglass.restore.plan.steps.undo_steps import undo_steps
from tallyglass.restore.pre_images.damaged import find_damaged
from tallyglass.restore.pre_images.image_proof import prove_images
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.timeline import coverage
from tallyglass.restore.tools.tool_uri import ToolUri, tool_uri


async def plan_undo(gateway: Gateway, request: RestoreRequest) -> Plan:
    """Prove that every damaged document can be read as it was, then emit the commands; a blocked plan has none.

    Documents without an image come from the backup of the request, if it names one. Reads the oplog from the point on
    and every image, so it may take minutes. Raises the errors of the gateway, and InputError without an incident.
    """
    incident = request.named_incident
    deployment = await look_at(gateway)
    checks = await asyncio.to_thread(lambda: list(images.before_reading(deployment, incident)))
    source = None
    try:
        source = tool_uri(request.source_uri, deployment.set_name, deployment.reached_at)
    except InputError as error:
        checks.append(images.refused(error))
    if source is None or worst(checks) is Level.BLOCK:
        return replace(begin(request, deployment, None), checks=tuple(checks))
    plan = await of_this_set(gateway, begin(request, deployment, source))
    try:
        return await _prove(gateway, plan, checks, source, request)
    except PrivilegeError as error:
        return replace(plan, checks=(*checks, images.refused(error)))


async def _prove(gateway: Gateway, plan: Plan, checks: list[Check], source: ToolUri, request: RestoreRequest) -> Plan:
    incident, limit = request.named_incident, plan.facts.limit
    checks += images.reached(await coverage.oldest(gateway), await coverage.majority(gateway), limit)
    if worst(checks) is Level.BLOCK:
        return replace(plan, checks=tuple(checks))
    damaged = await find_damaged(gateway, incident, limit, request.evidence)
    checks += images_held.damage(damaged, incident)
    proven = await prove_images(gateway, damaged, limit, request.backup, request.backup_start)
    checks += images_held.held(proven)
    plan = describe(plan, proven)
    plan = replace(plan, checks=(*checks, *inserted_again(plan.undo.returns)))
    if plan.is_blocked:
        return plan
    steps = undo_steps(plan, proven, source.text)
    return replace(plan, steps=replace(plan.steps, commands=steps.commands, files=steps.files))
