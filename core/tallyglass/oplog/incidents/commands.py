"""Commands as incidents: which belong together, and which recur; decided when the list is asked for."""

from __future__ import annotations

import re
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.incidents.acts import DEFINITIONS_LIMIT
from tallyglass.oplog.incidents.burst import SAMPLES, Burst
from tallyglass.oplog.incidents.families import RUN_MILLIS
from tallyglass.oplog.incidents.recurrence import EPISODE_MILLIS, Judgment, Reason, Recurrence, Window, interval, often
from tallyglass.oplog.incidents.run import GAP_MILLIS, Run
from tallyglass.text import clean_name

FINISHED_LIMIT = 2_000
"""The most incidents kept; above that the least harmful are only counted, but never the only one of a kind."""

KIND_QUOTA = 100
REMADE = "made again within a second: mongorestore --drop, or a reload"
FCV_MILLIS = 600_000

RECURRING = frozenset({"drop", "dropDatabase", "out", "rename", "collMod", "createIndexes", "dropIndexes",
                       "convertToCapped", "emptycapped", "truncateRange"})  # fmt: skip
"""Commands that applications run too. Users, roles, versions and sharding are a person's each time."""

_NUMBERS = re.compile(r"[0-9a-fA-F]{8,}|\d+")

CommandKey = tuple[str, str]


class CommandRuns:
    """All commands that are incidents, in any order of time. Bounded."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._created: dict[str, list[tuple[Ts, int | None]]] = {}
        self._folded: defaultdict[CommandKey, Recurrence] = defaultdict(Recurrence)
        self._times: Counter[CommandKey] = Counter()
        self.left_out = 0

    def add(self, run: Run, window: Window) -> None:
        """Add a run of one command; the oldest ones are folded where there are too many."""
        self._runs.append(run)
        if len(self._runs) > 2 * FINISHED_LIMIT:
            self._bound(window)

    def created(self, entry: Entry) -> None:
        """Note that a collection was created."""
        if len(self._created) < DEFINITIONS_LIMIT:
            times = self._created.setdefault(entry.target, [])
            if len(times) < 2 * FINISHED_LIMIT:
                times.append((entry.ts, entry.wall_millis))

    def rows(self, window: Window) -> list[Run]:
        """Each that is an act, and those that recur in one row for each kind and namespace."""
        groups: defaultdict[CommandKey, list[Run]] = defaultdict(list)
        for run in self._together():
            groups[_key(run)].append(run)
        found: list[Run] = []
        for key, runs in groups.items():
            routine = list[Run]()
            for run, verdict in self._judged(key, runs, window):
                run.confidence = verdict.confidence
                (routine if verdict.reason else found).append(run)
            if routine:
                found.append(_routine(routine, self._times[key]))
        return found

    def _judged(self, key: CommandKey, runs: Sequence[Run], window: Window) -> list[tuple[Run, Judgment]]:
        if run_kind(key) not in RECURRING:
            return [(run, Judgment(0)) for run in runs]
        bursts, seen = [_burst(run) for run in runs], Recurrence()
        if key in self._folded:
            seen.unite(self._folded[key])
        for burst in bursts:
            seen.add(burst)
        return [(run, seen.judge(burst, window)) for run, burst in zip(runs, bursts, strict=True)]

    def _together(self) -> list[Run]:
        """The runs with the drops of a dropDatabase taken in by it, and the steps of a setFCV as one."""
        runs = sorted(self._runs, key=lambda run: run.first)
        drops: defaultdict[str, list[Run]] = defaultdict(list)
        found: list[Run] = []
        setting: Run | None = None
        for run in runs:
            if run.kind == "setFCV":
                if setting is not None and setting.distance(run.first, run.first_wall) <= FCV_MILLIS:
                    setting.absorb(run)
                else:
                    setting = run.copy()
                    found.append(setting)
                setting.title, setting.closed = run.title, run.closed
                setting = None if run.closed else setting
                continue
            run = run.copy()
            database = run.ns.partition(".")[0]
            chain = drops[database]
            if run.kind == "dropDatabase":
                absorbed = self._chain(run, chain)
                for drop in absorbed:
                    run.absorb(drop)
                    run.samples.append(clean_name(drop.ns.partition(".")[2], 120))
                taken = {id(drop) for drop in absorbed}
                found = [one for one in found if id(one) not in taken]
            if run.kind == "drop":
                chain.append(run)
                self._note_remade(run)
            else:
                chain.clear()
            found.append(run)
        return found

    def _chain(self, database: Run, drops: Sequence[Run]) -> list[Run]:
        """The drops shortly before a dropDatabase, oldest first."""
        found: list[Run] = []
        at, reach = database, RUN_MILLIS  # it waits for the majority after its last drop
        for drop in reversed(drops):
            if at.distance(drop.last, drop.last_wall) > reach:
                break
            found.append(drop)
            at, reach = drop, GAP_MILLIS
        return found[::-1]

    def _note_remade(self, run: Run) -> None:
        times = self._created.get(run.ns, [])
        if any(ts > run.last and run.distance(ts, wall) <= EPISODE_MILLIS for ts, wall in times):
            run.note = REMADE

    def _bound(self, window: Window) -> None:
        """Keep the worst; those that recur are only counted first."""
        groups: defaultdict[CommandKey, list[Run]] = defaultdict(list)
        for run in self._runs:
            groups[_key(run)].append(run)
        routine: set[int] = set()
        for key, runs in groups.items():
            folded = [run for run, verdict in self._judged(key, runs, window) if verdict.reason]
            folded.sort(key=lambda run: run.first)
            for run in folded[SAMPLES:-SAMPLES]:
                self._folded[key].add(_burst(run))
                self._times[key] += 1
                routine.add(id(run))
        kept = [run for run in self._runs if id(run) not in routine]
        self._runs = bounded(kept)
        self.left_out += len(kept) - len(self._runs)


def run_kind(key: CommandKey) -> str:
    """The kind of the commands with a key."""
    return key[0]


def _key(run: Run) -> CommandKey:
    """What commands that recur have in common: names may hold a date or an id."""
    return run.kind, _NUMBERS.sub("#", run.ns)


def _burst(run: Run) -> Burst:
    first = run.first_wall if run.first_wall is not None else run.first.t * 1_000
    last = run.last_wall if run.last_wall is not None else run.last.t * 1_000
    return Burst(run.first.number, run.last.number, first, last, 1, max(run.documents or 0, 1))


def _routine(runs: list[Run], folded: int) -> Run:
    """Commands that recur, as one row."""
    runs.sort(key=lambda run: run.first)
    times, starts = len(runs) + folded, [_burst(run).first_wall for run in runs]
    whole = runs[-1].copy()
    whole.documents = None
    for run in runs[:-1]:
        whole.absorb(run)
    known = [run.documents for run in runs if run.documents is not None]
    whole.documents = sum(known) if known else None
    whole.kind, whole.reason, whole.point = "job", Reason.RECURS, None
    whole.note = often(times, interval(starts))
    whole.samples = deque(maxlen=SAMPLES)
    return whole


def bounded(runs: Iterable[Run]) -> list[Run]:
    """Apply the limit: the worst of each kind and the first of each namespace are kept before all others."""
    ordered = sorted(runs, key=lambda run: run.rank)
    if len(ordered) <= FINISHED_LIMIT:
        return ordered
    kinds: Counter[str] = Counter()
    names: Counter[str] = Counter()
    ranked = []
    for place, run in enumerate(ordered):
        kinds[run.kind] += 1
        names[run.ns] += 1
        preferred = 0 if kinds[run.kind] <= KIND_QUOTA else 1 if names[run.ns] == 1 else 2
        ranked.append((preferred, place, run))
    ranked.sort(key=lambda one: one[:2])
    return [run for _, _, run in ranked[:FINISHED_LIMIT]]
