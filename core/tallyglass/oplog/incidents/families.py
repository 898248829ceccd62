"""The writes of one kind on one namespace: their bursts, and what is usual there. Bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from tallyglass.oplog.entry.layout import Stamp
from tallyglass.oplog.incidents.burst import Burst, Piece
from tallyglass.oplog.incidents.sizes import SizeHistogram

CLUMP_MILLIS = 20
"""The longest gap between entries of one statement: 21 ms was the longest of 60,000 measured gaps."""

EPISODE_MILLIS = 10_000
"""Writes without a session that are no further apart are judged together."""

RUN_MILLIS, RUN_JUMP = 10_000, 4
"""A run of a session goes on if its next write is at most 10 s later and its transaction number at most 4 higher."""
NEXT_MILLIS = 1_800_000
"""The longest pause between two statements of one run of a session: the lifetime of a session."""

LEAST_RUN = 20
"""The fewest single writes by one session that are an incident: fewer look like a request of an application."""

LEAST_FAN_OUT = 100
BURST_LIMIT = 512
"""The most bursts of one family that are kept; above that, usual ones are only counted."""


LEAST_UNUSUAL = 8
"""The fewest documents of a clump that can be unusual where other clients write without a session."""

_ENOUGH_CLUMPS = 16


class Writes(StrEnum):
    """How writes are grouped: without a session, by one session, or over all sessions."""

    PLAIN = "plain"
    SESSION = "session"
    FAN_OUT = "fan-out"


_LEAST = {Writes.PLAIN: 2, Writes.SESSION: LEAST_RUN, Writes.FAN_OUT: LEAST_FAN_OUT}
"""The fewest documents of a burst that is kept."""


@dataclass(slots=True)
class Folded:
    """Bursts that were judged usual and are only counted."""

    bursts: int = 0
    documents: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    """How many of them had each :attr:`~tallyglass.oplog.incidents.burst.Burst.form`."""

    starts: list[int] = field(default_factory=list)
    """Wall times at which some of them began: the oldest and the newest, as a reference for a rhythm."""

    def add(self, burst: Burst) -> None:
        """Add one burst to the totals."""
        self.bursts += 1
        self.documents += burst.documents
        self.forms[burst.form] += 1
        self.starts.append(burst.first_wall)
        if len(self.starts) > 128:
            self.starts.sort()
            self.starts = self.starts[:32] + self.starts[-32:]


@dataclass(slots=True)
class Family:
    """The deletes or the updates of one namespace, in one of the forms of :class:`Writes`.

    ``clumps`` are dense; ``episodes``, of writes without a session, have pauses too. Open ones may still grow. ``seam``
    holds those at the newest entry of the scan of the past: new entries continue them.
    """

    ns: str
    op: str
    writes: Writes
    documents: int = 0
    entries: int = 0
    first: int = 0
    last: int = 0
    first_wall: int = 0
    last_wall: int = 0
    hours: dict[int, int] = field(default_factory=dict)
    clump_sizes: SizeHistogram = field(default_factory=SizeHistogram)
    episode_sizes: SizeHistogram = field(default_factory=SizeHistogram)
    clumps: list[Burst] = field(default_factory=list)
    episodes: list[Burst] = field(default_factory=list)
    open_clump: Burst | None = None
    open_episode: Burst | None = None
    seam_clump: Burst | None = None
    seam_episode: Burst | None = None
    folded: Folded = field(default_factory=Folded)
    forgotten: int = 0
    is_busy: bool = False
    """Whether other clients write here without a session all the time, so that usual clumps are only counted."""

    version: int = 0
    verdict: object = None
    """A cached judgement, with the version that it applies to."""

    def count(self, piece: Piece) -> None:
        """Count the entries of a piece."""
        self.version += 1
        if not self.entries or piece.first < self.first:
            self.first, self.first_wall = piece.first, piece.first_wall
        if piece.last > self.last:
            self.last, self.last_wall = piece.last, piece.last_wall
        self.documents += piece.documents
        self.entries += piece.entries
        minute = piece.first_wall // 60_000
        hour = minute // 60
        self.hours[hour] = self.hours.get(hour, 0) | 1 << minute % 60

    @property
    def active_minutes(self) -> int:
        """Minutes with at least one entry."""
        return sum(found.bit_count() for found in self.hours.values())

    def count_all(self, entries: int, ends: tuple[Stamp, Stamp], minutes: Iterable[int]) -> None:
        """Count entries of one document each: ``ends`` are the outermost, ``minutes`` those with any."""
        self.version += 1
        (first, first_wall, _), (last, last_wall, _) = sorted(ends)
        if not self.entries or first < self.first:
            self.first, self.first_wall = first, first_wall
        if last > self.last:
            self.last, self.last_wall = last, last_wall
        self.documents += entries
        self.entries += entries
        for minute in minutes:
            hour = minute // 60
            self.hours[hour] = self.hours.get(hour, 0) | 1 << minute % 60

    @property
    def least(self) -> int:
        """The fewest documents of a clump or run that is kept."""
        return min(self.usual_clump + 1, LEAST_UNUSUAL) if self.is_busy else _LEAST[self.writes]

    @property
    def usual_clump(self) -> int:
        """The usual size of a clump, 0 before there were enough of them to know it."""
        return self.clump_sizes.usual() if self.clump_sizes.count >= _ENOUGH_CLUMPS else 0

    @property
    def least_marked(self) -> int:
        """The fewest documents of a clump without a session that may be compared with another one."""
        return LEAST_UNUSUAL if self.clump_sizes.count >= _ENOUGH_CLUMPS else 1

    def add_small(self, documents: int, times: int = 1) -> None:
        """Count clumps or runs that have ended and are too small to be kept."""
        self.version += 1
        self.clump_sizes.add(documents, times)

    def add_clump(self, burst: Burst) -> None:
        """Add a clump or a run that has ended."""
        self.version += 1
        self.clump_sizes.add(burst.documents)
        if burst.documents >= self.least:
            burst.shrink()
            self.clumps.append(burst)

    def add_episode(self, burst: Burst) -> None:
        """Add an episode that has ended."""
        self.version += 1
        self.episode_sizes.add(burst.documents)
        if burst.documents >= 2:
            burst.shrink()
            self.episodes.append(burst)

    def all_clumps(self) -> list[Burst]:
        """All clumps, open ones included, oldest first."""
        return _with_open(self.clumps, self.open_clump, self.seam_clump)

    def all_episodes(self) -> list[Burst]:
        """All episodes, open ones included, oldest first."""
        return _with_open(self.episodes, self.open_episode, self.seam_episode)

    @property
    def episode_count(self) -> int:
        """How many episodes there were, single writes included."""
        return self.episode_sizes.count + (self.open_episode is not None) + (self.seam_episode is not None)

    @property
    def kept(self) -> int:
        """How many bursts are kept as objects."""
        return len(self.clumps) + len(self.episodes)


def _with_open(closed: list[Burst], *growing: Burst | None) -> list[Burst]:
    found = [*closed, *(burst for burst in growing if burst is not None and burst.documents >= 2)]
    found.sort(key=lambda burst: burst.first)
    return found
