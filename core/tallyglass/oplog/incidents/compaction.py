"""Compact the entries of a batch into bursts: streaming, in either direction of time, with bounded memory."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from operator import sub

from tallyglass.moment import Ts
from tallyglass.oplog.entry.batch import EntryGroup
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.layout import Stamp, session_in
from tallyglass.oplog.incidents.batch_entries import BatchEntries
from tallyglass.oplog.incidents.burst import SAMPLES, Burst, Piece, Sample, ShortRun
from tallyglass.oplog.incidents.families import (
    BURST_LIMIT,
    CLUMP_MILLIS,
    EPISODE_MILLIS,
    LEAST_RUN,
    NEXT_MILLIS,
    RUN_JUMP,
    RUN_MILLIS,
    Family,
    Writes,
)

RUN_LIMIT = 5_000
"""The most session runs open at once; the least recently used one is closed for the next."""

FAMILY_LIMIT = 20_000
TOTAL_BURST_LIMIT = 50_000
OTHERS = "(other collections)"

_FEW_PIECES = 6
"""Above this number of boundaries of runs in a batch, small runs are counted together instead of one by one."""

Key = tuple[str, str, Writes]
RunKey = tuple[str, str, bytes]


@dataclass(slots=True)
class _Part:
    """The entries of one session in a batch. Runs of it that ended and are too small to be kept go into ``small``.

    ``seams`` says that new entries may continue what ended here.
    """

    key: RunKey
    family: Family
    entries: BatchEntries
    places: list[int]
    stamps: list[Stamp]
    small: Counter[int]
    seams: bool


def _steps(run: ShortRun | Burst, stamp: Stamp, *, backward: bool) -> tuple[int, int]:
    """How far a stamp is from a run, in numbers and in milliseconds."""
    if isinstance(run, Burst):
        return run.steps_to(stamp)
    near, sign = run.stamps[-1], -1 if backward else 1
    return (stamp[2] - near[2]) * sign, (stamp[1] - near[1]) * sign


def _breaks(stamps: list[Stamp], *, backward: bool) -> tuple[list[int], bool]:
    """The indices at which a new run begins, with 0 and the number of stamps, and True; every index and False if the
    transaction numbers do not rise."""
    size = len(stamps)
    if size == 1:
        return [0, 1], True
    _, walls, numbers = zip(*stamps, strict=True)
    late, early = (numbers, numbers[1:]) if backward else (numbers[1:], numbers)
    steps = list(map(sub, late, early))
    if min(steps) < 0:
        return list(range(size + 1)), False
    if abs(walls[-1] - walls[0]) <= RUN_MILLIS:
        return [0, *[n for n, step in enumerate(steps, 1) if step > RUN_JUMP], size], True
    late, early = (walls, walls[1:]) if backward else (walls[1:], walls)
    gaps = map(sub, late, early)
    inner = [
        n
        for n, (step, gap) in enumerate(zip(steps, gaps, strict=True), 1)
        if (step > RUN_JUMP or gap > RUN_MILLIS) and (step > 1 or gap > NEXT_MILLIS)
    ]
    return [0, *inner, size], True


def _without_small(run: ShortRun | Burst, part: _Part, bounds: list[int]) -> list[int]:
    """Count the runs in the middle at once, if all are too small to be kept: only the last ones may still grow.

    Returns the bounds that are left, the first of which has been added to ``run``.
    """
    sizes = list(map(sub, bounds[2:], bounds[1:]))
    if part.seams or isinstance(run, Burst) or max(sizes) >= LEAST_RUN:
        return bounds
    part.small[len(run.stamps)] += 1
    part.small.update(sizes[:-3])
    run.stamps = part.stamps[bounds[-4] : bounds[-3]]
    return [0, *bounds[-3:]]


class Compactor:
    """Holds the families of all namespaces. Calls ``compress`` to fold usual bursts when a family is full."""

    def __init__(self, compress: Callable[[Family], None], *, backward: bool) -> None:
        self.backward = backward
        self.families: dict[Key, Family] = {}
        self._compress = compress
        self._runs: OrderedDict[RunKey, tuple[ShortRun | Burst, Family]] = OrderedDict()
        self._seam_runs: dict[RunKey, tuple[ShortRun | Burst, Family]] = {}
        self._newest: Ts | None = None
        self._kept = 0
        self._open_by_family: dict[int, list[Burst]] = {}

    def note_newest(self, ts: Ts) -> None:
        """Note how far the oplog has been read."""
        if self._newest is None or ts > self._newest:
            self._newest = ts

    # Feeding

    def plain(self, batch: bytes, group: EntryGroup) -> None:
        """Deletes or updates without a session, in order. Raises Malformed."""
        family = self.family(group.envelope.ns, group.envelope.op, Writes.PLAIN)
        entries = BatchEntries(batch, group, backward=self.backward)
        self._count(entries, family)
        self._clumps(family, entries, entries.stretches(CLUMP_MILLIS))
        for low, high in pairwise(entries.stretches(EPISODE_MILLIS)):
            self._episode(family, entries.piece(low, high))

    def in_sessions(self, batch: bytes, group: EntryGroup) -> None:
        """Deletes or updates of sessions, in order. Raises Malformed."""
        ns, op = group.envelope.ns, group.envelope.op
        family, spread = self.family(ns, op, Writes.SESSION), self.family(ns, op, Writes.FAN_OUT)
        entries = BatchEntries(batch, group, backward=self.backward)
        self._count(entries, family, spread)
        self._clumps(spread, entries, entries.stretches(CLUMP_MILLIS))
        for low, high in pairwise(entries.stretches(EPISODE_MILLIS)):
            self._episode(spread, entries.piece(low, high))
        statement = entries.statement()
        if statement is not None:
            user, image = entries.user_and_image(0)
            self._add_to_run(ns, op, session_in(batch, entries.starts[0]), user, statement, image)
        else:
            self._runs_of_all(family, entries)

    def _count(self, entries: BatchEntries, *families: Family) -> None:
        """Count the entries, and the minutes in which they were written."""
        ends, minutes = (entries.first, entries.last), entries.minutes()
        for family in families:
            family.count_all(entries.size, ends, minutes)

    def add_plain(self, family: Family, piece: Piece) -> None:
        """One piece of writes without a session."""
        family.count(piece)
        self._clump(family, piece)
        self._episode(family, piece)

    def add_to_run(self, ns: str, op: str, session: bytes, user: bytes, piece: Piece) -> None:
        """One piece of one session's writes."""
        self.family(ns, op, Writes.SESSION).count(piece)
        self._add_to_run(ns, op, session, user, piece)

    def _episode(self, family: Family, piece: Piece) -> None:
        episode = family.open_episode
        if episode is not None and episode.gap(piece) <= EPISODE_MILLIS:
            episode.add(piece)
            return
        if episode is not None:
            self._close_episode(family, episode)
        family.open_episode = Burst.of(piece)

    def _add_to_run(self, ns: str, op: str, session: bytes, user: bytes, piece: Piece, image: bool = False) -> None:
        key = (ns, op, session)
        held = self._held(key)
        former: Burst | None = None
        if held is not None:
            run, family = held
            if isinstance(run, ShortRun):
                run = run.burst(session, user)
                self._runs[key] = run, family
            jump, gap = run.jump(piece), run.gap(piece)
            if (jump <= RUN_JUMP and gap <= RUN_MILLIS) or (jump <= 1 and gap <= NEXT_MILLIS):
                run.add(piece)
                run.find_and_modify |= image
                self._runs.move_to_end(key)
                return
            self._close_run(key, run, family)
            former = run if gap <= RUN_MILLIS else None
        else:
            family = self.family(ns, op, Writes.SESSION)
        run = Burst.of(piece, session, user)
        if former is not None:
            self._link(run, former)
        run.find_and_modify = image
        self._open_run(key, run, family)

    def _runs_of_all(self, family: Family, entries: BatchEntries) -> None:
        """Entries of several sessions, or with holes in their numbers, session by session."""
        entries.read_all()
        sessions, numbers = entries.sessions()
        by_session: defaultdict[bytes, list[int]] = defaultdict(list)
        for place, session in enumerate(sessions):
            by_session[session].append(place)
        stamps = list(zip(entries.ts, entries.walls, numbers, strict=True))
        seams = self.backward and self._is_near(max(entries.first[0], entries.last[0]), NEXT_MILLIS)
        small: Counter[int] = Counter()
        for session, places in by_session.items():
            key = family.ns, family.op, session
            run = self._touched(key, family)
            if isinstance(run, Burst):
                self._note(run, entries, places[0])
            part = _Part(key, family, entries, places, [stamps[place] for place in places], small, seams)
            bounds, certain = _breaks(part.stamps, backward=self.backward)
            run = self._add_part(run, part, 0, bounds[1])
            if certain and len(bounds) > _FEW_PIECES:
                bounds = _without_small(run, part, bounds)
            for low, high in pairwise(bounds[1:]):
                run = self._add_part(run, part, low, high)
        for size, times in small.items():
            family.add_small(size, times)

    def _touched(self, key: RunKey, family: Family) -> ShortRun | Burst:
        """The open run of a session, or a new one."""
        held = self._held(key)
        if held is not None:
            self._runs.move_to_end(key)
            return held[0]
        fresh = ShortRun([])
        self._open_run(key, fresh, family)
        return fresh

    def _add_part(self, run: ShortRun | Burst, part: _Part, low: int, high: int) -> ShortRun | Burst:
        """Add stamps that follow each other closely. Returns the run that holds the last of them."""
        stamps = part.stamps
        if run.documents:
            jump, gap = _steps(run, stamps[low], backward=self.backward)
            if (jump > RUN_JUMP or gap > RUN_MILLIS) and (jump > 1 or gap > NEXT_MILLIS):
                run = self._begin_again(run, part, stamps[low], near=gap <= RUN_MILLIS)
                low += 1
        if isinstance(run, ShortRun):
            full = low + LEAST_RUN - len(run.stamps)
            run.stamps += stamps[low : min(high, full)]
            if full > high:
                return run
            place, low = part.places[full - 1], full
            run = run.burst(part.key[2], part.entries.user_and_image(place)[0])
            self._note(run, part.entries, place)
            self._runs[part.key] = run, part.family
        if low < high:
            run.add_singles(stamps[low:high])
        return run

    def _begin_again(self, run: ShortRun | Burst, part: _Part, stamp: Stamp, *, near: bool) -> ShortRun:
        """End a run, and begin the next one of that session."""
        if isinstance(run, ShortRun) and not part.seams:
            part.small[len(run.stamps)] += 1
            run.before = run.stamps if near and not self.backward else None
            run.stamps = [stamp]
            return run
        self._close_run(part.key, run, part.family)
        fresh = ShortRun([stamp])
        if near:
            self._link(fresh, run)
        self._open_run(part.key, fresh, part.family)
        return fresh

    def _note(self, run: Burst, entries: BatchEntries, index: int) -> None:
        """Note, once per batch, what else an entry says."""
        run.find_and_modify |= entries.user_and_image(index)[1]
        if len(run.samples) < SAMPLES:
            run.samples.append(entries.sample(index))

    def _held(self, key: RunKey) -> tuple[ShortRun | Burst, Family] | None:
        held = self._runs.get(key)
        if held is None and not self.backward and self._seam_runs:
            held = self._seam_runs.pop(key, None)
            if held is not None:
                self._runs[key] = held
        return held

    def _open_run(self, key: RunKey, run: ShortRun | Burst, family: Family) -> None:
        self._runs[key] = run, family
        if len(self._runs) > RUN_LIMIT:
            oldest, (burst, owner) = next(iter(self._runs.items()))
            self._close_run(oldest, burst, owner)

    def _link(self, run: ShortRun | Burst, former: ShortRun | Burst) -> None:
        """Attach a few writes to the large run that came after them; no chains."""
        if self.backward and isinstance(former, Burst) and isinstance(run, ShortRun):
            former.before = run.stamps
        elif not self.backward and isinstance(former, ShortRun):
            run.before = former.stamps

    def family(self, ns: str, op: str, writes: Writes) -> Family:
        """The family of writes on a namespace; if there are too many, one family holds the rest."""
        key = (ns, op, writes)
        found = self.families.get(key)
        if found is None:
            if len(self.families) >= FAMILY_LIMIT:
                key = (OTHERS, op, writes)
            found = self.families.get(key)
            if found is None:
                found = self.families[key] = Family(key[0], op, writes)
        return found

    def runs_of(self, family: Family) -> list[Burst]:
        """The runs of a family, with those that are open."""
        return [*family.clumps, *self._open_by_family.get(id(family), ())]

    def index_open_runs(self) -> None:
        """Sort the open runs by family, for :meth:`runs_of`."""
        found: dict[int, list[Burst]] = {}
        for (_, _, session), (run, family) in (*self._runs.items(), *self._seam_runs.items()):
            found.setdefault(id(family), []).append(run.burst(session) if isinstance(run, ShortRun) else run)
        self._open_by_family = found

    def turn(self) -> None:
        """After reading backwards: continue after the newest entry."""
        for key, (run, family) in list(self._runs.items()):
            if not self._is_near(run.last, NEXT_MILLIS) or key in self._seam_runs:
                self._close_run(key, run, family)
        self._runs.update(self._seam_runs)
        for run, _ in self._runs.values():
            if isinstance(run, ShortRun):
                run.stamps.sort()
        self._seam_runs.clear()
        for family in self.families.values():
            if family.seam_clump is not None or not self._near_newest(family.open_clump, CLUMP_MILLIS):
                self._end_clump(family)
                family.open_clump, family.seam_clump = family.seam_clump, None
            if family.seam_episode is not None or not self._near_newest(family.open_episode, EPISODE_MILLIS):
                self._end_episode(family)
                family.open_episode, family.seam_episode = family.seam_episode, None
        self.backward = False

    def _clumps(self, family: Family, entries: BatchEntries, bounds: list[int]) -> None:
        """The entries between each two bounds as a clump; small ones that cannot grow are only counted."""
        marked, least_marked = family.writes is Writes.PLAIN, family.least_marked
        self._clump(family, entries.piece(0, bounds[1], marked=marked))
        if len(bounds) == 2:
            return
        inner = bounds[1:-1]
        least = family.least
        if self.backward and family.seam_clump is None and self._is_near(entries.first[0], CLUMP_MILLIS):
            least = 0
        sizes = list(map(sub, inner[1:], inner))
        small = Counter(sizes)
        if sizes and max(sizes) >= least:
            for low, size in zip(inner, sizes, strict=False):
                if size >= least:
                    self._close_clump(family)
                    family.open_clump = Burst.of(entries.piece(low, low + size, marked=marked and size >= least_marked))
        self._close_clump(family)
        family.open_clump = Burst.of(entries.piece(inner[-1], bounds[-1], marked=marked))
        for size, times in small.items():
            if size < least:
                family.add_small(size, times)

    def _clump(self, family: Family, piece: Piece) -> None:
        clump = family.open_clump
        if clump is not None and clump.gap(piece) <= CLUMP_MILLIS:
            clump.add(piece)
            return
        self._close_clump(family)
        family.open_clump = Burst.of(piece)

    def _close_clump(self, family: Family) -> None:
        clump = family.open_clump
        if clump is None:
            return
        if self.backward and family.seam_clump is None and self._near_newest(clump, CLUMP_MILLIS):
            family.seam_clump = clump
        elif clump.documents < family.least:
            family.add_small(clump.documents)
        else:
            family.add_clump(clump)
            self._check_room(family)

    def _close_episode(self, family: Family, episode: Burst) -> None:
        if self.backward and family.seam_episode is None and self._near_newest(episode, EPISODE_MILLIS):
            family.seam_episode = episode
        else:
            family.add_episode(episode)

    def _end_clump(self, family: Family) -> None:
        if family.open_clump is not None:
            family.add_clump(family.open_clump)
            family.open_clump = None

    def _end_episode(self, family: Family) -> None:
        if family.open_episode is not None:
            family.add_episode(family.open_episode)
            family.open_episode = None

    def _close_run(self, key: RunKey, run: ShortRun | Burst, family: Family) -> None:
        if self._runs.pop(key, None) is None:
            return  # closed earlier to make room for another one
        seams = self._seam_runs
        goes_on = self.backward and key not in seams and self._is_near(run.last, NEXT_MILLIS)
        if goes_on and len(seams) < RUN_LIMIT:
            seams[key] = run, family
        elif isinstance(run, ShortRun):
            family.add_small(run.documents)
        else:
            family.add_clump(run)
            self._check_room(family)

    def _check_room(self, family: Family) -> None:
        if family.kept > BURST_LIMIT:
            self._compress(family)
        self._kept += 1
        if self._kept > TOTAL_BURST_LIMIT:
            self._kept = sum(one.kept for one in self.families.values())
            if self._kept > TOTAL_BURST_LIMIT:
                self._bound_total()

    def _bound_total(self) -> None:
        """Fold every family that exceeds its share of memory."""
        share = max(8, TOTAL_BURST_LIMIT // 2 // max(len(self.families), 1))
        for family in self.families.values():
            if family.kept > share:
                self._compress(family)
        self._kept = sum(one.kept for one in self.families.values())
        for family in self.families.values() if self._kept > TOTAL_BURST_LIMIT else ():
            for held in (family.clumps, family.episodes):
                if len(held) > share // 2:
                    held.sort(key=lambda burst: -burst.documents)
                    family.forgotten += len(held) - share // 2
                    del held[share // 2 :]
        self._kept = sum(one.kept for one in self.families.values())

    def _near_newest(self, burst: Burst | None, millis: int) -> bool:
        return burst is not None and self._is_near(burst.last, millis)

    def _is_near(self, last: int, millis: int) -> bool:
        return self._newest is not None and self._newest.t - (last >> 32) <= millis // 1_000 + 1


def piece_of(entry: Entry, documents: int, number: int = -1, sample: Sample = "") -> Piece:
    """A piece of one entry that holds several operations."""
    ts, wall = entry.ts.number, entry.wall_millis if entry.wall_millis is not None else entry.ts.t * 1_000
    return Piece(ts, ts, wall, wall, 1, documents, [(ts, wall)], sample, number, 1 if number >= 0 else 0)
