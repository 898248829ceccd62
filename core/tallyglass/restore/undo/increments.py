"""Which numbers some writes only ever add to. An entry says what a number became, not how: 205 after 200 was set, or 5
was added. Where every write of others to a field adds the same to different numbers, it is an increment, and it would
have been one without the accident. Where one sum or one product explains all that the accident left in a field, one
statement computed it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import Path, Unfit, Value, apply_update, differing, get
from tallyglass.oplog.entry.walk import Malformed
from tallyglass.restore.undo.values import INTEGERS, number, whole_number

Increments = Mapping[Path, int]
"""What others add at a path."""

_LEAST_WRITES, _LEAST_NUMBERS = 4, 3
"""Writes that one formula must explain, and of how many different numbers: a value that is set fits one number."""
_LEAST_DOCUMENTS = 4
"""The documents in which others must add the same: with fewer, one coincidence is a third of what is known."""
FACTORS = (1, -1, 2, 3, 0.5, 10, 100)
"""By what numbers are usually multiplied; any two numbers are related by some factor."""


@dataclass(slots=True)
class _Field:
    """What is added in each write, and by what it multiplies, None for neither; and the first numbers before."""

    steps: set[float | None] = field(default_factory=set)
    factors: set[float | None] = field(default_factory=set)
    numbers: set[float] = field(default_factory=set)
    writes: int = 0
    documents: set[Value | None] = field(default_factory=set)
    """The first ``_id``s."""

    def feed(self, identity: Value | None, before: Value | None, after: Value | None) -> None:
        self.writes += 1
        if len(self.documents) < _LEAST_DOCUMENTS:
            self.documents.add(identity)
        one, other = before and number(before), after and number(after)
        if (before is not None and one is None) or other is None:
            self.steps.add(None)
            self.factors.add(None)
            return
        begin = one or 0
        self.steps.add(other - begin if begin + (other - begin) == other else None)
        if begin or other:
            self.factors.add(other / begin if begin and begin * (other / begin) == other else None)
        if before is not None and len(self.numbers) < _LEAST_NUMBERS:
            self.numbers.add(begin)

    def only(self, found: set[float | None]) -> float | None:
        """The one number of a set, where there were enough writes to tell."""
        enough = self.writes >= _LEAST_WRITES and len(self.numbers) >= _LEAST_NUMBERS
        return next(iter(found)) if len(found) == 1 and enough else None


@dataclass(slots=True)
class IncrementSearch:
    """Feed the documents before some updates, with these, and read the results afterwards."""

    fields: dict[Path, _Field] = field(default_factory=dict)

    def feed(self, before: bytes, o: bytes) -> None:
        """Note an update, ``o``, of the document ``before``."""
        try:
            after = apply_update(before, o)
            for path in differing(before, after):
                found = self.fields.setdefault(path, _Field())
                found.feed(get(before, (b"_id",)), get(before, path), get(after, path))
        except (Unfit, Malformed):
            return

    @property
    def found(self) -> dict[Path, int]:
        """The paths at which nothing but the same whole number was ever added, often enough."""
        known = {path: one for path, one in self.fields.items() if len(one.documents) == _LEAST_DOCUMENTS}
        steps = {path: item.only(item.steps) for path, item in known.items()}
        return {path: int(step) for path, step in steps.items() if step is not None and step % 1 == 0}

    @property
    def explained(self) -> set[Path]:
        """The paths at which one sum or one product explains every write, often enough."""
        items = self.fields.items()
        return {path for path, item in items if {item.only(item.steps), item.only(item.factors)} != {None}}


def _difference(before: Value | None, after: Value | None) -> int | None:
    if before is None or after is None or before[0] not in INTEGERS or after[0] not in INTEGERS:
        return None
    return whole_number(after) - whole_number(before)


def _may_be_product(before: Value | None, after: Value | None) -> bool:
    """Whether a usual factor makes one number of another: one write among many that add may be one that multiplies."""
    one, other = (0 if value is None else whole_number(value) for value in (before, after))
    return one != 0 and any(one * factor == other for factor in FACTORS)


def is_increment(increments: Increments, path: Path, before: Value | None, after: Value | None) -> bool:
    """Whether a change is the increment that is known at its path."""
    return path in increments and _difference(before, after) == increments[path]


def increased(
    increments: Increments, path: Path, before: Value | None, after: Value | None, good: Value | None
) -> Value | None:
    """What ``good`` would have become by the increment that made ``after`` of ``before``; None where that is no known
    increment, or may be a product as well, or the type of the sum is not certain."""
    if not is_increment(increments, path, before, after) or good is None or good[0] not in INTEGERS:
        return None
    if _may_be_product(before, after):
        return None
    kinds = [one[0] for one in (before, after) if one is not None]
    if good[0] == walk.INT32 and kinds != [walk.INT32, walk.INT32]:
        return None
    total, size = whole_number(good) + increments[path], 4 if good[0] == walk.INT32 else 8
    try:
        return good[0], total.to_bytes(size, "little", signed=True)
    except OverflowError:
        return None
