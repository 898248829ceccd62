"""Where the fields of an entry lie: the only place that knows byte offsets.

Servers since 5.0 write the fields of an insert, update or delete in this order; those in brackets belong to a session::

    from the start   4 [lsid 78] [txnNumber 19]   op 10   ns 4 + 4 + its text   ui 25   o   o2   [stmtId 12]
    from the end     [wall 55, prevOpTime 41] or wall 15; ts 34 before wall, t and v between them

Only the namespace and the documents vary in length, so the other fields need not be searched for. An entry of any other
form (4.4, an ``lsid`` of another size, damage) has to be parsed: the functions here return None for it.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.walk import Element

OP_AT, SESSION_OP_AT = 4, 101
"""How far from the beginning of an entry ``op`` stands: first, or after ``txnNumber`` and the ``lsid`` of a client."""

OP_TEXT, NS_LENGTH, NS_TEXT = 8, 14, 18
"""How far from ``op`` its letter stands, the length of the namespace, and its text."""

NS_LIMIT = 1_024
"""Bytes of the longest namespace that is sliced out; a server allows 255 and the final zero."""

OP_AND_NS = 48
"""Equal bytes of this number from ``op`` on are an equal ``op`` and ``ns``, if ``ns`` ends within them, which most do.
With ``ui`` after it they hold nothing that differs from entry to entry."""

_WALL_BACK, _SESSION_WALL_BACK = 15, 55
"""How far before the end of an entry ``wall`` begins, without and with ``prevOpTime``; ``ts`` is 34 bytes before it."""

LEAST_ENTRY = 14
"""Bytes that :data:`size_and_mark` reads."""

size_and_mark = struct.Struct("<i2xq").unpack_from
"""The size of an entry, and eight bytes from the third of its first name on: :data:`SESSION_MARK` tells an ``lsid`` of
the usual size."""

SESSION_MARK = int.from_bytes(b"sid\0\x48\0\0\0", "little")

int_at = struct.Struct("<i").unpack_from

TAIL, SESSION_TAIL = 49, 89
"""How far before the end of an entry ``ts`` begins, without and with ``prevOpTime``."""

TXN_AT = 82
"""How far from the beginning of an entry ``txnNumber`` stands, if ``op`` stands at :data:`SESSION_OP_AT`."""

PREVIOUS_AT = 41
"""How far before the end of an entry ``prevOpTime`` begins, if it is there."""

_LSID, _TXN = b"\x03lsid\0", b"\x12txnNumber\0"
_SESSION, _LSID_AT, _NUMBER_AT = _LSID + b"\x48\0\0\0", 10, 93
"""The beginning of an entry of a session, and how far from it the value of ``lsid`` and of ``txnNumber`` stand."""

_OP, _NS = b"\x02op\0\x02\0\0\0", b"\0\x02ns\0"
_UI, _O, _O2, _ID, _STATEMENT = b"\x05ui\0\x10\0\0\0\x04", b"\x03o\0", b"\x03o2\0", b"_id\0", b"\x10stmtId\0"
_TS, _TERM, _VERSION, _WALL = b"\x11ts\0", b"\x12t\0", b"\x12v\0", b"\x09wall\0"
_PREVIOUS = b"\x03prevOpTime\0\x1c\0\0\0"
_UID = b"\x05uid\0"
# From the end of ns over the UUID to the length of o.
_UI_AND_O = 28

_long = struct.Struct("<q").unpack_from
_quad = struct.Struct("<Q").unpack_from
_tail = struct.Struct("<4sQ3sq3sq6sq").unpack_from
_document = struct.Struct("<iB4s").unpack_from
_place = struct.Struct("<4sQ3sq").unpack_from
_KINDS = [bytes((kind,)) for kind in range(256)]
_SIZES = {walk.OBJECT_ID: 12, walk.INT32: 4, walk.INT64: 8, walk.DOUBLE: 8, walk.DATE: 8}

Frame = tuple[int, int, int, int, int, int, int]
"""Of one entry: where ``op`` begins, where the field after ``ns`` begins, where ``ts`` begins; then ``ts`` as one
number, the term, ``v``, and ``wall`` in milliseconds."""


def frame(raw: bytes, start: int, end: int) -> Frame | None:
    """The first and the last fields of the entry between ``start`` and ``end``.

    What looks like them may still be a part of something else: whoever reads the fields in between must arrive exactly
    at ``ts``.
    """
    at, tail = start + OP_AT, end - TAIL
    if raw.startswith(_SESSION, at) and raw.startswith(_TXN, start + TXN_AT):
        at = start + SESSION_OP_AT
    if raw.startswith(_PREVIOUS, end - PREVIOUS_AT):
        tail = end - SESSION_TAIL
    if tail < at + NS_TEXT or not raw.startswith(_OP, at) or not raw.startswith(_NS, at + 9):
        return None
    rest = at + NS_TEXT + int_at(raw, at + NS_LENGTH)[0]
    ts, place, term, term_value, version, version_value, wall, wall_value = _tail(raw, tail)
    if ts != _TS or term != _TERM or version != _VERSION or wall != _WALL or not at + NS_TEXT < rest <= tail:
        return None
    return at, rest, tail, place, term_value, version_value, wall_value


def documents_at(raw: bytes, at: int, tail: int) -> tuple[bytes, Element | None, Element | None, int]:
    """The UUID of the collection, ``o`` and ``o2``, as far as they follow ``ns`` in this order, and where the field
    after them begins. Raises Malformed."""
    ui, o, o2 = b"", None, None
    after = after_ui(raw, at)
    if after > at:
        ui, at = raw[after - 16 : after], after
    if raw.startswith(_O, at):
        o = Element(walk.DOCUMENT, b"o", at + 3, walk.document_end(raw, at + 3, tail))
        at = o.end
    if raw.startswith(_O2, at):
        o2 = Element(walk.DOCUMENT, b"o2", at + 4, walk.document_end(raw, at + 4, tail))
        at = o2.end
    return ui, o, o2, at


def after_ui(raw: bytes, at: int) -> int:
    """Where the field after ``ui`` begins if ``ui`` is at ``at``; otherwise ``at``."""
    return at + 25 if raw.startswith(_UI, at) else at


FramedWrite = tuple[str, str, bytes, int, int, int, int, int, int]
"""An insert, update or delete: ``op``, ``ns``, the UUID of the collection, where ``o`` begins and ends, where ``o2``
ends or ``o`` where there is none, ``ts`` as one number, the term, and ``wall`` in milliseconds."""


def framed_write(raw: bytes, start: int, end: int, *, session: bool) -> FramedWrite | None:
    """The entry between ``start`` and ``end`` if it is an insert, update or delete, without a session or a retryable
    write, and without fields but the usual ones: what :func:`frame` and :func:`documents_at` give, in half the time."""
    at, tail = (start + SESSION_OP_AT, end - SESSION_TAIL) if session else (start + OP_AT, end - TAIL)
    if tail < at + NS_TEXT:
        return None
    o = at + NS_TEXT + int_at(raw, at + NS_LENGTH)[0] + _UI_AND_O
    if not at < o <= tail - _LEAST_DOCUMENT:
        return None
    fields = raw[at:o]
    beginning = _beginnings.get(fields) or _learn(fields)
    if beginning is None:
        return None
    o_end = last = o + int_at(raw, o)[0]
    if raw[o_end : o_end + 4] == _O2 and o_end + 4 <= tail - _LEAST_DOCUMENT:
        last = o_end + 4 + int_at(raw, o_end + 4)[0]
        if last < o_end + 4 + _LEAST_DOCUMENT:
            return None
    if session and raw[last : last + len(_STATEMENT)] == _STATEMENT:
        tail -= _STATEMENT_SIZE
    if last != tail or o_end < o + _LEAST_DOCUMENT or raw[o_end - 1] or raw[last - 1]:
        return None
    ts, place, term, term_value, version, _, wall, wall_value = _tail(raw, end - (SESSION_TAIL if session else TAIL))
    if (ts, term, version, wall) != _TAIL_NAMES:
        return None
    return (*beginning, o, o_end, last, place, term_value, wall_value)


def in_retryable_write(raw: bytes, start: int, end: int) -> bool:
    """Whether an entry has a session of the usual size, a ``txnNumber`` and ``prevOpTime`` at their places."""
    return (
        raw.startswith(_SESSION, start + OP_AT)
        and raw.startswith(_TXN, start + TXN_AT)
        and raw.startswith(_PREVIOUS_TS, end - PREVIOUS_AT)
        and raw.startswith(_TERM, end - PREVIOUS_AT + len(_PREVIOUS_TS) + 8)
        and not raw[end - 2]
    )


def previous(raw: bytes, end: int) -> int:
    """The ``ts`` in ``prevOpTime`` of such an entry, as one number."""
    found: int = _quad(raw, end - PREVIOUS_AT + len(_PREVIOUS_TS))[0]
    return found


_TAIL_NAMES = (_TS, _TERM, _VERSION, _WALL)
_PREVIOUS_TS = _PREVIOUS + _TS
_STATEMENT_SIZE = len(_STATEMENT) + 4
"""Bytes of ``stmtId``, an int32, with its name."""
_LEAST_DOCUMENT = 5
"""Bytes of an empty document."""

Write = tuple[str, str, bytes, bytes, int, int, int]
"""An insert, update or delete: ``op``, ``ns``, the UUID of the collection, type and bytes of the document's ``_id``,
``ts`` as one number, the term, and where ``o`` begins."""


def write_at(batch: bytes, at: int, end: int) -> Write | None:
    """The insert, update or delete that ends at ``end``, if its ``op`` begins at ``at``. Raises Malformed for some that
    are damaged."""
    try:
        o = at + NS_TEXT + int_at(batch, at + NS_LENGTH)[0] + _UI_AND_O
        beginning = _beginnings.get(batch[at:o]) or _learn(batch[at:o])
        if beginning is None:
            return None
        op, ns, ui = beginning
        length, kind, id_name = _document(batch, o)
        value, after = o + 9, o + length
        if batch[after : after + 4] == _O2:
            length, o2_kind, o2_name = _document(batch, after + 4)
            if op == "u":
                kind, id_name, value = o2_kind, o2_name, after + 13
            after += 4 + length
        if batch[after : after + 8] == _STATEMENT:
            after += 12
        ts, place, term, term_value = _place(batch, after)
        if kind == walk.STRING:
            stop = value + 4 + int_at(batch, value)[0]
        elif kind in _SIZES:
            stop = value + _SIZES[kind]
        else:
            stop = walk.value_end(batch, kind, value, end)
    except struct.error:
        return None
    if id_name == _ID and ts == _TS and term == _TERM and o < after < end and value <= stop < end:
        return op, ns, ui, _KINDS[kind] + batch[value:stop], place, term_value, o
    return None


KINDS_LIMIT = 50_000
"""Kinds of entries whose first bytes are remembered, some 10 MB; all are forgotten when there are more."""

# The bytes from op to the length of o are the same for all writes of one kind on one collection.
_beginnings: dict[bytes, tuple[str, str, bytes]] = {}


def _learn(fields: bytes) -> tuple[str, str, bytes] | None:
    """Operation, namespace and UUID of a write, from ``op`` to the length of ``o``; None where it begins otherwise."""
    op, ui = fields[OP_TEXT : OP_TEXT + 1], len(fields) - _UI_AND_O
    if ui <= NS_TEXT or op not in (b"i", b"u", b"d") or not fields.startswith(_OP) or not fields.startswith(_NS, 9):
        return None
    if fields.find(0, NS_TEXT) != ui - 1 or not fields.startswith(_UI, ui) or not fields.endswith(_O):
        return None
    if len(_beginnings) >= KINDS_LIMIT:
        _beginnings.clear()
    found = op.decode(), fields[NS_TEXT : ui - 1].decode("utf-8", "replace"), fields[ui + 9 : ui + 25]
    _beginnings[fields] = found
    return found


Stamp = tuple[int, int, int]
"""When an entry was written: its ``ts`` as one number, the wall in milliseconds, and its transaction number or -1."""


def time_at(batch: bytes, start: int, end: int) -> tuple[int, int] | None:
    """``ts`` and wall of the entry between ``start`` and ``end``."""
    wall = end - (_SESSION_WALL_BACK if batch[start + OP_AT] == walk.DOCUMENT else _WALL_BACK)
    if batch[wall : wall + 6] != _WALL or batch[wall - 34 : wall - 30] != _TS or wall <= start:
        return None
    return _quad(batch, wall - 30)[0], _long(batch, wall + 6)[0]


_SESSION_BACK = SESSION_TAIL + 12
"""How far before the end of a session's update ``o2`` ends: ``stmtId`` lies between it and ``ts``."""

_ID_TAIL = 18
"""How many bytes before the end of ``o2`` hold its ``_id``, if it is of fixed size and all of it: an ObjectId with its
name."""
_O2_OF_ID = 22
"""The bytes of ``o2`` where it is such an ``_id``, at most."""

_CHOSEN = bytes(n & 15 == 5 for n in range(256))
_LONG, _INT, _COUNTER = 9, 5, 2
"""How far before the end of ``o2`` the lowest byte of its _id stands, of 64 or 32 bits, or of an ObjectId."""


class Documents(NamedTuple):
    """The documents of many updates of one namespace: where the ``o2`` of each is."""

    batch: bytes
    ends: Sequence[int]
    back: int = 0
    """How far before these ends each ``o2`` ends."""
    begins: Sequence[int] = ()
    """Where each begins, or the part of it that tells it from others; empty where all are an ``_id`` of one size."""

    def keys(self, places: Iterable[int]) -> list[bytes]:
        """Bytes that tell the documents at some places from each other, the same in any batch."""
        if not self.begins:
            far = self.back + _ID_TAIL
            return [self.batch[self.ends[place] - far : self.ends[place] - self.back] for place in places]
        return [self.batch[self.begins[place] : self.ends[place] - self.back] for place in places]

    def chosen(self) -> bytes:
        """For each 1 if it is of a part that is chosen by the ``_id`` alone, most often a sixteenth of all; else 0."""
        columns = (_column(self.batch, self.ends, self.back + far) for far in (_LONG, _INT, _COUNTER))
        long, small, counter = (int.from_bytes(column, "big") for column in columns)
        return (long ^ small ^ counter).to_bytes(len(self.ends), "big").translate(_CHOSEN)


def documents_between(batch: bytes, bounds: Iterable[tuple[int, int]]) -> Documents:
    """The documents of updates whose ``o2`` begin and end at these places."""
    begins, ends = zip(*bounds, strict=True)
    # What stands before o2, but for its own name, changes with each update.
    parts = [
        max(end - _ID_TAIL, begin - len(_O2)) if end - begin <= _O2_OF_ID else begin
        for begin, end in zip(begins, ends, strict=True)
    ]
    return Documents(batch, ends, begins=parts)


def updated_documents(
    batch: bytes, starts: Sequence[int], ends: Sequence[int], *, session: bool = False
) -> Documents | None:
    """The documents of updates of one namespace whose ``op`` stands at its usual place; None in another form."""
    at, back = (SESSION_OP_AT, _SESSION_BACK) if session else (OP_AT, TAIL)
    o = at + NS_TEXT + int_at(batch, starts[0] + at + NS_LENGTH)[0] + _UI_AND_O
    first = _o2_at(batch, starts[0], ends[0], o)
    if first is None:
        return None
    size = _SIZES.get(batch[first[0] + 4], 0)
    # An _id of fixed size that ends where it does without further fields, such as those of findAndModify, has its name
    # at one distance from there.
    if size and first == (ends[0] - back - size - 10, ends[0] - back):
        names = _column(batch, ends, back + size + 5)
        if names == b"_" * len(ends):
            return Documents(batch, ends, back)
    bounds = [_o2_at(batch, start, end, o) for start, end in zip(starts, ends, strict=True)]
    known = [one for one in bounds if one is not None]
    return documents_between(batch, known) if len(known) == len(bounds) else None


def _o2_at(batch: bytes, start: int, end: int, o: int) -> tuple[int, int] | None:
    """Where ``o2`` begins and ends in an entry whose ``o`` is so far from its beginning."""
    if batch[start + o - len(_O) : start + o] != _O or start + o + 4 > end:
        return None
    at = start + o + int_at(batch, start + o)[0]
    if batch[at : at + 4] != _O2 or at + 8 > end:
        return None
    after = at + 4 + int_at(batch, at + 4)[0]
    return (at + 4, after) if at + 4 < after <= end else None


def ts_of(raw: bytes) -> int:
    """The ``ts`` of an entry without a session as a number; 0 where it is of another form."""
    return int.from_bytes(raw[4 - TAIL : 12 - TAIL], "little") if raw[-TAIL : 4 - TAIL] == _TS else 0


def counters(batch: bytes, ends: Sequence[int]) -> bytes:
    """The lowest byte of the ``ts`` of many entries without a session; empty where they are of another form."""
    alike = all(batch[end - TAIL : end - TAIL + 4] == _TS for end in (ends[0], ends[-1]))
    return _column(batch, ends, TAIL - 4) if alike and ends[0] >= TAIL else b""


def _column(batch: bytes, ends: Sequence[int], back: int) -> bytes:
    """The byte that stands so far before the end of each entry."""
    first, last, size = ends[0], ends[-1], ends[1] - ends[0] if len(ends) > 1 else 1
    if last - first == size * (len(ends) - 1) and list(ends) == list(range(first, last + 1, size)):
        # One statement's entries are most often alike: a slice for all of them costs a tenth.
        return batch[first - back : last - back + 1 : size]
    return bytes([batch[end - back] for end in ends])


def op_letter(raw: bytes, at: int) -> str:
    """The letter of an operation whose ``op`` begins at ``at``; empty where something else does."""
    return chr(raw[at + OP_TEXT]) if raw.startswith(_OP, at) else ""


def op_after_session(batch: bytes, start: int, end: int) -> int:
    """Where ``op`` stands in an entry that begins with an ``lsid`` of any size; ``end`` if it does not follow."""
    at = start + OP_AT
    if batch[at : at + 6] != _LSID or start + _LSID_AT + 4 > end:
        return end
    size: int = int_at(batch, start + _LSID_AT)[0]
    after = start + _LSID_AT + size
    return after + len(_TXN) + 8 if size >= 5 and batch[after : after + len(_TXN)] == _TXN else end


def op_and_ns(batch: bytes, at: int, end: int) -> bytes:
    """The bytes from ``op`` at ``at`` to the end of ``ns``; empty where they are not as expected."""
    if batch[at : at + 8] != _OP or batch[at + 9 : at + 14] != _NS:
        return b""
    length = int_at(batch, at + NS_LENGTH)[0]
    stop = at + NS_TEXT + length
    if not 0 < length <= NS_LIMIT or stop > end or batch.find(0, at + NS_TEXT, stop) != stop - 1:
        return b""
    return batch[at:stop]


def is_before_ts(batch: bytes, end: int, field: bytes) -> bool:
    """Whether these bytes, a whole element, come right before ``ts`` in an entry without a session."""
    ts = end - TAIL
    return (
        batch[ts : ts + 4] == _TS and batch.startswith(_WALL, end - _WALL_BACK) and batch[ts - len(field) : ts] == field
    )


def txn_number(raw: bytes, start: int) -> int:
    """The transaction number of an entry whose ``op`` stands at :data:`SESSION_OP_AT`."""
    number: int = _long(raw, start + _NUMBER_AT)[0]
    return number


def lsid_in(raw: bytes, start: int) -> bytes:
    """The whole ``lsid`` of such an entry."""
    return raw[start + _LSID_AT : start + TXN_AT]


def session_in(raw: bytes, start: int) -> bytes:
    """The 16 bytes of ``lsid.id`` in an entry that begins with an ``lsid``."""
    return raw[start + 23 : start + 39]


def user_in(raw: bytes, start: int) -> bytes:
    """The hash of the session's user (SHA-256 of ``user@db``) in such an entry; empty where there is none."""
    return raw[start + 49 : start + 81] if raw[start + 39 : start + 44] == _UID else b""


def session_and_user(lsid: bytes) -> tuple[bytes, bytes]:
    """The 16 bytes of a session's id and the hash of its user; empty where there are none."""
    return session_in(lsid, -_LSID_AT) if len(lsid) >= 29 else lsid, user_in(lsid, -_LSID_AT)


# Words of eight bytes from "ts" to the end of "wall"; the value of v, which ends in zeros, comes before that name.
_TAIL_SIZE, _TAIL_WORDS = 48, 6
_V_AND_WALL = b"\0\0" + _WALL
_IS_LITTLE = sys.byteorder == "little"


def times(batch: bytes, ends: Sequence[int], *, session: bool) -> tuple[Sequence[int], Sequence[int]] | None:
    """``ts`` as numbers and ``wall`` in milliseconds of many entries by their ends, all of sessions or all without."""
    before = SESSION_TAIL if session else TAIL
    if ends[0] < before or not _IS_LITTLE:
        return None
    after = before - _TAIL_SIZE
    tails = b"".join([batch[end - before : end - after] for end in ends])
    words, shifted = array("q", tails), array("Q", tails[4:-4])
    # Each second name of those words is "wall", and "ts" follows the upper half of the wall before it.
    names, more = words[4::_TAIL_WORDS].tobytes(), shifted[5::_TAIL_WORDS].tobytes()
    same = more == (tails[_TAIL_SIZE - 4 : _TAIL_SIZE] + _TS) * (len(ends) - 1)
    if not same or not tails.startswith(_TS) or names != _V_AND_WALL * len(ends):
        return None
    return shifted[::_TAIL_WORDS].tolist(), words[5::_TAIL_WORDS].tolist()


def sessions(batch: bytes, starts: Sequence[int]) -> tuple[Sequence[bytes], Sequence[int]] | None:
    """Session and transaction number of many entries whose ``op`` stands at :data:`SESSION_OP_AT`."""
    last = SESSION_OP_AT
    words = array("q", b"".join([batch[start + last - 16 : start + last] for start in starts]))
    if not _IS_LITTLE or words[::2].tobytes() != _TXN[-8:] * len(starts):
        return None
    return [batch[start + 23 : start + 39] for start in starts], words[1::2].tolist()
