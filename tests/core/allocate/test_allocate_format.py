"""Formatted numbers can be parsed back, and a typing error is detected."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

pytest.importorskip("sqids")
pytest.importorskip("stdnum")

from tallyglass.allocate.format import (
    AsyncFormatted,
    Body,
    CheckDigit,
    Crockford,
    Damm,
    Digits,
    Formatted,
    Luhn,
    Mod97,
    NumberFormat,
    Parsed,
    ShortCode,
)

BODIES = [Digits(6, grow=True), Crockford(5, grow=True), ShortCode()]
NUMBERS = st.one_of(st.integers(0, 2**63 - 1), st.integers(0, 2_000_000))


@pytest.mark.parametrize(
    ("number_format", "text"),
    [
        (NumberFormat("INV", "%Y", Digits(6), Luhn()), "INV-2026-000042-5"),
        (NumberFormat("", "%y%m", Digits(4), separator=""), "26110042"),
        (NumberFormat("R", "", Crockford(4), Mod97(), "/"), "R/001A/59"),
        (NumberFormat("", "", Digits(3), Damm()), "042-7"),
        (NumberFormat("", "%j", Digits(2)), "325-42"),
    ],
)
def test_known_numbers(number_format: NumberFormat, text: str) -> None:
    day = date(2026, 11, 21)
    assert number_format.format(42, day) == text
    assert number_format.parse(text) == Parsed(42, number_format.period(day))


@settings(max_examples=150, deadline=None)
@example(7958, Crockford(5, grow=True), Mod97(), "%Y%m%d", "", "-", date(1099, 10, 27))
@given(
    NUMBERS,
    st.sampled_from(BODIES),
    st.sampled_from([None, Luhn(), Mod97(), Damm()]),
    st.sampled_from(["", "%Y", "%Y%m%d", "%j"]),
    st.sampled_from(["", "INV", "é/x"]),
    st.sampled_from(["-", "", "."]),
    st.dates(date(1000, 1, 1)),
)
def test_formatted_numbers_parse_back(
    number: int, body: Body, check: CheckDigit | None, when: str, prefix: str, separator: str, day: date
) -> None:
    try:
        made = NumberFormat(prefix, when, body, check, separator)
    except ValueError:
        assume(False)
    text = made.format(number, day)
    assert made.parse(text) == Parsed(number, made.period(day))
    if check is not None and not isinstance(body, ShortCode):
        at = len(text) - 1 - check.length - len(separator)
        # A letter counts as two digits: to mistake it for a digit is not always noticed.
        pair = "73" if text[at].isdigit() else "QR"
        other = pair[text[at] == pair[0]]
        with pytest.raises(ValueError, match=r"mistyped|format"):
            made.parse(text[:at] + other + text[at + 1 :])


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(BODIES), st.text(max_size=20))
def test_any_text_is_a_number_or_refused(body: Body, text: str) -> None:
    try:
        number = body.decode(text)
    except ValueError:
        return
    assert body.encode(number) in (text, text.upper().translate(str.maketrans("OIL", "011")))


def test_short_codes_differ_and_hide_their_order() -> None:
    codes = [ShortCode().encode(n) for n in range(2_000)]
    assert len(set(codes)) == 2_000
    assert all(len(code) >= 6 for code in codes)
    assert codes != sorted(codes)
    with pytest.raises(ValueError, match="not a number"):
        ShortCode(alphabet="".join(reversed(ShortCode().alphabet))).decode("######")


def test_a_body_of_no_given_width_has_one_digit() -> None:
    assert [Crockford().encode(n) for n in (0, 31)] == ["0", "Z"]
    with pytest.raises(ValueError, match="must not have more than 1"):
        Crockford().encode(32)


def test_a_number_that_does_not_fit_is_refused() -> None:
    for body in (Digits(3), Crockford(2)):
        with pytest.raises(ValueError, match="must not have more than"):
            body.encode(1_000_000)
    for wrong in ("", "12", "1234", "abc", "٣٣٣", "-12"):
        with pytest.raises(ValueError, match="not a number"):
            Digits(3).decode(wrong)
    for wrong in ("ß", "1ſ"):
        with pytest.raises(ValueError, match="not a number"):
            Crockford(2).decode(wrong)
    checked = NumberFormat(body=Crockford(4), check=Luhn())
    assert checked.parse("000k-s") == checked.parse("000K-S") == Parsed(19)
    with pytest.raises(ValueError, match="not in the format"):
        checked.parse("000K-ſ")
    with pytest.raises(ValueError, match="made of %Y"):
        NumberFormat(date="%B")
    with pytest.raises(ValueError, match="Damm"):
        NumberFormat(body=Crockford(3), check=Damm())


@pytest.mark.parametrize(("body", "widest"), [(Digits, 19), (Crockford, 13), (ShortCode, 255)])
def test_the_width_of_a_body_has_bounds(body: Any, widest: int) -> None:
    make = (lambda width: body(width=width)) if body is ShortCode else body
    assert make(1).decode(make(1).encode(1)) == 1
    assert len(make(widest).encode(1)) == widest
    for wrong in (0, widest + 1):
        with pytest.raises(ValueError, match=f"width must be from 1 to {widest}, not {wrong}"):
            make(wrong)


@pytest.mark.parametrize(
    ("directives", "right", "wrong"),
    [
        ("%m", ("01", "12"), ("00", "13", "1", "1a")),
        ("%d", ("01", "31"), ("00", "32")),
        ("%j", ("001", "366"), ("000", "367")),
        ("%y", ("00", "99"), ("1",)),
        ("%Y%j", ("2026366",), ("2026367", "202636")),
    ],
)
def test_a_date_is_read_within_its_bounds(directives: str, right: tuple[str, ...], wrong: tuple[str, ...]) -> None:
    dated = NumberFormat("N", directives, Digits(2))
    assert [dated.parse(f"N-{period}-07") for period in right] == [Parsed(7, period) for period in right]
    for text in (
        *(f"N-{period}-07" for period in wrong),
        f"N{right[0]}-07",
        f"M-{right[0]}-07",
        f"N-{right[0]}07",
        "N-",
        "",
    ):
        with pytest.raises(ValueError, match=r"is not in the format of N-\d+-00$"):
            dated.parse(text)


@pytest.mark.parametrize("text", ["20261301-000042", "20260001-000042", "20260132-000042", "20260100-000042"])
def test_a_number_of_a_day_that_no_year_has_is_refused(text: str) -> None:
    dated = NumberFormat(date="%Y%m%d")
    assert dated.parse("20261231-000042") == Parsed(42, "20261231")
    with pytest.raises(ValueError, match="not in the format"):
        dated.parse(text)


async def test_over_any_allocator() -> None:
    class Numbers:
        def next(self) -> int:
            return 7

        def take(self, n: int) -> range:
            return range(7, 7 + n)

    class AsyncNumbers:
        async def next(self) -> int:
            return 7

        async def take(self, n: int) -> range:
            return range(7, 7 + n)

    made, day = NumberFormat("T", "%Y", Digits(3)), datetime(2026, 5, 1, tzinfo=UTC)
    assert Formatted(Numbers(), made).next(day) == "T-2026-007"
    assert Formatted(Numbers(), made).take(2, day) == ["T-2026-007", "T-2026-008"]
    assert await AsyncFormatted(AsyncNumbers(), made).next(day) == "T-2026-007"
    assert await AsyncFormatted(AsyncNumbers(), made).take(2, day) == ["T-2026-007", "T-2026-008"]
