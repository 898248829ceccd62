"""Large transactions as incidents: collects their entries, in either order, until all have arrived."""

from __future__ import annotations

from collections import OrderedDict

from tallyglass.oplog.entry.describe import summarize_operations
from tallyglass.oplog.entry.entry import Entry, Txn
from tallyglass.oplog.entry.operations import OPEN_LIMIT
from tallyglass.oplog.incidents.run import Run
from tallyglass.oplog.snapshot import Harm

LARGE = 100
"""The fewest operations of a transaction that is an incident; a fifth of that if it deletes."""


class TransactionRuns:
    """Transactions of which a part has been read, from either end. Bounded: the oldest known is forgotten first.

    A transaction takes effect with its last entry, or with the commit of a prepared one: that is its ``point``.
    """

    def __init__(self) -> None:
        self._begun: set[Txn] = set()
        self._open: OrderedDict[Txn, Run] = OrderedDict()

    def take(self, entry: Entry) -> None:
        """Note one applyOps of a transaction."""
        key = Txn(entry.session, entry.txn_number or 0)
        run = self._open.get(key) or self._begin(key, entry)
        inner = summarize_operations(entry)
        last = not entry.flag(b"partialTxn")
        run.add(entry.ts, entry.wall_millis, 1, inner.count)
        run.sessions, run.session, run.user_hash = 1, *entry.session_and_user
        if inner.ops["d"]:
            run.harm = Harm.LOSS
        if last:
            run.ns = inner.namespaces.most_common(1)[0][0] if inner.namespaces else entry.ns
            run.title = f"transaction on {inner.where}" if inner.where else "transaction"
            if not entry.flag(b"prepare"):
                run.point = entry.ts
        if entry.previous is None:
            self._begun.add(key)

    def take_end(self, entry: Entry, *, committed: bool) -> None:
        """Note the end of a prepared transaction, which has no effect if it was aborted."""
        if entry.txn_number is None:
            return
        key = Txn(entry.session, entry.txn_number)
        if not committed:
            self._open.pop(key, None)
            self._begun.discard(key)
            return
        run = self._open.get(key) or self._begin(key, entry)
        run.add(entry.ts, entry.wall_millis)
        run.point = entry.ts

    def take_complete(self) -> list[Run]:
        """The large ones of which both ends, and so everything in between, have been read; to be asked after each
        slice."""
        complete = [key for key in self._begun if key in self._open and self._open[key].point is not None]
        for key in complete:
            self._begun.discard(key)
        return [run for key in complete if _is_large(run := self._open.pop(key))]

    def with_known_end(self) -> list[Run]:
        """Large transactions whose end has been read, but not yet their beginning."""
        return [run for run in self._open.values() if run.point is not None and _is_large(run)]

    def _begin(self, key: Txn, entry: Entry) -> Run:
        wall = entry.wall_millis
        run = Run("transaction", entry.ns, Harm.CHANGE, "transaction", entry.ts, entry.ts, wall, wall)
        run.txn = entry.txn_number
        self._open[key] = run
        if len(self._open) > OPEN_LIMIT:
            self._begun.discard(self._open.popitem(last=False)[0])
        return run


def _is_large(run: Run) -> bool:
    size = run.documents or 0
    return size >= LARGE or (run.harm is Harm.LOSS and size >= LARGE // 5)
