"""Writes in close succession: an interval that grows at either end, in either direction of time."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass, field

from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.entry.json import id_text
from tallyglass.oplog.entry.layout import Stamp
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.incidents.id_order import IdOrder, order_of, thinned

EDGE_ENTRIES = 16
"""How many entries at the older end of a burst keep their position, to find where a statement began."""

_MANY_STAMPS = 4

LOOP_STATEMENTS = 20
"""The fewest statements of a session with consecutive numbers that show a loop."""

SAMPLES = 5
_RAW_SAMPLE_BYTES, _KEPT_SAMPLE_BYTES = 1_024, 320
"""Entries up to this size are kept whole as samples: while a burst is open, and once it is kept."""

_KEPT_MARK_BYTES = 480
"""Marks of up to this size together are kept: what is read from them takes as much, and is hardly ever needed."""

Sample = str | bytes
"""The ``_id`` of one document as text, or the entry to read it from on demand."""


def sample_of(batch: bytes, start: int, end: int) -> Sample:
    """The sample of one entry. Reading the ``_id`` costs as much as ten entries, and most samples are never shown."""
    raw = batch[start:end]
    return raw if len(raw) <= _RAW_SAMPLE_BYTES else sample_text(raw)


@functools.lru_cache(maxsize=2_000)
def sample_text(sample: Sample) -> str:
    """The text of a sample, safe to show; empty if the entry names no document."""
    if isinstance(sample, str):
        return sample
    try:
        entry = read_entry(sample)
        found = entry.id_at
        return id_text(entry.raw, found, 60) if found is not None else ""
    except Malformed:
        return ""


@dataclass(slots=True)
class Piece:
    """Entries of one operation on one namespace without a pause between them.

    ``first`` and ``last`` are timestamps as one number (``t << 32 | i``), the walls milliseconds since 1970. ``edge``
    holds ``(ts, wall)`` of the oldest entries, oldest first. ``number`` is the lowest ``txnNumber`` of a session's
    writes, ``statements`` how many consecutive numbers follow from there; 0 without a session. ``marks`` are some of
    the entries without a session, oldest first.
    """

    first: int
    last: int
    first_wall: int
    last_wall: int
    entries: int
    documents: int
    edge: list[tuple[int, int]]
    sample: Sample = ""
    number: int = -1
    statements: int = 0
    marks: list[bytes] = field(default_factory=list)


@dataclass(slots=True)
class Burst:
    """Pieces with short gaps between them. The fields are those of :class:`Piece`.

    ``low`` and ``high`` bound the transaction numbers, ``batch`` is the largest number of documents under one of them.
    """

    first: int
    last: int
    first_wall: int
    last_wall: int
    entries: int = 0
    documents: int = 0
    low: int = -1
    high: int = -1
    statements: int = 0
    batch: int = 0
    session: bytes = b""
    user: bytes = b""
    find_and_modify: bool = False
    edge: list[tuple[int, int]] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    before: list[Stamp] | None = None
    """A few earlier writes of the same session, after a gap in the numbers. It may still grow."""

    marks: list[bytes] = field(default_factory=list)
    _order: IdOrder | None = None
    _number: int = -1
    _in_number: int = 0

    @classmethod
    def of(cls, piece: Piece, session: bytes = b"", user: bytes = b"") -> Burst:
        """A burst of one piece."""
        samples: list[Sample] = [piece.sample] if piece.sample else []
        if not piece.statements:
            return cls(
                piece.first, piece.last, piece.first_wall, piece.last_wall, piece.entries, piece.documents,
                session=session, user=user, edge=piece.edge, samples=samples, marks=piece.marks,
            )  # fmt: skip
        high = piece.number + piece.statements - 1
        in_number = 1 if piece.statements > 1 else piece.documents
        return cls(
            piece.first, piece.last, piece.first_wall, piece.last_wall, piece.entries, piece.documents, piece.number,
            high, piece.statements, in_number, session, user, False, piece.edge, samples,
            _number=high, _in_number=in_number,
        )  # fmt: skip

    def add(self, piece: Piece) -> None:
        """Add a piece that lies before or after this burst."""
        older = piece.first < self.first
        if older:
            self.first, self.first_wall = piece.first, piece.first_wall
            self.edge = (piece.edge + self.edge)[:EDGE_ENTRIES]
        elif len(self.edge) < EDGE_ENTRIES:
            self.edge = (self.edge + piece.edge)[:EDGE_ENTRIES]
        if piece.last > self.last:
            self.last, self.last_wall = piece.last, piece.last_wall
        self.entries += piece.entries
        self.documents += piece.documents
        if self.marks:
            self.marks = thinned(piece.marks + self.marks if older else self.marks + piece.marks)
        if piece.sample and len(self.samples) < SAMPLES:
            self.samples.append(piece.sample)
        if piece.statements:
            self._count_statements(piece, older)

    def add_single(self, stamp: Stamp) -> None:
        """Add one entry of a session."""
        ts, wall, number = stamp
        older = ts < self.first
        if older:
            self.first, self.first_wall = ts, wall
            self.edge = [(ts, wall), *self.edge[: EDGE_ENTRIES - 1]]
        elif len(self.edge) < EDGE_ENTRIES:
            self.edge.append((ts, wall))
        if ts > self.last:
            self.last, self.last_wall = ts, wall
        self.entries += 1
        self.documents += 1
        if number == self._number and number >= 0:
            self._in_number += 1
        elif number >= 0:
            self.low = number if self.low < 0 or number < self.low else self.low
            self.high = number if number > self.high else self.high
            self.statements += 1
            self._number, self._in_number = number, 1
        if self._in_number > self.batch:
            self.batch = self._in_number

    def add_singles(self, stamps: list[Stamp]) -> None:
        """Add entries of a session in reading order, whose numbers follow each other."""
        older, newer = stamps[0][0] < self.first, stamps[0][0] > self.last
        if len(stamps) < _MANY_STAMPS or stamps[0][2] < 0 or not (older or newer):
            for stamp in stamps:
                self.add_single(stamp)
            return
        (ts, wall, number), numbers = stamps[-1], [number for _, _, number in stamps]
        if older:
            self.first, self.first_wall = ts, wall
            edge = [(ts, wall) for ts, wall, _ in stamps[: -EDGE_ENTRIES - 1 : -1]]
            self.edge = edge + self.edge[: EDGE_ENTRIES - len(edge)]
        else:
            self.last, self.last_wall = ts, wall
            self.edge += [(ts, wall) for ts, wall, _ in stamps[: EDGE_ENTRIES - len(self.edge)]]
        self.entries += len(stamps)
        self.documents += len(stamps)
        in_number = Counter(numbers)
        self.statements += len(in_number) - (numbers[0] == self._number)
        if numbers[0] == self._number:
            in_number[self._number] += self._in_number
        self.low = min(numbers[0], number, self.low if self.low >= 0 else number)
        self.high = max(numbers[0], number, self.high)
        self.batch = max(self.batch, *in_number.values())
        self._number, self._in_number = number, in_number[number]

    def _count_statements(self, piece: Piece, older: bool) -> None:
        low, high = piece.number, piece.number + piece.statements - 1
        self.low = low if self.low < 0 else min(self.low, low)
        self.high = max(self.high, high)
        nearest, outermost = (high, low) if older else (low, high)
        if piece.statements > 1:
            self.statements += piece.statements - (nearest == self._number)
            self._number, self._in_number = outermost, 1
            self.batch = max(self.batch, 1)
            return
        if nearest == self._number:
            self._in_number += piece.documents
        else:
            self.statements += 1
            self._number, self._in_number = nearest, piece.documents
        self.batch = max(self.batch, self._in_number)

    def gap(self, piece: Piece | Burst) -> int:
        """Milliseconds between this burst and another; 0 if they overlap."""
        if piece.first > self.last:
            return max(piece.first_wall - self.last_wall, 0)
        if piece.last < self.first:
            return max(self.first_wall - piece.last_wall, 0)
        return 0

    def overlaps(self, other: Burst) -> bool:
        """Whether the two have a moment in common."""
        return self.first <= other.last and other.first <= self.last

    def jump(self, piece: Piece) -> int:
        """How far the transaction numbers of a piece are from this burst's interval."""
        high = piece.number + piece.statements - 1
        return max(piece.number - self.high, self.low - high, 0)

    def steps_to(self, stamp: Stamp) -> tuple[int, int]:
        """:meth:`jump` and :meth:`gap` for one entry."""
        ts, wall, number = stamp
        gap = wall - self.last_wall if ts > self.last else self.first_wall - wall if ts < self.first else 0
        return max(number - self.high, self.low - number), gap

    def absorb(self, other: Burst) -> None:
        """Merge another burst into this one."""
        older = other.first < self.first
        mine, others = self.order, other.order
        self.marks = []
        self._order = None
        if mine is not None and others is not None:
            self._order = others.joined(mine) if older else mine.joined(others)
        if older:
            self.first, self.first_wall = other.first, other.first_wall
            self.edge = (other.edge + self.edge)[:EDGE_ENTRIES]
        if other.last > self.last:
            self.last, self.last_wall = other.last, other.last_wall
        self.entries += other.entries
        self.documents += other.documents
        self.statements += other.statements
        self.batch = max(self.batch, other.batch)
        self.low = min(self.low, other.low) if self.low >= 0 and other.low >= 0 else max(self.low, other.low)
        self.high = max(self.high, other.high)
        self.samples = (self.samples + other.samples)[:SAMPLES]

    @property
    def order(self) -> IdOrder | None:
        """In which order it went through the documents, if it is known."""
        return order_of(self.marks) if self.marks else self._order

    def shrink(self) -> None:
        """Turn entries into what is read from them, unless they are small: then that would not take less memory."""
        if sum(map(len, self.marks)) > _KEPT_MARK_BYTES:
            self._order, self.marks = self.order, []
        for place, sample in enumerate(self.samples):
            if len(sample) > _KEPT_SAMPLE_BYTES:
                self.samples[place] = sample_text(sample)

    def copy(self) -> Burst:
        """A copy of the burst, which can be joined without changing this one."""
        twin = Burst(self.first, self.last, self.first_wall, self.last_wall, session=self.session, user=self.user)
        twin.find_and_modify = self.find_and_modify
        twin.entries, twin.documents, twin.statements = self.entries, self.documents, self.statements
        twin.low, twin.high, twin.batch = self.low, self.high, self.batch
        twin.edge, twin.samples = list(self.edge), list(self.samples)
        twin.marks, twin._order = self.marks, self._order
        return twin

    @property
    def millis(self) -> int:
        """From the first entry to the last, by the server's clock."""
        return max(self.last_wall - self.first_wall, 0)

    @property
    def purity(self) -> float:
        """The share of the session's statements between first and last that are of this kind: 1.0 for a plain loop."""
        return self.statements / (self.high - self.low + 1) if self.low >= 0 else 0.0

    @property
    def form(self) -> str:
        """How a session wrote it: a "script" from its first statement on, a "loop" of one statement after the other, or
        "mixed" with other writes or several documents a statement."""
        if self.statements < LOOP_STATEMENTS or self.purity < 0.9 or self.batch > 1:
            return "mixed"
        return "script" if self.low <= 2 else "loop"


class ShortRun:
    """The first writes of a session's run. Most runs stay this short, so it uses little memory.

    ``stamps`` are in reading order: newest first if the oplog is read backwards.
    """

    __slots__ = ("before", "stamps")

    def __init__(self, stamps: list[Stamp]) -> None:
        self.stamps = stamps
        self.before: list[Stamp] | None = None

    @property
    def documents(self) -> int:
        """How many writes there are."""
        return len(self.stamps)

    @property
    def last(self) -> int:
        """The ``ts`` of the newest."""
        return max(self.stamps[0][0], self.stamps[-1][0])

    def burst(self, session: bytes, user: bytes = b"") -> Burst:
        """These writes as a Burst, which they become when the run outgrows this class."""
        run = burst_of(self.stamps, session, user)
        run.before = self.before
        return run


def burst_of(stamps: list[Stamp], session: bytes, user: bytes = b"") -> Burst:
    """A few writes of one session as a burst."""
    (first, first_wall, _), (last, last_wall, _) = sorted((stamps[0], stamps[-1]))
    edge = sorted((ts, wall) for ts, wall, _ in stamps)[:EDGE_ENTRIES]
    count = len(stamps)
    run = Burst(first, last, first_wall, last_wall, count, count, session=session, user=user, edge=edge)
    numbers = [number for _, _, number in stamps if number >= 0]
    if numbers:
        run.low, run.high = min(numbers), max(numbers)
        run.statements = len(set(numbers))
        run.batch = max(map(numbers.count, numbers)) if run.statements < count else 1
        run._number, run._in_number = numbers[-1], numbers.count(numbers[-1])
    return run
