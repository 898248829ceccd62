"""Compact the entries of batches into bursts, which join in any order of time, with bounded memory."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import sub

from tallyglass.oplog.entry.batch import EntryGroup
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.json import id_text
from tallyglass.oplog.entry.layout import Stamp
from tallyglass.oplog.incidents.batch_entries import SAMPLED_RUN, BatchEntries
from tallyglass.oplog.incidents.burst import Burst, Ends, burst_of, extended
from tallyglass.oplog.incidents.explanations import DEFINITIONS_LIMIT
from tallyglass.oplog.incidents.families import (
    LEAST_RUN,
    NEXT_MILLIS,
    RUN_JUMP,
    RUN_MILLIS,
    Family,
    Scale,
    follows_in_session,
)

RUN_LIMIT = 5_000
"""The most sessions whose runs may grow; the least recently used one is closed for the next."""

TOTAL_BURST_LIMIT = 50_000
"""The most bursts of all families that are kept, about 300 bytes each: 15 MB."""

OTHERS = "(other collections)"

Key = tuple[str, str, bytes | None]
RunKey = tuple[str, str, bytes]


@dataclass(slots=True)
class _Session:
    """The entries of one session in a batch: their places in it, and their stamps."""

    session: bytes
    user: bytes
    entries: BatchEntries
    places: list[int]
    stamps: list[Stamp]

    def run(self, low: int, high: int) -> Burst:
        """Those from ``low`` up to before ``high`` as a run."""
        run = burst_of(self.stamps[low:high], self.session, self.user)
        if high - low >= SAMPLED_RUN:
            run.samples = (self.entries.sample(self.places[low]),)
            run.find_and_modify = self.entries.user_and_image(self.places[low])[1]
        return run


class Compactor:
    """Holds the families of all namespaces."""

    def __init__(self) -> None:
        self.families: dict[Key, Family] = {}
        self.moved: dict[tuple[str, str], Family] = {}
        """What moved between shards."""

        self._runs: OrderedDict[RunKey, tuple[Ends, Family]] = OrderedDict()
        self._kept = 0

    def plain(self, batch: bytes, group: EntryGroup, others: list[Burst]) -> None:
        """Deletes or updates without a session; ``others`` are such writes in the same batch that one entry holds
        several of. Raises Malformed."""
        family = self.family(group.envelope.ns, group.envelope.op, None)
        entries = BatchEntries(batch, group.starts, group.ends, group)
        family.whole.count(entries.whole)
        for scale in (family.fine, family.coarse):
            self._extend(scale, entries, others, marked=True)

    def bursts(self, ns: str, op: str, bursts: list[Burst]) -> None:
        """Deletes or updates without a session that one entry holds several of."""
        family = self.family(ns, op, None)
        for scale in (family.fine, family.coarse):
            scale.extend([burst.copy() for burst in bursts])

    def count_moved(self, ns: str, op: str, burst: Burst) -> None:
        """Count what a migration wrote."""
        key = (ns, op) if (ns, op) in self.moved or len(self.moved) < RUN_LIMIT else ("", op)
        self.moved.setdefault(key, Family(*key)).whole.count(burst)

    def in_sessions(self, batch: bytes, group: EntryGroup, others: list[Burst]) -> None:
        """Deletes or updates of sessions; ``others`` are those in the same batch that one entry holds several of.
        Raises Malformed."""
        ns, op = group.envelope.ns, group.envelope.op
        whole = BatchEntries(batch, group.starts, group.ends, group)
        whole.read_all()
        sessions, numbers = whole.sessions()
        places: defaultdict[bytes, list[int]] = defaultdict(list)
        for place, session in enumerate(sessions):
            places[session].append(place)
        of_users: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for session, found in places.items():
            of_users[whole.user_and_image(found[0])[0]].append(session)
        stamps = list(zip(whole.ts, whole.walls, numbers, strict=True))
        for user, theirs in of_users.items():
            family = self.family(ns, op, user)
            mine = whole
            if len(of_users) > 1:
                mine = whole.only(sorted(place for session in theirs for place in places[session]))
            family.whole.count(mine.whole)
            self._extend(family.fine, mine, marked=False)
            for session in theirs:
                own = stamps if len(places) == 1 else [stamps[place] for place in places[session]]
                one_session = _Session(session, user, whole, places[session], own)
                runs = [one_session.run(low, high) for low, high in pairwise(_breaks(own))]
                beside = [one for one in others if one.session == session]
                self._extend_runs((ns, op, session), family, sorted([*runs, *beside], key=lambda run: run.first))
        for one in others:
            family = self.family(ns, op, one.user)
            family.whole.count(one)
            if one.session not in places:
                self._extend_runs((ns, op, one.session), family, [one])

    def _extend(self, scale: Scale, entries: BatchEntries, others: Iterable[Burst] = (), *, marked: bool) -> None:
        """Extend a scale by the entries of a batch, with ``others``."""
        bursts = [entries.burst(low, high, marked=marked) for low, high in pairwise(entries.stretches(scale.reach))]
        scale.extend(sorted([*bursts, *(one.copy() for one in others)], key=lambda one: one.first))
        self._check_room(scale)

    def runs(self, ns: str, op: str, bursts: list[Burst]) -> None:
        """Writes of sessions in order of time of which one entry holds several."""
        for burst in bursts:
            family = self.family(ns, op, burst.user)
            family.whole.count(burst)
            self._extend_runs((ns, op, burst.session), family, [burst])

    def _extend_runs(self, key: RunKey, family: Family, runs: Iterable[Burst]) -> None:
        """Extend the runs of a session by those of a batch."""
        ends, scale = self._runs[key][0] if key in self._runs else [], _runs(family)
        self._runs[key] = extended(ends, runs, follows_in_session, scale.close), family
        self._runs.move_to_end(key)
        if len(self._runs) > RUN_LIMIT:
            _, (ends, owner) = self._runs.popitem(last=False)
            for run in ends:
                _runs(owner).close(run)
        self._check_room(scale)

    def open_runs(self) -> dict[int, list[Burst]]:
        """The runs that may still grow, by the identity of their family."""
        found: dict[int, list[Burst]] = {}
        for ends, family in self._runs.values():
            found.setdefault(id(family), []).extend(ends)
        return found

    def family(self, ns: str, op: str, user: bytes | None) -> Family:
        """The family of writes on a namespace; if there are too many, one family holds the rest."""
        key = (ns, op, user)
        found = self.families.get(key)
        if found is None:
            if len(self.families) >= DEFINITIONS_LIMIT:
                key = (OTHERS, op, user)
            found = self.families.get(key)
            if found is None:
                found = self.families[key] = Family(key[0], op, user)
        return found

    def _check_room(self, scale: Scale) -> None:
        """Bound the bursts of all families together, from time to time."""
        self._kept += 1
        if self._kept <= TOTAL_BURST_LIMIT:
            return
        scales = [scale for family in self.families.values() for scale in family.scales]
        self._kept = sum(len(one.kept) for one in scales)
        if self._kept > TOTAL_BURST_LIMIT:
            for one in scales:
                one.bound(max(8, TOTAL_BURST_LIMIT // 2 // len(scales)))
            self._kept = sum(len(one.kept) for one in scales)


def _runs(family: Family) -> Scale:
    """The runs of a family's sessions."""
    if family.runs is None:
        family.runs = Scale(RUN_MILLIS, least=LEAST_RUN)
    return family.runs


def _breaks(stamps: list[Stamp]) -> list[int]:
    """The indices at which a new run of a session begins, with 0 and the number of stamps."""
    size = len(stamps)
    if size == 1:
        return [0, 1]
    _, walls, numbers = zip(*stamps, strict=True)
    if walls[-1] - walls[0] <= RUN_MILLIS:
        inner = [n for n, step in enumerate(map(sub, numbers[1:], numbers), 1) if not 0 <= step <= RUN_JUMP]
        return [0, *inner, size]
    steps, gaps = map(sub, numbers[1:], numbers), map(sub, walls[1:], walls)
    inner = [
        n
        for n, (step, gap) in enumerate(zip(steps, gaps, strict=True), 1)
        if step < 0 or ((step > RUN_JUMP or gap > RUN_MILLIS) and (step > 1 or gap > NEXT_MILLIS))
    ]
    return [0, *inner, size]


def burst_in(entry: Entry, documents: int, number: int = -1, inner: Entry | None = None) -> Burst:
    """One entry that holds several operations, with the sample of one of them."""
    found = inner.id_at if inner is not None else None
    sample = id_text(entry.raw, found, 60) if found is not None else ""
    ts, wall = entry.ts.number, entry.wall_millis if entry.wall_millis is not None else entry.ts.t * 1_000
    burst = Burst(ts, ts, wall, wall, 1, documents, samples=(sample,) if sample else ())
    if number >= 0:
        burst.low = burst.high = number
        burst.batch = burst.head = burst.tail = documents
    return burst
