"""What one BSON value, two paths, or a document with an update tell."""

from __future__ import annotations

import struct

from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import Path, Unfit, Value, apply_update, parse

INTEGERS = frozenset({walk.INT32, walk.INT64})
NUMBERS = INTEGERS | {walk.DOUBLE, walk.DECIMAL}
_SHORTEST_TEXT = 3
"""Bytes of a text from which another text may be recognised as made of it; shorter ones are in too many words."""


_MINUTE = 60_000
"""Milliseconds."""


def updated(document: bytes | None, o: bytes) -> bytes | None:
    """The document after an update; None where there is none, or the update does not fit it. Raises Malformed."""
    try:
        return None if document is None else apply_update(document, o)
    except Unfit:
        return None


def related(one: Path, other: Path) -> bool:
    """Whether one path is the other, or leads to it."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def is_number(value: Value | None) -> bool:
    """Whether a value is a number of any type."""
    return value is not None and value[0] in NUMBERS


def counts_as_number(held: Value | None) -> bool:
    """Whether a program may calculate with what it read: a number, or nothing or null, which is taken for zero."""
    return held is None or held[0] == walk.NULL or is_number(held)


def number(value: Value) -> float | None:
    """The number that a value is; None for another value, and for a decimal."""
    if value[0] == walk.DOUBLE:
        (found,) = struct.unpack("<d", value[1])
        return float(found)
    return whole_number(value) if value[0] in INTEGERS else None


def whole_number(value: Value) -> int:
    """The number of a value of an integer type; of a date the milliseconds."""
    return int.from_bytes(value[1], "little", signed=True)


def is_moved_date(value: Value, held: Value | None) -> bool:
    """Whether a date may be another one that was moved, by whole minutes. The time of a write seldom lies so."""
    if held is None or not value[0] == held[0] == walk.DATE:
        return False
    return (whole_number(value) - whole_number(held)) % _MINUTE == 0


def contains(value: Value, part: Value | None) -> bool:
    """Whether a value equals another, or is a text with the other in it. Of booleans and null there are too few for an
    equal one to say anything."""
    if part is None or value[0] != part[0] or value[0] in (walk.BOOL, walk.NULL):
        return False
    text = part[1][4:-1]
    return value == part or (part[0] == walk.STRING and len(text) >= _SHORTEST_TEXT and text in value[1])


def may_be_upsert(document: bytes) -> bool:
    """Whether an insert may be the ``$inc`` of an upsert, whatever was there before: but for the ``_id``, it has
    numbers alone."""
    return all(is_number(value) for name, value in parse(document).items() if name != b"_id")
