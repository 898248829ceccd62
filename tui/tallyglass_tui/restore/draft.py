"""What the restore page knows at a moment: what was chosen, the plan that came of it, and its head-room."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.model.group import merged_checks
from tallyglass.restore.model.plan import Plan


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, or why there is none."""

    plan: Plan | None
    title: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Room:
    """How long the start of a replay stays in the oplog; ``gone`` when it no longer does. Hours are None if unknown."""

    hours: float | None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """What was chosen so far, and what came of it.

    ``failure`` says why there is no plan, ``since`` when planning began.
    """

    limit: Ts | None = None
    incident: Incident | None = None
    backup: str = ""
    spare: str = ""
    plan: Plan | None = None
    failure: str = ""
    planning: bool = False
    since: datetime | None = field(default=None, compare=False)
    room: Room | None = None

    @property
    def count(self) -> dict[str, int | None]:
        """How many items each part has; None where that is not known yet."""
        plan = self.plan
        return {
            "checks": len(merged_checks(plan.checks)) if plan else None,
            "loss": len(plan.loss) if plan else None,
            "counters": len(plan.reissue) if plan else None,
            "commands": len(plan.commands) if plan else None,
        }
