"""Transactions as incidents: collects their entries, in either order, until all have arrived."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from sys import maxsize

from tallyglass.oplog.entry.describe import AppliedOperations, summarize_operations
from tallyglass.oplog.entry.entry import Entry, Txn
from tallyglass.oplog.entry.operations import OPEN_LIMIT
from tallyglass.oplog.incidents.burst import MANY
from tallyglass.oplog.incidents.rows import joined, row_of
from tallyglass.oplog.snapshot import Harm, Incident
from tallyglass.text import clean_name


@dataclass(slots=True)
class _OpenTransaction:
    """A transaction of which a part has been read: its row so far, what its entries hold, and whether they begin it."""

    row: Incident
    inner: AppliedOperations = field(default_factory=AppliedOperations)
    begun: bool = False

    @property
    def does_harm(self) -> bool:
        """Whether it changes or removes documents: of one that only inserts there is nothing to undo."""
        return bool(self.inner.ops["u"] or self.inner.ops["d"])


class TransactionRuns:
    """Transactions of which a part has been read, from either end. Bounded: the oldest known is forgotten first.

    A transaction takes effect with its last entry, or with the commit of a prepared one: that is its ``point``.
    """

    def __init__(self) -> None:
        self._open: dict[Txn, _OpenTransaction] = {}

    def take(self, entry: Entry) -> None:
        """Note one applyOps of a transaction."""
        own, (session, user) = summarize_operations(entry, maxsize), entry.session_and_user
        run = self._with(entry, own.count)
        inner = run.inner
        inner.ops.update(own.ops)
        inner.namespaces.update(own.namespaces)
        ns, title = inner.most or entry.ns, f"transaction on {inner.where}" if inner.where else "transaction"
        whole = not (entry.flag(b"partialTxn") or entry.flag(b"prepare"))
        run.row = replace(
            run.row, ns=clean_name(ns, 255), title=title, sessions=1, session=session.hex(), user_hash=user.hex(),
            harm=Harm.LOSS if inner.ops["d"] else Harm.CHANGE, point=entry.ts if whole else run.row.point,
        )  # fmt: skip
        run.begun |= entry.previous is None

    @property
    def is_full(self) -> bool:
        """Whether the next one displaces another."""
        return len(self._open) >= OPEN_LIMIT

    def take_end(self, entry: Entry, *, committed: bool) -> None:
        """Note the end of a prepared transaction, which has no effect if it was aborted."""
        if entry.txn_number is None:
            return
        if committed:
            run = self._with(entry, None)
            run.row = replace(run.row, point=entry.ts)
        else:
            self._open.pop(_key(entry), None)

    def take_complete(self) -> list[Incident]:
        """Those that do harm of which both ends, and so everything in between, have been read; to be asked after each
        slice."""
        complete = [key for key, run in self._open.items() if run.begun and run.row.point is not None]
        return [run.row for run in map(self._open.pop, complete) if run.does_harm]

    def with_known_end(self) -> list[Incident]:
        """Large transactions that do harm whose end has been read, but not yet their beginning."""
        rows = [run.row for run in self._open.values() if run.does_harm]
        return [row for row in rows if row.point is not None and (row.documents or 0) >= MANY]

    def _with(self, entry: Entry, operations: int | None) -> _OpenTransaction:
        """The transaction of an entry with this entry."""
        own = row_of(entry, "transaction", Harm.CHANGE, "transaction", entry.ns, operations)
        run = self._open.get(_key(entry))
        if run is not None:
            run.row = joined(run.row, own)
            return run
        if self.is_full:
            del self._open[next(iter(self._open))]
        run = self._open[_key(entry)] = _OpenTransaction(replace(own, txn=entry.txn_number))
        return run


def _key(entry: Entry) -> Txn:
    return Txn(entry.session, entry.txn_number or 0)
