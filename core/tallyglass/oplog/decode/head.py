"""The envelope of an oplog entry: every field around the documents, and where the documents lie.

Formats of MongoDB 4.4 to 8.x differ in the order of fields and in which there are; none is required here,
and one that is not known is stepped over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.decode import render, walk
from tallyglass.oplog.decode.walk import Element, Malformed

NESTING_LIMIT = 8
"""How deep applyOps within applyOps is followed."""

SECRETS = {
    "admin.system.users": frozenset({b"credentials"}),
    "admin.system.keys": frozenset({b"key"}),
    "admin.system.backup_users": frozenset({b"credentials"}),
}
"""Elements of some collections that must never reach a screen or a file."""

ALL_SECRETS: frozenset[bytes] = frozenset().union(*SECRETS.values()) - {b"key"}
"""The same for an entry that may hold operations on any collection; ``key`` is too common a name to hide there."""

_NONE: frozenset[bytes] = frozenset()

VECTORED_INSERT, LINKED_WRITES = 1, 2
"""``multiOpType`` of an applyOps that is no transaction: the inserts of one command (8.0), the single writes of one
session that were applied together (later)."""


@dataclass(slots=True)
class Head:
    """The envelope of one entry. Names as stored, not safe to show. ``o`` and ``o2`` say where the documents lie.

    ``previous`` is the ``ts`` of the entry before it in the same transaction or retryable write, :data:`ZERO`
    for the first of one, None where there is none. ``session`` is the raw ``lsid``, empty without a session.
    ``from_migrate`` marks what a chunk migration or resharding wrote: nothing that a user did.
    """

    raw: bytes
    ts: Ts = ZERO
    term: int | None = None
    op: str = ""
    ns: str = ""
    wall_millis: int | None = None
    o: Element | None = None
    o2: Element | None = None
    ui: bytes = b""
    session: bytes = b""
    txn: int | None = None
    previous: Ts | None = None
    multi: int = 0
    from_migrate: bool = False

    @property
    def wall(self) -> datetime | None:
        """The server's own clock when it wrote the entry."""
        return None if self.wall_millis is None else render.wall_time(self.wall_millis)

    @property
    def db(self) -> str:
        """The database part of the namespace."""
        return self.ns.partition(".")[0]

    @property
    def secrets(self) -> frozenset[bytes]:
        """Names of elements that must not be shown: a user's credentials, the cluster's signing keys."""
        return SECRETS.get(self.ns, _NONE)

    @property
    def document_id(self) -> Element | None:
        """The ``_id`` of the document that an insert, update or delete touches."""
        for holder in (self.o2, self.o) if self.op == "u" else (self.o,):
            found = self.within(holder, b"_id")
            if found is not None:
                return found
        return None

    def within(self, holder: Element | None, name: bytes) -> Element | None:
        """The element of that name at the top of ``o`` or ``o2``; None where there is none."""
        if holder is None or holder.type not in (walk.DOCUMENT, walk.ARRAY):
            return None
        return walk.find(self.raw, name, holder.start, holder.end)

    def fields(self, holder: Element | None) -> Iterator[Element]:
        """The elements of ``o`` or ``o2``, or of any document within."""
        if holder is not None and holder.type in (walk.DOCUMENT, walk.ARRAY):
            yield from walk.elements(self.raw, holder.start, holder.end)

    def flag(self, name: bytes) -> bool:
        """Whether ``o`` holds this field with the value true."""
        found = self.within(self.o, name)
        return found is not None and found.type == walk.BOOL and bool(self.raw[found.start])


def read_head(raw: bytes, start: int = 0, end: int | None = None) -> Head:
    """Read the envelope of the entry between ``start`` and ``end``. Raises Malformed for broken BSON."""
    if start == 0 and end is None:
        usual = _usual_write(raw)
        if usual is not None:
            return usual
    head = Head(raw)
    for element in walk.elements(raw, start, end):
        reader = _READERS.get(element.name)
        if reader is not None:
            reader(head, raw, element)
    return head


def _usual_write(raw: bytes) -> Head | None:
    """The envelope of a write without a session, as servers since 5.0 log it: all fields but the name and the documents
    have fixed lengths. None for any other entry."""
    end = len(raw)
    try:
        size, op_name, op, ns_name, length = _OP_AND_NS(raw, 0)
        at = 22 + length
        ui_name, ui, o_name, o_size = _UI_AND_O(raw, at)
        if (op_name, ns_name, ui_name, o_name, size) != (_OP_NAME, _NS_NAME, _UI_NAME, _O_NAME, end) or length < 1:
            return None
        o, o2, after = Element(walk.DOCUMENT, b"o", at + 28, at + 28 + o_size), None, at + 28 + o_size
        if o_size < _LEAST_DOCUMENT or after > end:
            return None
        if raw.startswith(_O2_NAME, after):
            o2_size = _INT(raw, after + 4)[0]
            o2 = Element(walk.DOCUMENT, b"o2", after + 4, after + 4 + o2_size)
            after = o2.end if o2_size >= _LEAST_DOCUMENT else end
        ts_name, i, t, term_name, term, v_name, _, wall_name, wall, last = _TAIL(raw, after)
    except struct.error:
        return None
    if (ts_name, term_name, v_name, wall_name, last, after + 49) != (_TS_NAME, _T_NAME, _V_NAME, _WALL_NAME, 0, end):
        return None
    ns = raw[22 : at - 1].decode("utf-8", "replace")
    return Head(raw, Ts(t, i), term, op.decode("utf-8", "replace"), ns, wall, o, o2, ui)


_LEAST_DOCUMENT = 5
_INT = struct.Struct("<i").unpack_from
_OP_AND_NS = struct.Struct("<i8scx4si").unpack_from
_UI_AND_O = struct.Struct("<9s16s3si").unpack_from
_TAIL = struct.Struct("<4sII3sq3sq6sqB").unpack_from
_OP_NAME, _NS_NAME, _UI_NAME = b"\x02op\0\x02\0\0\0", b"\x02ns\0", b"\x05ui\0\x10\0\0\0\x04"
_O_NAME, _O2_NAME = b"\x03o\0", b"\x03o2\0"
_TS_NAME, _T_NAME, _V_NAME, _WALL_NAME = b"\x11ts\0", b"\x12t\0", b"\x12v\0", b"\x09wall\0"


def inner_heads(head: Head, limit: int | None = None) -> Iterator[Head]:
    """The operations of an applyOps entry, as envelopes with its ``ts``. Raises Malformed."""
    for count, element in enumerate(head.fields(head.within(head.o, b"applyOps"))):
        if count == limit:
            return
        if element.type == walk.DOCUMENT:
            inner = read_head(head.raw, element.start, element.end)
            inner.ts, inner.term, inner.wall_millis = head.ts, head.term, head.wall_millis
            yield inner


def inner_count(head: Head) -> int:
    """How many operations an applyOps entry holds. Raises Malformed."""
    return sum(1 for _ in head.fields(head.within(head.o, b"applyOps")))


def command_of(head: Head) -> Element | None:
    """The first element of a command's ``o``: its name is the command, its value usually the collection."""
    return next(head.fields(head.o), None)


def target_of(head: Head) -> str:
    """The namespace that a command acts on: the collection it names, or the database alone."""
    command = command_of(head)
    if command is None:
        return head.ns
    word = walk.text(head.raw, command)
    if command.name == b"renameCollection":
        return word
    return f"{head.db}.{word}" if word else head.db


def session_and_user(head: Head) -> tuple[bytes, bytes]:
    """The 16 bytes of a session's id and the hash of its user (SHA-256 of ``user@db``); empty where there are none."""
    raw = head.session
    user = raw[39:71] if raw[29:34] == b"\x05uid\0" else b""
    return raw[13:29] if len(raw) >= 29 else raw, user


def session_text(head: Head) -> str:
    """The session's id as hex digits; empty without a session or where it is not readable."""
    if not head.session:
        return ""
    found = walk.find(head.session, b"id")
    return head.session[found.start + 5 : found.end].hex() if found and found.type == walk.BINARY else ""


def _ts(head: Head, raw: bytes, element: Element) -> None:
    if element.type == walk.TIMESTAMP:
        head.ts = timestamp(raw, element.start)


def timestamp(raw: bytes, start: int) -> Ts:
    """The BSON timestamp at ``start``."""
    i, t = struct.unpack_from("<II", raw, start)
    return Ts(t, i)


def _term(head: Head, raw: bytes, element: Element) -> None:
    head.term = walk.whole_number(raw, element)


def _op(head: Head, raw: bytes, element: Element) -> None:
    head.op = walk.text(raw, element)


def _ns(head: Head, raw: bytes, element: Element) -> None:
    head.ns = walk.text(raw, element)


def _wall(head: Head, raw: bytes, element: Element) -> None:
    if element.type == walk.DATE:
        head.wall_millis = int(struct.unpack_from("<q", raw, element.start)[0])


def _o(head: Head, raw: bytes, element: Element) -> None:
    head.o = element


def _o2(head: Head, raw: bytes, element: Element) -> None:
    head.o2 = element


def _ui(head: Head, raw: bytes, element: Element) -> None:
    if element.type == walk.BINARY:
        head.ui = raw[element.start + 5 : element.end]


def _session(head: Head, raw: bytes, element: Element) -> None:
    head.session = raw[element.start : element.end]


def _txn(head: Head, raw: bytes, element: Element) -> None:
    head.txn = walk.whole_number(raw, element)


def _previous(head: Head, raw: bytes, element: Element) -> None:
    if element.type != walk.DOCUMENT:
        return
    found = walk.find(raw, b"ts", element.start, element.end)
    if found is not None and found.type == walk.TIMESTAMP:
        head.previous = timestamp(raw, found.start)


def _multi(head: Head, raw: bytes, element: Element) -> None:
    head.multi = walk.whole_number(raw, element) or 0


def _from_migrate(head: Head, raw: bytes, element: Element) -> None:
    head.from_migrate = element.type == walk.BOOL and bool(raw[element.start])


_READERS = {
    b"ts": _ts, b"t": _term, b"op": _op, b"ns": _ns, b"wall": _wall, b"o": _o, b"o2": _o2, b"ui": _ui,
    b"lsid": _session, b"txnNumber": _txn, b"prevOpTime": _previous, b"multiOpType": _multi,
    b"fromMigrate": _from_migrate,
}  # fmt: skip


__all__ = [
    "Head",
    "Malformed",
    "command_of",
    "inner_count",
    "inner_heads",
    "read_head",
    "session_text",
    "target_of",
    "timestamp",
]
