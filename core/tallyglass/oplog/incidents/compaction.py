"""Compact the entries of a batch into bursts: streaming, in either direction of time, with bounded memory."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import sub

from tallyglass.moment import Ts
from tallyglass.oplog.decode import walk
from tallyglass.oplog.decode.envelope import Gathered
from tallyglass.oplog.incidents.burst import EDGE_ENTRIES, SAMPLES, Burst, Few, Piece, Sample, sample_of
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
from tallyglass.oplog.incidents.stamps import (
    Stamp,
    as_number,
    plain_stamp,
    read_sessions,
    read_times,
    session_in,
    session_stamp,
)
from tallyglass.oplog.incidents.trace import MARKS

RUN_LIMIT = 5_000
"""The most session runs open at once; the least recently used one is closed for the next."""

FAMILY_LIMIT = 20_000
TOTAL_BURST_LIMIT = 50_000
OTHERS = "(other collections)"

_MARK_BYTES = 1_024
_SAMPLED = 4
"""How many session entries share a sample: most runs are shorter and never shown."""

_UID, _RETRY_IMAGE = b"\x05uid\0", b"needsRetryImage\0"

Key = tuple[str, str, Writes]
RunKey = tuple[str, str, bytes]


class _Entries:
    """Entries of one envelope in a batch, in its order: their stamps, and pieces made of them.

    If they lie close together only the requested stamps are read, otherwise all at once. Raises Malformed.
    """

    def __init__(self, batch: bytes, gathered: Gathered, *, backward: bool) -> None:
        self.batch, self.backward = batch, backward
        self.starts, self.ends = gathered.starts, gathered.ends
        self.size = len(self.ends)
        self.session = gathered.envelope.session
        self._stamp = session_stamp if self.session else plain_stamp
        self.first, self.last = self.stamp(0), self.stamp(self.size - 1)
        self.ts: Sequence[int] = ()
        self.walls: Sequence[int] = ()
        if abs(self.last[1] - self.first[1]) > self.size:
            self.read_all()

    def read_all(self) -> None:
        """Read the times of all."""
        if not self.ts:
            self.ts, self.walls = read_times(self.batch, self.starts, self.ends, session=self.session)

    def stamp(self, index: int) -> Stamp:
        """The stamp of one."""
        return self._stamp(self.batch, self.starts[index], self.ends[index])

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
        if self.batch[self.starts[0] + 4] != walk.DOCUMENT:
            return None  # lsid is in another place
        if apart and abs(self.stamp(size // 2)[2] - one[2]) != size // 2:
            return None
        session = session_in(self.batch, self.starts[0])
        if any(session_in(self.batch, start) != session for start in self.starts):
            return None
        piece = self.piece(0, size)
        piece.number, piece.statements = min(one[2], other[2]), size if apart else 1
        return piece

    def user_and_image(self, index: int) -> tuple[bytes, bool]:
        """The hash of a session's user, and whether the server kept an image for findAndModify."""
        start = self.starts[index]
        user = self.batch[start + 49 : start + 81] if self.batch[start + 39 : start + 44] == _UID else b""
        return user, self.batch.find(_RETRY_IMAGE, start, self.ends[index]) >= 0


class Compactor:
    """Holds the families of all namespaces. Calls ``compress`` to fold usual bursts when a family is full."""

    def __init__(self, compress: Callable[[Family], None], *, backward: bool) -> None:
        self.backward = backward
        self.families: dict[Key, Family] = {}
        self._compress = compress
        self._runs: OrderedDict[RunKey, tuple[Few | Burst, Family]] = OrderedDict()
        self._seam_runs: dict[RunKey, tuple[Few | Burst, Family]] = {}
        self._newest: Ts | None = None
        self._kept = 0
        self._open_by_family: dict[int, list[Burst]] = {}

    def note_newest(self, ts: Ts) -> None:
        """Note how far the oplog has been read."""
        if self._newest is None or ts > self._newest:
            self._newest = ts

    # Feeding

    def plain(self, batch: bytes, gathered: Gathered) -> None:
        """Deletes or updates without a session, in order. Raises Malformed."""
        family = self.family(gathered.envelope.ns, gathered.envelope.op, Writes.PLAIN)
        entries = _Entries(batch, gathered, backward=self.backward)
        self._count(entries, family)
        self._clumps(family, entries, entries.stretches(CLUMP_MILLIS))
        for low, high in pairwise(entries.stretches(EPISODE_MILLIS)):
            self._episode(family, entries.piece(low, high))

    def in_sessions(self, batch: bytes, gathered: Gathered) -> None:
        """Deletes or updates of sessions, in order. Raises Malformed."""
        ns, op = gathered.envelope.ns, gathered.envelope.op
        family, spread = self.family(ns, op, Writes.SESSION), self.family(ns, op, Writes.FAN_OUT)
        entries = _Entries(batch, gathered, backward=self.backward)
        self._count(entries, family, spread)
        self._clumps(spread, entries, entries.stretches(CLUMP_MILLIS))
        statement = entries.statement()
        if statement is not None:
            user, image = entries.user_and_image(0)
            self._add_to_run(ns, op, session_in(batch, entries.starts[0]), user, statement, image)
        else:
            self._runs_of_all(family, entries)

    def _count(self, entries: _Entries, *families: Family) -> None:
        """Count the entries, and the minutes in which they were written."""
        ends = entries.first, entries.last
        walls: Sequence[int] = [entries.first[1]]
        if entries.first[1] // 60_000 != entries.last[1] // 60_000:
            entries.read_all()
            walls = entries.walls
        for family in families:
            family.count_all(entries.size, ends, walls)

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
            if isinstance(run, Few):
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

    def _runs_of_all(self, family: Family, entries: _Entries) -> None:
        """Entries of several sessions, or with holes in their numbers, one by one."""
        entries.read_all()
        sessions, numbers = read_sessions(entries.batch, entries.starts, entries.ends)
        stamps = zip(entries.ts, entries.walls, numbers, strict=True)
        backward, sign = self.backward, -1 if self.backward else 1
        seams = backward and self._is_near(max(entries.first[0], entries.last[0]), NEXT_MILLIS)
        touched: dict[bytes, Few | Burst] = {}
        for index, (session, stamp) in enumerate(zip(sessions, stamps, strict=True)):
            run = touched.get(session)
            if run is None:
                run = self._touched(family, session, stamp)
                touched[session] = run
                if isinstance(run, Burst):
                    self._note(run, entries, index)
            if isinstance(run, Few):
                near = run.stamps[-1]
                jump, gap = (stamp[2] - near[2]) * sign, (stamp[1] - near[1]) * sign
            else:
                jump, gap = run.steps_to(stamp)
            if (jump > RUN_JUMP or gap > RUN_MILLIS) and (jump > 1 or gap > NEXT_MILLIS):
                if seams or isinstance(run, Burst):
                    key = (family.ns, family.op, session)
                    self._close_run(key, run, family)
                    fresh = touched[session] = Few(stamp)
                    if gap <= RUN_MILLIS:
                        self._link(fresh, run)
                    self._open_run(key, fresh, family)
                else:
                    family.add_small(len(run.stamps))
                    run.before = run.stamps if gap <= RUN_MILLIS and not backward else None
                    run.stamps = [stamp]
            elif isinstance(run, Burst):
                run.add_single(stamp)
            elif stamp is not near:
                run.stamps.append(stamp)
                if len(run.stamps) >= LEAST_RUN:
                    grown = touched[session] = run.burst(session, entries.user_and_image(index)[0])
                    self._note(grown, entries, index)
                    self._runs[family.ns, family.op, session] = grown, family

    def _touched(self, family: Family, session: bytes, stamp: Stamp) -> Few | Burst:
        """The open run of a session, or a new one that begins with this stamp."""
        key = (family.ns, family.op, session)
        held = self._held(key)
        if held is not None:
            self._runs.move_to_end(key)
            return held[0]
        fresh = Few(stamp)
        self._open_run(key, fresh, family)
        return fresh

    def _note(self, run: Burst, entries: _Entries, index: int) -> None:
        """Note, once per batch, what else an entry says."""
        run.find_and_modify |= entries.user_and_image(index)[1]
        if len(run.samples) < SAMPLES:
            run.samples.append(entries.sample(index))

    def _held(self, key: RunKey) -> tuple[Few | Burst, Family] | None:
        held = self._runs.get(key)
        if held is None and not self.backward and self._seam_runs:
            held = self._seam_runs.pop(key, None)
            if held is not None:
                self._runs[key] = held
        return held

    def _open_run(self, key: RunKey, run: Few | Burst, family: Family) -> None:
        self._runs[key] = run, family
        if len(self._runs) > RUN_LIMIT:
            oldest, (burst, owner) = next(iter(self._runs.items()))
            self._close_run(oldest, burst, owner)

    def _link(self, run: Few | Burst, former: Few | Burst) -> None:
        """Attach a few writes to the large run that came after them; no chains."""
        if self.backward and isinstance(former, Burst) and isinstance(run, Few):
            former.before = run.stamps
        elif not self.backward and isinstance(former, Few):
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
            found.setdefault(id(family), []).append(run.burst(session) if isinstance(run, Few) else run)
        self._open_by_family = found

    def turn(self) -> None:
        """After reading backwards: continue after the newest entry."""
        for key, (run, family) in list(self._runs.items()):
            if not self._is_near(run.last, NEXT_MILLIS) or key in self._seam_runs:
                self._close_run(key, run, family)
        self._runs.update(self._seam_runs)
        for run, _ in self._runs.values():
            if isinstance(run, Few):
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

    def _clumps(self, family: Family, entries: _Entries, bounds: list[int]) -> None:
        """The entries between each two bounds as a clump; small ones that cannot grow are only counted."""
        marked = family.writes is Writes.PLAIN
        self._clump(family, entries.piece(0, bounds[1], marked=marked))
        if len(bounds) == 2:
            return
        inner = bounds[1:-1]
        least = family.least
        if self.backward and family.seam_clump is None and self._is_near(entries.first[0], CLUMP_MILLIS):
            least = 0
        small: Counter[int] = Counter()
        for low, size in zip(inner, map(sub, inner[1:], inner), strict=False):
            if size < least:
                small[size] += 1
                continue
            self._close_clump(family)
            family.open_clump = Burst.of(entries.piece(low, low + size, marked=marked))
        self._close_clump(family)
        family.open_clump = Burst.of(entries.piece(inner[-1], bounds[-1], marked=marked))
        for size, times in small.items():
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

    def _close_run(self, key: RunKey, run: Few | Burst, family: Family) -> None:
        if self._runs.pop(key, None) is None:
            return  # closed earlier to make room for another one
        seams = self._seam_runs
        goes_on = self.backward and key not in seams and self._is_near(run.last, NEXT_MILLIS)
        if goes_on and len(seams) < RUN_LIMIT:
            seams[key] = run, family
        elif isinstance(run, Few):
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


def stamped(head_ts: Ts, wall_millis: int | None, documents: int, number: int = -1, sample: Sample = "") -> Piece:
    """A piece of one entry that holds several operations."""
    ts, wall = as_number(head_ts), wall_millis if wall_millis is not None else head_ts.t * 1_000
    return Piece(ts, ts, wall, wall, 1, documents, [(ts, wall)], sample, number, 1 if number >= 0 else 0)
