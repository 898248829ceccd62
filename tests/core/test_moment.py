"""Every form in which people write a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from bson import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from tallyglass.errors import InputError
from tallyglass.moment import AmbiguousTime, Ts, check_within, iso, parse_iso, parse_since, parse_time, parse_ts

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=1))
SIX = timedelta(minutes=6, seconds=14)


@pytest.fixture
def local_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the local time zone of this process, in the form of ``TZ``, for one test."""

    def put(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield put
    monkeypatch.undo()
    time.tzset()


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_timestamp_is_read_back_as_written(t: int, i: int) -> None:
    assert parse_ts(str(Ts(t, i))) == Ts(t, i)
    assert t < 100_000_000 or parse_since(f" {t}:{i} ") == Ts(t, i)


@pytest.mark.parametrize(
    "text",
    [
        "1795197974:14",
        "Timestamp(1795197974, 14)",
        "timestamp(1795197974,14)",
        "Timestamp({ t: 1795197974, i: 14 })",
        '{"t": 1795197974, "i": 14}',
        '{"$timestamp": {"t": 1795197974, "i": 14}}',
    ],
)
def test_timestamps_keep_their_ordinal(text: str) -> None:
    assert parse_since(text, NOW) == Ts(1795197974, 14)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", NOW),
        ("now-5m", NOW - timedelta(minutes=5)),
        ("-1.5h", NOW - timedelta(minutes=90)),
        ("now-1d12h", NOW - timedelta(hours=36)),
        ("now - 1d 30 min", NOW - timedelta(days=1, minutes=30)),
        ("2 hours ago", NOW - timedelta(hours=2)),
        ("1 day, 3 hours and 5 minutes ago", NOW - timedelta(days=1, hours=3, minutes=5)),
        ("2w ago", NOW - timedelta(weeks=2)),
        ("02:15Z", NOW.replace(hour=2, minute=15)),
        ("2:15 utc", NOW.replace(hour=2, minute=15)),
        ("02:15:30Z", NOW.replace(hour=2, minute=15, second=30)),
        ("02:15+01:00", NOW.replace(hour=1, minute=15)),
        ("02:15 local", NOW.replace(hour=1, minute=15)),
        ("yesterday 14:30Z", NOW.replace(day=19, hour=14, minute=30)),
        ("Yesterday at 14:30 +0100", NOW.replace(day=19, hour=13, minute=30)),
        ("today 23:00Z", NOW.replace(hour=23)),
        ("14:30Z yesterday", NOW.replace(day=19, hour=14, minute=30)),
        ("2026-11-20T18:06:14Z", NOW + SIX),
        ("2026-11-20t18:06:14z", NOW + SIX),
        ("2026-11-20 19:06:14+01:00", NOW + SIX),
        ("2026-11-20T19:06:14.250+0100", NOW + SIX + timedelta(milliseconds=250)),
        ("2026-11-20 18:06Z", NOW + timedelta(minutes=6)),
        ("2026-11-20 19:06:14 local", NOW + SIX),
        ("2026-11-20Z", NOW.replace(hour=0)),
        ('ISODate("2026-11-20T18:06:14Z")', NOW + SIX),
        ('ISODate("2026-11-20T18:06:14")', NOW + SIX),
        ('{"t":{"$date":"2026-11-20T18:06:14.000+00:00"},"s":"I","c":"NETWORK","msg":"ended"}', NOW + SIX),
        ("2026-11-20T18:06:14.000+0000 I  NETWORK  [conn7] end connection", NOW + SIX),
        ("1795197600", NOW),
        ("1795197600000", NOW),
        ("1795197600:7", NOW),
    ],
)
def test_forms(text: str, moment: datetime) -> None:
    assert parse_time(text, NOW, BERLIN) == moment
    assert parse_since(text, NOW, BERLIN).time == moment.replace(microsecond=0)


def test_no_zone_is_needed_where_local_time_is_utc() -> None:
    assert parse_time("02:15", NOW, UTC) == NOW.replace(hour=2, minute=15)
    assert parse_time("yesterday 14:30", NOW, UTC) == NOW.replace(day=19, hour=14, minute=30)
    assert parse_time("2026-11-20", NOW, UTC) == NOW.replace(hour=0)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("02:15", "2026-11-20T02:15"),
        ("yesterday 02:15", "2026-11-19T02:15"),
        ("2026-11-18 02:15:00", "2026-11-18T02:15"),
        ("2026-11-18", "2026-11-18T00:00"),
        ("2026-07-18 02:15", "2026-07-18T02:15"),
    ],
)
def test_a_time_that_may_be_utc_or_local_is_asked_about(text: str, utc: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_time(text, NOW, BERLIN)
    local = iso(datetime.fromisoformat(f"{utc}Z") - timedelta(hours=1))
    assert f"{text}Z for {utc}:00Z, {text} local for {local}." in refusal.value.advice
    assert refusal.value.position == len(text)


def test_whether_local_time_is_utc_depends_on_the_date(local_time: Callable[[str], None]) -> None:
    local_time("GMT0BST,M3.5.0/1,M10.5.0")
    assert parse_time("2026-11-20 02:15", NOW) == NOW.replace(hour=2, minute=15)
    with pytest.raises(AmbiguousTime, match="may be UTC or local"):
        parse_time("2026-07-20 02:15", NOW)


@pytest.mark.parametrize(
    ("text", "why"),
    [("2026-10-25 02:30 local", "was shown twice"), ("2026-03-29 02:30 local", "was skipped"),
     ("02:30 local yesterday", "was shown twice")],
)  # fmt: skip
def test_a_local_time_that_clocks_showed_twice_or_never_is_asked_about(
    text: str, why: str, local_time: Callable[[str], None]
) -> None:
    local_time("CET-1CEST,M3.5.0,M10.5.0/3")  # Berlin: changes on 2026-03-29 and 2026-10-25 at 01:00 UTC
    with pytest.raises(InputError, match=why) as refusal:
        parse_time(text, datetime(2026, 10, 26, 12, tzinfo=UTC))
    assert "T00:30:00Z or 2026" in refusal.value.advice
    assert "T01:30:00Z." in refusal.value.advice


def test_a_time_of_day_that_is_still_to_come_is_asked_about() -> None:
    with pytest.raises(InputError, match=r"still to come today\. Write yesterday 23:00"):
        parse_time("23:00", NOW, UTC)
    assert parse_time("yesterday 23:00", NOW, UTC) == NOW.replace(day=19, hour=23)


@pytest.mark.parametrize(
    ("bad", "position"),
    [
        ("", 0),
        ("yesterday", 9),
        ("\x1b[2J", 0),
        ("5:5:5", 5),
        ("4294967296:1", 0),
        ("2026-13-01", 5),
        ("2026-02-30", 8),
        (" 2026-11-20 25:00", 12),
        ("now+5m", 3),
        ("now-5x", 5),
        ("1M ago", 1),
        ("2 fortnights ago", 2),
        ("-99999999w", 0),
        ("1960-01-01", None),
        ("02:75Z", 3),
    ],
)
def test_a_text_that_is_no_time_is_refused_at_the_place_of_the_error(bad: str, position: int | None) -> None:
    with pytest.raises(InputError) as refusal:
        parse_since(bad, NOW, UTC)
    assert str(refusal.value).isprintable()
    assert refusal.value.position == position


def test_a_time_outside_the_oplog_is_refused_with_what_the_oplog_holds() -> None:
    first, last = Ts(1795197600, 1), Ts(1795197974, 14)
    for inside in (first, last, Ts(last.t, 99)):
        check_within(inside, first, last)
    for outside, where in ((Ts(1795197600, 0), "before the oplog begins"), (Ts(last.t + 1, 0), "after the last entry")):
        with pytest.raises(InputError, match=where) as refusal:
            check_within(outside, first, last)
        assert "2026-11-20T18:00:00Z to 2026-11-20T18:06:14Z" in refusal.value.advice


def test_iso_is_utc() -> None:
    assert iso(NOW) == "2026-11-20T18:00:00Z"
    assert iso(NOW + timedelta(milliseconds=7)) == "2026-11-20T18:00:00.007Z"
    assert parse_iso(iso(NOW)) == NOW
    for bad in ("now", "2026-11-20T18:00:00", "02:15", "0001-01-01T00:00:00+05:00"):
        with pytest.raises(InputError):
            parse_iso(bad)


@pytest.mark.parametrize(
    ("ts", "after"),
    [
        ((0, 0), (0, 1)),
        ((7, 2**32 - 2), (7, 2**32 - 1)),
        ((7, 2**32 - 1), (8, 0)),
        ((2**32 - 1, 2**32 - 1), (2**32 - 1, 2**32 - 1)),
    ],
)
def test_the_next_timestamp_is_one_that_a_server_can_be_asked_for(ts: tuple[int, int], after: tuple[int, int]) -> None:
    assert Timestamp(*Ts(*ts).next) == Timestamp(*after)
