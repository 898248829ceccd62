"""A batch of entries: where each begins and ends, what kind it is, and the values that most readers need of it.

The bytes of ``op`` and ``ns`` together are the key of a cache: equal bytes at the same place are the same kind of
entry, so that a known kind needs no parsing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from itertools import repeat
from typing import NamedTuple, Protocol

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.entry import layout, walk
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.entry.layout import (
    KINDS_LIMIT,
    LEAST_ENTRY,
    NS_LENGTH,
    NS_LIMIT,
    NS_TEXT,
    OP_AND_NS,
    OP_AT,
    SESSION_MARK,
    SESSION_OP_AT,
    int_at,
    size_and_mark,
)
from tallyglass.oplog.entry.walk import Malformed

PAUSE_ENTRIES = 1_000
"""Entries that are read between two turns of the event loop, some milliseconds."""

PARSED_AS = 8
"""One entry that is parsed takes as long as so many whose fields are read from their places."""

UNREADABLE = "?"
"""The ``op`` of what is not an entry."""


class Envelope(NamedTuple):
    """The first fields of an entry. ``tag`` is the reader's own verdict on them."""

    op: str
    ns: str
    session: bool
    tag: int


class EntryGroup(NamedTuple):
    """Entries of a batch with one envelope: ``places`` holds where each begins and ends, one after the other.

    ``op_at`` says how far from the beginning of an entry ``op`` stands; 0 where ``op`` and ``ns`` are elsewhere than on
    servers since 5.0.
    """

    envelope: Envelope
    places: list[int]
    op_at: int

    @property
    def starts(self) -> list[int]:
        """The places where the entries begin."""
        return self.places[::2]

    @property
    def ends(self) -> list[int]:
        """The places where the entries end."""
        return self.places[1::2]


class Walker:
    """Splits batches into entries and names the envelope of each.

    ``judge`` gives the tag of an envelope, once for each that differs.
    """

    def __init__(self, judge: Callable[[str, str, bool], int]) -> None:
        self._judge = judge
        self._known: dict[bytes, Envelope] = {}
        self._known_in_session: dict[bytes, Envelope] = {}

    def gather(self, batch: bytes) -> list[EntryGroup]:
        """Where a batch's entries lie, by envelope, which may come more than once. Raises Malformed where the batch
        does not consist of whole documents."""
        groups: tuple[dict[bytes, list[int]], dict[bytes, list[int]]] = ({}, {})
        plain, in_session = groups
        found: dict[tuple[Envelope, int], EntryGroup] = {}
        start, limit = 0, len(batch)
        whole = limit - LEAST_ENTRY
        while start < limit:
            size, mark = size_and_mark(batch, start) if start <= whole else (_short(batch, start), 0)
            end = start + size
            at, places_of = (start + SESSION_OP_AT, in_session) if mark == SESSION_MARK else (start + OP_AT, plain)
            places = places_of.get(batch[at : at + OP_AND_NS])
            if places is None:
                if size < 5 or end > limit:
                    raise Malformed("a batch ends within an entry")
                ns_length = int_at(batch, at + NS_LENGTH)[0] if at + NS_TEXT < end else 0
                places = places_of.get(batch[at : at + NS_TEXT + ns_length]) if 0 < ns_length <= NS_LIMIT else None
                if places is None:
                    places = self._places(batch, start, end, groups, found)
            places.append(start)
            places.append(end)
            start = end
        if start > limit:
            raise Malformed("a batch ends within an entry")
        return list(found.values())

    def _places(
        self,
        batch: bytes,
        start: int,
        end: int,
        groups: tuple[dict[bytes, list[int]], dict[bytes, list[int]]],
        found: dict[tuple[Envelope, int], EntryGroup],
    ) -> list[int]:
        """The list for the places of an entry that is not the second of its kind in a batch."""
        at, known = start + OP_AT, self._known
        if batch[at] == walk.DOCUMENT:
            at, known = layout.op_after_session(batch, start, end), self._known_in_session
        ns_length = int_at(batch, at + NS_LENGTH)[0] if at + NS_TEXT < end else 0
        key = batch[at : at + NS_TEXT + ns_length] if 0 < ns_length <= NS_LIMIT else b""
        envelope = known.get(key) or self._learn(batch, start, end, at)
        op_at = at - start if key in known else 0
        group = found.setdefault((envelope, op_at), EntryGroup(envelope, [], op_at))
        if op_at in (OP_AT, SESSION_OP_AT) and at + OP_AND_NS <= end:
            short = key if len(key) > OP_AND_NS else batch[at : at + OP_AND_NS]
            groups[op_at == SESSION_OP_AT][short] = group.places
        return group.places

    def _learn(self, batch: bytes, start: int, end: int, at: int) -> Envelope:
        try:
            entry = read_entry(batch, start, end)
        except Malformed:
            return Envelope(UNREADABLE, "", False, self._judge(UNREADABLE, "", False))
        session = bool(entry.session)
        envelope = Envelope(entry.op, entry.ns, session, self._judge(entry.op, entry.ns, session))
        key = layout.op_and_ns(batch, at, end)
        if key and (batch[start + OP_AT] == walk.DOCUMENT) == session:
            known = self._known_in_session if session else self._known
            if len(known) >= KINDS_LIMIT:
                known.clear()
            known[key] = envelope
        return envelope


def counted(groups: Sequence[EntryGroup]) -> dict[Envelope, int]:
    """How many entries each envelope has."""
    counts: dict[Envelope, int] = {}
    for group in groups:
        counts[group.envelope] = counts.get(group.envelope, 0) + len(group.places) // 2
    return counts


def chosen(groups: Sequence[EntryGroup]) -> list[tuple[int, int, Envelope]]:
    """The entries whose tag is not zero, in order: where each begins and ends, and its envelope."""
    found: list[tuple[int, int, Envelope]] = []
    for group in groups:
        if group.envelope.tag:
            found += zip(group.starts, group.ends, repeat(group.envelope))
    found.sort()
    return found


class Sink(Protocol):
    """Receives the entries of batches in order."""

    def write(
        self, op: str, ns: str, ui: bytes, key: bytes, place: int, term: int, size: int, batch: bytes, o: int
    ) -> bool:
        """An insert, update or delete of the document ``key``; ``place`` is its ``ts`` as one number, ``size`` the
        bytes of the entry, and its ``o`` begins in ``batch`` at ``o``. Returns True if it was handled; False requests
        :meth:`feed` with the whole entry."""
        ...

    def feed(self, entry: Entry) -> None:
        """An entry that is no write, or that :meth:`write` did not handle."""
        ...


class BatchWalker:
    """Passes the entries of batches to a sink: writes of one document as a few values, everything else parsed."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._last = b""
        self.first: Ts | None = None
        """The ``ts`` of the entry that came first; None before it."""
        self.entries = 0
        """The number of entries so far."""
        self.parsed = 0
        """Entries among them that were parsed."""

    @property
    def last(self) -> Entry | None:
        """The newest entry that is no no-op."""
        return read_entry(self._last) if self._last else None

    def walk(self, batch: bytes) -> Iterator[None]:
        """Pass on a batch, with a pause now and then. Raises Malformed."""
        write, write_at, pause = self._sink.write, layout.write_at, PAUSE_ENTRIES
        last_start = last_end = start = count = 0
        limit = len(batch)
        whole = limit - LEAST_ENTRY
        while start < limit:
            pause -= 1
            if pause <= 0:
                pause = PAUSE_ENTRIES
                yield
            size, mark = size_and_mark(batch, start) if start <= whole else (_short(batch, start), 0)
            end = start + size
            if size < 5 or end > limit:
                raise Malformed("a batch ends within an entry")
            count += 1
            found = write_at(batch, start + (SESSION_OP_AT if mark == SESSION_MARK else OP_AT), end)
            if found is not None:
                op, ns, ui, key, place, term, o = found
            if found is not None and write(op, ns, ui, key, place, term, size, batch, o):
                last_start, last_end = start, end
            else:
                self.parsed += 1
                pause -= PARSED_AS - 1
                entry = read_entry(batch[start:end])
                if entry.op != "n":
                    last_start, last_end = start, end
                self._sink.feed(entry)
            start = end
        if self.first is None and count:
            self.first = first_ts(batch)
        self.entries += count
        if last_end:
            self._last = batch[last_start:last_end]


def position(batch: bytes, start: int, end: int) -> tuple[Ts, int | None]:
    """``ts`` and term of one entry; 0:0 and None where it cannot be read."""
    found = layout.frame(batch, start, end)
    if found is not None:
        return Ts.of_number(found[3]), found[4]
    try:
        entry = read_entry(batch, start, end)
    except Malformed:
        return ZERO, None
    return entry.ts, entry.term


def is_no_op(batch: bytes, start: int, end: int) -> bool:
    """Whether one entry is a no-op, as the server writes them every ten seconds and when a primary begins."""
    try:
        return read_entry(batch, start, end).op == "n"
    except Malformed:
        return False


def time_of(batch: bytes, start: int, end: int) -> tuple[int, int]:
    """``ts`` and wall, in milliseconds, of one entry. Raises Malformed."""
    found = layout.time_at(batch, start, end)
    if found is not None:
        return found
    entry = read_entry(batch, start, end)
    return entry.ts.number, entry.wall_millis if entry.wall_millis is not None else entry.ts.t * 1_000


def times(
    batch: bytes, starts: Sequence[int], ends: Sequence[int], *, session: bool
) -> tuple[Sequence[int], Sequence[int]]:
    """``ts`` and wall of many entries, all of sessions or all without. Raises Malformed."""
    found = layout.times(batch, ends, session=session)
    if found is not None:
        return found
    read = [time_of(batch, start, end) for start, end in zip(starts, ends, strict=True)]
    return [ts for ts, _ in read], [wall for _, wall in read]


def sessions(
    batch: bytes, starts: Sequence[int], ends: Sequence[int], *, op_at: int
) -> tuple[Sequence[bytes], Sequence[int]]:
    """Session and transaction number of many entries of sessions. Raises Malformed."""
    found = layout.sessions(batch, starts) if op_at == SESSION_OP_AT else None
    if found is not None:
        return found
    read = [read_entry(batch, start, end) for start, end in zip(starts, ends, strict=True)]
    numbers = [-1 if one.txn_number is None else one.txn_number for one in read]
    return [layout.session_and_user(one.session)[0] for one in read], numbers


def last_start(batch: bytes) -> int:
    """Where the last entry of a batch begins. Raises Malformed."""
    start, limit, found = 0, len(batch), 0
    while start < limit:
        found = start
        size = int_at(batch, start)[0] if start + 5 <= limit else 0
        start += size
        if size < 5 or start > limit:
            raise Malformed("a batch ends within an entry")
    return found


def first_ts(batch: bytes) -> Ts:
    """The ``ts`` of the first entry of a batch; 0:0 where it cannot be read."""
    return position(batch, 0, int.from_bytes(batch[:4], "little"))[0]


def last_ts(batch: bytes) -> Ts:
    """The ``ts`` of the last entry of a batch. Raises Malformed."""
    return position(batch, last_start(batch), len(batch))[0]


def whole_entries(batch: bytes) -> bytes:
    """The batch up to the first entry that is damaged or incomplete."""
    whole = 0
    with suppress(Malformed):
        for _, end in walk.split(batch):
            whole = end
    return batch[:whole]


def entries(batch: bytes) -> Iterator[bytes]:
    """Each entry of a batch as separate bytes; a damaged rest as one."""
    start = 0
    try:
        for start, end in walk.split(batch):
            yield batch[start:end]
            start = end
    except Malformed:
        yield batch[start:]


_UNPACKED_AT_ONCE = 200
"""Documents that are split off between two turns of the event loop: some milliseconds of a reader's work on them."""


async def unpacked(batches: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Each document of each batch.

    A batch holds some 100,000 of them. The event loop runs in between: otherwise the driver's heartbeats would be late,
    and the server would be considered lost.
    """
    async for batch in batches:
        for number, (start, end) in enumerate(walk.split(batch)):
            if number % _UNPACKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            yield batch[start:end]


def _short(batch: bytes, start: int) -> int:
    """The size of a document that is shorter than any entry."""
    if start + 5 > len(batch):
        raise Malformed("a batch ends within an entry")
    size: int = int_at(batch, start)[0]
    return size
