"""The documents that others wrote to a collection that is replaced, in a temporary file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from enum import IntEnum
from typing import NamedTuple

from tallyglass.errors import ReadError
from tallyglass.moment import ZERO, Ts
from tallyglass.mongo.gateway import Gateway
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.read.entries import operations, reaches_back
from tallyglass.restore.model.undo import Return
from tallyglass.restore.undo.counter_paths import counter_paths
from tallyglass.restore.undo.temporary import temporary_tables
from tallyglass.restore.undo.values import updated


class OthersDid(IntEnum):
    """What others did to a document before the names changed."""

    THEIRS = 0
    """They inserted it, and it was there in the end; without a document where one of their updates does not fit."""
    GONE = 1
    """They inserted it and deleted it."""
    CHANGED = 2
    """They changed or deleted what the accident had left."""


class LoggedWrite(NamedTuple):
    """One operation on a document; ``o`` is empty for a delete."""

    op: str
    o: bytes


class Written(NamedTuple):
    """One document that others wrote: its ``_id`` as a type byte and the value's bytes, the document as they inserted
    it, as they left it, and as it was carried over before the names changed (None where there was none), the last
    operation before that, and all operations since."""

    key: bytes
    fate: OthersDid
    inserted: bytes | None
    document: bytes | None
    carried: bytes | None
    last: LoggedWrite
    later: list[LoggedWrite]


class Ledger:
    """The documents that others wrote, in a temporary file. What was written up to ``seen`` was carried over before the
    names changed."""

    def __init__(self, ns: str, seen: Ts) -> None:
        self._ns, self._seen = ns, seen
        self._rows = temporary_tables()
        self._rows.execute(
            "CREATE TABLE written (id BLOB PRIMARY KEY, fate INTEGER, inserted BLOB, document BLOB, carried BLOB,"
            " op TEXT, o BLOB)"
        )
        self._rows.execute("CREATE TABLE later (n INTEGER PRIMARY KEY, id BLOB, op TEXT, o BLOB)")
        self._rows.execute("CREATE INDEX by_id ON later (id)")
        self._rows.execute("BEGIN")

    def close(self) -> None:
        """Remove the temporary file."""
        self._rows.close()

    def before(self, operation: LoggedWrite, key: bytes, ts: Ts) -> None:
        """Store an operation before the names changed. Raises Malformed for broken BSON."""
        query = "SELECT fate, inserted, document, carried FROM written WHERE id = ?"
        held, inserted, document, carried = self._rows.execute(query, (key,)).fetchone() or (None, None, None, None)
        fate = OthersDid.CHANGED
        if operation.op == "i":
            fate, inserted, document = OthersDid.THEIRS, operation.o, operation.o
        elif held == OthersDid.THEIRS and operation.op == "d":
            fate, document = OthersDid.GONE, None
        elif held == OthersDid.THEIRS:
            fate, document = OthersDid.THEIRS, updated(document, operation.o)
        carried = document if ts <= self._seen else carried
        row = (key, fate, inserted, document, carried, *operation)
        self._rows.execute("INSERT OR REPLACE INTO written VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def staged(self, operation: LoggedWrite, key: bytes) -> None:
        """Store an operation on the copy before the names changed, by which something was carried over."""
        (carried,) = self._rows.execute("SELECT carried FROM written WHERE id = ?", (key,)).fetchone() or (b"",)
        if operation.op == "i":
            carried = operation.o
        elif carried:
            carried = updated(carried, operation.o)
        self._rows.execute("UPDATE written SET carried = ? WHERE id = ?", (carried, key))

    def after(self, operation: LoggedWrite, key: bytes) -> None:
        """Store an operation after the names changed."""
        self._rows.execute("INSERT INTO later (id, op, o) VALUES (?, ?, ?)", (key, *operation))

    def __iter__(self) -> Iterator[Written]:
        for key, fate, inserted, document, carried, op, o in self._rows.execute("SELECT * FROM written ORDER BY id"):
            rows = self._rows.execute("SELECT op, o FROM later WHERE id = ? ORDER BY n", (key,))
            later = [LoggedWrite(*one) for one in rows]
            if inserted and later[:1] == [LoggedWrite("i", inserted)] and not counter_paths(self._ns, inserted):
                carried, later = inserted, later[1:]  # joined by the step that changed the names
            yield Written(key, OthersDid(fate), inserted, document, carried, LoggedWrite(op, o), later)


async def read_ledger(source: Gateway, row: Return, since: Ts, returned: bytes, seen: Ts) -> Ledger:
    """What others wrote to the collection from ``since`` on. ``returned`` is the UUID of the one that came back, as
    ``_target`` gives it. Raises the errors of the gateway, and ReadError where the oplog no longer reaches back to
    ``since``."""
    ledger = Ledger(row.ns, seen)
    async for entry, whole in _writes(source, row.ns, since):
        operation = LoggedWrite(entry.op, b"" if entry.op == "d" else entry.o_raw)
        if returned and entry.ui == returned:
            ledger.after(operation, entry.id_key)
        else:
            ledger.before(operation, entry.id_key, whole.ts)
    if returned and seen > ZERO:
        async for entry, _ in _writes(source, row.beside, seen):
            if entry.ui == returned and entry.op != "d":
                ledger.staged(LoggedWrite(entry.op, entry.o_raw), entry.id_key)
    if not await reaches_back(source, since):
        ledger.close()
        raise ReadError(
            "The oplog does not reach back to the point any more: what others wrote since is unknown.",
            "Plan again from a saved oplog (--oplog), or compare manually.",
        )
    return ledger


async def _writes(source: Gateway, ns: str, since: Ts) -> AsyncIterator[tuple[Entry, Entry]]:
    """The writes to one collection, each with the entry at which it takes effect."""
    async for entry, whole in operations(source, ns, since):
        if entry.op in ("i", "u", "d"):
            yield entry, whole
