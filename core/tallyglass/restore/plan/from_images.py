"""Plan the undo of an incident from pre-images: commands are made only if every image is proven to be there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from tallyglass import __version__
from tallyglass.deployment.cluster import look_at
from tallyglass.errors import InputError, PrivilegeError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import CollectionInfo, Gateway
from tallyglass.oplog.read.entries import edge, read_effects, stamp
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.backup.backup import LEFT_OUT
from tallyglass.restore.checks import images
from tallyglass.restore.checks.all_checks import tested, tools_missing
from tallyglass.restore.checks.outcome import block, ok
from tallyglass.restore.checks.undone import large_documents, unclear
from tallyglass.restore.model.check import Check, Level, worst
from tallyglass.restore.model.plan import Plan, PlanFacts
from tallyglass.restore.model.proof import ExpectedNamespace, PlanProof
from tallyglass.restore.model.source import FromImages
from tallyglass.restore.model.step import PlanSteps
from tallyglass.restore.model.undo import Accident, PlanUndo, Return, Strategy
from tallyglass.restore.plan.from_backup import default_work_dir
from tallyglass.restore.plan.steps.spec import Damage, ReturnSpec
from tallyglass.restore.plan.steps.undo_steps import undo_steps
from tallyglass.restore.pre_images.image_proof import BackupIfNeeded, ImageProof, fill_gaps, read_proof
from tallyglass.restore.pre_images.settings import ROLE, retention
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.proof.returns import free_name
from tallyglass.restore.timeline import coverage
from tallyglass.restore.tools import toolset
from tallyglass.restore.tools.tool_uri import ToolUri, tool_uri
from tallyglass.restore.tools.toolset import needed_for
from tallyglass.restore.undo.earlier_returns import STAGING
from tallyglass.restore.undo.infer import find_accident
from tallyglass.restore.undo.sources.image_files import FOLDER
from tallyglass.restore.undo.sources.images import select
from tallyglass.text import clean_name


async def plan_undo(gateway: Gateway, request: RestoreRequest) -> Plan:
    """Prove that every damaged document can be read as it was, then emit the commands; a blocked plan has none.

    Documents without an image come from the backup of the request, if it names one. Reads the oplog from the point on
    and every image, so it may take minutes. Raises the errors of the gateway, and InputError without an incident.
    """
    incident = _incident(request)
    deployment = await look_at(gateway)
    facts = PlanFacts(
        incident.limit, deployment.set_name, datetime.now(UTC).replace(microsecond=0), __version__,
        deployment.version, incident.described,
    )  # fmt: skip
    steps = PlanSteps(
        work_dir=request.work_dir or default_work_dir(incident.limit),
        tools_needed=".".join(map(str, needed_for(deployment.version, plain=True))),
        found_in=toolset.found_in(),
    )
    plan = Plan(facts, FromImages(), steps=steps)
    checks = [*images.possible(deployment, incident), *tested(deployment)]
    checks += await asyncio.to_thread(lambda: list(_tools(deployment.version)))
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


def _tools(server_version: str) -> Iterator[Check]:
    tools, needed = toolset.installed(), needed_for(server_version, plain=True)
    oldest, word = tools.oldest, ".".join(map(str, needed))
    if tools.missing:
        yield tools_missing(tools, word)
    if oldest is None:
        yield ok("tool-version", f"mongorestore {word} or newer is needed; the run checks.")
    elif oldest[:2] < needed:
        have = ".".join(map(str, oldest))
        yield block("tool-version", f"The tools here are too old: {have}.", f"Install {word} or newer.")


async def _prove(gateway: Gateway, plan: Plan, checks: list[Check], source: ToolUri, request: RestoreRequest) -> Plan:
    incident, limit = _incident(request), plan.facts.limit
    oldest, majority = await edge(gateway, 1), await coverage.majority(gateway)
    if oldest is None or oldest.ts > limit:
        first = oldest.ts if oldest else "unknown"
        checks.append(block("coverage", f"The oplog no longer reaches back to {limit}: it begins at {first}."))
    if majority is None or limit > majority:
        checks.append(block("not-majority", f"{limit} is not on a majority of the members yet.", "Plan again."))
    if worst(checks) is Level.BLOCK:
        return replace(plan, checks=tuple(checks))
    live = await live_collections(gateway, incident)
    found = await find_accident(gateway, incident, limit, incident.last, None, live, request.evidence)
    accident = found.accident
    checks += unclear(accident, found.doubts, found.groups, incident)
    names = [accident.ns] if accident.ns else await _of_transaction(gateway, accident)
    checks += images.collections(names, live, incident)
    kept = await retention(gateway)
    proofs: list[ImageProof] = []
    backup = BackupIfNeeded(gateway, request.backup, request.backup_start, limit)
    for ns in names:
        if ns in live:
            with closing(await select(gateway, accident, ns, limit)) as selection:
                proofs.append(await read_proof(gateway, selection, live[ns]))
                await fill_gaps(gateway, selection, proofs[-1], backup, limit)
    checks += images.gaps(proofs, kept)
    checks += large_documents(accident, {proof.ns: proof.large for proof in proofs})
    checks += images.streamed(proofs)
    checks += images.expiring(proofs, kept)
    returns = tuple(_return(proof, limit, live) for proof in proofs)
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
    spec = ReturnSpec(
        source=source, set_name=plan.facts.set_name, returns=returns, undone=found.undone, left_out=found.left_out,
        copy=f"--images={FOLDER}",
        damage={proof.ns: Damage(proof.by_accident, proof.by_others).of(accident, proof.ns) for proof in proofs},
    )  # fmt: skip
    steps = undo_steps(spec, sum(proof.bytes for proof in proofs))
    return replace(plan, steps=replace(plan.steps, commands=steps.commands, files=steps.files))


async def live_collections(gateway: Gateway, incident: Incident) -> dict[str, CollectionInfo]:
    """The live collections that the incident may refer to: its own namespace is sanitised for display."""
    found: dict[str, CollectionInfo] = {}
    for db in await gateway.list_databases():
        if db in LEFT_OUT or (incident.kind != "transaction" and not incident.ns.startswith(f"{clean_name(db)}.")):
            continue
        found |= {str(info.ns): info for info in await gateway.list_collections(db) if info.kind == "collection"}
    return found


async def _of_transaction(gateway: Gateway, accident: Accident) -> list[str]:
    """The namespaces that a transaction wrote."""
    if accident.kind != "transaction":
        return []
    names = dict[str, None]()
    async for _, parts in read_effects(gateway, {"ts": stamp(accident.first)}):
        for part in parts:
            names |= {one.ns: None for one in part.inner() if one.op in ("i", "u", "d")}
    return list(names)


def _return(proof: ImageProof, limit: Ts, live: dict[str, CollectionInfo]) -> Return:
    name = free_name(f"{proof.ns}{STAGING}{limit.time:%Y%m%dT%H%M%S}", frozenset(live))
    return Return(proof.ns, Strategy.MERGE, name, proof.by_others)
