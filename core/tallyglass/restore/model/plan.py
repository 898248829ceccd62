"""All facts of one restore, frozen. Built by :mod:`tallyglass.restore.plan`, shown and written out by others."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from datetime import datetime

from tallyglass.moment import Ts
from tallyglass.restore.model.check import Check, Level, worst
from tallyglass.restore.model.proof import ExpectedNamespace, Loss, Reissue, Slice
from tallyglass.restore.model.source import Backup
from tallyglass.restore.model.step import Command, PlanFile
from tallyglass.restore.model.undo import Accident, Choice, Return, WriteGroup


@dataclass(frozen=True, slots=True)
class Plan:
    """One restore: to just before ``limit`` (exclusive), replaying from ``start``, from ``backup``.

    ``before`` and ``after`` describe in one line the entry on each side of the point.
    ``commands`` and the ``files`` that they need are empty when a check blocks. ``passwords`` names the servers,
    ``source`` or ``spare``, whose password the tools will ask for.
    """

    point: Ts
    start: Ts | None
    limit: Ts
    backup: Backup
    set_name: str
    spare: str
    made: datetime
    before: str = ""
    after: str = ""
    incident: str = ""
    operations: int | None = None
    expected_applied: int | None = None
    hours_left: float | None = None
    checks: tuple[Check, ...] = ()
    commands: tuple[Command, ...] = ()
    files: tuple[PlanFile, ...] = ()
    loss: tuple[Loss, ...] = ()
    reissue: tuple[Reissue, ...] = ()
    expected: tuple[ExpectedNamespace, ...] = ()
    leftovers: tuple[str, ...] = ()
    returns: tuple[Return, ...] = ()
    raised: tuple[str, ...] = ()
    """The namespaces of the counters that are raised on the live set."""
    slice: Slice | None = None
    cut_transactions: tuple[str, ...] = ()
    server_version: str = ""
    made_by: str = ""
    """The version of Tallyglass that made the plan; the script calls no other."""
    tools_needed: str = ""
    work_dir: str = ""
    source_user: str = ""
    spare_user: str = ""
    passwords: tuple[str, ...] = ()
    accident: Accident | None = None
    choice: Choice | None = None
    undone: tuple[WriteGroup, ...] = ()
    """What the return undoes, one row for each effect on each namespace."""
    left_out: tuple[WriteGroup, ...] = ()
    """What was written there at the time and is left out of it, with the reason."""
    groups: tuple[WriteGroup, ...] = ()
    """Where the entries of the incident may be several statements: what was found, for a person to choose from."""
    oplog: tuple[str, ...] = ()
    """Where the saved oplog is that was read before the live one; empty where there was none."""
    found_in: tuple[str, ...] = ()
    """The folders of the programs that the steps call, on the machine that made the plan; without the usual ones."""

    @property
    def level(self) -> Level:
        """The worst level among the checks."""
        return worst(self.checks)

    @property
    def mark(self) -> str:
        """What a spare is marked with before this restore writes on it: 16 hexadecimal digits."""
        return hashlib.sha256(os.fsencode(f"{self.work_dir} {self.limit}")).hexdigest()[:16]
