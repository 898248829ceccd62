"""Which mass deletes are the server's own: TTL passes by their rhythm, trims of capped collections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from tallyglass.oplog.incidents.acts import Definitions
from tallyglass.oplog.incidents.run import Run
from tallyglass.text import clean_name

TTL_SECONDS = 60
"""How often the TTL monitor wakes unless ``ttlMonitorSleepSecs`` says otherwise."""

_SLACK_SECONDS = 3
_MOST_STEPS = 30
_UNUSUAL = 5
MAYBE_TTL = "or the TTL index of this collection"


def tell_apart(runs: Iterable[Run], known: Definitions) -> list[Run]:
    """The runs, with each collection's TTL passes or capped trims folded into one run of kind ``ttl`` or ``capped``.

    A delete run on a collection with a TTL index is taken for a TTL pass only if two others began a whole number of
    sleeps before or after it and it is not unusually large; otherwise it stays a deleteMany with a remark.
    """
    kept: list[Run] = []
    suspects: defaultdict[str, list[Run]] = defaultdict(list)
    trims: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.kind == "deleteMany" and known.held(run.ns, known.capped, run.first):
            trims[run.ns].append(run)
        elif run.kind == "deleteMany" and known.held(run.ns, known.ttl, run.first):
            suspects[run.ns].append(run)
        else:
            kept.append(run)
    for ns, found in trims.items():
        kept.append(_folded("capped", f"oldest documents of capped {clean_name(ns, 255)} made way", found))
    for ns, found in suspects.items():
        rhythmic = _rhythmic(found)
        if rhythmic:
            kept.append(_folded("ttl", f"TTL on {clean_name(ns, 255)}", rhythmic))
        for run in found:
            if all(run is not other for other in rhythmic):
                run.note = MAYBE_TTL
                kept.append(run)
    return kept


def _rhythmic(runs: list[Run]) -> list[Run]:
    usual = median(run.ops for run in runs)
    return [
        run
        for run in runs
        if run.ops <= usual * _UNUSUAL and sum(_in_step(run, other) for other in runs if other is not run) >= 2
    ]


def _in_step(one: Run, other: Run) -> bool:
    apart = abs(one.first.t - other.first.t)
    steps = round(apart / TTL_SECONDS)
    return 1 <= steps <= _MOST_STEPS and abs(apart - steps * TTL_SECONDS) <= _SLACK_SECONDS


def _folded(kind: str, title: str, runs: list[Run]) -> Run:
    runs = sorted(runs, key=lambda run: run.first)
    first = runs[0]
    folded = Run(
        kind, first.ns, first.harm, title, first.first, first.last, first.first_wall, first.last_wall,
        first.ops, first.documents, first.samples, note=f"{len(runs)} times" if len(runs) > 1 else "",
    )  # fmt: skip
    for run in runs[1:]:
        folded.absorb(run)
    return folded
