"""What every plan says of itself: its point, and what its steps need."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from tallyglass import __version__
from tallyglass.deployment.cluster import Deployment
from tallyglass.deployment.identity import set_id
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.row import row
from tallyglass.oplog.snapshot import Incident
from tallyglass.paths import home
from tallyglass.restore.model.plan import Plan, PlanFacts
from tallyglass.restore.model.step import PlanSteps
from tallyglass.restore.proof.request import RestoreRequest
from tallyglass.restore.tools.tool_uri import ToolUri
from tallyglass.text import clean_name


def plan_facts(deployment: Deployment, limit: Ts, incident: Incident | None) -> PlanFacts:
    """The facts that are known before anything is proven."""
    return PlanFacts(
        limit,
        deployment.set_name,
        made=datetime.now(UTC).replace(microsecond=0),
        made_by=__version__,
        server_version=deployment.version,
        incident=incident.described if incident else "",
    )


async def of_this_set(gateway: Gateway, plan: Plan) -> Plan:
    """The plan with the id of the set that it is for. Raises the errors of the gateway."""
    return replace(plan, facts=replace(plan.facts, set_id=await set_id(gateway)))


def plan_needs(
    request: RestoreRequest,
    tools_needed: tuple[int, int],
    source: ToolUri | None,
    spare: ToolUri | None = None,
    *,
    own_spare: bool = False,
) -> PlanSteps:
    """What the steps need, before there are any: a folder, named after the point if the request names none, programs
    and passwords. The tools ask for none of a spare that the steps start."""
    uris, limit = {"source": source, "spare": None if own_spare else spare}, request.limit
    return PlanSteps(
        work_dir=request.work_dir or str(home() / f"tallyglass-{limit.time:%Y%m%d-%H%M%S}-{limit.i}"),
        tools_needed=".".join(map(str, tools_needed)),
        source_user=clean_name(source.user) if source else "",
        spare_user=clean_name(spare.user) if spare else "",
        passwords=tuple(role for role, uri in uris.items() if uri and uri.asks),
    )


def entry_line(entry: Entry | None) -> str:
    """An entry in one line, safe to show; empty for none."""
    if entry is None:
        return ""
    shown = row(entry.raw)
    what = f"insert {shown.what}" if entry.op == "i" and not shown.what.startswith("insert") else shown.what
    return f"{shown.ts} {shown.ns} {what} {shown.id}".strip()
