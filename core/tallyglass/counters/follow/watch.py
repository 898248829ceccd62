"""Watches all counters of a deployment: find them, read them, follow them, forecast when they run out."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from operator import itemgetter

from tallyglass.counters.follow.collection import CounterCollection
from tallyglass.counters.follow.drift import DriftCheck, LargestId
from tallyglass.counters.follow.group import GroupTracker, group_above
from tallyglass.counters.follow.known import KnownCounters, Surroundings
from tallyglass.counters.follow.order import RankedCounter, UrgencyOrder
from tallyglass.counters.follow.past_reader import MOST_SAVED, PastReader
from tallyglass.counters.follow.settings import USUAL, WatchSettings
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.pacer import Pacer
from tallyglass.counters.recognise.config import CountersConfig, IdField
from tallyglass.counters.recognise.discovery import MOST_READ, Discovery, is_lost, trouble_of
from tallyglass.counters.recognise.finding import UsageFinding, combined
from tallyglass.counters.recognise.idle import IdleGuesses, LargestIds
from tallyglass.counters.recognise.ids import is_indexed
from tallyglass.counters.recognise.usage import findings as findings_of
from tallyglass.counters.recognise.usage_reader import UsageReader
from tallyglass.counters.snapshot import CountersSnapshot, CounterTrouble, CounterView, Flag, Grade, MissingCounter
from tallyglass.errors import ConnectError, PrivilegeError, ReadError
from tallyglass.moment import from_seconds
from tallyglass.mongo.cluster_gateway import ClusterGateway
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.tasks import cancel_all
from tallyglass.text import clean, clean_name

_AT_ONCE = 8
"""Collections that are read at once."""
_FIRST_SECONDS, _LATER_SECONDS = 3.0, 0.5
"""What the search may take of the first refresh, for which somebody waits, and of each later one."""
_PAST_SECONDS, _DRIFT_SECONDS, _IDLE_SECONDS, _FORECAST_SECONDS = 1.0, 0.3, 1.0, 0.25
"""What a refresh gives at most to the past, to the largest ids, to guesses and to forecasts, so that its values are a
few seconds old. What is cut goes on in the next one; a patient refresh does all."""
_USE_SECONDS, _USE_SHARE = 3.0, 0.4
"""What the search for the use of numbers may take, and its share of the time of a refresh."""
_USE_AGAIN_SECONDS = 600.0
"""Use is searched again so often: it reads the oplog, which costs the server."""
_LONGEST_PAUSE = 10.0
"""A slow refresh is followed by a pause as long as it was, but no longer: values would be too old."""
_MANY_COLLECTIONS = 8
"""New collections at once above which the collector of garbage waits until their trackers are built."""
_MANY_COUNTERS = 20_000
"""Trackers above which they are frozen, so that the garbage collector does not walk them again and again."""
_SETTLED_AT_ONCE = 2_000
"""Idle trackers that a refresh brings up to date: all of 100,000 in 50 of them."""


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


_VIEW = itemgetter(1)


class Watcher:
    """Everything followed on one deployment."""

    def __init__(self, gateway: Gateway, settings: WatchSettings) -> None:
        self._gateway = gateway
        self._config = settings.config or CountersConfig()
        self._discovery = Discovery(gateway, self._config)
        self._findings: dict[Namespace, dict[str, UsageFinding]] = {}
        self._use_read_at: float | None = None
        self._use: UsageReader | None = None
        self._use_cut = 0
        self._looked_up: dict[IdField, bool] = {}
        self._is_patient = False
        self._oplog_seconds: float | None = None
        self._recalled = False
        self._left_alone: dict[Namespace, bool] = {}
        self._compared: set[Namespace] = set()
        self._idle: dict[str, IdleGuesses] = {}
        self._kept: list[UsageFinding] = []
        self._known = KnownCounters()
        self._unread: set[Namespace] = set()
        self._troubles: list[CounterTrouble] = []
        self._gone: set[Namespace] = set()
        self._asked: set[Namespace] = set()
        self._collections: dict[Namespace, CounterCollection] = {}
        self._order = UrgencyOrder()
        self._settled = 0
        self._garbage = settings.garbage
        self._said_built = False
        self._targeted: list[Tracker] = []
        self._last: CountersSnapshot | None = None
        self._deadline = math.inf
        self._late = False
        self._drift = DriftCheck(gateway)
        self._past = PastReader(gateway, settings.history_path, oplog=settings.oplog_history)

    async def look(self, search_seconds: float, look_seconds: float = math.inf) -> CountersSnapshot:
        """All counters, compared with the ids of their collections as far as ``look_seconds`` allow; what they do not
        allow is said. Raises ReadError if no server answers."""
        deadline = time.monotonic() + look_seconds
        snapshot = await self.refresh(search_seconds, deadline, patient=True)
        # A counter is compared with an id that was read before it, so those with a known collection are read again.
        if await self.check_drift(deadline - time.monotonic()):
            return await self._look({tracker.identity.ns for tracker in self._targeted})
        return replace(snapshot, troubles=(*snapshot.troubles, *self._not_compared()))

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
        await self._keep_search(time.time())
        self._deadline, self._is_patient = deadline, patient
        left = seconds - (time.monotonic() - began)
        await self._read_use(left if patient else min(_USE_SECONDS, seconds * _USE_SHARE))
        self._follow_places()
        new = sum(not collection.found for collection in self._collections.values())
        with self._garbage.building() if new >= _MANY_COLLECTIONS else nullcontext():
            return await self._look()

    async def _recall(self) -> None:
        """Load the results of earlier runs, once."""
        if self._recalled:
            return
        await self._past.open()
        looked, findings, known = await self._past.remembered()
        self._discovery.recall(looked)
        self._known.recall(known)
        for finding in findings:
            self._findings.setdefault(finding.ns, {})[finding.path] = finding
        self._recalled = True

    def _at_least(self, seconds: float) -> float:
        """How long one kind of reading may take; one of several, so half of what is left if all is to be read."""
        return max(seconds, (self._deadline - time.monotonic()) / 2) if self._is_patient else seconds

    async def _read_use(self, seconds: float) -> None:
        """Analyse the usage of numbers in the oplog periodically, and follow the collections of those used as ids."""
        due = self._use_read_at is None or time.monotonic() - self._use_read_at >= _USE_AGAIN_SECONDS
        if due and self._use is None:
            self._use_read_at = time.monotonic()
            window = await self._past.oplog_window()
            if window is not None:
                self._oplog_seconds = float(window[1].time - window[0].time)
                self._use = UsageReader(self._gateway, Pacer(), *window)
        if self._use is not None:
            await self._advance_use(self._use, time.monotonic() + seconds)
        await self._follow_findings()

    async def _advance_use(self, reader: UsageReader, deadline: float) -> None:
        try:
            done = await reader.advance(deadline)
        except (PrivilegeError, ReadError) as error:
            self._use = None
            if is_lost(error):
                raise
            self._past.no_oplog(error)
            return
        for seen in await asyncio.to_thread(findings_of, await reader.evidence()):
            finding = seen.as_total() if await self._is_total(seen) else seen
            known = self._findings.setdefault(finding.ns, {})
            known[finding.path] = combined(known.get(finding.path), finding)
        self._use_cut = reader.cut
        if done:
            self._use = None

    async def _is_total(self, finding: UsageFinding) -> bool:
        """Whether the values are only repeated: in a field of the same name that nothing looks up."""
        targets = [target for _, target in finding.by_document]
        targets += [finding.target] if finding.target else []
        if not finding.is_repeated or finding.grade not in (Grade.CERTAIN, Grade.LIKELY):
            return False
        for target in targets:
            if target not in self._looked_up:
                try:
                    self._looked_up[target] = await is_indexed(self._gateway, target)
                except (PrivilegeError, ReadError) as error:
                    if is_lost(error):
                        raise
                    # Not known to be one: then it is shown.
                    self._looked_up[target] = True
            if self._looked_up[target]:
                return False
        return bool(targets)

    def _use_in_part(self) -> Iterator[CounterTrouble]:
        if self._use is not None:
            title = "More counters may be found: the oplog is still searched for ids."
            yield CounterTrouble("", title, partial=True)
        elif self._use_cut:
            title = f"The server cut off {self._use_cut:,} requests for the use of numbers: a counter may be a guess."
            yield CounterTrouble("", title, partial=True)
        if self._idle:
            title = "Not all guesses are compared yet with the largest ids of their databases."
            yield CounterTrouble("", title, partial=True)

    async def _follow_findings(self) -> None:
        for ns in self._known.namespaces() & self._discovery.seen - self._left_alone.keys():
            self._discovery.follow(ns)
        for ns, by_path in self._findings.items():
            if ns not in self._discovery.seen or ns in self._discovery.places or ns in self._left_alone:
                continue
            if not any(finding.grade in (Grade.CERTAIN, Grade.LIKELY) for finding in by_path.values()):
                continue
            try:
                too_many = await self._gateway.estimate(ns) > MOST_READ
                if too_many or await self._discovery.expires(ns):
                    self._left_alone[ns] = too_many
                else:
                    self._discovery.follow(ns)
            except (PrivilegeError, ReadError) as error:
                if is_lost(error):
                    raise
                self._left_alone[ns] = False

    async def _look(self, again: Collection[Namespace] | None = None) -> CountersSnapshot:
        """Read all counters, or those of some collections ``again``, and take a snapshot."""
        pacer = Pacer()
        first = self._last is None
        await self.check_drift(self._at_least(_DRIFT_SECONDS))
        await self._past.mark(self._collections.values())
        began, now = time.monotonic(), time.time()
        if again is None:
            self._troubles = await self._read_all(now, pacer)
            if await self._recognise_idle(self._at_least(_IDLE_SECONDS), pacer):
                self._troubles = await self._read_all(now, pacer)
        else:
            await self._read_again(self._collections.keys() & again, pacer)
        trackers = await self._collect(pacer)
        self._drift.apply(self._targeted, began)
        await self._past.fill(
            [*self._collections.values()],
            self._at_least(_PAST_SECONDS if first else _LATER_SECONDS),
            pacer,
            last=self._is_patient,
        )
        await self._past.fill_dated(
            self._targeted, self._drift.largest, self._at_least(_DRIFT_SECONDS), last=self._is_patient
        )
        await self._update_forecasts(trackers, now, pacer)
        rows = await self._order.update(trackers, pacer)
        present = self._known.learn((row[1:] for row in rows), now)
        missing = await self._missing(present, now)
        self._last = CountersSnapshot(
            at=from_seconds(now),
            counters=tuple(map(self._acknowledged, map(_VIEW, rows))),
            troubles=(
                *self._discovery.troubles.values(),
                *self._troubles,
                *self._past.troubles.values(),
                *self._drift.troubles,
                *self._not_compared(),
                *self._too_large(),
                *self._use_in_part(),
                *_lost_shards(self._gateway),
            ),
            discovering=self._discovery.is_busy,
            collections_seen=len(self._discovery.seen),
            collections_looked=self._discovery.looked,
            collections_unread=len(self._discovery.unread),
            unmatched=self._unmatched(rows),
            oplog_seconds=self._oplog_seconds,
            known=self._known.count(present) + len(missing),
            missing=missing,
        )
        await self._keep(rows, now)
        return self._last

    async def _missing(self, present: Collection[str], now: float) -> tuple[MissingCounter, ...]:
        """The counters that were recognised once and whose keys are not ``present``."""
        for ns in self._known.namespaces() - self._discovery.seen - self._asked:
            # A user with fewer privileges does not see collections that exist.
            self._asked.add(ns)
            try:
                if await self._gateway.find_one(ns, {}, projection={"_id": 1}) is None:
                    self._gone.add(ns)
            except (PrivilegeError, ReadError) as error:
                if is_lost(error):
                    raise
        here = Surroundings(self._config, self._discovery.seen, self._collections, self._unread, self._gone)
        missing = self._known.missing(present, here, now)
        when = from_seconds(now)
        return tuple(one for one in missing if Flag.GONE not in self._config.acknowledged(f"{one.ns} {one.id}", when))

    async def _recognise_idle(self, seconds: float, pacer: Pacer) -> bool:
        """Compare guesses with the largest ids of their databases, once each; returns whether any was recognised."""
        self._begin_idle()
        deadline, recognised = time.monotonic() + seconds, False
        for db, guesses in list(self._idle.items()):
            if await guesses.largest.advance(deadline):
                del self._idle[db]
                await self._read_again(guesses.moved() & self._collections.keys(), pacer)
                recognised |= self._compare_idle(guesses)
        return recognised

    def _begin_idle(self) -> None:
        new = self._collections.keys() - self._compared
        self._compared |= new
        for ns in new:
            guesses = {
                tracker.identity.key: (ns, tracker.issued())
                for tracker in self._collections[ns].trackers
                if tracker.identity.grade is Grade.POSSIBLE and tracker.identity.doc_id is not None
            }
            if guesses and ns.db not in self._idle:
                siblings = [one for one in self._discovery.seen if one.db == ns.db and one not in self._collections]
                followed = [one for name, one in self._collections.items() if name.db == ns.db]
                names = {tracker.identity.id for collection in followed for tracker in collection.trackers}
                self._idle[ns.db] = IdleGuesses(LargestIds(self._gateway, siblings, names), {})
            if guesses:
                self._idle[ns.db].before.update(guesses)

    def _compare_idle(self, guesses: IdleGuesses) -> bool:
        recognised = False
        for ns in {ns for ns, _ in guesses.before.values()} & self._collections.keys():
            found: dict[str, list[tuple[object, IdField]]] = {}
            for tracker in self._collections[ns].trackers:
                known = tracker.identity
                target = guesses.target(known.key, tracker.issued()) if known.key in guesses.before else None
                if target is not None:
                    found.setdefault(known.path, []).append((known.doc_id, target))
            for path, targets in found.items():
                finding = self._findings.setdefault(ns, {}).get(path) or UsageFinding(ns, path, Grade.POSSIBLE)
                self._findings[ns][path] = replace(finding, by_document=tuple(targets))
                self._collections[ns].learn(self._findings[ns])
                recognised = True
        return recognised

    async def _read_again(self, places: Collection[Namespace], pacer: Pacer) -> None:
        for ns in places:
            try:
                await self._collections[ns].read(self._gateway, time.time(), pacer)
            except (PrivilegeError, ReadError) as error:
                if is_lost(error):
                    raise

    async def _keep(self, rows: Sequence[RankedCounter], now: float) -> None:
        """Save samples and findings for later runs."""
        followed: list[Tracker] = []
        for row in rows[:MOST_SAVED]:
            followed.append(row[2])
            if isinstance(row[2], GroupTracker):
                followed += row[2].group.followed.values()
        await self._past.save(followed, now)
        changed, self._known.changed = self._known.changed, {}
        await self._past.remember_known(changed)
        await self._keep_search(now)

    async def _keep_search(self, now: float) -> None:
        fresh, self._discovery.fresh = self._discovery.fresh, {}
        known = [finding for by_path in self._findings.values() for finding in by_path.values()]
        if fresh or known != self._kept:
            self._kept = known
            await self._past.remember(fresh, known, now)

    def _unmatched(self, rows: Sequence[RankedCounter]) -> tuple[str, ...]:
        """A sentence for each pattern and rule that matches nothing, once the search is complete."""
        if self._discovery.is_busy or self._discovery.troubles or self._late:
            return ()
        messages = list(self._discovery.unmatched)
        matched = {number for collection in self._collections.values() for number in collection.recogniser.matched}
        for rule in self._config.rules:
            if rule.number and rule.number not in matched:
                what = (
                    f"no document has a number at {clean_name(rule.field)}"
                    if rule.field
                    else "no counter was recognised there; name its field"
                )
                which = "" if rule.id is None else f" with the _id {clean(json.dumps(rule.id), 120)}"
                messages.append(f"counter {rule.number} ({clean_name(str(rule.ns))}{which}): {what}.")
        names = [f"{row[1].ns} {row[1].id}" for row in rows] if self._config.acknowledgements else []
        for one in self._config.acknowledgements:
            if not any(fnmatchcase(name, one.counter) for name in names):
                messages.append(f"acknowledge {clean_name(one.counter)} matches no counter.")
        return tuple(messages)

    def _acknowledged(self, view: CounterView) -> CounterView:
        if not self._config.acknowledgements or not view.flags:
            return view
        named = self._config.acknowledged(f"{view.ns} {view.id}", datetime.now(UTC))
        flags = tuple(flag for flag in view.flags if flag in named)
        return replace(view, acknowledged=flags) if flags else view

    async def check_drift(self, seconds: float) -> bool:
        """Read the largest ids of targets, for use in the next refresh; returns whether any is known."""
        self._drift.forget({tracker.identity.key for tracker in self._targeted})
        await self._drift.advance(self._targeted, self._discovery.seen, seconds)
        return bool(self._drift.largest)

    def compared(self) -> Iterator[tuple[Tracker, LargestId | None]]:
        """The single counters, each with the largest id of its target if that is known."""
        for collection in self._collections.values():
            for tracker in collection.trackers:
                if not (tracker.cells or isinstance(tracker, GroupTracker)) and tracker.view().may_alarm:
                    yield tracker, self._drift.largest.get(tracker.identity.key)

    async def close(self) -> None:
        """End what is being read, and close the file of samples."""
        if self._use is not None:
            await self._use.close()
        await self._past.close()

    async def _collect(self, pacer: Pacer) -> list[Tracker]:
        """All trackers; those with a known target are kept for the next check of drift."""
        trackers: list[Tracker] = []
        targeted: list[Tracker] = []
        for collection in self._collections.values():
            trackers += collection.trackers
            targeted += [tracker for tracker in collection.trackers if tracker.identity.targets]
            await pacer.rest()
        self._targeted = targeted
        return trackers

    def _too_large(self) -> Iterator[CounterTrouble]:
        for ns, too_many in self._left_alone.items():
            if too_many:
                title = f"More than {MOST_READ:,} documents hold a counter each: too many to follow."
                yield CounterTrouble(clean_name(str(ns)), title, partial=True)

    def stale(self, error: ConnectError | ReadError) -> CountersSnapshot:
        """The last snapshot with the error added; its time is that of the last success."""
        trouble = CounterTrouble("", clean(error.title), clean(error.advice))
        if self._last is None:
            return CountersSnapshot(datetime.now(UTC), (), (trouble,), discovering=True)
        return replace(self._last, troubles=(trouble,))

    def _follow_places(self) -> None:
        places = self._discovery.places
        for removed in [ns for ns in self._collections if ns not in places]:
            del self._collections[removed]
        above = group_above(len(places))
        for ns, place in places.items():
            if ns not in self._collections:
                self._collections[ns] = CounterCollection(place, self._config.rules_for(ns))
            self._collections[ns].group_above = above
            self._collections[ns].learn(self._findings.get(ns, {}))

    async def _read_all(self, now: float, pacer: Pacer) -> list[CounterTrouble]:
        troubles: list[CounterTrouble] = []
        turns = asyncio.Semaphore(_AT_ONCE)
        late: list[CounterCollection] = []
        self._unread = set()

        async def read(collection: CounterCollection) -> None:
            async with turns:
                if time.monotonic() > self._deadline:
                    self._unread.add(collection.place.ns)
                    late.append(collection)
                    return
                try:
                    await collection.read(self._gateway, now, pacer)
                except (PrivilegeError, ReadError) as error:
                    if is_lost(error):
                        raise
                    self._unread.add(collection.place.ns)
                    troubles.append(trouble_of(str(collection.place.ns), error))
            if collection.truncated:
                title = f"It holds more than {MOST_READ:,} counters; these are the first."
                troubles.append(CounterTrouble(clean_name(str(collection.place.ns)), title))

        tasks = [asyncio.ensure_future(read(collection)) for collection in list(self._collections.values())]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_all(tasks)
        self._late = bool(late)
        if late:
            title = f"The time was up before {len(late):,} of {len(tasks):,} collections with counters were read."
            troubles.append(CounterTrouble("*", title, "Try a longer --timeout."))
        return troubles

    def _all_settled(self, count: int) -> None:
        # By now every view was created once, and most will not change.
        if count >= _MANY_COUNTERS and not self._said_built:
            self._said_built = True
            self._garbage.built()

    async def _update_forecasts(self, trackers: list[Tracker], now: float, pacer: Pacer) -> None:
        """Update the forecasts of changed counters, for a bounded time unless patient; then settle some idle ones."""
        deadline = math.inf if self._is_patient else time.monotonic() + _FORECAST_SECONDS
        for tracker in trackers:
            if tracker.stale_forecast and tracker.is_due(now):
                tracker.update_forecasts(now)
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


def _lost_shards(gateway: Gateway) -> Iterator[CounterTrouble]:
    """The shards of a cluster that could not be read: their counters are unknown."""
    lost = gateway.lost if isinstance(gateway, ClusterGateway) else {}
    for name, reason in lost.items():
        yield CounterTrouble(name, f"Shard {name} is not read: {reason}")
