"""From a request to a plan: gather what can be proven, check it, and only then make commands."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.mongo.gateway import Gateway
from tallyglass.restore.checks.all_checks import run_checks
from tallyglass.restore.model.check import block
from tallyglass.restore.model.plan import Plan, PlanFacts
from tallyglass.restore.model.proof import PlanProof
from tallyglass.restore.model.source import FromBackup
from tallyglass.restore.model.undo import PlanUndo
from tallyglass.restore.plan.facts import entry_line, of_this_set, plan_facts, plan_needs
from tallyglass.restore.plan.steps.commands import commands
from tallyglass.restore.plan.steps.return_work import live_fixes
from tallyglass.restore.proof.findings import Findings
from tallyglass.restore.proof.progress import Progress
from tallyglass.restore.proof.prove import prove
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.tools.toolset import found_in


async def plan_restore(gateway: Gateway, request: RestoreRequest, progress: Progress | None = None) -> Plan:
    """Prove the restore, then emit its commands; a blocked plan has none.

    Reads the whole window of the oplog and the whole backup, so it may take minutes: ``progress`` is called after each
    batch. Raises InputError for a request or a backup that cannot be read, and the errors of the gateway.
    """
    found = await prove(gateway, request, progress)
    plan = await of_this_set(gateway, _describe(found, request))
    if plan.is_blocked:
        return plan
    inputs, assessed, part = found.inputs, found.assessed, plan.proof.slice
    if assessed is None or inputs.source_uri is None or inputs.spare_uri is None or part is None:
        unproven = block("unproven", "The proof is not complete: there is nothing to replay up to this point.")
        return replace(plan, checks=(*plan.checks, unproven))
    steps = commands(plan, assessed, inputs.source_uri.text, inputs.spare_uri.text, part)
    needs = replace(plan.steps, commands=steps.commands, files=steps.files, found_in=found_in())
    return replace(plan, steps=needs)


def _describe(found: Findings, request: RestoreRequest) -> Plan:
    """The plan without its commands: each stage of the proof adds what it found."""
    inputs = found.inputs
    own = f"127.0.0.1:{inputs.own_spare}" if inputs.own_spare else ""
    return Plan(
        _facts(found),
        FromBackup(
            inputs.contents.backup,
            spare=inputs.spare.address if inputs.spare else own,
            oplog=tuple(map(str, inputs.saved.paths)) if inputs.saved else (),
        ),
        _proof(found),
        _undo(found),
        run_checks(found),
        plan_needs(request, found.tools_needed, inputs.source_uri, inputs.spare_uri, own_spare=bool(inputs.own_spare)),
    )


def _facts(found: Findings) -> PlanFacts:
    inputs, located, covered = found.inputs, found.located, found.covered
    facts = plan_facts(inputs.deployment, inputs.limit, inputs.incident)
    return replace(
        facts,
        before=entry_line(covered.before_limit) if covered else "",
        after=entry_line(located.at_limit) if located else "",
        hours_left=covered.hours_left if covered else None,
    )


def _proof(found: Findings) -> PlanProof:
    covered, replayed, assessed = found.covered, found.replayed, found.assessed
    proof = PlanProof(found.start)
    if covered:
        replay = covered.replay
        proof = replace(
            proof,
            operations=replay.entries,
            expected_applied=replay.applied,
            leftovers=(*replay.catalog.phantoms(), *replay.catalog.leftovers),
            cut_transactions=tuple(f"{parts[0].ts}, {len(parts)} entries" for parts in covered.open_at_limit),
        )
    if replayed:
        proof = replace(proof, expected=replayed.expected, slice=replayed.slice)
    if assessed:
        proof = replace(proof, loss=assessed.loss.losses(), reissue=assessed.counters.rows)
    return proof


def _undo(found: Findings) -> PlanUndo:
    undo, assessed = PlanUndo(choice=found.inputs.choice), found.assessed
    if assessed is None:
        return undo
    undo = replace(
        undo,
        returns=assessed.returns,
        raised=tuple(live_fixes(assessed)),
        defined=assessed.definitions.compared,
    )
    inferred = assessed.inferred
    if inferred is None:
        return undo
    return replace(
        undo,
        accident=inferred.accident,
        undone=inferred.undone,
        left_out=inferred.left_out,
        groups=inferred.groups,
    )
