"""Which collections were inserted documents into that may be counters: for the others the window is not read again."""

from __future__ import annotations

import re
from collections.abc import Callable

from tallyglass.oplog.entry.entry import Entry
from tallyglass.restore.undo.counter_paths import search_for

_Search = Callable[[bytes, int, int], re.Match[bytes] | None]


class CounterInserts:
    """Feed the inserts of a window; ``found`` are the namespaces with one that may be a counter of a known library, by
    the names that the entries have."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._searches: dict[str, _Search | None] = {}

    def write(self, ns: str, batch: bytes, o: int) -> None:
        """Look at the document at ``o``."""
        try:
            search = self._searches[ns]
        except KeyError:
            search = self._searches[ns] = search_for(ns)
        if search is not None and search(batch, o, o + int.from_bytes(batch[o : o + 4], "little")):
            self.found.add(ns)
            self._searches[ns] = None

    def feed(self, entry: Entry) -> None:
        """Look at an entry of any kind."""
        for operation in entry.inner() if entry.command == "applyOps" else (entry,):
            if operation.op == "i" and operation.o_raw:
                self.write(operation.ns, operation.o_raw, 0)
