"""The deletes or the updates of one namespace in a batch: when they were written, and pieces made of them."""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub

from tallyglass.oplog.entry import layout, walk
from tallyglass.oplog.entry.batch import EntryGroup, sessions, stamp, times
from tallyglass.oplog.entry.layout import Stamp
from tallyglass.oplog.incidents.burst import EDGE_ENTRIES, Piece, Sample, sample_of
from tallyglass.oplog.incidents.families import RUN_MILLIS
from tallyglass.oplog.incidents.id_order import MARKS

_MARK_BYTES = 1_024
_SAMPLED = 4
"""How many session entries share a sample: most runs are shorter and never shown."""

_RETRY_IMAGE = b"needsRetryImage\0"


class BatchEntries:
    """Entries of one envelope in a batch, in its order: their stamps, and pieces made of them.

    If they lie close together only the requested stamps are read, otherwise all at once. Raises Malformed.
    """

    def __init__(self, batch: bytes, group: EntryGroup, *, backward: bool) -> None:
        self.batch, self.backward = batch, backward
        self.starts, self.ends = group.starts, group.ends
        self.size = len(self.ends)
        self.session = group.envelope.session
        self._op_at = group.op_at
        self.first, self.last = self.stamp(0), self.stamp(self.size - 1)
        self.ts: Sequence[int] = ()
        self.walls: Sequence[int] = ()
        if abs(self.last[1] - self.first[1]) > self.size:
            self.read_all()

    def read_all(self) -> None:
        """Read the times of all."""
        if not self.ts:
            self.ts, self.walls = times(self.batch, self.starts, self.ends, session=self.session)

    def sessions(self) -> tuple[Sequence[bytes], Sequence[int]]:
        """The session and the transaction number of each."""
        return sessions(self.batch, self.starts, self.ends, op_at=self._op_at)

    def minutes(self) -> set[int]:
        """The minutes in which they were written."""
        first, last = self.first[1] // 60_000, self.last[1] // 60_000
        if first == last:
            return {first}
        self.read_all()
        return {wall // 60_000 for wall in self.walls}

    def stamp(self, index: int) -> Stamp:
        """The stamp of one."""
        return stamp(self.batch, self.starts[index], self.ends[index])

    def sample(self, index: int) -> Sample:
        """The sample of one."""
        return sample_of(self.batch, self.starts[index], self.ends[index])

    def piece(self, low: int, high: int, *, marked: bool = False) -> Piece:
        """Those from ``low`` up to before ``high`` as one piece, without transaction numbers; ``marked`` with marks."""
        size = high - low
        begin, end = low, min(high, low + EDGE_ENTRIES)
        if self.backward:
            begin, end = max(low, high - EDGE_ENTRIES), high
        if self.ts:
            edge = list(zip(self.ts[begin:end], self.walls[begin:end], strict=True))
            first, last = (self.ts[low], self.walls[low]), (self.ts[high - 1], self.walls[high - 1])
        else:
            edge = [self.stamp(index)[:2] for index in range(begin, end)]
            first, last = self.stamp(low)[:2], self.stamp(high - 1)[:2]
        if self.backward:
            first, last = last, first
            edge.reverse()
        sample = self.sample(low) if size >= _SAMPLED or not self.session else ""
        marks = self._marks(low, high) if marked else []
        return Piece(first[0], last[0], first[1], last[1], size, size, edge, sample, marks=marks)

    def _marks(self, low: int, high: int) -> list[bytes]:
        """Some entries from the first to the last, oldest first; none if they are large."""
        places = sorted({low + (high - 1 - low) * n // (MARKS - 1) for n in range(MARKS)}, reverse=self.backward)
        if any(self.ends[place] - self.starts[place] > _MARK_BYTES for place in places):
            return []
        return [self.batch[self.starts[place] : self.ends[place]] for place in places]

    def stretches(self, millis: int) -> list[int]:
        """The start of each stretch that follows a gap of more than the given milliseconds, and the end."""
        if self._apart(self.first[1], self.last[1]) <= millis:
            return [0, self.size]
        if not self.ts:
            return self._stretches_by_halving(millis)
        walls = self.walls
        late, early = (walls, walls[1:]) if self.backward else (walls[1:], walls)
        inner = [n for n, apart in enumerate(map(sub, late, early), 1) if apart > millis]
        return [0, *inner, self.size]

    def _stretches_by_halving(self, millis: int) -> list[int]:
        bounds, before, stack = [0], self.first[1], [(0, self.size)]
        while stack:
            low, high = stack.pop()
            wall, after = self.stamp(low)[1], self.stamp(high - 1)[1]
            if high - low > 1 and self._apart(wall, after) > millis:
                middle = (low + high) // 2
                stack += (middle, high), (low, middle)
                continue
            if self._apart(before, wall) > millis:
                bounds.append(low)
            before = after
        bounds.append(self.size)
        return bounds

    def _apart(self, wall: int, after: int) -> int:
        return wall - after if self.backward else after - wall

    def statement(self) -> Piece | None:
        """All as one piece, if one session wrote them under one transaction number or under consecutive ones."""
        size, one, other = self.size, self.first, self.last
        apart = abs(other[2] - one[2])
        if one[2] < 0 or abs(other[1] - one[1]) > RUN_MILLIS or apart not in (0, size - 1):
            return None
        if self.batch[self.starts[0] + layout.OP_AT] != walk.DOCUMENT:
            return None  # lsid is in another place
        if apart and abs(self.stamp(size // 2)[2] - one[2]) != size // 2:
            return None
        session = layout.session_in(self.batch, self.starts[0])
        if any(layout.session_in(self.batch, start) != session for start in self.starts):
            return None
        piece = self.piece(0, size)
        piece.number, piece.statements = min(one[2], other[2]), size if apart else 1
        return piece

    def user_and_image(self, index: int) -> tuple[bytes, bool]:
        """The hash of a session's user, and whether the server kept an image for findAndModify."""
        start = self.starts[index]
        return layout.user_in(self.batch, start), self.batch.find(_RETRY_IMAGE, start, self.ends[index]) >= 0
