"""Incidents as the dashboard gets them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Harm, Incident, IncidentScan

HOSTILE = "shop.[/red]\\u{1b}[2J"


def incident(number: int, first: int, harm: Harm = Harm.LOSS, **changes: Any) -> Incident:
    made = Incident(
        number=number,
        kind="deleteMany",
        title=f"deleteMany on {HOSTILE}",
        ns=HOSTILE,
        harm=harm,
        first=Ts(first, 2),
        last=Ts(first + 1, 1),
        first_wall=None,
        last_wall=None,
        ops=300,
        documents=300,
        point=Ts(first, 2),
    )
    return replace(made, **changes)


LOST, CHANGED = incident(1, 1795197974), incident(2, 1795198000, Harm.CHANGE, kind="updateMany", title="updateMany")


SCAN = IncidentScan((CHANGED, LOST), 1000, Ts(1, 1), done=True)
