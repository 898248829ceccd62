"""Which counters are shown, and in which order: filtered, sorted, and stable for some seconds. Pure; thread-safe."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tallyglass.counters.snapshot import CounterView
from tallyglass_tui.counters.cells import SORTS, level, name, sort_key

_CALM_SECONDS = 10.0
"""How long an order is kept for the same counters: rows that swap places each second cannot be read."""
_RUN = 1_000
"""Rows sorted at once, without giving other threads a turn."""


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The filter, the column sorted by, and the direction."""

    by: str = SORTS[0]
    descending: bool = False
    words: tuple[str, ...] = ()

    def wants(self, counter: CounterView) -> bool:
        """Whether every word is in its name, library or flags; a ``!word`` is not."""
        if not self.words:
            return True
        text = f"{name(counter)} {counter.library} {counter.shape} {' '.join(counter.flags)}".lower()
        return all((word[1:] not in text) if word.startswith("!") else (word in text) for word in self.words)


@dataclass(frozen=True, slots=True)
class ArrangedRows:
    """The rows in an order, their keys, and when they were sorted."""

    order: RowOrder = RowOrder()
    rows: tuple[CounterView, ...] = ()
    keys: tuple[str, ...] = ()
    sorted_at: datetime | None = None
    ranks: Mapping[str, int] = field(default_factory=dict)


def words_of(text: str) -> tuple[str, ...]:
    """The words of a filter."""
    return tuple(text.lower().split())


def arrange(counters: Sequence[CounterView], order: RowOrder, before: ArrangedRows, now: datetime) -> ArrangedRows:
    """Filter and order ``counters``, which come most urgent first; as ``before`` while that is fresh."""
    shown = [counter for counter in counters if order.wants(counter)] if order.words else list(counters)
    calm = before.sorted_at is not None and (now - before.sorted_at).total_seconds() < _CALM_SECONDS
    kept = _in_places(shown, before.ranks) if calm and order == before.order else None
    if kept is not None:
        return ArrangedRows(order, tuple(kept), before.keys, before.sorted_at, before.ranks)
    if order.by == SORTS[0]:
        rows = _by_urgency(shown, now)
        if order.descending:
            rows.reverse()
    else:
        key = sort_key(order.by, now, descending=order.descending)
        rows = _sorted(shown, key, descending=order.descending)
    keys = tuple([counter.key for counter in rows])
    return ArrangedRows(order, tuple(rows), keys, now, {key: rank for rank, key in enumerate(keys)})


def _in_places(shown: Sequence[CounterView], ranks: Mapping[str, int]) -> list[CounterView] | None:
    """Return the counters in their old order; None if the set of counters changed."""
    if len(shown) != len(ranks):
        return None
    places = list(shown)
    for counter in shown:
        rank = ranks.get(counter.key)
        if rank is None:
            return None
        places[rank] = counter
    return places


def _by_urgency(shown: Iterable[CounterView], now: datetime) -> list[CounterView]:
    """By level; within a level as they come. Guesses are last, unless one is near a limit."""
    levels: tuple[list[CounterView], ...] = ([], [], [])
    guesses: list[CounterView] = []
    for counter in shown:
        (levels[level(counter, now)] if counter.may_warn else guesses).append(counter)
    return [*levels[2], *levels[1], *levels[0], *guesses]


def _sorted(
    shown: Sequence[CounterView], key: Callable[[CounterView], tuple[bool, float | str]], *, descending: bool
) -> list[CounterView]:
    """Sort run by run; equal counters stay in their order."""
    at = [key(counter) for counter in shown].__getitem__
    firsts = range(0, len(shown), _RUN)
    runs = [sorted(range(first, min(first + _RUN, len(shown))), key=at, reverse=descending) for first in firsts]
    return [shown[place] for place in heapq.merge(*runs, key=at, reverse=descending)]
