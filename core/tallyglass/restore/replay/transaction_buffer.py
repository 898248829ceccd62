"""Operations in the order in which they take effect: those of a transaction with the entry that commits it."""

from __future__ import annotations

from collections.abc import Iterator

from tallyglass.restore.raw.entries import Entry, Txn


class TransactionBuffer:
    """Feed entries in order; it yields each operation with the entry at whose ``ts`` it takes effect."""

    def __init__(self) -> None:
        self._parts: dict[Txn, list[Entry]] = {}

    def begin(self, txn: Txn, parts: list[Entry]) -> None:
        """Add the entries of a transaction that came before the first one fed."""
        self._parts[txn] = list(parts)

    def feed(self, entry: Entry) -> Iterator[tuple[Entry, Entry]]:
        """The operations that take effect with this entry: none for a part of a transaction or an aborted one."""
        for part in self.complete(entry):
            yield from _flat(part, entry)

    def complete(self, entry: Entry) -> list[Entry]:
        """The entries that take effect with this one: itself, or all entries of the transaction that it commits."""
        txn = entry.txn
        if txn is None:
            return [entry]
        parts = self._parts.setdefault(txn, [])
        parts.append(entry)
        if entry.aborts:
            del self._parts[txn]
        elif entry.commits:
            return self._parts.pop(txn)
        return []


def _flat(entry: Entry, whole: Entry) -> Iterator[tuple[Entry, Entry]]:
    if entry.command == "applyOps":
        for inner in entry.inner:
            yield from _flat(inner, whole)
    elif entry.txn is None or entry.op != "c":
        yield entry, whole
