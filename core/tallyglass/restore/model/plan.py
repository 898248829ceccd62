"""All facts of one restore, frozen. Built by :mod:`tallyglass.restore.plan`, shown and written out by others."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from tallyglass.moment import Ts, iso


class Level(StrEnum):
    """The level of a check."""

    OK = "ok"
    WARN = "warn"
    BLOCK = "block"


@dataclass(frozen=True, slots=True)
class Check:
    """One fact that was checked. ``id`` is stable and short, such as ``coverage`` or ``backup-after-point``."""

    id: str
    level: Level
    title: str
    advice: str = ""


STAYS = "not-undone"
"""The id of the check that says what a plan without an incident leaves damaged: a run of it never ends with 0."""


def worst(checks: Iterable[Check]) -> Level:
    """The worst level among some checks."""
    levels = {check.level for check in checks}
    return next((level for level in (Level.BLOCK, Level.WARN) if level in levels), Level.OK)


class Phase(StrEnum):
    """The phases of a runbook, in order."""

    SECURE = "secure"
    RESTORE = "restore"
    VERIFY = "verify"
    RETURN = "return"
    CLEAN = "clean"


class Effect(StrEnum):
    """The strongest effect of a step."""

    FILES = "files only"
    READS_SPARE = "reads spare"
    READS_LIVE = "reads live"
    WRITES_SPARE = "writes spare"
    WRITES_LIVE = "writes live"


class RunMode(StrEnum):
    """When a run of all steps runs this one."""

    ONCE = "once"
    GUARD = "guard"
    """Together with the step after it, and again with each attempt at that one."""
    AGAIN = "again"
    """In each run until all is done: what it did may have to be done again."""
    PREVIEW = "preview"
    """Shows a person what the next steps will do, which do it once more themselves: ``--yes`` leaves it out."""
    BY_HAND = "by-hand"
    """Only if the user agrees: ``--yes`` skips it, and a no does not stop the script."""


@dataclass(frozen=True, slots=True)
class Proof:
    """What must hold after a step, by what mongorestore printed: it ``applied`` so many entries of the oplog, and its
    last line reports at least ``restored`` documents and no failure; None where that is not looked at. ``file`` names a
    file that the step must have made."""

    applied: int | None = None
    restored: int | None = None
    file: str = ""


@dataclass(frozen=True, slots=True)
class Command:
    """One step: ``shell`` is one line to paste in the plan's folder, and ``argv`` its arguments.

    ``why`` is one sentence; ``undo`` says how to take the step back, and is empty where nothing was changed. ``counts``
    tells, for each namespace that is written, how many documents are expected to change. ``proof`` must hold after the
    step. ``seconds`` is an estimate, None where there is none. ``exits`` are the exit codes of a step that did its
    work.
    """

    phase: Phase
    title: str
    argv: tuple[str, ...]
    shell: str
    why: str = ""
    undo: str = ""
    proof: Proof = Proof()
    mode: RunMode = RunMode.ONCE
    effect: Effect = Effect.FILES
    counts: tuple[str, ...] = ()
    seconds: float | None = None
    exits: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A file of the plan's folder that a step reads or runs. It holds no secret."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class FieldChange:
    """What the accident's updates do at one path, given by its names in hexadecimal. ``value`` is the BSON type and
    the bytes that all of them set there, in hexadecimal; empty where they remove the field, None where values differ.
    ``always``: an update that leaves the path as it was is none of them.
    """

    path: tuple[str, ...]
    value: str | None
    always: bool = False


@dataclass(frozen=True, slots=True)
class Accident:
    """Which operations after the point are to be undone.

    ``kind``: ``updates`` or ``deletes`` of the collection ``ns``, a ``removal`` (drop, dropDatabase, emptied), one
    ``transaction``, or ``everything``: all deletes and removals after the point, since no incident was named. ``first``
    and ``last`` bound it, both inclusive; None for no end. ``session`` is the id of the client session as hex
    where it is known that one client did it, ``any`` for several sessions. ``updates`` means that updates of ``ns``
    belong to it, up to ``updates_last``: those with this ``effect``, or those under the transaction number ``command``
    where one command of a session made all of them. ``entries`` is how many operations the plan found to be its own; 0
    where they were not counted. ``statement`` and ``count`` are what a person knows of it: its text, and how many
    documents it reported. ``proven``: all that the statement explains is its own, if it is as many as that.
    """

    kind: str
    ns: str
    first: Ts
    last: Ts | None
    session: str = ""
    updates: bool = False
    updates_last: Ts | None = None
    effect: tuple[FieldChange, ...] = ()
    command: int | None = None
    entries: int = 0
    statement: str = ""
    count: int | None = None
    proven: bool = False


@dataclass(frozen=True, slots=True)
class WriteGroup:
    """Entries of the oplog that do the same: ``what``, on how many ``documents`` of ``ns``, the first and the last of
    the ``entries``, and ``samples`` of the ``_id``s; all safe to show. Numbers are None where they are not known.
    ``why`` says why they are left out; empty where they are not. ``statement`` is an ``updateMany`` that would leave
    such entries, empty where that cannot be said.
    """

    ns: str
    what: str
    documents: int | None
    first: Ts
    last: Ts
    entries: int | None = None
    samples: tuple[str, ...] = ()
    why: str = ""
    statement: str = ""

    @property
    def line(self) -> str:
        """The row as one line, safe to show."""
        counts = ((self.entries, "entry"), (self.documents, "document"))
        known = [_counted(number, noun) for number, noun in counts if number is not None]
        documents = " on ".join(known) or "documents"
        span = f"{self.first} ({iso(self.first.time)})"
        span += f" to {self.last} ({iso(self.last.time)})" if self.last != self.first else ""
        such = f"; _id {', '.join(self.samples)}" if self.samples else ""
        more = " and others" if such and len(self.samples) != self.documents else ""
        left = f"; reason: {self.why}" if self.why else ""
        return f"{self.ns}: {self.what}; {documents}, {span}{such}{more}{left}"

    @property
    def brief(self) -> str:
        """The row in a list of groups of one namespace, safe to show."""
        what = f": {self.what}" if self.what else ""
        such = f", _id {', '.join(self.samples)}" if self.samples else ""
        clock = f"{self.first.time:%H:%M:%S}Z to {self.last.time:%H:%M:%S}Z"
        return f"{_counted(self.entries or 0, 'entry')}{what} ({self.first} to {self.last}, {clock}{such})"


def _counted(number: int, noun: str) -> str:
    plural = "entries" if noun == "entry" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


@dataclass(frozen=True, slots=True)
class Loss:
    """Operations after the point on one namespace: what a full rollback to the point would lose."""

    ns: str
    inserts: int
    updates: int
    deletes: int
    commands: int = 0


@dataclass(frozen=True, slots=True)
class Reissue:
    """A counter that would hand out ids twice after the restore. ``fix`` is mongosh text: ``$max``, or ``$min`` for one
    that descends."""

    ns: str
    id: str
    field: str
    restored: int | float | None
    live: int | float
    fix: str


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup holds. ``start`` and ``end`` are the oplog positions between which it was taken, None where
    it does not say; ``source`` tells how they are known: ``oplog``, ``sidecar``, ``note`` (of the tool that made it),
    ``given`` or ``file times``."""

    path: Path
    form: str
    gzip: bool
    start: Ts | None
    end: Ts | None
    source: str
    server_version: str = ""
    tool_version: str = ""
    namespaces: tuple[str, ...] = ()
    bytes: int = 0
    has_oplog: bool = False
    taken_hint: datetime | None = None
    compressed: bool = False
    """Whether its files must be decompressed before mongorestore can read them."""

    @property
    def exact(self) -> bool:
        """Whether the data holds all that was written before the start, so that the replay can begin right there."""
        return self.source in ("sidecar", "note")


BUCKETS = "system.buckets."
"""What the collections begin with in which time-series collections keep their documents."""


def stored_as(ns: str, kind: str) -> str:
    """The namespace that the documents of a collection of this kind are in."""
    db, _, name = ns.partition(".")
    return f"{db}.{BUCKETS}{name}" if kind == "timeseries" else ns


@dataclass(frozen=True, slots=True)
class ExpectedNamespace:
    """What one collection or view must hold on the spare after the replay.

    ``kind`` is collection, view or timeseries. ``documents`` is None where it cannot be computed.
    ``indexes`` and ``options`` are canonical Extended JSON, keys in order: comparable as text.
    ``repair`` holds the indexes that the replay loses (after a rename), and that the repair builds.
    """

    ns: str
    kind: str
    documents: int | None
    indexes: tuple[str, ...] = ()
    options: str = "{}"
    repair: tuple[str, ...] = ()


class Strategy(StrEnum):
    """How one namespace comes back to the live set."""

    WHOLE = "whole"
    """Nothing of its name is live: loaded into a staging collection, which is then renamed."""
    MERGE = "merge"
    """Loaded into a staging collection, then merged: what others wrote after the point stays."""
    REPLACE = "replace"
    """Loaded into a staging collection, which then replaces the live one; a copy of that is kept."""
    COPY = "copy"
    """Restored under another name on request: to compare or to export."""
    BESIDE = "beside"
    """Loaded into a staging collection, for a person to compare; nothing is merged."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One namespace that is wanted as it was at the point, under the name ``target``; ``ids`` are the ``_id``s of the
    documents that are wanted of it, as Extended JSON, empty for all."""

    ns: str
    target: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Return:
    """How one namespace comes back: ``beside`` is its staging collection; ``kept`` counts documents that
    others wrote after the point and that stay unchanged; ``note`` states any doubt; ``away`` is the name under
    which a copy of the live collection is kept when that is replaced; ``recreated``: the collection was removed and
    created again, so its indexes and options come back too."""

    ns: str
    strategy: Strategy
    beside: str = ""
    kept: int = 0
    note: str = ""
    away: str = ""
    recreated: bool = False

    @property
    def repairs(self) -> str:
        """Where the repairs of the live collection are loaded; of one that is replaced, what others wrote since."""
        return f"{self.beside}_since" if self.strategy is Strategy.REPLACE else self.beside

    @property
    def copied(self) -> str:
        """The name of the copy of a live collection until the names change, as the helpers in JavaScript know it."""
        return f"{self.beside}_kept"


@dataclass(frozen=True, slots=True)
class Slice:
    """The oplog entries that the replay file must hold: how many, from which to which, and their bytes."""

    entries: int
    first: Ts
    last: Ts
    bytes: int


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
