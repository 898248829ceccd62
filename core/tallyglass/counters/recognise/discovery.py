"""Which collections hold counters. Bounded: names are listed once a minute, a few documents looked at.

The work is cut into steps with a deadline, known names first, so that a deployment with ten thousand collections
shows its well-known counters at once and the rest as they are found.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from tallyglass.counters.recognise.config import CountersConfig
from tallyglass.counters.recognise.guess import guess
from tallyglass.counters.recognise.libraries import KNOWN_COLLECTIONS, recognise, selective
from tallyglass.counters.snapshot import CounterTrouble
from tallyglass.errors import PrivilegeError, ReadError
from tallyglass.mongo.gateway import CollectionInfo, Document, Gateway, Namespace
from tallyglass.text import clean, clean_name

SAMPLE = 5
"""Documents of a collection that are looked at."""

MOST_GUESSED = 5_000
"""A collection of no known name with more documents than this is none of counters (pools have a thousand)."""

MOST_READ = 20_000
"""Counter documents of one collection that are followed."""

_AT_ONCE = 8
_LIST_SECONDS = 60.0
_SAMPLE_AGAIN_SECONDS = 600.0
_SKIPPED_DATABASES = frozenset({"admin", "local", "config"})
_SAMPLE_MS = 1_000


@dataclass(frozen=True, slots=True)
class CounterPlace:
    """A collection that holds counters, and the query that yields them."""

    ns: Namespace
    query: tuple[tuple[str, str], ...] = ()


def trouble_of(ns: str, error: PrivilegeError | ReadError) -> CounterTrouble:
    """What to show for a namespace that could not be read."""
    return CounterTrouble(clean_name(ns), clean(error.title), clean(error.advice))


def is_lost(error: Exception) -> bool:
    """Whether an error means that no server answers, rather than that one namespace is not readable."""
    return isinstance(error, ReadError) and error.code is None


class Discovery:
    """Finds the places of counters, step by step. ``places`` and ``troubles`` hold what is known so far."""

    def __init__(self, gateway: Gateway, config: CountersConfig) -> None:
        self._gateway = gateway
        self._config = config
        self.places: dict[Namespace, CounterPlace] = {}
        self.troubles: dict[str, CounterTrouble] = {}
        self.seen: set[Namespace] = set()
        self._sampled: dict[Namespace, float] = {}
        self._queue: deque[Namespace] = deque()
        self._listed_at: float | None = None

    @property
    def is_busy(self) -> bool:
        """Whether collections still wait to be looked at."""
        return self._listed_at is None or bool(self._queue)

    async def advance(self, seconds: float) -> None:
        """Go on for about this long: list names when due, then look at collections. Raises for a lost server."""
        deadline = time.monotonic() + seconds
        if not self._queue and (self._listed_at is None or time.monotonic() - self._listed_at >= _LIST_SECONDS):
            await self._list()
        while self._queue and time.monotonic() < deadline:
            await asyncio.gather(*(self._sample(self._queue.popleft()) for _ in range(min(_AT_ONCE, len(self._queue)))))

    async def _list(self) -> None:
        self.troubles.clear()
        try:
            databases = await self._gateway.list_databases()
        except (PrivilegeError, ReadError) as error:
            if is_lost(error):
                raise
            self.troubles["*"] = trouble_of("*", error)
            databases = list({ns.db for ns in self._config.collections()})
        wanted = [name for name in databases if name not in _SKIPPED_DATABASES]
        found: list[Namespace] = []
        for start in range(0, len(wanted), _AT_ONCE):
            for rows in await asyncio.gather(*(self._list_one(name) for name in wanted[start : start + _AT_ONCE])):
                found += [row.ns for row in rows if _may_hold_counters(row)]
        found += [ns for ns in self._config.collections() if ns not in found]
        self.seen = set(found)
        for gone in [ns for ns in self.places if ns not in self.seen]:
            del self.places[gone]
        self._sampled = {ns: at for ns, at in self._sampled.items() if ns in self.seen}
        self._queue = deque(sorted(self._due(found), key=self._priority))
        self._listed_at = time.monotonic()

    async def _list_one(self, db: str) -> list[CollectionInfo]:
        try:
            return await self._gateway.list_collections(db)
        except (PrivilegeError, ReadError) as error:
            if is_lost(error):
                raise
            self.troubles[db] = trouble_of(db, error)
            return []

    def _due(self, found: Iterable[Namespace]) -> list[Namespace]:
        now = time.monotonic()
        return [
            ns
            for ns in found
            if ns not in self.places and now - self._sampled.get(ns, float("-inf")) >= self._again(ns)
        ]

    def _again(self, ns: Namespace) -> float:
        return _LIST_SECONDS if ns.collection in KNOWN_COLLECTIONS else _SAMPLE_AGAIN_SECONDS

    def _priority(self, ns: Namespace) -> tuple[int, Namespace]:
        if self._config.rules_for(ns):
            return (0, ns)
        return (1 if ns.collection in KNOWN_COLLECTIONS else 2, ns)

    async def _sample(self, ns: Namespace) -> None:
        self._sampled[ns] = time.monotonic()
        try:
            place = await self._look(ns)
        except (PrivilegeError, ReadError) as error:
            if is_lost(error):
                self._sampled.pop(ns, None)
                raise
            # Most collections of a deployment are nobody's counters: only a likely one is worth a word.
            if ns.collection in KNOWN_COLLECTIONS or self._config.rules_for(ns):
                self.troubles[str(ns)] = trouble_of(str(ns), error)
            return
        self.troubles.pop(str(ns), None)
        if place:
            self.places[ns] = place

    async def _look(self, ns: Namespace) -> CounterPlace | None:
        if self._config.rules_for(ns):
            return CounterPlace(ns)
        shape = selective(ns.collection)
        if shape and shape.query and await self._is_cheap(ns, shape.query_key):
            document = await self._gateway.find_one(ns, shape.query, time_ms=_SAMPLE_MS)
            if document and shape.numbers(document):
                return CounterPlace(ns, tuple(shape.query.items()))
        if shape:
            # Its counters are a few among other documents: reading them all would be no look any more.
            return None
        sample = [row async for row in self._gateway.find(ns, {}, limit=SAMPLE, time_ms=_SAMPLE_MS)]
        if not sample:
            return None
        if any(_is_certain(ns.collection, row) for row in sample):
            return CounterPlace(ns)
        if all(is_counter(ns.collection, row) for row in sample) and await self._gateway.estimate(ns) <= MOST_GUESSED:
            return CounterPlace(ns)
        return None

    async def _is_cheap(self, ns: Namespace, key: str) -> bool:
        if await self._gateway.estimate(ns) <= MOST_GUESSED:
            return True
        return any(next(iter(index.get("key", {})), "") == key for index in await self._gateway.list_indexes(ns))


def is_counter(collection: str, document: Document) -> bool:
    """Whether a document of a collection looks like a counter, by a known shape or by a guess."""
    return bool(recognise(collection, document) or guess(collection, document))


def _is_certain(collection: str, document: Document) -> bool:
    return any(match.confidence == 1 for match in recognise(collection, document)) and collection in KNOWN_COLLECTIONS


def _may_hold_counters(row: CollectionInfo) -> bool:
    name = row.ns.collection
    if row.kind != "collection" or name.startswith("system."):
        return False
    return not name.endswith((".files", ".chunks"))
