"""Every form in which people write a moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tallyglass.errors import InputError
from tallyglass.moment import Ts, iso, parse_since, parse_time, parse_ts

NOW = datetime(2026, 11, 20, 18, 0, tzinfo=UTC)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_timestamp_is_read_back_as_written(t: int, i: int) -> None:
    assert parse_ts(str(Ts(t, i))) == parse_since(f" {t}:{i} ") == Ts(t, i)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", NOW),
        ("now-5m", NOW - timedelta(minutes=5)),
        ("-1.5h", NOW - timedelta(minutes=90)),
        ("2026-11-20T18:06:14Z", NOW + timedelta(minutes=6, seconds=14)),
        ("2026-11-20 19:06:14+01:00", NOW + timedelta(minutes=6, seconds=14)),
        ("2026-11-20", NOW.replace(hour=0)),
        ("1795197600", NOW),
        ("1795197600:7", NOW),
    ],
)
def test_forms(text: str, moment: datetime) -> None:
    assert parse_time(text, NOW) == moment
    assert parse_since(text, NOW).time == moment.replace(microsecond=0)


@pytest.mark.parametrize(
    "bad", ["", "yesterday", "\x1b[2J", "5:5:5", "4294967296:1", "2026-13-01", "now+5m", "-99999999w", "1960-01-01"]
)
def test_what_cannot_be_read_is_refused_without_control_bytes(bad: str) -> None:
    with pytest.raises(InputError) as told:
        parse_since(bad, NOW)
    assert str(told.value).isprintable()


def test_iso_is_utc() -> None:
    assert iso(NOW) == "2026-11-20T18:00:00Z"
    assert iso(NOW + timedelta(milliseconds=7)) == "2026-11-20T18:00:00.007Z"
