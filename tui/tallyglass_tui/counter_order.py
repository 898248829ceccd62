"""Which counters are shown, and in which order: filtered, sorted, and calm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tallyglass.counters.snapshot import Counter
from tallyglass_tui.counter_cells import SORTS, level, name, sort_key

_CALM_SECONDS = 10.0
"""How long an order is kept while the same counters are there: rows that swap places each second cannot be read."""


_GRADED = 5_000
"""More counters than these keep the order of the snapshot, which is nearly the same: grading each takes its time."""


@dataclass(slots=True)
class Order:
    """The filter, the column sorted by, and the order that follows from both."""

    by: str = SORTS[0]
    descending: bool = False
    words: tuple[str, ...] = ()
    rows: tuple[Counter, ...] = ()
    _ranks: dict[str, int] = field(default_factory=dict)
    _sorted_at: datetime | None = None

    def take(self, counters: Sequence[Counter], now: datetime) -> None:
        """Filter and order ``counters``, which come most urgent first."""
        shown = [counter for counter in counters if self._wanted(counter)]
        fresh = self._sorted_at is not None and (now - self._sorted_at).total_seconds() < _CALM_SECONDS
        if fresh and len(shown) == len(self._ranks) and all(counter.key in self._ranks for counter in shown):
            ranks = self._ranks
            shown.sort(key=lambda counter: ranks[counter.key])
        else:
            if self.by != SORTS[0]:
                shown.sort(key=sort_key(self.by, now))
            elif len(shown) <= _GRADED:
                shown.sort(key=lambda counter: -level(counter, now))
            if self.descending:
                shown.reverse()
            self._ranks = {counter.key: rank for rank, counter in enumerate(shown)}
            self._sorted_at = now
        self.rows = tuple(shown)

    def sort_by(self, by: str) -> None:
        """Sort by another column from the next :meth:`take` on."""
        self.by, self._sorted_at = by, None

    def reverse(self) -> None:
        """Turn the order round."""
        self.descending, self._sorted_at = not self.descending, None

    def filter(self, text: str) -> None:
        """Keep what holds every word of ``text`` in its name, library or flags; ``!word`` what does not hold it."""
        self.words, self._sorted_at = tuple(text.lower().split()), None

    def _wanted(self, counter: Counter) -> bool:
        if not self.words:
            return True
        text = f"{name(counter)} {counter.library} {counter.shape} {' '.join(counter.flags)}".lower()
        return all((word[1:] not in text) if word.startswith("!") else (word in text) for word in self.words)
