"""Snapshots of the counters of a deployment: frozen, every text already safe to show."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum


class Semantics(StrEnum):
    """What the stored number means."""

    LAST = "last"
    """The last id that was handed out."""
    NEXT = "next"
    """The id that will be handed out next."""


class NumericType(StrEnum):
    """The BSON type of the stored number."""

    INT32 = "int32"
    INT64 = "int64"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string"
    """Digits at the end of a text, such as ``INV-000123``."""


class Grade(StrEnum):
    """The confidence that a number hands out ids. Only the first two grades may alarm; near a limit the others warn."""

    CERTAIN = "certain"
    """Named in the configuration, or its values were found again as ids in documents inserted just after."""
    LIKELY = "likely"
    """The shape and the name of a known library, or fewer values found again."""
    POSSIBLE = "possible"
    """By name alone, or it may follow the ids of others: its values were not seen in use as its own ids."""
    OPEN = "open"
    """It only rises, and its values were not found elsewhere: hits, versions, logins."""
    UNLIKELY = "unlikely"
    """It falls, has fractions, or expires: stock, balances, rate limits."""


class Flag(StrEnum):
    """Faults and warnings of a counter. :data:`FLAG_HELP` explains each."""

    DOUBLE = "DOUBLE"
    RESET = "RESET"
    REWOUND = "REWOUND"
    STALLED = "STALLED"
    BEHIND = "BEHIND"
    UNCLEAR = "UNCLEAR"
    FIRST_FULL = "FIRST-FULL"
    EMPTY = "EMPTY"
    FULL = "FULL"
    GONE = "GONE"
    GUESS = "GUESS"


FLAG_HELP = {
    Flag.DOUBLE: "Stored as a double: at 2^53 it stalls and hands the same id to everyone, without an error.",
    Flag.RESET: "The value went back to its start: ids are being handed out again.",
    Flag.REWOUND: "The value went back: data was restored or rolled back, or the value was set manually.",
    Flag.STALLED: "At its numeric limit: an increment no longer changes it.",
    Flag.BEHIND: "Behind the largest id in its collection: the next insert collides.",
    Flag.UNCLEAR: "Below ids of its collection: behind, or it descends, or they are strays or another counter's.",
    Flag.FIRST_FULL: "At least one document of the pool is full.",
    Flag.EMPTY: "Every document of the pool is full.",
    Flag.FULL: "The ceiling is reached: no id is left.",
    Flag.GONE: "Its document, or the number in it, is gone: the next use begins at the start and repeats ids.",
    Flag.GUESS: "Recognised by name and shape only: its values were not seen used as ids. It warns near a limit only.",
}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The last value that a counter can reach, and the limit that sets it: ``MAX_VALUE``, ``int32 consumer``.

    ``is_storage``: the type that the number is stored as sets it.
    """

    value: int
    reason: str
    is_storage: bool = False


@dataclass(frozen=True, slots=True)
class Forecast:
    """When a counter reaches a ceiling. Dates are None if the history is insufficient; ``note`` says why.

    ``naive`` is set if it is too early for a band: the date at the mean rate so far.

    ``early``, ``likely`` and ``late`` are the 10th, 50th and 90th percentile. ``rate`` is ids a second over whole
    cycles (the basis of the dates), ``basis`` names the period it was measured over ("7 days"). ``spread`` is the
    ratio of the late to the early remaining time, given also without dates. ``far`` means beyond the year 9999
    or without any allocation seen.
    """

    early: datetime | None = None
    likely: datetime | None = None
    late: datetime | None = None
    naive: datetime | None = None
    rate: float | None = None
    basis: str = ""
    history_seconds: float = 0.0
    steps: int = 0
    spread: float | None = None
    far: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class PoolView:
    """Counter documents that share one id space. ``used`` has one share of range per document, by ``ids``."""

    documents: int
    full: int
    used: tuple[float, ...]
    ids: tuple[str, ...]
    values: tuple[int, ...]
    maxima: tuple[int, ...]
    first_full: Forecast = field(default_factory=Forecast)
    two_tries: Forecast = field(default_factory=Forecast)
    empty: Forecast = field(default_factory=Forecast)


@dataclass(frozen=True, slots=True)
class Members:
    """Many counters of one kind in one collection, such as one for each tenant, shown as one row.

    ``worst`` are those that end first or have a flag. ``used`` counts them by whole percent of their range used (101
    numbers); empty if unknown.
    """

    count: int
    worst: tuple[CounterView, ...] = ()
    used: tuple[int, ...] = ()

    def above(self, share: float) -> int:
        """How many have used at least this share (0..1) of their range, to whole percents."""
        return sum(self.used[math.ceil(share * 100 - 1e-9) :])


@dataclass(frozen=True, slots=True)
class CounterView:
    """One counter, or one pool, at one moment.

    ``key`` is stable across snapshots. ``value`` is as stored (a pool's: ids handed out). ``used`` is 0..1 of
    start..ceiling. ``rate`` is ids a second lately; ``recent`` the rates of the last samples, oldest first. ``drift``
    is issued ids minus the largest id in ``target``, ``odd_ids`` how many numbers there could not be compared;
    ``repair`` is the mongosh command that moves the counter up. ``crossing`` is
    the forecast for 2^31, None once it is passed or if the readers are known to have 64 bits; ``crossing_used`` the
    used share of 0..2^31. ``grade`` is the confidence that the number hands out ids, ``evidence`` the reason. ``step``
    is added for each id and negative for a descending counter, ``block`` how many ids one number stands for;
    ``cycles`` marks intended resets. ``acknowledged`` are
    the flags that do not alarm; ``rewound_at`` is when the value last went back. ``members`` is set for many counters
    shown as one row. ``history`` holds (seconds since 1970, value) points, oldest first, thinned for a graph. ``burn``
    is the share of the ids handed out that no document of ``target`` has: never used, or deleted since. ``confidence``
    is 1 if the collection's name and the document's shape are those of a known library. ``at`` is when the value
    was last seen to change, None if it was not. ``near`` is the numeric limit, or the bound in its own document, of
    which the number has used all but 1 %; None if none is near. Unknown is None, never 0.
    """

    key: str
    ns: str
    id: str
    field: str
    shape: str
    library: str
    value: int | float
    type: NumericType
    semantics: Semantics
    start: int
    ceiling: Ceiling | None
    used: float | None
    rate: float | None
    forecast: Forecast
    crossing: Forecast | None = None
    drift: int | None = None
    target: str = ""
    odd_ids: int = 0
    repair: str = ""
    burn: float | None = None
    flags: tuple[Flag, ...] = ()
    notes: tuple[str, ...] = ()
    recent: tuple[float, ...] = ()
    history: tuple[tuple[float, float], ...] = ()
    confidence: float = 1.0
    pool: PoolView | None = None
    at: datetime | None = None
    grade: Grade = Grade.CERTAIN
    evidence: str = ""
    step: int = 1
    block: int = 1
    cycles: bool = False
    crossing_used: float | None = None
    acknowledged: tuple[Flag, ...] = ()
    rewound_at: datetime | None = None
    members: Members | None = None
    near: Ceiling | None = None

    @property
    def may_alarm(self) -> bool:
        """Whether the grade is high enough to alarm."""
        return self.grade in (Grade.CERTAIN, Grade.LIKELY)

    @property
    def may_warn(self) -> bool:
        """Whether it may alarm, or is a guess near a limit, which warns."""
        return self.may_alarm or self.near is not None

    @property
    def number(self) -> int:
        """How many counters this row stands for."""
        return self.members.count if self.members else 1

    @property
    def left(self) -> int | None:
        """Ids that can still be handed out; None without a ceiling, or if the value is not a finite number."""
        if self.ceiling is None or self.issued is None:
            return None
        return max(0, (self.ceiling.value - self.issued) * (-1 if self.step < 0 else 1))

    @property
    def issued(self) -> int | None:
        """The last id that was handed out, of a pool their number; None if the value is not a finite number."""
        if not math.isfinite(self.value):
            return None
        ahead = self.semantics is Semantics.NEXT and self.pool is None
        return int(self.value) - ((-1 if self.step < 0 else 1) if ahead else 0)


@dataclass(frozen=True, slots=True)
class CounterTrouble:
    """What could not be read, and what would help. ``ns`` is the namespace, empty if it is not one alone.

    ``partial``: the counters themselves are known.
    """

    ns: str
    title: str
    advice: str = ""
    partial: bool = False

    @property
    def text(self) -> str:
        """All of it, on one line."""
        where = f"{self.ns}: " if self.ns else ""
        return f"{where}{self.title} {self.advice}".rstrip()


class Absence(StrEnum):
    """Why a counter that was recognised once is not listed."""

    NOT_READ = "not read"
    GONE = "gone"
    """Its number, its document or its collection does not exist any more: the next use begins at its start."""
    DOUBTED = "no longer recognised"
    """Its document exists, but the number does not behave as a counter."""


@dataclass(frozen=True, slots=True)
class MissingCounter:
    """A counter that was recognised once and is not listed now; texts are safe to show.

    ``since`` is when it was first found to be gone. ``routine``: its whole collection is gone, and that of its ids too
    or another counter goes on with them, or such documents are removed one after the other, so that it is no fault.
    """

    ns: str
    id: str
    absence: Absence
    since: datetime | None = None
    routine: bool = False


@dataclass(frozen=True, slots=True)
class CountersSnapshot:
    """All counters at one moment, most urgent first; what could not be read; and the progress of the search.

    ``discovering``: only ``collections_looked`` of the ``collections_seen`` were searched so far.
    ``collections_unread`` exist and could not be read. ``unmatched`` lists configuration rules that match nothing.
    ``oplog_seconds`` is how far back the oplog reaches, None if unknown. ``known`` is how many counters were recognised
    so far, ``missing`` those of them that are not among ``counters``. ``at`` is by the server's clock, which is
    ``ahead`` of this host's by seconds.
    """

    at: datetime
    counters: tuple[CounterView, ...]
    troubles: tuple[CounterTrouble, ...] = ()
    discovering: bool = False
    collections_seen: int = 0
    collections_looked: int = 0
    collections_unread: int = 0
    unmatched: tuple[str, ...] = ()
    oplog_seconds: float | None = None
    known: int = 0
    missing: tuple[MissingCounter, ...] = ()
    ahead: float = 0.0

    @property
    def read_at(self) -> datetime:
        """The moment by this host's clock."""
        return self.at - timedelta(seconds=self.ahead)
