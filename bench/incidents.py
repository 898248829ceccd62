"""Measure the list of incidents: a recording of real applications with known acts, and the labelled corpus.

``python -m bench.incidents DIR`` reads ``oplog.bson.gz`` and ``acts.jsonl`` of a recording. It prints how many acts are
found and how many rows are neither an act nor an effect of one, how far ``point`` is off, and how often a row comes and
goes while the oplog grows by a minute at a time. Without a directory only the labelled corpus is measured.
``--ablation`` prints what each rule earns: the same with one of them switched off. Several directories may be given.
``--log`` adds the recording's log, with all lines and then only those of statements above some thresholds.
``--random N`` measures N worlds from seeds beginning with ``--seed``, and names what went wrong in each.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import importlib
import json
import math
import re
import sys
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

from tallyglass.evidence.book import Book
from tallyglass.evidence.log_lines import LogReader
from tallyglass.moment import Ts, parse_ts
from tallyglass.oplog.entry.entry import read_entry
from tallyglass.oplog.incidents import commands, recurrence, verdict
from tallyglass.oplog.incidents.attribution import attribute, concerning
from tallyglass.oplog.incidents.authors import as_routine
from tallyglass.oplog.incidents.burst import Burst
from tallyglass.oplog.incidents.by_log import missing, read_run, with_unusual_runs
from tallyglass.oplog.incidents.compaction import Compactor
from tallyglass.oplog.incidents.grouper import Grouper
from tallyglass.oplog.incidents.habits import Habits
from tallyglass.oplog.snapshot import Incident, IncidentScan

BATCH = 2_000
ABLATION_WORLDS = 200
SETUP_SECONDS = 120
"""How long a recording's applications create their collections, users and indexes."""

EFFECT_SECONDS = 5
"""Commands on the database of an act so shortly before or after it belong to it: a restore drops several."""

FLIP_SECONDS = 60
TTL_MILLIS = 60_000
"""How often the recorded servers looked for what had expired."""

_COMMANDS = {"out", "drop", "rename", "collMod", "createIndexes", "dropIndexes", "convertToCapped", "dropDatabase"}
_OPS = {
    "renameCollection": ("rename", "out"), "commitIndexBuild": ("createIndexes",), "dropUser": ("users",),
    "applyOps": ("transaction", "deletes"),
}  # fmt: skip
_UNDATED = {"txn 50 deletes invoices": (1795409999, 3), "convertToCapped audit": (1795410320, 1226)} | {
    "dropUser": (1795410335, 104)
}
_BEGINNING = {
    "um orders tenant2 shipped": (1795409909, 9),
    "dm all carts": (1795409884, 33), "um posts deleted": (1795410287, 291), "aps jobs deleteMany": (1795410491, 98),
    "beanie delete_all houses": (1795410533, 69), "dm fs.chunks n=0": (1795410303, 63),
}  # fmt: skip
"""Where the noted interval begins with the application's own entries: the statement's first one."""
_EXPIRING = {"lab.docs", "shop.logs"}
"""Collections on which a person changed a TTL index: what expired there afterwards is an effect of it."""


@dataclass(frozen=True, slots=True)
class Act:
    """What one person did, as the recording's authors noted it."""

    name: str
    ns: str
    op: str
    documents: int
    first: Ts
    last: Ts
    own: bool = True
    """Whether the first and the last entry are certainly its own: others may have written the same documents then."""

    held: bool = False
    """Whether it was held back from tuning."""

    def is_in(self, row: Incident) -> bool:
        """Whether a row shows this act."""
        kinds = _OPS.get(self.op, (self.op,))
        same = row.op == self.op if self.op in ("d", "u") else row.kind in kinds or row.kind == self.op
        where = row.ns == self.ns or (
            self.op not in ("d", "u") and row.ns.partition(".")[0] == self.ns.partition(".")[0]
        )
        return same and where and row.first <= self.last and self.first <= row.last


@dataclass(slots=True)
class Recording:
    """A recorded oplog and its acts. ``places`` are the entries by namespace and operation."""

    entries: list[bytes] = field(default_factory=list)
    stamps: list[Ts] = field(default_factory=list)
    places: defaultdict[tuple[str, str], list[Ts]] = field(default_factory=lambda: defaultdict(list))
    acts: list[Act] = field(default_factory=list)
    expiring: set[str] = field(default_factory=set)
    """Collections from which the server removes what has expired, by its log; a scan asks the server."""

    @classmethod
    def read(cls, folder: Path) -> Recording:
        """Read a recording."""
        found, raw, at = cls(), gzip.decompress((folder / "oplog.bson.gz").read_bytes()), 0
        while at < len(raw):
            size = int.from_bytes(raw[at : at + 4], "little")
            found.entries.append(raw[at : at + size])
            entry = read_entry(found.entries[-1])
            found.stamps.append(entry.ts)
            found.places[entry.ns, entry.op].append(entry.ts)
            at += size
        log = folder / "mongod.log.gz"
        for text in gzip.decompress(log.read_bytes()).decode().splitlines() if log.exists() else ():
            if '"id":5479200' in text:
                found.expiring.add(str(json.loads(text)["attr"]["namespace"]))
        for line in (folder / "acts.jsonl").read_text().splitlines():
            one = json.loads(line)
            undated = _UNDATED.get(one["name"])
            if not one["first"] and undated is None:
                continue
            first = Ts(*(undated or _BEGINNING.get(one["name"]) or parse_ts(one["first"])))
            last = Ts(*undated) if undated else parse_ts(one["last"])
            found.acts.append(
                Act(
                    one["name"],
                    one["ns"],
                    one["op"],
                    one["n"] or 0,
                    first,
                    last,
                    one.get("own", True),
                    one.get("held", False),
                )
            )
        return found

    def error(self, act: Act, row: Incident) -> int:
        """How many entries the point of a row lies after the act's first one; before it: negative. Of a row that may be
        several statements, the point that is closest."""
        places: Sequence[Ts] = self.places.get((act.ns, act.op), ()) if act.op in ("d", "u") else ()
        points = (one.first for reading in row.readings for one in reading)
        return min((bisect_left(places, one) - bisect_left(places, act.first) for one in points), key=abs)

    def is_effect(self, row: Incident) -> bool:
        """Whether a row is set-up, or what an act brought about."""
        if row.first.t - self.stamps[0].t < SETUP_SECONDS and row.kind not in ("drop", "out"):
            return True
        for act in self.acts:
            near = row.ns.partition(".")[0] == act.ns.partition(".")[0]
            soon = act.first.t - EFFECT_SECONDS <= row.first.t <= act.last.t + EFFECT_SECONDS
            if near and soon and (row.op == "" or (row.ns == act.ns and act.op in ("renameCollection", "c"))):
                return True
            if row.ns == act.ns and soon:
                return True
        return row.ns in _EXPIRING and row.op == "d"


def grouped(recording: Recording, *, backward: bool = False) -> Grouper:
    """A recording, fed in slices from either end."""
    grouper, entries = Grouper(), recording.entries
    grouper.known.ttl |= recording.expiring
    grouper.known.ttl_millis = TTL_MILLIS
    slices = [entries[at : at + BATCH] for at in range(0, len(entries), BATCH)]
    for one in reversed(slices) if backward else slices:
        grouper.feed_batch(b"".join(one))
    return grouper


def _line(row: Incident) -> str:
    exact = "" if row.documents_exact else "about "
    return f"{row.kind} {row.ns} {exact}{row.documents} {row.first} to {row.last} {row.confidence}"


def score(recording: Recording, incidents: Iterable[Incident], *, verbose: bool) -> str:
    """The confusion table of a recording."""
    rows = [row for row in incidents if not row.routine]
    found = {act.name: [row for row in rows if act.is_in(row)] for act in recording.acts}
    false = [row for row in rows if not recording.is_effect(row)]
    plain = [row for row in false if row.op]
    late, early, counted = list[str](), list[str](), 0
    sized = [act for act in recording.acts if act.op in ("d", "u") and act.own and found[act.name]]
    for act in sized:
        errors = [recording.error(act, row) for row in found[act.name]]
        error = min(errors)
        if error:
            (late if error > 0 else early).append(f"{act.name} {error:+d}")
        documents = sum(row.documents or 0 for row in found[act.name])
        counted += abs(documents - act.documents) <= max(0.02 * act.documents, 0)
    missed = [act.name for act in recording.acts if not found[act.name]]
    held = [bool(found[act.name]) for act in recording.acts if act.held]
    low = sum(row.confidence == "low" for row in false)
    lines = [
        f"acts found {len(recording.acts) - len(missed)} of {len(recording.acts)}",
        f"of those held back: {sum(held)} of {len(held)}",
        f"rows {len(rows)}, false {len(false)} (low {low}, without commands {len(plain)}, TTL 0)",
        f"documents within 2 %: {counted} of {len(sized)}",
        f"late: {late}",
        f"early: {early}",
        f"missed: {missed}",
    ]
    if verbose:
        lines += [f"  false: {_line(row)}" for row in false]
        lines += [f"  {name}: {list(map(_line, ones))}" for name, ones in found.items()]
    return "\n".join(lines)


Change = tuple[object, str, object]


@dataclass(slots=True)
class _Growth:
    """Which rows a list showed while the oplog grew; a row is known by its namespace, operation and time."""

    shown: dict[tuple[str, str, int], Incident] = field(default_factory=dict)
    ever: set[tuple[str, str, int]] = field(default_factory=set)
    alarms: set[tuple[str, str, int]] = field(default_factory=set)
    gone: Counter[str] = field(default_factory=Counter)

    def see(self, incidents: Iterable[Incident]) -> None:
        """Note what is shown now."""
        now = {(one.ns, one.op or one.kind, one.last.t): one for one in incidents if not one.routine}
        for key in self.shown.keys() - now.keys():
            row = self.shown[key]
            if not any(k[:2] == key[:2] and one.first <= row.last and row.first <= one.last for k, one in now.items()):
                self.gone["low" if row.confidence == "low" else "above low"] += 1
        self.shown = now
        self.ever |= now.keys()
        self.alarms |= {key for key, one in now.items() if one.confidence != "low"}


def growing(recording: Recording, rules: dict[str, tuple[Change, ...]]) -> tuple[Grouper, dict[str, _Growth]]:
    """A recording that grows by a minute at a time, as it is judged with each set of rules."""
    grouper, at, found = Grouper(), 0, {name: _Growth() for name in rules}
    grouper.known.ttl |= recording.expiring
    grouper.known.ttl_millis = TTL_MILLIS
    look = recording.stamps[0].t
    while at < len(recording.entries):
        look += FLIP_SECONDS
        end = bisect_left(recording.stamps, Ts(look, 0), at)
        for begin in range(at, end, BATCH):
            grouper.feed_batch(b"".join(recording.entries[begin : min(begin + BATCH, end)]))
        at = end
        for name, changes in rules.items():
            with changed(changes):
                found[name].see(grouper.incidents())
    return grouper, found


def flips(recording: Recording) -> str:
    """How often rows come and go while the oplog grows."""
    found = growing(recording, {"": ()})[1][""]
    acts = sum(any(act.is_in(row) for row in found.shown.values()) for act in recording.acts)
    return f"rows ever shown {len(found.ever)}, above low {len(found.alarms)}, gone {dict(found.gone)}, acts {acts}"


@contextmanager
def changed(changes: Iterable[Change]) -> Iterator[None]:
    """Some rules switched off."""
    with ExitStack() as patches:
        for target, attribute, value in changes:
            patches.enter_context(mock.patch.object(target, attribute, value))
        yield


SLOWMS = (0, 5, 20, 100)
_DURATION = re.compile(r'"durationMillis":(\d+)')


class _Oplog:
    """A recorded oplog that answers ``find_raw`` for a range of ``ts``, in place of a server."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    async def find_raw(self, _: Any, query: dict[str, Any], **__: Any) -> AsyncIterator[bytes]:
        """The entries of a range of ``ts``."""
        stamps = self._recording.stamps
        start, end = (bisect_left(stamps, Ts(one.time, one.inc)) for one in query["ts"].values())
        yield b"".join(self._recording.entries[start:end])


def lines_above(folder: Path, slowms: int) -> Iterator[str]:
    """The log of a recording as it would be with that threshold."""
    for line in gzip.decompress((folder / "mongod.log.gz").read_bytes()).decode().splitlines():
        timed = '"id":51803' in line or '"id":5479200' in line
        # It stands at the end, but for what a line says of a command that was cut.
        found = _DURATION.search(line, max(line.rfind('"durationMillis"'), 0)) if timed else None
        if not timed or (found and int(found[1]) >= slowms):
            yield line


async def with_log(recording: Recording, folder: Path, grouper: Grouper, slowms: int) -> list[Incident]:
    """The list of a recording with what its log decides."""
    incidents = grouper.incidents()
    book, oplog = Book(), _Oplog(recording)
    habits = Habits(book)
    book.heard = habits.note
    reader = LogReader(book, "recorded", concerning(one for one in incidents if not one.routine))
    reader.feed(lines_above(folder, slowms))
    reader.flush()
    scan = with_unusual_runs(IncidentScan(incidents, 0, None, done=True, recurring=grouper.recurring), book)
    incidents = scan.incidents
    logged = [await read_run(oplog, run, book) for run in missing(incidents, habits)]  # type: ignore[arg-type]
    found = []
    for one in (*filter(None, logged), *incidents):
        evidence = None if one.routine else await attribute(oplog, one, book)  # type: ignore[arg-type]
        found.append(as_routine(replace(one, evidence=evidence), book, habits))
    return found


def labelled(*, seed: int, verbose: bool, match: str = "") -> str:
    """The labelled corpus: what the rules were tuned on, and what was held out."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    corpus, scores = importlib.import_module("corpus.oplog_corpus"), importlib.import_module("corpus.oplog_score")
    lines = []
    for held_out in (False, True):
        whole = scores.Score()
        for recipe in corpus.RECIPES:
            if recipe.held_out is held_out and re.search(match, recipe.name):
                scenario = corpus.build(recipe, seed)
                scores.add(whole, scenario, scores.incidents_of(scenario, backward=seed % 2 == 0))
        late = [error for error in whole.point_errors if error > 0]
        early = [error for error in whole.point_errors if error < 0]
        lines.append(
            f"{'held out' if held_out else 'tuned'}: {whole.found} of {whole.wanted} acts, {whole.rows} rows, "
            f"{whole.false_rows} false, point exact {whole.exact:.3f}, late {late}, early {early}"
        )
        if verbose:
            lines += [f"  missed {one}" for one in whole.missed] + [f"  false {one}" for one in whole.false[:40]]
            lines += [f"  off {one}" for one in whole.off]
    return "\n".join(lines)


def _random_scenario() -> Callable[[int], Any]:
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    make: Callable[[int], Any] = importlib.import_module("corpus.oplog_random").random_scenario
    return make


def random_worlds(seeds: range) -> Iterator[str]:
    """Worlds from seeds: the counts, then what was missed, late, called exact that is not, or an alarm for nothing."""
    make = _random_scenario()
    scores = importlib.import_module("corpus.oplog_score")
    whole = scores.Score()
    for seed in seeds:
        scenario = make(seed)
        scores.add(whole, scenario, scores.incidents_of(scenario, backward=seed % 2 == 0))
    late = [error for error in whole.point_errors if error > 0]
    yield (
        f"{len(seeds)} worlds: {whole.found} of {whole.wanted} acts, {whole.rows} rows, {whole.false_rows} false "
        f"({len(whole.alarms)} above low), point exact {whole.exact:.3f}, late {late}, inexact {len(whole.inexact)}"
    )
    yield from (f"  missed {one}" for one in whole.missed)
    yield from (f"  alarm {one}" for one in whole.alarms)
    yield from (f"  inexact {one}" for one in whole.inexact)
    yield from (f"  off {one}" for one in whole.off)


def _never(*_: object, **__: object) -> bool:
    return False


def _none(*_: object, **__: object) -> list[Any]:
    return []


def _alone(fine: Sequence[Burst], _: object, seen: recurrence.Recurrence, window: recurrence.Window) -> list[Any]:
    return [seen.judge(one.closed, window) for one in fine]


def _run_alone(
    run: Burst, _: object, seen: recurrence.Recurrence, __: object, window: recurrence.Window
) -> recurrence.Judgment:
    return seen.judge(run.closed, window)


RULES: dict[str, tuple[Change, ...]] = {
    "(nothing)": (),
    "others of similar size only": ((recurrence, "_CLASSES", 1_000),),
    "size in ten seconds": ((recurrence, "_in_slot", lambda size, *_: size),),
    "four runs make a job": ((recurrence, "OTHERS", 10**9),),
    "over a quarter of the window": ((recurrence, "SHARE", 0.0),),
    "a young application": ((recurrence, "YOUNG", 10**9),),
    "a stretch is one time": ((recurrence._Seen, "only_stretch", lambda *_: None),),
    "what lasts is steady": ((verdict, "FULL", math.inf),),
    "whole episodes among each other": ((verdict, "_verdicts", _alone),),
    "out of step": ((verdict, "interval", lambda _: 0),),
    "twice as large": ((verdict, "ODD", math.inf),),
    "fields that nothing else changes": ((verdict, "_of_other_fields", _none),),
    "no neighbours by _id": ((verdict, "_scattered", _none),),
    "passes of the TTL monitor": ((verdict, "_passes", _none),),
    "a pass that skipped some": ((verdict, "_TTL_STEPS", 1),),
    "a pass of many times the size": ((verdict, "_without_act", lambda passes, *_: passes),),
    "statements in many pieces": ((verdict, "_in_pieces", lambda rows, *_: rows),),
    "the beginning before a pause": ((verdict, "_take_beginning", _none),),
    "a loop, then a statement": ((verdict, "_loop_and_statement", lambda pieces: [pieces]),),
    "the beginning that was not kept": ((verdict, "_take_forgotten", _none),),
    "order of _id, fields": ((Burst, "order", None),),
    "joined up to 10 s": ((verdict, "NEAR_MILLIS", recurrence.EPISODE_MILLIS),),
    "no document twice": ((verdict, "is_repeated", _never),),
    "a pool begins with its sessions": ((verdict, "_begin_with_sessions", _none),),
    "a pool is one row": ((verdict, "_pools", lambda found, *_: found),),
    "sessions that wrote little": ((verdict, "_leave_out", _never),),
    "two statements on a document": ((verdict, "_touch_one", _never),),
    "two loops of one session": ((verdict, "_read_stretches", _none),),
    "sessions that begin and end together": ((verdict, "_begun_together", _none),),
    "names that differ by a number": ((Compactor, "alike", lambda *_: {}),),
    "transactions of one session": ((commands, "loops_of", list),),
    "usual batches of a pool": ((verdict, "_session_verdict", _run_alone),),
    "a pool that is minutes old": ((verdict, "_may_be_started", _never),),
    "the drops of a dropDatabase": ((commands, "_last_of", _none),),
    "transactions that recur": ((commands, "ADMINISTRATION", commands.ADMINISTRATION | {commands.TRANSACTION}),),
    "low in a young window": ((recurrence, "YOUNG_WINDOW_MILLIS", 0),),
}
"""Each rule, and how it is switched off. All of them decide when the list is asked for."""


@dataclass(slots=True)
class Tally:
    """What was found in all that was measured."""

    acts: int = 0
    found: int = 0
    rows: int = 0
    false: int = 0
    alarms: int = 0
    late: int = 0
    early: int = 0

    def line(self) -> str:
        """The recall, the precision and the points in a row of a table."""
        recall = f"{self.found} of {self.acts}"
        return f"{recall} | {self.rows} | {self.false} | {self.alarms} | {self.late} | {self.early}"


def tally(recording: Recording, incidents: Iterable[Incident], into: Tally) -> None:
    """Add the result of a recording."""
    rows = [row for row in incidents if not row.routine]
    false = [row for row in rows if not recording.is_effect(row)]
    into.rows += len(rows)
    into.false += len(false)
    into.alarms += sum(row.confidence != "low" for row in false)
    for act in recording.acts:
        mine = [row for row in rows if act.is_in(row)]
        into.acts += 1
        into.found += bool(mine)
        error = min((recording.error(act, row) for row in mine), default=0) if act.op in ("d", "u") and act.own else 0
        into.late += error > 0
        into.early += error < 0


def ablation(recordings: Sequence[Recording], seed: int) -> Iterator[str]:
    """The same bursts judged with one rule switched off at a time: the recordings, the labelled corpus, and worlds from
    seeds. "gone" are rows above low that the growing recordings showed and withdrew; "inexact" are rows that call a
    wrong number exact."""
    groupers, grown = zip(*(growing(recording, RULES) for recording in recordings), strict=True)
    scores, scenarios = _corpus()
    fed = [(one, scores.grouped(one, backward=seed % 2 == 0)) for one in scenarios(seed)]
    worlds = [(one, scores.grouped(one)) for one in map(_random_scenario(), range(ABLATION_WORLDS))]
    kinds = (
        "recorded",
        "rows",
        "false",
        "above low",
        "late",
        "early",
        "gone",
        "labelled",
        "rows",
        "false",
        "late",
        "early",
        "from seeds",
        "rows",
        "false",
        "above low",
        "late",
        "early",
        "inexact",
    )
    yield f"| removed | {' | '.join(kinds)} |"
    yield "|---" * (len(kinds) + 1) + "|"
    for name, changes in RULES.items():
        whole, corpus, random = Tally(), scores.Score(), scores.Score()
        with changed(changes):
            for recording, grouper in zip(recordings, groupers, strict=True):
                tally(recording, grouper.incidents(), whole)
            for scenario, grouper in fed:
                scores.add(corpus, scenario, grouper.incidents())
            for scenario, grouper in worlds:
                scores.add(random, scenario, grouper.incidents())
        late, early = (sum(sign * one > 0 for one in corpus.point_errors) for sign in (1, -1))
        gone = sum(one[name].gone["above low"] for one in grown)
        yield (
            f"| {name} | {whole.line()} | {gone} | {corpus.found} of {corpus.wanted} | {corpus.rows} "
            f"| {corpus.false_rows} | {late} | {early} | {random.found} of {random.wanted} | {random.rows} "
            f"| {random.false_rows} | {len(random.alarms)} | {sum(one > 0 for one in random.point_errors)} "
            f"| {sum(one < 0 for one in random.point_errors)} | {len(random.inexact)} |"
        )


def _corpus() -> tuple[Any, Callable[[int], Iterator[Any]]]:
    """The scorer of the labelled corpus, and its scenarios by seed."""
    sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
    corpus, scores = importlib.import_module("corpus.oplog_corpus"), importlib.import_module("corpus.oplog_score")
    return scores, lambda seed: (corpus.build(recipe, seed) for recipe in corpus.RECIPES)


def main(arguments: list[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.incidents", description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--ablation", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--flips", action="store_true")
    parser.add_argument("--log", action="store_true")
    parser.add_argument("--no-corpus", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", type=int, default=0, metavar="N")
    parser.add_argument("--match", default="", help="only recipes whose name matches")
    given = parser.parse_args(arguments)
    if given.random:
        for line in random_worlds(range(given.seed, given.seed + given.random)):
            print(line)
        return
    if given.ablation:
        for line in ablation([Recording.read(folder) for folder in given.folders], given.seed):
            print(line, flush=True)
        return
    for folder in given.folders:
        recording = Recording.read(folder)
        for backward in (False, True):
            began = time.process_time()
            grouper = grouped(recording, backward=backward)
            found = grouper.incidents()
            rate = len(recording.entries) / (time.process_time() - began)
            print(f"recording, {'backward' if backward else 'forward'}, {rate:,.0f} entries/s")
            print(score(recording, found, verbose=given.verbose and not backward))
        for slowms in SLOWMS if given.log else ():
            print(f"recording, with its log above {slowms} ms")
            told = asyncio.run(with_log(recording, folder, grouper, slowms))
            print(score(recording, told, verbose=given.verbose))
        if given.flips:
            print(flips(recording))
    if not given.no_corpus:
        print(labelled(seed=given.seed, verbose=given.verbose, match=given.match))


if __name__ == "__main__":
    main(sys.argv[1:])
