"""Large transactions as incidents: collects their entries, in either order, until all have arrived."""

from __future__ import annotations

from collections import OrderedDict

from tallyglass.moment import ZERO
from tallyglass.oplog.decode.describe import summarize_operations
from tallyglass.oplog.decode.head import Head, session_and_user
from tallyglass.oplog.incidents.run import Run
from tallyglass.oplog.snapshot import Harm

OPEN_LIMIT = 1_000
LARGE = 100
"""The fewest operations of a transaction that is an incident; a fifth of that if it deletes."""


class TransactionRuns:
    """Transactions that are still incomplete. Bounded: the one that began first is forgotten first.

    A transaction takes effect with its last entry, or with the commit of a prepared one: that is its ``point``.
    """

    def __init__(self, *, backward: bool) -> None:
        self.backward = backward
        self._open: OrderedDict[tuple[bytes, int], Run] = OrderedDict()

    def take(self, head: Head) -> Run | None:
        """Note one applyOps of a transaction. Returns the run once the transaction is complete, if it is large."""
        assert head.txn is not None
        key = (head.session, head.txn)
        run = self._open.get(key) or self._begin(key, head)
        inner = summarize_operations(head)
        last = not head.flag(b"partialTxn")
        run.add(head.ts, head.wall_millis, 1, inner.count)
        run.sessions, run.session, run.user_hash = 1, *session_and_user(head)
        if inner.ops["d"]:
            run.harm = Harm.LOSS
        if last:
            run.ns = inner.namespaces.most_common(1)[0][0] if inner.namespaces else head.ns
            run.title = f"transaction on {inner.where}" if inner.where else "transaction"
            if not head.flag(b"prepare"):
                run.point = head.ts
        begun = head.previous in (None, ZERO)
        if run.point is not None and (begun if self.backward else last):
            return self._end(key)
        return None

    def take_end(self, head: Head, *, committed: bool) -> Run | None:
        """Note the end of a prepared transaction, which has no effect if it was aborted."""
        if head.txn is None:
            return None
        key = (head.session, head.txn)
        if not committed:
            self._open.pop(key, None)
            return None
        if key not in self._open and not self.backward:
            return None
        run = self._open.get(key) or self._begin(key, head)
        run.add(head.ts, head.wall_millis)
        run.point = head.ts
        return None if self.backward else self._end(key)

    def whole_enough(self) -> list[Run]:
        """Transactions whose end is known, but not their beginning."""
        return [run for run in self._open.values() if run.point is not None and _is_large(run)]

    def _begin(self, key: tuple[bytes, int], head: Head) -> Run:
        wall = head.wall_millis
        run = Run("transaction", head.ns, Harm.CHANGE, "transaction", head.ts, head.ts, wall, wall)
        run.txn = head.txn
        self._open[key] = run
        if len(self._open) > OPEN_LIMIT:
            self._open.popitem(last=False)
        return run

    def _end(self, key: tuple[bytes, int]) -> Run | None:
        run = self._open.pop(key)
        return run if _is_large(run) else None


def _is_large(run: Run) -> bool:
    size = run.documents or 0
    return size >= LARGE or (run.harm is Harm.LOSS and size >= LARGE // 5)
