"""In which order a statement went through the documents, and which fields it changed: what tells two statements apart.

One statement visits documents in the order of one scan. If two stretches of writes both go up (or down) through the
``_id``s and the second begins where the first has been, or if they change entirely different fields, they are two.
Where an application removes documents that were made one after another, the chunks of a file, those of a person's
filter are not neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tallyglass.oplog.entry import layout
from tallyglass.oplog.entry.batch import time_of
from tallyglass.oplog.entry.entry import Entry, read_entry
from tallyglass.oplog.entry.walk import Malformed

MARKS = 6
"""How many entries of a stretch are looked at, each with the one after it, beside the first and the last."""

RAW_BYTES = 1_024
"""Entries up to this size are kept whole as samples and marks, while a burst is open."""

_LARGE_MARK = 8
"""Bytes of a mark that is only a ``ts``."""

_ORDERED = {0x02: "text", 0x07: "ObjectId", 0x09: "date", 0x10: "number", 0x12: "number"}
_NONE: frozenset[bytes] = frozenset()

Id = tuple[str, Any]


@dataclass(frozen=True, slots=True)
class IdOrder:
    """The ``_id`` of the first and the last document, and whether those between go up (1), down (-1) or neither (0).

    ``neighbours`` is how many of those looked at have the ``_id`` that follows on the one before. ``fields`` are the
    fields changed by an update; empty for a delete, and where whole documents were replaced.
    """

    first: Id
    last: Id
    direction: int
    neighbours: int
    fields: frozenset[bytes]

    def goes_on_in(self, later: IdOrder) -> bool | None:
        """Whether a later stretch continues in the same direction, as the rest of one statement would; None where
        nothing shows it."""
        if self.fields and later.fields and not self.fields & later.fields:
            return False
        if 0 in (self.direction, later.direction) or self.last[0] != later.first[0]:
            return None
        return self.direction == later.direction == _step(self.last, later.first)


def order_of(marks: Sequence[bytes]) -> IdOrder | None:
    """The order of a stretch, read from some of its entries, oldest first; None where they cannot be compared."""
    if any(map(is_large, marks)):
        return None
    try:
        ids, fields = zip(*map(_read, marks), strict=True)
    except Malformed:
        return None
    kept = [one for one in ids if one is not None]
    if not kept or len(kept) < len(ids):
        return None
    steps = {_step(one, other) for one, other in pairwise(kept)}
    same = len({kind for kind, _ in kept}) == 1
    direction = steps.pop() if len(steps) == 1 and same and len(kept) >= MARKS - 1 else 0
    near = sum(_are_neighbours(one, other) for one, other in pairwise(kept))
    return IdOrder(kept[0], kept[-1], direction, near, _NONE if _NONE in fields else frozenset[bytes]().union(*fields))


def thinned(marks: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The marks of a stretch, from those of its parts: chosen by their ``ts`` alone, they are the same however an oplog
    is cut into slices."""
    if len(marks) <= MARKS:
        return marks
    return tuple([marks[place] for place in marked(len(marks), lambda place: _number(marks[place]))])


def marked(size: int, number: Callable[[int], int], among: Sequence[int] = ()) -> list[int]:
    """Which of so many entries in order of time are marks; ``number`` gives the ``ts`` of one as a number.

    Those come first whose counter is divisible by 256, then by 128, and so on, so that of a large stretch few have to
    be compared: ``among`` are all that are divisible by a number, if they are enough.
    """
    best = sorted(among or range(size), key=lambda place: _rank(number(place)))[:MARKS]
    return sorted({0, size - 1, *best, *(place + 1 for place in best if place + 1 < size)})


def _rank(number: int) -> tuple[int, int]:
    low = number & 255
    return -(low & -low or 256), scattered(number)


def scattered(ts: int) -> int:
    """A number that looks random, made of a timestamp."""
    return ts * 0x9E3779B97F4A7C15 >> 17 & 0xFFFFFFFF


def mark_of(raw: bytes, number: int) -> bytes:
    """An entry as a mark: of one that is too large, only its ``ts``."""
    return raw if len(raw) <= RAW_BYTES else number.to_bytes(_LARGE_MARK, "big")


def is_large(mark: bytes) -> bool:
    """Whether an entry was too large for a mark."""
    return len(mark) == _LARGE_MARK


def _number(mark: bytes) -> int:
    if is_large(mark):
        return int.from_bytes(mark, "big")
    return layout.ts_of(mark) or time_of(mark, 0, len(mark))[0]


def _are_neighbours(one: Id, other: Id) -> bool:
    """Whether the other ``_id`` is the next that was made, by one process, or the next number."""
    if one[0] == other[0] == "ObjectId":
        counts = [int.from_bytes(value[9:], "big") for _, value in (one, other)]
        return one[1][4:9] == other[1][4:9] and counts[1] - counts[0] == 1
    return one[0] == other[0] == "number" and bool(other[1] - one[1] == 1)


def _step(one: Id, other: Id) -> int:
    if one[0] != other[0] or one[1] == other[1]:
        return 0
    return 1 if one[1] < other[1] else -1


def _read(mark: bytes) -> tuple[Id | None, frozenset[bytes]]:
    """The ``_id`` of an entry, None if it has no order, and the fields that it changed. Raises Malformed."""
    write = layout.write_at(mark, layout.OP_AT, len(mark))
    if write is not None and write[0] == "d":  # it is read of each burst that is kept
        return _id(write[3][0], write[3][1:]), _NONE
    entry = read_entry(mark)
    found = entry.id_at
    return None if found is None else _id(found.type, entry.raw[found.start : found.end]), _fields(entry)


def _id(type_: int, value: bytes) -> Id | None:
    kind = _ORDERED.get(type_)
    if kind in ("number", "date"):
        return kind, int.from_bytes(value, "little", signed=True)
    return None if kind is None else (kind, value[4 * (kind == "text") :])


def _fields(entry: Entry) -> frozenset[bytes]:
    changes = entry.changes() if entry.op == "u" else None
    return _NONE if changes is None else frozenset(b"".join(change.path[:1]).partition(b".")[0] for change in changes)
