"""Which stretches of a pool's writes are faster than what the pool writes all the time.

Of many writers some always meet by chance. A stretch counts by what it has beyond twice the usual pace: for writes at
random moments that is more than twenty documents once in 10^10 stretches (the tail of a cumulative sum).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tallyglass.oplog.incidents.burst import MANY, Burst, together
from tallyglass.oplog.incidents.families import Family
from tallyglass.oplog.incidents.recurrence import SLOT_MILLIS, YOUNG, Recurrence

FASTER = 2
"""How many times the usual pace is still usual."""


def hurried(row: Burst, bursts: Sequence[Burst], family: Family, seen: Recurrence) -> list[Burst]:
    """The stretches of a row that are faster than usual; the row itself where nothing usual is known.

    ``bursts`` are those of the family, in order of time.
    """
    millis = family.last_wall - family.first_wall - row.millis
    if millis <= 0 or not _is_usual(row, seen):
        return [row]
    usual = FASTER * (family.documents - row.documents) / millis
    return [together(pieces) for pieces in _beyond((one for one in bursts if row.holds(one)), usual)]


def _is_usual(burst: Burst, seen: Recurrence) -> bool:
    """Whether there is enough at other times to know what is usual."""
    first, last = burst.first_wall // SLOT_MILLIS, burst.last_wall // SLOT_MILLIS
    return seen.slots_without(first, last) >= 2 * YOUNG


def _beyond(bursts: Iterable[Burst], pace: float) -> list[list[Burst]]:
    """The stretches with at least :data:`MANY` documents beyond a pace, in documents a millisecond."""
    found: list[list[Burst]] = []
    pieces: list[Burst] = []
    best, beyond, peak = 0, 0.0, 0.0

    def close() -> None:
        if peak >= MANY:
            found.append(pieces[:best])

    for burst in bursts:
        if pieces:
            beyond -= pace * pieces[-1].gap(burst)
            if beyond <= 0 or peak - beyond >= MANY:
                close()
                pieces, beyond, peak = [], 0.0, 0.0
        pieces.append(burst)
        beyond += burst.documents - pace * burst.millis
        if beyond > peak:
            best, peak = len(pieces), beyond
    close()
    return found
