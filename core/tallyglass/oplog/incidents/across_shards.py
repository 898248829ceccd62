"""The incidents of several shards as one list: what a router sent to all of them is one incident."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace

from tallyglass.errors import TallyglassError
from tallyglass.moment import Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.incidents.attribution import MOST
from tallyglass.oplog.incidents.incident import scan, watch
from tallyglass.oplog.incidents.recurrence import EPISODE_MILLIS, NEAR_MILLIS
from tallyglass.oplog.incidents.rows import joined
from tallyglass.oplog.read.fan_in import FanIn
from tallyglass.oplog.snapshot import Authorship, Candidate, Certainty, Harm, Incident, IncidentScan, StatementPart

Named = Callable[[Gateway, AsyncIterator[IncidentScan]], AsyncIterator[IncidentScan]]
"""What adds to the incidents of one replica set who wrote them."""

_CANDIDATES = 8
"""How many of the latest incidents with the same key are tried for another shard's part."""

_FLUSH_SECONDS = 0.25
"""How long what shards find is collected before it is merged, which costs as much for one change as for many."""

_OTHERS = "Its parts on two shards were written by different clients."
_UNNAMED = "For its part on another shard nobody is named."


def combine(by_shard: Mapping[str, Sequence[Incident]]) -> tuple[Incident, ...]:
    """All incidents in order of time, numbered from 1; ``shards`` names those that took part.

    Incidents of one kind on one namespace that overlap or lie at most ten seconds apart on different shards are one;
    with a session, only those of the same session; for a transaction, those of the same transaction on any namespace.
    Its ``point`` is the earliest of theirs.
    """
    found = sorted(
        ((incident, shard) for shard, incidents in by_shard.items() for incident in incidents),
        key=lambda one: (one[0].first, one[1]),
    )
    merged: list[Incident] = []
    latest: dict[tuple[object, ...], deque[int]] = {}
    for incident, shard in found:
        places = latest.setdefault(_key(incident), deque(maxlen=_CANDIDATES))
        at = next((n for n in reversed(places) if _may_be_part(merged[n], incident, shard)), None)
        if at is None:
            places.append(len(merged))
            merged.append(replace(incident, shards=(shard,)))
        else:
            merged[at] = _together(merged[at], incident, shard)
    return tuple(replace(one, number=number) for number, one in enumerate(merged, 1))


def _key(incident: Incident) -> tuple[object, ...]:
    """What the parts of one incident have in common on all shards."""
    if incident.txn is not None:
        return (incident.kind, incident.session, incident.txn)
    return (incident.kind, incident.ns, incident.reason, incident.session, incident.op)


def _may_be_part(whole: Incident, part: Incident, shard: str) -> bool:
    if shard in whole.shards:
        return False
    return whole.routine or part.txn is not None or part.first.t - whole.last.t <= NEAR_MILLIS // 1_000


def _together(whole: Incident, part: Incident, shard: str) -> Incident:
    both, known = joined(whole, part), None not in (whole.documents, part.documents)
    return replace(
        both,
        harm=min(whole.harm, part.harm, key=[*Harm].index),
        documents=both.documents if known else None,
        documents_exact=whole.documents_exact and part.documents_exact,
        samples=(*whole.samples, *part.samples)[:5],
        point=min(whole.limit, part.limit),
        open=whole.open or part.open,
        sessions=max(whole.sessions, part.sessions),
        evidence=_both(whole, part),
        parts=_parts(whole, part),
        shards=tuple(sorted((*whole.shards, shard))),
    )


def _parts(whole: Incident, part: Incident) -> tuple[StatementPart, ...]:
    """The statements that the parts of two shards may be; empty if they are one. A router sends a statement to all
    shards at once: what begins when all before it has ended may be another one."""
    if whole.routine or whole.op not in ("d", "u"):
        return ()
    found: list[StatementPart] = []
    for one in sorted((*whole.readings[-1], *part.readings[-1]), key=lambda one: one.first):
        before = found[-1] if found else None
        if before is not None and one.first.t <= before.last.t + EPISODE_MILLIS // 1_000:
            known = before.documents is not None and one.documents is not None
            documents = (before.documents or 0) + (one.documents or 0) if known else None
            found[-1] = StatementPart(before.first, max(before.last, one.last), documents)
        else:
            found.append(one)
    return tuple(found) if len(found) > 1 else ()


def _both(whole: Incident, part: Incident) -> Authorship | None:
    """Who wrote an incident of two shards: the same clients on both, or several candidates."""
    one, other = whole.evidence, part.evidence
    if one is None or not one.candidates:
        return _alone(other, part, whole) if other is not None else one
    if other is None or not other.candidates:
        return _alone(one, whole, part)
    candidates, rest = list[Candidate](), list(other.candidates)
    for candidate in one.candidates:
        same = next((found for found in rest if found.name == candidate.name), None)
        if same is not None:
            rest.remove(same)
            known = None not in (candidate.documents, same.documents)
            total = (candidate.documents or 0) + (same.documents or 0) if known else None
            candidate = replace(candidate, documents=total)
        candidates.append(candidate)
    grade = max(one.grade, other.grade, key=[*Certainty].index)
    if grade in (Certainty.EXACT, Certainty.UNIQUE) and (rest or len(candidates) > len(other.candidates)):
        return replace(one, grade=Certainty.AMBIGUOUS, candidates=(*candidates, *rest), reason=_OTHERS)
    reason = one.reason if one.grade is grade else other.reason
    return replace(one, grade=grade, candidates=(*candidates, *rest), reason=reason)


def _alone(found: Authorship, named: Incident, unnamed: Incident) -> Authorship:
    """What is known of one part, where nobody is named for the other: a command or a session is of one client, but of
    writes without a session most must be known."""
    known = sum(one.documents or 0 for one in found.candidates)
    most = known >= MOST * ((named.documents or 0) + (unnamed.documents or 0))
    if most or not found.is_known or not named.op or named.session:
        return found
    return replace(found, grade=Certainty.AMBIGUOUS, reason=_UNNAMED)


def scan_shards(
    shards: Mapping[str, Gateway],
    since: Ts | None = None,
    *,
    until: Ts | None = None,
    named: Named = lambda _, scans: scans,
) -> AsyncIterator[IncidentScan]:
    """Scan the oplogs of several shards, by name, as :func:`~tallyglass.oplog.incidents.incident.scan` does one.

    ``named`` adds to the scans of each shard who wrote the incidents. ``trouble`` names a shard that cannot be read.
    Raises the first error if none can be read.
    """
    return _merged({name: named(one, scan(one, since, until=until)) for name, one in shards.items()})


def watch_shards(
    shards: Mapping[str, Gateway], since: Ts | None = None, *, named: Named = lambda _, scans: scans
) -> AsyncIterator[IncidentScan]:
    """Watch several shards, by name, as :func:`~tallyglass.oplog.incidents.incident.watch` does one.

    ``named`` as for :func:`scan_shards`. A shard that cannot be read is named in ``trouble`` and tried again. Raises
    PrivilegeError if none may be read.
    """
    return _merged({name: named(one, watch(one, since, patient=True)) for name, one in shards.items()})


async def _merged(scans: Mapping[str, AsyncIterator[IncidentScan]]) -> AsyncIterator[IncidentScan]:
    """Merge the latest result of each shard whenever one of them has changed."""
    known: dict[str, IncidentScan] = {}
    async with FanIn(scans) as arrivals:
        while True:
            await arrivals.wait()
            for name, one in arrivals.all_arrived():
                before = known.get(name)
                if before is not None and before.done and not one.done:
                    one = replace(before, trouble=one.trouble or "The oplog is read again.")
                known[name] = one
            arrivals.raise_if_none_is_left()
            if known.keys() | arrivals.errors.keys() == scans.keys():
                yield _as_one(known, arrivals.errors)
            if arrivals.done:
                return
            await asyncio.sleep(_FLUSH_SECONDS)


def _as_one(known: Mapping[str, IncidentScan], errors: Mapping[str, TallyglassError]) -> IncidentScan:
    words = [f"{name} is not read: {error}" for name, error in errors.items()]
    words += [f"{name}: {one.trouble}" for name, one in known.items() if one.trouble]
    return IncidentScan(
        combine({name: one.incidents for name, one in known.items()}),
        sum(one.scanned for one in known.values()),
        max((one.reached for one in known.values() if one.reached), default=None),
        all(one.done for one in known.values()),
        " ".join(words),
        tuple(errors),
        tuple(running for one in known.values() for running in one.running),
    )
