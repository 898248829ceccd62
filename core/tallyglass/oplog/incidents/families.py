"""The writes of one kind on one namespace: their bursts, and when bursts of each size were seen. Bounded."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from tallyglass.oplog.incidents.burst import Burst, Ends, extended, nothing
from tallyglass.oplog.incidents.recurrence import EPISODE_MILLIS, NEAR_MILLIS, Recurrence

CLUMP_MILLIS = 50
"""The longest pause within a statement: 21 ms was the longest of 60,000 on an idle server, but a busy one pauses."""

RUN_JUMP = 4
"""How much higher the next transaction number of a session's run may be: statements that change nothing use one too."""

NEXT_MILLIS = 60_000
"""The longest pause between two statements of one run of a session. After a longer one the same shell, or a client that
took the session from its pool again, does something else. With 30 s to 5 min the recordings give the same acts."""

LEAST_RUN = 5
"""The fewest single writes by one session that are an incident."""

KEPT = 256
"""The largest bursts of a family that are kept. What is routine at one size is routine below it as well."""


_NUMBERS = re.compile(r"[0-9a-fA-F]{8}([-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}|[0-9a-fA-F]{8,}|\d+")

_FEW, _SLACK = 64, 128
"""So many are made small at once: most of those that follow are soon forgotten again, so many together."""


@dataclass(slots=True)
class Scale:
    """The bursts of a family with pauses of at most ``reach`` milliseconds between entries, or the runs of sessions.

    ``open`` are the oldest and the newest of each chain, which may still grow: of each session, or the only ones.
    """

    reach: int
    open: dict[Hashable, Ends] = field(default_factory=dict)
    kept: list[Burst] = field(default_factory=list)
    last_rank: tuple[int, int] = (-1, 1 << 32)
    """How the last burst ranks that is kept."""

    count: int = 0
    """How many bursts are closed."""

    recurrence: Recurrence | None = None
    batches: Recurrence | None = None
    """When sessions wrote several documents under one transaction number, by the most of them."""

    @property
    def ends(self) -> list[Burst]:
        """The bursts that may still grow."""
        return [one for ends in self.open.values() for one in ends]

    def follows(self, older: Burst, newer: Burst) -> bool:
        """Whether the newer burst goes on where the older one stopped."""
        return older.gap(newer) <= self.reach

    def extend(self, bursts: Iterable[Burst], chain: Hashable = None) -> None:
        """Join bursts in order of time that are all older or all newer than all of their chain so far."""
        follows = self.follows if chain is None else follows_in_session
        self.open[chain] = extended(self.open.get(chain, []), bursts, follows, self.close)

    def close_chain(self, chain: Hashable) -> None:
        """Take the bursts of a chain as ones that cannot grow any more."""
        for burst in self.open.pop(chain):
            self.close(burst)

    def close(self, burst: Burst) -> None:
        """Take a burst that cannot grow any more."""
        self.count += 1
        if self.recurrence is None:
            self.recurrence = Recurrence()
        self.recurrence.add(burst.closed)
        if burst.batch > 1:
            if self.batches is None:
                self.batches = Recurrence()
            self.batches.add_throughout((burst.batch, burst.first_wall, burst.last_wall))
        if burst.rank <= self.last_rank:
            self.kept.append(burst)
            if len(self.kept) < _FEW:
                burst.shrink()
            if len(self.kept) > KEPT + _SLACK:
                self.bound(KEPT)

    def bound(self, limit: int) -> None:
        """Keep the ``limit`` largest bursts."""
        if len(self.kept) > limit:
            self.kept.sort(key=lambda burst: burst.rank)
            del self.kept[limit:]
            self.last_rank = self.kept[-1].rank
            for burst in self.kept:
                burst.shrink()

    def bursts(self) -> list[Burst]:
        """The largest, and those that may still grow, oldest first."""
        kept = self.kept if len(self.kept) <= KEPT else sorted(self.kept, key=lambda burst: burst.rank)[:KEPT]
        return sorted([*kept, *self.ends], key=lambda burst: burst.first)

    @property
    def forgotten(self) -> int:
        """The most documents of a burst that may have been forgotten; 0 if none was."""
        kept = sorted(one.documents for one in self.kept)[-KEPT:]
        return min(kept, default=-self.last_rank[0]) if self.count > len(kept) else 0

    def all_seen(self) -> Recurrence:
        """When bursts were seen, with those that may still grow."""
        found = Recurrence()
        if self.recurrence is not None:
            found.unite(self.recurrence)
        found.add(*(one.closed for one in self.ends))
        return found

    def all_batches(self) -> Recurrence:
        """When batches of sessions were seen, with those of runs that may still grow."""
        found = Recurrence()
        if self.batches is not None:
            found.unite(self.batches)
        found.add_throughout(*((one.batch, one.first_wall, one.last_wall) for one in self.ends if one.batch > 1))
        return found


@dataclass(slots=True)
class Family:
    """The deletes or the updates of one namespace: those without a session, or those of one user's sessions.

    ``fine`` holds them with the shortest pauses, over all sessions; ``wide`` those without a session with longer ones,
    or each session's by itself.
    """

    ns: str
    op: str
    user: bytes | None = None
    whole: Burst = field(default_factory=nothing)
    """How many they are, from the first to the last."""

    fine: Scale = field(default_factory=lambda: Scale(CLUMP_MILLIS))
    wide: Scale = field(init=False)

    def __post_init__(self) -> None:
        plain = self.user is None
        self.wide = Scale(EPISODE_MILLIS) if plain else Scale(NEAR_MILLIS, last_rank=(-LEAST_RUN, 1 << 32))

    @property
    def scales(self) -> tuple[Scale, Scale]:
        """Both, the dense stretches first."""
        return self.fine, self.wide


def without_numbers(ns: str) -> str:
    """What names that differ by a number, a date or an id have in common."""
    return _NUMBERS.sub("#", ns)


def follows_in_session(older: Burst, newer: Burst) -> bool:
    """Whether a session's writes go on: with nearly the next transaction number soon, or the very next one later."""
    return goes_on(newer.low - older.high, older.gap(newer))


def goes_on(step: int, gap: int) -> bool:
    """Whether a run of a session goes on after a step of its transaction number and a pause in milliseconds."""
    near = step <= RUN_JUMP and gap <= NEAR_MILLIS
    return step >= 0 and (gap <= CLUMP_MILLIS or near or (step <= 1 and gap <= NEXT_MILLIS))
