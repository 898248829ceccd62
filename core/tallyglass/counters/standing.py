"""Whether a counter agrees with the ids of its collection: one decision for ``check``, the page and ``repair``. Pure.

A number below the largest id means that a counter which counts up is behind; one that descends is behind if it is above
the smallest. Of one that starts again neither means anything, and moving the wrong way hands out ids a second time. So
the decision rests on how the counter was seen to move, or on where it stands among the ids; where neither tells, it is
unclear.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tallyglass.text import plural

if TYPE_CHECKING:
    from tallyglass.counters.numbers import Number

_SAME_DENSITY = 10
"""A counter that counts up has ids below it about as close as those above. One that descends has none there but strays,
many times as far away."""

SOON = 1_000
"""Steps within which a counter collides soon. Ids further on may be strays, or those of an older system."""

_WHY = "Documents were written without the counter, or the counter was restored from an older state."
_COLLIDES = f"so the next insert collides. {_WHY}"


class Movement(StrEnum):
    """How a counter goes from one id to the next, as far as it is known."""

    RISES = "rises"
    DESCENDS = "descends"
    CYCLES = "cycles"
    MIXED = "mixed"
    """It rose, and fell more than once without a pattern."""
    UNSEEN = "unseen"


class Standing(StrEnum):
    """A counter compared with the ids of its collection."""

    AGREES = "agrees"
    BEHIND = "behind"
    """The next id exists already, or one soon after it."""
    UNCLEAR = "unclear"
    """It has not passed all ids, and it is not known to count up, or those ids are far away."""
    NOT_COMPARED = "not compared"
    """Its ids repeat, so that the largest one says nothing."""


@dataclass(frozen=True, slots=True)
class IdSpan:
    """The ids of a collection. ``below`` and ``above`` are those next to the counter, None if there are none or if they
    were not read; ``until_smallest`` is how many there are from the counter down to the smallest, None if not counted;
    ``soon`` is the last one that a counter which counts up reaches soon, ``later`` the first one after that, both None
    if there is none or if they were not read; ``rival`` is the name of another counter that may have handed them out,
    ``odd`` the number of values that are no ids and were left out."""

    smallest: int
    largest: int
    below: int | None = None
    above: int | None = None
    until_smallest: int | None = None
    soon: int | None = None
    later: int | None = None
    rival: str = ""
    odd: int = 0

    def last(self, direction: int) -> int:
        """The id that a counter which goes in this direction (1, -1) reaches last."""
        return self.largest if direction > 0 else self.smallest


def standing_of(
    movement: Movement, issued: int, start: int, ids: IdSpan, step: int, high: Number | None = None
) -> tuple[Standing, str]:
    """How a counter stands whose last id is ``issued``, with the reason as a sentence; empty if it agrees.

    ``step`` is what it adds for each id, below 0 if it descends; ``high`` what it had reached before it went back, None
    if it was not seen to.
    """
    if movement is Movement.CYCLES:
        return Standing.NOT_COMPARED, "It starts again on purpose, so that larger ids than its own are no fault."
    if movement is Movement.DESCENDS:
        return _standing_of_descending(issued, ids, step)
    if issued >= ids.largest:
        return Standing.AGREES, ""
    behind = f"{ids.largest - issued:,} behind: ids up to {ids.largest} exist"
    if movement is Movement.MIXED:
        return Standing.UNCLEAR, f"{behind}, or it does not count up: it rose and fell."
    if movement is Movement.UNSEEN and not _stands_as_one_that_rises(issued, start, ids):
        return Standing.UNCLEAR, f"{behind}, or it descends: it was not seen to move. Set its step in --config."
    if ids.rival:
        why = f"or they are ids of {ids.rival}, which has passed them and was not seen in use"
        return Standing.UNCLEAR, f"{behind}, {why}. Set their targets in --config."
    nearest = _far_off(issued, ids, step)
    if nearest is None:
        return Standing.BEHIND, f"{behind}, {_COLLIDES}"
    if high is not None and high >= nearest:
        return Standing.BEHIND, f"{behind}, so it collides at {nearest}: it was there before. {_WHY}"
    which = f"the nearest is {nearest - issued:,} further on"
    return Standing.UNCLEAR, f"{behind}, but {which}: they may not be its own."


def _far_off(issued: int, ids: IdSpan, step: int) -> int | None:
    """The next id, if a counter that counts up does not reach it soon."""
    if ids.smallest > issued:
        return ids.smallest if ids.smallest - issued > SOON * abs(step) else None
    if ids.later is None or (ids.soon is not None and ids.soon > issued):
        return None
    # It may have passed that since the ids were read.
    return ids.later if ids.later > issued else ids.largest


def _standing_of_descending(issued: int, ids: IdSpan, step: int) -> tuple[Standing, str]:
    if issued <= ids.smallest:
        return Standing.AGREES, ""
    behind = f"It descends and is {issued - ids.smallest:,} behind: ids down to {ids.smallest} exist"
    # Moved to a stray small id, it would have none left.
    steps = (issued - ids.smallest) // max(1, abs(step))
    if ids.until_smallest is None or ids.until_smallest * _SAME_DENSITY < steps:
        return Standing.UNCLEAR, f"{behind}, but few of the ids in between: some may not be its own."
    return Standing.BEHIND, f"{behind}, {_COLLIDES}"


def _stands_as_one_that_rises(issued: int, start: int, ids: IdSpan) -> bool:
    """Whether the ids around a counter are those of one that counts up: it is at its start, or has ids below it."""
    if ids.below is None or ids.above is None:
        return issued == start < ids.smallest
    return issued - ids.below <= _SAME_DENSITY * (ids.above - issued)


def odd_ids(count: int) -> str:
    """How many numbers were not compared, for a note."""
    return f"{plural(count, 'id')} could not be compared (no whole number, beyond the type, or in an array)"


def spacing(first: int, last: int, step: int, ids: IdSpan, documents: int, *, known: bool) -> int:
    """How far apart the ids from ``first`` to ``last`` are: by the step of the counter, or by 1 if there are more
    documents than that, since one that adds ten at once may hand out ten ids. A step that is not ``known``, but was
    found in the changes of the number, is none of the ids if these end between two steps."""
    between = not known and (ids.largest - ids.smallest) % step != 0
    return 1 if between or documents > (last - first) // abs(step) + 1 else abs(step)


def moved_to(stored: int, step: int, past: int) -> int:
    """The first of the numbers ``stored``, ``stored + step`` and so on that has reached ``past``."""
    return stored + max(0, -(-(past - stored) // step)) * step
