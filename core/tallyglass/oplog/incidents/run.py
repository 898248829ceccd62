"""One incident while it grows: an interval of the oplog to which entries are added from either end."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime

from tallyglass.moment import Ts, from_millis
from tallyglass.oplog.incidents.burst import SAMPLES
from tallyglass.oplog.snapshot import ROUTINE, Harm, Incident, StatementPart
from tallyglass.text import clean_name

GAP_MILLIS = 3_000
"""Entries of one kind on one namespace that are no further apart, by the server's clock, are one incident, unless the
documents say that they are two statements."""

WRITES = frozenset({"deleteMany", "updateMany", "deletes", "updates", "batch", "fan_out", "slow_loop"})
"""Kinds that consist of deletes or updates, which may continue."""

_HARM_ORDER = {Harm.LOSS: 0, Harm.CHANGE: 1, Harm.DEFINITION: 2}


@dataclass(slots=True)
class Run:
    """Entries that belong together. ``title`` and ``samples`` are safe to show, ``ns`` is as stored.

    ``point`` is the exclusive limit that undoes it, if that is not ``first``.
    """

    kind: str
    ns: str
    harm: Harm
    title: str
    first: Ts
    last: Ts
    first_wall: int | None
    last_wall: int | None
    ops: int = 0
    documents: int | None = None
    samples: deque[str] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    point: Ts | None = None
    note: str = ""
    closed: bool = False
    reason: str = ""
    op: str = ""
    session: bytes = b""
    user_hash: bytes = b""
    user: str = ""
    sessions: int = 0
    confidence: str = "high"
    about: bool = False
    parts: tuple[StatementPart, ...] = ()
    txn: int | None = None

    def add(self, ts: Ts, wall: int | None, ops: int = 1, documents: int | None = None) -> None:
        """Add entries at ``ts``, which may lie before or after this run."""
        if ts < self.first:
            self.first = ts
            self.first_wall = wall if wall is not None else self.first_wall
        if ts > self.last:
            self.last = ts
            self.last_wall = wall if wall is not None else self.last_wall
        self.ops += ops
        if documents is not None:
            self.documents = (self.documents or 0) + documents

    def distance(self, ts: Ts, wall: int | None) -> int:
        """Milliseconds between the nearer end and an entry; by ``ts`` if a wall clock time is missing."""
        if self.first <= ts <= self.last:
            return 0
        if wall is None or self.first_wall is None or self.last_wall is None:
            return max(self.first.t - ts.t, ts.t - self.last.t, 0) * 1_000
        return max(self.first_wall - wall if ts < self.first else wall - self.last_wall, 0)

    def absorb(self, other: Run) -> None:
        """Merge another run into this one."""
        self.add(other.first, other.first_wall, 0)
        self.add(other.last, other.last_wall, other.ops, other.documents)

    def copy(self) -> Run:
        """A copy, which can take in others without changing this one."""
        return replace(self, samples=self.samples.copy())

    @property
    def rank(self) -> tuple[bool, int, int, Ts]:
        """Orders by harm: routine trimming last, loss first, then by documents, then the newest."""
        size = self.documents if self.documents is not None else 10**12
        return (
            bool(self.reason) or self.kind in ROUTINE,
            _HARM_ORDER[self.harm],
            -size,
            Ts(-self.last.t, -self.last.i),
        )

    def incident(self, number: int, newest: Ts | None, newest_wall: int | None) -> Incident:
        """The frozen form. It is open while the newest known entry is within reach of its end."""
        streaming = self.kind in WRITES and not self.closed
        still_open = streaming and newest is not None and self.distance(newest, newest_wall) <= GAP_MILLIS
        return Incident(
            number, self.kind, self.title, clean_name(self.ns, 255), self.harm, self.first, self.last,
            _time(self.first_wall), _time(self.last_wall), self.ops, self.documents, tuple(self.samples),
            self.point or self.first, still_open, self.note, self.reason, self.op, self.sessions, self.session.hex(),
            self.user, self.user_hash.hex(), self.confidence, not self.about, txn=self.txn, parts=self.parts,
        )  # fmt: skip


def _time(millis: int | None) -> datetime | None:
    return None if millis is None else from_millis(millis)
