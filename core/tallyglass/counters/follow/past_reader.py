"""Reads the history of counters from the oplog, from the samples of earlier runs, and from ObjectIds.

The sources are used in this order, each only for the time before the previous one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from bson.timestamp import Timestamp

from tallyglass.counters.follow.collection import CounterCollection
from tallyglass.counters.follow.drift import LargestId
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.forecast.series import HOUR, WEEK
from tallyglass.counters.history.objectid_samples import read_dated
from tallyglass.counters.history.oplog_samples import OplogPast, PastValue, oplog_end
from tallyglass.counters.history.store import SAVE_SECONDS, KnownCounter, SampleStore
from tallyglass.counters.numbers import Number
from tallyglass.counters.pacer import rest
from tallyglass.counters.recognise.discovery import LookedAt, trouble_of
from tallyglass.counters.recognise.finding import UsageFinding
from tallyglass.counters.snapshot import CounterTrouble, Semantics
from tallyglass.deployment.identity import identify
from tallyglass.errors import InputError, ServerError
from tallyglass.mongo.gateway import OPLOG, Gateway, Namespace

MOST_SAVED = 5_000
"""How many counters have their samples saved, the most urgent first."""

MOST_DATED = 50
"""How many counters have their history read from their targets."""

_IDLE_SAVE_SECONDS = HOUR  # between samples of a value that does not change: they say only that it did not
_HISTORY = "history"
_Found = TypeVar("_Found")


class PastReader:
    """Gives each tracker its history once, and saves samples for later runs. ``troubles`` lists what failed."""

    def __init__(self, gateway: Gateway, history_path: Path | None, now: Callable[[], float], *, oplog: bool) -> None:
        self._gateway = gateway
        self._path = history_path
        self._now = now
        self._oplog = oplog
        self._store: SampleStore | None = None
        self._deployment = ""
        self._saved: dict[str, tuple[float, Number]] = {}
        self._saved_at = 0.0
        self._tried: set[str] = set()
        self._dated = 0
        self._opened = False
        self._until: dict[Namespace, Timestamp | None] = {}
        self._filling: tuple[list[CounterCollection], OplogPast | None] | None = None
        self._findings: list[UsageFinding] = []
        self.troubles: dict[str, CounterTrouble] = {}

    async def open(self) -> None:
        """Open the file of samples and identify the deployment, once. Raises if no server answers."""
        if self._opened:
            return
        hello = await self._gateway.command("hello")
        if self._oplog and not hello.get("setName"):
            title = "There is no oplog without a replica set: counters have no past, and are recognised by name only."
            self.troubles[str(OPLOG)] = CounterTrouble(str(OPLOG), title, partial=True)
        self._oplog = self._oplog and bool(hello.get("setName")) and not hello.get("arbiterOnly")
        self._deployment = await identify(self._gateway, hello)
        self._opened = True
        if self._path is not None and self._deployment:
            self._store = SampleStore(self._path)
            await self._load([])

    async def remembered(self) -> tuple[dict[Namespace, LookedAt], list[UsageFinding], list[KnownCounter]]:
        """The sampled collections, usage findings and counters of earlier runs."""
        name = self._deployment
        found = await self._stored(
            lambda store: (store.load_looked(name), store.load_findings(name), store.load_known(name))
        )
        return found or ({}, [], [])

    async def remember_known(self, changed: Mapping[str, KnownCounter | None]) -> None:
        """Save counters for later runs, and forget those that are None."""
        if changed:
            await self._stored(lambda store: store.save_known(self._deployment, changed))

    async def remember(
        self, sampled: Mapping[Namespace, LookedAt], findings: Sequence[UsageFinding], now: float
    ) -> None:
        """Save new results of sampling, and the findings if they changed, for later runs."""
        changed, self._findings = findings != self._findings, [*findings]
        if sampled:
            await self._stored(lambda store: store.save_looked(self._deployment, sampled))
        if sampled or changed:
            await self._stored(lambda store: store.save_findings(self._deployment, findings, now))

    async def oplog_window(self) -> tuple[Timestamp, Timestamp] | None:
        """The first and the last timestamp of the oplog; None if there is no oplog, or this user may not read it."""
        await self.open()
        if not self._oplog:
            return None
        try:
            first, last = await oplog_end(self._gateway, 1), await oplog_end(self._gateway, -1)
        except ServerError as error:
            self.no_oplog(error)
            return None
        return (first, last) if first and last else None

    async def mark(self, collections: Iterable[CounterCollection]) -> None:
        """Call this before new collections are read: their values will include every entry of the oplog up to now."""
        new = [one.ns for one in collections if not one.has_past and one.ns not in self._until]
        if new:
            window = await self.oplog_window()
            self._until |= dict.fromkeys(new, window[1] if window else None)

    async def fill(self, collections: Sequence[CounterCollection], seconds: float, *, last: bool) -> None:
        """Give the counters of new collections their history from the oplog and earlier runs, once all of it is read.

        After ``seconds`` it is continued in the next call; if this is the ``last``, what was read has to do, which is
        said. Raises ReadError if no server answers.
        """
        if self._filling is None:
            new = [collection for collection in collections if not collection.has_past]
            if not new:
                return
            self._filling = new, self._past_of(new)
        new, past = self._filling
        if past is not None and not await self._advance(past, time.monotonic() + seconds):
            if not last:
                return
            self._has_holes("The time was up before all of the oplog was read")
        if past is not None and past.cut:
            self._has_holes(f"The server cut off {past.cut:,} request{'s' * (past.cut > 1)} for the oplog")
        self._filling = None
        values = past.values if past is not None else {}
        for collection in new:
            collection.has_past = True
            self._until.pop(collection.ns, None)
            pasts = values.get(collection.ns, {})
            await collection.follow_active(self._gateway, pasts)
            collection.add_past(pasts)
            await rest()
        trackers = [tracker for collection in new for tracker in collection.all_trackers()]
        stored = await self._load([tracker.identity.key for tracker in trackers])
        for tracker in trackers if stored else ():
            if tracker.identity.key in stored:
                tracker.add_past(stored[tracker.identity.key])
            await rest()

    async def fill_dated(
        self, trackers: Iterable[Tracker], largest: Mapping[str, LargestId], seconds: float, *, last: bool
    ) -> None:
        """Give counters with less than a week of history the values dated by ObjectIds of their target.

        After ``seconds`` it is continued in the next call; if this is the ``last``, that is said.
        """
        deadline = time.monotonic() + seconds
        for tracker in trackers:
            top = largest.get(tracker.identity.key)
            if top is None or tracker.identity.key in self._tried:
                continue
            if time.monotonic() > deadline:
                if last:
                    self._has_holes("The time was up before the ids of all counters were dated")
                return
            self._tried.add(tracker.identity.key)
            if not top.dated or tracker.series.span >= WEEK or self._dated == MOST_DATED:
                continue
            self._dated += 1
            apart = tracker.identity.ids_apart
            ahead = apart if tracker.identity.semantics is Semantics.NEXT else 0
            until = tracker.series.times[0] if len(tracker.series) else self._now()
            try:
                # All of it, whatever the time: half of the samples would leave a hole for good.
                end = top.ids.last(tracker.direction)
                pasts = await read_dated(
                    self._gateway, top.targets[0], end, tracker.kind, ahead, tracker.direction, until=until
                )
            except ServerError as error:
                self._has_holes(f"Ids could not be dated ({trouble_of(_HISTORY, error).title})")
                continue
            # An id beyond is from before a reset of the counter, or not its own, as one between two of its own is not.
            first = tracker.series.first if len(tracker.series) else float("inf")
            own = [past for past in pasts if (past.number - tracker.value) % apart == 0]
            tracker.add_past([past for past in own if past.number * tracker.direction <= first])

    async def save(self, trackers: Sequence[Tracker], now: float) -> None:
        """Keep a sample of each counter that is due, every few minutes. ``trackers`` are the most urgent first."""
        if self._store is None or now - self._saved_at < SAVE_SECONDS:
            return
        self._saved_at = now
        rows: list[tuple[str, PastValue]] = []
        every = [one for tracker in trackers[:MOST_SAVED] for one in (tracker, *tracker.members)]
        for tracker in every[:MOST_SAVED]:
            key, value = tracker.identity.key, tracker.value
            at, before = self._saved.get(key, (float("-inf"), float("nan")))
            if now - at >= (_IDLE_SAVE_SECONDS if value == before else SAVE_SECONDS):
                rows.append((key, PastValue(now, tracker.value, tracker.kind)))
                self._saved[key] = (now, value)
        if len(self._saved) > 4 * MOST_SAVED:
            self._saved.clear()
        await self._stored(lambda store: store.save(self._deployment, rows, now))

    async def close(self) -> None:
        """Close the file of samples."""
        if self._store:
            await asyncio.to_thread(self._store.close)

    async def _load(self, keys: list[str]) -> dict[str, list[PastValue]]:
        """The samples of earlier runs."""
        stored = await self._stored(lambda store: store.load(self._deployment, keys, self._now())) or {}
        self._saved |= {key: (pasts[-1].at, pasts[-1].number) for key, pasts in stored.items()}
        return stored

    def _past_of(self, new: Sequence[CounterCollection]) -> OplogPast | None:
        until = [mark for one in new if (mark := self._until.get(one.ns)) is not None]
        if not until or not self._oplog:
            return None
        paths = {collection.ns: collection.paths() for collection in new if collection.trackers}
        grouped = [collection.ns for collection in new if collection.groups]
        return OplogPast(self._gateway, paths, min(until), grouped)

    async def _advance(self, past: OplogPast, deadline: float) -> bool:
        try:
            return await past.advance(deadline)
        except ServerError as error:
            self.no_oplog(error)
            past.values.clear()
            return True

    def no_oplog(self, error: ServerError) -> None:
        """Stop reading the oplog, and record the reason."""
        self._oplog = False
        trouble = trouble_of(str(OPLOG), error)
        title = f"The history of counters cannot be read. {trouble.title}"
        self.troubles[str(OPLOG)] = replace(trouble, title=title, partial=True)

    def _has_holes(self, why: str) -> None:
        title = f"{why}: the history of counters has holes."
        self.troubles[_HISTORY] = CounterTrouble("", title, "Try a longer --timeout.", partial=True)

    async def _stored(self, work: Callable[[SampleStore], _Found]) -> _Found | None:
        """The result of ``work`` on the file of samples; None without one. One that cannot be used is given up."""
        if self._store is None:
            return None
        try:
            return await asyncio.to_thread(work, self._store)
        except InputError as error:
            await self.close()
            self._store = None
            self.troubles[_HISTORY] = replace(trouble_of("", error), partial=True)
            return None
