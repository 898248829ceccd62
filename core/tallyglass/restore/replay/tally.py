"""Which documents a replay touches, and which of them exist at its end: enough to count without the whole data."""

from __future__ import annotations

from tallyglass.restore.raw.entries import Entry
from tallyglass.restore.replay.catalog import Catalog, Collection

MOST_TOUCHED = 2_000_000
"""Ids that are kept in memory to count documents; beyond it counts are not computed."""


class Tally:
    """Kept in the collections of a catalog, so that it moves with them when they are renamed."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._touched = 0
        self._counting = True

    def touch(self, found: Collection, entry: Entry, *, top: bool) -> None:
        """Note that one document was written, and whether it exists now."""
        if found.touched is None or not self._counting:
            return
        key = entry.id_key
        if key not in found.touched:
            self._touched += 1
            if entry.op == "u":
                found.unborn[key] = []
            if self._touched > MOST_TOUCHED:
                self._stop()
                return
        if entry.op == "u" and key in found.unborn and found.touched.get(key, True):
            found.unborn[key].append(entry.ts.t << 32 | entry.ts.i if top else 0)
        found.touched[key] = entry.op != "d"
        if entry.op == "i":
            found.unborn.pop(key, None)

    def give_up(self, item: Collection) -> None:
        """Count its documents no more: not all that happens to them is in the entries."""
        item.touched = None
        item.unborn.clear()

    def _stop(self) -> None:
        self._counting = False
        for item in self._catalog.collections.values():
            self.give_up(item)
