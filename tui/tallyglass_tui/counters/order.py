"""Which counters are shown, and in which order: filtered, sorted, and stable for some seconds. Pure; thread-safe."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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

    @property
    def in_words(self) -> str:
        """How the rows are sorted; empty for the most urgent first."""
        if self.by == SORTS[0]:
            return "least urgent first" * self.descending
        return f"by {'end' if self.by == 'left' else self.by}{', descending' * self.descending}"

    def wants(self, counter: CounterView) -> bool:
        """Whether every word is in its name, library or flags; a ``!word`` is not."""
        if not self.words:
            return True
        text = f"{name(counter)} {counter.library} {counter.shape} {' '.join(counter.flags)}".lower()
        return all((word[1:] not in text) if word.startswith("!") else (word in text) for word in self.words)


@dataclass(frozen=True, slots=True)
class Groups:
    """How many rows are urgent, have a warning, are fine, and are not sure to be counters.

    A row may stand for many counters: ``more`` of all, and ``more_fine`` of the fine ones, have no row of their own.
    """

    urgent: int = 0
    warned: int = 0
    fine: int = 0
    unsure: int = 0
    more: int = 0
    more_fine: int = 0


@dataclass(frozen=True, slots=True)
class ArrangedRows:
    """The rows in an order, their keys, when they were sorted, and the groups of all counters, shown or not."""

    order: RowOrder = RowOrder()
    rows: tuple[CounterView, ...] = ()
    keys: tuple[str, ...] = ()
    sorted_at: datetime | None = None
    ranks: Mapping[str, int] = field(default_factory=dict)
    groups: Groups = Groups()


FINE, UNSURE = "\0fine", "\0unsure"
"""The keys of the lines that a folded group is shown as. No key of a counter begins so."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The lines of the table: their keys, and the counter of each, None for the line of a group. ``folded`` has the
    counters of each such line."""

    keys: Sequence[str] = ()
    counters: Sequence[CounterView | None] = ()
    folded: Mapping[str, Sequence[CounterView]] = field(default_factory=dict)


def fold(arranged: ArrangedRows, unfolded: Collection[str]) -> Listing:
    """The rows with those that need nobody behind one line for each kind, unless that line is ``unfolded``.

    Only the most urgent first, unfiltered, has such lines: whoever sorts or filters looks for a row. What is fine is
    folded only below something that is not.
    """
    rows, keys, groups = arranged.rows, arranged.keys, arranged.groups
    warned = groups.urgent + groups.warned
    parts = ((FINE, groups.fine if warned else 0), (UNSURE, groups.unsure if len(rows) > groups.unsure else 0))
    if arranged.order != RowOrder() or not any(size for _, size in parts):
        return Listing(keys, rows)
    end = len(rows) - sum(size for _, size in parts)
    shown_keys, shown, folded = [*keys[:end]], [*rows[:end]], dict[str, Sequence[CounterView]]()
    counters: list[CounterView | None] = [*shown]
    for part, size in parts:
        if size:
            folded[part] = rows[end : end + size]
            shown_keys.append(part)
            counters.append(None)
            if part in unfolded:
                shown_keys += keys[end : end + size]
                counters += rows[end : end + size]
            end += size
    return Listing(shown_keys, counters, folded)


def words_of(text: str) -> tuple[str, ...]:
    """The words of a filter."""
    return tuple(text.lower().split())


def arrange(counters: Sequence[CounterView], order: RowOrder, before: ArrangedRows, now: datetime) -> ArrangedRows:
    """Filter and order ``counters``, which come most urgent first; as ``before`` while that is fresh."""
    shown = [counter for counter in counters if order.wants(counter)] if order.words else list(counters)
    calm = before.sorted_at is not None and (now - before.sorted_at).total_seconds() < _CALM_SECONDS
    kept = _in_places(shown, before.ranks) if calm and order == before.order else None
    if kept is not None:
        return replace(before, rows=tuple(kept))
    parts = _by_level(counters, now)
    urgent, warned, fine, unsure = map(len, parts)
    groups = Groups(urgent, warned, fine, unsure, _without_row(counters), _without_row(parts[2]))
    if order.by == SORTS[0]:
        wanted = _by_level(shown, now) if order.words else parts
        rows = [counter for part in wanted for counter in part]
        if order.descending:
            rows.reverse()
    else:
        key = sort_key(order.by, now, descending=order.descending)
        rows = _sorted(shown, key, descending=order.descending)
    keys = tuple([counter.key for counter in rows])
    return ArrangedRows(order, tuple(rows), keys, now, {key: rank for rank, key in enumerate(keys)}, groups)


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


def _without_row(counters: Iterable[CounterView]) -> int:
    return sum(counter.number - 1 for counter in counters)


def _by_level(shown: Iterable[CounterView], now: datetime) -> tuple[list[CounterView], ...]:
    """What is urgent, what has a warning, and what is fine, each as they come; last the guesses, unless one is near a
    limit."""
    levels: tuple[list[CounterView], ...] = ([], [], [])
    guesses: list[CounterView] = []
    for counter in shown:
        (levels[level(counter, now)] if counter.may_warn else guesses).append(counter)
    return (*reversed(levels), guesses)


def _sorted(
    shown: Sequence[CounterView], key: Callable[[CounterView], tuple[bool, float | str]], *, descending: bool
) -> list[CounterView]:
    """Sort run by run; equal counters stay in their order."""
    at = [key(counter) for counter in shown].__getitem__
    firsts = range(0, len(shown), _RUN)
    runs = [sorted(range(first, min(first + _RUN, len(shown))), key=at, reverse=descending) for first in firsts]
    return [shown[place] for place in heapq.merge(*runs, key=at, reverse=descending)]
