"""ObjectIds, compared with bson's own implementation, which the code under test does not use."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from bson import ObjectId, json_util
from hypothesis import given
from hypothesis import strategies as st

from tallyglass.errors import InputError
from tallyglass.objectid import decode, find_all, first_of, last_of, range_filter

ids = st.binary(min_size=12, max_size=12).map(ObjectId)
moments = st.datetimes(datetime(1970, 1, 1), datetime(2106, 2, 7, 6, 28, 14), timezones=st.just(UTC))  # noqa: DTZ001


@given(ids)
def test_decodes_ids_from_bson(oid: ObjectId) -> None:
    parts = decode(str(oid).upper())
    assert parts.hex == str(oid)
    assert parts.time == oid.generation_time
    assert bytes.fromhex(parts.random_hex) == oid.binary[4:9]
    assert parts.machine << 16 | parts.pid == int.from_bytes(oid.binary[4:9], "big")
    assert parts.counter == int.from_bytes(oid.binary[9:], "big")
    assert decode(f'ObjectId("{oid}")') == decode(json_util.dumps(oid)) == parts


@given(moments)
def test_first_and_last_enclose_their_second(moment: datetime) -> None:
    first, last = ObjectId(first_of(moment)), ObjectId(last_of(moment))
    inside = int(moment.timestamp()).to_bytes(4, "big")
    assert ObjectId.from_datetime(moment) == first
    assert first <= ObjectId(inside + b"\0" * 8) < ObjectId(inside + b"\xff" * 8) <= last


@given(moments, st.timedeltas(timedelta(milliseconds=1), timedelta(days=99)))
def test_range_filter_matches_every_id_in_range(start: datetime, span: timedelta) -> None:
    end = min(start + span, datetime(2106, 2, 7, 6, 28, 14, tzinfo=UTC))
    if start >= end:
        return
    text = range_filter(start, end).replace("ObjectId(", '{"$oid": ').replace(")", "}")
    bounds = json_util.loads(text)["_id"]
    newest = int((end - timedelta(microseconds=1)).timestamp()).to_bytes(4, "big")
    assert bounds["$gte"] <= ObjectId(int(start.timestamp()).to_bytes(4, "big") + b"\0" * 8)
    assert bounds["$lt"] > ObjectId(newest + b"\xff" * 8)
    assert bounds["$lt"].generation_time < end + timedelta(seconds=1)


def test_finds_each_id_in_a_text_once() -> None:
    a, b = "656b5e7d0f3c2a1b9d8e7f60", "656B5E7D0F3C2A1B9D8E7F61"
    text = f'E11000 dup key: {{ _id: ObjectId("{a}") }} near {b}, again {a.upper()} _id_{a}.'
    assert find_all(text) == (a, b.lower())
    assert find_all(f"sha {a}{b} {a}f {'g' + a}") == ()


@pytest.mark.parametrize(
    "bad", ["", "z" * 24, "656b5e7d", "656b5e7d0f3c2a1b9d8e7f600", "\x1b[2J", "ObjectId()", "9" * 900]
)
def test_refuses_invalid_ids_without_control_bytes(bad: str) -> None:
    with pytest.raises(InputError) as caught:
        decode(bad)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 250


def test_refuses_times_outside_the_objectid_range() -> None:
    for moment in (datetime(1969, 12, 31, tzinfo=UTC), datetime(2106, 2, 8, tzinfo=UTC)):
        with pytest.raises(InputError, match="1970"):
            first_of(moment)
    assert first_of(datetime(1970, 1, 1, tzinfo=UTC)) == "0" * 24
    assert last_of(datetime(2106, 2, 7, 6, 28, 15, tzinfo=UTC)) == "f" * 24
    for moment in (datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC), datetime(2106, 2, 7, 6, 28, 16, tzinfo=UTC)):
        with pytest.raises(InputError, match="No ObjectId has the time"):
            last_of(moment)
    with pytest.raises(InputError, match="empty"):
        range_filter(datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))
