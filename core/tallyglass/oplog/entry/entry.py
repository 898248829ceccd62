"""One entry of the oplog: the fields around its documents, where the documents lie, and what follows from them.

Formats of MongoDB 4.4 to 9.0 differ in the order of fields and in which there are; none is required, and one that is
not known is stepped over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from tallyglass.moment import ZERO, Ts, from_millis
from tallyglass.oplog.entry import layout, walk
from tallyglass.oplog.entry.changes import Change, each_change
from tallyglass.oplog.entry.walk import Element, Malformed

NESTING_LIMIT = 8
"""Levels of applyOps within applyOps that are read; a server writes one, ``mongorestore`` two."""

SIGNING_KEYS = "admin.system.keys"

_CREDENTIALS, _KEY, _NONE = frozenset({b"credentials"}), frozenset({b"key"}), frozenset[bytes]()

VECTORED_INSERT, LINKED_WRITES = 1, 2
"""``multiOpType`` of an applyOps that is no transaction: the inserts of one command (8.0), the single writes of one
session that were applied together (later)."""

TXN_COMMANDS = frozenset({"applyOps", "commitTransaction", "abortTransaction"})

_WHOLE_NAMES = frozenset({b"renameCollection", b"truncateRange", b"importCollection"})
"""Commands that name a collection together with its database."""


class Txn(NamedTuple):
    """A transaction: its session as raw BSON, and its number."""

    session: bytes
    number: int


@dataclass(slots=True)
class Entry:
    """One entry, or one operation inside its applyOps, which has the ``ts``, term and clock of the entry.

    Names as stored, not safe to show. ``o_at`` and ``o2_at`` say where the documents lie in ``raw``, ``size`` is in
    bytes. ``session`` is the raw ``lsid``, empty without one. ``previous`` is the ``ts`` of the entry before it in the
    same transaction or retryable write, None at the beginning. ``from_migrate`` marks what a chunk migration or
    resharding wrote: nothing that a user did. ``keeps_image`` means that the server kept an image for findAndModify.
    """

    raw: bytes
    size: int = 0
    ts: Ts = ZERO
    term: int | None = None
    op: str = ""
    ns: str = ""
    wall_millis: int | None = None
    session: bytes = b""
    txn_number: int | None = None
    ui: bytes = b""
    o_at: Element | None = None
    o2_at: Element | None = None
    previous: Ts | None = None
    multi: int = 0
    from_migrate: bool = False
    keeps_image: bool = False

    @property
    def wall(self) -> datetime | None:
        """The server's own clock when it wrote the entry."""
        return None if self.wall_millis is None else from_millis(self.wall_millis)

    @property
    def db(self) -> str:
        """The database part of the namespace."""
        return self.ns.partition(".")[0]

    @property
    def secrets(self) -> frozenset[bytes]:
        """Names of elements that must never reach a screen or a file: the cluster's signing keys, and the credentials
        of users, which ``mongorestore`` also keeps in another collection of ``admin`` for a while."""
        if self.ns == SIGNING_KEYS:
            return _KEY
        return _CREDENTIALS if self.db == "admin" else _NONE

    # Its documents

    def within(self, holder: Element | None, name: bytes) -> Element | None:
        """The element of that name at the top of ``o`` or ``o2``; None where there is none. Raises Malformed."""
        if holder is None or holder.type not in (walk.DOCUMENT, walk.ARRAY):
            return None
        return walk.find(self.raw, name, holder.start, holder.end)

    def fields(self, holder: Element | None) -> Iterator[Element]:
        """The elements of ``o`` or ``o2``, or of any document within. Raises Malformed."""
        if holder is not None and holder.type in (walk.DOCUMENT, walk.ARRAY):
            yield from walk.elements(self.raw, holder.start, holder.end)

    def flag(self, name: bytes) -> bool:
        """Whether ``o`` holds this field with the value true."""
        found = self.within(self.o_at, name)
        return found is not None and found.type == walk.BOOL and bool(self.raw[found.start])

    def text_in(self, holder: Element | None, name: bytes) -> str:
        """The string of that name in ``o`` or ``o2``, not safe to show; empty where there is none."""
        found = self.within(holder, name)
        return walk.text(self.raw, found) if found is not None else ""

    def number_in(self, holder: Element | None, name: bytes) -> int | None:
        """The whole number of that name in ``o`` or ``o2``; None where there is none."""
        found = self.within(holder, name)
        return None if found is None else walk.whole_number(self.raw, found)

    @property
    def o(self) -> Mapping[str, Any]:
        """The document, the change, the key of a delete, or the command: decoded each time. Raises Malformed."""
        return _decoded(self.raw, self.o_at)

    @property
    def o_raw(self) -> bytes:
        """``o`` undecoded; empty where there is none."""
        return b"" if self.o_at is None else self.raw[self.o_at.start : self.o_at.end]

    @property
    def id_at(self) -> Element | None:
        """Where the ``_id`` lies of the document that an insert, update or delete is about."""
        for holder in (self.o2_at, self.o_at) if self.op == "u" else (self.o_at,):
            found = self.within(holder, b"_id")
            if found is not None:
                return found
        return None

    @property
    def id_key(self) -> bytes:
        """That ``_id`` as comparable bytes, its type and its value; empty where there is none."""
        for holder in (self.o2_at, self.o_at) if self.op == "u" else (self.o_at,):
            if holder is not None and holder.type in (walk.DOCUMENT, walk.ARRAY):
                found = walk.value_key(self.raw, b"_id", holder.start, holder.end)
                if found:
                    return found
        return b""

    @property
    def document_id(self) -> Any:
        """That ``_id`` decoded; None where there is none."""
        found = self.id_at
        return None if found is None else walk.value(self.raw, found)

    def changes(self) -> Iterator[Change] | None:
        """The changes of an update, one by one; None where it is the whole new document. Raises Malformed."""
        found = self.o_at
        return None if found is None else each_change(self.raw, found.start, found.end)

    # Commands

    @property
    def command(self) -> str:
        """The name of the command in a ``c`` entry, which is the first name in ``o``; empty for other entries."""
        first = self._first if self.op == "c" else None
        return first.name.decode("utf-8", "replace") if first is not None else ""

    @property
    def target(self) -> str:
        """The namespace that a command acts on: the collection it names, or the database alone."""
        first = self._first
        if first is None:
            return self.ns
        word = walk.text(self.raw, first)
        if first.name == b"renameCollection" or (first.name in _WHOLE_NAMES and word.startswith(f"{self.db}.")):
            return word
        if first.name == b"dropIdent":
            return self.db  # what it names is a table of the storage engine
        return f"{self.db}.{word}" if word else self.db

    @property
    def _first(self) -> Element | None:
        return next(self.fields(self.o_at), None)

    @property
    def records(self) -> int | None:
        """How many documents a command says that it removed (``o2.numRecords``); None where it does not."""
        return self.number_in(self.o2_at, b"numRecords")

    @property
    def drops_target(self) -> bool:
        """Whether a renameCollection drops what had the new name: ``dropTarget`` is a UUID, or true."""
        found = self.within(self.o_at, b"dropTarget")
        return found is not None and (found.type != walk.BOOL or bool(self.raw[found.start]))

    @property
    def replaced(self) -> bytes:
        """The UUID of the collection that a rename drops; empty where it drops none."""
        target = self.o.get("dropTarget") if self.command == "renameCollection" else None
        return bytes(target) if isinstance(target, bytes) else b""

    def index_specs(self) -> Iterator[Element]:
        """Where the definitions lie of the indexes that a command makes or changes: ``o`` itself, its ``index``, its
        ``spec`` (8.2), each of its ``indexes``. Raises Malformed."""
        if self.o_at is not None:
            yield self.o_at
        for name in (b"index", b"spec"):
            if (found := self.within(self.o_at, name)) is not None:
                yield found
        yield from self.fields(self.within(self.o_at, b"indexes"))

    def inner(self, limit: int | None = None) -> Iterator[Entry]:
        """The operations inside an applyOps, at most ``limit`` of them, in order. Raises Malformed."""
        found = self.within(self.o_at, b"applyOps") if self.command == "applyOps" else None
        for count, element in enumerate(self.fields(found)):
            if count == limit:
                return
            if element.type == walk.DOCUMENT:
                inner = read_entry(self.raw, element.start, element.end)
                inner.ts, inner.term, inner.wall_millis = self.ts, self.term, self.wall_millis
                yield inner

    # Sessions and transactions

    @property
    def linked(self) -> bool:
        """Whether it is part of a session's chain: a transaction or a retryable write."""
        return bool(self.session) and self.txn_number is not None

    @property
    def txn(self) -> Txn | None:
        """The transaction that it is an entry of. A vectored insert is none, though it looks like one."""
        if self.op != "c" or not self.linked or self.multi == VECTORED_INSERT or self.command not in TXN_COMMANDS:
            return None
        return Txn(self.session, self.txn_number or 0)

    @property
    def in_transaction(self) -> bool:
        """Whether it is an applyOps that is a transaction or a part of one, not several writes logged together."""
        alone = self.txn_number is None or self.multi in (VECTORED_INSERT, LINKED_WRITES)
        return not alone and self.command == "applyOps"

    @property
    def chained(self) -> bool:
        """Whether it is one of several applyOps of a batched write that has no session (7.1): all of them take effect
        with the last, which has the ``count`` of all. Each names the one before it as ``previous``."""
        if self.op != "c" or self.linked or self.multi or self.command != "applyOps":
            return False
        return self.previous is not None or self.flag(b"partialTxn")

    @property
    def chain_name(self) -> str:
        """``session:number`` of the transaction or retryable write that it belongs to, as
        :attr:`OplogFilter.transaction` has it; empty for an entry without one. Raises Malformed."""
        session = self.session_text
        return f"{session}:{self.txn_number}" if session and self.txn_number is not None else ""

    @property
    def retryable(self) -> bool:
        """Whether it is a driver's retryable write: one statement on one document, as programs send them."""
        return self.linked and self.txn is None

    @property
    def commits(self) -> bool:
        """Whether this entry makes its transaction, or its batched write, take effect."""
        if self.txn is None:
            return self.chained and not self.flag(b"partialTxn")
        if self.command == "applyOps":
            return not (self.flag(b"partialTxn") or self.flag(b"prepare"))
        return self.command == "commitTransaction"

    @property
    def aborts(self) -> bool:
        """Whether this entry ends its transaction without effect."""
        return self.txn is not None and self.command == "abortTransaction"

    @property
    def session_and_user(self) -> tuple[bytes, bytes]:
        """The 16 bytes of the session's id and the hash of its user; empty where there are none."""
        return layout.session_and_user(self.session)

    @property
    def session_text(self) -> str:
        """The session's id as hex digits; empty without a session or where it is not readable."""
        found = walk.find(self.session, b"id") if self.session else None
        return self.session[found.start + 5 : found.end].hex() if found and found.type == walk.BINARY else ""


def read_entry(raw: bytes, start: int = 0, end: int | None = None) -> Entry:
    """Read the entry between ``start`` and ``end``. Raises Malformed for broken BSON."""
    end = walk.document_end(raw, start, end)
    session = raw[start + layout.OP_AT] == walk.DOCUMENT and layout.in_retryable_write(raw, start, end)
    write = layout.framed_write(raw, start, end, session=session)
    if write is not None:
        op, ns, ui, o, o_end, last, place, term, wall = write
        o_at, o2_at = Element(walk.DOCUMENT, b"o", o, o_end), None
        if last > o_end:
            o2_at = Element(walk.DOCUMENT, b"o2", o_end + len(_O2), last)
        entry = Entry(raw, end - start, Ts.of_number(place), term, op, ns, wall, b"", None, ui, o_at, o2_at)
        if session:
            entry.session, entry.txn_number = layout.lsid_in(raw, start), layout.txn_number(raw, start)
            number = layout.previous(raw, end)
            entry.previous = Ts.of_number(number) if number else None
        return entry
    found = layout.frame(raw, start, end)
    if found is not None:
        try:
            return _read_framed(raw, start, end, found)
        except Malformed:
            pass  # what looks like the first or last fields is a part of something else
    return parse_entry(raw, start, end)


_O2 = b"\x03o2\0"


def parse_entry(raw: bytes, start: int, end: int) -> Entry:
    """Read an entry element by element, in whatever order they are. Raises Malformed."""
    entry = Entry(raw, end - start)
    _read_fields(entry, raw, start + 4, end - 1)
    return entry


def _read_framed(raw: bytes, start: int, end: int, found: layout.Frame) -> Entry:
    op, rest, tail, place, term, _, wall = found
    at = op + layout.OP_TEXT
    kind = raw[at : at + 1].decode("utf-8", "replace")
    ns = raw[op + layout.NS_TEXT : rest - 1].decode("utf-8", "replace")
    entry = Entry(raw, end - start, Ts.of_number(place), term, kind, ns, wall)
    if op - start == layout.SESSION_OP_AT:
        entry.session, entry.txn_number = layout.lsid_in(raw, start), layout.txn_number(raw, start)
    entry.ui, entry.o_at, entry.o2_at, at = layout.documents_at(raw, rest, tail)
    if at < tail:
        _read_fields(entry, raw, at, tail)
        entry.ts, entry.term, entry.wall_millis = Ts.of_number(place), term, wall
    if tail < end - layout.TAIL:
        _read_fields(entry, raw, end - layout.PREVIOUS_AT, end - 1)
    return entry


def _read_fields(entry: Entry, raw: bytes, at: int, stop: int) -> None:
    for element in walk.elements_between(raw, at, stop):
        kind, name, start, end = element
        if name == b"o":
            entry.o_at = element
        elif name == b"o2":
            entry.o2_at = element
        elif name == b"ui" and kind == walk.BINARY:
            entry.ui = raw[start + 5 : end]
        elif name == b"ts" and kind == walk.TIMESTAMP:
            entry.ts = walk.timestamp(raw, start)
        elif name == b"t":
            entry.term = walk.whole_number(raw, element)
        elif name == b"op":
            entry.op = walk.text(raw, element)
        elif name == b"ns":
            entry.ns = walk.text(raw, element)
        elif name == b"wall" and kind == walk.DATE:
            entry.wall_millis = walk.millis(raw, start)
        elif name == b"lsid":
            entry.session = raw[start:end]
        elif name == b"txnNumber":
            entry.txn_number = walk.whole_number(raw, element)
        elif name == b"prevOpTime" and kind == walk.DOCUMENT:
            found = walk.find(raw, b"ts", start, end)
            ts = walk.timestamp(raw, found.start) if found is not None and found.type == walk.TIMESTAMP else ZERO
            entry.previous = None if ts == ZERO else ts
        elif name == b"multiOpType":
            entry.multi = walk.whole_number(raw, element) or 0
        elif name == b"fromMigrate":
            entry.from_migrate = kind == walk.BOOL and bool(raw[start])
        elif name in (b"needsRetryImage", b"preImageOpTime"):
            entry.keeps_image = True


def element_key(raw: bytes, found: Element | None) -> bytes:
    """One value as its type and its bytes; empty for none."""
    return b"" if found is None else bytes((found.type,)) + raw[found.start : found.end]


def _decoded(raw: bytes, element: Element | None) -> Mapping[str, Any]:
    if element is None or element.type != walk.DOCUMENT:
        return {}
    return walk.decode(raw, element.start, element.end)
