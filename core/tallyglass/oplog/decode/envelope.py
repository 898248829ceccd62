"""Walk batches of entries at full speed: one dictionary lookup an entry tells operation, namespace and session.

Servers since 5.0 begin an entry with ``op`` and ``ns``, after ``lsid`` and ``txnNumber`` where it belongs to a
session. The bytes of those two fields together are the key of a cache: equal bytes at the same place in the
grammar are the same envelope, so a known one needs no parsing. Any other order of fields (4.4) is parsed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
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
_USUAL_LSID = _LSID + b"\x48\0\0\0"
_TXN_SIZE = len(_TXN) + 8
# From the first byte of "op" to the length of "ns", and to its text.
_NS_LENGTH, _NS_TEXT = 14, 18
_NS_LIMIT = 1_024
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
    """Entries with one envelope: ``places`` holds where each begins and ends, one after the other."""

    envelope: Envelope
    places: list[int]

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
        plain, in_session = self._known, self._known_in_session
        start, limit = 0, len(batch)
        while start < limit:
            if start + 5 > limit:
                raise Malformed("a batch ends within an entry")
            size = _int_at(batch, start)[0]
            end = start + size
            if size < 5 or end > limit:
                raise Malformed("a batch ends within an entry")
            at, known = start + 4, plain
            if batch[at] == 3:
                at = _after_session(batch, at, end)
                known = in_session
            ns_length = _int_at(batch, at + _NS_LENGTH)[0] if at + _NS_TEXT < end else 0
            envelope = known.get(batch[at : at + _NS_TEXT + ns_length]) if 0 < ns_length <= _NS_LIMIT else None
            if envelope is None:
                envelope = self._learn(batch, start, end, at)
            counts[envelope] = counts.get(envelope, 0) + 1
            if envelope.tag & wanted:
                chosen.append((start, end, envelope))
            start = end
        return counts, chosen

    def heads(self, batch: bytes) -> list[tuple[int, int, int, Envelope]]:
        """Every entry of a batch: where it begins, where ``ns`` ends in it, where it ends, and its envelope. The second
        is 0 where ``op`` and ``ns`` do not come first. Raises Malformed as :meth:`tally`.

        For a reader that looks into every entry, in order.
        """
        found: list[tuple[int, int, int, Envelope]] = []
        start, limit = 0, len(batch)
        while start < limit:
            if start + 5 > limit:
                raise Malformed("a batch ends within an entry")
            size = _int_at(batch, start)[0]
            end = start + size
            if size < 5 or end > limit:
                raise Malformed("a batch ends within an entry")
            at, known = start + 4, self._known
            if batch[at] == 3:
                known = self._known_in_session
                if batch[at : at + 10] == _USUAL_LSID and batch[at + 78 : at + 89] == _TXN:
                    at += 97
                else:
                    at = _after_session(batch, at, end)
            ns_length = _int_at(batch, at + _NS_LENGTH)[0] if at + _NS_TEXT < end else 0
            stop = at + _NS_TEXT + ns_length
            envelope = known.get(batch[at:stop]) if 0 < ns_length <= _NS_LIMIT else None
            if envelope is None:
                envelope = self._learn(batch, start, end, at)
                stop = stop if _key(batch, at, end) is not None else 0
            found.append((start, stop, end, envelope))
            start = end
        return found

    def gather(self, batch: bytes) -> list[Gathered]:
        """Where a batch's entries lie, by envelope, which may come more than once. Raises Malformed as :meth:`tally`.

        For a reader that looks at almost every entry, whatever order those of different envelopes have.
        """
        plain: dict[bytes, list[int]] = {}
        in_session: dict[bytes, list[int]] = {}
        odd: dict[Envelope, list[int]] = {}
        found: list[Gathered] = []
        start, limit = 0, len(batch)
        while start < limit:
            if start + 5 > limit:
                raise Malformed("a batch ends within an entry")
            size = _int_at(batch, start)[0]
            end = start + size
            if size < 5 or end > limit:
                raise Malformed("a batch ends within an entry")
            at, groups = start + 4, plain
            if batch[at] == 3:
                if batch[at : at + 10] == _USUAL_LSID and batch[at + 78 : at + 89] == _TXN:
                    at += 97
                else:
                    at = _after_session(batch, at, end)
                groups = in_session
            ns_length = _int_at(batch, at + _NS_LENGTH)[0] if at + _NS_TEXT < end else 0
            key = batch[at : at + _NS_TEXT + ns_length] if 0 < ns_length <= _NS_LIMIT else b""
            places = groups.get(key)
            if places is None:
                known = self._known if groups is plain else self._known_in_session
                envelope = known.get(key) or self._learn(batch, start, end, at)
                places = odd.get(envelope) if key not in known else None
                if places is None:
                    places = []
                    found.append(Gathered(envelope, places))
                    if key in known:
                        groups[key] = places
                    else:
                        odd[envelope] = places
            places.append(start)
            places.append(end)
            start = end
        return found

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
