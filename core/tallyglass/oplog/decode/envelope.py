"""Walk batches of entries at full speed: one dictionary lookup an entry tells operation, namespace and session.

Servers since 5.0 begin an entry with ``op`` and ``ns``, after ``lsid`` and ``txnNumber`` where it belongs to a
session. The bytes of those two fields together are the key of a cache: equal bytes at the same place in the
grammar are the same envelope, so a known one needs no parsing. Any other order of fields (4.4) is parsed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import repeat
from typing import NamedTuple

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.decode import walk
from tallyglass.oplog.decode.head import read_head, timestamp
from tallyglass.oplog.decode.walk import Malformed

CACHE_LIMIT = 50_000
"""Envelopes that are remembered; all are forgotten when there are more."""

_int_at = struct.Struct("<i").unpack_from
_OP = b"\x02op\0\x02\0\0\0"
_NS = b"\0\x02ns\0"
_LSID = b"\x03lsid\0"
_TXN = b"\x12txnNumber\0"
_TXN_SIZE = len(_TXN) + 8
# The size of an entry, and what stands from the third byte of its first name on.
_size_and_mark = struct.Struct("<i2xq").unpack_from
_LEAST_ENTRY = 14
_SESSION_MARK = int.from_bytes(b"sid\0\x48\0\0\0", "little")
# From the first byte of "op" to the length of "ns", and to its text.
_NS_LENGTH, _NS_TEXT = 14, 18
_NS_LIMIT = 1_024
# Equal bytes here are an equal op and ns, if ns ends within them, which most names do; with ui after it they hold
# nothing that differs from entry to entry.
_WINDOW = 48
SESSION_OP = 101
"""Where ``op`` stands in an entry that begins with the ``lsid`` of a client, and ``txnNumber``."""

TAIL, SESSION_TAIL = 49, 89
"""How far before the end of an entry ``ts`` begins on servers since 5.0, without and with ``prevOpTime``."""

_ends = struct.Struct("<4sII3sq11x6s").unpack_from


class Envelope(NamedTuple):
    """The first fields of an entry. ``tag`` is the reader's own verdict on them."""

    op: str
    ns: str
    session: bool
    tag: int


class Gathered(NamedTuple):
    """Entries with one envelope: ``places`` holds where each begins and ends, one after the other.

    ``op_at`` says how far from the beginning of an entry ``op`` stands; 0 where ``op`` and ``ns`` are elsewhere than on
    servers since 5.0.
    """

    envelope: Envelope
    places: list[int]
    op_at: int

    @property
    def starts(self) -> list[int]:
        """Where each begins."""
        return self.places[::2]

    @property
    def ends(self) -> list[int]:
        """Where each ends."""
        return self.places[1::2]


UNREADABLE = "?"


class Walker:
    """Splits batches into entries and names each one's envelope.

    ``judge`` gives the tag of an envelope, once for each that differs.
    """

    def __init__(self, judge: Callable[[str, str, bool], int]) -> None:
        self._judge = judge
        self._known: dict[bytes, Envelope] = {}
        self._known_in_session: dict[bytes, Envelope] = {}

    def tally(self, batch: bytes, wanted: int = -1) -> tuple[dict[Envelope, int], list[tuple[int, int, Envelope]]]:
        """Count a batch by envelope, and list those entries whose tag has a bit of ``wanted``, with their place.

        Raises Malformed where the batch does not consist of whole documents.
        """
        counts: dict[Envelope, int] = {}
        chosen: list[tuple[int, int, Envelope]] = []
        for one in self.gather(batch):
            envelope = one.envelope
            counts[envelope] = counts.get(envelope, 0) + len(one.places) // 2
            if envelope.tag & wanted:
                chosen += zip(one.starts, one.ends, repeat(envelope))
        chosen.sort()
        return counts, chosen

    def gather(self, batch: bytes) -> list[Gathered]:
        """Where a batch's entries lie, by envelope, which may come more than once. Raises Malformed as :meth:`tally`.

        For a reader that looks at almost every entry, whatever order those of different envelopes have.
        """
        groups: tuple[dict[bytes, list[int]], dict[bytes, list[int]]] = ({}, {})
        plain, in_session = groups
        found: dict[tuple[Envelope, int], Gathered] = {}
        start, limit = 0, len(batch)
        whole = limit - _LEAST_ENTRY
        while start < limit:
            size, mark = _size_and_mark(batch, start) if start <= whole else (_short(batch, start), 0)
            end = start + size
            at, group = (start + SESSION_OP, in_session) if mark == _SESSION_MARK else (start + 4, plain)
            places = group.get(batch[at : at + _WINDOW])
            if places is None:
                if size < 5 or end > limit:
                    raise Malformed("a batch ends within an entry")
                ns_length = _int_at(batch, at + _NS_LENGTH)[0] if at + _NS_TEXT < end else 0
                places = group.get(batch[at : at + _NS_TEXT + ns_length]) if 0 < ns_length <= _NS_LIMIT else None
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
        found: dict[tuple[Envelope, int], Gathered],
    ) -> list[int]:
        """The list for the places of an entry that is not the second of its kind in a batch."""
        at, known = start + 4, self._known
        if batch[at] == walk.DOCUMENT:
            at, known = _after_session(batch, at, end), self._known_in_session
        ns_length = _int_at(batch, at + _NS_LENGTH)[0] if at + _NS_TEXT < end else 0
        key = batch[at : at + _NS_TEXT + ns_length] if 0 < ns_length <= _NS_LIMIT else b""
        envelope = known.get(key) or self._learn(batch, start, end, at)
        op_at = at - start if key in known else 0
        one = found.setdefault((envelope, op_at), Gathered(envelope, [], op_at))
        if op_at in (4, SESSION_OP) and at + _WINDOW <= end:
            groups[op_at == SESSION_OP][key if len(key) > _WINDOW else batch[at : at + _WINDOW]] = one.places
        return one.places

    def _learn(self, batch: bytes, start: int, end: int, at: int) -> Envelope:
        try:
            head = read_head(batch, start, end)
        except Malformed:
            return Envelope(UNREADABLE, "", False, self._judge(UNREADABLE, "", False))
        session = bool(head.session)
        envelope = Envelope(head.op, head.ns, session, self._judge(head.op, head.ns, session))
        key = _key(batch, at, end)
        if key is not None and (batch[start + 4] == 3) == session:
            known = self._known_in_session if session else self._known
            if len(known) >= CACHE_LIMIT:
                known.clear()
            known[key] = envelope
        return envelope


def _short(batch: bytes, start: int) -> int:
    """The size of a document that is shorter than any entry."""
    if start + 5 > len(batch):
        raise Malformed("a batch ends within an entry")
    size: int = _int_at(batch, start)[0]
    return size


def _after_session(batch: bytes, at: int, end: int) -> int:
    """Where ``op`` stands if ``lsid`` and ``txnNumber`` come first; the end of the entry otherwise."""
    if batch[at : at + 6] != _LSID or at + 10 > end:
        return end
    size: int = _int_at(batch, at + 6)[0]
    after = at + 6 + size
    if size < 5 or batch[after : after + 11] != _TXN:
        return end
    return after + _TXN_SIZE


def _key(batch: bytes, at: int, end: int) -> bytes | None:
    """The bytes of ``op`` and ``ns`` where they stand as the fast path expects them, else None."""
    if batch[at : at + 8] != _OP or batch[at + 9 : at + 14] != _NS:
        return None
    ns_length = _int_at(batch, at + _NS_LENGTH)[0]
    stop = at + _NS_TEXT + ns_length
    if not 0 < ns_length <= _NS_LIMIT or stop > end or batch.find(0, at + _NS_TEXT, stop) != stop - 1:
        return None
    return batch[at:stop]


def position(batch: bytes, start: int, end: int) -> tuple[Ts, int | None]:
    """``ts`` and term of one entry; 0:0 and None where it cannot be read."""
    if end - start > SESSION_TAIL and batch[start + 4] != walk.TIMESTAMP:
        for back in (TAIL, SESSION_TAIL):
            marks, i, t, more, number, wall = _ends(batch, end - back)
            if (marks, more, wall) == (b"\x11ts\0", b"\x12t\0", b"\x09wall\0"):
                return Ts(t, i), number
    ts, term = ZERO, None
    try:
        for element in walk.elements(batch, start, end):
            if element.name == b"ts" and element.type == walk.TIMESTAMP:
                ts = timestamp(batch, element.start)
            elif element.name == b"t":
                term = walk.whole_number(batch, element)
    except Malformed:
        return ZERO, None
    return ts, term


def last_start(batch: bytes) -> int:
    """Where the last entry of a batch begins. Raises Malformed."""
    start, limit, found = 0, len(batch), 0
    while start < limit:
        found = start
        size: int = _int_at(batch, start)[0] if start + 5 <= limit else 0
        start += size
        if size < 5 or start > limit:
            raise Malformed("a batch ends within an entry")
    return found


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
