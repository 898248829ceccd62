"""Transactions as incidents: collects their entries, in either order, until all have arrived."""

from __future__ import annotations

from dataclasses import replace
from sys import maxsize

from tallyglass.oplog.entry.describe import AppliedOperations, summarize_operations
from tallyglass.oplog.entry.entry import Entry, Txn
from tallyglass.oplog.entry.operations import OPEN_LIMIT
from tallyglass.oplog.incidents.burst import MANY
from tallyglass.oplog.incidents.rows import joined, row_of
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.text import clean_name


class TransactionRuns:
    """Transactions of which a part has been read, from either end. Bounded: the oldest known is forgotten first.

    A transaction takes effect with its last entry, or with the commit of a prepared one: that is its ``point``.
    """

    def __init__(self) -> None:
        self._begun: set[Txn] = set()
        self._open: dict[Txn, Incident] = {}
        self._inner: dict[Txn, AppliedOperations] = {}
        """What the entries read so far of each that is open hold."""

    def take(self, entry: Entry) -> None:
        """Note one applyOps of a transaction."""
        key, own, (session, user) = _key(entry), summarize_operations(entry, maxsize), entry.session_and_user
        row = self._with(entry, own.count)
        inner = self._inner.setdefault(key, AppliedOperations())
        inner.ops.update(own.ops)
        inner.namespaces.update(own.namespaces)
        ns, title = inner.most or entry.ns, f"transaction on {inner.where}" if inner.where else "transaction"
        row = replace(row, ns=clean_name(ns, 255), title=title, sessions=1, session=session.hex(), user_hash=user.hex())
        if inner.ops["d"]:
            row = replace(row, harm=Harm.LOSS)
        if not (entry.flag(b"partialTxn") or entry.flag(b"prepare")):
            row = replace(row, point=entry.ts)
        self._open[key] = row
        if entry.previous is None:
            self._begun.add(key)

    @property
    def is_full(self) -> bool:
        """Whether the next one displaces another."""
        return len(self._open) >= OPEN_LIMIT

    def take_end(self, entry: Entry, *, committed: bool) -> None:
        """Note the end of a prepared transaction, which has no effect if it was aborted."""
        if entry.txn_number is None:
            return
        key = _key(entry)
        if committed:
            self._open[key] = replace(self._with(entry, None), point=entry.ts)
        else:
            self._forget(key)

    def take_complete(self) -> list[Incident]:
        """Those of which both ends, and so everything in between, have been read; to be asked after each slice."""
        complete = [key for key in self._begun if key in self._open and self._open[key].point is not None]
        found = [self._open[key] for key in complete]
        for key in complete:
            self._forget(key)
        return found

    def with_known_end(self) -> list[Incident]:
        """Large transactions whose end has been read, but not yet their beginning."""
        return [row for row in self._open.values() if row.point is not None and (row.documents or 0) >= MANY]

    def _with(self, entry: Entry, operations: int | None) -> Incident:
        """The transaction of an entry with this entry."""
        own = row_of(entry, "transaction", Harm.CHANGE, "transaction", entry.ns, operations)
        before = self._open.get(_key(entry))
        if before is not None:
            return joined(before, own)
        if len(self._open) >= OPEN_LIMIT:
            self._forget(next(iter(self._open)))
        return replace(own, txn=entry.txn_number)

    def _forget(self, key: Txn) -> None:
        self._open.pop(key, None)
        self._inner.pop(key, None)
        self._begun.discard(key)


def _key(entry: Entry) -> Txn:
    return Txn(entry.session, entry.txn_number or 0)
