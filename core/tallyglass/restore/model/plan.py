"""One restore, frozen. Built by :mod:`tallyglass.restore.plan`, shown and written out by others."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from datetime import datetime

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.restore.model.check import LETS_GO, Check, Level, worst
from tallyglass.restore.model.proof import PlanProof
from tallyglass.restore.model.source import FromBackup, FromImages
from tallyglass.restore.model.step import PlanSteps
from tallyglass.restore.model.undo import PlanUndo


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """The point of a plan, which is just before ``limit`` in the oplog of ``set_name``, and what lies around it.

    ``set_id`` is the id of that set, which another set of its name does not have; empty if it could not be read.
    ``incident`` describes what is undone, empty where none was named. ``before`` and ``after`` describe in one line the
    entry on each side of the point. ``hours_left`` is how long the server still holds what is needed of its oplog, None
    if unknown. ``made_by`` is the version of Tallyglass that made the plan; its steps call no other.
    """

    limit: Ts
    set_name: str
    made: datetime
    made_by: str = ""
    set_id: str = ""
    server_version: str = ""
    incident: str = ""
    before: str = ""
    after: str = ""
    hours_left: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """One restore to a point: where the documents come from, what was proven and checked, what is undone, and the
    steps, of which there are none when a check blocks."""

    facts: PlanFacts
    source: FromBackup | FromImages
    proof: PlanProof = field(default_factory=PlanProof)
    undo: PlanUndo = field(default_factory=PlanUndo)
    checks: tuple[Check, ...] = ()
    steps: PlanSteps = field(default_factory=PlanSteps)

    @property
    def level(self) -> Level:
        """The worst level among the checks."""
        return worst(self.checks)

    @property
    def is_blocked(self) -> bool:
        """Whether a check blocks: then there are no steps."""
        return self.level is Level.BLOCK

    @property
    def lets_go(self) -> bool:
        """Whether the server may have removed documents by the definition that is set back."""
        return any(check.id == LETS_GO for check in self.checks)

    @property
    def from_backup(self) -> FromBackup:
        """The source of a plan that restores a backup on a spare. Raises InputError for a plan from pre-images."""
        if isinstance(self.source, FromImages):
            raise InputError("That plan takes its documents from pre-images: it has no spare.")
        return self.source

    @property
    def mark(self) -> str:
        """What a spare is marked with before this restore writes on it: 16 hexadecimal digits."""
        return hashlib.sha256(os.fsencode(f"{self.steps.work_dir} {self.facts.limit}")).hexdigest()[:16]
