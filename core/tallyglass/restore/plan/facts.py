"""What every plan says of itself: its point, its source, and where its folder is."""

from __future__ import annotations

from datetime import UTC, datetime

from tallyglass import __version__
from tallyglass.deployment.cluster import Deployment
from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.row import row
from tallyglass.oplog.snapshot import Incident
from tallyglass.paths import home
from tallyglass.restore.model.plan import PlanFacts


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


def default_work_dir(limit: Ts) -> str:
    """A folder in the home directory, named after the point."""
    return str(home() / f"tallyglass-{limit.time:%Y%m%d-%H%M%S}-{limit.i}")


def entry_line(entry: Entry | None) -> str:
    """An entry in one line, safe to show; empty for none."""
    if entry is None:
        return ""
    shown = row(entry.raw)
    what = f"insert {shown.what}" if entry.op == "i" and not shown.what.startswith("insert") else shown.what
    return f"{shown.ts} {shown.ns} {what} {shown.id}".strip()
