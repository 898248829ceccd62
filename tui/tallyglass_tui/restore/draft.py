"""The state of the restore page: the choices, the plan made from them, and its headroom."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import Incident
from tallyglass.restore.model.check import merged_checks
from tallyglass.restore.model.plan import Plan
from tallyglass.restore.model.way import Way
from tallyglass.text import clean
from tallyglass_tui import clock


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, or why there is none. ``ways`` are the ways to undo the incident, best first; ``way`` is the plan's."""

    plan: Plan | None
    title: str = ""
    advice: str = ""
    ways: tuple[Way, ...] = ()
    way: str = ""
    needs_backup: bool = False


@dataclass(frozen=True, slots=True)
class First:
    """The quick answer, before the proof: ``line`` says whether the point can be reached and for how long, ``save`` is
    the shell line that saves the oplog meanwhile; empty if there is nothing to save."""

    line: str
    save: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    """The progress of a plan: ``entries`` of the oplog read so far, the newest of them at ``at``; ``share`` is 0 to 1.
    ``first`` is the quick answer again: a screen that is late shows only the last of what it was sent."""

    entries: int
    at: Ts
    share: float
    first: First | None = None

    def seconds_left(self, waited: float) -> float | None:
        """The remaining seconds, if it took ``waited`` seconds to get here; None if it is too early to tell."""
        return waited * (1 - self.share) / self.share if self.share > 0 else None


@dataclass(frozen=True, slots=True)
class Room:
    """How long the start of a replay stays in the oplog; ``gone`` if it was overwritten. Hours are None if unknown."""

    hours: float | None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """The choices so far, and their result.

    ``oplog`` is a saved oplog that is read before the server's, empty for none. ``failure`` says why there is no plan,
    ``since`` when planning began, ``first`` is its quick answer, ``reading`` its progress. ``way`` is the
    way of the plan, or the requested one; empty for the best possible. ``ways`` are known once an incident has been
    planned. ``statement`` and ``reported`` are what a person says of the incident: what was run, and how many
    documents it reported. ``run`` is the line for a shell that runs the plan's folder, empty until it is written.
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
    reading: Reading | None = None
    way: str = ""
    ways: tuple[Way, ...] = field(default=(), compare=False)
    oplog: str = ""
    first: First | None = field(default=None, compare=False)
    statement: str = ""
    reported: int | None = None
    run: str = ""

    def being_planned(self, way: str) -> Draft:
        """The choices without a result, from now on planned in this way; empty for the best possible one."""
        return Draft(
            self.limit, self.incident, self.backup, self.spare, planning=True, since=clock.now(), way=way,
            oplog=self.oplog, statement=self.statement, reported=self.reported,
        )  # fmt: skip

    def after(self, planned: Planned | First | Reading) -> Draft:
        """The draft with what was delivered: the quick answer, the progress of the plan, the plan or why there is
        none."""
        if isinstance(planned, First):
            return replace(self, first=self.first or planned)
        if isinstance(planned, Reading):
            return replace(self, first=self.first or planned.first, reading=planned)
        failure = clean(f"{planned.title} {planned.advice}".strip(), 600)
        return replace(
            self, plan=planned.plan, failure=failure, planning=False, room=None, way=planned.way, ways=planned.ways
        )

    @property
    def is_running(self) -> bool:
        """Whether somebody plans it now: in a replay nobody does, and a plan may not be in the recording."""
        return self.planning and self.since is not None

    @property
    def other_way(self) -> Way | None:
        """The best of the other ways; None if no other one is known."""
        return next((way for way in self.ways if way.name != self.way), None)

    @property
    def why_no_other_way(self) -> str:
        """Why it cannot be planned in another way; empty where it can."""
        if self.incident is None:
            return "Pick an incident first: then the ways to undo it are known."
        if self.other_way is None:
            return "The ways to undo it are not known yet." if self.planning else "There is no other way to undo it."
        return clean(self.other_way.line, 300) if self.other_way.possible is False else ""

    @property
    def count(self) -> dict[str, int | None]:
        """How many items each part has; None if not known yet."""
        plan = self.plan
        if plan is None:
            return dict.fromkeys(("checks", "loss", "counters", "commands"))
        # What a check blocks may not have been computed: then none is no number.
        none = None if plan.is_blocked else 0
        return {
            "checks": len(merged_checks(plan.checks)) + len(self.ways),
            "loss": len(plan.proof.loss) or none,
            "counters": len(plan.proof.reissue) or none,
            "commands": len(plan.steps.commands),
        }
