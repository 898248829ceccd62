"""What explains writes, so that no statistics are needed: definitions of collections, and returns of this program.

Nothing here depends on the order in which the oplog is read.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass, field

from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import changes_of
from tallyglass.oplog.entry.entry import Entry
from tallyglass.oplog.entry.walk import Element
from tallyglass.oplog.incidents.burst import Burst

DEFINITIONS_LIMIT = 20_000
"""The most collections of which something is remembered."""

_STAGING = re.compile(r"(.+)_pitr_\d{8}T\d{6}(_\d+)?(_since)?\Z", re.DOTALL)

_RETURNS_LIMIT = 1_000
"""The most collections of which is noted when returns wrote."""

_UPDATES = (b"n",)
"""Where ``writeRepairs`` in restore/tools/merge.js notes in its staging collection how many updates it has to write
before it begins, and what it removes when it has ended."""


def is_staging(ns: str) -> bool:
    """Whether a return loads its repairs there."""
    return _STAGING.match(ns) is not None


def result_of(entry: Entry) -> str:
    """The namespace that a command leaves: the new name of a renamed collection."""
    return entry.target if entry.within(entry.o_at, b"to") is None else entry.text_in(entry.o_at, b"to")


@dataclass(slots=True)
class Explanations:
    """Which collections have a TTL or are capped, and since when, as far as the oplog shows; and when returns wrote.

    Today's definition may not have applied when an entry was written: ``since`` is the newest ``ts`` at which a
    collection was created, renamed into place, or given a TTL index. Clustered and time-series collections have
    ``expireAfterSeconds`` themselves, without an index.
    """

    ttl: set[str] = field(default_factory=set)
    capped: set[str] = field(default_factory=set)
    since: dict[str, int] = field(default_factory=dict)
    ttl_millis: int = 0
    """How often the server looks for what has expired (``ttlMonitorSleepSecs``); 0 if that is not known."""

    _returns: dict[str, dict[int, int]] = field(default_factory=dict)
    """By namespace and timestamp: the updates that a return had to write from there on, 0 where it ended."""

    def learn(self, entry: Entry) -> None:
        """Record what a command defines."""
        command, ns = entry.command, entry.target
        if len(self.since) >= DEFINITIONS_LIMIT:
            return
        if command == "create":
            if entry.flag(b"capped"):
                self.capped.add(ns)
            if _expires(entry, entry.o_at):
                self.ttl.add(ns)
        elif command == "renameCollection":
            ns = result_of(entry)
        elif command in ("createIndexes", "commitIndexBuild", "collMod"):
            if not any(_expires(entry, spec) for spec in entry.index_specs()):
                return
            self.ttl.add(ns)
            if command == "collMod":
                return  # what expired before did so as well, only at another age
        else:
            return
        self.since[ns] = max(self.since.get(ns, 0), entry.ts.number)

    def note_return(self, entry: Entry) -> None:
        """Note an update of a return's staging collection, or its drop."""
        staging = _STAGING.match(entry.target if entry.op == "c" else entry.ns)
        if staging is None or len(self._returns) >= _RETURNS_LIMIT:
            return
        changes = changes_of(entry.o_raw) if entry.op == "u" else {_UPDATES: None}
        if _UPDATES in changes:
            value = changes[_UPDATES]
            updates = 0 if value is None or value[0] != walk.INT32 else int.from_bytes(value[1], "little")
            self._returns.setdefault(staging[1], {})[entry.ts.number] = updates

    def by_return(self, ns: str, burst: Burst) -> bool:
        """Whether a return wrote all of these updates: it lies between a begin and the next mark, and has as many."""
        marks = self._returns.get(ns, {})
        places = sorted(marks)
        at = bisect_right(places, burst.first)
        return 0 < at < len(places) and burst.last < places[at] and burst.entries <= marks[places[at - 1]]


def _expires(entry: Entry, spec: Element | None) -> bool:
    """Whether an index or a collection lets documents expire; ``"off"`` means that it no longer does."""
    found = entry.within(spec, b"expireAfterSeconds")
    return found is not None and found.type != walk.STRING
