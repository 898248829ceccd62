"""The incidents of several shards as one list: what a router sent to all of them is one incident."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tallyglass.oplog.snapshot import Incident

APART_SECONDS = 10
"""A statement that a router sends to all shards begins on each within so many seconds."""


def combine(by_shard: Mapping[str, Sequence[Incident]]) -> tuple[Incident, ...]:
    """All incidents in order of time, numbered from 1; ``shards`` names those that took part.

    Incidents of one kind on one namespace that overlap or lie at most ten seconds apart on different shards are one;
    with a session, only those of the same session. Its ``point`` is the earliest of theirs.
    """
    found = sorted(
        ((incident, shard) for shard, incidents in by_shard.items() for incident in incidents),
        key=lambda one: (one[0].first, one[1]),
    )
    merged: list[Incident] = []
    for incident, shard in found:
        at = next((n for n in reversed(range(len(merged))) if _same(merged[n], incident, shard)), None)
        if at is None:
            merged.append(replace(incident, shards=(shard,)))
        else:
            merged[at] = _together(merged[at], incident, shard)
    return tuple(replace(one, number=number) for number, one in enumerate(merged, 1))


def _same(whole: Incident, part: Incident, shard: str) -> bool:
    if shard in whole.shards or (whole.kind, whole.ns, whole.reason) != (part.kind, part.ns, part.reason):
        return False
    if whole.session != part.session:
        return False
    return whole.routine or part.first.t - whole.last.t <= APART_SECONDS


def _together(whole: Incident, part: Incident, shard: str) -> Incident:
    known = whole.documents is not None and part.documents is not None
    later = part if part.last > whole.last else whole
    return replace(
        whole,
        first=min(whole.first, part.first),
        last=later.last,
        last_wall=later.last_wall,
        ops=whole.ops + part.ops,
        documents=(whole.documents or 0) + (part.documents or 0) if known else None,
        documents_exact=whole.documents_exact and part.documents_exact,
        samples=(*whole.samples, *part.samples)[:5],
        point=min(whole.limit, part.limit),
        open=whole.open or part.open,
        sessions=max(whole.sessions, part.sessions),
        shards=(*whole.shards, shard),
    )
