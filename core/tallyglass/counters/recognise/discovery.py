"""Finds the collections that hold counters. Bounded: lists names once a minute and samples a few documents of each.

The search runs in steps with a deadline: configured and known names first, then collections that were never sampled.
Results are kept for later runs, whose search is then complete as soon as the names are listed.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase

from bson.datetime_ms import DatetimeMS

from tallyglass.counters.recognise.config import SYSTEM_DATABASES, CountersConfig
from tallyglass.counters.recognise.guess import guess
from tallyglass.counters.recognise.libraries import KNOWN_COLLECTIONS, recognise, selective
from tallyglass.counters.recognise.shapes import Shape
from tallyglass.counters.snapshot import CounterTrouble
from tallyglass.errors import ReadError, ServerError, TallyglassError
from tallyglass.mongo.gateway import CollectionInfo, Document, Gateway, Namespace
from tallyglass.text import clean, clean_name

SAMPLE = 5
"""Number of documents sampled from a collection."""

MOST_GUESSED = 5_000
"""A collection without a known name and with more documents than this is assumed to hold none (pools have 1,000)."""

MOST_READ = 200_000
"""The maximum number of counter documents followed in one collection."""

_AT_ONCE = 8
"""Requests under way at a time: round trips overlap, and few threads of the server work for this."""

_LIST_SECONDS, _SAMPLE_AGAIN_SECONDS = 60.0, 600.0
"""How often names are listed and collections of a known name sampled, and how often the others: a new counter shows up
within a minute where its library is known, and the server is asked for thousands of samples six times an hour."""


Query = tuple[tuple[str, str], ...]
"""What selects the counters among other documents of their collection; empty where all are counters."""


class Content(StrEnum):
    """What a collection holds."""

    COUNTERS = "counters"
    OTHER = "other"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class LookedAt:
    """The content of a collection, and when it was sampled (seconds since 1970). ``query`` selects its counters."""

    content: Content
    at: float
    query: Query = ()


def trouble_of(ns: str, error: TallyglassError) -> CounterTrouble:
    """The message for a namespace that could not be read."""
    return CounterTrouble(clean_name(ns), clean(error.title), clean(error.advice))


class Discovery:
    """Finds collections with counters, step by step. The results so far are in ``places``, each with its query, and
    ``troubles``.

    ``seen`` are the existing collections in which counters may be, with their ``options`` as far as these may be read,
    ``comparable`` those whose ids may be read,
    ``unread`` those that could not be read. ``fresh`` holds new results to be saved for later runs.
    """

    def __init__(self, gateway: Gateway, config: CountersConfig) -> None:
        self._gateway = gateway
        self._config = config
        self._remembered: dict[Namespace, LookedAt] = {}
        self.places: dict[Namespace, Query] = {}
        self.troubles: dict[str, CounterTrouble] = {}
        self.seen: set[Namespace] = set()
        self.comparable: set[Namespace] = set()
        self.options: dict[Namespace, Document] = {}
        self.unread: set[Namespace] = set()
        self.fresh: dict[Namespace, LookedAt] = {}
        self._sampled: dict[Namespace, float] = {}
        self._queue: deque[Namespace] = deque()
        self._never: set[Namespace] = set()
        self._listed_at: float | None = None
        self.unmatched: tuple[str, ...] = ()

    @property
    def is_busy(self) -> bool:
        """Whether collections still wait to be sampled for the first time."""
        return self._listed_at is None or bool(self._never)

    @property
    def looked(self) -> int:
        """How many of the existing collections were sampled, in this run or an earlier one."""
        return len(self.seen) - len(self._never) - len(self.unread)

    def recall(self, looked: Mapping[Namespace, LookedAt]) -> None:
        """Use the results of earlier runs; call it before the first search."""
        self._remembered = dict(looked)

    async def advance(self, seconds: float) -> None:
        """Search for about this long: list names when due, then sample. Raises ReadError if no server answers."""
        deadline = time.monotonic() + seconds
        if not self._queue and (self._listed_at is None or time.monotonic() - self._listed_at >= _LIST_SECONDS):
            await self._list()
        while self._queue and time.monotonic() < deadline:
            await asyncio.gather(*(self._sample(self._queue.popleft()) for _ in range(min(_AT_ONCE, len(self._queue)))))

    def follow(self, ns: Namespace) -> None:
        """Treat a collection as one that holds counters, regardless of its name and documents."""
        self.places.setdefault(ns, ())
        self._never.discard(ns)

    async def _list(self) -> None:
        self.troubles.clear()
        databases = await self._databases()
        rows: list[CollectionInfo] = []
        for start in range(0, len(databases), _AT_ONCE):
            for collections in await asyncio.gather(*map(self._collections, databases[start : start + _AT_ONCE])):
                rows += collections
        listed = [row.ns for row in rows if _may_hold_counters(row)]
        self.options = {row.ns: row.options for row in rows if row.options}
        self.comparable = {row.ns for row in rows if row.kind == "collection" and self._config.may_compare(row.ns)}
        self.unmatched = () if self.troubles else tuple(_unmatched(self._config, listed))
        found = list(dict.fromkeys([*filter(self._config.allows, listed), *self._config.collections()]))
        self.seen = set(found)
        for removed in self.places.keys() - self.seen:
            del self.places[removed]
        self._sampled = {ns: at for ns, at in self._sampled.items() if ns in self.seen}
        self.unread &= self.seen
        self._recall(found)
        due = self._due(found)
        self._never = {ns for ns in due if ns not in self._sampled and ns not in self.unread}
        self._queue = deque(sorted(due, key=self._priority))
        self._listed_at = time.monotonic()

    def _recall(self, found: Iterable[Namespace]) -> None:
        """Use the results of earlier runs for collections that this run has not sampled."""
        now_wall, now = time.time(), time.monotonic()
        for ns in found:
            looked = self._remembered.pop(ns, None)
            if looked is None or ns in self.places or ns in self._sampled or self._config.rules_for(ns):
                continue
            if looked.content is Content.COUNTERS:
                self.places[ns] = looked.query
            else:
                # If it is due again, the search is complete without it.
                self._sampled[ns] = now - max(0.0, now_wall - looked.at)

    async def _databases(self) -> list[str]:
        """The databases of applications; those that the configuration names if the server does not list them."""
        try:
            databases = await self._gateway.list_databases()
        except ServerError as error:
            self.troubles["*"] = trouble_of("*", error)
            databases = list({ns.db for ns in self._config.collections()})
        return [name for name in databases if name not in SYSTEM_DATABASES]

    async def _collections(self, db: str) -> list[CollectionInfo]:
        try:
            return await self._gateway.list_collections(db)
        except ServerError as error:
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

    def _priority(self, ns: Namespace) -> tuple[bool, bool, bool, Namespace]:
        return (not self._config.rules_for(ns), ns.collection not in KNOWN_COLLECTIONS, ns in self._sampled, ns)

    async def _sample(self, ns: Namespace) -> None:
        before = self._sampled.get(ns)
        self._sampled[ns] = time.monotonic()
        try:
            content, query = await self._look(ns)
        except ServerError as error:
            self._never.discard(ns)
            self.unread.add(ns)
            # Report only collections that are likely to hold counters.
            if ns.collection in KNOWN_COLLECTIONS or self._config.rules_for(ns):
                self.troubles[str(ns)] = trouble_of(str(ns), error)
            return
        except ReadError:
            if before is None:
                self._sampled.pop(ns, None)
            raise
        self._never.discard(ns)
        self.unread.discard(ns)
        self.troubles.pop(str(ns), None)
        self.fresh[ns] = LookedAt(content, time.time(), query)
        if content is Content.COUNTERS:
            self.places[ns] = query

    async def _look(self, ns: Namespace) -> tuple[Content, Query]:
        if self._config.rules_for(ns):
            return Content.COUNTERS, ()
        if shape := selective(ns.collection):
            return await self._search(ns, shape)
        sample = [row async for row in self._gateway.find(ns, {}, limit=SAMPLE)]
        if not sample:
            return Content.EMPTY, ()
        if any(_is_certain(ns.collection, row) for row in sample):
            return Content.COUNTERS, ()
        if not all(is_counter(ns.collection, row) for row in sample):
            return Content.OTHER, ()
        # Only documents with a date expire, so there is no need to ask for the indexes of others.
        dated = any(isinstance(value, (datetime, DatetimeMS)) for row in sample for value in row.values())
        is_small = len(sample) < SAMPLE or await self._gateway.estimate(ns) <= MOST_GUESSED
        if is_small and not (dated and await self.expires(ns)):
            return Content.COUNTERS, ()
        return Content.OTHER, ()

    async def _search(self, ns: Namespace, shape: Shape) -> tuple[Content, Query]:
        """Search for the few counters among many documents: reading all of these would be too expensive."""
        if shape.query and await self._is_cheap(ns, shape.query_key):
            document = await self._gateway.find_one(ns, shape.query)
            if document and shape.numbers(document):
                return Content.COUNTERS, tuple(shape.query.items())
        return Content.OTHER, ()

    async def expires(self, ns: Namespace) -> bool:
        """Whether the collection has a TTL index, which rules out a sequence."""
        return any("expireAfterSeconds" in index for index in await self._gateway.list_indexes(ns))

    async def _is_cheap(self, ns: Namespace, key: str) -> bool:
        if await self._gateway.estimate(ns) <= MOST_GUESSED:
            return True
        return any(next(iter(index.get("key", {})), "") == key for index in await self._gateway.list_indexes(ns))


def _unmatched(config: CountersConfig, found: Iterable[Namespace]) -> Iterator[str]:
    """A sentence for each pattern of the configuration that matches no collection."""
    names = [str(ns) for ns in found]
    for key, patterns in (("include", config.include), ("exclude", config.exclude)):
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in names):
                yield f"{key} {clean_name(pattern)} matches no collection."


def is_counter(collection: str, document: Document) -> bool:
    """Whether a document matches a known shape or a guess."""
    return bool(recognise(collection, document) or guess(collection, document))


def _is_certain(collection: str, document: Document) -> bool:
    return collection in KNOWN_COLLECTIONS and any(match.confidence == 1 for match in recognise(collection, document))


def _may_hold_counters(row: CollectionInfo) -> bool:
    name = row.ns.collection
    if row.kind != "collection" or name.startswith("system."):
        return False
    return not name.endswith((".files", ".chunks"))
