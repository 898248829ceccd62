"""The collections with counters that are followed: reads them all, and compares idle guesses with the largest ids."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from tallyglass.counters.follow.clock import Clock
from tallyglass.counters.follow.collection import CounterCollection
from tallyglass.counters.follow.group import group_above
from tallyglass.counters.follow.tracker import Tracker
from tallyglass.counters.recognise.config import CountersConfig, IdField
from tallyglass.counters.recognise.discovery import MOST_READ, Discovery, trouble_of
from tallyglass.counters.recognise.finding import UsageFinding
from tallyglass.counters.recognise.idle import IdleGuesses, LargestIds
from tallyglass.counters.snapshot import CounterTrouble, Grade
from tallyglass.errors import ServerError
from tallyglass.mongo.cluster_gateway import ClusterGateway
from tallyglass.mongo.gateway import Gateway, Namespace
from tallyglass.tasks import cancel_all
from tallyglass.text import clean_name

_AT_ONCE = 8
"""Collections that are read at once: a few round trips overlap, and few threads of the server work for this."""

Findings = dict[Namespace, dict[str, UsageFinding]]
"""Results of usage analysis by collection and path."""


class FollowedCollections:
    """The followed collections. ``by_ns`` are all of them, ``unread`` those that the last reading could not read,
    ``clock`` is that by which they are dated.

    ``is_late``: the time of the last reading was up before all were read.
    """

    def __init__(self, gateway: Gateway, config: CountersConfig, discovery: Discovery) -> None:
        self.by_ns: dict[Namespace, CounterCollection] = {}
        self.unread: set[Namespace] = set()
        self.is_late = False
        self.clock = Clock()
        self._gateway = gateway
        self._config = config
        self._discovery = discovery
        self._troubles: list[CounterTrouble] = []
        self._compared: set[Namespace] = set()
        self._idle: dict[str, IdleGuesses] = {}

    def follow(self, findings: Findings) -> int:
        """Follow what the search has found, with what is known of the use; returns how many were never read."""
        places = self._discovery.places
        for removed in self.by_ns.keys() - places:
            del self.by_ns[removed]
        above = group_above(len(places))
        for ns, query in places.items():
            if ns not in self.by_ns:
                self.by_ns[ns] = CounterCollection(ns, query, self._config.rules_for(ns))
            self.by_ns[ns].group_above = above
            self.by_ns[ns].recogniser.options = self._discovery.options.get(ns, {})
            self.by_ns[ns].learn(findings.get(ns, {}))
        return sum(not collection.found for collection in self.by_ns.values())

    def trackers(self) -> list[Tracker]:
        """What is shown of all collections."""
        return [tracker for collection in self.by_ns.values() for tracker in collection.trackers]

    def matched_rules(self) -> set[int]:
        """The numbers of the rules that match a counter."""
        return {number for collection in self.by_ns.values() for number in collection.recogniser.matched}

    async def catch_up(self) -> float:
        """Have all be read as it is from now on, which is returned: seconds since 1970."""
        return self.clock.read(await self._gateway.catch_up())

    async def read(self, deadline: float = math.inf) -> None:
        """Read all, until ``deadline`` (monotonic). Raises ReadError if no server answers."""
        turns = asyncio.Semaphore(_AT_ONCE)
        self._troubles, self.unread, late, now = [], set(), 0, self.clock.now

        async def read_one(ns: Namespace, collection: CounterCollection) -> None:
            nonlocal late
            async with turns:
                if time.monotonic() > deadline:
                    self.unread.add(ns)
                    late += 1
                    return
                try:
                    await collection.read(self._gateway, now)
                except ServerError as error:
                    self.unread.add(ns)
                    self._troubles.append(trouble_of(str(ns), error))
            if collection.truncated:
                title = f"More than {MOST_READ:,} documents here may hold a counter: only so many are read."
                self._troubles.append(CounterTrouble(clean_name(str(ns)), title))

        tasks = [asyncio.ensure_future(read_one(*row)) for row in list(self.by_ns.items())]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_all(tasks)
        self.is_late = bool(late)
        if late:
            title = f"The time was up before {late:,} of {len(tasks):,} collections with counters were read."
            self._troubles.append(CounterTrouble("*", title, "Try a longer --timeout."))

    async def read_again(self, places: Collection[Namespace]) -> None:
        """Read some of them once more. Raises ReadError if no server answers."""
        for ns in self.by_ns.keys() & places:
            with suppress(ServerError):
                await self.by_ns[ns].read(self._gateway, self.clock.now)

    async def compare_idle(self, findings: Findings, seconds: float) -> bool:
        """Compare guesses with the largest ids of their databases, once each, for about ``seconds``.

        Adds to ``findings``; returns whether any was recognised.
        """
        self._gather_guesses()
        deadline, recognised = time.monotonic() + seconds, False
        for db, guesses in list(self._idle.items()):
            if await guesses.largest.advance(deadline):
                del self._idle[db]
                await self.read_again(guesses.moved())
                recognised |= self._compare(guesses, findings)
        return recognised

    def _gather_guesses(self) -> None:
        new = self.by_ns.keys() - self._compared
        self._compared |= new
        for ns in new:
            guesses = {
                tracker.identity.key: (ns, tracker.issued())
                for tracker in self.by_ns[ns].trackers
                if tracker.identity.grade is Grade.POSSIBLE and tracker.identity.doc_id is not None
            }
            if guesses and ns.db not in self._idle:
                siblings = [one for one in self._discovery.seen if one.db == ns.db and one not in self.by_ns]
                names = {tracker.identity.id for tracker in self.trackers() if tracker.identity.ns.db == ns.db}
                self._idle[ns.db] = IdleGuesses(LargestIds(self._gateway, siblings, names), {})
            if guesses:
                self._idle[ns.db].before.update(guesses)

    def _compare(self, guesses: IdleGuesses, findings: Findings) -> bool:
        recognised = False
        for ns in {ns for ns, _ in guesses.before.values()} & self.by_ns.keys():
            found: dict[str, list[tuple[object, IdField]]] = {}
            for tracker in self.by_ns[ns].trackers:
                known = tracker.identity
                target = guesses.target(known.key, tracker.issued()) if known.key in guesses.before else None
                if target is not None:
                    found.setdefault(known.path, []).append((known.doc_id, target))
            for path, targets in found.items():
                finding = findings.setdefault(ns, {}).get(path) or UsageFinding(ns, path, Grade.POSSIBLE)
                findings[ns][path] = replace(finding, equal=(*finding.equal, *targets))
                self.by_ns[ns].learn(findings[ns])
                recognised = True
        return recognised

    def troubles(self) -> Iterator[CounterTrouble]:
        """What the last reading could not read, and the guesses that are still to be compared."""
        yield from self._troubles
        yield from self.clock.troubles()
        if self._idle:
            title = "Not all guesses are compared yet with the largest ids of their databases."
            yield CounterTrouble("", title, partial=True)
        lost: Mapping[str, str] = self._gateway.lost if isinstance(self._gateway, ClusterGateway) else {}
        for name, reason in lost.items():
            yield CounterTrouble(name, f"Shard {name} is not read: {reason}")
