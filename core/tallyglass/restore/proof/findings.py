"""What is known of one restore, stage by stage: each stage holds what was proven there, and the stage before it.

:class:`~tallyglass.restore.proof.inputs.Inputs` (what was named) -> :class:`Located` (the oplog was found and its ends
read) -> :class:`Covered` (the window was read whole) -> :class:`Replayed` (the backup was read too: what the spare will
hold) -> :class:`Assessed` (what the restore means for the live data). :class:`Findings` holds the last stage that was
reached; a check reads the stage that it needs and yields nothing before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry
from tallyglass.restore.model.proof import ExpectedNamespace, Slice
from tallyglass.restore.model.undo import Return
from tallyglass.restore.proof.base import BaseFacts
from tallyglass.restore.proof.counter_search import CounterFacts
from tallyglass.restore.proof.definitions import Definitions
from tallyglass.restore.proof.inputs import Inputs
from tallyglass.restore.proof.later_writes import LaterWrites
from tallyglass.restore.proof.loss import LossCount
from tallyglass.restore.proof.replay import Replay
from tallyglass.restore.timeline.chains import is_left_out
from tallyglass.restore.timeline.coverage import NoStart, Start
from tallyglass.restore.tools.toolset import needed_for
from tallyglass.restore.undo.infer import Inferred


@dataclass(frozen=True, slots=True)
class Located:
    """The oplog was found. ``start`` is where the replay begins or why it cannot; None if the backup does not say when
    it was begun. ``at_limit`` is the first entry at or after the point."""

    inputs: Inputs
    fcv: str | None
    majority: Ts | None
    start: Start | NoStart | None = None
    at_limit: Entry | None = None
    foreign: str = ""
    """Why the backup is not of this oplog; empty if nothing contradicts it."""

    @property
    def limit_is_left_out(self) -> bool:
        """Whether the query of the oplog dump leaves out the very entry at the limit."""
        return self.at_limit is not None and is_left_out(self.at_limit.ns)


@dataclass(frozen=True, slots=True)
class Covered:
    """Every entry from ``start`` to the point was read. ``start`` may lie further back than located: at the beginning
    of a transaction. ``lost_beginning`` is an entry of a transaction that the oplog does not hold any more. ``is_cut``
    means that the first entry read was a later one: the oplog of the member that was read does not reach back so
    far."""

    located: Located
    start: Start
    replay: Replay
    before_limit: Entry | None = None
    is_cut: bool = False
    lost_beginning: Ts | None = None
    stale: tuple[str, ...] = ()
    """Collections of the backup that did not exist any more when the replay begins."""
    unlisted: frozenset[str] = frozenset()
    """Databases whose collections could not be compared with the live ones."""
    open_at_limit: tuple[list[Entry], ...] = ()
    hours_left: float | None = None

    @property
    def inputs(self) -> Inputs:
        """What the plan is made from: the first stage."""
        return self.located.inputs

    @property
    def moved_for_transaction(self) -> bool:
        """Whether the start lies further back than located."""
        return self.start != self.located.start


@dataclass(frozen=True, slots=True)
class Replayed:
    """The backup was read to its end and compared with what the oplog says of it: what the spare will hold, and what
    the replay file must hold. ``loss`` and ``later`` are what came after the point."""

    covered: Covered
    base: BaseFacts
    expected: tuple[ExpectedNamespace, ...] = ()
    slice: Slice | None = None
    loss: LossCount = field(default_factory=LossCount)
    later: LaterWrites = field(default_factory=LaterWrites)


@dataclass(frozen=True, slots=True)
class Assessed:
    """What the restore means for the live data. ``inferred`` is what the return undoes; None for a chosen namespace,
    whose return undoes nothing. ``overwritten`` says why the oplog no longer holds the start, empty where it does.
    ``target_taken`` means that the name for a chosen namespace is taken. ``expiring`` is what
    :func:`~tallyglass.restore.undo.expiry.expiry_of` says of the collections that are merged."""

    replayed: Replayed
    inferred: Inferred | None = None
    counters: CounterFacts = field(default_factory=CounterFacts)
    returns: tuple[Return, ...] = ()
    definitions: Definitions = field(default_factory=Definitions)
    expiring: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    overwritten: str = ""
    target_taken: bool = False

    @property
    def loss(self) -> LossCount:
        """What came after the point."""
        return self.replayed.loss

    @property
    def covered(self) -> Covered:
        """The stage of the window."""
        return self.replayed.covered

    @property
    def inputs(self) -> Inputs:
        """What the plan is made from: the first stage."""
        return self.covered.inputs


@dataclass(frozen=True, slots=True)
class Findings:
    """How far the proof came. ``unreadable`` says why the oplog may not be read; empty where it may."""

    inputs: Inputs
    reached: Located | Covered | Replayed | Assessed | None = None
    unreadable: str = ""

    @property
    def assessed(self) -> Assessed | None:
        """The last stage, if it was reached."""
        return self.reached if isinstance(self.reached, Assessed) else None

    @property
    def replayed(self) -> Replayed | None:
        """The stage of the backup's documents, if it was reached."""
        reached = self.reached
        return reached.replayed if isinstance(reached, Assessed) else reached if isinstance(reached, Replayed) else None

    @property
    def covered(self) -> Covered | None:
        """The stage of the window, if it was reached."""
        replayed = self.replayed
        return replayed.covered if replayed else self.reached if isinstance(self.reached, Covered) else None

    @property
    def tools_needed(self) -> tuple[int, int]:
        """The oldest database tools that can do this restore, as far as the proof came."""
        covered = self.covered
        return needed_for(self.inputs.deployment.version, plain=covered is None or covered.replay.is_plain)

    @property
    def located(self) -> Located | None:
        """The stage of the oplog's ends, if it was reached."""
        covered = self.covered
        return covered.located if covered else self.reached if isinstance(self.reached, Located) else None

    @property
    def start(self) -> Ts | None:
        """Where the replay begins, as far as that is known."""
        if self.covered:
            return self.covered.start.ts
        return self.located.start.ts if self.located and isinstance(self.located.start, Start) else None
