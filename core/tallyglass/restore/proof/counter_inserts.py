"""Which collections were counters inserted into: for the others the window is not read again."""

from __future__ import annotations

import re
from collections.abc import Callable

from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.entry import Entry
from tallyglass.restore.undo.counter_paths import counter_paths, search_for

_Search = Callable[[bytes, int, int], re.Match[bytes] | None]


class CounterInserts:
    """Feed the inserts of a window; ``found`` are the namespaces with one that is a counter of a known library, by
    the names that the entries have."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._searches: dict[str, _Search | None] = {}

    def write(self, ns: str, batch: bytes, o: int) -> None:
        """Record the namespace if the document at ``o`` is a counter."""
        try:
            search = self._searches[ns]
        except KeyError:
            search = self._searches[ns] = search_for(ns)
        if search is None:
            return
        end = walk.document_end(batch, o)
        # The bytes of other values match by chance: among 100,000 documents some do.
        if search(batch, o, end) and counter_paths(ns, batch[o:end]):
            self.found.add(ns)
            self._searches[ns] = None

    def feed(self, entry: Entry) -> None:
        """Record the namespaces of the counters that an entry of any kind inserts."""
        for operation in entry.inner() if entry.command == "applyOps" else (entry,):
            if operation.op == "i" and operation.o_raw:
                self.write(operation.ns, operation.o_raw, 0)
