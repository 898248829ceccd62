"""The deletes or the updates of one namespace in a batch: when they were written, and bursts made of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import compress, pairwise
from operator import sub
from zlib import crc32

from tallyglass.oplog.entry import layout
from tallyglass.oplog.entry.batch import EntryGroup, sessions, time_of, times
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.entry.layout import OP_AT, SESSION_OP_AT, Documents, Stamp, documents_between
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.incidents.burst import MANY, Burst, Sample, sample_of
from tallyglass.oplog.incidents.families import LEAST_RUN
from tallyglass.oplog.incidents.id_order import MARKS, RAW_BYTES, is_large, mark_of, marked
from tallyglass.oplog.incidents.touched import SAMPLED_IDS, Touched, touched_by

SAMPLED_RUN = LEAST_RUN - 1
"""How many writes of one session have a sample: what one slice of the oplog has of a run may be less than all."""

_LARGE = 256
"""In so many updates the chosen documents are most often twice as many as a sample needs."""

_DIVISIBLE = tuple(bytes(n % step == 0 for n in range(256)) for step in (256, 128, 64, 32, 16, 8, 4, 2))
"""Which counters are divisible by so much, by their lowest byte."""

FROM_MIGRATE = b"\x08fromMigrate\0\x01"
_RETRY_IMAGE = b"needsRetryImage\0"


def moved_apart(batch: bytes, group: EntryGroup) -> tuple[EntryGroup, Burst | None]:
    """The entries that no migration wrote, and those that one did. Raises Malformed."""
    kept, moved = list[int](), list[int]()
    for start, end in zip(group.starts, group.ends, strict=True):
        inside = batch.find(FROM_MIGRATE, start, end) >= 0 and _is_moved(batch, start, end)
        (moved if inside else kept).extend((start, end))
    whole = BatchEntries(batch, moved[::2], moved[1::2], group).whole if moved else None
    return group._replace(places=kept), whole


def _is_moved(batch: bytes, start: int, end: int) -> bool:
    if layout.is_before_ts(batch, end, FROM_MIGRATE):
        return True
    try:
        return read_entry(batch[start:end]).from_migrate
    except Malformed:
        return False


def _went_back(last: tuple[int, int]) -> bool:
    """Whether the server's clock is behind the time of the oplog, which never goes back: it was set back before."""
    return last[1] // 1_000 < last[0] >> 32


class BatchEntries:
    """Entries of one envelope in a batch, oldest first: their times, and bursts made of them.

    If they lie close together only the requested times are read, otherwise all at once. Raises Malformed.
    """

    def __init__(self, batch: bytes, starts: list[int], ends: list[int], group: EntryGroup) -> None:
        self.batch, self.starts, self.ends, self.group = batch, starts, ends, group
        self.size = len(ends)
        self.session, self.op_at = group.envelope.session, group.op_at
        self.ts: Sequence[int] = ()
        self.walls: Sequence[int] = ()
        self.first, self.last = self.time(0), self.time(self.size - 1)
        self._documents: Documents | None = None
        self._sums: list[int] | None = None
        self._chosen = b""
        self._counters: bytes | None = None
        self._marked: dict[tuple[int, int], tuple[bytes, ...]] = {}
        self._touched: dict[tuple[int, int], Touched] = {}
        if abs(self.last[1] - self.first[1]) > self.size:
            self.read_all()

    @property
    def whole(self) -> Burst:
        """How many they are, from the first to the last."""
        return Burst(self.first[0], self.last[0], self.first[1], self.last[1], self.size, self.size)

    def read_all(self) -> None:
        """Read the times of all."""
        if not self.ts:
            self.ts, self.walls = times(self.batch, self.starts, self.ends, session=self.session)

    def by_session(self) -> Iterator[tuple[bytes, list[int], list[Stamp]]]:
        """Each session with the places of its entries and their stamps."""
        self.read_all()
        found, numbers = sessions(self.batch, self.starts, self.ends, op_at=self.op_at)
        places: defaultdict[bytes, list[int]] = defaultdict(list)
        for place, session in enumerate(found):
            places[session].append(place)
        stamps = list(zip(self.ts, self.walls, numbers, strict=True))
        for session, own in places.items():
            yield session, own, stamps if len(places) == 1 else [stamps[place] for place in own]

    def only(self, places: list[int]) -> BatchEntries:
        """Only those at some places."""
        starts, ends = [self.starts[place] for place in places], [self.ends[place] for place in places]
        return BatchEntries(self.batch, starts, ends, self.group)

    def time(self, index: int) -> tuple[int, int]:
        """``ts`` and wall of one."""
        if self.ts:
            return self.ts[index], self.walls[index]
        return time_of(self.batch, self.starts[index], self.ends[index])

    def sample(self, index: int) -> Sample:
        """The sample of one."""
        return sample_of(self.batch, self.starts[index], self.ends[index])

    def bursts(self, millis: int, *, marked: bool = False) -> list[Burst]:
        """Those with pauses of at most so many milliseconds, without transaction numbers; ``marked`` with marks."""
        return [self._burst(low, high, marked=marked) for low, high in pairwise(self._stretches(millis))]

    def _burst(self, low: int, high: int, *, marked: bool) -> Burst:
        first, last = self.time(low), self.time(high - 1)
        burst = Burst(first[0], last[0], first[1], last[1], high - low, high - low)
        if marked:
            burst.marks = self._marks(low, high)
        if self.group.envelope.op == "u":
            burst.touched = self._touched_by(low, high)
        if marked or high - low >= MANY:
            whole = burst.marks and not is_large(burst.marks[0])
            burst.samples = (burst.marks[0] if whole else self.sample(low),)
        return burst

    def _touched_by(self, low: int, high: int) -> Touched:
        """A sample of the documents that were updated."""
        found = self._touched.get((low, high))
        if found is None:
            found = self._touched[low, high] = self._sample_of(low, high)
        return found

    def _sample_of(self, low: int, high: int) -> Touched:
        """The documents with the smallest numbers: chosen ones come first, and of a large stretch they are enough."""
        if not self._chosen:
            self._documents = self._updated_documents()
            self._chosen = self._documents.chosen() if self._documents else bytes(self.size)
        if self._documents is None:
            return ()
        if high - low >= _LARGE:
            places = compress(range(low, high), self._chosen[low:high])
            sums = [crc32(key) >> 1 for key in self._documents.keys(places)]
            if len(set(sums)) >= SAMPLED_IDS:
                return touched_by(sums)
        if self._sums is None:
            self._sums = list(map(crc32, self._documents.keys(range(self.size))))
        numbers = zip(self._sums[low:high], self._chosen[low:high], strict=True)
        return touched_by([number >> 1 | (not chosen) << 31 for number, chosen in numbers])

    def _updated_documents(self) -> Documents | None:
        """Where the documents of the updates are; None where an entry names none."""
        framed = self.op_at in (OP_AT, SESSION_OP_AT)
        found = layout.updated_documents(self.batch, self.starts, self.ends, session=self.session) if framed else None
        if found is not None:
            return found
        entries = zip(self.starts, self.ends, strict=True)
        elements = [read_entry(self.batch, start, end).o2_at for start, end in entries]
        bounds = [(one.start, one.end) for one in elements if one is not None]
        return documents_between(self.batch, bounds) if len(bounds) == self.size else None

    def _marks(self, low: int, high: int) -> tuple[bytes, ...]:
        """Some entries from the first to the last, oldest first."""
        if high - low <= MARKS:
            return self._marks_at(range(low, high))
        found = self._marked.get((low, high))
        if found is None:
            places = marked(high - low, lambda place: self.time(low + place)[0], self._divisible(low, high))
            found = self._marked[low, high] = self._marks_at([low + place for place in places])
        return found

    def _marks_at(self, places: Sequence[int]) -> tuple[bytes, ...]:
        marks = tuple([self.batch[self.starts[place] : self.ends[place]] for place in places])
        if max(map(len, marks)) <= RAW_BYTES:
            return marks
        return tuple([mark_of(mark, self.time(place)[0]) for mark, place in zip(marks, places, strict=True)])

    def _divisible(self, low: int, high: int) -> list[int]:
        """Those of a large stretch whose counter is divisible by a number, the largest that leaves enough for marks."""
        if high - low <= 4 * MARKS or self.op_at != OP_AT:
            return []
        if self._counters is None:
            self._counters = layout.counters(self.batch, self.ends)
        counters = self._counters[low:high]
        found = (list(compress(range(high - low), counters.translate(chosen))) for chosen in _DIVISIBLE)
        return next((few for few in found if len(few) >= MARKS), [])

    def _stretches(self, millis: int) -> list[int]:
        """The start of each stretch that follows a pause of more than the given milliseconds, and the end."""
        if not self.ts:
            return self._stretches_by_halving(millis)
        walls = self.walls
        inner = [n for n, apart in enumerate(map(sub, walls[1:], walls), 1) if apart > millis]
        return [0, *inner, self.size]

    def _stretches_by_halving(self, millis: int) -> list[int]:
        bounds, before, stack = [0], self.first[1], [(0, self.size)]
        while stack:
            low, high = stack.pop()
            wall, last = self.time(low)[1], self.time(high - 1)
            after = last[1]
            if high - low > 1 and (after - wall > millis or _went_back(last)):
                middle = (low + high) // 2
                stack += (middle, high), (low, middle)
                continue
            if wall - before > millis:
                bounds.append(low)
            before = after
        bounds.append(self.size)
        return bounds

    def user_and_image(self, index: int) -> tuple[bytes, bool]:
        """The hash of a session's user, and whether the server kept an image for findAndModify."""
        start = self.starts[index]
        if self.op_at == SESSION_OP_AT:
            user = layout.user_in(self.batch, start)
        else:
            user = read_entry(self.batch, start, self.ends[index]).session_and_user[1]
        return user, self.batch.find(_RETRY_IMAGE, start, self.ends[index]) >= 0
