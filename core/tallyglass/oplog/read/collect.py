"""Between the stream and the screen: counts everything, keeps the newest rows that are wanted, within a bound."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry import row as rows
from tallyglass.oplog.entry.batch import EntryGroup, Envelope, Walker, chosen, counted, first_ts, last_ts, position
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.entry.operations import PartCount, PartCounts
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.oplog.filter.compile import CompiledFilter, Needed
from tallyglass.oplog.filter.query import OplogFilter
from tallyglass.oplog.read.rates import BUCKET_SECONDS, LONGEST_SECONDS, Rates
from tallyglass.oplog.snapshot import OplogRow


@dataclass(slots=True)
class _Waiting:
    """A wanted entry that is not yet a row: it becomes one only if it is still there when a screen asks."""

    raw: bytes
    parts: PartCount | None = None


class Collector:
    """Turns batches into rows. ``room`` is how many rows wait at most; older ones make way and are counted.

    ``backlog`` more wait until rows are first handed out, so that what was there before takes no room from what comes.
    """

    def __init__(self, wanted: OplogFilter, room: int, backlog: int = 0) -> None:
        self._filter = CompiledFilter(wanted)
        self._walker = Walker(self._filter.need)
        self._transactions = PartCounts()
        self._waiting: deque[_Waiting | OplogRow] = deque()
        self._room = room
        self._room_now = room + backlog
        self.rates = Rates()
        self.seen = 0
        self.matched = 0
        self.dropped = 0
        self.last: Ts | None = None

    def add(self, batch: bytes) -> None:
        """Count a batch, and keep what is wanted of it."""
        try:
            groups = self._walker.gather(batch)
        except Malformed as error:
            self.insert(rows.unreadable(batch, ZERO, str(error)))
            return
        if not groups:
            return
        counts = counted(groups)
        self.seen += sum(counts.values())
        self._rate(batch, counts, groups)
        # Looking up an enum for each entry would cost a tenth.
        wanted, whole = Needed.WANTED, Needed.ENTRY
        for start, end, envelope in chosen(groups):
            if envelope.tag is wanted:
                self.matched += 1
                self.insert(_Waiting(batch[start:end]))
            elif envelope.tag is whole or self._filter.may_want(batch, start, end):
                self._read(batch[start:end])

    def break_here(self) -> None:
        """The oplog is interrupted here: forget unfinished transactions."""
        self._transactions.clear()

    def rows(self, majority: Ts | None) -> tuple[tuple[OplogRow, ...], int]:
        """The rows since the last call, oldest first, and how many wanted ones were left out."""
        rows = tuple(_as_row(item, majority) for item in self._waiting)
        dropped, self.dropped = self.dropped, 0
        self._waiting.clear()
        self._room_now = self._room
        return rows, dropped

    def _read(self, raw: bytes) -> None:
        try:
            entry = read_entry(raw)
            wanted = self._filter.wants_entry(entry)
            if entry.in_transaction:
                parts = self._transactions.add(entry, wanted)
                if parts is None or not parts.wanted:
                    return
                self.matched += 1
                self.insert(_Waiting(raw, parts if parts.entries > 1 else None))
                return
        except Malformed:
            wanted = True
        if wanted:
            self.matched += 1
            self.insert(_Waiting(raw))

    def insert(self, item: _Waiting | OplogRow) -> None:
        """Insert an entry, or a row that is none, in its place; entries are dropped before such rows."""
        if len(self._waiting) >= self._room_now:
            oldest_entry = next((n for n, held in enumerate(self._waiting) if isinstance(held, _Waiting)), 0)
            del self._waiting[oldest_entry]
            self.dropped += 1
        self._waiting.append(item)

    def _rate(self, batch: bytes, counts: Mapping[Envelope, int], groups: Sequence[EntryGroup]) -> None:
        last = last_ts(batch)
        first = first_ts(batch)
        self.last = last if last != ZERO else self.last
        if first == ZERO or first.t // BUCKET_SECONDS == last.t // BUCKET_SECONDS:
            self.rates.add(last.t, counts)
        else:
            self._rate_by_bucket(batch, groups)
        self.rates.reach(last.t if first == ZERO else first.t, last.t)

    def _rate_by_bucket(self, batch: bytes, groups: Sequence[EntryGroup]) -> None:
        """A batch that spans more than one bucket: entries of a quiet time, or of the past. What is older than the
        longest span is one."""
        starts_of = [(group.envelope, group.starts) for group in groups]
        starts = sorted(chain.from_iterable(starts for _, starts in starts_of))
        bounds = [*starts, len(batch)]

        def seconds(place: int) -> int:
            return position(batch, bounds[place], bounds[place + 1])[0].t

        low, oldest = 0, seconds(len(starts) - 1) - LONGEST_SECONDS
        while low < len(starts):
            first = seconds(low)
            after = (max(first, oldest) // BUCKET_SECONDS + 1) * BUCKET_SECONDS
            high = bisect_left(range(len(starts)), after, low + 1, key=seconds)
            counts = Counter[Envelope]()
            for envelope, own in starts_of:
                counts[envelope] += bisect_left(own, bounds[high]) - bisect_left(own, bounds[low])
            self.rates.add(first, +counts)
            low = high


def _as_row(item: _Waiting | OplogRow, majority: Ts | None) -> OplogRow:
    if isinstance(item, OplogRow):
        return item
    row = rows.row(item.raw, majority)
    if item.parts is None:
        return row
    documents = item.parts.operations
    entries = f"{item.parts.entries:,} entries" + ("" if item.parts.whole else ", begun before")
    return replace(row, what=f"transaction of {documents:,} in {entries}", documents=documents)
