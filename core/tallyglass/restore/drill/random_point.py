"""A point drawn over the whole recoverable window, so that many drills also prove moments that nobody would choose.

The same seed draws the same point from the same window, however its oplog is read.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path

from tallyglass.errors import InputError
from tallyglass.moment import Ts
from tallyglass.oplog.entry.entry import TXN_COMMANDS, Entry
from tallyglass.oplog.read.entries import stamp, walk_oplog
from tallyglass.oplog.snapshot import BUCKETS
from tallyglass.restore.catalogue.backups import newest_before
from tallyglass.restore.catalogue.window import OplogReader, RecoverableWindow, Stretch
from tallyglass.restore.timeline.timeline import VIEWS


class Stratum(StrEnum):
    """Where points are drawn, each as often as the others: those that differ for a replay are rare in an oplog."""

    ANY_SECOND = "any second"
    BUSY = "a busy time"
    """Before any entry, so that busy times are drawn more often."""
    TRANSACTION = "inside a transaction"
    """Between two entries of one transaction."""
    DEFINITIONS = "beside a change of definitions"
    """Right before or right after a command, such as a create, a drop or a rename."""


@dataclass(frozen=True, slots=True)
class RandomPoint:
    """A point that was drawn: ``limit`` is exclusive, and ``base`` the newest backup from which it can be restored."""

    seed: int
    stratum: Stratum
    limit: Ts
    base: Path


async def draw(window: RecoverableWindow, oplogs: Sequence[OplogReader], seed: int) -> RandomPoint:
    """Draw a stratum among those that the window has, and a point in it. Reads the oplog of the window once.

    Raises InputError if nothing can be restored, and the errors of the gateways.
    """
    inside = [one for one in window.restorable if one.first < one.last]
    if not inside:
        reasons = [one.why for one in window.bases if one.why][:2]
        raise InputError("There is no moment to draw: nothing can be restored.", " ".join(reasons))
    lottery = _Lottery(seed)
    for reader, part in _readings(oplogs, inside):
        query = {"ts": {"$gt": stamp(part.first), "$lte": stamp(part.last)}}
        await walk_oplog(reader.gateway, query, lottery)
    chance = random.Random(seed)
    drawn = {stratum: limit for stratum, (_, limit) in lottery.first.items()}
    drawn[Stratum.ANY_SECOND] = _any_second(inside, chance)
    stratum = chance.choice([one for one in Stratum if one in drawn])
    # Right after the last entry nothing proves yet that the oplog reaches the point.
    limit = min(drawn[stratum], max(one.last for one in inside if one.first < drawn[stratum]))
    return RandomPoint(seed, stratum, limit, newest_before(window.bases, limit))


def _readings(oplogs: Sequence[OplogReader], inside: Sequence[Stretch]) -> list[tuple[OplogReader, Stretch]]:
    """What to read where, so that each part of the window is read once."""
    found = []
    for stretch in inside:
        read = stretch.first
        for one in sorted(oplogs, key=lambda one: (one.stretch.first, -one.stretch.last.number)):
            last = min(one.stretch.last, stretch.last)
            if one.stretch.first <= read < last:
                found.append((one, Stretch(read, last)))
                read = last
    return found


def _any_second(inside: Sequence[Stretch], chance: random.Random) -> Ts:
    """A position drawn by time alone: the beginning of a second, or the end where a stretch has no whole one."""
    seconds = [one.last.t - one.first.t for one in inside]
    (stretch,) = chance.choices(inside, seconds if any(seconds) else None)
    at = chance.randint(stretch.first.t + 1, max(stretch.last.t, stretch.first.t + 1))
    return min(Ts(at, 1), stretch.last)


class _Lottery:
    """A sink that keeps, for each stratum, the entry with the smallest keyed hash of its position: every entry has
    the same chance, and neither their order nor an entry that is read twice changes it. Left out are the entries that
    create and drop a time series: it is two of them, and no plan restores what is between."""

    def __init__(self, seed: int) -> None:
        self._key = seed.to_bytes(8, "big")
        self.first: dict[Stratum, tuple[bytes, Ts]] = {}

    def write(
        self, _op: str, ns: str, _ui: bytes, _key: bytes, place: int, _term: int, _size: int, _batch: bytes, _o: int
    ) -> bool:
        if not ns.endswith(VIEWS):
            self._enter(Stratum.BUSY, place, Ts.of_number)
        return True

    def feed(self, entry: Entry) -> None:
        if entry.ns.endswith(VIEWS) or (entry.op == "c" and str(entry.o.get(entry.command)).startswith(BUCKETS)):
            return
        self._enter(Stratum.BUSY, entry.ts.number, Ts.of_number)
        if entry.txn is not None and entry.previous is not None:
            self._enter(Stratum.TRANSACTION, entry.ts.number, Ts.of_number)
        elif entry.op == "c" and entry.command not in TXN_COMMANDS:
            self._enter(Stratum.DEFINITIONS, entry.ts.number, _either_side)

    def _enter(self, stratum: Stratum, place: int, limit: Callable[[int], Ts]) -> None:
        ticket = blake2b(place.to_bytes(8, "big"), digest_size=8, key=self._key, person=stratum.name.encode()).digest()
        if stratum not in self.first or ticket < self.first[stratum][0]:
            self.first[stratum] = ticket, limit(place)


def _either_side(place: int) -> Ts:
    """Before an entry or after it, by the last bit of a hash of its position."""
    before = Ts.of_number(place)
    return before if blake2b(place.to_bytes(8, "big"), digest_size=1).digest()[0] & 1 else before.next
