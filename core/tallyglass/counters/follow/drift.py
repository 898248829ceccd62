"""Is a counter behind the ids in its collection? Then the next insert collides.

One indexed read for each target: the largest number in the field that the counter fills. It is read *before* the
counter, so that inserts in between cannot make the counter seem to be behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from bson.objectid import ObjectId

from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.limits import INT32_MAX
from tallyglass.counters.recognise.config import IdField
from tallyglass.counters.recognise.discovery import trouble_of
from tallyglass.counters.recognise.identity import resembles
from tallyglass.counters.recognise.ids import IdReader, from_to, is_indexed, reach
from tallyglass.counters.snapshot import CounterTrouble, NumericType
from tallyglass.counters.standing import SOON, IdSpan, Movement, Standing, spacing
from tallyglass.errors import PrivilegeError, ServerError
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.text import clean_name

AGAIN_SECONDS = 30.0
"""How long a largest id is valid before it is read again."""

_AT_ONCE = 4
"""Targets that are read at once, so that few threads of the server work for this."""


@dataclass(frozen=True, slots=True)
class LargestId:
    """The ids of the targets that share them, mostly one, and their document count from the metadata.

    ``read_at`` is when (monotonic); ``dated`` whether the documents of the first have ObjectIds; ``int64_ids`` whether
    the largest id is below 2^31 and still stored as int64, so that its writer has 64 bits.
    """

    targets: tuple[IdField, ...]
    ids: IdSpan
    documents: int
    read_at: float
    dated: bool
    int64_ids: bool = False


class DriftCheck:
    """Reads the largest ids of the targets of trackers, a few at a time. ``waiting`` is how many were never read."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._tried: dict[str, float] = {}
        self._indexed: set[IdField] = set()
        self._new: set[str] = set()
        self.largest: dict[str, LargestId] = {}
        self.waiting = 0
        self._refused: dict[str, CounterTrouble] = {}

    @property
    def troubles(self) -> tuple[CounterTrouble, ...]:
        """Problems with targets that could not be read, without duplicates."""
        return tuple(dict.fromkeys(self._refused.values()))

    async def advance(self, trackers: Iterable[Tracker], seen: Collection[Namespace], seconds: float) -> None:
        """Read the largest ids that are due, for about ``seconds``; ``seen`` are the collections that may be read.

        Raises ConnectError or ReadError if no server answers.
        """
        deadline = time.monotonic() + seconds
        due = [tracker for tracker in trackers if tracker.identity.targets and self._is_due(tracker)]
        due.sort(key=lambda tracker: self._tried.get(tracker.identity.key, 0.0))
        while due and time.monotonic() < deadline:
            batch, due = due[:_AT_ONCE], due[_AT_ONCE:]
            await asyncio.gather(*(self._read(tracker, seen) for tracker in batch))
        self.waiting = sum(tracker.identity.key not in self._tried for tracker in due)

    def apply(self, trackers: Iterable[Tracker], every: Iterable[Tracker], read_after: float) -> None:
        """Set the drift of trackers from ids read before ``read_after`` (monotonic), when the counters were read;
        ``every`` has those without a target, too.

        Each reading is used once: compared with an older id, an advancing counter would seem ever further ahead.
        """
        for tracker in trackers if self._new else ():
            key = tracker.identity.key
            largest = self.largest.get(key)
            if key in self._new and largest and largest.read_at < read_after:
                ids = replace(largest.ids, rival=_rival(tracker, largest, every))
                tracker.compare(largest.targets, ids, burned(largest, tracker))
                tracker.set_readers_64(largest.int64_ids)
                self._new.discard(key)

    def forget(self, keys: Collection[str]) -> None:
        """Drop results of counters that are not among ``keys``."""
        for known in (self._tried, self.largest, self._refused):
            for removed in [key for key in known if key not in keys]:
                del known[removed]
        self._new.intersection_update(keys)

    def _is_due(self, tracker: Tracker) -> bool:
        tried = self._tried.get(tracker.identity.key)
        if tracker.standing in (Standing.BEHIND, Standing.UNCLEAR):
            # A repair should be visible at once.
            return True
        return tried is None or time.monotonic() - tried >= AGAIN_SECONDS

    async def _read(self, tracker: Tracker, seen: Collection[Namespace]) -> None:
        key = tracker.identity.key
        self._tried[key] = time.monotonic()
        self._refused.pop(key, None)
        found: list[LargestId] = []
        uses_all = tracker.identity.uses_all_targets
        for target in tracker.identity.targets:
            if target.ns not in seen or (found and not uses_all):
                continue
            try:
                largest = await self._largest(target, tracker)
            except ServerError as error:
                self._refused[key] = _unknown(target.ns, error)
                continue
            if largest:
                found.append(largest)
        if found:
            if not uses_all:
                self._refused.pop(key, None)
            self.largest[key] = _together(found)
            self._new.add(key)
            return
        self.largest.pop(key, None)
        if tracker.identity.is_target_named and key not in self._refused:
            there = [target for target in tracker.identity.targets if target.ns in seen]
            name = tracker.identity.targets[0]
            if not there:
                self._refused[key] = _unread(name, "there is no such collection, or it may not be listed")
            elif self._indexed.isdisjoint(there):
                self._refused[key] = _unread(name, "no index begins with that field")

    async def _largest(self, target: IdField, tracker: Tracker) -> LargestId | None:
        if target not in self._indexed:
            if not await is_indexed(self._gateway, target):
                return None
            self._indexed.add(target)
        began = time.monotonic()
        apart, own = (tracker.identity.ids_apart, tracker.value) if isinstance(tracker.value, int) else (1, 0)
        reader = IdReader(self._gateway, target, reach(tracker.kind), apart=apart, own=own)
        top, bottom = await asyncio.gather(reader.end(-1), reader.end(1))
        if top is None or bottom is None:
            return None
        ids = await with_neighbours(reader, IdSpan(bottom.number, top.number), tracker)
        ids = replace(ids, odd=await reader.count_odd())
        documents = await self._gateway.estimate(target.ns)
        int64_ids = top.kind is NumericType.INT64 and top.number <= INT32_MAX
        return LargestId((target,), ids, documents, began, isinstance(top.document, ObjectId), int64_ids)


async def with_neighbours(reader: IdReader, ids: IdSpan, tracker: Tracker) -> IdSpan:
    """The ids with those next to the counter, and the first far from it, where the decision depends on them."""
    issued, movement = tracker.issued(), tracker.movement
    if not isinstance(issued, int):
        return ids
    near = issued + SOON * abs(tracker.step)
    if movement in (Movement.RISES, Movement.UNSEEN) and ids.smallest <= issued and near < ids.largest:
        soon, later = await asyncio.gather(
            reader.end(-1, from_to(issued + 1, near)), reader.end(1, from_to(near + 1, ids.largest))
        )
        ids = replace(ids, soon=soon.number if soon else None, later=later.number if later else None)
    if movement is Movement.UNSEEN and ids.smallest < issued < ids.largest:
        below, above = await asyncio.gather(
            reader.end(-1, from_to(ids.smallest, issued - 1)), reader.end(1, from_to(issued + 1, ids.largest))
        )
        return replace(ids, below=below.number if below else None, above=above.number if above else None)
    if movement is Movement.DESCENDS and ids.smallest < issued:
        return replace(ids, until_smallest=await reader.count(ids.smallest, issued - 1))
    return ids


def _rival(tracker: Tracker, largest: LargestId, trackers: Iterable[Tracker]) -> str:
    """The name of a counter beside this one that may have handed out the ids beyond it: they were found by their use,
    its name tells nothing of their collection, and the ids of the other one, which is past them, were not found."""
    known, issued = tracker.identity, tracker.issued()
    if not known.uses_all_targets or issued is None or issued >= largest.ids.largest:
        return ""
    if any(resembles(target.ns.collection, [known.id]) for target in largest.targets):
        return ""
    for other in trackers:
        beside, passed = other.identity, other.issued()
        if (beside.ns, beside.path) != (known.ns, known.path) or beside.targets or other.stands_for_many:
            continue
        if passed is not None and passed >= largest.ids.largest:
            return beside.id
    return ""


def _together(found: Sequence[LargestId]) -> LargestId:
    """The ids of all the targets of a counter as those of one: which of them are next to it is left out."""
    first, *more = found
    if not more:
        return first
    spans = [one.ids for one in found]
    smallest, largest = min(one.smallest for one in spans), max(one.largest for one in spans)
    return replace(
        first,
        targets=tuple(target for one in found for target in one.targets),
        ids=IdSpan(smallest, largest, odd=sum(one.odd for one in spans)),
        documents=sum(one.documents for one in found),
        read_at=min(one.read_at for one in found),
        int64_ids=all(one.int64_ids for one in found),
    )


def _unread(target: IdField, why: str) -> CounterTrouble:
    """Why the user's own target is not read."""
    title = f"The target {clean_name(f'{target.ns}.{target.field}')} is not compared: {why}."
    return CounterTrouble("", title, "Correct it in your file.", partial=True)


def _unknown(ns: Namespace, error: ServerError) -> CounterTrouble:
    """What a missing privilege hides is as whoever gave the role meant it; anything else may be read again."""
    trouble = trouble_of(str(ns), error)
    title = f"Its counter cannot be compared with the largest id. {trouble.title}"
    return replace(trouble, title=title, partial=isinstance(error, PrivilegeError))


def burned(largest: LargestId, tracker: Tracker) -> float | None:
    """The share of the ids handed out by a counter that no document has: never used, or deleted since."""
    issued, ids = tracker.issued(), largest.ids
    if not isinstance(issued, int):
        return None
    first, last = (ids.smallest, issued) if tracker.direction > 0 else (issued, ids.largest)
    if first > last:
        return None
    apart = spacing(first, last, tracker.step, ids, largest.documents, known=tracker.identity.is_step_known)
    handed_out = (last - first) // apart + 1
    return max(0.0, 1 - largest.documents / handed_out)
