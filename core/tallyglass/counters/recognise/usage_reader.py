"""Reads how numbers are used from the oplog: recent updates, and the inserts that follow them.

Bounded: updates are read in periods, each four times as long as the one after it, until there are enough; a collection
with enough updates is left out of earlier periods. Inserts are read for two seconds after a sample of the updates.
Both are limited in rows, in time on the server, and in time here.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from bson.timestamp import Timestamp

from tallyglass.counters.numbers import Number, as_number, numeric_type
from tallyglass.counters.pacer import Pacer
from tallyglass.counters.recognise.identity import document_key
from tallyglass.counters.recognise.usage import (
    WINDOW_SECONDS,
    Evidence,
    Insert,
    InsertedField,
    Moment,
    Update,
    candidates,
)
from tallyglass.counters.snapshot import NumericType
from tallyglass.errors import ReadError
from tallyglass.mongo.gateway import OPLOG, Document, Gateway, Namespace, closing
from tallyglass.oplog.decode.envelope import entries
from tallyglass.oplog.decode.walk import Malformed, decode

PERIODS = (15, 60, 240, 960, 3840, 15_360, 61_440, 245_760)
"""Seconds of oplog in each period of updates, the newest first."""

MOST_UPDATES = 30_000
MOST_IN_PERIOD = 5_000
MOST_PROBES = 60
MOST_IN_PROBE = 2_000
_ENOUGH_OF_COLLECTION = 1_500
_ENOUGH_OF_NUMBER = 20
_PROBE_SECONDS = int(WINDOW_SECONDS) + 2
_AT_ONCE = 4
_BATCH_SIZE = 500
_UPDATES_MS, _PROBE_MS = 1_000, 300
_DEPTH, _ELEMENTS = 4, 20
_LONGEST_TEXT = 48
_DIGITS = re.compile(r"(\d{3,18})\D*\Z")
_LIKE_A_HASH = re.compile(r"[0-9a-fA-F-]{16,}\Z")
_NEVER: Moment = (0, 0, 0)
_OWN_DATABASES = ("config.", "local.", "admin.")


class UsageReader:
    """Gathers evidence about numbers that are written in one deployment."""

    def __init__(self, gateway: Gateway, pacer: Pacer) -> None:
        self._gateway = gateway
        self._pacer = pacer
        self._evidence = Evidence()
        self._rows: Counter[str] = Counter()
        self._removed: dict[str, Moment] = {}

    async def read(self, first: Timestamp, last: Timestamp, seconds: float) -> Evidence:
        """The evidence between two moments of the oplog, as much as ``seconds`` allow.

        Raises PrivilegeError if this user may not read the oplog, ReadError if no server answers.
        """
        began = time.monotonic()
        await self._read_updates(first, last, began + seconds * 0.5)
        self._forget_removed()
        await self._read_inserts(began + seconds)
        return self._evidence

    async def _read_updates(self, first: Timestamp, last: Timestamp, deadline: float) -> None:
        end, count = last.time + 1, 0
        for run, width in enumerate(PERIODS):
            start = max(first.time, end - width)
            if start >= end or count >= MOST_UPDATES or time.monotonic() > deadline:
                return
            known = [ns for ns, rows in self._rows.items() if rows >= _ENOUGH_OF_COLLECTION]
            query = {
                "ts": {"$gte": Timestamp(start, 0), "$lt": Timestamp(end, 0)},
                "op": {"$in": ["u", "c"]},
                "ns": {"$nin": known},
            }
            async for entry in self._entries(query, MOST_IN_PERIOD, _UPDATES_MS):
                count += 1
                self._add_updates(entry, run)
                await self._pacer.rest()
            end = start

    async def _read_inserts(self, deadline: float) -> None:
        probes = _probes(self._evidence)
        rows: dict[Moment, tuple[float, Namespace, list[Leaf]]] = {}
        while probes and time.monotonic() < deadline:
            batch, probes = probes[:_AT_ONCE], probes[_AT_ONCE:]
            self._evidence.probes += await asyncio.gather(*(self._probe(start, rows) for start in batch))
        for at, (wall, ns, found) in sorted(rows.items(), key=itemgetter(0)):
            self._evidence.inserted[ns].append(at)
            for path, value, kind in found:
                field = self._evidence.targets.setdefault((ns, path), InsertedField())
                field.add(Insert(at, wall, int(value)), kind)
            await self._pacer.rest()

    async def _probe(
        self, start: Moment, rows: dict[Moment, tuple[float, Namespace, list[Leaf]]]
    ) -> tuple[Moment, Moment]:
        """Add the numbers of the inserts after ``start`` to the rows; return the period that was read."""
        query = {
            "ts": {"$gte": Timestamp(start[0], start[1]), "$lt": Timestamp(start[0] + _PROBE_SECONDS, 0)},
            "op": {"$in": ["i", "c"]},
        }
        end, count = (start[0] + _PROBE_SECONDS, 0, 0), 0
        async for entry in self._entries(query, MOST_IN_PROBE, _PROBE_MS):
            count += 1
            if count >= MOST_IN_PROBE:
                end = (entry["ts"].time, entry["ts"].inc, 0)
            for at, wall, ns, document in _inserts(entry):
                if at not in rows:
                    rows[at] = wall, ns, [leaf for leaf in leaves(document) if isinstance(leaf[1], int)]
            await self._pacer.rest()
        return start, end

    async def _entries(self, query: Mapping[str, object], limit: int, time_ms: int) -> AsyncIterator[Document]:
        """The first entries of the oplog that match, as many as the server finds within the time."""
        found = self._gateway.find_raw(OPLOG, query, limit=limit, batch_size=_BATCH_SIZE, time_ms=time_ms)
        try:
            async with closing(found) as batches:
                async for batch in batches:
                    # Decoded one by one, since a decoded entry takes eight times as much memory.
                    for raw in entries(batch):
                        with suppress(Malformed):
                            yield decode(raw, 0, len(raw))
        except ReadError as error:
            if error.code is None:
                raise

    def _add_updates(self, entry: Document, run: int) -> None:
        for number, operation in enumerate(operations(entry)):
            text = str(operation.get("ns", ""))
            if operation.get("op") == "c":
                self._add_removal(operation, _moment(entry, number))
            if operation.get("op") != "u" or text.startswith(_OWN_DATABASES):
                continue
            self._rows[text] += 1
            identity = operation.get("o2")
            if not isinstance(identity, Mapping) or "_id" not in identity:
                continue
            ns, key = Namespace.parse(text), document_key(identity["_id"])
            at, wall = _moment(entry, number), _wall(entry)
            returned = "needsRetryImage" in operation or "preImageOpTime" in operation
            for path, value, kind in changes(operation):
                by_document = self._evidence.updates.setdefault((ns, path), {})
                is_text = kind is NumericType.STRING
                by_document.setdefault(key, []).append(Update(at, wall, run, value, is_text, returned))

    def _add_removal(self, operation: Document, at: Moment) -> None:
        """Record when a collection was dropped or renamed; later entries belong to another collection."""
        body, db = operation.get("o"), str(operation.get("ns", "")).partition(".")[0]
        if not isinstance(body, Mapping):
            return
        names = [f"{db}.{body['drop']}"] if "drop" in body else []
        names += [str(body[key]) for key in ("renameCollection", "to") if "renameCollection" in body and key in body]
        names += [f"{db}."] if "dropDatabase" in body else []
        for name in names:
            self._removed[name] = max(at, self._removed.get(name, at))

    def _forget_removed(self) -> None:
        """Remove updates of a collection from before it was dropped."""
        for (ns, _), by_document in self._evidence.updates.items() if self._removed else ():
            at = max(self._removed.get(str(ns), _NEVER), self._removed.get(f"{ns.db}.", _NEVER))
            for updates in by_document.values():
                updates[:] = [update for update in updates if update.at > at]


def _probes(evidence: Evidence) -> list[Moment]:
    """Positions after which inserts are read, so that each candidate has some of its updates covered."""
    for by_document in evidence.updates.values():
        for updates in by_document.values():
            updates.sort(key=lambda update: update.at)
    chosen: list[Moment] = []
    for key in candidates(evidence):
        moments = sorted(update.at for updates in evidence.updates[key].values() for update in updates)
        wanted = _spread(moments, _ENOUGH_OF_NUMBER)
        missing = _ENOUGH_OF_NUMBER - sum(_within(moment, chosen) for moment in moments)
        for moment in wanted:
            if missing <= 0 or len(chosen) >= MOST_PROBES:
                break
            if not _within(moment, chosen):
                chosen.append(moment)
                missing -= sum(moment <= other and other[0] < moment[0] + _PROBE_SECONDS - 1 for other in moments)
    return chosen


def _within(moment: Moment, probes: Sequence[Moment]) -> bool:
    return any(start <= moment and moment[0] < start[0] + _PROBE_SECONDS - 1 for start in probes)


def _spread(moments: Sequence[Moment], count: int) -> list[Moment]:
    """An even sample of the moments: the last, the first, and then from the newest to the oldest."""
    if len(moments) > count:
        moments = [moments[round(n * (len(moments) - 1) / (count - 1))] for n in range(count)]
    return [*moments[-1:], *moments[:-1][:1], *moments[1:-1][::-1]]


def _moment(entry: Document, number: int) -> Moment:
    ts = entry["ts"]
    return ts.time, ts.inc, number


def _wall(entry: Document) -> float:
    wall = entry.get("wall")
    return wall.timestamp() if wall is not None and hasattr(wall, "timestamp") else float(entry["ts"].time)


def _inserts(entry: Document) -> Iterator[tuple[Moment, float, Namespace, Document]]:
    for number, operation in enumerate(operations(entry)):
        text, document = str(operation.get("ns", "")), operation.get("o")
        if operation.get("op") == "i" and isinstance(document, Mapping) and not text.startswith(_OWN_DATABASES):
            yield _moment(entry, number), _wall(entry), Namespace.parse(text), document


def operations(entry: Document) -> Iterator[Document]:
    """The operations of an entry: itself, or those of a transaction in order."""
    body = entry.get("o")
    inner = body.get("applyOps") if isinstance(body, Mapping) else None
    if isinstance(inner, list):
        for operation in inner:
            if isinstance(operation, Mapping):
                yield from operations(operation)
    else:
        yield entry


Leaf = tuple[str, Number, NumericType]
"""A dotted path, the number there, and the type that it is stored as: STRING for the last digits of a text."""


def leaves(document: Any, prefix: str = "", depth: int = _DEPTH) -> Iterator[Leaf]:
    """The numbers in a value, at any depth down to a few levels; of a text its last digits."""
    if isinstance(document, Mapping):
        if depth:
            for key, value in document.items():
                yield from leaves(value, f"{prefix}.{key}" if prefix else str(key), depth - 1)
    elif isinstance(document, list):
        if depth:
            for place, value in enumerate(document[:_ELEMENTS]):
                yield from leaves(value, f"{prefix}.{place}" if prefix else str(place), depth - 1)
    elif isinstance(document, str):
        if len(document) <= _LONGEST_TEXT and not _LIKE_A_HASH.match(document):
            found = _DIGITS.search(document)
            if found:
                yield prefix, int(found[1]), NumericType.STRING
    elif (kind := numeric_type(document)) is not None:
        yield prefix, as_number(document), kind


def changes(operation: Document) -> Iterable[Leaf]:
    """The numbers that an update wrote; of a replacement all numbers of the document."""
    body = operation.get("o")
    if not isinstance(body, Mapping):
        return ()
    diff = body.get("diff")
    if isinstance(diff, Mapping):
        return _in_delta(diff, "")
    if "$set" in body or "$unset" in body:
        changed = body.get("$set")
        return leaves(changed) if isinstance(changed, Mapping) else ()
    return leaves({key: value for key, value in body.items() if key != "_id"})


def _in_delta(diff: Mapping[str, Any], prefix: str, depth: int = _DEPTH) -> Iterator[Leaf]:
    start = f"{prefix}." if prefix else ""
    if not depth:
        return
    if diff.get("a") is True:
        for key, value in diff.items():
            if key[:1] == "u" and key[1:].isdecimal():
                yield from leaves(value, f"{start}{key[1:]}", depth - 1)
            elif key[:1] == "s" and key[1:].isdecimal() and isinstance(value, Mapping):
                yield from _in_delta(value, f"{start}{key[1:]}", depth - 1)
        return
    for section in ("u", "i"):
        changed = diff.get(section)
        if isinstance(changed, Mapping):
            for key, value in changed.items():
                yield from leaves(value, f"{start}{key}", depth - 1)
    for key, value in diff.items():
        if len(key) > 1 and key[0] == "s" and isinstance(value, Mapping):
            yield from _in_delta(value, f"{start}{key[1:]}", depth - 1)
