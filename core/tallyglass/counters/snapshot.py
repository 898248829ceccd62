"""What a look at the counters of a deployment yields: frozen, with every text already safe to show."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime
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


class Flag(StrEnum):
    """What is wrong or near with a counter. :data:`FLAG_HELP` says each in a sentence."""

    DOUBLE = "DOUBLE"
    RESET = "RESET"
    REWOUND = "REWOUND"
    STALLED = "STALLED"
    BEHIND = "BEHIND"
    FIRST_FULL = "FIRST-FULL"
    EMPTY = "EMPTY"
    FULL = "FULL"
    GUESS = "GUESS"


FLAG_HELP = {
    Flag.DOUBLE: "Stored as a double: at 2^53 it stalls and hands the same id to everyone, without an error.",
    Flag.RESET: "The value went back to its start: ids are being handed out again.",
    Flag.REWOUND: "The value went back: data was restored, or rolled back, or somebody set it.",
    Flag.STALLED: "At its numeric limit: an increment no longer changes it.",
    Flag.BEHIND: "Behind the largest id in its collection: the next insert collides.",
    Flag.FIRST_FULL: "At least one document of the pool is full.",
    Flag.EMPTY: "Every document of the pool is full.",
    Flag.FULL: "The ceiling is reached: no id is left.",
    Flag.GUESS: "Recognised by its shape alone, in a collection of no known library.",
}


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The number that a counter cannot pass, and which limit binds, such as ``MAX_VALUE`` or ``int32 consumer``."""

    value: int
    reason: str


@dataclass(frozen=True, slots=True)
class Forecast:
    """When a counter reaches a ceiling. Dates are None where the history cannot carry one; ``note`` says why.

    ``early``, ``likely`` and ``late`` are the 10th, 50th and 90th percentile. ``rate`` is ids a second over whole
    cycles (the basis of the dates), ``basis`` names the span it was taken over ("7 days"). ``spread`` is late
    over early as a factor of remaining time, given also where no date is. ``far`` means beyond the year 9999
    or without any allocation seen.
    """

    early: datetime | None = None
    likely: datetime | None = None
    late: datetime | None = None
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
class CounterView:
    """One counter, or one pool, at one moment.

    ``key`` is stable across snapshots. ``value`` is as stored (a pool's: ids handed out). ``used`` is 0..1 of
    start..ceiling. ``rate`` is ids a second lately; ``recent`` the rates of the last samples, oldest first.
    ``drift`` is value minus max(id in ``target``), in ids issued; ``repair`` the mongosh command that mends it.
    ``crossing`` is the forecast for 2^31, None once it is passed.
    ``history`` holds (seconds since 1970, value) points, oldest first, thinned for a graph.
    ``burn`` is the share of the ids handed out that no document of ``target`` has: never used, or deleted since.
    ``confidence`` is 1 where the collection's name and the document's shape are those of a known library.
    ``at`` is when the value was last seen to change, None where it was not.
    Unknown is None, never 0.
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
    repair: str = ""
    burn: float | None = None
    flags: tuple[Flag, ...] = ()
    notes: tuple[str, ...] = ()
    recent: tuple[float, ...] = ()
    history: tuple[tuple[float, float], ...] = ()
    confidence: float = 1.0
    pool: PoolView | None = None
    at: datetime | None = None

    @property
    def left(self) -> int | None:
        """Ids that can still be handed out; None without a ceiling, or where the value is not a finite number."""
        if self.ceiling is None or not math.isfinite(self.value):
            return None
        issued = int(self.value) - (1 if self.semantics is Semantics.NEXT and self.pool is None else 0)
        return max(0, self.ceiling.value - issued)


@dataclass(frozen=True, slots=True)
class CounterTrouble:
    """A namespace that could not be read, and what would help. ``partial``: the counters are known all the same."""

    ns: str
    title: str
    advice: str = ""
    partial: bool = False


@dataclass(frozen=True, slots=True)
class CountersSnapshot:
    """All counters at one moment, most urgent first; what could not be read; what is still being looked for."""

    at: datetime
    counters: tuple[CounterView, ...]
    troubles: tuple[CounterTrouble, ...] = ()
    discovering: bool = False
    collections_seen: int = 0
