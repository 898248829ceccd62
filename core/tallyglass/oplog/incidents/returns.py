"""What a return of this program wrote into a collection: it says in the oplog when it begins and ends, and how many
updates it has to write."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import changes_of
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.incidents.burst import Burst

_STAGING = re.compile(r"(.+)_pitr_\d{8}T\d{6}(_\d+)?(_since)?\Z", re.DOTALL)
_KEPT = 1_000
"""The most collections of which is noted when returns wrote."""

_UPDATES = (b"n",)
"""Where ``writeRepairs`` in restore/tools/merge.js notes in its staging collection how many updates it has to write
before it begins, and what it removes when it has ended."""


def is_staging(ns: str) -> bool:
    """Whether a return loads its repairs there."""
    return _STAGING.match(ns) is not None


@dataclass(slots=True)
class Returns:
    """When returns wrote, by the collection into which they did, in any order of reading. Bounded."""

    _marks: dict[str, dict[int, int]] = field(default_factory=dict)
    """By timestamp: the updates that a return had to write from there on, 0 where it ended."""

    def note(self, entry: Entry) -> None:
        """Note an update of a staging collection, or its drop."""
        staging = _STAGING.match(entry.target if entry.op == "c" else entry.ns)
        if staging is None or len(self._marks) >= _KEPT:
            return
        changes = changes_of(entry.o_raw) if entry.op == "u" else {_UPDATES: None}
        if _UPDATES in changes:
            value = changes[_UPDATES]
            updates = 0 if value is None or value[0] != walk.INT32 else int.from_bytes(value[1], "little")
            self._marks.setdefault(staging[1], {})[entry.ts.number] = updates

    def wrote(self, ns: str, burst: Burst) -> bool:
        """Whether a return wrote all of these updates: it lies between a begin and the next mark, and has as many."""
        marks = self._marks.get(ns, {})
        places = sorted(marks)
        at = bisect_right(places, burst.first)
        return 0 < at < len(places) and burst.last < places[at] and burst.entries <= marks[places[at - 1]]
