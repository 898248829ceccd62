"""One oplog of the labelled corpus in the making, and what becomes of it. Format: oplog_corpus.md."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from corpus.oplog_entries import OplogWriter, Session
from tallyglass.moment import Ts

BEGIN = 1_795_197_974_000
MINUTE = 60_000.0


@dataclass(frozen=True, slots=True)
class Act:
    """What somebody did. ``must`` is found, may (a lack is no fault) or untellable.

    ``point`` is where to return to; ``kinds`` are the kinds of incident that name it rightly.
    """

    name: str
    kinds: tuple[str, ...]
    ns: str
    first: Ts
    last: Ts
    point: Ts
    documents: int
    must: str
    op: str = ""
    user: str = ""


@dataclass(slots=True)
class Scenario:
    """One oplog with its truth. ``ttl`` and ``capped`` are what the server would say of its collections today."""

    name: str
    entries: list[bytes]
    acts: list[Act]
    places: dict[tuple[str, str], list[Ts]]
    window: tuple[Ts, Ts]
    ttl: frozenset[str] = frozenset()
    capped: frozenset[str] = frozenset()
    held_out: bool = False
    unknowable: frozenset[str] = frozenset()
    """Namespaces of jobs that ran fewer than four times: nobody can tell a job from a person there."""


@dataclass(slots=True)
class Planned:
    """An act before its entries have timestamps."""

    name: str
    kinds: tuple[str, ...]
    ns: str
    documents: int
    must: str = "found"
    op: str = ""
    user: str = ""


@dataclass
class Build:
    """One oplog in the making."""

    rng: random.Random
    writer: OplogWriter
    minutes: float
    rate: float
    planned: dict[str, Planned] = field(default_factory=dict)
    ttl: set[str] = field(default_factory=set)
    capped: set[str] = field(default_factory=set)
    unknowable: set[str] = field(default_factory=set)
    ids: int = 0
    pool: list[Session] = field(default_factory=list)
    access_control: bool = True
    """Whether sessions carry a user."""

    @property
    def end(self) -> float:
        """Milliseconds of the stream."""
        return self.minutes * MINUTE

    def identity(self) -> int:
        """A new document."""
        self.ids += 1
        return self.ids

    def session(self, user: str = "", number: int = 0) -> Session:
        """A new client's session."""
        return Session(self.rng.randbytes(16), user if self.access_control else "", number)

    def arrivals(self, per_second: float) -> Iterator[float]:
        """Moments at random, so many a second."""
        at = self.rng.expovariate(per_second) * 1_000
        while at < self.end:
            yield at
            at += self.rng.expovariate(per_second) * 1_000

    def plan(self, planned: Planned) -> str:
        """Note an act; its label."""
        label = f"{planned.name}#{len(self.planned)}"
        self.planned[label] = planned
        return label

    def finished(self, name: str, *, held_out: bool = False) -> Scenario:
        """The oplog, with the truth of it. What fills more than 40 % of it nobody can tell from a worker."""
        entries, labels, places = self.writer.stream()
        acts = []
        for label, planned in self.planned.items():
            found = labels[label]
            must = planned.must
            if must == "found" and (found[-1].t - found[0].t) > 0.4 * self.minutes * 60:
                must = "untellable"
            acts.append(
                Act(planned.name, planned.kinds, planned.ns, found[0], found[-1], found[0], planned.documents, must,
                    planned.op, planned.user)
            )  # fmt: skip
        begin = BEGIN // 1_000
        window = Ts(begin, 1), Ts(begin + int(self.minutes * 60), 1)
        return Scenario(
            name, entries, acts, places, window, frozenset(self.ttl), frozenset(self.capped), held_out,
            frozenset(self.unknowable),
        )  # fmt: skip
