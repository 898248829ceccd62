"""The wanted entries of a batch, as bytes of their own."""

from __future__ import annotations

from tallyglass.oplog.decode.envelope import UNREADABLE, Walker
from tallyglass.oplog.decode.envelope import entries as split_entries
from tallyglass.oplog.decode.walk import Malformed
from tallyglass.oplog.filter.matcher import FilterMatcher
from tallyglass.oplog.filter.query import OplogFilter

_NO, _YES, _LOOK = 0, 1, 2


class EntrySelector:
    """Picks what a filter wants out of batches: by operation and namespace alone where that decides."""

    def __init__(self, wanted: OplogFilter) -> None:
        self._matcher = FilterMatcher(wanted)
        self._walker = Walker(self._judge)

    def select(self, batch: bytes) -> list[bytes]:
        """The wanted entries, in order. Bytes that are no entry are wanted: they must not pass unseen."""
        try:
            _, chosen = self._walker.tally(batch)
        except Malformed:
            return [raw for raw in split_entries(batch) if self._matcher.wants(raw)]
        found = []
        for start, end, envelope in chosen:
            raw = batch[start:end]
            if envelope.tag == _YES or self._matcher.wants(raw):
                found.append(raw)
        return found

    def _judge(self, op: str, ns: str, session: bool) -> int:
        if op in (UNREADABLE, "c", "n"):
            return _NO if op == "n" and not self._matcher.wanted.noops else _LOOK
        if not self._matcher.wants_envelope(op, ns):
            return _NO
        return _YES if self._matcher.by_envelope else _LOOK
