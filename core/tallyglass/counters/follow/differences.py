"""Why a counter and its collection differ: the value, the largest id, the number of documents, and the gaps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import pairwise

import bson

from tallyglass.counters.check_line import incomplete
from tallyglass.counters.follow.drift import LargestId
from tallyglass.counters.follow.settings import WatchSettings
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.follow.watch import Watcher
from tallyglass.counters.numbers import whole
from tallyglass.counters.recognise.ids import from_to
from tallyglass.counters.recognise.shapes import dig
from tallyglass.counters.snapshot import CounterView
from tallyglass.counters.standing import Standing, spacing
from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.codec import CODEC
from tallyglass.mongo.gateway import Gateway

NEWEST = 2_000
"""How many of the largest ids of a collection are searched for gaps."""

MOST_GAPS = 5
"""Gaps that are shown of a counter: the largest explain most of what is missing."""


@dataclass(frozen=True, slots=True)
class IdGap:
    """A range of ids without documents; ``first`` and ``last`` are missing too."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A counter compared with its collection. Texts are safe to show.

    ``issued`` is the last id that the counter says was handed out, ``largest`` and ``smallest`` the ids in ``target``,
    ``documents`` their number by the collection's metadata. ``standing`` is the decision, ``reason`` why it is not that
    they agree. ``missing`` is how many ids of smallest..issued have no document. ``gaps`` are the largest among the
    newest ids, ``looked_at`` how many of these were read. ``direction`` is -1 for a counter that descends.
    """

    counter: CounterView
    standing: Standing
    reason: str
    issued: int
    largest: int
    smallest: int
    documents: int
    missing: int
    looked_at: int
    gaps: tuple[IdGap, ...]
    direction: int = 1

    @property
    def behind(self) -> int:
        """By how many ids the counter is behind the last id of its direction; 0 if it is not known to be behind."""
        if self.standing is not Standing.BEHIND:
            return 0
        return self.largest - self.issued if self.direction > 0 else self.issued - self.smallest

    @property
    def may_collide(self) -> bool:
        """Whether it is behind, or may be."""
        return self.standing in (Standing.BEHIND, Standing.UNCLEAR)

    @property
    def why(self) -> str:
        """The explanation, as a sentence."""
        if self.reason:
            return self.reason
        if self.missing:
            ahead = self.issued - self.largest if self.direction > 0 else self.smallest - self.issued
            end = "largest" if self.direction > 0 else "smallest"
            text = f"{ahead:,} ahead of the {end} id: " if ahead > 0 else ""
            return f"{text}{self.missing:,} ids have no document: never used, or deleted since. This is not a fault."
        return "They agree."


@dataclass(frozen=True, slots=True)
class ComparedCounters:
    """The counters of a deployment, compared with their collections.

    ``rows`` are those whose collection is known, the furthest behind first; ``not_compared`` is how many others there
    are: a pool is one, of a group each member. ``unread`` says why there may be more counters than were found, empty if
    all was read; ``collections_seen`` is how many collections the user may see; ``unmatched`` lists configuration rules
    that match nothing, ``missed`` the patterns that do.
    """

    rows: list[Difference]
    not_compared: int
    unread: list[str]
    collections_seen: int
    unmatched: tuple[str, ...]
    missed: tuple[str, ...] = ()


async def differences(gateway: Gateway, settings: WatchSettings, patterns: Sequence[str] = ()) -> ComparedCounters:
    """Compare all counters with their collections.

    ``patterns`` select by "namespace id". Raises ConnectError or ReadError if no server answers.
    """
    watcher = Watcher(gateway, settings)
    try:
        # All of the past: a part of it may not show that a counter descends or starts again.
        searched = await watcher.look(settings.search_seconds, 1.5 * settings.search_seconds)
        rows: list[Difference] = []
        unknown = 0
        missed = set(patterns)
        for tracker, largest in watcher.compared():
            view = tracker.view()
            matching = {pattern for pattern in patterns if fnmatchcase(f"{view.ns} {view.id}", pattern)}
            if patterns and not matching:
                continue
            missed -= matching
            if largest is None or tracker.standing is None:
                unknown += view.number
                continue
            rows.append(await _difference(gateway, tracker, tracker.standing, largest))
        rows.sort(key=lambda row: -row.behind)
        unread, seen = incomplete(searched), searched.collections_seen
        return ComparedCounters(rows, unknown, unread, seen, searched.unmatched, tuple(sorted(missed)))
    finally:
        await watcher.close()


async def _difference(gateway: Gateway, tracker: Tracker, standing: Standing, largest: LargestId) -> Difference:
    issued = tracker.issued()
    assert isinstance(issued, int)
    span, direction = largest.ids, tracker.direction
    first, last = span.smallest, max(issued, span.largest)
    if direction < 0:
        first, last = min(issued, span.smallest), span.largest
    apart = spacing(first, last, tracker.step, span, largest.documents, known=tracker.identity.is_step_known)
    ids = await _newest(gateway, largest, direction)
    ends = [*ids, issued + apart] if direction > 0 else [issued - apart, *ids]
    gaps = [IdGap(low + apart, high - apart) for low, high in pairwise(ends) if high - low >= 2 * apart]
    return Difference(
        counter=tracker.view(),
        standing=standing,
        reason=tracker.standing_note,
        issued=issued,
        largest=span.largest,
        smallest=span.smallest,
        documents=largest.documents,
        missing=max(0, (last - first) // apart + 1 - largest.documents),
        looked_at=len(ids),
        gaps=tuple(sorted(gaps, key=lambda gap: gap.first - gap.last)[:MOST_GAPS]),
        direction=direction,
    )


async def _newest(gateway: Gateway, largest: LargestId, direction: int) -> list[int]:
    """The newest ids of the targets in ascending order; empty if they cannot be read."""
    ids: set[int | None] = set()
    try:
        for target in largest.targets:
            within = {target.field: from_to(largest.ids.smallest, largest.ids.largest)}
            order = [(target.field, -direction)]
            async for batch in gateway.find_raw(target.ns, within, sort=order, limit=NEWEST):
                ids.update(whole(dig(row, target.field)) for row in bson.decode_all(batch, CODEC))
    except (PrivilegeError, ReadError):
        return []
    known = sorted(number for number in ids if number is not None)
    return known[-NEWEST:] if direction > 0 else known[:NEWEST]
