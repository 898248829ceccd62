"""What a plan from pre-images says before and after they are read."""

from __future__ import annotations

from dataclasses import replace

from tallyglass.deployment.cluster import Deployment
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.proof import ExpectedNamespace, PlanProof
from tallyglass.restore.model.source import FromImages
from tallyglass.restore.model.undo import PlanUndo
from tallyglass.restore.plan.facts import plan_facts, plan_needs
from tallyglass.restore.pre_images.image_proof import ImagesProof
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.proof.returns import merged_back, with_again
from tallyglass.restore.tools.tool_uri import ToolUri
from tallyglass.restore.tools.toolset import found_in, needed_for


def begin(request: RestoreRequest, deployment: Deployment, source: ToolUri | None) -> Plan:
    """The plan before anything is read."""
    needs = plan_needs(request, needed_for(deployment.version, plain=True), source)
    facts = plan_facts(deployment, request.limit, request.incident)
    return Plan(facts, FromImages(), steps=replace(needs, found_in=found_in()))


def describe(plan: Plan, proven: ImagesProof) -> Plan:
    """The plan with what was proven."""
    found, limit = proven.damaged.found, plan.facts.limit
    returns = [merged_back(one.ns, limit, proven.damaged.live, one.by_others) for one in proven.images]
    again = {one.ns: one.again for one in proven.images}
    return replace(
        plan,
        facts=replace(plan.facts, hours_left=proven.hours_left),
        source=FromImages(proven.bytes, proven.backup),
        proof=PlanProof(
            operations=found.accident.entries,
            loss=tuple(one.loss for one in proven.images if one.loss),
            expected=tuple(ExpectedNamespace(one.ns, "collection", one.needed) for one in proven.images),
        ),
        undo=PlanUndo(
            found.accident, None, found.undone, found.left_out, found.groups, with_again(returns, again, found.accident)
        ),
    )
