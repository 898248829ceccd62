"""Which numbers others only ever add to. An entry says what a number became, not how: 205 after 200 was set, or 5 was
added. Where every write of others to a field adds the same to different numbers, it is an increment, and it would have
been one without the accident."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from tallyglass.oplog.entry import walk
from tallyglass.oplog.entry.changes import Path, Unfit, Value, apply_update, differing, get
from tallyglass.oplog.entry.walk import Malformed

Increments = Mapping[Path, int]
"""What others add at a path."""

_LEAST_WRITES, _LEAST_NUMBERS = 4, 3
"""Writes of others that must add the same, and to how many different numbers: a value that is set fits one number."""
_INTEGERS = frozenset({walk.INT32, walk.INT64})


@dataclass(slots=True)
class _Field:
    steps: set[int | None] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    writes: int = 0


@dataclass(slots=True)
class IncrementSearch:
    """Feed the documents before the updates of others, with these, and take :attr:`found` afterwards."""

    fields: dict[Path, _Field] = field(default_factory=dict)

    def feed(self, before: bytes, o: bytes) -> None:
        """An update of others."""
        try:
            after = apply_update(before, o)
            for path in differing(before, after):
                one, other = get(before, path), get(after, path)
                item = self.fields.setdefault(path, _Field())
                item.writes += 1
                item.steps.add(_difference(one, other))
                if one is not None and len(item.numbers) < _LEAST_NUMBERS and one[0] in _INTEGERS:
                    item.numbers.add(_number(one))
        except (Unfit, Malformed):
            return

    @property
    def found(self) -> dict[Path, int]:
        """The paths at which nothing but the same increment was seen, often enough."""
        return {
            path: step
            for path, item in self.fields.items()
            if len(item.steps) == 1 and item.writes >= _LEAST_WRITES and len(item.numbers) >= _LEAST_NUMBERS
            for step in item.steps
            if step is not None
        }


def number(value: Value) -> float | None:
    """The number that a value is; None for another value, and for a decimal."""
    if value[0] == walk.DOUBLE:
        (found,) = struct.unpack("<d", value[1])
        return float(found)
    return _number(value) if value[0] in _INTEGERS else None


def _number(value: Value) -> int:
    return int.from_bytes(value[1], "little", signed=True)


def _difference(before: Value | None, after: Value | None) -> int | None:
    if before is None or after is None or before[0] not in _INTEGERS or after[0] not in _INTEGERS:
        return None
    return _number(after) - _number(before)


def is_increment(increments: Increments, path: Path, before: Value | None, after: Value | None) -> bool:
    """Whether a change is the increment that is known at its path."""
    return path in increments and _difference(before, after) == increments[path]


def increased(
    increments: Increments, path: Path, before: Value | None, after: Value | None, good: Value | None
) -> Value | None:
    """What ``good`` would have become by the increment that made ``after`` of ``before``; None where that is no known
    increment, or the type of the sum is not certain."""
    if not is_increment(increments, path, before, after) or good is None or good[0] not in _INTEGERS:
        return None
    kinds = [one[0] for one in (before, after) if one is not None]
    if good[0] == walk.INT32 and kinds != [walk.INT32, walk.INT32]:
        return None
    total, size = _number(good) + increments[path], 4 if good[0] == walk.INT32 else 8
    try:
        return good[0], total.to_bytes(size, "little", signed=True)
    except OverflowError:
        return None
