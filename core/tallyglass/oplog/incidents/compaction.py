"""Compact the entries of a batch into bursts: streaming, in either direction of time, with bounded memory."""

from __future__ import annotations

import functools
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from tallyglass.moment import Ts
from tallyglass.oplog.decode.head import read_head
from tallyglass.oplog.incidents.burst import EDGE_ENTRIES, Burst, Piece, Sample, sample_of
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
"""Sessions' runs that are open at once; the one touched longest ago is closed for the next."""

FAMILY_LIMIT = 20_000
TOTAL_BURST_LIMIT = 50_000
OTHERS = "(other collections)"

_WALL, _TS, _TXN = b"\x09wall\0", b"\x11ts\0", b"\x12txnNumber\0"
_SAMPLED = 4
"""Entries of one session in a batch from which the _id of one is read: it costs as much as ten entries."""

_FEW = 8
"""Entries that do not belong together and are so few are taken one by one."""

_RETRY_IMAGE = b"needsRetryImage\0"
_quad = struct.Struct("<Q").unpack_from
_long = struct.Struct("<q").unpack_from
_int = struct.Struct("<i").unpack_from

Place = tuple[int, int]
Key = tuple[str, str, Writes]


class Stamp(NamedTuple):
    """When an entry was written: its ``ts`` as one number, the wall in milliseconds, and its transaction number."""

    ts: int
    wall: int
    number: int


def as_number(ts: Ts) -> int:
    """A timestamp as one number that orders alike."""
    return ts.t << 32 | ts.i


def as_ts(number: int) -> Ts:
    """The timestamp of such a number."""
    return Ts(number >> 32, number & 0xFFFF_FFFF)


def plain_stamp(batch: bytes, start: int, end: int) -> Stamp:
    """Read the stamp of an entry from where servers since 5.0 write it, else by parsing. Raises Malformed."""
    wall = end - 15
    if batch[wall : wall + 6] == _WALL and batch[wall - 34 : wall - 30] == _TS:
        return Stamp(_quad(batch, wall - 30)[0], _long(batch, wall + 6)[0], -1)
    return _parsed(batch, start, end)


def is_flagged(batch: bytes, end: int, flag: bytes) -> bool:
    """Whether this element stands right before ``ts`` in an entry without a session, as servers since 5.0 write it."""
    ts = end - 49
    return batch[ts : ts + 4] == _TS and batch[end - 15 : end - 9] == _WALL and batch[ts - len(flag) : ts] == flag


def session_stamp(batch: bytes, start: int, end: int) -> Stamp:
    """The same for an entry of a session, with its transaction number. Raises Malformed."""
    wall = end - 55
    if wall > start and batch[wall : wall + 6] == _WALL and batch[wall - 34 : wall - 30] == _TS:
        number = start + 10 + _int(batch, start + 10)[0]
        if batch[number : number + 11] == _TXN:
            return Stamp(_quad(batch, wall - 30)[0], _long(batch, wall + 6)[0], _long(batch, number + 11)[0])
    return _parsed(batch, start, end)


def _parsed(batch: bytes, start: int, end: int) -> Stamp:
    head = read_head(batch[start:end])
    wall = head.wall_millis if head.wall_millis is not None else head.ts.t * 1_000
    return Stamp(as_number(head.ts), wall, -1 if head.txn is None else head.txn)


class Compactor:
    """Holds the families of all namespaces. ``compress`` is asked to fold what is usual when a family is full."""

    def __init__(self, compress: Callable[[Family], None], *, backward: bool) -> None:
        self.backward = backward
        self.families: dict[Key, Family] = {}
        self._compress = compress
        self._runs: OrderedDict[tuple[str, str, bytes], tuple[Burst, Family]] = OrderedDict()
        self._seam_runs: dict[tuple[str, str, bytes], tuple[Burst, Family]] = {}
        self._newest: Ts | None = None
        self._kept = 0
        self._open_by_family: dict[int, list[Burst]] = {}

    def note_newest(self, ts: Ts) -> None:
        """Note how far the oplog has been read."""
        if self._newest is None or ts > self._newest:
            self._newest = ts

    # Feeding

    def plain(self, batch: bytes, ns: str, op: str, places: list[Place]) -> None:
        """Deletes or updates without a session, in order. Raises Malformed."""
        family = self.family(ns, op, Writes.PLAIN)
        for piece in self._pieces(batch, places, plain_stamp, _dense, {}):
            self.add_plain(family, piece)

    def session(
        self, batch: bytes, ns: str, op: str, session: bytes, places: list[Place], stamps: dict[int, Stamp]
    ) -> None:
        """Deletes or updates of one session, in order. ``stamps`` remembers what was read. Raises Malformed."""
        first = places[0][0]
        user = batch[first + 49 : first + 81] if batch[first + 39 : first + 44] == b"\x05uid\0" else b""
        image = batch.find(_RETRY_IMAGE, *places[0]) >= 0
        for piece in self._pieces(batch, places, session_stamp, _contiguous, stamps):
            self.add_to_run(ns, op, session, user, piece, image)

    def fan_out(self, batch: bytes, ns: str, op: str, places: list[Place], stamps: dict[int, Stamp]) -> None:
        """All deletes or updates of whatever session, in order. Raises Malformed."""
        family = self.family(ns, op, Writes.FAN_OUT)
        for piece in self._pieces(batch, places, session_stamp, _dense, stamps):
            piece.statements = 0
            family.count(piece)
            self._clump(family, piece)

    def add_plain(self, family: Family, piece: Piece) -> None:
        """One piece of writes without a session."""
        family.count(piece)
        self._clump(family, piece)
        episode = family.open_episode
        if episode is not None and episode.gap(piece) <= EPISODE_MILLIS:
            episode.add(piece)
            return
        if episode is not None:
            self._close_episode(family, episode)
        family.open_episode = Burst.of(piece)

    def add_to_run(self, ns: str, op: str, session: bytes, user: bytes, piece: Piece, image: bool = False) -> None:
        """One piece of one session's writes."""
        key = (ns, op, session)
        held = self._runs.get(key)
        if held is None:
            held = self._seam_runs.pop(key, None) if not self.backward else None
            if held is not None:
                self._runs[key] = held
        if held is not None:
            run, family = held
            jump, gap = run.jump(piece), run.gap(piece)
            if (jump <= RUN_JUMP and gap <= RUN_MILLIS) or (jump <= 1 and gap <= NEXT_MILLIS):
                family.count(piece)
                run.add(piece)
                run.find_and_modify |= image
                self._runs.move_to_end(key)
                return
            self._close_run(key, run, family)
            former = run if gap <= RUN_MILLIS else None
        else:
            family, former = self.family(ns, op, Writes.SESSION), None
        family.count(piece)
        run = Burst.of(piece, session, user)
        if former is not None:
            self._link(run, former)
        run.find_and_modify = image
        self._runs[key] = run, family
        if len(self._runs) > RUN_LIMIT:
            oldest, (burst, owner) = next(iter(self._runs.items()))
            self._close_run(oldest, burst, owner)

    def _link(self, run: Burst, former: Burst) -> None:
        """Link the newer of two runs to the older; chains of small ones are cut."""
        older, newer = (run, former) if self.backward else (former, run)
        if self.backward and newer.documents < LEAST_RUN:
            return
        newer.before = older
        if not self.backward and older.documents < LEAST_RUN:
            older.before = None

    def family(self, ns: str, op: str, writes: Writes) -> Family:
        """The family of writes on a namespace; one for all others where there are too many."""
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
        for run, family in (*self._runs.values(), *self._seam_runs.values()):
            found.setdefault(id(family), []).append(run)
        self._open_by_family = found

    def turn(self) -> None:
        """After reading backwards: continue after the newest entry."""
        for key, (run, family) in list(self._runs.items()):
            if not self._near_newest(run, NEXT_MILLIS) or key in self._seam_runs:
                self._close_run(key, run, family)
        self._runs.update(self._seam_runs)
        self._seam_runs.clear()
        for family in self.families.values():
            if family.seam_clump is not None or not self._near_newest(family.open_clump, CLUMP_MILLIS):
                self._end_clump(family)
                family.open_clump, family.seam_clump = family.seam_clump, None
            if family.seam_episode is not None or not self._near_newest(family.open_episode, EPISODE_MILLIS):
                self._end_episode(family)
                family.open_episode, family.seam_episode = family.seam_episode, None
        self.backward = False

    def _clump(self, family: Family, piece: Piece) -> None:
        clump = family.open_clump
        if clump is not None:
            if clump.gap(piece) <= CLUMP_MILLIS:
                clump.add(piece)
                return
            if self.backward and family.seam_clump is None and self._near_newest(clump, CLUMP_MILLIS):
                family.seam_clump = clump
            else:
                family.add_clump(clump)
                self._check_room(family)
        family.open_clump = Burst.of(piece)

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

    def _close_run(self, key: tuple[str, str, bytes], run: Burst, family: Family) -> None:
        del self._runs[key]
        seams = self._seam_runs
        goes_on = self.backward and key not in seams and self._near_newest(run, NEXT_MILLIS)
        if goes_on and len(seams) < RUN_LIMIT:
            seams[key] = run, family
            return
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
        if burst is None or self._newest is None:
            return False
        return self._newest.t - (burst.last >> 32) <= millis // 1_000 + 1

    # Splitting a batch

    def _pieces(
        self,
        batch: bytes,
        places: list[Place],
        stamp: Callable[[bytes, int, int], Stamp],
        together: Callable[[Stamp, Stamp, int, Callable[[int], Stamp]], bool],
        stamps: dict[int, Stamp],
    ) -> Iterator[Piece]:
        """The stretches of entries that surely belong together, by halving, in the direction of the batch."""

        count = len(places)
        if count == 1:
            start, end = places[0]
            found = stamps.get(start)
            if found is None:
                found = stamps[start] = stamp(batch, start, end)
            yield _single(found, sample_of(batch, start, end) if stamp is plain_stamp else "")
            return

        def read(index: int) -> Stamp:
            start, end = places[index]
            found = stamps.get(start)
            if found is None:
                found = stamps[start] = stamp(batch, start, end)
            return found

        sample: Sample = sample_of(batch, *places[0]) if count >= _SAMPLED or stamp is plain_stamp else ""
        stack = [(0, count - 1)]
        while stack:
            low, high = stack.pop()
            one = read(low)
            if low == high:
                yield _single(one, sample)
                sample = ""
                continue
            other, size = read(high), high - low + 1
            if not together(one, other, size, functools.partial(_at, read, low)):
                if size <= _FEW:
                    for index in range(low, high + 1):
                        yield _single(read(index), sample)
                        sample = ""
                    continue
                middle = (low + high) // 2
                stack.append((middle + 1, high))
                stack.append((low, middle))
                continue
            older, newer = (other, one) if self.backward else (one, other)
            begin = max(low, high - EDGE_ENTRIES + 1) if self.backward else low
            edge = [read(index)[:2] for index in range(begin, min(high, begin + EDGE_ENTRIES - 1) + 1)]
            if self.backward:
                edge.reverse()
            statements = 0 if one.number < 0 else 1 if one.number == other.number else size
            yield Piece(
                older.ts, newer.ts, older.wall, newer.wall, size, size, edge, sample,
                min(one.number, other.number), statements,
            )  # fmt: skip
            sample = ""


def _single(stamp: Stamp, sample: Sample) -> Piece:
    ts, wall, number = stamp
    return Piece(ts, ts, wall, wall, 1, 1, [(ts, wall)], sample, number, number >= 0)


def _at(read: Callable[[int], Stamp], low: int, step: int) -> Stamp:
    return read(low + step)


def _dense(one: Stamp, other: Stamp, size: int, step: Callable[[int], Stamp]) -> bool:
    return abs(other.wall - one.wall) <= CLUMP_MILLIS


def _contiguous(one: Stamp, other: Stamp, size: int, step: Callable[[int], Stamp]) -> bool:
    """Whether all lie under one number, or each under the next one."""
    if abs(other.wall - one.wall) > RUN_MILLIS:
        return False
    apart = abs(other.number - one.number)
    if apart == 0:
        return True
    if apart != size - 1:
        return False
    middle = size // 2
    return abs(step(middle).number - one.number) == middle


def stamped(head_ts: Ts, wall_millis: int | None, documents: int, number: int = -1, sample: Sample = "") -> Piece:
    """A piece of one entry that holds several operations."""
    ts, wall = as_number(head_ts), wall_millis if wall_millis is not None else head_ts.t * 1_000
    return Piece(ts, ts, wall, wall, 1, documents, [(ts, wall)], sample, number, 1 if number >= 0 else 0)


def total_documents(bursts: Iterable[Burst]) -> int:
    """Documents of all of them."""
    return sum(burst.documents for burst in bursts)
