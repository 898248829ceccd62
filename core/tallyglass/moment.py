"""Times: oplog timestamps, dates, and the forms in which people write them.

A typed time is read here and nowhere else: oplog timestamps as every tool prints them, RFC 3339 dates, times of day,
spans back from now, and the dates in log lines of mongod. A text with more than one meaning is refused with the texts
that have one. All datetimes of this package are aware and in UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import NamedTuple

from tallyglass.errors import InputError
from tallyglass.text import clean

FORMS = "02:15Z, yesterday 14:30Z, 2026-11-20T18:06:14Z, 2 hours ago, now-1d12h or 1795197974:14"
"""Examples of what :func:`parse_time` reads, for help texts."""

_UINT32 = 0xFFFF_FFFF
"""The largest value of each half of a BSON timestamp: seconds, and the count within the second."""
_TIMESTAMP = re.compile(r"(\d{1,10}):(\d{1,10})\Z")

# Below nine digits the seconds would be in 1973 or before, and the text could be a time of day.
_TYPED_TIMESTAMP = (
    re.compile(r"(\d{9,10}):(\d{1,10})\Z"),
    re.compile(r"timestamp\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)\Z", re.IGNORECASE),
    re.compile(r"(?:timestamp\(\s*)?\{\s*[\"']?t[\"']?\s*:\s*(\d{1,10})\s*,\s*[\"']?i[\"']?\s*:\s*(\d{1,10})\s*\}\s*\)?\Z",
               re.IGNORECASE),
    re.compile(r"\{\s*[\"']?\$timestamp[\"']?\s*:\s*\{\s*[\"']?t[\"']?\s*:\s*(\d{1,10})\s*,\s*[\"']?i[\"']?\s*:\s*(\d{1,10})\s*\}\s*\}\Z"),
)  # fmt: skip
_LOGGED_DATE = re.compile(r"[\"']?\$date[\"']?\s*:\s*[\"']([^\"']{10,40})[\"']")
_CONSTRUCTED_DATE = re.compile(r"(?:new\s+)?(?:ISODate|Date)\(\s*[\"']([^\"']{10,40})[\"']\s*\)\Z")
_OLD_LOG_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d{4})\s+[A-Z]\d?\s")

_ZONE = r"(?:\s*(?P<zone>z|utc|gmt|local|[+-]\d\d:?\d\d|[+-]\d\d))?"
_DATE = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d{1,2})-(?P<day>\d{1,2})"
    r"(?:(?:t|\s+)(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?)?"
    + _ZONE + r"\Z",
    re.IGNORECASE,
)  # fmt: skip
_TIME_OF_DAY = re.compile(
    r"(?:(?P<when>today|yesterday)\s+(?:at\s+)?)?"
    r"(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,9}))?)?" + _ZONE + r"\Z",
    re.IGNORECASE,
)  # fmt: skip
_DAY_BEHIND = re.compile(r"(\d.*\S)\s+(today|yesterday)\Z", re.IGNORECASE)
_EPOCH = re.compile(r"\d{9,10}\Z")
_EPOCH_MILLISECONDS = re.compile(r"\d{12,13}\Z")

_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([a-z]+)\s*(?:,|and)?\s*")
_MONTHS = re.compile(r"\d\s*(M)(?![a-z])")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_UNIT_NAMES = {
    "ms": ("millisecond", "milliseconds"),
    "s": ("sec", "secs", "second", "seconds"),
    "m": ("min", "mins", "minute", "minutes"),
    "h": ("hr", "hrs", "hour", "hours"),
    "d": ("day", "days"),
    "w": ("week", "weeks"),
}
_UNIT_SECONDS = _UNITS | {name: _UNITS[unit] for unit, names in _UNIT_NAMES.items() for name in names}
_RANGES = {"month": (1, 12), "hour": (0, 23), "minute": (0, 59), "second": (0, 59)}


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
    def number(self) -> int:
        """This timestamp as one number with the same order."""
        return self.t << 32 | self.i

    @classmethod
    def of_number(cls, number: int) -> Ts:
        """The timestamp that is this number."""
        return cls(number >> 32, number & _UINT32)

    @property
    def next(self) -> Ts:
        """The next timestamp: the exclusive bound that includes this one. The largest there is has none."""
        return Ts.of_number(min(self.number + 1, _UINT32 << 32 | _UINT32))


ZERO = Ts(0, 0)


def from_seconds(seconds: float) -> datetime:
    """The UTC datetime of a number of seconds since 1970."""
    return datetime.fromtimestamp(seconds, UTC)


def from_millis(millis: int) -> datetime | None:
    """The UTC datetime of milliseconds since 1970; None outside the years 1 to 9999."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    except OverflowError:
        return None


def checked_ts(t: object, i: object) -> Ts:
    """The timestamp of two values of a file. Raises ValueError unless each is a whole number of 32 bits."""
    if type(t) is int and type(i) is int and 0 <= t <= _UINT32 and 0 <= i <= _UINT32:
        return Ts(t, i)
    raise ValueError("an oplog timestamp is not of two numbers of 32 bits")


def parse_ts(text: str) -> Ts:
    """Read ``"t:i"`` as programs write it. Raises InputError for any other form, and for numbers over 32 bits."""
    found = _TIMESTAMP.match(text.strip())
    with suppress(ValueError):
        if found:
            return checked_ts(int(found[1]), int(found[2]))
    raise InputError(
        f"'{clean(text, 60)}' is not an oplog timestamp.", "Write seconds and ordinal, such as 1795197974:14."
    )


def parse_iso(text: str) -> datetime:
    """Read a date as :func:`iso` writes it. Raises InputError for a text without a zone, and for any other form."""
    with suppress(ValueError, OverflowError):
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            return found.astimezone(UTC)
    raise InputError(f"'{clean(text, 60)}' is not a date.", "Write it as 2026-11-20T18:06:14Z.")


def parse_time(text: str, now: datetime | None = None, zone: tzinfo | None = None) -> datetime:
    """Read a typed time, to the second or finer, as a UTC datetime.

    ``now`` is what relative forms count from; ``zone`` is the local time zone, by default that of this machine. A time
    without a zone is refused where UTC and local time differ, as is a local time that clocks showed twice or skipped.
    ``ISODate("...")`` without a zone is UTC, as in mongosh.
    Raises InputError with the position of the error.
    """
    return _Reader(text, now, zone).read()[0]


def parse_since(text: str, now: datetime | None = None, zone: tzinfo | None = None) -> Ts:
    """Read a typed time as the first timestamp of it: exact for an oplog timestamp, else ordinal 0 of the second.

    Raises InputError as :func:`parse_time`, and for a time before 1970 or after 2106.
    """
    found, ts = _Reader(text, now, zone).read()
    seconds = int(found.timestamp() // 1)
    if not 0 <= seconds <= _UINT32:
        raise InputError(f"'{clean(text, 60)}' is outside the range of an oplog timestamp.", "Use 1970 to 2106.")
    return ts or Ts(seconds, 0)


def counts_from_now(text: str) -> bool:
    """Whether a typed time counts from the clock of this machine: ``now``, ``-5m``, ``2 hours ago``."""
    text = text.strip().lower()
    return text.startswith(("now", "-")) or text.endswith("ago")


def check_within(ts: Ts, first: Ts, last: Ts) -> None:
    """Raise InputError if ``ts`` is outside the window of an oplog that holds ``first`` to ``last``."""
    if ts < first:
        where, end = "before the oplog begins", first
    elif ts.t > last.t:
        where, end = "after the last entry of the oplog", last
    else:
        return
    raise InputError(
        f"{iso(ts.time)} is {where} ({iso(end.time)}).", f"The oplog holds {iso(first.time)} to {iso(last.time)}."
    )


class AmbiguousTime(InputError):
    """A time without a zone that means two moments: in UTC and in local time."""


class _Reader:
    """Reads one typed time."""

    def __init__(self, text: str, now: datetime | None, zone: tzinfo | None) -> None:
        self._typed = text
        self._text = text.strip()
        self._offset = len(text) - len(text.lstrip())
        self._now = (now or datetime.now(UTC)).astimezone(UTC)
        self._zone = zone

    def read(self) -> tuple[datetime, Ts | None]:
        """The time, and the timestamp where one was typed."""
        for form in _TYPED_TIMESTAMP:
            if found := form.match(self._text):
                ts = Ts(int(found[1]), int(found[2]))
                if max(ts) > _UINT32:
                    raise self._refusal("is not an oplog timestamp: its numbers have more than 32 bits", "", 0)
                return ts.time, ts
        readers: tuple[Callable[[], datetime | None], ...] = (
            self._relative, self._epoch, self._logged, self._date, self._time_of_day,
        )  # fmt: skip
        try:
            for read in readers:
                when = read()
                if when is not None:
                    return when, None
        except (OverflowError, OSError, ValueError):
            raise self._refusal("is outside the range of dates", f"Write {FORMS}.", 0) from None
        raise self._refusal("is not a time", f"Write {FORMS}.", self._first_strange())

    def _relative(self) -> datetime | None:
        """``now``, ``now-1d12h``, ``-5m``, ``2 hours ago``."""
        text = self._text.lower()
        if text == "now":
            return self._now
        if text.endswith("ago"):
            return self._now - self._span(text, 0, len(text) - 3)
        head = re.match(r"(?:now)?\s*-\s*", text)
        return self._now - self._span(text, head.end(), len(text)) if head else None

    def _span(self, text: str, start: int, end: int) -> timedelta:
        if month := _MONTHS.search(self._text):
            raise self._refusal("may mean months", "Write 30d for days, 1m for a minute.", month.start(1))
        seconds, at = 0.0, start
        while at < end:
            found = _SPAN.match(text, at, end)
            if not found or found[2] not in _UNIT_SECONDS:
                where = found.start(2) if found else at
                raise self._refusal("is not a time", "Units are ms, s, m, h, d and w, as in now-1d12h.", where)
            seconds += float(found[1]) * _UNIT_SECONDS[found[2]]
            at = found.end()
        if at == start:
            raise self._refusal("is not a time", "Write a number and a unit, as in now-5m.", start)
        return timedelta(seconds=seconds)

    def _epoch(self) -> datetime | None:
        if _EPOCH.match(self._text):
            return from_seconds(int(self._text))
        return from_seconds(int(self._text) / 1000) if _EPOCH_MILLISECONDS.match(self._text) else None

    def _logged(self) -> datetime | None:
        """A log line of mongod, whole or its date, and the dates of mongosh."""
        for form in (_LOGGED_DATE.search, _CONSTRUCTED_DATE.match, _OLD_LOG_LINE.match):
            if found := form(self._text):
                return _Reader(found[1], self._now, self._zone)._date("utc" if "ISODate" in found[0] else "")
        return None

    def _date(self, zone: str = "") -> datetime | None:
        """A date, in ``zone`` if it names none."""
        found = _DATE.match(self._text)
        if not found:
            return None
        self._check_fields(found)
        try:
            day = datetime(int(found["year"]), int(found["month"]), int(found["day"]))  # noqa: DTZ001 - zone below
        except ValueError:
            raise self._refusal("is not a date: the month has no such day", "", found.start("day")) from None
        when = day if found["hour"] is None else datetime.combine(day, _clock(found))
        zone = found["zone"] or zone
        if not zone:
            self._ask_for_zone(self._text, self._in_zone(when, "utc"), self._in_zone(when, "local"))
        return self._once(when, zone or "utc")

    def _time_of_day(self) -> datetime | None:
        if behind := _DAY_BEHIND.match(self._text):
            return _Reader(f"{behind[2]} {behind[1]}", self._now, self._zone)._time_of_day()
        found = _TIME_OF_DAY.match(self._text)
        if not found:
            return None
        self._check_fields(found)
        when, zone = (found["when"] or "").lower(), found["zone"] or "utc"

        def in_zone(zone: str) -> datetime:
            """The time of day on the day that was named, else today."""
            day = self._now.astimezone(self._tz(zone)).date() - timedelta(days=when == "yesterday")
            return datetime.combine(day, _clock(found))

        if not found["zone"]:
            utc, local = (self._in_zone(in_zone(zone), zone) for zone in ("utc", "local"))
            self._ask_for_zone(self._text[: found.end()], utc, local)
        moment = self._once(in_zone(zone), zone)
        if moment > self._now and not when:
            raise InputError(
                f"'{clean(self._text, 60)}' is still to come today.",
                f"Write yesterday {self._text}, or today {self._text}.",
                position=self._offset,
            )
        return moment

    def _ask_for_zone(self, written: str, utc: datetime, local: datetime) -> None:
        """Refuse a text without a zone if it means two times."""
        if utc != local:
            raise AmbiguousTime(
                f"'{clean(written, 60)}' may be UTC or local time.",
                f"Write {written}Z for {iso(utc)}, {written} local for {iso(local)}.",
                position=self._offset + len(written),
            )

    def _once(self, when: datetime, zone: str) -> datetime:
        """A time in a zone, refused where its clocks showed it twice or not at all."""
        first, second = sorted(self._in_zone(when.replace(fold=fold), zone) for fold in (0, 1))
        if first == second:
            return first
        was_shown = first.astimezone(self._tz(zone)).replace(tzinfo=None) == when
        raise self._refusal(
            f"was {'shown twice' if was_shown else 'skipped'} by local clocks",
            f"Write {iso(first)} or {iso(second)}.",
            len(self._text),
        )

    def _in_zone(self, when: datetime, zone: str) -> datetime:
        tz = self._tz(zone)
        aware = when.astimezone() if tz is None else when.replace(tzinfo=tz)
        return aware.astimezone(UTC)

    def _tz(self, zone: str) -> tzinfo | None:
        """The zone of a suffix; None for the machine's own, whose offset depends on the date."""
        zone = zone.lower()
        if zone == "local":
            return self._zone
        if zone in ("z", "utc", "gmt"):
            return UTC
        return datetime.strptime(zone if len(zone) > 3 else f"{zone}00", "%z").tzinfo

    def _check_fields(self, found: re.Match[str]) -> None:
        for name, (lowest, highest) in _RANGES.items():
            value = found.groupdict().get(name)
            if value is not None and not lowest <= int(value) <= highest:
                raise self._refusal(f"is not a time: there is no {name} {value}", "", found.start(name))

    def _first_strange(self) -> int:
        """How far the text looks like one of the forms."""
        lowered = self._text.lower()
        known = re.match(r"(?:today|yesterday|now)\s*|[\d:.,\s+tz-]*", lowered)
        return known.end() if known else 0

    def _refusal(self, why: str, advice: str, position: int) -> InputError:
        return InputError(f"'{clean(self._typed, 60)}' {why}.", advice, position=self._offset + position)


def _clock(found: re.Match[str]) -> time:
    fraction = (found["fraction"] or "0").ljust(6, "0")[:6]
    return time(int(found["hour"]), int(found["minute"]), int(found["second"] or 0), int(fraction))


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with a ``Z``, to the second, or to the millisecond where there is a fraction."""
    moment = moment.astimezone(UTC)
    text = moment.isoformat(timespec="milliseconds" if moment.microsecond else "seconds")
    return text.replace("+00:00", "Z")
