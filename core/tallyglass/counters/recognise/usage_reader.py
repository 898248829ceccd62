"""Reads how numbers are used from the oplog: recent updates, and the inserts that follow them.

Bounded: updates are read in periods, each four times as long as the one after it, until there are enough; a collection
with enough updates is left out of earlier periods. Inserts are read for two seconds after a sample of the updates, or,
where a number jumps, until its next update; for a minute after a few updates whose values were not found; and for two
seconds before some whose writers did not read the number. All are limited in entries, not in time, so that a busy
machine changes when the result is there, not what it is.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from operator import itemgetter
from typing import Any

from bson.timestamp import Timestamp

from tallyglass.counters.numbers import Number, as_number, numeric_type
from tallyglass.counters.pacer import rest
from tallyglass.counters.recognise.identity import document_key
from tallyglass.counters.recognise.usage import (
    LATE_SECONDS,
    LEAST_APART,
    WINDOW_SECONDS,
    Documents,
    Evidence,
    Insert,
    InsertedField,
    Key,
    Moment,
    Update,
    candidates,
    findings,
    may_be_late,
)
from tallyglass.counters.snapshot import Grade, NumericType
from tallyglass.errors import RefusedError
from tallyglass.mongo.gateway import OPLOG, Document, Gateway, Namespace, closing
from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.batch import entries
from tallyglass.oplog.entry.changes import ChangeKind
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.entry.operations import operations_of
from tallyglass.oplog.entry.walk import Malformed

PERIODS = (15, 60, 240, 960, 3840, 15_360, 61_440, 245_760)
"""Seconds of oplog in each period of updates, the newest first."""

MOST_EXAMINED = 1_000_000
"""The server examines about so many entries for the updates of all periods, which takes it about a second."""

_MOST_IN_REQUEST = 100_000
"""The server examines about so many entries in one request, within a tenth of a second: the time limit of a request
cuts it off only if the server is 50 times as slow."""

MOST_UPDATES, MOST_IN_PERIOD = 30_000, 5_000
"""Updates that are read in all, and in one period: some 10 MB, decoded in about a second."""

MOST_PROBES, MOST_IN_PROBE = 60, 2_000
"""Periods of inserts that are read for numbers, and again for single documents, and inserts in one."""

_ENOUGH_OF_COLLECTION, _ENOUGH_OF_NUMBER, _ENOUGH_OF_DOCUMENT = 1_500, 20, 15
"""Updates of a collection after which earlier ones are left out, and those of a number, and of a document that may be a
counter by itself, whose inserts are read."""

_PROBE_SECONDS = int(WINDOW_SECONDS) + 2
"""Seconds after an update whose inserts are read: those that may match, in whole seconds of ``ts`` at both ends."""

_RANGE_SECONDS = 60
"""How long inserts are read after a number jumped: the ids of a range are used up one after the other."""

_MOST_BEFORE, _BEFORE_OF_NUMBER = 30, 8
"""Updates before which the inserts are read, in all and of one number, where its writers did not read it."""

_MOST_LATE, _LATE_OF_NUMBER, _LEAST_LATE = 8, 3, 10
"""Long periods that are read for numbers without a match, in all and for one, and how many updates these need."""

_AT_ONCE, _BATCH_SIZE = 4, 500
"""Requests under way at a time, so that few threads of the server work for this, and entries in an answer."""

_DEPTH, _ELEMENTS, _LONGEST_TEXT = 4, 20, 48
"""Levels of a document, elements of an array, and characters of a text in which ids are sought."""

_DIGITS = re.compile(r"(\d{3,18})\D*\Z")
_LIKE_A_HASH = re.compile(r"[0-9a-fA-F-]{16,}\Z")
_NEVER: Moment = (0, 0, 0)  # before every entry
_OWN_DATABASES = ("config.", "local.", "admin.")


class _CutOffError(Exception):
    """The server ended a request before its last entry."""


class UsageReader:
    """Gathers evidence about the numbers that were written between two moments of the oplog.

    Call :meth:`advance` until it returns True; the evidence so far is of use before. ``cut`` is how many requests the
    server cut off: what they would have shown is unknown.
    """

    def __init__(self, gateway: Gateway, first: Timestamp, last: Timestamp) -> None:
        self._gateway = gateway
        self._evidence = Evidence()
        self._rows: Counter[str] = Counter()
        self._removed: dict[str, Moment] = {}
        self._inserts: dict[Moment, tuple[float, Namespace, list[Leaf]]] = {}
        self._steps = self._read(first, last)
        self.cut = 0

    async def advance(self, deadline: float) -> bool:
        """Read on, at least one step, until ``deadline`` (monotonic); returns whether everything was read.

        Raises PrivilegeError if this user may not read the oplog, ReadError if no server answers.
        """
        async for _ in self._steps:
            if time.monotonic() > deadline:
                return False
        return True

    async def close(self) -> None:
        """End the reading of the oplog."""
        await self._steps.aclose()

    async def evidence(self) -> Evidence:
        """What was read so far."""
        found = self._evidence
        self._order_updates()
        found.targets.clear()
        found.inserted.clear()
        for at, (wall, ns, leaves_there) in sorted(self._inserts.items(), key=itemgetter(0)):
            found.inserted[ns].append(at)
            for path, value, kind in leaves_there:
                field = found.targets.setdefault((ns, path), InsertedField())
                field.add(Insert(at, wall, int(value)), kind)
            await rest()
        return found

    async def _read(self, first: Timestamp, last: Timestamp) -> AsyncGenerator[None, None]:
        """Read the updates, then the inserts that follow some of them, one bounded request or a few at each step."""
        end, count = last.time + 1, 0
        earliest, seconds = _reach(first.time, end, await self._gateway.estimate(OPLOG))
        for run, width in enumerate(PERIODS):
            start = max(earliest, end - width)
            if count >= MOST_UPDATES:
                break
            seen = 0
            for part in range(start, end, seconds):
                seen += await self._read_updates(part, min(end, part + seconds), run, MOST_IN_PERIOD - seen)
                yield
                if seen >= MOST_IN_PERIOD:
                    break
            count, end = count + seen, start
        self._forget_removed()
        self._order_updates()
        # What will be inserted after the last entry is not known, however late the inserts are read.
        numbers = candidates(self._evidence)
        whole = [self._evidence.updates[key] for key in numbers]
        async for _ in self._read_probes(_probes(self._evidence, whole, _ENOUGH_OF_NUMBER), last.time + 1):
            yield
        found = await asyncio.to_thread(findings, await self.evidence())
        used = {(one.ns, one.path) for one in found if one.grade in (Grade.CERTAIN, Grade.LIKELY)}
        unused = [key for key in numbers if key not in used]
        probes = _probes(self._evidence, _single(self._evidence, unused), _ENOUGH_OF_DOCUMENT)
        probes += _late_probes(self._evidence, unused)
        in_use = [key for key in numbers if key in used]
        probes += islice(_probes_before(self._evidence, [*in_use, *unused]), _MOST_BEFORE)
        async for _ in self._read_probes(probes, last.time + 1):
            yield

    def _order_updates(self) -> None:
        """Put the updates of each number in order: older ones are read after newer ones, as if the number fell."""
        for by_document in self._evidence.updates.values():
            for updates in by_document.values():
                updates.sort(key=lambda update: update.at)

    async def _read_probes(self, probes: Sequence[Probe], latest: int) -> AsyncGenerator[None, None]:
        periods = _merged(probes, latest)
        for first in range(0, len(periods), _AT_ONCE):
            read = await asyncio.gather(*(self._probe(*period) for period in periods[first : first + _AT_ONCE]))
            self._evidence.probes += [period for period in read if period is not None]
            yield

    async def _read_updates(self, start: int, end: int, run: int, most: int) -> int:
        known = [ns for ns, rows in self._rows.items() if rows >= _ENOUGH_OF_COLLECTION]
        query = {
            "ts": {"$gte": Timestamp(start, 0), "$lt": Timestamp(end, 0)},
            "op": {"$in": ["u", "c"]},
            "ns": {"$nin": known},
        }
        count = 0
        with suppress(_CutOffError):
            async for entry in self._entries(query, most):
                count += 1
                with suppress(Malformed):
                    self._add_updates(entry, run)
                await rest()
        return count

    async def _probe(self, start: Moment, until: int, most: int) -> tuple[Moment, Moment] | None:
        """Add the numbers of the first inserts after ``start``; return the period that was read, None if it was cut
        off."""
        query = {
            "ts": {"$gte": Timestamp(start[0], start[1]), "$lt": Timestamp(until, 0)},
            "op": {"$in": ["i", "c"]},
        }
        end, count = (until, 0, 0), 0
        try:
            async for entry in self._entries(query, most):
                count += 1
                if count >= most:
                    end = (*entry.ts, 0)
                with suppress(Malformed):
                    for at, wall, ns, document in _inserts(entry):
                        if at not in self._inserts:
                            found = [leaf for leaf in leaves(document) if isinstance(leaf[1], int)]
                            self._inserts[at] = wall, ns, found
                await rest()
        except _CutOffError:
            return None
        return start, end

    async def _entries(self, query: Mapping[str, object], limit: int) -> AsyncIterator[Entry]:
        """The first entries of the oplog that match. Raises _CutOffError if the server does not return them all."""
        found = self._gateway.find_raw(OPLOG, query, limit=limit, batch_size=_BATCH_SIZE)
        try:
            async with closing(found) as batches:
                async for batch in batches:
                    for raw in entries(batch):
                        with suppress(Malformed):
                            yield read_entry(raw)
        except RefusedError as error:
            self.cut += 1
            raise _CutOffError from error

    def _add_updates(self, entry: Entry, run: int) -> None:
        """Add the updates of an entry. Raises Malformed."""
        for number, operation in enumerate(operations_of(entry)):
            at = (*entry.ts, number)
            if operation.op == "c":
                self._add_removal(operation, at)
            if operation.op != "u" or operation.ns.startswith(_OWN_DATABASES):
                continue
            self._rows[operation.ns] += 1
            identity = operation.id_at
            if identity is None:
                continue
            ns, key = Namespace.parse(operation.ns), document_key(walk.value(operation.raw, identity))
            for path, value, kind in changes(operation):
                by_document = self._evidence.updates.setdefault((ns, path), {})
                found = Update(at, _wall(entry), run, value, kind is NumericType.STRING, operation.keeps_image)
                by_document.setdefault(key, []).append(found)

    def _add_removal(self, operation: Entry, at: Moment) -> None:
        """Record when a collection was dropped or renamed; later entries belong to another collection."""
        names = [operation.target] if operation.command in ("drop", "renameCollection") else []
        names += [operation.text_in(operation.o_at, b"to")] if operation.command == "renameCollection" else []
        names += [f"{operation.db}."] if operation.command == "dropDatabase" else []
        for name in names:
            self._removed[name] = max(at, self._removed.get(name, at))

    def _forget_removed(self) -> None:
        """Remove updates of a collection from before it was dropped."""
        for (ns, _), by_document in self._evidence.updates.items() if self._removed else ():
            at = max(self._removed.get(str(ns), _NEVER), self._removed.get(f"{ns.db}.", _NEVER))
            for updates in by_document.values():
                updates[:] = [update for update in updates if update.at > at]


def _reach(first: int, end: int, entries: int) -> tuple[int, int]:
    """The second from which on updates are read, and how many seconds in one request, of an oplog of so many entries:
    the server examines a fixed number of them at most."""
    seconds_read = (end - first) * min(1.0, MOST_EXAMINED / max(entries, 1))
    in_request = (end - first) * _MOST_IN_REQUEST // max(entries, 1)
    return max(first, int(end - max(seconds_read, PERIODS[0]))), max(1, in_request)


Probe = tuple[Moment, int]
"""The position after which inserts are read, and the second until which."""


def _single(evidence: Evidence, numbers: Iterable[Key]) -> list[Documents]:
    """The documents of some numbers that may be counters by themselves, that with the fewest updates first."""
    several = [documents for key in numbers if len(documents := evidence.updates[key]) > 1]
    rows = [(name, row) for documents in several for name, row in documents.items() if len(row) >= LEAST_APART]
    return [{name: updates} for name, updates in sorted(rows, key=lambda row: len(row[1]))]


def _probes(evidence: Evidence, wanted: Iterable[Documents], enough: int) -> list[Probe]:
    """Which inserts are read, so that ``enough`` updates of each of the ``wanted`` numbers are covered, or all."""
    read = [(start, end[0]) for start, end in evidence.probes]
    chosen = [*read]
    for documents in wanted:
        ends = _ends_of_use(documents)
        moments = sorted(ends)
        missing = enough - sum(_within(moment, ends[moment], chosen) for moment in moments)
        for moment in _spread(moments, enough):
            if missing <= 0 or len(chosen) >= len(read) + MOST_PROBES:
                break
            if not _within(moment, ends[moment], chosen):
                chosen.append((moment, ends[moment]))
                missing -= sum(_within(other, ends[other], chosen[-1:]) for other in moments)
    return chosen[len(read) :]


def _merged(probes: Sequence[Probe], latest: int) -> list[tuple[Moment, int, int]]:
    """Probes up to ``latest`` that overlap as one, in the order of the first of them, each with the most inserts."""
    found: list[tuple[int, Moment, int, int]] = []
    for rank, (start, until) in sorted(enumerate(probes), key=lambda row: row[1]):
        merged = (rank, start, min(until, latest), MOST_IN_PROBE)
        if found and start[0] < found[-1][2]:
            first, begin, end, most = found.pop()
            merged = (min(first, rank), begin, max(end, merged[2]), most + MOST_IN_PROBE)
        found.append(merged)
    return [(start, until, most) for _, start, until, most in sorted(found)]


def _late_probes(evidence: Evidence, unused: Iterable[Key]) -> list[Probe]:
    """Some long periods for numbers that were not used at once: ids may be used when a form is complete."""
    chosen: list[Probe] = []
    for key in unused:
        moments = sorted(update.at for updates in evidence.updates[key].values() for update in updates)
        large = any(may_be_late(update.value) for updates in evidence.updates[key].values() for update in updates)
        if not large or len(moments) < _LEAST_LATE:
            continue
        for moment in _spread(moments, _LATE_OF_NUMBER):
            end = moment[0] + int(2 * LATE_SECONDS)
            if not _within(moment, end, chosen) and len(chosen) < _MOST_LATE:
                chosen.append((moment, end))
    return chosen


def _probes_before(evidence: Evidence, numbers: Iterable[Key]) -> Iterator[Probe]:
    """What was inserted before some updates whose writers did not read the number: it may follow ids of others."""
    for key in numbers:
        every = sorted(update for updates in evidence.updates[key].values() for update in updates)
        # Of those before the first one nothing is known.
        since = every[0].at[0] + int(WINDOW_SECONDS)
        moments = [update.at for update in every if update.at[0] > since and not update.returned]
        for at in _spread(moments, _BEFORE_OF_NUMBER):
            yield (at[0] - int(WINDOW_SECONDS), 0, 0), at[0] + 1


def _ends_of_use(documents: Documents) -> dict[Moment, int]:
    """For each update of a number, the second until which its value is inserted: a range until the next update."""
    ends: dict[Moment, int] = {}
    for updates in documents.values():
        for n, update in enumerate(updates):
            end = update.at[0] + _PROBE_SECONDS
            if 0 < n < len(updates) - 1 and abs(update.value - updates[n - 1].value) > 1:
                end = max(end, min(updates[n + 1].at[0] + 2, update.at[0] + _RANGE_SECONDS))
            ends[update.at] = end
    return ends


def _within(moment: Moment, end: int, probes: Sequence[Probe]) -> bool:
    # One that ends two seconds early is near enough.
    return any(start <= moment and end - 2 <= until for start, until in probes)


def _spread(moments: Sequence[Moment], count: int) -> list[Moment]:
    """An even sample of the moments: the last, the first, and then from the newest to the oldest."""
    if len(moments) > count:
        moments = [moments[round(n * (len(moments) - 1) / (count - 1))] for n in range(count)]
    return [*moments[-1:], *moments[:1], *moments[-2:0:-1]]


def _wall(entry: Entry) -> float:
    return entry.ts.t if entry.wall_millis is None else entry.wall_millis / 1_000


def _inserts(entry: Entry) -> Iterator[tuple[Moment, float, Namespace, Document]]:
    for number, operation in enumerate(operations_of(entry)):
        if operation.op == "i" and not operation.ns.startswith(_OWN_DATABASES):
            yield (*entry.ts, number), _wall(entry), Namespace.parse(operation.ns), operation.o


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


def changes(operation: Entry) -> Iterator[Leaf]:
    """The numbers that an update wrote; of a replacement all numbers of the document. Raises Malformed."""
    found = operation.changes()
    if found is None:
        yield from leaves({key: value for key, value in operation.o.items() if key != "_id"})
        return
    for kind, path, value, _ in found:
        if value is not None and kind in (ChangeKind.SET, ChangeKind.ADD) and len(path) <= _DEPTH:
            prefix = b".".join(path).decode("utf-8", "replace")
            yield from leaves(walk.value(operation.raw, value), prefix, _DEPTH - len(path))
