"""Read the oplog: follow it, filter it, and find what people did.

`follow` yields new entries, `read_past` past ones, and `scan` incidents. They only read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tallyglass._lazy import lazy

if TYPE_CHECKING:
    from tallyglass.oplog.filter.query import OplogFilter
    from tallyglass.oplog.incidents.incident import scan
    from tallyglass.oplog.read.tail import EVERYTHING, follow
    from tallyglass.oplog.read.tail import read as read_past
    from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan, OplogRow, OplogUpdate, OplogWindow, RowKind

__all__ = [
    "EVERYTHING",
    "Harm",
    "Incident",
    "IncidentScan",
    "OplogFilter",
    "OplogRow",
    "OplogUpdate",
    "OplogWindow",
    "RowKind",
    "follow",
    "read_past",
    "scan",
]

__getattr__ = lazy(
    __name__,
    {
        "filter.query": "OplogFilter",
        "incidents.incident": "scan",
        "read.tail": "EVERYTHING follow read_past:read",
        "snapshot": "Harm Incident IncidentScan OplogRow OplogUpdate OplogWindow RowKind",
    },
)
