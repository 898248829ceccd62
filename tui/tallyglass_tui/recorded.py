"""What a recording holds: the values of the feeds that pages show, by the names that stand in the file."""

from __future__ import annotations

from tallyglass.counters.snapshot import CountersSnapshot
from tallyglass.deployment.cluster import Deployment
from tallyglass.oplog.snapshot import IncidentScan, OplogUpdate
from tallyglass.restore.drill.past_drills import LastDrill
from tallyglass.restore.plan.at_hand import SourcesAtHand
from tallyglass_tui.restore.draft import First, Planned, Reading, Room
from tallyglass_tui.shell.feed import FeedTrouble

KINDS: dict[str, type] = {
    "deployment": Deployment,
    "counters": CountersSnapshot,
    "oplog": OplogUpdate,
    "incidents": IncidentScan,
    "drill": LastDrill,
    "sources": SourcesAtHand,
    "plan": Planned,
    "answer": First,
    "reading": Reading,
    "room": Room,
    "trouble": FeedTrouble,
}
