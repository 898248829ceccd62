"""Compact the entries of batches into bursts, which join in any order of time, with bounded memory."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import sub

from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.json import id_text
from tallyglass.oplog.entry.layout import Stamp
from tallyglass.oplog.incidents.batch_entries import SAMPLED_RUN, BatchEntries
from tallyglass.oplog.incidents.burst import Burst, burst_of
from tallyglass.oplog.incidents.explanations import DEFINITIONS_LIMIT
from tallyglass.oplog.incidents.families import RUN_JUMP, Family, Scale, goes_on, without_numbers
from tallyglass.oplog.incidents.recurrence import NEAR_MILLIS, Recurrence

RUN_LIMIT = 5_000
"""The most sessions whose runs may grow; the least recently used one is closed for the next."""

TOTAL_BURST_LIMIT = 50_000
"""The most bursts of all families that are kept, about 300 bytes each: 15 MB."""

OTHERS = "(other collections)"

Key = tuple[str, str, bytes | None]
SessionKey = tuple[str, str, bytes]


class Compactor:
    """Holds the families of all namespaces."""

    def __init__(self) -> None:
        self.families: dict[Key, Family] = {}
        self.moved: dict[tuple[str, str], Family] = {}
        """What moved between shards."""

        self._sessions: OrderedDict[SessionKey, Scale] = OrderedDict()
        """Where the runs are that may grow, the least recently used first."""

        self._kept = 0

    def plain(self, ns: str, op: str, entries: BatchEntries | None, others: Sequence[Burst]) -> None:
        """Deletes or updates of a batch without a session; ``others`` are those that one entry holds several of.
        Raises Malformed."""
        family = self.family(ns, op, None)
        for one in (*([entries.whole] if entries else ()), *others):
            family.whole.count(one)
        for scale in family.scales:
            bursts = entries.bursts(scale.reach, marked=True) if entries else []
            scale.extend(sorted([*bursts, *(one.copy() for one in others)], key=_first))
            self._check_room(scale)

    def count_moved(self, ns: str, op: str, burst: Burst) -> None:
        """Count what a migration wrote."""
        key = (ns, op) if (ns, op) in self.moved or len(self.moved) < RUN_LIMIT else ("", op)
        self.moved.setdefault(key, Family(*key)).whole.count(burst)

    def in_sessions(self, ns: str, op: str, entries: BatchEntries | None, others: Sequence[Burst]) -> None:
        """Deletes or updates of a batch by sessions; ``others`` are those that one entry holds several of. Raises
        Malformed."""
        runs: defaultdict[tuple[bytes, bytes], list[Burst]] = defaultdict(list)
        dense: defaultdict[bytes, list[Burst]] = defaultdict(list)
        for one in others:
            self.family(ns, op, one.user).whole.count(one)
            runs[one.user, one.session].append(one)
            dense[one.user].append(replace(one, low=-1, high=-1, batch=0, head=0, tail=0, session=b"", user=b""))
        if entries is not None:
            users: defaultdict[bytes, list[int]] = defaultdict(list)
            for session, places, stamps in entries.by_session():
                user = entries.user_and_image(places[0])[0]
                users[user] += places
                breaks = _breaks(stamps)
                if between := runs.get((user, session)):
                    breaks = sorted({*breaks, *(bisect_left(stamps, (one.first, 0, 0)) for one in between)})
                runs[user, session] += [
                    _run(entries, places[low], stamps[low:high], session, user) for low, high in pairwise(breaks)
                ]
            for user, places in users.items():
                mine = entries if len(users) == 1 else entries.only(sorted(places))
                family = self.family(ns, op, user)
                family.whole.count(mine.whole)
                dense[user] += mine.bursts(family.fine.reach)
        for user, bursts in dense.items():
            fine = self.family(ns, op, user).fine
            fine.extend(sorted(bursts, key=_first))
            self._check_room(fine)
        for (user, session), found in runs.items():
            self._extend_runs((ns, op, session), self.family(ns, op, user).wide, sorted(found, key=_first))

    def _extend_runs(self, key: SessionKey, scale: Scale, runs: Iterable[Burst]) -> None:
        """Extend the runs of a session by those of a batch."""
        scale.extend(runs, key)
        self._sessions[key] = scale
        self._sessions.move_to_end(key)
        if len(self._sessions) > RUN_LIMIT:
            oldest, of = self._sessions.popitem(last=False)
            of.close_chain(oldest)
        self._check_room(scale)

    def alike(self, apart: Collection[str]) -> dict[int, Recurrence]:
        """When there were writes of the same kind and user in namespaces whose names differ by a number only, by the
        identity of each such family; without writes without a session in namespaces that stand ``apart``."""
        groups = defaultdict[tuple[str, str, bytes | None], list[Family]](list)
        for family in self.families.values():
            if family.user is not None or family.ns not in apart:
                groups[without_numbers(family.ns), family.op, family.user].append(family)
        found = {}
        for families in groups.values():
            recurrence = Recurrence()
            for family in families if len(families) > 1 else ():
                for scale in family.scales if family.user is not None else (family.wide,):
                    recurrence.unite(scale.all_seen())
                found[id(family)] = recurrence
        return found

    def family(self, ns: str, op: str, user: bytes | None) -> Family:
        """The family of writes on a namespace; if there are too many, one family holds the rest."""
        key = (ns, op, user)
        if key not in self.families and len(self.families) >= DEFINITIONS_LIMIT:
            key = (OTHERS, op, user)
        if key not in self.families:
            self.families[key] = Family(*key)
        return self.families[key]

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


def _first(burst: Burst) -> int:
    return burst.first


def _run(entries: BatchEntries, place: int, stamps: list[Stamp], session: bytes, user: bytes) -> Burst:
    """Writes of one session, of which the first lies at a place, as a run."""
    run = burst_of(stamps, session, user)
    if len(stamps) >= SAMPLED_RUN:
        run.samples = (entries.sample(place),)
        run.find_and_modify = entries.user_and_image(place)[1]
    return run


def _breaks(stamps: list[Stamp]) -> list[int]:
    """The indices at which a new run of a session begins, with 0 and the number of stamps."""
    size = len(stamps)
    if size == 1:
        return [0, 1]
    _, walls, numbers = zip(*stamps, strict=True)
    steps = list(map(sub, numbers[1:], numbers))
    if min(steps) >= 0 and max(steps) <= RUN_JUMP and max(walls) - min(walls) <= NEAR_MILLIS:  # nearly always
        return [0, size]
    gaps = map(sub, walls[1:], walls)
    inner = [n for n, (step, gap) in enumerate(zip(steps, gaps, strict=True), 1) if not goes_on(step, gap)]
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
