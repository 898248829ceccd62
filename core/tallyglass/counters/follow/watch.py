"""Watches all counters of a deployment: find them, read them, follow them, forecast when they run out."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime

from tallyglass.counters.follow.collections import FollowedCollections
from tallyglass.counters.follow.drift import DriftCheck, LargestId
from tallyglass.counters.follow.known import KnownCounters
from tallyglass.counters.follow.order import RankedCounter, by_urgency
from tallyglass.counters.follow.past_reader import PastReader
from tallyglass.counters.follow.settings import USUAL, WatchSettings
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.follow.usage_search import UsageSearch
from tallyglass.counters.pacer import rest
from tallyglass.counters.recognise.config import CountersConfig
from tallyglass.counters.recognise.discovery import Discovery, trouble_of
from tallyglass.counters.snapshot import CountersSnapshot, CounterTrouble, CounterView
from tallyglass.errors import ConnectError, ReadError
from tallyglass.moment import from_seconds
from tallyglass.mongo.gateway import Gateway, Namespace

_FIRST_SECONDS, _LATER_SECONDS = 3.0, 0.5
"""What the search may take of the first refresh, for which somebody waits, and of each later one."""
_PAST_SECONDS, _DRIFT_SECONDS, _IDLE_SECONDS, _FORECAST_SECONDS = 1.0, 0.3, 1.0, 0.25
"""What a refresh gives at most to the past, to the largest ids, to guesses and to forecasts, so that its values are a
few seconds old. What is cut goes on in the next one; a patient refresh does all."""
_USE_SECONDS, _USE_SHARE = 3.0, 0.4
"""What the search for the use of numbers may take, and its share of the time of a refresh."""
_LONGEST_PAUSE = 10.0
"""A slow refresh is followed by a pause as long as it was, but no longer: values would be too old."""
_MANY_COLLECTIONS = 8
"""New collections at once above which the collector of garbage waits until their trackers are built."""


async def look(gateway: Gateway, settings: WatchSettings = USUAL) -> CountersSnapshot:
    """One snapshot of all counters, with forecasts. Raises ConnectError or ReadError if no server answers."""
    watcher = Watcher(gateway, settings)
    try:
        return await watcher.look(settings.search_seconds, settings.look_seconds)
    finally:
        await watcher.close()


async def watch(gateway: Gateway, settings: WatchSettings = USUAL) -> AsyncIterator[CountersSnapshot]:
    """A snapshot every ``refresh_seconds``, without end; while no server answers, the last one with the error added.

    The pause after a slow refresh is as long as the refresh, so that at most half of one core is used.
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


class Watcher:
    """Everything followed on one deployment."""

    def __init__(self, gateway: Gateway, settings: WatchSettings) -> None:
        self._gateway = gateway
        self._config = settings.config or CountersConfig()
        self._building = settings.building
        self._discovery = Discovery(gateway, self._config)
        self._collections = FollowedCollections(gateway, self._config, self._discovery)
        self._clock = self._collections.clock
        self._past = PastReader(gateway, settings.history_path, lambda: self._clock.now, oplog=settings.oplog_history)
        self._use = UsageSearch(gateway, self._discovery, self._past)
        self._drift = DriftCheck(gateway)
        self._known = KnownCounters()
        self._recalled = False
        self._targeted: list[Tracker] = []
        self._rows: list[RankedCounter] = []
        self._last: CountersSnapshot | None = None
        self._deadline = math.inf
        self._is_patient = False

    async def look(self, search_seconds: float, look_seconds: float = math.inf) -> CountersSnapshot:
        """All counters, compared with the ids of their collections as far as ``look_seconds`` allow; what they do not
        allow is said. Raises ReadError if no server answers."""
        deadline = time.monotonic() + look_seconds
        snapshot = await self.refresh(search_seconds, deadline, patient=True)
        # A counter is compared with an id that was read before it, so those with a known collection are read again.
        if await self.check_drift(deadline - time.monotonic()):
            return await self._snapshot({tracker.identity.ns for tracker in self._targeted})
        return replace(snapshot, troubles=(*snapshot.troubles, *self._drift.troubles, *self._not_compared()))

    def _not_compared(self) -> Iterator[CounterTrouble]:
        if self._is_patient and self._drift.waiting:
            count = f"{self._drift.waiting:,} counter{'s' * (self._drift.waiting > 1)}"
            title = f"The time was up before {count} could be compared with the ids of their collections."
            yield CounterTrouble("*", title, "Try a longer --timeout.")

    async def refresh(self, seconds: float, deadline: float = math.inf, *, patient: bool = False) -> CountersSnapshot:
        """Take a new snapshot; ``seconds`` limits the search. Raises ReadError if no server answers.

        Everything else that is read is limited by counts. One that is ``patient`` reads it all if ``deadline``
        (monotonic) allows; else it is continued in the next refresh.
        """
        began = time.monotonic()
        await self._recall()
        await self._discovery.advance(seconds)
        # Before anything is read: a run that ends early must not search again.
        await self._keep_search(self._clock.now)
        self._deadline, self._is_patient = deadline, patient
        left = seconds - (time.monotonic() - began)
        await self._use.advance(left if patient else min(_USE_SECONDS, seconds * _USE_SHARE), self._known.namespaces())
        new = self._collections.follow(self._use.findings)
        with self._building() if new >= _MANY_COLLECTIONS else nullcontext():
            return await self._snapshot()

    async def _recall(self) -> None:
        """Load the results of earlier runs, once."""
        if self._recalled:
            return
        await self._past.open()
        sampled, findings, known = await self._past.remembered()
        self._discovery.recall(sampled)
        self._known.recall(known)
        for finding in findings:
            self._use.findings.setdefault(finding.ns, {})[finding.path] = finding
        self._recalled = True

    def _at_least(self, seconds: float) -> float:
        """How long one kind of reading may take; one of several, so half of what is left if all is to be read."""
        return max(seconds, (self._deadline - time.monotonic()) / 2) if self._is_patient else seconds

    async def _snapshot(self, again: Collection[Namespace] | None = None) -> CountersSnapshot:
        """Read all counters, or those of some collections ``again``, and take a snapshot."""
        collections = self._collections
        await self.check_drift(self._at_least(_DRIFT_SECONDS))
        await self._past.mark(collections.by_ns.values())
        # On a member that lags, a counter would be behind the ids that another one has, and behind its own past.
        now = await collections.catch_up()
        began = time.monotonic()
        if again is None:
            await collections.read(self._deadline)
            if await collections.compare_idle(self._use.findings, self._at_least(_IDLE_SECONDS)):
                await collections.read(self._deadline)
        else:
            await collections.read_again(again)
        trackers = collections.trackers()
        self._targeted = [tracker for tracker in trackers if tracker.identity.targets]
        self._drift.apply(self._targeted, trackers, began)
        await self._past.fill([*collections.by_ns.values()], self._at_least(_PAST_SECONDS), last=self._is_patient)
        await self._past.fill_dated(
            self._targeted, self._drift.largest, self._at_least(_DRIFT_SECONDS), last=self._is_patient
        )
        await self._update_forecasts(trackers, now)
        self._rows = rows = await by_urgency(trackers, self._rows, from_seconds(now))
        present = self._known.learn((row[1:] for row in rows), now)
        await self._known.find_gone(self._gateway, self._discovery.seen, present, collections)
        missing = self._known.missing(present, self._config, self._discovery.seen, collections, now)
        self._last = CountersSnapshot(
            at=from_seconds(now),
            ahead=self._clock.ahead,
            counters=tuple(self._acknowledged(view) for _, view, _ in rows),
            troubles=(
                *self._discovery.troubles.values(),
                *collections.troubles(),
                *self._past.troubles.values(),
                *self._drift.troubles,
                *self._not_compared(),
                *self._use.troubles(),
            ),
            discovering=self._discovery.is_busy,
            collections_seen=len(self._discovery.seen),
            collections_looked=self._discovery.looked,
            collections_unread=len(self._discovery.unread),
            unmatched=self._unmatched(),
            oplog_seconds=self._use.oplog_seconds,
            known=self._known.count(present) + len(missing),
            missing=missing,
        )
        await self._past.save([tracker for *_, tracker in rows], now)
        changed, self._known.changed = self._known.changed, {}
        await self._past.remember_known(changed)
        await self._keep_search(now)
        return self._last

    async def _keep_search(self, now: float) -> None:
        """Save the results of the search for later runs."""
        fresh, self._discovery.fresh = self._discovery.fresh, {}
        findings = [finding for by_path in self._use.findings.values() for finding in by_path.values()]
        await self._past.remember(fresh, findings, now)

    def _unmatched(self) -> tuple[str, ...]:
        """A sentence for each pattern and rule that matches nothing, once the search is complete."""
        if self._discovery.is_busy or self._discovery.troubles or self._collections.is_late:
            return ()
        views = [view for _, view, _ in self._rows] if self._config.acknowledgements else []
        views += [member for view in views if view.members for member in view.members.worst]
        names = [f"{view.ns} {view.id}" for view in views]
        return (*self._discovery.unmatched, *self._config.unmatched(self._collections.matched_rules(), names))

    def _acknowledged(self, view: CounterView) -> CounterView:
        if not self._config.acknowledgements or not view.flags:
            return view
        named = self._config.acknowledged(f"{view.ns} {view.id}", datetime.now(UTC))
        flags = tuple(flag for flag in view.flags if flag in named)
        worst = tuple(map(self._acknowledged, view.members.worst)) if view.members else ()
        if view.members and any(one.acknowledged for one in worst):
            view = replace(view, members=replace(view.members, worst=worst))
        return replace(view, acknowledged=flags) if flags else view

    async def check_drift(self, seconds: float) -> bool:
        """Read the largest ids of targets, for use in the next refresh; returns whether any is known."""
        self._drift.forget({tracker.identity.key for tracker in self._targeted})
        await self._drift.advance(self._targeted, self._discovery.comparable, seconds)
        return bool(self._drift.largest)

    def compared(self) -> Iterator[tuple[Tracker, LargestId | None]]:
        """The counters, each with the largest id of its target if that is known, and the pools and groups, which have
        none."""
        for tracker in self._collections.trackers():
            if tracker.view().may_alarm:
                many = tracker.stands_for_many
                yield tracker, None if many else self._drift.largest.get(tracker.identity.key)

    async def close(self) -> None:
        """End what is being read, and close the file of samples."""
        await self._use.close()
        await self._past.close()

    def stale(self, error: ConnectError | ReadError) -> CountersSnapshot:
        """The last snapshot with the error added; its time is that of the last success."""
        trouble = trouble_of("", error)
        if self._last is None:
            return CountersSnapshot(datetime.now(UTC), (), (trouble,), discovering=True)
        return replace(self._last, troubles=(trouble,))

    async def _update_forecasts(self, trackers: Sequence[Tracker], now: float) -> None:
        """Update what depends on the time, forecasts among it, for a bounded time unless patient."""
        deadline = math.inf if self._is_patient else time.monotonic() + _FORECAST_SECONDS
        for tracker in trackers:
            if not tracker.stale_forecast:
                tracker.settle(now)
            elif tracker.is_due(now):
                tracker.update_forecasts(now)
            if time.monotonic() > deadline:
                return
            await rest()
