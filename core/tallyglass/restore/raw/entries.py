"""One oplog entry as the replay sees it: its envelope, with the links of its transaction and its document's id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tallyglass.moment import ZERO, Ts
from tallyglass.oplog.decode import walk
from tallyglass.oplog.decode.head import VECTORED_INSERT, Head, command_of, inner_heads, read_head
from tallyglass.oplog.decode.walk import Element

TXN_COMMANDS = frozenset({"applyOps", "commitTransaction", "abortTransaction"})


class Txn(NamedTuple):
    """A transaction: its session as raw BSON, and its number."""

    session: bytes
    number: int


@dataclass(frozen=True, slots=True)
class Entry:
    """``command`` is the first name in a ``c`` entry's ``o``, else empty. Names as stored, not safe to show."""

    head: Head
    command: str
    size: int

    @property
    def ts(self) -> Ts:
        """The entry's timestamp; that of the whole for an operation inside an applyOps."""
        return self.head.ts

    @property
    def term(self) -> int:
        """The election term it was written in."""
        return self.head.term or 0

    @property
    def op(self) -> str:
        """The server's letter."""
        return self.head.op

    @property
    def ns(self) -> str:
        """The namespace, as stored."""
        return self.head.ns

    @property
    def db(self) -> str:
        """The database part of the namespace."""
        return self.head.db

    @property
    def ui(self) -> bytes:
        """The collection's UUID; empty where there is none."""
        return self.head.ui

    @property
    def o(self) -> Mapping[str, Any]:
        """The document, the change, the key of a delete, or the command: decoded each time."""
        return _decoded(self.head, self.head.o)

    @property
    def o_raw(self) -> bytes:
        """The same, undecoded; empty where there is none."""
        found = self.head.o
        return b"" if found is None else self.head.raw[found.start : found.end]

    @property
    def records(self) -> int | None:
        """How many documents a command says that it removed (``o2.numRecords``); None where it does not."""
        found = self.head.within(self.head.o2, b"numRecords")
        return None if found is None else walk.whole_number(self.head.raw, found)

    @property
    def replaced(self) -> bytes:
        """The UUID of the collection that a rename drops; empty where it drops none."""
        target = self.o.get("dropTarget") if self.command == "renameCollection" else None
        return bytes(target) if isinstance(target, bytes) else b""

    @property
    def linked(self) -> bool:
        """Whether it is part of a session's chain: a transaction or a retryable write."""
        return bool(self.head.session) and self.head.txn is not None

    @property
    def txn(self) -> Txn | None:
        """The transaction that it is an entry of. A vectored insert is none, though it looks like one."""
        if self.op != "c" or not self.linked or self.command not in TXN_COMMANDS or self.head.multi == VECTORED_INSERT:
            return None
        return Txn(self.head.session, self.head.txn or 0)

    @property
    def retryable(self) -> bool:
        """Whether it is a driver's retryable write: one statement on one document, as programs send them."""
        return self.linked and self.txn is None

    @property
    def previous(self) -> Ts | None:
        """The entry before it in its chain; None at the beginning."""
        return None if self.head.previous in (None, ZERO) else self.head.previous

    @property
    def commits(self) -> bool:
        """Whether this entry makes its transaction take effect."""
        if self.txn is None:
            return False
        if self.command == "applyOps":
            return not (self.head.flag(b"partialTxn") or self.head.flag(b"prepare"))
        return self.command == "commitTransaction"

    @property
    def aborts(self) -> bool:
        """Whether this entry ends its transaction without effect."""
        return self.txn is not None and self.command == "abortTransaction"

    @property
    def id_key(self) -> bytes:
        """The ``_id`` that an insert, update or delete is about, as comparable bytes."""
        return element_key(self.head.raw, self.head.document_id)

    @property
    def document_id(self) -> Any:
        """The same, decoded; None where there is none."""
        found = self.head.document_id
        return None if found is None else walk.value(self.head.raw, found)

    @property
    def inner(self) -> Iterator[Entry]:
        """The operations inside an applyOps, in order."""
        if self.command == "applyOps":
            for head in inner_heads(self.head):
                yield _entry(head, 0)


def read(raw: bytes) -> Entry:
    """One entry. Raises :class:`tallyglass.oplog.decode.walk.Malformed` for broken BSON."""
    return _entry(read_head(raw), len(raw))


def element_key(raw: bytes, found: Element | None) -> bytes:
    """One value as its type and its bytes; empty for none."""
    return b"" if found is None else bytes((found.type,)) + raw[found.start : found.end]


def _entry(head: Head, size: int) -> Entry:
    first = command_of(head) if head.op == "c" else None
    return Entry(head, first.name.decode("utf-8", "replace") if first else "", size)


def _decoded(head: Head, element: Element | None) -> Mapping[str, Any]:
    if element is None or element.type != walk.DOCUMENT:
        return {}
    return walk.decode(head.raw, element.start, element.end)
