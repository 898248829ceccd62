"""What was proven of a plan: what is replayed, what the spare must hold then, and what is lost."""

from __future__ import annotations

from dataclasses import dataclass

from tallyglass.moment import Ts
from tallyglass.oplog.snapshot import BUCKETS


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


@dataclass(frozen=True, slots=True)
class Slice:
    """The oplog entries that the replay file must hold: how many, from which to which, and their bytes."""

    entries: int
    first: Ts
    last: Ts
    bytes: int


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
class PlanProof:
    """What was proven of a plan: nothing yet where a check blocks before.

    The replay begins at ``start`` (None from pre-images), reads ``operations`` entries of ``slice`` and applies
    ``expected_applied`` of them. The spare then holds ``expected``, beside ``leftovers``, which mongorestore leaves and
    the source does not have. ``cut_transactions`` are open at the point. ``loss`` was written after it, and ``reissue``
    are the ids that would be handed out twice.
    """

    start: Ts | None = None
    operations: int | None = None
    expected_applied: int | None = None
    slice: Slice | None = None
    expected: tuple[ExpectedNamespace, ...] = ()
    leftovers: tuple[str, ...] = ()
    cut_transactions: tuple[str, ...] = ()
    loss: tuple[Loss, ...] = ()
    reissue: tuple[Reissue, ...] = ()

    def expected_of(self, ns: str) -> ExpectedNamespace | None:
        """What a collection or view must hold; None for a name of which nothing is expected."""
        return next((item for item in self.expected if item.ns == ns), None)
