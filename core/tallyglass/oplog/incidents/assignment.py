"""Which statement wrote which entries: counts on both sides must be equal, then what can be exchanged is not known.

Entries that fit the same statements are one group. A piece is a set of groups and statements connected by what fits.
Only a piece in which every statement finds exactly the entries that it counts, and no entry is left, says anything:
an entry beside it shows that some statement is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

PAIRS_LIMIT = 200_000
"""The most pairs of group and statement in one piece; a larger one is not solved, which names nobody."""


class AlikeEntries(NamedTuple):
    """Entries that are alike. ``fits`` are the statements that may have written them."""

    inside: bool
    fits: tuple[int, ...]


class Demand(NamedTuple):
    """What a statement says of itself: how many entries it wrote, or, if it was stopped, how many index keys it
    removed, 0 if that is unknown; and who ran it, None if its entries may be of another kind after all."""

    entries: int | None
    keys: int
    who: Hashable


@dataclass(slots=True)
class Share:
    """Who wrote the entries of a group: ``by`` counts them by statement. ``certain`` if all that could have written
    them are the same client; ``possible`` are these statements."""

    by: dict[int, int] = field(default_factory=dict)
    certain: bool = True
    possible: frozenset[int] = frozenset()


def assign(groups: Mapping[AlikeEntries, int], demands: Sequence[Demand]) -> dict[AlikeEntries, Share]:
    """The groups whose writers are known or narrowed down. A group that is left out has unknown ones."""
    found: dict[AlikeEntries, Share] = {}
    for piece, statements in _pieces(groups):
        wanted = _wanted(sum(groups[group] for group in piece), [(one, demands[one]) for one in statements])
        if wanted is None or len(piece) * len(statements) > PAIRS_LIMIT:
            continue
        flow = _Flow({group: groups[group] for group in piece}, wanted)
        if flow.is_whole:
            found |= flow.shares([one.who for one in demands])
    return found


def _pieces(groups: Mapping[AlikeEntries, int]) -> Iterator[tuple[list[AlikeEntries], set[int]]]:
    """The connected pieces that hold at least one group and one statement."""
    by_statement: dict[int, list[AlikeEntries]] = defaultdict(list)
    for group in groups:
        for one in group.fits:
            by_statement[one].append(group)
    seen: set[AlikeEntries] = set()
    for start in groups:
        if start in seen:
            continue
        piece, statements, waiting = [], set[int](), [start]
        seen.add(start)
        while waiting:
            group = waiting.pop()
            piece.append(group)
            for one in group.fits:
                if one in statements:
                    continue
                statements.add(one)
                waiting += (near := [other for other in by_statement[one] if other not in seen])
                seen.update(near)
        if statements:
            yield piece, statements


def _wanted(entries: int, statements: Sequence[tuple[int, Demand]]) -> dict[int, int] | None:
    """How many entries each statement wrote; None if that does not add up to all of them.

    One that was stopped does not say how many: the rest, if its index keys can be divided by that.
    """
    wanted = {one: demand.entries for one, demand in statements if demand.entries is not None}
    stopped = [(one, demand) for one, demand in statements if demand.entries is None]
    rest = entries - sum(wanted.values())
    if len(stopped) == 1:
        one, demand = stopped[0]
        if rest <= 0 or not demand.keys or demand.keys % rest:
            return None
        wanted[one], rest = rest, 0
    return wanted if rest == 0 and len(stopped) < 2 else None


class _Flow:
    """A maximum flow from groups to statements, and what could be exchanged in it."""

    def __init__(self, supply: dict[AlikeEntries, int], demand: dict[int, int]) -> None:
        self._options = {group: [one for one in group.fits if one in demand] for group in supply}
        self._by: dict[AlikeEntries, dict[int, int]] = {group: {} for group in supply}
        self._of: dict[int, dict[AlikeEntries, int]] = {one: {} for one in demand}
        self._free = dict(demand)
        self.is_whole = all(self._place(group, count) for group, count in supply.items())

    def _place(self, group: AlikeEntries, count: int) -> bool:
        """Assign the entries of a group, moving those of others where needed."""
        while count:
            path = self._path(group)
            if path is None:
                return False
            given_up = [self._by[to][one] for (_, one), (to, _) in pairwise(path)]
            moved = min(count, self._free[path[-1][1]], *given_up)
            for at, (from_group, one) in enumerate(path):
                self._move(from_group, one, moved)
                if at:
                    self._move(from_group, path[at - 1][1], -moved)
            self._free[path[-1][1]] -= moved
            count -= moved
        return True

    def _move(self, group: AlikeEntries, one: int, count: int) -> None:
        total = self._by[group].get(one, 0) + count
        if total:
            self._by[group][one] = self._of[one][group] = total
        else:
            self._by[group].pop(one, None)
            self._of[one].pop(group, None)

    def _path(self, start: AlikeEntries) -> list[tuple[AlikeEntries, int]] | None:
        """Steps (group, statement) from a group to a statement with room; each next group gives up some entries of the
        statement before it."""
        seen, waiting = set[int](), [(start, list[tuple[AlikeEntries, int]]())]
        for group, before in waiting:
            for one in self._options[group]:
                if one in seen:
                    continue
                seen.add(one)
                path = [*before, (group, one)]
                if self._free[one]:
                    return path
                waiting += [(other, path) for other in self._of[one]]
        return None

    def shares(self, who: Sequence[Hashable]) -> dict[AlikeEntries, Share]:
        """For each group who wrote it: statements that could exchange entries with each other all count."""
        if None not in (every := {who[one] for one in self._of}) and len(every) == 1:
            return {group: Share(dict(by), True, frozenset(by)) for group, by in self._by.items()}
        reach = {one: self._reach(one) for one in self._of}
        found = {}
        for group, by in self._by.items():
            possible = frozenset(
                one
                for one in self._options[group]
                if one in by or any(one in reach[other] and other in reach[one] for other in by)
            )
            names = {who[one] for one in possible}
            found[group] = Share(dict(by), len(names) == 1 and None not in names, possible)
        return found

    def _reach(self, start: int) -> set[int]:
        """The statements that could get entries which this one has now, directly or through others."""
        seen, waiting = {start}, [start]
        while waiting:
            near = {other for group in self._of[waiting.pop()] for other in self._options[group]} - seen
            seen |= near
            waiting += near
        return seen
