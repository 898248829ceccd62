"""Decode ObjectIds, and find the ObjectIds of a moment. Works on text and does not import a driver.

An ObjectId has 12 bytes: seconds since 1970 (4, unsigned, big-endian), a random value of the process that created it
(5), and a counter with a random start (3). Before the 2018 revision of the format, the middle five were a machine hash
(3) and a process id (2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tallyglass.errors import InputError
from tallyglass.moment import from_seconds
from tallyglass.text import clean

__all__ = ["ObjectIdParts", "decode", "find_all", "first_of", "last_of", "range_filter"]

_WRAPPED = re.compile(r"""(?:ObjectId\s*\(|\{\s*["']?\$oid["']?\s*:)?\s*["']?([0-9a-fA-F]{24})["']?\s*[)}]?\Z""")
_ANY = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{24}(?![0-9A-Za-z])")
_LAST_SECOND = 0xFFFF_FFFF
"""An ObjectId keeps its seconds in four bytes: until the year 2106."""
_FORM = "An ObjectId is 24 hexadecimal digits, such as 656b5e7d0f3c2a1b9d8e7f60."


@dataclass(frozen=True, slots=True)
class ObjectIdParts:
    """The parts of an ObjectId. ``hex`` and ``random_hex`` are lower case; ``time`` is UTC with a resolution of 1 s.

    ``machine`` and ``pid`` interpret the random part as drivers before 2018 did. With newer drivers they are
    meaningless.
    """

    hex: str
    time: datetime
    random_hex: str
    machine: int
    pid: int
    counter: int


def decode(text: str) -> ObjectIdParts:
    """Decode one ObjectId: 24 hex digits, bare or as ``ObjectId("...")`` or ``{"$oid": "..."}``.

    Raises InputError for anything else.
    """
    found = _WRAPPED.match(text.strip())
    if not found:
        raise InputError(f"'{clean(text, 60)}' is not an ObjectId.", _FORM)
    digits = found[1].lower()
    return ObjectIdParts(
        hex=digits,
        time=from_seconds(int(digits[:8], 16)),
        random_hex=digits[8:18],
        machine=int(digits[8:14], 16),
        pid=int(digits[14:18], 16),
        counter=int(digits[18:], 16),
    )


def find_all(text: str) -> tuple[str, ...]:
    """Return all ObjectIds in a text, in lower case and order of first appearance, without duplicates."""
    return tuple(dict.fromkeys(found.lower() for found in _ANY.findall(text)))


def first_of(moment: datetime) -> str:
    """Return the lowest ObjectId in the second of ``moment``. Raises InputError outside 1970..2106."""
    return f"{_second(moment):08x}" + "0" * 16


def last_of(moment: datetime) -> str:
    """Return the highest ObjectId in the second of ``moment``. Raises InputError outside 1970..2106."""
    return f"{_second(moment):08x}" + "f" * 16


def range_filter(start: datetime, end: datetime) -> str:
    """Return a mongosh filter for the ObjectIds created from ``start`` until before ``end``.

    ObjectIds have a resolution of one second, so both bounds are extended to whole seconds.
    Raises InputError for an empty range.
    """
    if start >= end:
        raise InputError("The time range is empty: its end is not after its start.")
    if end.microsecond:
        end += timedelta(seconds=1)
    return f'{{"_id": {{"$gte": ObjectId("{first_of(start)}"), "$lt": ObjectId("{first_of(end)}")}}}}'


def _second(moment: datetime) -> int:
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    seconds = int(aware.timestamp() // 1)
    if not 0 <= seconds <= _LAST_SECOND:
        raise InputError(f"No ObjectId has the time {aware:%Y-%m-%d}.", "ObjectIds cover 1970-01-01 to 2106-02-07.")
    return seconds
