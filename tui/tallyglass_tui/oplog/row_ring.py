"""The rows of the tail: bounded in number and bytes, and unchanged while the user reads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tallyglass.oplog.snapshot import OplogRow
from tallyglass_tui import format as fmt

ROWS = 2_500
"""Rows to scroll through, and as many that wait while another page is shown: a row takes 0.85 kB, the two 4 MB of the
80 MB of the dashboard. ``t`` reads older ones again."""
BYTES = 8_000_000
"""The most bytes of raw entries, without the rows themselves."""
LARGEST = BYTES // 4
"""The most bytes of an entry that arrives: a larger one is shown without its document, which would push out all others;
``t`` with its timestamp reads it."""


@dataclass(slots=True)
class RowRing:
    """``rows`` is what the user can scroll through. While ``held`` it does not change: new rows wait, and the newest
    are kept.

    ``lost`` counts rows that never reached ``rows``, so that a gap in the view is always reported.
    """

    rows: list[OplogRow] = field(default_factory=list)
    held: bool = False
    lost: int = 0
    _lost_before: int = 0
    _waiting: deque[OplogRow] = field(default_factory=deque)
    _bytes: int = 0
    _waiting_bytes: int = 0

    def add(self, rows: Iterable[OplogRow], dropped: int = 0) -> int:
        """Add rows, oldest first; ``dropped`` rows were left out before them. Returns how many old rows were
        removed."""
        self.lost += dropped
        for row in rows:
            size = len(row.raw)
            if size > LARGEST:
                row, size = replace(row, raw=b"", what=f"large, {fmt.size(size)}: {row.what}"), 0
            self._waiting.append(row)
            self._waiting_bytes += size
        while len(self._waiting) > ROWS or self._waiting_bytes > BYTES:
            self._waiting_bytes -= len(self._waiting.popleft().raw)
            self.lost += 1
        return 0 if self.held else self._settle()

    def hold_past(self, rows: Sequence[OplogRow]) -> None:
        """Hold past rows in place of all others: from the first, which was asked for, as many as the bounds allow."""
        self.clear()
        for row in rows[:ROWS]:
            self._bytes += len(row.raw)
            if self._bytes > BYTES and self.rows:
                self._bytes -= len(row.raw)
                break
            self.rows.append(row)
        self.hold()

    @property
    def new(self) -> int:
        """The number of waiting rows, including lost ones."""
        return len(self._waiting) + (self.lost - self._lost_before if self.held else 0)

    def hold(self) -> None:
        """Hold the rows still."""
        if not self.held:
            self.held, self._lost_before = True, self.lost

    def release(self) -> None:
        """Accept the waiting rows."""
        self.held = False
        self._settle()

    def clear(self) -> None:
        """Remove all rows and counts."""
        self.rows.clear()
        self._waiting.clear()
        self._bytes = self._waiting_bytes = self.lost = self._lost_before = 0
        self.held = False

    def _settle(self) -> int:
        self.rows += self._waiting
        self._bytes += self._waiting_bytes
        self._waiting.clear()
        self._waiting_bytes = 0
        removed = max(0, len(self.rows) - ROWS)
        self._bytes -= sum(len(row.raw) for row in self.rows[:removed])
        while self._bytes > BYTES:
            self._bytes -= len(self.rows[removed].raw)
            removed += 1
        del self.rows[:removed]
        return removed
