"""The live view of all counters: find them, read them, follow them, and say when each runs out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path

from tallyglass.counters.follow.collection import CounterCollection
from tallyglass.counters.follow.drift import DriftCheck
from tallyglass.counters.follow.garbage import LEAVE_ALONE, GarbagePolicy
from tallyglass.counters.follow.order import UrgencyOrder
from tallyglass.counters.follow.past_reader import MOST_SAVED, PastReader
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.pacer import Pacer
from tallyglass.counters.recognise.config import CountersConfig
from tallyglass.counters.recognise.discovery import MOST_READ, Discovery, is_lost, trouble_of
from tallyglass.counters.snapshot import CountersSnapshot, CounterTrouble
from tallyglass.errors import ConnectError, PrivilegeError, ReadError
from tallyglass.moment import from_seconds
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.tasks import end
from tallyglass.text import clean, clean_name

_AT_ONCE = 8
_FIRST_SECONDS = 3.0
_PAST_SECONDS = 1.0
_DRIFT_SECONDS = 0.3
_LATER_SECONDS = 0.5
_FORECAST_SECONDS = 0.25
_LONGEST_PAUSE = 10.0
_MANY_COLLECTIONS = 8
_MANY_COUNTERS = 20_000
_SETTLED_AT_ONCE = 2_000


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How counters are watched. ``history_path`` is the file that keeps samples across runs; None keeps none.

    ``oplog_history`` lets the past be read from the oplog. ``garbage`` is what this process does about its garbage
    collector while many counters are followed.
    """

    refresh_seconds: float = 1.0
    config: CountersConfig | None = None
    history_path: Path | None = None
    oplog_history: bool = True
    garbage: GarbagePolicy = LEAVE_ALONE


async def look(gateway: Gateway, settings: WatchSettings = WatchSettings()) -> CountersSnapshot:
    """One bounded look at all counters, with forecasts. Raises ConnectError or ReadError where no server answers."""
    watcher = Watcher(gateway, settings)
    try:
        snapshot = await watcher.refresh(_FIRST_SECONDS)
        # A counter is compared with an id that was read before it: that takes a second look.
        if await watcher.check_drift(_FIRST_SECONDS / 2):
            snapshot = await watcher.refresh(_LATER_SECONDS)
        return snapshot
    finally:
        await watcher.close()


async def watch(gateway: Gateway, settings: WatchSettings = WatchSettings()) -> AsyncIterator[CountersSnapshot]:
    """A snapshot every ``refresh_seconds``, for ever. While no server answers, the last one with a trouble.

    A refresh that takes long makes the pause after it as long: never more than half of one core is used.
    """
    watcher = Watcher(gateway, settings)
    seconds = _FIRST_SECONDS
    try:
        while True:
            began = time.monotonic()
            try:
                snapshot = await watcher.refresh(seconds)
                seconds = _LATER_SECONDS
            except (ConnectError, ReadError) as error:
                snapshot = watcher.stale(error)
            yield snapshot
            took = time.monotonic() - began
            await asyncio.sleep(max(settings.refresh_seconds - took, min(took, _LONGEST_PAUSE)))
    finally:
        await watcher.close()


_VIEW = itemgetter(1)


class Watcher:
    """All that is followed on one deployment."""

    def __init__(self, gateway: Gateway, settings: WatchSettings) -> None:
        self._gateway = gateway
        self._config = settings.config or CountersConfig()
        self._discovery = Discovery(gateway, self._config)
        self._collections: dict[Namespace, CounterCollection] = {}
        self._order = UrgencyOrder()
        self._settled = 0
        self._garbage = settings.garbage
        self._said_built = False
        self._targeted: list[Tracker] = []
        self._last: CountersSnapshot | None = None
        self._drift = DriftCheck(gateway)
        self._past = PastReader(gateway, settings.history_path, oplog=settings.oplog_history)

    async def refresh(self, seconds: float) -> CountersSnapshot:
        """Look once more; ``seconds`` is how long the search for collections may take. Raises for a lost server."""
        await self._discovery.advance(seconds)
        self._follow_places()
        new = sum(not collection.found for collection in self._collections.values())
        with self._garbage.building() if new >= _MANY_COLLECTIONS else nullcontext():
            return await self._look()

    async def _look(self) -> CountersSnapshot:
        pacer = Pacer()
        first = self._last is None
        await self.check_drift(_DRIFT_SECONDS)
        await self._past.mark(self._collections.values())
        began, now = time.monotonic(), time.time()
        troubles = await self._read_all(now, pacer)
        trackers = await self._collect(pacer)
        self._drift.apply(self._targeted, began)
        await self._past.fill([*self._collections.values()], _PAST_SECONDS if first else _LATER_SECONDS, pacer)
        await self._past.fill_dated(self._targeted, self._drift.largest, _DRIFT_SECONDS)
        await self._foresee(trackers, now, pacer)
        rows = await self._order.update(trackers, pacer)
        self._last = CountersSnapshot(
            at=from_seconds(now),
            counters=tuple(map(_VIEW, rows)),
            troubles=(
                *self._discovery.troubles.values(),
                *troubles,
                *self._past.troubles.values(),
                *self._drift.troubles,
            ),
            discovering=self._discovery.is_busy,
            collections_seen=len(self._discovery.seen),
        )
        await self._past.save([row[2] for row in rows[:MOST_SAVED]], now)
        return self._last

    async def check_drift(self, seconds: float) -> bool:
        """Read the largest ids of targets; whether any is known. What it says counts from the next refresh on."""
        self._drift.forget({tracker.identity.key for tracker in self._targeted})
        await self._drift.advance(self._targeted, self._discovery.seen, seconds)
        return bool(self._drift.largest)

    async def close(self) -> None:
        """Close the file of samples."""
        await self._past.close()

    async def _collect(self, pacer: Pacer) -> list[Tracker]:
        """All trackers; those that know whose ids they hand out are kept for the next check of drift."""
        trackers: list[Tracker] = []
        targeted: list[Tracker] = []
        for collection in self._collections.values():
            trackers += collection.trackers
            targeted += [tracker for tracker in collection.trackers if tracker.identity.targets]
            await pacer.rest()
        self._targeted = targeted
        return trackers

    def stale(self, error: ConnectError | ReadError) -> CountersSnapshot:
        """The last snapshot, with what is wrong; its time says how old it is."""
        trouble = CounterTrouble("", clean(error.title), clean(error.advice))
        if self._last is None:
            return CountersSnapshot(datetime.now(UTC), (), (trouble,), discovering=True)
        return replace(self._last, troubles=(trouble,))

    def _follow_places(self) -> None:
        places = self._discovery.places
        for gone in [ns for ns in self._collections if ns not in places]:
            del self._collections[gone]
        for ns, place in places.items():
            if ns not in self._collections:
                self._collections[ns] = CounterCollection(place, self._config.rules_for(ns))

    async def _read_all(self, now: float, pacer: Pacer) -> list[CounterTrouble]:
        troubles: list[CounterTrouble] = []
        turns = asyncio.Semaphore(_AT_ONCE)

        async def read(collection: CounterCollection) -> None:
            async with turns:
                try:
                    await collection.read(self._gateway, now, pacer)
                except (PrivilegeError, ReadError) as error:
                    if is_lost(error):
                        raise
                    troubles.append(trouble_of(str(collection.place.ns), error))
            if collection.truncated:
                title = f"It holds more than {MOST_READ:,} counters; these are the first."
                troubles.append(CounterTrouble(clean_name(str(collection.place.ns)), title))

        tasks = [asyncio.ensure_future(read(collection)) for collection in list(self._collections.values())]
        try:
            await asyncio.gather(*tasks)
        finally:
            await end(tasks)
        return troubles

    def _all_settled(self, count: int) -> None:
        # By now every view was made anew once, and most will not be again.
        if count >= _MANY_COUNTERS and not self._said_built:
            self._said_built = True
            self._garbage.built()

    async def _foresee(self, trackers: list[Tracker], now: float, pacer: Pacer) -> None:
        """Work out the forecasts of what moved, then let some counters at rest age, for a bounded time."""
        deadline = time.monotonic() + _FORECAST_SECONDS
        for tracker in trackers:
            if tracker.stale_forecast and tracker.is_due(now):
                tracker.foresee(now)
                if time.monotonic() > deadline:
                    return
            await pacer.rest()
        for _ in range(min(_SETTLED_AT_ONCE, len(trackers))):
            self._settled = (self._settled + 1) % len(trackers)
            if self._settled == 0:
                self._all_settled(len(trackers))
            tracker = trackers[self._settled]
            if not tracker.stale_forecast:
                tracker.settle(now)
            await pacer.rest()
