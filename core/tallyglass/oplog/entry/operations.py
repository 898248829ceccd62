"""From entries to operations: those inside an applyOps, and transactions and batched writes of several entries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import NESTING_LIMIT, Entry, Txn

OPEN_LIMIT = 1_000
"""Unfinished transactions that a list counts at once; the oldest is forgotten when there are more."""


def operations_of(entry: Entry, depth: int = 0) -> Iterator[Entry]:
    """The operations of an entry: itself, or what its applyOps holds, to any depth that a server writes.

    Raises Malformed where an applyOps is damaged, after the operations before.
    """
    if entry.command == "applyOps" and depth < NESTING_LIMIT:
        for inner in entry.inner():
            yield from operations_of(inner, depth + 1)
    else:
        yield entry


class Transactions:
    """Puts operations in the order in which they take effect: those of a transaction with the entry that commits it.

    Feed it entries in order. ``open`` holds the entries so far of each transaction that has neither committed nor
    aborted. A batched write of several entries (:attr:`Entry.chained`) counts as one; its key has no session.
    """

    def __init__(self) -> None:
        self.open: dict[Txn, list[Entry]] = {}
        self._batches: dict[Ts, Txn] = {}
        """The keys of open batched writes by their last entry."""

    def key(self, entry: Entry) -> Txn | None:
        """What ``entry`` is one of several entries of; None if it stands alone."""
        if entry.txn is not None or not entry.chained:
            return entry.txn
        known = self._batches.get(entry.previous) if entry.previous is not None else None
        return known or Txn(b"", entry.ts.number)

    def begin(self, txn: Txn, parts: list[Entry]) -> None:
        """Add the entries of a transaction that came before the first one fed."""
        self.open[txn] = list(parts)

    def feed(self, entry: Entry) -> Iterator[tuple[Entry, Entry]]:
        """The operations that take effect with this entry, each with it: none for a part of a transaction that is not
        its last, nor for an aborted one. Raises Malformed."""
        for part in self.complete(entry):
            for operation in operations_of(part):
                if operation.txn is None:
                    yield operation, entry

    def complete(self, entry: Entry) -> list[Entry]:
        """The entries that take effect with this one: itself, or all entries of the transaction that it commits."""
        txn = self.key(entry)
        if txn is None:
            return [entry]
        parts = self.open.setdefault(txn, [])
        parts.append(entry)
        if not txn.session:
            if entry.previous is not None:
                self._batches.pop(entry.previous, None)
            if not entry.commits:
                self._batches[entry.ts] = txn
        if entry.aborts:
            del self.open[txn]
        elif entry.commits:
            return self.open.pop(txn)
        return []


@dataclass(slots=True)
class PartCount:
    """The entries of an unfinished transaction so far: how many, their operations, whether a filter wants any, and
    whether the first of them begins the transaction."""

    entries: int = 0
    operations: int = 0
    wanted: bool = False
    whole: bool = False


class PartCounts:
    """Counts the entries of transactions until the last, without holding them. Bounded."""

    def __init__(self) -> None:
        self._open: OrderedDict[Txn, PartCount] = OrderedDict()

    def add(self, entry: Entry, wanted: bool) -> PartCount | None:
        """Count an entry with :attr:`Entry.in_transaction`. None for all but the last one; for that, all together.
        Raises Malformed."""
        key = Txn(entry.session, entry.txn_number or 0)
        count = self._open.pop(key, None) or PartCount(whole=entry.previous is None)
        count.entries += 1
        count.operations += sum(1 for _ in entry.fields(entry.within(entry.o_at, b"applyOps")))
        count.wanted = count.wanted or wanted
        if not entry.flag(b"partialTxn"):
            return count
        self._open[key] = count
        if len(self._open) > OPEN_LIMIT:
            self._open.popitem(last=False)
        return None

    def clear(self) -> None:
        """Forget all: after a gap or a rollback the rest may never arrive."""
        self._open.clear()
