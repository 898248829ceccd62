"""Moments: oplog timestamps, dates, and the forms in which people write them.

``1795197974:14`` is an oplog timestamp, ``2026-11-20T18:06:14Z`` a date, ``now-5m`` a relative one.
All datetimes of this package are aware and in UTC.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from tallyglass.errors import InputError

_TIMESTAMP = re.compile(r"(\d{1,10}):(\d{1,10})\Z")
_RELATIVE = re.compile(r"(?:now)?\s*-\s*(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|m|h|d|w)\Z")
_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_UINT32 = 0xFFFF_FFFF

FORMS = "1795197974:14, 2026-11-20T18:06:14Z, 2026-11-20 18:06 (UTC), 1795197974, now-5m or now"


class Ts(NamedTuple):
    """An oplog timestamp: ``t`` seconds since 1970 and ``i``, the ordinal within that second."""

    t: int
    i: int

    def __str__(self) -> str:
        return f"{self.t}:{self.i}"

    @property
    def time(self) -> datetime:
        """The second of this timestamp, in UTC."""
        return from_seconds(self.t)

    @property
    def next(self) -> Ts:
        """The timestamp right after this one: an exclusive bound that takes it in."""
        return Ts(self.t, self.i + 1)


ZERO = Ts(0, 0)


def from_seconds(seconds: float) -> datetime:
    """The UTC datetime of a number of seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


def parse_ts(text: str) -> Ts:
    """Read ``"t:i"``. Raises InputError for any other form, and for numbers over 32 bits."""
    found = _TIMESTAMP.match(text.strip())
    if found:
        t, i = int(found[1]), int(found[2])
        if t <= _UINT32 and i <= _UINT32:
            return Ts(t, i)
    raise InputError(f"{text[:60]!r} is not an oplog timestamp.", "Write seconds and ordinal, such as 1795197974:14.")


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """Read a moment in any form of :data:`FORMS`, as a UTC datetime.

    A date without a zone is taken as UTC. ``now`` is the moment that relative forms count from.
    Raises InputError.
    """
    word = text.strip()
    lowered = word.lower()
    now = now or datetime.now(UTC)
    if lowered == "now":
        return now
    try:
        relative = _RELATIVE.match(lowered)
        if relative:
            return now - timedelta(seconds=float(relative[1]) * _UNIT_SECONDS[relative[2]])
        if _TIMESTAMP.match(word):
            return parse_ts(word).time
        if re.fullmatch(r"\d{9,10}", word):
            return from_seconds(int(word))
        if re.match(r"\d{4}-\d\d", word):
            parsed = datetime.fromisoformat(word)
            return (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        pass
    raise InputError(f"{text[:60]!r} is not a moment that can be read.", f"Write it as {FORMS}.")


def parse_since(text: str, now: datetime | None = None) -> Ts:
    """Read a moment as the first timestamp of it: exact for ``t:i``, ordinal 0 for every other form."""
    word = text.strip()
    if _TIMESTAMP.match(word):
        return parse_ts(word)
    seconds = int(parse_time(word, now).timestamp())
    if not 0 <= seconds <= _UINT32:
        raise InputError(f"{text[:60]!r} lies outside what an oplog can hold.", "Use a time from 1970 to 2106.")
    return Ts(seconds, 0)


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with a ``Z``, to the second, or to the millisecond where there is a fraction."""
    moment = moment.astimezone(UTC)
    text = moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")
